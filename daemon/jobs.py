"""What becomes of a job: every way in which an attempt or a job ends, pauses or starts over."""

from datetime import datetime, timedelta
from typing import Any

from sqlmodel import Session, col, select, update

from config.reason import Reason
from daemon import money
from daemon.budgets import Cap, window_of
from daemon.events import needed_micro
from daemon.models import Attempt, Budget, BudgetAlert, Job, Machine
from daemon.states import JOB_TERMINAL, AttemptState, JobState, MachineState
from daemon.world import World

LIVE_ATTEMPTS = (AttemptState.PLACED, AttemptState.READY, AttemptState.RUNNING, AttemptState.SAVING)
WRITERS = (AttemptState.RUNNING, AttemptState.SAVING)
_ON_THE_WAY = (JobState.PLACING, JobState.STARTING)
_RETRY_AFTER = timedelta(seconds=10)
_LONGEST_RETRY = timedelta(minutes=10)


def on_machine(session: Session, machine_id: str) -> list[tuple[Attempt, Job]]:
    """Return the attempts that are alive on a machine, with their jobs."""
    rows = session.exec(
        select(Attempt, Job)
        .join(Job, col(Job.id) == col(Attempt.job_id))
        .where(Attempt.machine_id == machine_id, col(Attempt.state).in_(LIVE_ATTEMPTS))
    )
    return list(rows)


def alive(session: Session, job_id: str) -> list[Attempt]:
    """Return a job's attempts that have not ended, oldest first."""
    query = (
        select(Attempt).where(Attempt.job_id == job_id, col(Attempt.state).in_(LIVE_ATTEMPTS)).order_by(col(Attempt.n))
    )
    return list(session.exec(query))


def hold(world: World, session: Session, job: Job, reason: Reason, now: datetime) -> None:
    """Hold a job that nothing runs of, and tell its owner what helps."""
    world.journal.advance(session, job, JobState.HELD, now=now, reason=reason)
    world.journal.emit(
        session,
        now,
        "job.held",
        job=job,
        why=reason,
        spent_micro=job.cost_micro,
        command=str(reason.values.get("command", f"frugald release {job.id}")),
    )


def stop(
    world: World, session: Session, job: Job, attempt: Attempt, reason: Reason, now: datetime, *, job_state: JobState
) -> None:
    """Let an attempt save and end because of `reason`; the job goes to `job_state` at once."""
    if job_state is JobState.HELD and job.state not in {JobState.HELD, JobState.STOPPING}:
        hold(world, session, job, reason, now)
    elif job.state != job_state:
        world.journal.advance(session, job, job_state, now=now, reason=reason)
    if attempt.state == AttemptState.RUNNING:
        word = "cancel" if job_state is JobState.STOPPING else "stop"
        world.journal.advance(
            session,
            attempt,
            AttemptState.SAVING,
            now=now,
            reason=reason,
            command=word,
            command_seq=col(Attempt.command_seq) + 1,
        )
    elif attempt.state in {AttemptState.PLACED, AttemptState.READY}:
        end(world, session, attempt, job, "never-started", reason, now)


def end(
    world: World,
    session: Session,
    attempt: Attempt,
    job: Job,
    outcome: str,
    reason: Reason,
    now: datetime,
    **values: Any,  # noqa: ANN401 - columns of Attempt
) -> None:
    """End one attempt and let its machine and its job go where that leads."""
    world.journal.advance(
        session, attempt, AttemptState.ENDED, now=now, reason=reason, outcome=outcome, ended_at=now, **values
    )
    machine = session.get_one(Machine, attempt.machine_id)
    money.charge_seen(session, machine, now, world.settings.zone)
    if not on_machine(session, machine.id):
        end_machine(world, session, machine, reason, now)
    if outcome != "never-started":
        session.execute(
            update(Job)
            .where(col(Job.id) == job.id)
            .values(lost_s=col(Job.lost_s) + attempt.lost_s, run_s=col(Job.run_s) + attempt.run_s)
        )
    if job.state not in JOB_TERMINAL:
        _what_now(world, session, attempt, job, outcome, reason, now)


def _what_now(
    world: World, session: Session, attempt: Attempt, job: Job, outcome: str, reason: Reason, now: datetime
) -> None:
    """Move a job on after one of its attempts has ended."""
    others = alive(session, job.id)
    if outcome == "succeeded":
        _succeed(world, session, job, now)
    elif job.state == JobState.STOPPING:
        _cancelled(world, session, job, now)
    elif outcome == "too-long":
        _failed(world, session, job, attempt, reason, job.failures + 1, now)
    elif outcome == "failed" and not others:
        _fail_or_retry(world, session, job, attempt, reason, now)
    elif job.state != JobState.HELD and not others:
        _wait_again(world, session, job, outcome, reason, now)


