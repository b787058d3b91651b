"""When this machine ends, by whatever ends it first."""

from math import inf

from config.clock import Clock
from runner.agent.lease import Term


class Horizon:
    """The nearest of the lease's end, the cloud's notice and a shutdown; monotonic seconds."""

    def __init__(self, term: Term, clock: Clock) -> None:
        """Know the lease only."""
        self.term = term
        self._clock = clock
        self._notice_at = inf
        self._shutdown_at = inf

    def notice(self, in_s: float) -> None:
        """The cloud takes the machine in `in_s` seconds; of several notices the nearest stands."""
        self._notice_at = min(self._notice_at, self._clock.monotonic() + max(0.0, in_s))

    def shutdown(self, in_s: float) -> None:
        """The machine is being shut down; the first word stands."""
        self._shutdown_at = min(self._shutdown_at, self._clock.monotonic() + in_s)

    @property
    def noticed(self) -> bool:
        """Say whether the cloud has given notice."""
        return self._notice_at < inf

    @property
    def notice_in_s(self) -> float | None:
        """Return the seconds until the cloud takes the machine, None without a notice."""
        return max(0.0, self._notice_at - self._clock.monotonic()) if self.noticed else None

    def ends_at(self) -> float:
        """Return the moment from which nothing may run here."""
        return min(self.term.ends_at, self._notice_at, self._shutdown_at)

    def left_s(self) -> float:
        """Return the seconds until then, 0 when it has passed."""
        return max(0.0, self.ends_at() - self._clock.monotonic())
