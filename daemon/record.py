"""Write a plan down, in one transaction, before any of it is done."""

from dataclasses import replace
from datetime import datetime
from typing import Any

from sqlmodel import Session, col, select, update

from config.reason import Reason
from config.units import Money
from daemon import jobs
from daemon.decide import disk_hourly_micro
from daemon.models import Attempt, Budget, Decision, Job, Machine
from daemon.snapshot import Candidate, Hold, Launch, Plan, Release, Renewal, Skip, Stop
from daemon.states import AttemptState, JobState, MachineState
from daemon.world import World
from pricing.offer import Market, Offer


def record(world: World, session: Session, plan: Plan, now: datetime) -> None:
    """Turn every part of the plan into rows: intents, leases, reasons."""
    for renewal in plan.renewals:
        _renew(session, renewal)
    for stop in plan.stops:
        _stop(world, session, stop, now)
    for release in plan.releases:
        _release(world, session, release, now)
    for launch in plan.launches:
        _launch(world, session, launch, now)
    for hold in plan.holds:
        _hold(world, session, hold, now)
    for skip in plan.skips:
        _skip(world, session, skip, now)


def offer_as_json(offer: Offer) -> dict[str, Any]:
    """Return an offer as it is kept beside a machine or a decision."""
    return {
        "pool": str(offer.pool),
        "cloud": offer.pool.cloud,
        "region": offer.pool.region,
        "zone": offer.pool.zone,
        "type": offer.pool.type,
        "market": str(offer.pool.market),
        "gpu": offer.gpu,
        "gpus": offer.gpus,
        "gpu_memory": offer.gpu_memory,
        "vcpus": offer.vcpus,
        "memory": offer.memory,
        "family": offer.family,
        "hourly_micro": offer.hourly_micro,
        "ceiling_micro": offer.ceiling_micro,
        "as_of": offer.as_of.isoformat(),
        "boot_s": offer.boot.total_seconds(),
        "notice_s": offer.notice.total_seconds(),
    }


def _renew(session: Session, renewal: Renewal) -> None:
    lease = renewal.lease
    session.execute(
        update(Machine)
        .where(col(Machine.id) == renewal.machine, col(Machine.state) == MachineState.RUNNING)
        .values(lease_until=lease.until, leased_micro=lease.total_micro, lease_seq=col(Machine.lease_seq) + 1)
    )


def _stop(world: World, session: Session, stop: Stop, now: datetime) -> None:
    machine = session.get_one(Machine, stop.machine)
    for attempt, job in jobs.on_machine(session, machine.id):
        reason = Reason(
            "hold.budget",
            {
                **stop.reason.values,
                **_period(session, stop.budget, stop.period_start),
                "command": f"frugald budget set {stop.budget} AMOUNT",
            },
        )
        jobs.reached(world, session, job, stop.budget, stop.period_start, now)
        jobs.stop(world, session, job, attempt, reason, now, job_state=JobState.HELD)


def _release(world: World, session: Session, release: Release, now: datetime) -> None:
    job = session.get_one(Job, release.job)
    world.journal.advance(session, job, JobState.QUEUED, now=now, reason=Reason("wait.released"))
    world.journal.emit(session, now, "job.released", job=job)


def _launch(world: World, session: Session, launch: Launch, now: datetime) -> None:
    job = session.get_one(Job, launch.job)
    chosen = decision(world, launch, now)
    machine = _machine(world, job, launch, now)
    attempt = Attempt(
        id=f"{job.id}-{job.attempts}",
        job_id=job.id,
        n=job.attempts,
        machine_id=machine.id,
        decision_id=chosen.id,
        state=AttemptState.PLACED,
        state_since=now,
        created_at=now,
    )
    session.add_all([chosen, machine])
    session.flush()
    session.add(attempt)
    world.journal.advance(
        session,
        job,
        JobState.PLACING,
        now=now,
        attempts=col(Job.attempts) + 1,
        reason=Reason("placing.offer", {"offer": machine.offer["pool"]}),
    )
    offer = launch.offer
    world.journal.emit(
        session,
        now,
        "job.placed",
        job=job,
        machine=machine,
        attempt=attempt.n,
        offer=short(offer),
        market=str(offer.pool.market),
        hourly_micro=machine.hourly_micro,
        on_demand_hourly_micro=machine.on_demand_hourly_micro,
    )


