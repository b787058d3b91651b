"""The database keeps what it was told, refuses a second daemon, and loses no update."""

import threading
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from sqlalchemy import create_engine, inspect
from sqlalchemy.exc import IntegrityError, OperationalError, StatementError
from sqlmodel import Session, SQLModel, col, select, update

from daemon.database import AlreadyRunning, Database, Fenced, Unusable, open_database, open_reader
from daemon.models import Attempt, Event, Installation, Job, Ledger, Machine
from tests.fakes.clock import START


def a_job(job_id: str = "j1", **values: object) -> Job:
    fixed: dict[str, object] = {
        "id": job_id,
        "name": "train",
        "user": "wei",
        "project": "vision",
        "state": "queued",
        "state_since": START,
        "content_key": job_id,
        "submitted_at": START,
    }
    return Job(**(fixed | values))


def a_machine(machine_id: str = "m1", **values: object) -> Machine:
    fixed: dict[str, object] = {
        "id": machine_id,
        "token": machine_id,
        "state": "running",
        "state_since": START,
        "cloud": "fake",
        "region": "r",
        "zone": "z",
        "type": "t",
        "market": "spot",
        "gpu": "T4",
        "gpus": 1,
        "intended_at": START,
        "job_id": "j1",
        "user": "wei",
        "project": "vision",
    }
    return Machine(**(fixed | values))


def an_attempt(n: int, state: str) -> Attempt:
    return Attempt(id=f"j1-{n}", job_id="j1", n=n, machine_id="m1", state=state, state_since=START, created_at=START)


def test_a_migrated_database_has_exactly_the_tables_of_the_models(database: Database) -> None:
    fresh = create_engine("sqlite://")
    SQLModel.metadata.create_all(fresh)
    migrated, wanted = inspect(database.engine), inspect(fresh)
    assert set(migrated.get_table_names()) - {"alembic_version"} == set(wanted.get_table_names())
    for table in wanted.get_table_names():
        assert {c["name"]: (str(c["type"]), c["nullable"]) for c in migrated.get_columns(table)} == {
            c["name"]: (str(c["type"]), c["nullable"]) for c in wanted.get_columns(table)
        }, table
        assert {i["name"] for i in migrated.get_indexes(table)} == {i["name"] for i in wanted.get_indexes(table)}, table
    fresh.dispose()


def test_times_come_back_aware_and_exact(database: Database) -> None:
    at = START + timedelta(microseconds=123_457)
    with database.write() as session:
        session.add(Event(at=at, code="a"))
    with database.write() as session:
        assert session.exec(select(Event.at)).one() == at


def test_a_naive_time_is_refused(database: Database) -> None:
    with pytest.raises(StatementError, match="without a zone"), database.write() as session:
        session.add(Event(at=datetime(2026, 1, 1), code="a"))  # noqa: DTZ001


