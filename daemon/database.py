"""The database: one writer, short transactions, and no second daemon on the same file."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import IO, Any

from sqlalchemy import Connection, Engine, create_engine, event, text
from sqlmodel import Session

from daemon.migrations import HEAD

_PRAGMAS = ("journal_mode=WAL", "synchronous=FULL", "busy_timeout=5000", "foreign_keys=ON", "trusted_schema=OFF")
# Where WAL's shared memory does not work: NFS, CIFS/SMB, FUSE, 9p, Ceph (statfs(2)'s f_type, from linux/magic.h).
_NETWORK_FILE_SYSTEMS = {
    0x6969: "NFS",
    0xFF534D42: "CIFS",
    0xFE534D42: "SMB2",
    0x65735546: "FUSE",
    0x01021997: "9p",
    0x00C36400: "Ceph",
}


class AlreadyRunning(Exception):
    """Another daemon owns this database: stop it first."""


class Unusable(Exception):
    """The database file can't be used here; the message says why and what to do."""


class Fenced(Exception):
    """A newer daemon owns this database: this one must stop at once."""


class Database:
    """The one writer. Every write transaction first checks that no newer daemon has taken over."""

    def __init__(self, engine: Engine, epoch: int, install_id: str, lock: IO[str]) -> None:
        self.engine = engine
        self.epoch = epoch
        self.install_id = install_id
        self._lock = lock

    @contextmanager
    def write(self) -> Iterator[Session]:
        """Open a short transaction that commits at the end of the block and rolls back on any error. Raises Fenced."""
        with Session(self.engine, expire_on_commit=False) as session, session.begin():
            if session.connection().exec_driver_sql("SELECT epoch FROM installation").scalar_one() != self.epoch:
                raise Fenced("a newer frugald has taken this database over")
            yield session

    def close(self) -> None:
        """Let the file go, with its write-ahead log folded in."""
        self.engine.dispose()
        self._lock.close()


def open_database(path: Path, install_id: str, now: datetime) -> Database:
    """Take the database at `path` for this process, creating or migrating it. Raises AlreadyRunning, Unusable."""
    path.parent.mkdir(parents=True, exist_ok=True)
    _refuse_network_file_system(path.parent)
    lock = _lock(path.with_suffix(".lock"))
    engine = _engine(f"sqlite:///{path}")
    try:
        _migrate(engine, path)
        with engine.begin() as connection:
            epoch, install_id = _take_over(connection, install_id, now)
    except BaseException:
        engine.dispose()
        lock.close()
        raise
    return Database(engine, epoch, install_id, lock)


def open_reader(path: Path) -> Engine:
    """Open an engine that can only read, for the API; any number of threads may use it."""
    engine = create_engine(f"sqlite:///{path}", hide_parameters=True, pool_size=4)

    @event.listens_for(engine, "connect")
    def _connect(connection: Any, _record: object) -> None:  # noqa: ANN401 - the DBAPI's own connection
        connection.execute("PRAGMA busy_timeout=5000")
        connection.execute("PRAGMA query_only=ON")

    return engine


def _engine(url: str) -> Engine:
    engine = create_engine(url, hide_parameters=True)

    @event.listens_for(engine, "connect")
    def _connect(connection: Any, _record: object) -> None:  # noqa: ANN401
        connection.isolation_level = None  # we say BEGIN ourselves: pysqlite's own way loses updates silently
        for pragma in _PRAGMAS:
            connection.execute(f"PRAGMA {pragma}")

    @event.listens_for(engine, "begin")
    def _begin(connection: Connection) -> None:
        connection.exec_driver_sql("BEGIN IMMEDIATE")

    return engine


def _lock(path: Path) -> IO[str]:
    file = path.open("a+")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        file.seek(0)
        owner = file.read().strip() or "another process"
        file.close()
        raise AlreadyRunning(f"frugald already runs on {path.parent} (process {owner}): stop it first") from error
    file.truncate(0)
    file.write(str(os.getpid()))
    file.flush()
    return file


def _refuse_network_file_system(folder: Path) -> None:
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    answer = ctypes.create_string_buffer(256)
    if libc.statfs(os.fsencode(folder), answer) != 0:
        return
    kind = int.from_bytes(answer.raw[:4], "little")
    if kind in _NETWORK_FILE_SYSTEMS:
        raise Unusable(
            f"{folder} lies on {_NETWORK_FILE_SYSTEMS[kind]}, where SQLite loses data: set `state_dir` to a local disk"
        )


def _migrate(engine: Engine, path: Path) -> None:
    with engine.connect() as connection:
        tables = connection.exec_driver_sql("SELECT name FROM sqlite_master WHERE name='alembic_version'").all()
        found = connection.exec_driver_sql("SELECT version_num FROM alembic_version").scalar() if tables else None
        connection.rollback()
    if found == HEAD:
        return
    from daemon.migrations.upgrade import upgrade

    upgrade(engine, found, path)


def _take_over(connection: Connection, install_id: str, now: datetime) -> tuple[int, str]:
    micros = int(now.timestamp() * 1_000_000)
    connection.execute(
        text(
            "INSERT INTO installation (id, install_id, epoch, started_at) VALUES (1, :install, 0, :now) ON CONFLICT DO NOTHING"
        ),
        {"install": install_id, "now": micros},
    )
    connection.execute(text("UPDATE installation SET epoch = epoch + 1, started_at = :now"), {"now": micros})
    epoch, owner = connection.execute(text("SELECT epoch, install_id FROM installation")).one()
    return int(epoch), str(owner)
