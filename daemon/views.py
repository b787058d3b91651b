"""What people look at: read-only questions to the tables, answered as plain JSON values."""

from collections.abc import Callable, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

from sqlmodel import Session, col, func, select

from config.reason import sentence
from daemon.budgets import window_of
from daemon.models import (
    Attempt,
    BillCheck,
    Budget,
    Decision,
    Endpoint,
    Event,
    Installation,
    Job,
    Ledger,
    Machine,
    Outbox,
    SourceHealth,
)
from daemon.money import read_purse
from daemon.states import JOB_TERMINAL, MACHINE_LIVE, AttemptState

Json = dict[str, Any]
QUIET = (".state", "checkpoint.saved", "machine.running", "machine.requested", "bill.checked")
"""Endings of event codes that are left out unless everything is asked for."""


class Ambiguous(Exception):
    """Several jobs begin with this; `ids` names some."""

    def __init__(self, ids: Sequence[str]) -> None:
        super().__init__(", ".join(ids))
        self.ids = tuple(ids)


def find_job(session: Session, name: str) -> Job | None:
    """Return a job by its id, by the beginning of it, or by its name (the newest). Raises Ambiguous."""
    job = session.get(Job, name)
    if job:
        return job
    named = session.exec(
        select(Job).where(Job.name == name).order_by(col(Job.submitted_at).desc(), col(Job.id))
    ).first()
    if named:
        return named
    begun = session.exec(select(Job).where(col(Job.id).startswith(name, autoescape=True)).limit(5)).all()
    if len(begun) > 1:
        raise Ambiguous([job.id for job in begun])
    return begun[0] if begun else None


def jobs(session: Session, *, everything: bool = True, limit: int = 200) -> list[Json]:
    """Return jobs, the newest first."""
    query = select(Job).order_by(col(Job.submitted_at).desc(), col(Job.id)).limit(limit)
    if not everything:
        query = query.where(col(Job.state).not_in(JOB_TERMINAL))
    return [job_row(session, job) for job in session.exec(query)]


def job_row(session: Session, job: Job) -> Json:
    """Return one job in short."""
    cap = session.exec(select(Budget.cap_micro).where(Budget.scope == "job", Budget.subject == job.id)).first()
    return {
        "id": job.id,
        "name": job.name,
        "user": job.user,
        "project": job.project,
        "state": job.state,
        "reason": _sentence(job.reason_code, job.reason_values),
        "reason_code": job.reason_code,
        "priority": job.priority,
        "submitted_at": _iso(job.submitted_at),
        "state_since": _iso(job.state_since),
        "finished_at": _iso(job.finished_at),
        "deadline": _iso(job.deadline),
        "attempts": job.attempts,
        "failures": job.failures,
        "interruptions": job.interruptions,
        "step": job.step,
        "total_steps": job.total_steps,
        "metrics": job.metrics,
        "checkpoint_step": job.checkpoint_step,
        "exit_code": job.exit_code,
        "cost_micro": job.cost_micro,
        "on_demand_micro": job.on_demand_micro,
        "budget_micro": cap,
        "lost_s": job.lost_s,
    }


def job_status(session: Session, job: Job) -> Json:
    """Return what `done/<job>/status.json` holds."""
    return job_row(session, job) | {"runs": _attempts(session, job)}


def job(session: Session, found: Job) -> Json:
    """Return one job with its runs, its file's words and its events."""
    return job_status(session, found) | {
        "spec": found.spec,
        "events": events(session, job_id=found.id, everything=False),
    }


def why(session: Session, found: Job) -> Json:
    """Return why the job is where it is, and each choice of an offer with what lost against it."""
    decisions = session.exec(select(Decision).where(Decision.job_id == found.id).order_by(col(Decision.at))).all()
    return {
        "id": found.id,
        "name": found.name,
        "state": found.state,
        "reason": _sentence(found.reason_code, found.reason_values),
        "reason_code": found.reason_code,
        "command": found.reason_values.get("command", ""),
        "decisions": [_decision(d) for d in decisions],
    }


def budgets(session: Session, now: datetime, zone: ZoneInfo) -> list[Json]:
    """Return every budget with what is spent, leased and left in its present period."""
    purse = read_purse(session, now, zone)
    rows = {b.id: b for b in session.exec(select(Budget))}
    found = []
    for cap in purse.caps:
        window = window_of(cap.period, now, zone)
        spent, leased = purse.spent_micro(cap, window), purse.leased_micro(cap, window)
        found.append(
            {
                "id": cap.id,
                "scope": cap.scope[0],
                "subject": cap.scope[1],
                "period": cap.period,
                "cap_micro": cap.cap_micro,
                "spent_micro": spent,
                "leased_micro": leased,
                "left_micro": cap.cap_micro - spent - leased,
                "at_cap": cap.at_cap,
                "origin": rows[cap.id].origin,
                "period_start": _iso(window.start) if cap.period != "total" else None,
                "period_end": _iso(window.end) if cap.period != "total" else None,
            }
        )
    return found


