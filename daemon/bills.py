"""Compare the ledger with what the clouds billed, once a day, and tell a person when they differ."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from functools import partial
from typing import Any

from sqlmodel import Session, col, func, select

from config.reason import Reason, Value
from config.units import MICRO, Money
from daemon.models import BillCheck, Event, Ledger, Machine
from daemon.world import World
from pricing.bill import BilledDay, BillError, BillSource

_DAY = timedelta(days=1)
_EVERY = timedelta(hours=24)
_SETTLED = 2  # days: a younger bill isn't complete
_AGAIN = 7  # days that are compared again, since bills are still corrected
_OLDEST = 35  # days
_SHARE = 50  # one part in so many (2 %) may be missing
_SMALL_MICRO = MICRO // 20
"""Differences up to this amount (0.05) tell nothing."""

Sums = dict[tuple[str, str], int]  # (day, machine) -> micro-units


def differ(ledger_micro: int, billed_micro: int) -> bool:
    """Say whether a bill is more than 2 % and more than 0.05 away from the ledger."""
    apart = abs(billed_micro - ledger_micro)
    return apart * _SHARE > ledger_micro and apart > _SMALL_MICRO


class Bills:
    """Asks each cloud that shows a bill, which costs money, so once a day; a restart doesn't ask again."""

    def __init__(self, world: World) -> None:
        self.world = world
        self._asked: dict[str, datetime] = {}

    def run_once(self, now: datetime) -> dict[str, int]:
        """Ask for the bills that are due; return how many."""
        asked = 0
        for source in self.world.bills:
            with self.world.database.write() as session:
                span = self._span(session, source.name, now)
            if span is None:
                continue
            self._asked[source.name] = now
            asked += 1
            work = partial(source.days, *span)
            self.world.calls.submit(f"bill:{source.name}", work, partial(self._answered, source, span))
        return {"asked": asked}

    def _span(self, session: Session, cloud: str, now: datetime) -> tuple[date, date] | None:
        """Return the days to ask for, None when it is too early or when nothing can have been billed."""
        last = session.exec(select(func.max(BillCheck.checked_at)).where(BillCheck.cloud == cloud)).one()
        times = [at for at in (self._asked.get(cloud), last) if at]
        if times and now - max(times) < _EVERY:
            return None
        until = now.astimezone(UTC).date() - (_SETTLED - 1) * _DAY
        oldest = until - _OLDEST * _DAY
        checked = session.exec(select(func.max(BillCheck.day)).where(BillCheck.cloud == cloud)).one()
        first = date.fromisoformat(checked) + _DAY if checked else oldest
        since = max(oldest, min(first, until - _AGAIN * _DAY))
        billed = session.exec(
            select(func.min(Ledger.from_at)).where(
                Ledger.cloud == cloud, col(Ledger.to_at) > _midnight(since), col(Ledger.from_at) < _midnight(until)
            )
        ).one()
        return (max(since, billed.date()), until) if billed else None

    # ------------------------------------------------------------------ answers

    def _answered(self, source: BillSource, span: tuple[date, date], outcome: Any) -> None:  # noqa: ANN401
        now = self.world.clock.now()
        with self.world.database.write() as session:
            if isinstance(outcome, BillError):
                self._unchecked(session, source.name, outcome.reason, now)
            elif isinstance(outcome, Exception):
                self.world.journal_failure(f"bill of {source.name}", outcome)
            else:
                self._compare(session, source.name, span, outcome, now)

    def _compare(
        self, session: Session, cloud: str, span: tuple[date, date], bill: Sequence[BilledDay], now: datetime
    ) -> None:
        if not any(line.machine for line in bill):
            self._unchecked(session, cloud, Reason("billing.no_tags"), now)
            return
        try:
            billed = _summed(((str(b.day), b.machine), self._micro(b)) for b in bill)
        except ValueError:
            foreign = next(b.currency for b in bill if b.currency != self.world.settings.currency)
            self._unchecked(session, cloud, Reason("billing.no_rate", {"currency": foreign}), now)
            return
        ledger = _ledger(session, cloud, span)
        estimated = {str(b.day) for b in bill if b.estimated}
        for day in sorted({day for day, _ in ledger | billed}):
            self._day(session, _Day(cloud, day, day in estimated, ledger, billed), now)
        self.world.journal.emit(
            session,
            now,
            "bill.checked",
            cloud=cloud,
            since=str(span[0]),
            until=str(span[1] - _DAY),
            billed_micro=sum(billed.values()),
            ledger_micro=sum(ledger.values()),
        )

    def _micro(self, line: BilledDay) -> int:
        return self.world.in_currency(Money(line.micro, line.currency)).micro

    def _day(self, session: Session, day: "_Day", now: datetime) -> None:
        """Keep one day's comparison, and tell of it unless the same difference was told before."""
        old = {
            row.machine: row
            for row in session.exec(select(BillCheck).where(BillCheck.cloud == day.cloud, BillCheck.day == day.day))
        }
        told = bool(old) and day.resembles(old.values())
        for machine in day.machines:
            row = old.get(machine) or BillCheck(
                cloud=day.cloud, day=day.day, machine=machine, estimated=False, checked_at=now
            )
            row.ledger_micro, row.billed_micro = day.of(machine)
            row.estimated, row.checked_at = day.estimated, now
            session.add(row)
        if day.drifts and not told:
            self._drift(session, day, now)

    def _drift(self, session: Session, day: "_Day", now: datetime) -> None:
        ledger, billed = day.total
        worst = max(day.machines, key=lambda machine: abs(day.of(machine)[1] - day.of(machine)[0]))
        row = session.get(Machine, worst)
        values: dict[str, Value] = {"billed_micro": day.of(worst)[1], "ledger_micro": day.of(worst)[0]}
        named: dict[str, Value] = {"machine": worst, "job": row.job_id if row else "nobody here"}
        self.world.journal.emit(
            session,
            now,
            "bill.drift",
            cloud=day.cloud,
            day=day.day,
            billed_micro=billed,
            ledger_micro=ledger,
            machines=sum(differ(*day.of(machine)) for machine in day.machines),
            worst=Reason("billing.machine", named | values) if worst else Reason("billing.nobody", values),
            command=f"frugald costs --month {day.day[:7]} --by machine",
        )

    def _unchecked(self, session: Session, cloud: str, reason: Reason, now: datetime) -> None:
        """Say once why a bill can't be compared; again only when another reason or a comparison has come between."""
        told = session.exec(select(Event).where(col(Event.code).startswith("bill.")).order_by(col(Event.id).desc()))
        last = next((event for event in told if event.values["cloud"] == cloud), None)
        if last and last.code == "bill.unchecked" and last.values["why"] == reason.stored():
            return
        self.world.journal.emit(session, now, "bill.unchecked", cloud=cloud, why=reason, command="frugald costs")


