"""Take what was dropped: files become jobs in one transaction, and only then move out of the claimed folder."""

from datetime import datetime, timedelta
from functools import partial
from typing import Any

from sqlmodel import Session, col, select

from config.reason import Reason
from daemon.database import Fenced
from daemon.inbox import Claimed, Inbox, Refused
from daemon.jobfile import JobSpec
from daemon.models import Budget, Job, Taken
from daemon.states import JOB_TERMINAL, JobState
from daemon.world import World


class Intake:
    """Turns dropped files into queued jobs."""

    def __init__(self, world: World, inbox: Inbox) -> None:
        self.world = world
        self.inbox = inbox
        self._busy = False

    def run_once(self, now: datetime) -> dict[str, int]:
        """Look into the folder, unless the last look still goes on."""
        if not self._busy:
            self._busy = True
            self.world.calls.submit("files", partial(self.inbox.scan, now), self._scanned)
        return {"asked": int(self._busy)}

    def _scanned(self, outcome: Any) -> None:  # noqa: ANN401
        self._busy = False
        if isinstance(outcome, Exception):
            self.world.journal_failure("inbox", outcome)
            return
        now = self.world.clock.now()
        taken = [
            (claim, job_ids)
            for claim in outcome
            if isinstance(claim, Claimed) and (job_ids := self._safely(claim, now)) is not None
        ]
        for refused in (r for r in outcome if isinstance(r, Refused)):
            self._refuse(refused, now)
        if taken:
            self.world.calls.submit("files", partial(self._settle, taken), lambda _: None)
            self.world.wake()

    def _safely(self, claim: Claimed, now: datetime) -> list[str] | None:
        """Take one drop; whatever is wrong with it stops no other."""
        try:
            return self._take(claim, now)
        except Fenced:
            raise
        except Exception as error:  # noqa: BLE001 - a fault of ours is told like one of the file
            self.world.journal_failure("intake", error)
            reason = Reason("drop.unexpected", {"why": f"{type(error).__name__}: {error}"})
            self.world.calls.submit("files", partial(self.inbox.refuse, claim, reason), partial(self._refused, now))
            return None

    def _refused(self, now: datetime, outcome: Any) -> None:  # noqa: ANN401 - a Refused, or what went wrong
        if isinstance(outcome, Refused):
            self._refuse(outcome, now)

    def _settle(self, taken: list[tuple[Claimed, list[str]]]) -> None:
        for claim, job_ids in taken:
            self.inbox.accept(claim, job_ids)

    def _take(self, claim: Claimed, now: datetime) -> list[str]:
        """Commit the jobs of one file, once, and return their ids."""
        with self.world.database.write() as session:
            before = session.get(Taken, claim.claim)
            if before is not None:
                return [str(job_id) for job_id in before.job_ids]
            job_ids = [self._job(session, claim, n, spec, now) for n, spec in enumerate(claim.specs)]
            session.add(Taken(claim=claim.claim, at=now, job_ids=job_ids))
        return job_ids

    def _job(self, session: Session, claim: Claimed, n: int, spec: JobSpec, now: datetime) -> str:
        key = f"{claim.content_key}-{n}"
        same = session.exec(select(Job).where(Job.content_key == key, col(Job.state).not_in(JOB_TERMINAL))).first()
        if same:
            return same.id  # the same file with the same code, while it is open, is the same job
        project = spec.project or "default"
        deadline = now + spec.deadline if isinstance(spec.deadline, timedelta) else spec.deadline
        job = Job(
            id=self.world.ids.new("j"),
            name=spec.name,
            user=claim.user,
            project=project,
            state=JobState.QUEUED,
            reason_code="wait.new",
            state_since=now,
            priority=spec.priority,
            spec=spec.to_json(),
            content_key=key,
            source=claim.source,
            code_key=claim.code_key,
            code_sha256=claim.code_sha256,
            submitted_at=now,
            not_before=spec.not_before,
            deadline=deadline,
        )
        session.add(job)
        session.flush()
        self._budget(session, job, spec, now)
        self.world.journal.emit(session, now, "job.submitted", job=job, user=job.user, project=job.project)
        return job.id

    def _budget(self, session: Session, job: Job, spec: JobSpec, now: datetime) -> None:
        cap = spec.cap or self.world.settings.default_budget
        if cap is None:
            return
        session.add(
            Budget(
                id=f"job:{job.id}/total",
                scope="job",
                subject=job.id,
                period="total",
                cap_micro=self.world.in_currency(cap).micro,
                at_cap=spec.at_cap,
                thresholds=[50, 80, 100],
                origin="job file",
                created_at=now,
            )
        )

    def _refuse(self, refused: Refused, now: datetime) -> None:
        with self.world.database.write() as session:
            if session.get(Taken, refused.claim) is None:
                session.add(Taken(claim=refused.claim, at=now, error=refused.text[:4000]))
                self.world.journal.emit(session, now, "file.rejected", file=refused.source, why=refused.text[:1000])


class Budgets:
    """Brings the budgets of the settings into the database."""

    def __init__(self, world: World) -> None:
        self.world = world

    def settle(self, now: datetime) -> None:
        """Add, change or end budgets so that they are those of the settings; those set by hand stay."""
        wanted = {}
        for setting in self.world.settings.budgets:
            subject = f":{setting.subject}" if setting.subject else ""
            wanted[f"{setting.scope}{subject}/{setting.period}"] = setting
        with self.world.database.write() as session:
            for row in session.exec(select(Budget).where(Budget.origin == "settings", col(Budget.ended_at).is_(None))):
                if row.id not in wanted:
                    row.ended_at = now
            for budget_id, setting in wanted.items():
                before = session.get(Budget, budget_id)
                if before is not None and before.origin == "cli" and before.ended_at is None:
                    continue
                session.merge(
                    Budget(
                        id=budget_id,
                        scope=setting.scope,
                        subject=setting.subject,
                        period=setting.period,
                        cap_micro=self.world.in_currency(setting.cap).micro,
                        at_cap=setting.at_cap,
                        thresholds=list(setting.thresholds),
                        origin="settings",
                        created_at=before.created_at if before else now,
                    )
                )


def set_budget(
    world: World, session: Session, scope: str, subject: str, period: str, cap_micro: int, at_cap: str, now: datetime
) -> Budget:
    """Set one cap by hand; jobs that it held go on by themselves when the next decision finds room."""
    budget_id = f"{scope}:{subject}/{period}" if subject else f"{scope}/{period}"
    row = session.get(Budget, budget_id)
    budget = session.merge(
        Budget(
            id=budget_id,
            scope=scope,
            subject=subject,
            period=period,
            cap_micro=cap_micro,
            at_cap=at_cap or (row.at_cap if row else "stop"),
            thresholds=row.thresholds if row else [50, 80, 100],
            origin="cli",
            created_at=row.created_at if row else now,
        )
    )
    world.journal.emit(session, now, "budget.set", budget=budget_id, cap_micro=cap_micro)
    return budget
