"""Put results where the owner of a job looks for them: `done/<job>/` in the drop folder."""

from datetime import datetime
from functools import partial
from typing import Any

from sqlmodel import col, select, update

from daemon.inbox import Delivery
from daemon.models import Job, Machine
from daemon.states import JOB_TERMINAL, MachineState
from daemon.views import job_status
from daemon.world import World


class Deliveries:
    """Mirrors outputs, logs and a status file of every job that is open or has just ended."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.delivery = Delivery(world.settings.under_state(world.settings.inbox.folder), world.store)
        self._busy = False

    def run_once(self, now: datetime) -> dict[str, int]:  # noqa: ARG002 - a loop is handed the time
        """Deliver what is new, unless the last delivery still goes on."""
        if self._busy:
            return {"jobs": 0}
        with self.world.database.write() as session:
            rows = session.exec(select(Job).where(col(Job.delivered).is_(False))).all()
            bills = set(session.exec(select(Machine.job_id).where(Machine.state != MachineState.GONE)))
            due = [(job_status(session, job), job.state in JOB_TERMINAL and job.id not in bills) for job in rows]
        if due:
            self._busy = True
            self.world.calls.submit("deliveries", partial(self._deliver, due), partial(self._delivered, due))
        return {"jobs": len(due)}

    def _deliver(self, due: list[tuple[dict[str, Any], bool]]) -> None:
        for status, _ in due:
            self.delivery.mirror(status["id"], status["name"])
            self.delivery.status(status)

    def _delivered(self, due: list[tuple[dict[str, Any], bool]], outcome: Any) -> None:  # noqa: ANN401
        self._busy = False
        if isinstance(outcome, Exception):
            self.world.journal_failure("delivery", outcome)
            return
        over = [status["id"] for status, last in due if last]
        if over:
            with self.world.database.write() as session:
                session.execute(update(Job).where(col(Job.id).in_(over)).values(delivered=True))
