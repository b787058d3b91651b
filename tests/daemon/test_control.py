"""The control thread, its calls and its metronome."""

import threading
from datetime import UTC, datetime, timedelta

import pytest

from config.clock import SystemClock
from daemon.calls import InlineCalls, ThreadCalls
from daemon.control import Control
from daemon.database import Fenced
from daemon.loops import Metronome
from tests.fakes.clock import START


class Counter:
    def __init__(self, error: Exception | None = None) -> None:
        self.runs: list[datetime] = []
        self.error = error

    def run_once(self, now: datetime) -> dict[str, int]:
        self.runs.append(now)
        if self.error:
            raise self.error
        return {"runs": 1}


def test_a_loop_that_is_asked_for_twice_before_it_ran_runs_once() -> None:
    control, loop = Control(), Counter()
    control.loops["a"] = loop
    control.due("a", lambda: START)
    control.due("a", lambda: START)
    assert control.drain() == 1
    control.due("a", lambda: START)
    control.drain()
    assert len(loop.runs) == 2


def test_a_loop_that_fails_is_reported_and_stops_no_other() -> None:
    control, bad, good = Control(), Counter(ZeroDivisionError("oh")), Counter()
    control.loops |= {"bad": bad, "good": good}
    told: list[str] = []
    control.on_failure = lambda name, error: told.append(f"{name}: {error}")
    control.due("bad", lambda: START)
    control.due("good", lambda: START)
    control.drain()
    assert told == ["bad: oh"]
    assert control.failed == {"bad": "oh"}
    bad.error = None
    control.due("bad", lambda: START)
    control.drain()
    assert control.failed == {}


def test_a_daemon_that_was_taken_over_ends() -> None:
    control = Control()
    control.loops["a"] = Counter(Fenced("a newer one"))
    control.due("a", lambda: START)
    with pytest.raises(Fenced):
        control.serve()


def test_stop_lets_what_is_queued_already_be_done() -> None:
    control, loop = Control(), Counter()
    control.loops["a"] = loop
    control.due("a", lambda: START)
    control.stop()
    control.post(lambda: pytest.fail("this came after the stop"))
    control.serve()
    assert len(loop.runs) == 1


def test_calls_run_on_other_threads_and_come_back_to_the_control_thread() -> None:
    control = Control()
    calls = ThreadCalls(control.post)
    seen: list[object] = []
    calls.submit("cloud:a", threading.get_ident, seen.append)
    calls.submit("cloud:b", lambda: 1 / 0, seen.append)
    while len(seen) < 2:
        message = control.messages.get(timeout=10)
        assert message is not None
        message()
    calls.close()
    assert threading.get_ident() not in seen
    assert sum(isinstance(outcome, ZeroDivisionError) for outcome in seen) == 1


def test_a_lane_that_hangs_delays_no_other() -> None:
    control, hang = Control(), threading.Event()
    calls = ThreadCalls(control.post, threads=1)
    calls.submit("cloud:hung", hang.wait, lambda _: None)
    seen: list[object] = []
    calls.submit("cloud:quick", lambda: "done", seen.append)
    message = control.messages.get(timeout=10)
    assert message is not None
    message()
    assert seen == ["done"]
    hang.set()
    calls.close()


def test_inline_calls_leave_their_result_on_the_queue() -> None:
    control = Control()
    seen: list[object] = []
    InlineCalls(control.post).submit("x", lambda: 7, seen.append)
    assert seen == []
    control.drain()
    assert seen == [7]


def test_the_metronome_ticks_for_every_loop_at_once_and_again() -> None:
    ticks: dict[str, int] = {"a": 0, "b": 0}
    enough = threading.Event()

    def due(name: str) -> None:
        ticks[name] += 1
        if min(ticks.values()) >= 2:
            enough.set()

    metronome = Metronome({"a": timedelta(seconds=0.05), "b": timedelta(seconds=0.05)}, due, lambda: datetime.now(UTC))  # noqa: TID251
    metronome.start()
    assert SystemClock().wait(enough, 10)
    metronome.stop()
