"""`frugald serve`, but it kills itself with SIGKILL at one named point: `python -m tests.e2e.dying_daemon POINT`."""

import os
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from config.load import load_settings
from daemon import jobs, machines, main, orders
from daemon.answers import Answers
from daemon.carry_out import CarryOut
from daemon.intake import Intake
from daemon.machines import Listings
from daemon.post import Post
from runner.providers.sandbox import SandboxCloud


@dataclass(frozen=True)
class Point:
    """Where to die: before or after the n-th call of something."""

    owner: Any
    name: str
    after: bool = False
    nth: int = 1


POINTS = {
    "a claimed file is not committed": Point(Intake, "_take"),
    "a job is committed, its file not moved": Point(Intake, "_take", after=True),
    "an intent is committed, nothing asked": Point(orders, "rent"),
    "a machine is rented, not written down": Point(SandboxCloud, "launch", after=True, nth=2),
    "a start word is committed, not written": Point(CarryOut, "_write_word"),
    "a lease is committed, not written": Point(CarryOut, "_put", nth=3),
    "a notice is half taken in": Point(jobs, "interrupted", after=True),
    "the next machine is rented, not written down": Point(SandboxCloud, "launch", after=True, nth=3),
    "an end was asked for": Point(SandboxCloud, "terminate", after=True),
    "a machine is gone, not written down": Point(Listings, "_gone", after=True),
    "a cap is reached, not committed": Point(jobs, "reached", after=True),
    "an alert is sent, not marked": Point(Post, "_sent", nth=4),
    "a raised cap is not committed": Point(Answers, "_set_budget", after=True),
}


def arm(point: Point) -> None:
    """Put the trap in place."""
    original: Callable[..., Any] = getattr(point.owner, point.name)
    calls = 0

    def trapped(*args: Any, **kwargs: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == point.nth and not point.after:
            os.kill(os.getpid(), signal.SIGKILL)
        result = original(*args, **kwargs)
        if calls == point.nth and point.after:
            os.kill(os.getpid(), signal.SIGKILL)
        return result

    setattr(point.owner, point.name, trapped)


if __name__ == "__main__":
    assert machines is not None
    arm(POINTS[sys.argv[1]])
    sys.exit(main.serve(load_settings(Path(os.environ["FRUGALD_CONFIG"]), {})))
