"""What the agents say: read from the store, believed while the attempt lives."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from sqlmodel import Session, col, select, update

from config.reason import Reason
from daemon import jobs
from daemon.models import Attempt, Job, Machine
from daemon.states import AttemptState, JobState, MachineState
from daemon.world import World
from runner.store import Missing
from runner.store.records import AttemptStatus, Beat, Phase, attempt_key, machine_key

_LOG_TAIL = 16_384
_TAIL_LINES = 20


@dataclass(frozen=True)
class Report:
    """One machine's beat and the status of each attempt on it; None where nothing has been written yet."""

    beat: Beat | None
    statuses: dict[str, tuple[AttemptStatus, str]]  # by attempt: its status, and the end of its log if it failed


class Reports:
    """Reads what the machines write, and moves attempts and jobs by it."""

    def __init__(self, world: World) -> None:
        self.world = world
        self._busy = False

    def run_once(self, now: datetime) -> dict[str, int]:  # noqa: ARG002 - a loop is handed the time
        """Read all reports, unless the last reading still goes on."""
        if self._busy:
            return {"asked": 0}
        with self.world.database.write() as session:
            rows = session.exec(
                select(Machine).where(
                    col(Machine.state).in_(
                        [MachineState.REQUESTED, MachineState.BOOTING, MachineState.RUNNING, MachineState.ENDING]
                    )
                )
            ).all()
            attempts = {m.id: [a for a, _ in jobs.on_machine(session, m.id)] for m in rows}
        heard = [m for m in rows if attempts[m.id]]
        if heard:
            self._busy = True
            self.world.calls.submit("reports", partial(self._read, heard, attempts), self._apply)
        return {"asked": len(heard)}

    def _read(self, machines: list[Machine], attempts: dict[str, list[Attempt]]) -> dict[str, Report]:
        return {machine.id: read_report(self.world, machine, attempts[machine.id]) for machine in machines}

    def _apply(self, outcome: Any) -> None:  # noqa: ANN401
        self._busy = False
        if isinstance(outcome, Exception):
            self.world.journal_failure("store", outcome)
            return
        now = self.world.clock.now()
        with self.world.database.write() as session:
            for machine_id, report in outcome.items():
                machine = session.get_one(Machine, machine_id)
                if machine.state != MachineState.GONE:
                    apply_report(self.world, session, machine, report, now)
                    session.refresh(machine)
                    self._silence(session, machine, now)
        self.world.wake()

    def _silence(self, session: Session, machine: Machine, now: datetime) -> None:
        """Give up a machine that has not been heard for too long: its jobs go on elsewhere."""
        since = machine.heard_at or machine.launched_at
        patience = self.world.settings.silent_after if machine.heard_at else self.world.settings.lease.boot
        if since is None or now - since <= patience or machine.state == MachineState.ENDING:
            return
        reason = Reason("lost.silent", {"offer": machine.offer["pool"], "for_s": (now - since).total_seconds()})
        for attempt, job in jobs.on_machine(session, machine.id):
            jobs.lost(self.world, session, attempt, job, reason, now)
        session.refresh(machine)
        jobs.end_machine(self.world, session, machine, reason, now)


def read_report(world: World, machine: Machine, attempts: list[Attempt]) -> Report:
    """Read what one machine has written; may block. Raises StoreError when the store can't be read."""
    statuses = {}
    for attempt in attempts:
        status = _get(world, attempt_key(attempt.job_id, attempt.n, "status.json"), AttemptStatus.from_json)
        if status is not None:
            tail = _log_tail(world, attempt, status) if status.phase == Phase.FAILED else ""
            statuses[attempt.id] = (status, tail)
    return Report(_get(world, machine_key(machine.id, "beat.json"), Beat.from_json), statuses)


def apply_report(world: World, session: Session, machine: Machine, report: Report, now: datetime) -> None:
    """Move a machine and its attempts to where their report says they are."""
    from daemon.machines import take_notice

    beat = report.beat
    if beat and beat.machine == machine.id and beat.seq > machine.beat_seq:
        session.execute(update(Machine).where(col(Machine.id) == machine.id).values(beat_seq=beat.seq, heard_at=now))
        if machine.state in {MachineState.REQUESTED, MachineState.BOOTING}:
            world.journal.advance(session, machine, MachineState.RUNNING, now=now, reason=Reason("machines.heard"))
            world.journal.emit(session, now, "machine.running", machine=machine, offer=machine.offer["pool"])
        if beat.notice_in_s is not None:
            take_notice(world, session, machine, now + timedelta(seconds=beat.notice_in_s), now)
    for attempt, job in jobs.on_machine(session, machine.id):
        if attempt.id in report.statuses:
            status, tail = report.statuses[attempt.id]
            _take_in(world, session, attempt, job, status, now)
            _move(world, session, attempt, job, status, tail, now)


