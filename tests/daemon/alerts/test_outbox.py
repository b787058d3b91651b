"""The outbox: in order, tried again for days, switched off when told to, listed when given up."""

import random
from datetime import timedelta

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlmodel import delete, select, update

from config.settings import AlertSettings
from daemon.alerts import Outcome, apply, dead_letters, next_batch, outbox_rows
from daemon.alerts.envelope import envelope
from daemon.alerts.outbox import SCHEDULE, wait_after
from daemon.database import Database
from daemon.events import Journal
from daemon.models import Endpoint, Event, Outbox
from tests.fakes.clock import START

OPS = AlertSettings(name="ops", url="https://example.org/x")
MONEY = AlertSettings(name="money", url="https://example.org/y", events=("budget.*",))
CHAT = AlertSettings(name="chat", kind="slack", url="https://example.org/z")
ENDPOINTS = {e.name: e for e in (OPS, MONEY, CHAT)}
NO = Outcome(delivered=False, answer="500 no")
YES = Outcome(delivered=True, answer="204")
RNG = random.Random(1)


@pytest.fixture
def journal() -> Journal:
    return Journal(lambda event: outbox_rows(event, list(ENDPOINTS.values()), "install"))


def emit(database: Database, journal: Journal, *codes: str) -> None:
    with database.write() as session:
        for code in codes:
            journal.emit(session, START, code, why="it rained")


def batch(database: Database, at: timedelta = timedelta(0), busy: set[str] | None = None) -> dict[str, tuple[int, ...]]:
    with database.write() as session:
        return {d.endpoint: d.ids for d in next_batch(session, ENDPOINTS, START + at, busy or set())}


def settle(database: Database, name: str, outcome: Outcome, at: timedelta = timedelta(0)) -> None:
    with database.write() as session:
        for delivery in next_batch(session, {name: ENDPOINTS[name]}, START + at, set()):
            apply(session, delivery, outcome, START + at, RNG)


def test_an_event_becomes_a_message_for_each_endpoint_that_wants_it(database: Database, journal: Journal) -> None:
    emit(database, journal, "source.up", "budget.reached", "checkpoint.saved")
    with database.write() as session:
        rows = session.exec(select(Outbox).order_by(Outbox.id)).all()  # type: ignore[arg-type]
    assert [(r.endpoint, r.payload["type"]) for r in rows] == [
        ("ops", "source.up"), ("chat", "source.up"), ("ops", "budget.reached"), ("money", "budget.reached"), ("chat", "budget.reached"),
    ]  # fmt: skip


def test_nothing_is_sent_for_what_was_rolled_back(database: Database, journal: Journal) -> None:
    with pytest.raises(ZeroDivisionError), database.write() as session:
        journal.emit(session, START, "source.up")
        raise ZeroDivisionError
    assert batch(database) == {}


def test_a_webhook_gets_one_message_at_a_time_and_a_chat_several_at_once(database: Database, journal: Journal) -> None:
    emit(database, journal, "source.up", "source.down")
    found = batch(database)
    assert (len(found["ops"]), len(found["chat"])) == (1, 2)
    assert "ops" not in batch(database, busy={"ops"})


def test_a_failing_endpoint_holds_its_own_queue_in_order_and_no_other(database: Database, journal: Journal) -> None:
    emit(database, journal, "budget.reached", "source.up")
    settle(database, "ops", NO)
    settle(database, "money", YES)
    assert "ops" not in batch(database, timedelta(seconds=1))
    first = batch(database, timedelta(seconds=10))["ops"]
    settle(database, "ops", YES, timedelta(seconds=10))
    assert batch(database, timedelta(seconds=10))["ops"] > first


def test_after_three_days_of_failures_a_message_is_a_dead_letter(database: Database, journal: Journal) -> None:
    emit(database, journal, "budget.reached")
    at = timedelta(0)
    for wait in (*SCHEDULE, timedelta(0)):
        settle(database, "money", NO, at)
        at += wait * 1.2
    with database.write() as session:
        (dead,) = dead_letters(session)
    assert (dead.endpoint, dead.tries, dead.last_answer) == ("money", len(SCHEDULE) + 1, "500 no")
    assert "money" not in batch(database, timedelta(days=30))


def test_retry_after_is_honoured_within_a_day() -> None:
    assert wait_after(0, timedelta(minutes=7), RNG) == timedelta(minutes=7)
    assert wait_after(0, timedelta(days=400), RNG) == timedelta(days=1)
    assert wait_after(len(SCHEDULE), timedelta(minutes=7), RNG) is None


def test_410_switches_the_endpoint_off_and_says_so(database: Database, journal: Journal) -> None:
    emit(database, journal, "budget.reached", "budget.threshold")
    settle(database, "money", Outcome(delivered=False, answer="410 gone", switch_off=True))
    emit(database, journal, "budget.reached")
    assert "money" not in batch(database, timedelta(days=1))
    with database.write() as session:
        assert session.get_one(Endpoint, "money").disabled_because == "410 gone"
        assert len(dead_letters(session)) == 3


def test_a_log_tail_never_makes_the_body_too_large() -> None:
    event = Event(id=1, at=START, code="job.failed", values={"job": "x", "log_tail": "é" * 100_000})
    assert len(str(envelope(event, "install"))) < 20_000


def test_a_server_that_always_asks_for_a_second_does_not_use_up_the_tries_at_once() -> None:
    assert wait_after(3, timedelta(seconds=1), RNG) >= SCHEDULE[3]  # type: ignore[operator]


def test_a_message_that_is_joined_to_a_dying_one_keeps_its_own_tries(database: Database, journal: Journal) -> None:
    emit(database, journal, "source.up")
    with database.write() as session:
        session.execute(update(Outbox).where(Outbox.endpoint == "chat").values(tries=len(SCHEDULE)))  # type: ignore[arg-type]
    emit(database, journal, "source.down")
    settle(database, "chat", NO)
    with database.write() as session:
        assert [row.payload["type"] for row in dead_letters(session)] == ["source.up"]
    assert len(batch(database, timedelta(minutes=1))["chat"]) == 1


def test_a_long_queue_is_not_tried_for_three_days_each(database: Database, journal: Journal) -> None:
    emit(database, journal, *["budget.reached"] * 50)
    at = timedelta(0)
    while "money" in batch(database, at + timedelta(days=2)):
        at += timedelta(days=2)
        settle(database, "money", NO, at)
        assert at < timedelta(days=200)
    with database.write() as session:
        assert len(dead_letters(session)) == 50


@given(st.lists(st.sampled_from([YES, NO, NO]), max_size=25), st.integers(1, 6))
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_whatever_is_answered_the_order_stays(
    database: Database, journal: Journal, answers: list[Outcome], count: int
) -> None:
    with database.write() as session:
        session.execute(delete(Outbox))
    emit(database, journal, *["budget.reached"] * count)
    with database.write() as session:
        order = [row.id for row in session.exec(select(Outbox).where(Outbox.endpoint == "money"))]
    sent: list[int] = []
    for n, answer in enumerate(answers):
        at = timedelta(hours=n)
        found = batch(database, at).get("money", ())
        settle(database, "money", answer, at)
        sent += found if answer is YES else ()
    assert sent == order[: len(sent)]
