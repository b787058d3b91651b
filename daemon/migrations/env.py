"""Alembic's entry: migrate on the connection that the daemon hands over."""

from alembic import context
from sqlmodel import SQLModel

from daemon import models

assert models.Job.metadata is SQLModel.metadata  # noqa: S101 - the tables must be known before a comparison

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=SQLModel.metadata,
    render_as_batch=True,
    transactional_ddl=True,
)
with context.begin_transaction():
    context.run_migrations()