def decision(world: World, launch: Launch, now: datetime) -> Decision:
    """Return why an offer was chosen, as it is kept."""
    return Decision(
        id=world.ids.new("d"),
        job_id=launch.job,
        at=now,
        winner=_choice(launch.winner),
        runners_up=[_choice(candidate) for candidate in launch.runners_up],
        passed_over=[[reason.code, dict(reason.values), count] for reason, count in launch.passed_over],
    )


def _choice(candidate: Candidate) -> dict[str, Any]:
    return {
        **offer_as_json(candidate.offer),
        "expected_micro": candidate.expected_micro,
        "per_work_hour_micro": candidate.per_work_hour_micro,
        "why": [candidate.why.code, dict(candidate.why.values)],
    }


def _machine(world: World, job: Job, launch: Launch, now: datetime) -> Machine:
    offer, pool = launch.offer, launch.offer.pool
    machine_id = world.ids.new("m")
    disk = world.spec(job).disk_bytes
    disk_hourly = disk_hourly_micro(offer, disk)
    on_demand = offer.hourly_micro if pool.market is Market.ON_DEMAND else offer.ceiling_micro
    lease = replace(launch.lease, machine=machine_id)
    return Machine(
        id=machine_id,
        token=f"{world.database.install_id}-{job.id}-{job.attempts}-{machine_id}",
        state=MachineState.INTENDED,
        state_since=now,
        intended_at=now,
        cloud=pool.cloud,
        region=pool.region,
        zone=pool.zone,
        type=pool.type,
        market=str(pool.market),
        gpu=offer.gpu,
        gpus=offer.gpus,
        bid_micro=launch.bid_micro,
        offer=offer_as_json(offer)
        | {
            "disk": disk,
            "disk_hourly_micro": disk_hourly,
            "bundle": list(world.bundle),
            "guard_s": world.settings.lease.boot.total_seconds(),
            "native": {"currency": _native_currency(world, offer), "rate": offer.fx_rate},
        },
        hourly_micro=offer.hourly_micro + disk_hourly,
        highest_hourly_micro=lease.hourly_micro,
        on_demand_hourly_micro=on_demand + disk_hourly,
        lease_until=lease.until,
        leased_micro=lease.total_micro,
        job_id=job.id,
        user=job.user,
        project=job.project,
    )


def _native_currency(world: World, offer: Offer) -> str:
    """Return the currency that the cloud bills in."""
    own = world.settings.currency
    return Money.parse(offer.native_hourly, own).currency if offer.native_hourly else own


def _hold(world: World, session: Session, hold: Hold, now: datetime) -> None:
    job = session.get_one(Job, hold.job)
    values = {
        **hold.reason.values,
        **_period(session, hold.budget, hold.period_start),
        "command": f"frugald budget set {hold.budget} AMOUNT",
    }
    jobs.reached(world, session, job, hold.budget, hold.period_start, now)
    jobs.hold(world, session, job, Reason("hold.budget", values), now)


def _skip(world: World, session: Session, skip: Skip, now: datetime) -> None:
    values = dict(skip.reason.values)
    job = session.get_one(Job, skip.job)
    retry = world.spec(job).retry
    waited_enough = retry.duration is not None and now - job.state_since > retry.duration
    if skip.reason.code.startswith("nothing.") and ("no-capacity" not in retry.on_events or waited_enough):
        jobs.give_up(world, session, job, Reason("failed.no_capacity", {"why": str(skip.reason)}), now)
        return
    if (job.reason_code, job.reason_values) != (skip.reason.code, values):
        session.execute(
            update(Job).where(col(Job.id) == skip.job).values(reason_code=skip.reason.code, reason_values=values)
        )


def _period(session: Session, budget: str, start: datetime) -> dict[str, Any]:
    cap = session.exec(select(Budget.cap_micro).where(Budget.id == budget)).one()
    return {"budget": budget, "cap_micro": cap, "period_start": start.isoformat()}


def short(offer: Offer) -> str:
    """Return an offer as a sentence names it, such as `A10G spot in aws/us-east-1c`."""
    gpus = "" if offer.gpus == 1 else f"{offer.gpus:g} x "
    return f"{gpus}{offer.gpu or 'CPU'} {offer.pool.market} in {offer.pool.cloud}/{offer.pool.zone}"