def events(
    session: Session, *, after: int = 0, job_id: str = "", everything: bool = False, limit: int = 500
) -> list[Json]:
    """Return events in their order, those after number `after`; the newest ones when there are more than `limit`."""
    query = select(Event).where(col(Event.id) > after)
    if job_id:
        query = query.where(Event.job_id == job_id)
    rows = list(session.exec(query.order_by(col(Event.id).desc()).limit(limit if everything else limit * 4)))
    shown = [e for e in reversed(rows) if everything or not e.code.endswith(QUIET)]
    return [
        {
            "id": e.id,
            "at": _iso(e.at),
            "code": e.code,
            "job": e.job_id,
            "machine": e.machine_id,
            "attempt": e.attempt,
            "values": e.values,
            "text": _sentence(e.code, e.values),
        }
        for e in shown[-limit:]
    ]


def machines(session: Session, *, everything: bool = False) -> list[Json]:
    """Return the machines that may exist, or all that ever were."""
    query = select(Machine).order_by(col(Machine.intended_at))
    if not everything:
        query = query.where(col(Machine.state).in_(MACHINE_LIVE))
    return [_machine(m) for m in session.exec(query)]


_GROUPS: dict[str, Callable[[Ledger], str]] = {
    "project": lambda row: row.project,
    "user": lambda row: row.user,
    "job": lambda row: row.job_id,
    "machine": lambda row: row.machine_id,
    "cloud": lambda row: row.cloud,
}


def costs(session: Session, start: datetime, end: datetime, by: str) -> list[Json]:
    """Return what was spent from `start` until before `end`, summed by project, user, job, machine or cloud.

    There is a row for each native currency and rate, with the amount in both, and the machines that it is made of.
    """
    found: dict[tuple[str, str, str], list[Ledger]] = {}
    for row in session.exec(select(Ledger).where(col(Ledger.from_at) >= start, col(Ledger.from_at) < end)):
        found.setdefault((_GROUPS[by](row), row.native_currency, row.fx_rate), []).append(row)
    return [
        {
            by: name,
            "amount_micro": sum(row.amount_micro for row in rows),
            "native_amount": str(sum(Decimal(row.native_amount) for row in rows)),
            "native_currency": currency,
            "fx_rate": rate,
            "machines": sorted({row.machine_id for row in rows}),
        }
        for (name, currency, rate), rows in sorted(found.items(), key=lambda item: item[0])
    ]


def bills(session: Session) -> list[Json]:
    """Return the last comparison of each cloud's bill with the ledger, summed over its days and by machine."""
    newest = dict(session.exec(select(BillCheck.cloud, func.max(BillCheck.checked_at)).group_by(BillCheck.cloud)).all())
    return [
        _bill(cloud, session.exec(select(BillCheck).where(BillCheck.cloud == cloud, BillCheck.checked_at == at)).all())
        for cloud, at in sorted(newest.items())
    ]


def _bill(cloud: str, rows: Sequence[BillCheck]) -> Json:
    sums: dict[str, list[int]] = {}
    for row in rows:
        pair = sums.setdefault(row.machine, [0, 0])
        pair[0], pair[1] = pair[0] + row.ledger_micro, pair[1] + row.billed_micro
    return {
        "cloud": cloud,
        "since": min(row.day for row in rows),
        "until": max(row.day for row in rows),
        "checked_at": _iso(rows[0].checked_at),
        "estimated": any(row.estimated for row in rows),
        "ledger_micro": sum(row.ledger_micro for row in rows),
        "billed_micro": sum(row.billed_micro for row in rows),
        "machines": [
            {"machine": machine, "ledger_micro": ledger, "billed_micro": billed}
            for machine, (ledger, billed) in sorted(sums.items())
        ],
    }


