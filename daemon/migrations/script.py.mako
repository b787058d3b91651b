"""${message}"""

import sqlalchemy as sa
import sqlmodel
from alembic import op

from daemon import models

revision = ${repr(up_revision)}
down_revision = ${repr(down_revision)}


def upgrade() -> None:
    ${upgrades if upgrades else "pass"}
