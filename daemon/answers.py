"""What people ask of the running daemon, answered on the control thread."""

from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import replace
from datetime import datetime
from typing import Any

from sqlmodel import Session, col, select

from config.reason import Reason
from daemon import jobs, money
from daemon.budgets import window_of
from daemon.commands import Answer, Cancel, Command, DryRun, Hold, Release, SetBudget
from daemon.decide import decide
from daemon.intake import set_budget
from daemon.jobfile import Currency, JobFileError, JobSpec, read_job
from daemon.models import Budget, Job
from daemon.read import PriceView, read_snapshot, waiting_job
from daemon.record import offer_as_json
from daemon.snapshot import Launch, Snapshot
from daemon.states import JOB_TERMINAL, JobState
from daemon.world import World

_PERIODS = ("hour", "day", "week", "month", "total")
_SCOPES = ("all", "project", "user", "cloud", "job")
_ANSWER_S = 10.0


class Answers:
    """Takes commands from any thread; each is carried out on the control thread and waited for."""

    def __init__(self, world: World, prices: PriceView, post: Callable[[Callable[[], None]], None]) -> None:
        self.world = world
        self.prices = prices
        self._post = post

    def ask(self, command: Command, timeout: float = _ANSWER_S) -> Answer:
        """Carry out one command and return its answer. Raises TimeoutError when the control thread is too busy."""
        future: Future[Answer] = Future()

        def work() -> None:
            try:
                future.set_result(self.answer(command, self.world.clock.now()))
            except Exception as error:  # noqa: BLE001 - whoever asked must hear of it
                future.set_exception(error)

        self._post(work)
        return future.result(timeout)

    def answer(self, command: Command, now: datetime) -> Answer:
        """Carry out one command; for the control thread."""
        with self.world.database.write() as session:
            if isinstance(command, SetBudget):
                answer = self._set_budget(session, command, now)
            elif isinstance(command, DryRun):
                answer = self._dry_run(session, command, now)
            else:
                job = session.get(Job, command.job)
                answer = self._on_job(session, command, job, now) if job else _refused("not_found", job=command.job)
        self.world.wake()
        return answer

    def _on_job(self, session: Session, command: Cancel | Hold | Release, job: Job, now: datetime) -> Answer:
        if job.state in JOB_TERMINAL:
            return _refused("over", job=job.id, state=job.state)
        if isinstance(command, Cancel):
            return self._cancel(session, job, now)
        if isinstance(command, Hold):
            return self._hold(session, job, now)
        if job.state != JobState.HELD:
            return _refused("not_held", job=job.id, state=job.state)
        self.world.journal.advance(session, job, JobState.QUEUED, now=now, reason=Reason("wait.released"))
        self.world.journal.emit(session, now, "job.released", job=job)
        return _done("released", job=job.id)

    def _cancel(self, session: Session, job: Job, now: datetime) -> Answer:
        reason = Reason("ended.cancelled")
        alive = jobs.alive(session, job.id)
        if not alive:
            self.world.journal.advance(session, job, JobState.CANCELLED, now=now, reason=reason, finished_at=now)
            self.world.journal.emit(session, now, "job.cancelled", job=job, seconds_s=0.0)
            return _done("cancelled", job=job.id)
        if job.state != JobState.STOPPING:
            self.world.journal.advance(session, job, JobState.STOPPING, now=now, reason=reason)
        for attempt in alive:
            jobs.stop(self.world, session, job, attempt, reason, now, job_state=JobState.STOPPING)
        return _done("stopping", job=job.id)

    def _hold(self, session: Session, job: Job, now: datetime) -> Answer:
        reason = Reason("hold.person", {"job": job.id, "command": f"frugald release {job.id}"})
        if job.state == JobState.STOPPING:
            return _refused("over", job=job.id, state=job.state)
        if job.state != JobState.HELD:
            jobs.hold(self.world, session, job, reason, now)
        for attempt in jobs.alive(session, job.id):
            jobs.stop(self.world, session, job, attempt, reason, now, job_state=JobState.HELD)
        return _done("held", job=job.id)

    def _set_budget(self, session: Session, command: SetBudget, now: datetime) -> Answer:
        if (
            command.scope not in _SCOPES
            or command.period not in _PERIODS
            or (command.scope == "all") != (not command.subject)
        ):
            return _refused("no_such_budget", budget=f"{command.scope}:{command.subject}/{command.period}")
        if command.scope == "job" and session.get(Job, command.subject) is None:
            return _refused("not_found", job=command.subject)
        budget = set_budget(
            self.world, session, command.scope, command.subject, command.period, command.cap_micro, command.at_cap, now
        )
        return _done("budget", budget=budget.id, cap_micro=budget.cap_micro)

    # ------------------------------------------------------------------ dry run

    def _dry_run(self, session: Session, command: DryRun, now: datetime) -> Answer:
        """Decide as if the file had been dropped; rent nothing and write nothing."""
        try:
            settings = self.world.settings
            specs = read_job(command.text.encode(), command.filename, Currency(settings.currency, settings.rates))
        except JobFileError as error:
            return Answer(
                ok=False, code="bad_file", message=str(error), data={"problems": [str(p) for p in error.problems]}
            )
        spec = specs[0]
        snapshot = read_snapshot(self.world, session, self.prices, now)
        job = Job(
            id="dry-run",
            name=spec.name,
            user=command.user,
            project=spec.project or "default",
            state=JobState.QUEUED,
            state_since=now,
            content_key="",
            submitted_at=now,
            spec=spec.to_json(),
            priority=spec.priority,
        )
        waiting = waiting_job(self.world, job)
        self.world.specs.pop("dry-run", None)
        plan = decide(
            replace(
                snapshot,
                waiting=(waiting,),
                held=(),
                machines=(),
                choose=snapshot.choose.model_copy(update={"runners_up": 2}),
            )
        )
        if not plan.launches:
            reasons = [skip.reason for skip in plan.skips] + [hold.reason for hold in plan.holds]
            reason = reasons[0] if reasons else Reason("wait.no_need")
            return Answer(
                ok=True, code="waits", message=str(reason), data={"jobs": len(specs), "offers": [], "why": str(reason)}
            )
        return Answer(
            ok=True,
            code="would_launch",
            message="",
            data=self._forecast(session, snapshot, plan.launches[0], spec, len(specs)),
        )

    def _forecast(
        self, session: Session, snapshot: Snapshot, launch: Launch, spec: JobSpec, count: int
    ) -> dict[str, Any]:
        offers = [
            offer_as_json(c.offer)
            | {"expected_micro": c.expected_micro, "per_work_hour_micro": c.per_work_hour_micro, "why": str(c.why)}
            for c in (launch.winner, *launch.runners_up)
        ]
        budgets = []
        for cap in snapshot.purse.caps:
            if cap.scope in launch.lease.scopes:
                window = window_of(cap.period, snapshot.now, snapshot.purse.zone)
                spent, leased = money.spent_micro(session, cap, window), snapshot.purse.leased_micro(cap, window)
                budgets.append(
                    {
                        "id": cap.id,
                        "cap_micro": cap.cap_micro,
                        "spent_micro": spent,
                        "leased_micro": leased,
                        "left_micro": cap.cap_micro - spent - leased - launch.lease.total_micro,
                    }
                )
        return {
            "jobs": count,
            "name": spec.name,
            "offers": offers,
            "first_lease_micro": launch.lease.total_micro,
            "expected_micro": launch.winner.expected_micro,
            "worst_micro": self._worst(session, launch, spec),
            "budgets": budgets,
        }

    def _worst(self, session: Session, launch: Launch, spec: JobSpec) -> int | None:
        """Return the most that the job can cost: its own cap, else the tightest cap over it; None without any."""
        caps = [self.world.in_currency(spec.cap).micro] if spec.cap else []
        rows = session.exec(select(Budget).where(col(Budget.ended_at).is_(None)))
        caps += [b.cap_micro for b in rows if (b.scope, b.subject) in launch.lease.scopes]
        return min(caps, default=None)


def _done(code: str, **values: Any) -> Answer:  # noqa: ANN401 - values of a reason
    return Answer(ok=True, code=code, message=str(Reason(f"done.{code}", values)), data=values)


def _refused(code: str, **values: Any) -> Answer:  # noqa: ANN401
    return Answer(ok=False, code=code, message=str(Reason(f"no.{code}", values)), data=values)
