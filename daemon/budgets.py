"""Whether money is left: pure arithmetic over caps, what was spent, and what leases have set aside.

The invariant: for every cap and every period, spent + leased <= cap, after every step. Renting and renewing go through
`Purse.longest`, which never promises more than every cap has room for.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from config.reason import Reason, Value
from config.units import MS_PER_HOUR

_MILLISECOND = timedelta(milliseconds=1)
FOREVER = datetime(9999, 1, 1, tzinfo=UTC)
BEGINNING = datetime(1970, 1, 1, tzinfo=UTC)

Scope = tuple[str, str]
"""What a cap is about: (`all`, ``), (`project`, name), (`user`, name), (`cloud`, name) or (`job`, id)."""


@dataclass(frozen=True, order=True, slots=True)
class Window:
    """One period of a cap: from `start` until just before `end`."""

    start: datetime
    end: datetime


@dataclass(frozen=True, slots=True)
class Cap:
    """A budget as arithmetic sees it. `at_cap` is `stop` or `hold`."""

    id: str
    scope: Scope
    period: str
    cap_micro: int
    at_cap: str = "stop"
    thresholds: tuple[int, ...] = (50, 80, 100)


@dataclass(frozen=True, slots=True)
class Lease:
    """Money set aside for one machine: `hourly_micro` at most, from `start` (charged up to there) to `until`.

    `carried` is the part of a micro-unit left over from the last charge, in micro-unit milliseconds per hour.
    """

    machine: str
    scopes: frozenset[Scope]
    start: datetime
    until: datetime
    hourly_micro: int
    carried: int = 0

    def share_micro(self, window: Window) -> int:
        """Return what the part of this lease inside `window` can cost at most, rounded up."""
        start, end = max(self.start, window.start), min(self.until, window.end)
        if end <= start:
            return 0
        exact = self.hourly_micro * _ceil_ms(end - start)
        if start == self.start:
            return -(-(exact + self.carried) // MS_PER_HOUR)
        # In a later period the carried part of a micro-unit may come on top.
        return -(-exact // MS_PER_HOUR) + 1

    @property
    def total_micro(self) -> int:
        """Return what the whole lease can cost at most."""
        return self.share_micro(Window(BEGINNING, FOREVER))


@dataclass(frozen=True, slots=True)
class Shortfall:
    """The cap that has no room, and how much would be needed."""

    cap: Cap
    window: Window
    spent_micro: int
    leased_micro: int
    needed_micro: int

    @property
    def reason(self) -> Reason:
        """Return the sentence for it."""
        left = self.cap.cap_micro - self.spent_micro - self.leased_micro
        values: dict[str, Value] = {
            "budget": self.cap.id,
            "spent_micro": self.spent_micro,
            "leased_micro": self.leased_micro,
            "cap_micro": self.cap.cap_micro,
            "left_micro": left,
            "needed_micro": self.needed_micro,
        }
        return Reason("budget.no_room", values)


@dataclass
class Purse:
    """All caps with what is spent and leased under them; the working copy of one decision."""

    caps: tuple[Cap, ...]
    spent: Mapping[tuple[str, datetime], int]  # by cap id and start of window
    zone: ZoneInfo
    leases: dict[str, Lease] = field(default_factory=dict)

    def spent_micro(self, cap: Cap, window: Window) -> int:
        """Return what the ledger holds under `cap` in `window`."""
        return self.spent.get((cap.id, window.start), 0)

    def leased_micro(self, cap: Cap, window: Window, *, without: str = "") -> int:
        """Return what all leases under `cap` can still cost in `window`, one machine left out."""
        return sum(
            lease.share_micro(window)
            for lease in self.leases.values()
            if lease.machine != without and cap.scope in lease.scopes
        )

    def shortfall(self, lease: Lease) -> Shortfall | None:
        """Return the first cap that has no room for `lease` in place of the machine's present one, or None."""
        for cap in self._over(lease):
            for window in windows(cap.period, lease.start, lease.until, self.zone):
                spent, leased = self.spent_micro(cap, window), self.leased_micro(cap, window, without=lease.machine)
                share = lease.share_micro(window)
                if spent + leased + share > cap.cap_micro:
                    return Shortfall(cap, window, spent, leased, share)
        return None

    def longest(self, lease: Lease, shortest: datetime) -> Lease | Shortfall:
        """Return the longest lease up to `lease.until` that every cap has room for, or what stands in the way.

        The end is found by halving: longer never costs less, so room is monotonic in the length.
        """
        if self.shortfall(lease) is None:
            return lease
        lack = self.shortfall(replace(lease, until=shortest))
        if lack is not None:
            return lack
        fits, fails = shortest, lease.until
        while fails - fits > timedelta(milliseconds=100):
            middle = fits + (fails - fits) / 2
            if self.shortfall(replace(lease, until=middle)) is None:
                fits = middle
            else:
                fails = middle
        return replace(lease, until=fits)

    def take(self, lease: Lease) -> None:
        """Set `lease` aside in place of the machine's present one."""
        self.leases[lease.machine] = lease

    def holding(self, lease: Lease, whole_micro: int) -> Shortfall | None:
        """Return a cap with `at_cap = hold` that has no room for a job's whole cost, or None."""
        for cap in self._over(lease):
            if cap.at_cap != "hold":
                continue
            window = window_of(cap.period, lease.start, self.zone)
            spent, leased = self.spent_micro(cap, window), self.leased_micro(cap, window, without=lease.machine)
            if spent + leased + whole_micro > cap.cap_micro:
                return Shortfall(cap, window, spent, leased, whole_micro)
        return None

    def overdrawn(self) -> list[Shortfall]:
        """Return every cap and period where spent + leased > cap: empty, or frugald is broken."""
        found = []
        for cap in self.caps:
            under = [lease for lease in self.leases.values() if cap.scope in lease.scopes]
            spans = {w for lease in under for w in windows(cap.period, lease.start, lease.until, self.zone)}
            for window in sorted(spans | {Window(start, start) for cap_id, start in self.spent if cap_id == cap.id}):
                real = window_of(cap.period, window.start, self.zone)
                spent, leased = self.spent_micro(cap, real), self.leased_micro(cap, real)
                if spent + leased > cap.cap_micro:
                    found.append(Shortfall(cap, real, spent, leased, 0))
        return found

    def _over(self, lease: Lease) -> Iterable[Cap]:
        return (cap for cap in self.caps if cap.scope in lease.scopes)


