"""The clouds' bills beside the ledger"""

import sqlalchemy as sa
from alembic import op

from daemon import models

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    op.create_table(
        "bill_check",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("cloud", sa.String(), nullable=False),
        sa.Column("day", sa.String(), nullable=False),
        sa.Column("machine", sa.String(), nullable=False),
        sa.Column("ledger_micro", sa.BigInteger(), nullable=False),
        sa.Column("billed_micro", sa.BigInteger(), nullable=False),
        sa.Column("estimated", sa.Boolean(), nullable=False),
        sa.Column("checked_at", models.Utc(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("cloud", "day", "machine"),
    )