@dataclass(frozen=True)
class _Day:
    """One day of one cloud, by machine; the empty name is what the bill gives no machine for."""

    cloud: str
    day: str
    estimated: bool
    ledger: Sums
    billed: Sums

    @property
    def machines(self) -> list[str]:
        return sorted({machine for day, machine in self.ledger | self.billed if day == self.day})

    def of(self, machine: str) -> tuple[int, int]:
        """Return what the ledger has and what was billed."""
        return self.ledger.get((self.day, machine), 0), self.billed.get((self.day, machine), 0)

    @property
    def total(self) -> tuple[int, int]:
        pairs = [self.of(machine) for machine in self.machines]
        return sum(ledger for ledger, _ in pairs), sum(billed for _, billed in pairs)

    def resembles(self, before: Collection[BillCheck]) -> bool:
        """Say whether the comparison before said as much: it drifted too, and neither sum has moved since."""
        drifted = any(differ(row.ledger_micro, row.billed_micro) for row in before)
        ledger, billed = (sum(row.ledger_micro for row in before), sum(row.billed_micro for row in before))
        moved = differ(ledger, self.total[0]) or differ(billed, self.total[1])
        return (drifted or differ(ledger, billed)) and not moved

    @property
    def drifts(self) -> bool:
        return differ(*self.total) or any(differ(*self.of(machine)) for machine in self.machines)


def _ledger(session: Session, cloud: str, span: tuple[date, date]) -> Sums:
    """Sum the ledger by UTC day and machine; a row that goes over midnight is shared out by time."""
    start, end = _midnight(span[0]), _midnight(span[1])
    rows = session.exec(
        select(Ledger).where(Ledger.cloud == cloud, col(Ledger.to_at) >= start, col(Ledger.from_at) < end)
    )
    pieces = _summed(piece for row in rows for piece in _by_day(row))
    return {key: micro for key, micro in pieces.items() if str(span[0]) <= key[0] < str(span[1])}


def _by_day(row: Ledger) -> Iterable[tuple[tuple[str, str], int]]:
    """Yield a row's shares: rows are an hour long at most, so they touch two days at most."""
    midnight = _midnight(row.to_at.date())
    after = 0
    if row.from_at < midnight < row.to_at:
        after = (
            row.amount_micro
            * ((row.to_at - midnight) // timedelta(milliseconds=1))
            // ((row.to_at - row.from_at) // timedelta(milliseconds=1))
        )
        yield (str(row.to_at.date()), row.machine_id), after
    yield (str(row.from_at.date()), row.machine_id), row.amount_micro - after


def _summed(parts: Iterable[tuple[tuple[str, str], int]]) -> Sums:
    sums: Sums = {}
    for key, micro in parts:
        sums[key] = sums.get(key, 0) + micro
    return sums


def _midnight(day: date) -> datetime:
    return datetime.combine(day, time(), UTC)
