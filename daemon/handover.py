"""Who may write checkpoints: a new attempt starts on the daemon's word alone, once the old one can write no more."""

from datetime import datetime

from sqlmodel import Session, col, select

from config.reason import Reason
from daemon import jobs
from daemon.models import Attempt, Job, Machine
from daemon.states import AttemptState
from daemon.world import World


class Handover:
    """Gives the start word, and takes it away from attempts whose lease has run out."""

    def __init__(self, world: World) -> None:
        self.world = world

    def run_once(self, now: datetime) -> dict[str, int]:
        """End attempts that can no longer be alive, then start those that are ready and alone."""
        with self.world.database.write() as session:
            ended = self._run_out(session, now)
            ready = session.exec(select(Attempt).where(Attempt.state == AttemptState.READY)).all()
            started = sum(self._start(session, attempt, now) for attempt in ready)
        return {"ended": ended, "started": started}

    def _run_out(self, session: Session, now: datetime) -> int:
        query = (
            select(Attempt, Machine)
            .join(Machine, col(Machine.id) == col(Attempt.machine_id))
            .where(Attempt.state == AttemptState.SAVING, col(Machine.lease_until) < now)
        )
        rows = session.exec(query).all()
        for attempt, machine in rows:
            reason = Reason("lost.lease", {"offer": machine.offer["pool"]})
            jobs.end(self.world, session, attempt, session.get_one(Job, attempt.job_id), "lost", reason, now)
        return len(rows)

    def _start(self, session: Session, attempt: Attempt, now: datetime) -> bool:
        if any(other.state in jobs.WRITERS for other in jobs.alive(session, attempt.job_id)):
            return False
        job = session.get_one(Job, attempt.job_id)
        self.world.journal.advance(
            session,
            attempt,
            AttemptState.RUNNING,
            now=now,
            reason=Reason("attempt.start", {"step": job.checkpoint_step}),
            started_at=now,
            command="start",
            command_seq=col(Attempt.command_seq) + 1,
            restored_from=job.checkpoint,
            restored_step=job.checkpoint_step,
        )
        return True
