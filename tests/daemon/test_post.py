"""Carrying alerts out: in order, at a pace, past a dead endpoint, and over a restart."""

import base64
import random
import shutil
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlmodel import col, select

from config.clock import SystemClock
from config.settings import Settings
from daemon.calls import Calls, InlineCalls, ThreadCalls
from daemon.control import Control
from daemon.database import open_database
from daemon.demo.receiver import Receiver
from daemon.events import Journal
from daemon.models import Outbox
from daemon.post import Post, alerting
from daemon.world import Ids, World
from runner.store.memory import MemoryStore
from tests.fakes.clock import FakeClock

SECRET = "whsec_" + base64.b64encode(b"s" * 32).decode()


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    receiver = Receiver({"a": SECRET, "b": SECRET})
    receiver.start()
    yield receiver
    receiver.close()


class Office:
    """The Post with a database, a receiver and a clock that the test moves."""

    def __init__(self, path: Path, receiver: Receiver, kind: str = "webhook", *, threads: bool = False) -> None:
        # The receiver's package compares with this computer's clock, so time starts there.
        self.clock = FakeClock(SystemClock().now())
        self.path = path
        self.settings = Settings.model_validate(
            {
                "state_dir": str(path.parent),
                "alerts": [
                    {"name": name, "kind": kind, "url": receiver.url(name), "secret": SECRET, "allow_private": True}
                    for name in ("a", "b")
                ],
            }
        )
        self.threads = threads
        self.start()

    def start(self) -> None:
        self.control = Control()
        self.done = threading.Condition()
        self.calls: Calls = ThreadCalls(self._post) if self.threads else InlineCalls(self.control.post)
        rng = random.Random(3)
        self.database = open_database(self.path, "install", self.clock.now())
        self.world = World(
            settings=self.settings,
            clock=self.clock,
            rng=rng,
            ids=Ids(rng),
            database=self.database,
            journal=Journal(alerting(self.settings, lambda: "install")),
            store=MemoryStore(),
            calls=self.calls,
            providers={},
            sources=(),
        )
        self.post = Post(self.world)

    def _post(self, work: Any) -> None:
        self.control.post(work)
        with self.done:
            self.done.notify_all()

    def close(self) -> None:
        self.calls.close()
        self.database.close()

    def emit(self, *codes: str) -> None:
        with self.database.write() as session:
            for code in codes:
                self.world.journal.emit(session, self.clock.now(), code, source="aws", why="it rained")

    def step(self, seconds: float = 0) -> None:
        self.clock.advance(seconds)
        self.post.run_once(self.clock.now())
        self.control.drain()

    def rows(self, endpoint: str) -> list[Outbox]:
        with self.database.write() as session:
            return list(session.exec(select(Outbox).where(Outbox.endpoint == endpoint).order_by(col(Outbox.id))))


@pytest.fixture
def office(template: Path, tmp_path: Path, receiver: Receiver) -> Iterator[Office]:
    path = tmp_path / "frugald.db"
    shutil.copy(template, path)
    office = Office(path, receiver)
    yield office
    office.close()


def got(receiver: Receiver, name: str) -> list[str]:
    return [r.json["type"] for r in receiver.received if r.path.startswith(f"/{name}")]


def test_every_endpoint_gets_every_alert_in_order_and_signed(office: Office, receiver: Receiver) -> None:
    office.emit("source.down", "source.up", "daemon.stopped")
    for _ in range(3):
        office.step()
    assert got(receiver, "a") == got(receiver, "b") == ["source.down", "source.up", "daemon.stopped"]
    assert all(r.valid for r in receiver.received)
    assert all(row.delivered_at and row.tries == 1 for row in office.rows("a"))


def test_a_failing_endpoint_keeps_its_order_and_delays_no_other(office: Office, receiver: Receiver) -> None:
    receiver.answers["a"] = [(500, {}, b"no"), (503, {"Retry-After": "600"}, b"later")]
    office.emit("source.down", "source.up")
    for _ in range(3):
        office.step()
    assert got(receiver, "b") == ["source.down", "source.up"]
    assert got(receiver, "a") == ["source.down"]
    office.step(6)
    assert got(receiver, "a") == ["source.down"] * 2
    office.step(599)
    assert got(receiver, "a") == ["source.down"] * 2
    office.step(1)
    office.step()
    assert got(receiver, "a") == [*["source.down"] * 3, "source.up"]
    assert len({r.headers["webhook-id"] for r in receiver.received if r.path == "/a"}) == 2


