"""Who is billed, from when to when, and how much: the stand-in's own truth, in micro-USD.

Linux instances by the second, a minute at least, from `running` until they enter `shutting-down` or `stopping`; spot by the
price of its pool at each moment; nothing for the instance where AWS reclaimed it within its first hour. The disk is billed
as long as it exists, the public address as long as the instance runs.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import ROUND_HALF_UP, Decimal
from typing import Protocol

from tests.clouds.instances import RECLAIMED, Instance

MINIMUM = timedelta(seconds=60)
FIRST_HOUR = timedelta(hours=1)
GP3_GB_HOUR = Decimal("0.08") / 730  # USD
ADDRESS_HOUR = Decimal("0.005")  # USD
_MICRO = Decimal(1_000_000)


class Prices(Protocol):
    """What hours cost, in USD."""

    def listed_price(self, region: str, machine_type: str) -> Decimal:
        """Return the hour on demand."""

    def steps(self, machine_type: str, zone: str, start: datetime, end: datetime) -> Sequence[tuple[datetime, Decimal]]:
        """Return the spot prices from the one in force at `start` until `end`."""


@dataclass(frozen=True)
class Line:
    """What one instance has cost; `billed_until` is now while it runs."""

    instance: str
    tags: Mapping[str, str]
    type: str
    market: str
    region: str
    zone: str
    billed_from: datetime
    billed_until: datetime
    seconds: int
    hourly: Decimal  # USD, the mean over the time
    instance_micro: int
    disk_micro: int
    address_micro: int
    credited: bool = False  # reclaimed in its first hour

    @property
    def micro(self) -> int:
        return self.instance_micro + self.disk_micro + self.address_micro


@dataclass(frozen=True)
class Span:
    """Some time of an instance's life, whole seconds, a minute at least."""

    start: datetime
    end: datetime

    @classmethod
    def billed(cls, start: datetime, end: datetime) -> "Span":
        seconds = math.ceil((end - start).total_seconds())
        return cls(start, start + max(timedelta(seconds=seconds), MINIMUM))

    @property
    def seconds(self) -> int:
        return round((self.end - self.start).total_seconds())

    def within(self, start: datetime, end: datetime) -> "Span":
        """Return the part of it between two moments."""
        begins = min(max(self.start, start), end)
        return Span(begins, max(min(self.end, end), begins))


def line(one: Instance, prices: Prices, now: datetime, day: tuple[datetime, datetime] | None = None) -> Line | None:
    """Return what an instance has cost until now, or of that what falls on one day; None if it never ran."""
    until = min([now, *(end.at for end in (one.end, one.stopped) if end)])
    if until < one.running:
        return None
    used = Span.billed(one.running, until)
    disk = Span.billed(one.launched, min(now, one.end.at) if one.end else now)
    if day:
        shown, disk = used.within(*day), disk.within(*day)
    else:
        shown = used
    credited = _reclaimed_early(one, until)
    usd = Decimal(0) if credited or _is_owned(one) else _instance_usd(one, prices, shown)
    hours = Decimal(shown.seconds) / 3600
    return Line(
        instance=one.id, tags=one.tags, type=one.type, market=one.market, region=one.region, zone=one.zone,
        billed_from=one.running, billed_until=until, seconds=shown.seconds, hourly=usd / hours if hours else usd,
        instance_micro=_micro(usd), disk_micro=_micro(GP3_GB_HOUR * one.disk_gb * disk.seconds / 3600),
        address_micro=_micro(ADDRESS_HOUR * hours) if one.public_ip else 0, credited=credited,
    )  # fmt: skip


def lines(instances: Iterable[Instance], prices: Prices, now: datetime) -> list[Line]:
    """Return the whole bill."""
    return [found for one in instances if (found := line(one, prices, now)) is not None]


def _reclaimed_early(one: Instance, until: datetime) -> bool:
    by_aws = one.market == "spot" and one.end is not None and one.end.code == RECLAIMED and until == one.end.at
    return by_aws and until - one.running < FIRST_HOUR


def _is_owned(one: Instance) -> bool:
    return bool(one.owned) or one.reserved


def _instance_usd(one: Instance, prices: Prices, span: Span) -> Decimal:
    if one.market != "spot":
        return prices.listed_price(one.region, one.type) * span.seconds / 3600
    steps = prices.steps(one.type, one.zone, span.start, span.end)
    ends = [*(at for at, _ in steps[1:]), span.end]
    parts = (
        price * Decimal(str((min(end, span.end) - max(at, span.start)).total_seconds()))
        for (at, price), end in zip(steps, ends, strict=True)
        if min(end, span.end) > max(at, span.start)
    )
    return sum(parts, Decimal(0)) / 3600


def _micro(usd: Decimal) -> int:
    return int((usd * _MICRO).quantize(Decimal(1), ROUND_HALF_UP))
