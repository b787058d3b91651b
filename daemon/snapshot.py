"""What a decision sees, and what it says: plain values, the time among them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from config.reason import Reason
from config.settings import ChooseSettings, LeaseSettings
from daemon.budgets import Lease, Purse, Scope
from pricing.book import PriceBook
from pricing.expected_cost import WorkView
from pricing.history import Hazards
from pricing.need import Need
from pricing.offer import Offer, Quota


@dataclass(frozen=True, slots=True)
class WaitingJob:
    """A job that wants a machine."""

    id: str
    name: str
    user: str
    project: str
    priority: int
    submitted_at: datetime
    needs: tuple[Need, ...]
    work: WorkView
    disk: int  # bytes
    not_before: datetime | None = None
    deadline: datetime | None = None
    waits_for: tuple[str, ...] = ()  # names of the jobs that must succeed first and haven't yet
    tries_failed: int = 0  # launches in a row that found nothing
    lacks: Reason | None = None  # what its owner must see to first

    def scopes(self, cloud: str) -> frozenset[Scope]:
        """Return every scope that its cost on `cloud` falls under."""
        return frozenset(
            {("all", ""), ("project", self.project), ("user", self.user), ("cloud", cloud), ("job", self.id)}
        )


@dataclass(frozen=True, slots=True)
class HeldJob:
    """A job that a budget stopped: it goes on when that cap is raised or its next period begins."""

    id: str
    budget: str
    cap_micro: int
    period_start: datetime | None


@dataclass(frozen=True, slots=True)
class LiveMachine:
    """A machine that has been heard and does a job's work."""

    id: str
    lease: Lease
    launched_at: datetime
    renewable: bool  # its agent has been heard since the last lease, and it may go on


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The world at `now`, as far as it is known."""

    now: datetime
    waiting: tuple[WaitingJob, ...]
    held: tuple[HeldJob, ...]
    machines: tuple[LiveMachine, ...]
    machine_count: int  # all that may exist, those on their way included
    recent_launches: int  # in the last minute
    book: PriceBook
    hazards: Hazards
    purse: Purse
    lease: LeaseSettings
    choose: ChooseSettings
    stale_after: timedelta
    closed: Mapping[str, tuple[datetime, str]] = field(default_factory=dict)  # pool or family -> until, why
    quotas: tuple[Quota, ...] = ()
    uncapped_clouds: frozenset[str] = frozenset()  # they cost real money, and no monthly cap of scope all is set


@dataclass(frozen=True, slots=True)
class Candidate:
    """An offer with what the job would cost on it."""

    offer: Offer
    expected_micro: int | None  # to finish; None when the work left is unknown
    per_work_hour_micro: int
    why: Reason


@dataclass(frozen=True, slots=True)
class Launch:
    """Rent this machine for this job."""

    job: str
    offer: Offer
    bid_micro: int | None
    lease: Lease  # `machine` is the job's id until the machine has one
    winner: Candidate
    runners_up: tuple[Candidate, ...]
    passed_over: tuple[tuple[Reason, int], ...]


@dataclass(frozen=True, slots=True)
class Renewal:
    """Let this machine go on until `lease.until`."""

    machine: str
    lease: Lease


@dataclass(frozen=True, slots=True)
class Stop:
    """Let this machine save and end: money for more can't be set aside."""

    machine: str
    reason: Reason
    budget: str
    period_start: datetime


@dataclass(frozen=True, slots=True)
class Skip:
    """Leave this job waiting, and say why."""

    job: str
    reason: Reason


@dataclass(frozen=True, slots=True)
class Hold:
    """Hold this job until a person or a new period helps."""

    job: str
    reason: Reason
    budget: str
    period_start: datetime


@dataclass(frozen=True, slots=True)
class Release:
    """Let this held job wait for a machine again."""

    job: str


@dataclass(frozen=True, slots=True)
class Plan:
    """What to do now; nothing of it has happened yet."""

    launches: tuple[Launch, ...] = ()
    renewals: tuple[Renewal, ...] = ()
    stops: tuple[Stop, ...] = ()
    holds: tuple[Hold, ...] = ()
    releases: tuple[Release, ...] = ()
    skips: tuple[Skip, ...] = ()
