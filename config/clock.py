"""The one file that reads a clock: everything else is handed a Clock, or the time itself."""

import threading
import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """Where the time comes from."""

    def now(self) -> datetime:
        """Return the wall-clock time, aware and in UTC."""

    def monotonic(self) -> float:
        """Return seconds on a clock that never jumps, for measuring durations."""

    def wait(self, event: threading.Event, seconds: float) -> bool:
        """Wait until `event` is set or `seconds` have passed; say whether it was set."""


class SystemClock:
    """The computer's own clock."""

    def now(self) -> datetime:
        """Return the wall-clock time, aware and in UTC."""
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """Return seconds since some fixed moment; unaffected by clock changes."""
        return time.monotonic()

    def wait(self, event: threading.Event, seconds: float) -> bool:
        """Wait until `event` is set or `seconds` have passed; say whether it was set."""
        return event.wait(seconds)