def end_machine(world: World, session: Session, machine: Machine, reason: Reason, now: datetime) -> None:
    """Ask for a machine's end, from whatever state it is in; it bills until the cloud says that it is gone."""
    if machine.state in {MachineState.ENDING, MachineState.GONE}:
        return
    if machine.state == MachineState.INTENDED:
        # It may just be asked for on another thread: only its token can tell.
        world.journal.advance(session, machine, MachineState.UNKNOWN, now=now, reason=reason, ends_because=reason.code)
        return
    if machine.state == MachineState.UNKNOWN:
        session.execute(update(Machine).where(col(Machine.id) == machine.id).values(ends_because=reason.code))
        return
    world.journal.advance(session, machine, MachineState.ENDING, now=now, reason=reason, ends_because=reason.code)


def interrupted(world: World, session: Session, attempt: Attempt, job: Job, left: timedelta, now: datetime) -> None:
    """Act on a notice: the job looks for its next machine at once, while this attempt saves."""
    machine = session.get_one(Machine, attempt.machine_id)
    reason = Reason("interrupted.notice", {"in_s": max(0.0, left.total_seconds()), "offer": machine.offer["pool"]})
    if attempt.state in {AttemptState.PLACED, AttemptState.READY}:
        end(world, session, attempt, job, "never-started", reason, now)
        return
    if attempt.state != AttemptState.RUNNING:
        return
    world.journal.advance(session, attempt, AttemptState.SAVING, now=now, reason=reason)
    if job.state in {JobState.RUNNING, JobState.STARTING} and _goes_on(world, job):
        _recover(world, session, job, attempt, reason, now)


def lost(world: World, session: Session, attempt: Attempt, job: Job, reason: Reason, now: datetime) -> None:
    """Look for the next machine of a job whose machine fell silent; the old attempt may still write until it is gone."""
    if attempt.state in {AttemptState.PLACED, AttemptState.READY}:
        end(world, session, attempt, job, "never-started", reason, now)
    elif attempt.state == AttemptState.RUNNING:
        world.journal.advance(
            session,
            attempt,
            AttemptState.SAVING,
            now=now,
            reason=reason,
            command="stop",
            command_seq=col(Attempt.command_seq) + 1,
        )
        if job.state in {JobState.RUNNING, JobState.STARTING} and _goes_on(world, job):
            world.journal.advance(session, job, JobState.RECOVERING, now=now, reason=reason)
            world.journal.emit(
                session, now, "job.lost", job=job, attempt=attempt.n, offer=reason.values.get("offer", "")
            )


def reached(world: World, session: Session, job: Job, budget_id: str, start: datetime, now: datetime) -> None:
    """Say once for each period and cap that a budget has no room for another lease."""
    budget = session.get_one(Budget, budget_id)
    if not first_time(session, budget, start, "reached", 100, now):
        return
    cap = money.as_cap(budget)
    spent, leased = standing(session, world, cap, start, now)
    world.journal.emit(
        session,
        now,
        "budget.reached",
        job=job,
        budget=budget.id,
        percent=100,
        spent_micro=spent,
        leased_micro=leased,
        cap_micro=budget.cap_micro,
        needed_micro=needed_micro(job),
        command=f"frugald budget set {budget.id} AMOUNT",
    )


def first_time(session: Session, budget: Budget, start: datetime, kind: str, threshold: int, now: datetime) -> bool:
    """Note that an alert is due; False when it went out before for this period and cap."""
    before = select(BudgetAlert).where(
        BudgetAlert.budget_id == budget.id,
        BudgetAlert.period_start == start,
        BudgetAlert.kind == kind,
        BudgetAlert.threshold == threshold,
        BudgetAlert.cap_micro == budget.cap_micro,
    )
    if session.exec(before).first():
        return False
    session.add(
        BudgetAlert(
            budget_id=budget.id, period_start=start, kind=kind, threshold=threshold, cap_micro=budget.cap_micro, at=now
        )
    )
    return True


def standing(session: Session, world: World, cap: Cap, start: datetime, now: datetime) -> tuple[int, int]:
    """Return what is spent and what is leased under `cap` in the period that starts at `start`."""
    purse = money.read_purse(session, now, world.settings.zone)
    window = window_of(cap.period, start, world.settings.zone)
    return money.spent_micro(session, cap, window), purse.leased_micro(cap, window)