def test_no_update_is_lost_between_threads(database: Database) -> None:
    """With SQLAlchemy's own way of beginning, three of four such updates vanish without an error."""
    with database.write() as session:
        session.add(a_job())

    def add_a_hundred() -> None:
        for _ in range(100):
            with database.write() as session:
                job = session.get_one(Job, "j1")
                job.failures += 1

    threads = [threading.Thread(target=add_a_hundred) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with database.write() as session:
        assert session.get_one(Job, "j1").failures == 400


def test_an_error_inside_a_transaction_rolls_all_of_it_back(database: Database) -> None:
    with pytest.raises(ZeroDivisionError), database.write() as session:
        session.add(a_job())
        session.flush()
        raise ZeroDivisionError
    with database.write() as session:
        assert session.get(Job, "j1") is None


@pytest.mark.parametrize("verb", ["UPDATE {} SET amount_micro = 0", "DELETE FROM {}"])
def test_the_ledger_is_append_only(database: Database, verb: str) -> None:
    with database.write() as session:
        session.add(Ledger(machine_id="m1", job_id="j1", user="u", project="p", cloud="c", from_at=START, to_at=START))
    with pytest.raises(IntegrityError, match="append-only"), database.write() as session:
        session.connection().exec_driver_sql(verb.format("ledger"))


def test_events_are_append_only(database: Database) -> None:
    with database.write() as session:
        session.add(Event(at=START, code="a"))
    with pytest.raises(IntegrityError, match="append-only"), database.write() as session:
        session.connection().exec_driver_sql("DELETE FROM event")


def test_the_same_interval_of_a_machine_can_not_be_billed_twice(database: Database) -> None:
    def bill(session: Session) -> None:
        session.add(Ledger(machine_id="m1", job_id="j1", user="u", project="p", cloud="c", from_at=START, to_at=START))

    with database.write() as session:
        bill(session)
    with pytest.raises(IntegrityError), database.write() as session:
        bill(session)


@pytest.mark.parametrize(
    ("first", "second", "allowed"),
    [
        ("running", "running", False),
        ("running", "saving", False),
        ("placed", "ready", False),
        ("running", "placed", True),
        ("saving", "ready", True),
        ("ended", "running", True),
    ],
)
def test_a_job_has_one_writer_and_one_successor_at_most(
    database: Database, first: str, second: str, allowed: bool
) -> None:
    with database.write() as session:
        session.add_all([a_job(), a_machine()])
        session.flush()
        session.add(an_attempt(0, first))
    try:
        with database.write() as session:
            session.add(an_attempt(1, second))
        happened = True
    except IntegrityError:
        happened = False
    assert happened == allowed


def test_a_second_daemon_on_the_same_file_is_refused(database: Database, tmp_path: Path) -> None:
    with pytest.raises(AlreadyRunning, match="already runs"):
        open_database(tmp_path / "frugald.db", "other", START)


def test_a_daemon_that_was_taken_over_can_write_no_more(database: Database) -> None:
    with database.engine.begin() as connection:
        connection.exec_driver_sql("UPDATE installation SET epoch = epoch + 1")
    with pytest.raises(Fenced), database.write() as session:
        session.add(Event(at=START, code="late"))


def test_the_install_id_stays_and_the_epoch_grows(database: Database, tmp_path: Path) -> None:
    database.close()
    again = open_database(tmp_path / "frugald.db", "another", START)
    assert (again.install_id, again.epoch) == ("install", database.epoch + 1)
    again.close()


def test_a_database_of_a_newer_version_is_refused(database: Database, tmp_path: Path) -> None:
    with database.engine.begin() as connection:
        connection.exec_driver_sql("UPDATE alembic_version SET version_num = '9999'")
    database.close()
    with pytest.raises(Unusable, match="newer frugald"):
        open_database(tmp_path / "frugald.db", "install", START)


def test_a_reader_sees_what_was_committed_and_can_not_write(database: Database, tmp_path: Path) -> None:
    with database.write() as session:
        session.add(a_job())
    engine = open_reader(tmp_path / "frugald.db")
    with Session(engine) as session:
        assert session.exec(select(Job.id)).all() == ["j1"]
        with pytest.raises(OperationalError, match="readonly"):
            session.execute(update(Installation).values(epoch=99))
    engine.dispose()


def test_errors_do_not_show_what_was_written(database: Database) -> None:
    secret = "hunter2"
    with database.write() as session:
        session.add(a_job(spec={"envs": {"KEY": secret}}))
    with pytest.raises(IntegrityError) as caught, database.write() as session:
        session.add(a_job(spec={"envs": {"KEY": secret}}))
    assert secret not in str(caught.value)


def test_open_jobs_with_the_same_content_are_one_and_ended_ones_are_not(database: Database) -> None:
    with database.write() as session:
        session.add_all([a_job("j1", content_key="k", state="succeeded"), a_job("j2", content_key="k")])
    with pytest.raises(IntegrityError), database.write() as session:
        session.add(a_job("j3", content_key="k", state="held"))
    with database.write() as session:
        assert len(session.exec(select(Job).where(col(Job.content_key) == "k")).all()) == 2
