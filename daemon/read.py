"""Read the world into one frozen snapshot."""

from datetime import datetime, timedelta
from typing import Protocol

from sqlalchemy import func
from sqlmodel import Session, col, select

from config import gpus
from config.reason import Reason
from daemon import jobs, money, sold_out
from daemon.advise import advises, for_advice
from daemon.jobfile import JobSpec
from daemon.models import Attempt, Budget, Job, Machine
from daemon.snapshot import HeldJob, LiveMachine, Snapshot, WaitingJob
from daemon.states import MACHINE_LIVE, AttemptState, JobState, MachineState
from daemon.world import World
from pricing.book import PriceBook
from pricing.expected_cost import WorkView
from pricing.history import Hazards
from pricing.offer import Quota

_MINUTE = timedelta(minutes=1)
_WRITE_H = 1 / 60
_WRITE_SHARE = 0.02
"""How long a checkpoint blocks the job: a minute, or less where somebody wants them so often that it must be less."""


class PriceView(Protocol):
    """What a decision needs of the prices."""

    book: PriceBook
    quotas: tuple[Quota, ...]
    hazards: Hazards


def read_snapshot(world: World, session: Session, prices: PriceView, now: datetime) -> Snapshot:
    """Read everything that a decision may depend on."""
    settings = world.settings
    live = session.exec(select(Machine).where(col(Machine.state).in_(MACHINE_LIVE))).all()
    recent = session.exec(
        select(func.count()).select_from(Machine).where(col(Machine.intended_at) > now - _MINUTE)
    ).one()
    snapshot = Snapshot(
        now=now,
        waiting=tuple(_waiting(world, session)),
        held=tuple(_held(session)),
        machines=tuple(m for machine in live if (m := _live(world, session, machine, now))),
        machine_count=len(live),
        recent_launches=int(recent),
        book=prices.book,
        hazards=prices.hazards,
        purse=money.read_purse(session, now, settings.zone),
        lease=settings.lease,
        choose=settings.choose,
        stale_after=settings.prices.stale_after,
        closed=sold_out.closed(session, now),
        quotas=prices.quotas,
        uncapped_clouds=_uncapped(world, session),
    )
    return for_advice(snapshot) if advises(settings) else snapshot


def waiting_job(world: World, job: Job, waits_for: tuple[str, ...] = ()) -> WaitingJob:
    """Return a job as a decision sees it."""
    spec = world.spec(job)
    return WaitingJob(
        id=job.id,
        name=job.name,
        user=job.user,
        project=job.project,
        priority=job.priority,
        submitted_at=job.submitted_at,
        needs=spec.needs(),
        work=_work(world, job),
        disk=spec.disk_bytes,
        not_before=max((t for t in (job.not_before, job.retry_at) if t), default=None),
        deadline=job.deadline,
        waits_for=waits_for,
        tries_failed=job.launches_failed,
        lacks=_missing_secret(world, spec),
    )


def _missing_secret(world: World, spec: JobSpec) -> Reason | None:
    try:
        spec.environment(world.credentials)
    except (OSError, UnicodeError) as error:
        return Reason("wait.secret", {"why": str(error)})
    return None


def _waiting(world: World, session: Session) -> list[WaitingJob]:
    rows = session.exec(select(Job).where(col(Job.state).in_([JobState.QUEUED, JobState.RECOVERING]))).all()
    busy = set(
        session.exec(select(Attempt.job_id).where(col(Attempt.state).in_([AttemptState.PLACED, AttemptState.READY])))
    )
    return [waiting_job(world, job, _waits_for(world, session, job)) for job in rows if job.id not in busy]


def _waits_for(world: World, session: Session, job: Job) -> tuple[str, ...]:
    """Return the names in `after` whose newest job has not succeeded."""
    return tuple(
        name
        for name in world.spec(job).after
        if session.exec(
            select(Job.state).where(Job.name == name, Job.id != job.id).order_by(col(Job.submitted_at).desc())
        ).first()
        != JobState.SUCCEEDED
    )


def _work(world: World, job: Job) -> WorkView:
    """Return what is known of the work that is left: from the job file, and from its own reports."""
    spec = world.spec(job)
    left = 1.0
    if job.total_steps > 0 and job.checkpoint_step > 0:
        left = max(0.0, 1 - job.checkpoint_step / job.total_steps)
    hours = spec.work.hours * left if spec.work else None
    if spec.checkpoint is None:
        return WorkView(hours=hours, on_gpu=_gpu_key(spec), checkpointed=False)
    interval_h = spec.checkpoint.interval / timedelta(hours=1)
    return WorkView(
        hours=hours,
        on_gpu=_gpu_key(spec),
        checkpointed=True,
        interval_h=interval_h,
        write_h=min(_WRITE_H, interval_h * _WRITE_SHARE),
    )


def _gpu_key(spec: JobSpec) -> str:
    return gpus.matches(spec.work.on)[0].key if spec.work else ""


def _held(session: Session) -> list[HeldJob]:
    rows = session.exec(select(Job).where(Job.state == JobState.HELD, Job.reason_code == "hold.budget")).all()
    return [
        HeldJob(
            job.id,
            job.reason_values["budget"],
            job.reason_values["cap_micro"],
            datetime.fromisoformat(job.reason_values["period_start"]),
        )
        for job in rows
    ]


def _live(world: World, session: Session, machine: Machine, now: datetime) -> LiveMachine | None:
    lease = money.lease_of(machine)
    if (
        machine.state != MachineState.RUNNING
        or lease is None
        or machine.launched_at is None
        or machine.heard_at is None
    ):
        return None
    pairs = jobs.on_machine(session, machine.id)
    working = any(attempt.state != AttemptState.SAVING for attempt, _ in pairs)
    heard = now - machine.heard_at < max(5 * world.settings.tick, timedelta(seconds=5))
    return LiveMachine(
        machine.id, lease, machine.launched_at, renewable=working and heard and machine.notice_at is None
    )


def _uncapped(world: World, session: Session) -> frozenset[str]:
    capped = session.exec(
        select(Budget.id).where(Budget.scope == "all", Budget.period == "month", col(Budget.ended_at).is_(None))
    ).first()
    if capped:
        return frozenset()
    return frozenset(name for name, provider in world.providers.items() if provider.abilities.real_money)
