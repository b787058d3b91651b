"""How the database grows from one version to the next; run at start."""

HEAD = "0002"
"""The newest version: the daemon imports Alembic only when a database is not at it."""
