"""`mode = "advise"`: say what would be rented, and rent nothing."""

from dataclasses import replace
from datetime import datetime
from typing import Any

from sqlmodel import Session, col, select, update

from config.reason import Reason
from config.settings import Settings
from daemon.decide import disk_hourly_micro
from daemon.models import Event, Job
from daemon.record import decision, record, short
from daemon.snapshot import Launch, Plan, Snapshot
from daemon.world import World

_SAVES = 0.05
"""The offer that was told is told again when its price has fallen by more than this share."""


def advises(settings: Settings) -> bool:
    """Say whether nothing may be rented, lengthened or ended: perhaps the keys can only read."""
    return settings.mode == "advise"


def for_advice(snapshot: Snapshot) -> Snapshot:
    """Return the snapshot without what guards real launches only: their pace, and clouds that need a monthly cap."""
    choose = snapshot.choose.model_copy(update={"max_launches_per_minute": len(snapshot.waiting) + 1})
    return replace(snapshot, choose=choose, recent_launches=0, uncapped_clouds=frozenset())


def record_advice(world: World, session: Session, plan: Plan, now: datetime) -> None:
    """Write down what the plan would rent and why jobs wait; machines that still run end with their leases."""
    record(world, session, replace(plan, launches=(), renewals=(), stops=()), now)
    for launch in plan.launches:
        _advise(world, session, launch, now)


def _advise(world: World, session: Session, launch: Launch, now: datetime) -> None:
    job = session.get_one(Job, launch.job)
    choice = _would_rent(world, job, launch)
    reason = Reason("wait.advise", choice)
    if (job.reason_code, job.reason_values) == (reason.code, choice):
        return
    chosen = decision(world, launch, now)
    chosen.id = f"advice-{job.id}"  # one for each job: it is what would be done now, and replaces what it was before
    session.merge(chosen)
    session.execute(update(Job).where(col(Job.id) == job.id).values(reason_code=reason.code, reason_values=choice))
    if _is_news(session, job, choice):
        world.journal.emit(session, now, "job.advised", job=job, **choice)


def _would_rent(world: World, job: Job, launch: Launch) -> dict[str, Any]:
    offer = launch.offer
    disk_hourly = disk_hourly_micro(offer, world.spec(job).disk_bytes)
    return {"offer": short(offer), "pool": str(offer.pool), "hourly_micro": offer.hourly_micro + disk_hourly}


def _is_news(session: Session, job: Job, choice: dict[str, Any]) -> bool:
    """Say whether the choice differs from the one that was told last, or is cheaper enough to tell it again."""
    told = session.exec(
        select(Event).where(Event.job_id == job.id, Event.code == "job.advised").order_by(col(Event.id).desc())
    ).first()
    if told is None or told.values["pool"] != choice["pool"]:
        return True
    return bool(choice["hourly_micro"] < told.values["hourly_micro"] * (1 - _SAVES))