def _take_in(world: World, session: Session, attempt: Attempt, job: Job, status: AttemptStatus, now: datetime) -> None:
    values = {
        "phase": status.phase,
        "step": status.step,
        "checkpoint_step": status.checkpoint_step,
        "run_s": status.running_s,
        "lost_s": status.lost_s,
        "exit_code": status.exit_code,
        "status": {**attempt.status, **status.__dict__},
    }
    warned = len(attempt.status.get("warnings", []))
    session.execute(update(Attempt).where(col(Attempt.id) == attempt.id).values(**values))
    changes: dict[str, Any] = {}
    if status.step > job.step or (status.metrics and status.metrics != job.metrics):
        changes = {"step": max(status.step, job.step), "metrics": status.metrics or job.metrics}
    if status.total_steps > 0:
        changes["total_steps"] = status.total_steps
    if status.checkpoint and status.checkpoint != job.checkpoint and status.checkpoint_step >= job.checkpoint_step:
        changes |= {"checkpoint": status.checkpoint, "checkpoint_step": status.checkpoint_step}
        world.journal.emit(session, now, "checkpoint.saved", job=job, attempt=attempt.n, step=status.checkpoint_step)
    if changes:
        session.execute(update(Job).where(col(Job.id) == job.id).values(**changes))
    for code, values_ in status.warnings[warned:]:
        world.journal.emit(session, now, "job.warning", job=job, attempt=attempt.n, warning=Reason(code, values_))


def _move(
    world: World, session: Session, attempt: Attempt, job: Job, status: AttemptStatus, tail: str, now: datetime
) -> None:
    if status.phase in Phase.TERMINAL:
        _ended(world, session, attempt, job, status, tail, now)
    elif status.phase == Phase.READY and attempt.state == AttemptState.PLACED:
        world.journal.advance(session, attempt, AttemptState.READY, now=now, reason=Reason("attempt.ready"))
    elif (
        status.phase in {Phase.RUNNING, Phase.SAVING}
        and attempt.state == AttemptState.RUNNING
        and job.state == JobState.STARTING
    ):
        _started(world, session, attempt, job, status, now)


def _started(world: World, session: Session, attempt: Attempt, job: Job, status: AttemptStatus, now: datetime) -> None:
    machine = session.get_one(Machine, attempt.machine_id)
    world.journal.advance(
        session, job, JobState.RUNNING, now=now, reason=Reason("running.on", {"offer": machine.offer["pool"]})
    )
    if status.restored_step >= 0:
        world.journal.emit(
            session,
            now,
            "job.resumed",
            job=job,
            machine=machine,
            attempt=attempt.n,
            step=status.restored_step,
            lost_s=job.lost_s,
            offer=machine.offer["pool"],
        )
    else:
        world.journal.emit(
            session, now, "job.started", job=job, machine=machine, attempt=attempt.n, offer=machine.offer["pool"]
        )


def _ended(
    world: World, session: Session, attempt: Attempt, job: Job, status: AttemptStatus, tail: str, now: datetime
) -> None:
    session.refresh(attempt)
    if status.phase == Phase.SUCCEEDED:
        jobs.end(world, session, attempt, job, "succeeded", Reason("ended.finished"), now)
    elif status.ended_because == "max_duration":
        jobs.end(world, session, attempt, job, "too-long", Reason("failed.max_duration"), now)
    elif status.phase == Phase.FAILED:
        code = "failed.out_of_memory" if status.out_of_memory else f"failed.{status.ended_because or 'failed'}"
        reason = Reason(code, {"exit_code": status.exit_code})
        session.execute(
            update(Attempt).where(col(Attempt.id) == attempt.id).values(status={**attempt.status, "log_tail": tail})
        )
        jobs.end(world, session, attempt, job, "failed", reason, now)
    else:
        outcome = "interrupted" if status.ended_because == "notice" else "stopped"
        saved = status.phase == Phase.SAVED
        reason = Reason(
            "ended.saved" if saved else "ended.not_saved", {"why": status.ended_because, "step": status.checkpoint_step}
        )
        jobs.end(world, session, attempt, job, outcome, reason, now)
        if outcome == "stopped":
            world.journal.emit(
                session,
                now,
                "job.stopped",
                job=job,
                attempt=attempt.n,
                step=job.checkpoint_step,
                why=status.ended_because,
                saved=saved,
            )


def _get(world: World, key: str, parse: Any) -> Any:  # noqa: ANN401
    try:
        return parse(world.store.get(key))
    except Missing:
        return None
    except ValueError:
        return None  # half-understood is not understood: the agent writes it again


def _log_tail(world: World, attempt: Attempt, status: AttemptStatus) -> str:
    """Return the last lines of an attempt's log, from as few chunks as hold them."""
    text = b""
    for chunk in range(status.log_chunks - 1, -1, -1):
        try:
            text = world.store.get(attempt_key(attempt.job_id, attempt.n, f"log/{chunk:06d}")) + text
        except Missing:
            break
        if text.count(b"\n") > _TAIL_LINES or len(text) > _LOG_TAIL:
            break
    return "\n".join(text[-_LOG_TAIL:].decode("utf-8", "replace").splitlines()[-_TAIL_LINES:])