def _succeed(world: World, session: Session, job: Job, now: datetime) -> None:
    for attempt in alive(session, job.id):  # a successor that was on its way is not needed any more
        world.journal.advance(
            session,
            attempt,
            AttemptState.ENDED,
            now=now,
            reason=Reason("ended.not_needed"),
            outcome="never-started",
            ended_at=now,
        )
        end_machine(world, session, session.get_one(Machine, attempt.machine_id), Reason("ended.not_needed"), now)
    world.journal.advance(
        session, job, JobState.SUCCEEDED, now=now, reason=Reason("ended.finished"), finished_at=now, exit_code=0
    )
    session.refresh(job)
    world.journal.emit(
        session,
        now,
        "job.finished",
        job=job,
        attempts=job.attempts,
        cost_micro=job.cost_micro,
        on_demand_micro=job.on_demand_micro,
    )


def _cancelled(world: World, session: Session, job: Job, now: datetime) -> None:
    if alive(session, job.id):
        return
    seconds = (now - job.state_since).total_seconds()
    world.journal.advance(session, job, JobState.CANCELLED, now=now, reason=Reason("ended.cancelled"), finished_at=now)
    world.journal.emit(session, now, "job.cancelled", job=job, seconds_s=seconds)


def _fail_or_retry(world: World, session: Session, job: Job, attempt: Attempt, reason: Reason, now: datetime) -> None:
    spec = world.spec(job)
    again = attempt.exit_code in spec.recover_on_exit_codes
    failures = job.failures if again else job.failures + 1
    if again or failures <= spec.max_restarts_on_errors:
        wait = min(_RETRY_AFTER * 2 ** min(max(failures - 1, 0), 10), _LONGEST_RETRY)
        values = {"failures": failures, "in_s": wait.total_seconds(), "exit_code": attempt.exit_code}
        state = JobState.RECOVERING if job.state in {JobState.RUNNING, JobState.RECOVERING} else JobState.QUEUED
        if job.state not in {JobState.HELD, state}:
            world.journal.advance(
                session,
                job,
                state,
                now=now,
                reason=Reason("wait.retry", values),
                failures=failures,
                retry_at=now + wait,
            )
        world.journal.emit(session, now, "job.retrying", job=job, attempt=attempt.n, **values)
        return
    _failed(world, session, job, attempt, reason, failures, now)


def give_up(world: World, session: Session, job: Job, reason: Reason, now: datetime) -> None:
    """Fail a job of which nothing runs."""
    world.journal.advance(session, job, JobState.FAILED, now=now, reason=reason, finished_at=now)
    session.refresh(job)
    world.journal.emit(
        session,
        now,
        "job.failed",
        job=job,
        exit_code=None,
        why=reason,
        spent_micro=job.cost_micro,
        log_tail="",
        command=f"frugald why {job.id}",
    )


def _goes_on(world: World, job: Job) -> bool:
    """Say whether the job's file lets it go on after an interruption."""
    return "interruption" in world.spec(job).retry.on_events


def _failed(
    world: World, session: Session, job: Job, attempt: Attempt, reason: Reason, failures: int, now: datetime
) -> None:
    world.journal.advance(
        session,
        job,
        JobState.FAILED,
        now=now,
        reason=reason,
        failures=failures,
        finished_at=now,
        exit_code=attempt.exit_code,
    )
    session.refresh(job)
    world.journal.emit(
        session,
        now,
        "job.failed",
        job=job,
        attempt=attempt.n,
        exit_code=attempt.exit_code,
        why=reason,
        spent_micro=job.cost_micro,
        log_tail=str(attempt.status.get("log_tail", "")),
        command=f"frugald logs {job.id}",
    )


def _wait_again(world: World, session: Session, job: Job, outcome: str, reason: Reason, now: datetime) -> None:
    if outcome == "never-started":
        state = JobState.RECOVERING if job.checkpoint or job.run_s else JobState.QUEUED
        if job.state != state:
            world.journal.advance(session, job, state, now=now, reason=reason)
        return
    if job.state not in {JobState.RUNNING, JobState.STARTING}:
        return
    newest = session.exec(select(Attempt).where(Attempt.job_id == job.id).order_by(col(Attempt.n).desc())).first()
    if _goes_on(world, job):
        _recover(world, session, job, newest, reason, now)
    else:
        give_up(world, session, job, Reason("failed.interrupted", reason.values), now)


def _recover(world: World, session: Session, job: Job, attempt: Attempt | None, reason: Reason, now: datetime) -> None:
    world.journal.advance(
        session, job, JobState.RECOVERING, now=now, reason=reason, interruptions=col(Job.interruptions) + 1
    )
    world.journal.emit(
        session,
        now,
        "job.interrupted",
        job=job,
        attempt=attempt.n if attempt else -1,
        step=max(job.step, 0),
        offer=reason.values.get("offer", ""),
        in_s=reason.values.get("in_s", 0.0),
        why=reason,
    )