def status(session: Session, now: datetime, zone: ZoneInfo) -> Json:
    """Return the whole in short, with what it would cost at worst if the daemon died now."""
    counts = session.exec(select(Job.state, func.count()).group_by(Job.state)).all()
    live = session.exec(select(Machine).where(col(Machine.state).in_(MACHINE_LIVE))).all()
    owner = session.exec(select(Installation)).first()
    return {
        "install": owner.install_id if owner else "",
        "started_at": _iso(owner.started_at) if owner else None,
        "jobs": {state: int(count) for state, count in counts},
        "machines": len(live),
        "hourly_micro": sum(m.hourly_micro for m in live),
        "worst_micro": sum(m.leased_micro for m in live),
        "worst_until": _iso(max((m.lease_until for m in live if m.lease_until), default=None)),
        "budgets": budgets(session, now, zone),
        "sources": [
            {
                "name": s.name,
                "ok_at": _iso(s.ok_at),
                "failed_at": _iso(s.failed_at),
                "reason": s.reason,
                "offers": s.offers,
                "quarantined": s.quarantined,
            }
            for s in session.exec(select(SourceHealth))
        ],
    }


def alerts(session: Session) -> Json:
    """Return how the alerts stand: endpoints switched off, messages that nobody took, messages on their way."""
    dead = session.exec(
        select(Outbox).where(col(Outbox.dead_at).is_not(None)).order_by(col(Outbox.id).desc()).limit(100)
    )
    waiting = session.exec(
        select(func.count())
        .select_from(Outbox)
        .where(col(Outbox.delivered_at).is_(None), col(Outbox.dead_at).is_(None))
    ).one()
    return {
        "waiting": int(waiting),
        "delivered": int(
            session.exec(select(func.count()).select_from(Outbox).where(col(Outbox.delivered_at).is_not(None))).one()
        ),
        "disabled": [
            {"name": e.name, "at": _iso(e.disabled_at), "because": e.disabled_because}
            for e in session.exec(select(Endpoint))
            if e.disabled_at
        ],
        "dead": [
            {
                "id": r.id,
                "endpoint": r.endpoint,
                "type": r.payload.get("type", ""),
                "tries": r.tries,
                "at": _iso(r.dead_at),
                "answer": r.last_answer,
            }
            for r in dead
        ],
    }


def _attempts(session: Session, found: Job) -> list[Json]:
    query = (
        select(Attempt, Machine)
        .join(Machine, col(Machine.id) == col(Attempt.machine_id))
        .where(Attempt.job_id == found.id)
        .order_by(col(Attempt.n))
    )
    return [
        {
            "attempt": a.n,
            "state": a.state,
            "phase": a.phase,
            "outcome": a.outcome,
            "reason": _sentence(a.reason_code, a.reason_values),
            "started_at": _iso(a.started_at),
            "ended_at": _iso(a.ended_at),
            "restored_step": a.restored_step,
            "step": a.step,
            "checkpoint_step": a.checkpoint_step,
            "run_s": a.run_s,
            "lost_s": a.lost_s,
            "exit_code": a.exit_code,
            "log_chunks": a.status.get("log_chunks", 0),
            "live": a.state != AttemptState.ENDED,
            "machine": _machine(m),
        }
        for a, m in session.exec(query)
    ]


def _machine(m: Machine) -> Json:
    return {
        "id": m.id,
        "state": m.state,
        "cloud": m.cloud,
        "region": m.region,
        "zone": m.zone,
        "type": m.type,
        "market": m.market,
        "gpu": m.gpu,
        "gpus": m.gpus,
        "provider_id": m.provider_id,
        "job": m.job_id,
        "hourly_micro": m.hourly_micro,
        "on_demand_hourly_micro": m.on_demand_hourly_micro,
        "spent_micro": m.spent_micro,
        "leased_micro": m.leased_micro,
        "lease_until": _iso(m.lease_until),
        "intended_at": _iso(m.intended_at),
        "launched_at": _iso(m.launched_at),
        "heard_at": _iso(m.heard_at),
        "notice_at": _iso(m.notice_at),
        "ended_at": _iso(m.ended_at),
        "reason": _sentence(m.reason_code, m.reason_values),
    }


def _decision(d: Decision) -> Json:
    def shown(choice: Json) -> Json:
        code, values = choice.get("why", ["", {}])
        return {k: v for k, v in choice.items() if k != "why"} | {"why": _sentence(code, values)}

    return {
        "at": _iso(d.at),
        "winner": shown(d.winner),
        "runners_up": [shown(c) for c in d.runners_up],
        "passed_over": [
            {"why": _sentence(code, values), "code": code, "offers": count} for code, values, count in d.passed_over
        ],
    }


def _sentence(code: str, values: Json) -> str:
    return sentence(code, values) if code else ""


def _iso(at: datetime | None) -> str | None:
    return at.isoformat(timespec="milliseconds") if at else None
