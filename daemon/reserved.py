"""Whether reserved capacity would have paid for what was run: advice only, nothing is ever bought."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from sqlmodel import Session, col, select

from daemon.models import Ledger, Machine
from daemon.world import World
from pricing.commitments import MONTH_HOURS, Advice, ReservedOffering, ReservedSource, Usage, advice
from pricing.offer import Market

Offerings = Mapping[str, Sequence[ReservedOffering]]
"""What can be reserved, by source."""

_DAYS = 30
_REFRESHED = timedelta(days=1)
_TRIED_AGAIN = timedelta(hours=1)
_HOUR = timedelta(hours=1)


class Reserved:
    """Keeps what could be reserved, asked for once a day from the sources that know it."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.offerings: dict[str, Sequence[ReservedOffering]] = {}
        self._next: dict[str, datetime] = {}

    def run_once(self, now: datetime) -> dict[str, int]:
        """Ask the sources that are due; return how many."""
        asked = 0
        for source in self.world.sources:
            if isinstance(source, ReservedSource) and self._next.get(source.name, now) <= now:
                self._next[source.name] = now + _REFRESHED
                ask = partial(source.reserved_offerings, now)
                self.world.calls.submit(f"reserved:{source.name}", ask, partial(self._answered, source.name))
                asked += 1
        return {"asked": asked}

    def _answered(self, name: str, outcome: Any) -> None:  # noqa: ANN401 - offerings or an exception
        if isinstance(outcome, Exception):
            self._next[name] = self.world.clock.now() + _TRIED_AGAIN
            self.world.journal_failure(f"reserved offerings of {name}", outcome)
        else:
            self.offerings = {**self.offerings, name: tuple(outcome)}


def answer(session: Session, offerings: Offerings, now: datetime) -> dict[str, Any]:
    """Return what was run in the last 30 days, the dearest first, with each offering that could have covered it."""
    used = [
        {
            "cloud": cloud,
            "region": region,
            "type": kind,
            "hours": run.hours,
            "cost_micro": run.cost_micro,
            "offerings": _judged(region, kind, run, _of(cloud, offerings)),
        }
        for (cloud, region, kind), run in _usage(session, now - _DAYS * 24 * _HOUR, now).items()
    ]
    known = sum(len(some) for some in offerings.values())
    return {"days": _DAYS, "known": known, "used": sorted(used, key=lambda one: -one["cost_micro"])}


def _of(cloud: str, offerings: Offerings) -> list[ReservedOffering]:
    """Return what all sources of a cloud say: one may be named after a region as well, such as `aws/us-east-1`."""
    return [one for name, some in offerings.items() if name.partition("/")[0] == cloud for one in some]


def _judged(region: str, kind: str, run: Usage, offerings: Sequence[ReservedOffering]) -> list[dict[str, Any]]:
    """Return the verdict on each offering, for a month as clouds count it."""
    month = MONTH_HOURS / (_DAYS * 24)
    monthly = Usage(run.hours * month, round(run.cost_micro * month))
    return [_as_json(one) for one in advice({(region, kind): monthly}, offerings)]


def _as_json(one: Advice) -> dict[str, Any]:
    return asdict(one.offering) | {
        "hours_a_month": one.hours,
        "hours_needed": one.hours_needed,
        "saved_micro": one.saved_micro,
        "pays": one.pays,
        "never": one.hours_needed > MONTH_HOURS,
    }


def _usage(session: Session, start: datetime, end: datetime) -> dict[tuple[str, str, str], Usage]:
    """Sum the ledger by cloud, region and machine type; capacity that is owned already is left out."""
    rows = session.exec(
        select(Ledger, Machine)
        .join(Machine, col(Machine.id) == col(Ledger.machine_id))
        .where(col(Ledger.from_at) >= start, col(Ledger.from_at) < end, Machine.market != str(Market.RESERVED))
    )
    sums: dict[tuple[str, str, str], Usage] = {}
    for row, machine in rows:
        key = (machine.cloud, machine.region, machine.type)
        run = sums.get(key, Usage(0.0, 0))
        hours = (row.to_at - row.from_at) / _HOUR if row.kind == "machine" else 0.0
        sums[key] = Usage(run.hours + hours, run.cost_micro + row.amount_micro)
    return sums
