"""The ledger: what machines have cost, row by row, and the leases that shrink by it."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal
from zoneinfo import ZoneInfo

from sqlalchemy import func
from sqlalchemy.dialects.sqlite import insert as upsert
from sqlmodel import Session, col, select, update

from config.units import MICRO, cost_micro
from daemon.budgets import Cap, Lease, Purse, Window, scopes, window_of, windows
from daemon.models import Budget, Job, Ledger, Machine, Spending
from daemon.states import MACHINE_LIVE, StaleState

_MILLISECOND = timedelta(milliseconds=1)


def charge(session: Session, machine: Machine, until: datetime, zone: ZoneInfo) -> int:
    """Write what `machine` cost from where it was last charged up to `until`, and shrink its lease by that.

    One row for each hour touched, so that every period's sum is exact. Charging twice changes nothing. Returns micro-units.
    """
    start = machine.charged_until
    if start is None or until - start < _MILLISECOND:
        return 0
    total, carried, end = 0, machine.carried, start
    for piece in _by_hour(start, until, zone):
        amount, carried = cost_micro(machine.hourly_micro, (piece.end - piece.start) // _MILLISECOND, carried)
        total, end = total + amount, piece.end
        _write(session, machine, piece, amount, zone)
    _shrink_lease(session, machine, end, total, carried)
    _charge_job(session, machine, total, (end - start) // _MILLISECOND)
    return total


def charge_seen(session: Session, machine: Machine, now: datetime, zone: ZoneInfo) -> int:
    """Charge a machine up to when its cloud last said that it was alive; what may have come after stays in its lease."""
    return charge(session, machine, min(now, machine.seen_at), zone) if machine.seen_at else 0


def lease_of(machine: Machine) -> Lease | None:
    """Return the money that is set aside for a machine, None when nothing is."""
    if machine.lease_until is None or machine.state not in MACHINE_LIVE:
        return None
    return Lease(
        machine=machine.id,
        scopes=scopes(machine.job_id, machine.project, machine.user, machine.cloud),
        start=machine.charged_until or machine.intended_at,
        until=machine.lease_until,
        hourly_micro=machine.highest_hourly_micro,
        carried=machine.carried,
    )


def read_purse(session: Session, now: datetime, zone: ZoneInfo) -> Purse:
    """Read every cap with what is spent and leased under it, for all periods that matter now."""
    caps = tuple(
        as_cap(b) for b in session.exec(select(Budget).where(col(Budget.ended_at).is_(None)).order_by(Budget.id))
    )
    live = session.exec(select(Machine).where(col(Machine.state).in_(MACHINE_LIVE))).all()
    leases = {lease.machine: lease for machine in live if (lease := lease_of(machine))}
    spent = {}
    for cap in caps:
        starts = [now, *(lease.start for lease in leases.values() if cap.scope in lease.scopes)]
        last = max([now, *(lease.until for lease in leases.values() if cap.scope in lease.scopes)])
        for window in windows(cap.period, min(starts), last, zone):
            spent[cap.id, window.start] = spent_micro(session, cap, window)
    return Purse(caps, spent, zone, leases)


def as_cap(budget: Budget) -> Cap:
    """Return a budget's row as arithmetic sees it."""
    return Cap(
        budget.id,
        (budget.scope, budget.subject),
        budget.period,
        budget.cap_micro,
        budget.at_cap,
        tuple(budget.thresholds),
    )


def spent_micro(session: Session, cap: Cap, window: Window) -> int:
    """Sum the spending under `cap` in `window`."""
    scope, subject = cap.scope
    rows = select(func.coalesce(func.sum(Spending.amount_micro), 0)).where(
        Spending.scope == scope,
        Spending.subject == subject,
        col(Spending.hour_at) >= window.start,
        col(Spending.hour_at) < window.end,
    )
    return int(session.exec(rows).one())


def _by_hour(start: datetime, until: datetime, zone: ZoneInfo) -> Iterator[Window]:
    """Yield pieces of whole milliseconds, so that what is charged and what is left always add up."""
    while until - start >= _MILLISECOND:
        end = min(until, window_of("hour", start, zone).end)
        length = -(-(end - start) // _MILLISECOND) if end < until else (end - start) // _MILLISECOND
        yield Window(start, start + length * _MILLISECOND)
        start += length * _MILLISECOND


def _write(session: Session, machine: Machine, piece: Window, amount: int, zone: ZoneInfo) -> None:
    native = machine.offer.get("native", {})
    session.add(
        Ledger(
            machine_id=machine.id,
            job_id=machine.job_id,
            user=machine.user,
            project=machine.project,
            cloud=machine.cloud,
            from_at=piece.start,
            to_at=piece.end,
            hourly_micro=machine.hourly_micro,
            amount_micro=amount,
            native_amount=_native(amount, str(native.get("rate", "1"))),
            native_currency=str(native.get("currency", "")),
            fx_rate=str(native.get("rate", "1")),
        )
    )
    hour = window_of("hour", piece.start, zone).start
    for scope, subject in scopes(machine.job_id, machine.project, machine.user, machine.cloud):
        row = upsert(Spending).values(scope=scope, subject=subject, hour_at=hour, amount_micro=amount)
        session.connection().execute(
            row.on_conflict_do_update(
                index_elements=["scope", "subject", "hour_at"],
                set_={"amount_micro": col(Spending.amount_micro) + amount},
            )
        )


def _native(amount_micro: int, rate: str) -> str:
    """Return an amount in the cloud's own currency, to a millionth: `rate` is accounting units for one native unit."""
    return str((Decimal(amount_micro) / MICRO / Decimal(rate)).quantize(Decimal("0.000001")))


def _shrink_lease(session: Session, machine: Machine, end: datetime, total: int, carried: int) -> None:
    until = max(end, machine.lease_until or end)  # a machine that outlived its lease: the truth goes in all the same
    lease = lease_of(machine)
    left = replace(lease, start=end, until=until, carried=carried).total_micro if lease else 0
    shrunk = update(Machine).where(col(Machine.id) == machine.id, col(Machine.charged_until) == machine.charged_until)
    changed = session.execute(
        shrunk.values(
            charged_until=end,
            carried=carried,
            lease_until=until,
            leased_micro=left,
            spent_micro=col(Machine.spent_micro) + total,
        )
    )
    if changed.rowcount != 1:  # type: ignore[attr-defined]
        raise StaleState(machine.id)


def _charge_job(session: Session, machine: Machine, total: int, length_ms: int) -> None:
    on_demand, _ = cost_micro(machine.on_demand_hourly_micro, length_ms)
    session.execute(
        update(Job)
        .where(col(Job.id) == machine.job_id)
        .values(
            cost_micro=col(Job.cost_micro) + total,
            on_demand_micro=col(Job.on_demand_micro) + on_demand,
        )
    )
