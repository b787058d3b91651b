"""A clock that a test moves."""

import threading
from datetime import UTC, datetime, timedelta

START = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)  # a Monday, far from the end of any period


class FakeClock:
    """Time stands still until somebody waits or advances it. Waiting takes no time of the test's own."""

    def __init__(self, start: datetime = START) -> None:
        self._start = start
        self._passed = timedelta(0)
        self.waits: list[float] = []

    def now(self) -> datetime:
        return self._start + self._passed

    def monotonic(self) -> float:
        return self._passed.total_seconds()

    def wait(self, event: threading.Event, seconds: float) -> bool:
        if not event.is_set():
            self.waits.append(seconds)
            self.advance(seconds)
        return event.is_set()

    def advance(self, seconds: float | timedelta) -> None:
        step = seconds if isinstance(seconds, timedelta) else timedelta(seconds=seconds)
        if step < timedelta(0):
            raise ValueError(f"time only goes on, not by {step}")
        self._passed += step

    def jump(self, seconds: float) -> None:
        """Set the wall clock forward or back while `monotonic` goes on as if nothing had happened."""
        self._start += timedelta(seconds=seconds)
