"""What happened, written down in the transaction in which it happened, with the alerts that follow from it."""

from collections.abc import Callable, Sequence
from datetime import datetime

from sqlmodel import Session, SQLModel, col, update

from config.reason import Reason, Value
from daemon.models import Attempt, Event, Job, Machine, Outbox
from daemon.states import AttemptState, JobState, MachineState, StaleState, moves

Alerting = Callable[[Event], Sequence[Outbox]]
"""Which messages an event makes: pure, given by the alerts room."""


class Journal:
    """Writes events, and makes the only changes of state that there are."""

    def __init__(self, alerting: Alerting = lambda _: ()) -> None:
        self._alerting = alerting

    def emit(
        self,
        session: Session,
        now: datetime,
        code: str,
        *,
        job: Job | None = None,
        machine: Machine | None = None,
        attempt: int = -1,
        **values: Value | Reason,
    ) -> Event:
        """Record one event and the alerts that follow from it."""
        named = _of_job(job) if job else {}
        event = Event(
            at=now,
            code=code,
            job_id=job.id if job else "",
            machine_id=machine.id if machine else "",
            attempt=attempt,
            values=named | {name: v.stored() if isinstance(v, Reason) else v for name, v in values.items()},
        )
        session.add(event)
        session.flush()
        session.add_all(self._alerting(event))
        return event

    def advance(
        self,
        session: Session,
        row: Job | Attempt | Machine,
        new: JobState | AttemptState | MachineState,
        *,
        now: datetime,
        reason: Reason,
        **values: object,
    ) -> None:
        """Move one row to the state `new` and record why, or raise StaleState when it has moved on already.

        `values` are further columns to set in the same guarded update.
        """
        old = type(new)(row.state)
        if new not in moves(old):
            raise AssertionError(f"{old} -> {new} is not a move of a {type(row).__name__.lower()}")
        table: type[SQLModel] = type(row)
        changed = session.execute(
            update(table)
            .where(col(type(row).id) == row.id, col(type(row).state) == old)
            .values(state=new, state_since=now, reason_code=reason.code, reason_values=dict(reason.values), **values)
        )
        if changed.rowcount == 0:  # type: ignore[attr-defined]
            raise StaleState(f"{type(row).__name__.lower()} {row.id} is no longer {old}")
        kind = type(row).__name__.lower()
        session.add(
            Event(
                at=now,
                code=f"{kind}.state",
                job_id=_job_of(row),
                machine_id=_machine_of(row),
                attempt=row.n if isinstance(row, Attempt) else -1,
                values={"old": str(old), "new": str(new), "why": reason.code, **reason.values},
            )
        )


def _of_job(job: Job) -> dict[str, Value]:
    """Return what every event of a job tells: what it has cost, what it still needs, and the command that shows more."""
    return {
        "job": job.name,
        "spent_micro": job.cost_micro,
        "needed_micro": needed_micro(job),
        "command": f"frugald why {job.id}",
    }


def needed_micro(job: Job) -> int | None:
    """Estimate what the job still needs, from its own cost and progress; None before there is progress to go by."""
    if job.total_steps <= 0 or job.step <= 0 or job.cost_micro == 0:
        return None
    return job.cost_micro * max(0, job.total_steps - job.step) // job.step


def _job_of(row: Job | Attempt | Machine) -> str:
    return row.id if isinstance(row, Job) else row.job_id


def _machine_of(row: Job | Attempt | Machine) -> str:
    if isinstance(row, Machine):
        return row.id
    return row.machine_id if isinstance(row, Attempt) else ""
