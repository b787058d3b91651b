"""Bring a database to the newest version, after a copy of it when there is anything in it."""

from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from alembic.util.exc import CommandError
from sqlalchemy import Engine

from daemon.migrations import HEAD


def upgrade(engine: Engine, found: str | None, path: Path) -> None:
    """Migrate to HEAD in one transaction. Raises Unusable for a database of a newer frugald."""
    from daemon.database import Unusable

    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent))
    try:
        if found is not None:
            ScriptDirectory.from_config(config).get_revision(found)
    except CommandError as error:
        raise Unusable(f"{path} was written by a newer frugald (version {found}): install that one again") from error
    if found is not None:
        _copy(engine, path.with_name(f"{path.name}.before-{HEAD}"))
    with engine.begin() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, "head")


def _copy(engine: Engine, target: Path) -> None:
    target.unlink(missing_ok=True)
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.connection.driver_connection.execute("VACUUM INTO ?", (str(target),))  # type: ignore[union-attr]
