"""What the daemon's tests share: a migrated database, copied instead of made anew for each test."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from daemon.database import Database, open_database
from tests.fakes.clock import START


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("database") / "frugald.db"
    open_database(path, "install", START).close()
    return path


@pytest.fixture
def database(template: Path, tmp_path: Path) -> Iterator[Database]:
    path = tmp_path / "frugald.db"
    shutil.copy(template, path)
    database = open_database(path, "install", START)
    yield database
    database.close()