def test_what_waits_is_sent_after_a_restart_with_its_tries(office: Office, receiver: Receiver) -> None:
    receiver.answers["a"] = [(500, {}, b"no")]
    office.emit("source.down")
    office.step()
    office.close()
    office.start()
    office.step()
    assert got(receiver, "a") == ["source.down"], "a restart is no reason to try before the time"
    office.step(6)
    assert got(receiver, "a") == ["source.down"] * 2
    (row,) = office.rows("a")
    assert (row.tries, bool(row.delivered_at)) == (2, True)


def test_a_crash_between_the_answer_and_the_note_of_it_sends_the_same_message_again(
    office: Office, receiver: Receiver
) -> None:
    office.emit("source.down")
    office.post.run_once(office.clock.now())  # sent, and the result never looked at
    office.close()
    office.start()
    office.step()
    ids = [r.headers["webhook-id"] for r in receiver.received if r.path == "/a"]
    assert len(ids) == 2
    assert len(set(ids)) == 1


def test_an_endpoint_that_is_gone_is_left_alone_and_its_messages_are_listed(office: Office, receiver: Receiver) -> None:
    receiver.answers["a"] = [(410, {}, b"gone")]
    office.emit("source.down", "source.up")
    office.step()
    office.emit("daemon.stopped")
    for _ in range(5):
        office.step(3600)
    assert len(got(receiver, "a")) == 1
    assert all(row.dead_at for row in office.rows("a"))
    assert len(got(receiver, "b")) == 3


def test_a_chat_is_written_to_at_its_pace(template: Path, tmp_path: Path, receiver: Receiver) -> None:
    shutil.copy(template, tmp_path / "frugald.db")
    office = Office(tmp_path / "frugald.db", receiver, "wecom")
    receiver.answers = {name: [(200, {}, b'{"errcode":0,"errmsg":"ok"}')] * 5 for name in ("a", "b")}
    office.emit("source.down")
    office.step()
    office.emit("source.up", "source.down", "source.up")
    office.step(1)
    assert len([r for r in receiver.received if r.path == "/a"]) == 1
    office.step(2)
    (_, joined) = [r for r in receiver.received if r.path == "/a"]
    assert joined.json["text"]["content"].count("[frugald]") == 3
    office.close()


def test_an_endpoint_that_does_not_answer_holds_no_other_up(template: Path, tmp_path: Path) -> None:
    shutil.copy(template, tmp_path / "frugald.db")
    free = threading.Event()
    receiver = _Slow({"a": SECRET, "b": SECRET}, free)
    receiver.start()
    office = Office(tmp_path / "frugald.db", receiver, threads=True)
    try:
        office.emit("source.down", "source.up")
        with office.done:
            office.post.run_once(office.clock.now())
            for _ in range(2):  # both of `b` are answered while `a` has not answered its first
                assert office.done.wait_for(lambda: not office.control.messages.empty(), 10)
                office.control.drain()
        assert got(receiver, "b") == ["source.down", "source.up"]
        assert all(row.delivered_at for row in office.rows("b"))
        assert not any(row.delivered_at for row in office.rows("a"))
        assert office.post.run_once(office.clock.now() + timedelta(hours=1)) == {"tries": 0}, "one try at a time"
    finally:
        free.set()
        office.close()
        receiver.close()


class _Slow(Receiver):
    """Answers `a` only when it is told to."""

    def __init__(self, secrets: dict[str, str], free: threading.Event) -> None:
        super().__init__(secrets)
        self._free = free

    def _take(self, request: Any) -> None:
        if request.path == "/a":
            assert self._free.wait(30)
        super()._take(request)


def test_without_endpoints_there_is_nothing_to_do(office: Office) -> None:
    settings = Settings.model_validate({"state_dir": str(office.path.parent)})
    office.world.settings = settings
    assert Post(office.world).run_once(datetime(2026, 1, 1, tzinfo=UTC)) == {"tries": 0}