def window_of(period: str, at: datetime, zone: ZoneInfo) -> Window:
    """Return the period that holds `at`, in the budgets' own time zone; weeks start on Monday."""
    if period == "total":
        return Window(BEGINNING, FOREVER)
    local = at.astimezone(zone)
    if period == "hour":
        start = at - timedelta(minutes=local.minute, seconds=local.second, microseconds=local.microsecond)
        return Window(start.astimezone(UTC), (start + timedelta(hours=1)).astimezone(UTC))
    day = local.replace(hour=0, minute=0, second=0, microsecond=0, fold=0)
    if period == "day":
        return _whole_days(day, day + timedelta(days=1))
    if period == "week":
        monday = day - timedelta(days=day.weekday())
        return _whole_days(monday, monday + timedelta(days=7))
    first = day.replace(day=1)
    return _whole_days(first, (first + timedelta(days=32)).replace(day=1))


def windows(period: str, start: datetime, until: datetime, zone: ZoneInfo) -> list[Window]:
    """Return every period that [start, until) touches, at least the one that holds `start`."""
    found = [window_of(period, start, zone)]
    while found[-1].end < until:
        found.append(window_of(period, found[-1].end, zone))
    return found


def scopes(job: str, project: str, user: str, cloud: str) -> frozenset[Scope]:
    """Return every scope that a machine's cost falls under."""
    return frozenset({("all", ""), ("project", project), ("user", user), ("cloud", cloud), ("job", job)})


def _whole_days(start: datetime, end: datetime) -> Window:
    return Window(start.astimezone(UTC), end.astimezone(UTC))


def _ceil_ms(span: timedelta) -> int:
    return -(-span // _MILLISECOND)
