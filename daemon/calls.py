"""Slow work on threads of its own: each lane is a bulkhead, and every result comes back as a message."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol

Done = Callable[[Any], None]
"""Takes the result, or the exception that was raised, on the control thread."""
Post = Callable[[Callable[[], None]], None]
"""Puts something to be run on the control thread's queue."""


class Calls(Protocol):
    """Runs work away from the control thread."""

    def submit(self, lane: str, work: Callable[[], Any], done: Done) -> None:
        """Run `work` in `lane`, then `done(result or exception)` on the control thread."""

    def close(self) -> None:
        """Take no more work; calls under way may finish."""


class ThreadCalls:
    """A small pool of threads per lane, so that a cloud that hangs delays nothing but itself."""

    def __init__(self, post: Post, threads: int = 4) -> None:
        self._post = post
        self._threads = threads
        self._pools: dict[str, ThreadPoolExecutor] = {}

    def submit(self, lane: str, work: Callable[[], Any], done: Done) -> None:
        """Run `work` in `lane`, then `done(result or exception)` on the control thread."""
        pool = self._pools.get(lane)
        if pool is None:
            threads = 1 if lane in {"orders", "files"} else self._threads
            pool = self._pools[lane] = ThreadPoolExecutor(threads, thread_name_prefix=lane)
        pool.submit(self._run, work, done)

    def _run(self, work: Callable[[], Any], done: Done) -> None:
        outcome: Any
        try:
            outcome = work()
        except Exception as error:  # noqa: BLE001 - whatever a call raises is its result, judged by `done`
            outcome = error
        self._post(lambda: done(outcome))

    def close(self) -> None:
        """Take no more work; calls under way may finish."""
        for pool in self._pools.values():
            pool.shutdown(wait=False, cancel_futures=True)


class InlineCalls:
    """Runs work at once in the caller's thread: for tests and the simulator, where nothing blocks."""

    def __init__(self, post: Post) -> None:
        self._post = post

    def submit(self, lane: str, work: Callable[[], Any], done: Done) -> None:  # noqa: ARG002 - all lanes are one
        """Run `work`, then leave `done(result or exception)` on the control thread's queue."""
        outcome: Any
        try:
            outcome = work()
        except Exception as error:  # noqa: BLE001
            outcome = error
        self._post(lambda: done(outcome))

    def close(self) -> None:
        """Do nothing: no call is ever under way."""
