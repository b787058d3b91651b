"""Calls to a store that may be away for a while."""

import threading
from collections.abc import Callable
from typing import TypeVar

from config.clock import Clock
from runner.store import Missing, StoreError

Result = TypeVar("Result")
LONGEST_WAIT_S = 30.0


class Patience:
    """Repeats a call to the store, with longer and longer waits, until a moment that may move."""

    def __init__(self, clock: Clock, first_wait_s: float, say: Callable[[str], None]) -> None:
        """Tell `say` about the first failure of each call, and about its end."""
        self._clock = clock
        self._first_wait_s = first_wait_s
        self._say = say

    def call(self, work: Callable[[], Result], until: Callable[[], float], *, may_miss: bool = False) -> Result:
        """Return what `work` returns. Raises StoreError once `until()` has passed (monotonic seconds).

        What is missing is waited for as well, unless it `may_miss`: then Missing is raised at once.
        """
        wait_s = self._first_wait_s
        while True:
            try:
                return work()
            except StoreError as error:
                if (may_miss and isinstance(error, Missing)) or self._clock.monotonic() + wait_s >= until():
                    raise
                if wait_s == self._first_wait_s:
                    self._say(f"waiting for the store: {error}")
            self._pause(wait_s, until)
            wait_s = min(2 * wait_s, LONGEST_WAIT_S)

    def _pause(self, seconds: float, until: Callable[[], float]) -> None:
        """Wait in small steps: the end may have come nearer meanwhile."""
        end = self._clock.monotonic() + seconds
        while (left := min(end, until()) - self._clock.monotonic()) > 0:
            self._clock.wait(threading.Event(), min(left, self._first_wait_s))
