"""Capacity that is owned or reserved: what is free of it now, and whether buying more of it would pay."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Protocol, runtime_checkable

from pricing.offer import Offer

MONTH_HOURS = 730.0
"""Hours of a month, as clouds count them: 8760 a year in twelve parts."""


@dataclass(frozen=True, order=True, slots=True)
class ReservedOffering:
    """What reserving one machine of a type would cost, as the cloud lists it.

    `effective_hourly_micro` is the hourly fee with the upfront payment spread over the whole term; money is in
    micro-units of the accounting currency. It is owed for every hour of the term, used or not.
    """

    type: str
    region: str
    term_hours: int  # 8760 or 26280
    payment: str  # `No Upfront`, `Partial Upfront` or `All Upfront`
    offering_class: str  # `standard` or `convertible`
    effective_hourly_micro: int
    upfront_micro: int


@runtime_checkable
class ReservedSource(Protocol):
    """A price source that also knows what reserving would cost; `name` is its cloud's, or `cloud/region`."""

    name: str

    def reserved_offerings(self, now: datetime) -> Sequence[ReservedOffering]:
        """Return every offering of the regions that are used; may block; SourceError."""


@dataclass(frozen=True, slots=True)
class Usage:
    """What was run of one machine type in one region: hours in a month of 730, and what they cost with lost work."""

    hours: float
    cost_micro: int


@dataclass(frozen=True, slots=True)
class Advice:
    """Whether one offering would have paid for what was run of its type in its region.

    `hours_needed` is how many hours a month must be run for it to cost no more than what was paid; above 730 it never
    does. `saved_micro` is what it would have saved in the month, below zero where it would have cost more.
    """

    offering: ReservedOffering
    hours: float
    hours_needed: float
    saved_micro: int

    @property
    def pays(self) -> bool:
        """Say whether it would have been cheaper."""
        return self.saved_micro > 0


def free_now(owned: Offer, used: int, now: datetime) -> Offer:
    """Return an offer of `owned.free` machines in all with what is free while `used` run; none after its end."""
    ended = owned.ends is not None and owned.ends <= now
    return replace(owned, free=0 if ended else max(0, (owned.free or 0) - used), as_of=now)


def break_even(reserved_hourly_micro: int, on_demand_hourly_micro: int) -> float:
    """Return the share of its hours that reserved capacity must be in use to be cheaper than on demand.

    Above 1 it never is. `on_demand_hourly_micro` is what the same work costs otherwise, on spot with lost work.
    """
    return reserved_hourly_micro / on_demand_hourly_micro


def advice(usage: Mapping[tuple[str, str], Usage], offerings: Iterable[ReservedOffering]) -> list[Advice]:
    """Return advice on each offering of what was run, the most that would be saved first.

    `usage` is by (region, machine type). What was run in more than 730 hours a month ran on several machines at once; one
    reservation covers one of them.
    """
    found = [
        _advised(usage[where], offering)
        for offering in offerings
        if (where := (offering.region, offering.type)) in usage and usage[where].hours > 0 < usage[where].cost_micro
    ]
    return sorted(found, key=lambda one: (-one.saved_micro, one.offering))


def _advised(run: Usage, offering: ReservedOffering) -> Advice:
    hourly = run.cost_micro / run.hours
    covered = min(run.hours, MONTH_HOURS)
    needed = offering.effective_hourly_micro * MONTH_HOURS / hourly
    return Advice(offering, run.hours, needed, round(covered * hourly - offering.effective_hourly_micro * MONTH_HOURS))
