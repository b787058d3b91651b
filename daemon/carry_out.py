"""Do what is written down: rent, look for lost answers, renew, give words, end. Level-triggered, so a restart repeats it.

Every call runs on another thread with no transaction open, and its result is applied in a short transaction of its own
that drops it when the row has moved on.
"""

from collections.abc import Callable
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from sqlmodel import Session, col, select, update

from config.reason import Reason
from daemon import jobs, orders
from daemon.advise import advises
from daemon.models import Attempt, Job, Machine
from daemon.sold_out import remember
from daemon.states import JobState, MachineState, StaleState
from daemon.world import World
from runner import provider as cloud
from runner.store import StoreError
from runner.store.records import Command, Lease, attempt_key, machine_key

_ASK_AGAIN = timedelta(seconds=5)
_GIVE_UP_LOOKING = timedelta(minutes=5)


class CarryOut:
    """Turns rows into calls, and their results into rows."""

    def __init__(self, world: World) -> None:
        self.world = world
        self._busy: set[str] = set()  # machines with a call under way
        self._not_before: dict[str, datetime] = {}  # machines whose next call must wait
        self._leases: dict[str, tuple[int, int]] = {}  # machine -> (lease, beat) last written for it
        self._words: dict[str, int] = {}  # attempt -> command last written for it
        self._only_looks = advises(world.settings)  # nothing is rented or ended

    def adopt(self, now: datetime) -> None:
        """Begin after a start: what was intended may have been asked for, so it is looked for first."""
        with self.world.database.write() as session:
            for machine in session.exec(select(Machine).where(Machine.state == MachineState.INTENDED)):
                self.world.journal.advance(
                    session, machine, MachineState.UNKNOWN, now=now, reason=Reason("machines.restart")
                )

    def run_once(self, now: datetime) -> dict[str, int]:
        """Start every call that is due; return how many of each kind."""
        counts = {"launch": 0, "find": 0, "terminate": 0, "leases": 0, "words": 0}
        with self.world.database.write() as session:
            live = session.exec(select(Machine).where(Machine.state != MachineState.GONE)).all()
            words = session.exec(
                select(Attempt).where(col(Attempt.state).in_(jobs.WRITERS), col(Attempt.command_seq) > 0)
            ).all()
            launches = {m.id: self._order(session, m, now) for m in live if m.state == MachineState.INTENDED}
            restores = {a.id: session.get_one(Job, a.job_id) for a in words}
        for machine in live:
            if machine.id not in self._busy and self._not_before.get(machine.id, now) <= now:
                self._next_call(machine, launches.get(machine.id), now, counts)
            self._write_lease(machine, counts)
        for attempt in words:
            self._write_word(attempt, restores[attempt.id], counts)
        return counts

    def _order(self, session: Session, machine: Machine, now: datetime) -> orders.Launch | None:
        """Return what to rent, or close the intent when the job's secrets are gone since it was decided."""
        try:
            return orders.launch(self.world, session, machine)
        except (OSError, UnicodeError) as error:
            self._not_rented(session, machine, Reason("wait.secret", {"why": str(error)}), now)
            return None

    def _next_call(self, machine: Machine, launch: orders.Launch | None, now: datetime, counts: dict[str, int]) -> None:
        provider = self.world.providers.get(machine.cloud)
        if provider is None:
            return
        if machine.state == MachineState.INTENDED and launch:
            if now - machine.intended_at > self.world.settings.lease.end:
                self._too_late(machine, now)
                return
            if self._only_looks:
                return
            counts["launch"] += 1
            self._call(
                machine, partial(orders.rent, self.world.store, provider, launch), partial(self._launched, machine)
            )
        elif machine.state == MachineState.UNKNOWN:
            counts["find"] += 1
            self._call(machine, partial(provider.find, machine.token), partial(self._found, machine))
        elif machine.state == MachineState.ENDING and machine.provider_id and not self._only_looks:
            counts["terminate"] += 1
            self._not_before[machine.id] = now + _ASK_AGAIN
            self._call(machine, partial(provider.terminate, machine.provider_id), partial(self._terminated, machine))

    def _call(self, machine: Machine, work: Callable[[], Any], done: Callable[[Any], None]) -> None:
        self._busy.add(machine.id)

        def finished(outcome: Any) -> None:  # noqa: ANN401 - a result or an exception
            self._busy.discard(machine.id)
            try:
                done(outcome)
            except StaleState:
                pass  # the row moved on while the call was under way: the next step sees it as it is
            self.world.wake()

        self.world.calls.submit(f"cloud:{machine.cloud}", work, finished)

    # ------------------------------------------------------------------ results

    def _launched(self, machine: Machine, outcome: Any) -> None:  # noqa: ANN401
        now = self.world.clock.now()
        if isinstance(outcome, cloud.Machine):
            self._has_machine(machine, outcome, now)
        elif isinstance(outcome, cloud.Throttled):
            self._not_before[machine.id] = now + outcome.retry_after
        elif isinstance(outcome, StoreError):
            self._not_before[machine.id] = now + _ASK_AGAIN
        elif isinstance(outcome, cloud.SoldOut | cloud.QuotaExceeded | cloud.Denied):
            self._refused(machine, outcome, now)
        else:  # Unknown, and everything that nobody thought of: it may have worked
            with self.world.database.write() as session:
                row = _expect(session, machine, MachineState.INTENDED)
                self.world.journal.advance(
                    session,
                    row,
                    MachineState.UNKNOWN,
                    now=now,
                    reason=Reason("machines.answer_lost", {"why": str(outcome)}),
                )
                self.world.journal.emit(session, now, "machine.unknown", machine=row, offer=row.offer["pool"])

    def _has_machine(self, machine: Machine, found: cloud.Machine, now: datetime) -> None:
        with self.world.database.write() as session:
            row = _expect(session, machine, MachineState.INTENDED, MachineState.UNKNOWN)
            launched = max(found.launched_at, row.intended_at)
            self.world.journal.advance(
                session,
                row,
                MachineState.REQUESTED,
                now=now,
                reason=Reason("machines.rented"),
                provider_id=found.id,
                launched_at=launched,
                charged_until=launched,
            )
            self.world.journal.emit(
                session, now, "machine.requested", machine=row, offer=row.offer["pool"], hourly_micro=row.hourly_micro
            )
            if row.ends_because:
                jobs.end_machine(self.world, session, row, Reason(row.ends_because), now)
            for attempt, job in jobs.on_machine(session, row.id):
                if job.state == JobState.PLACING:
                    self.world.journal.advance(
                        session,
                        job,
                        JobState.STARTING,
                        now=now,
                        launches_failed=0,
                        reason=Reason("starting.boot", {"offer": row.offer["pool"], "attempt": attempt.n}),
                    )

    def _refused(self, machine: Machine, error: cloud.ProviderError, now: datetime) -> None:
        with self.world.database.write() as session:
            row = _expect(session, machine, MachineState.INTENDED, MachineState.UNKNOWN)
            reason = remember(session, self.world.settings.choose, row, error, now)
            self._not_rented(session, row, reason, now)
            session.execute(
                update(Job).where(col(Job.id) == row.job_id).values(launches_failed=col(Job.launches_failed) + 1)
            )

    def _not_rented(self, session: Session, row: Machine, reason: Reason, now: datetime) -> None:
        """Close an intent that became nothing: no money is set aside for it any more."""
        self.world.journal.advance(
            session, row, MachineState.GONE, now=now, reason=reason, ended_at=now, leased_micro=0, lease_until=None
        )
        for attempt, job in jobs.on_machine(session, row.id):
            jobs.end(self.world, session, attempt, job, "never-started", reason, now)

    def _too_late(self, machine: Machine, now: datetime) -> None:
        """Never rent on an old intent: its lease was counted from when it was written down."""
        with self.world.database.write() as session:
            row = _expect(session, machine, MachineState.INTENDED)
            self.world.journal.advance(session, row, MachineState.UNKNOWN, now=now, reason=Reason("machines.too_late"))

    def _found(self, machine: Machine, outcome: Any) -> None:  # noqa: ANN401
        now = self.world.clock.now()
        provider = self.world.providers[machine.cloud]
        if isinstance(outcome, cloud.Machine):
            self._has_machine(machine, outcome, now)
            return
        lag = provider.abilities.listing_lag
        settled = now - machine.state_since > max(2 * lag, timedelta(seconds=2))
        if isinstance(outcome, Exception) or not settled:
            self._not_before[machine.id] = now + timedelta(seconds=1)
            return
        with self.world.database.write() as session:
            row = _expect(session, machine, MachineState.UNKNOWN)
            if now - row.intended_at < self.world.settings.lease.end and not row.ends_because:
                self.world.journal.advance(
                    session, row, MachineState.INTENDED, now=now, reason=Reason("machines.not_found")
                )
            else:
                self._not_rented(session, row, Reason("machines.not_found"), now)

    def _terminated(self, machine: Machine, outcome: Any) -> None:  # noqa: ANN401
        if isinstance(outcome, cloud.Throttled):
            self._not_before[machine.id] = self.world.clock.now() + outcome.retry_after

    # ------------------------------------------------------------------ leases and words

    def _write_lease(self, machine: Machine, counts: dict[str, int]) -> None:
        """Tell a machine how long it may go on, counted from the newest beat that was heard of it."""
        if machine.state != MachineState.RUNNING or machine.lease_seq == 0 or machine.heard_at is None:
            return
        written = self._leases.get(machine.id, (0, -1))
        if written[0] >= machine.lease_seq or machine.lease_until is None:
            return
        length = machine.lease_until - self.world.settings.lease.end - machine.heard_at
        lease = Lease(machine.id, machine.lease_seq, machine.beat_seq, max(0.0, length.total_seconds()))
        self._leases[machine.id] = (machine.lease_seq, machine.beat_seq)
        counts["leases"] += 1
        key = machine_key(machine.id, "lease.json")
        self._put(key, lease.to_json(), partial(self._leases.pop, machine.id, None))

    def _write_word(self, attempt: Attempt, job: Job, counts: dict[str, int]) -> None:
        if self._words.get(attempt.id, 0) >= attempt.command_seq:
            return
        command = Command(
            seq=attempt.command_seq,
            do=attempt.command,
            restore=attempt.restored_from,
            restore_step=attempt.restored_step,
            previous_attempts=attempt.n,
            deadline=job.deadline.isoformat() if job.deadline else "",
        )
        self._words[attempt.id] = attempt.command_seq
        counts["words"] += 1
        key = attempt_key(attempt.job_id, attempt.n, "command.json")
        self._put(key, command.to_json(), partial(self._words.pop, attempt.id, None))

    def _put(self, key: str, data: bytes, forget: Callable[[], Any]) -> None:
        def done(outcome: Any) -> None:  # noqa: ANN401
            if isinstance(outcome, Exception):
                forget()  # the next step writes it again

        self.world.calls.submit("orders", partial(self.world.store.put, key, data), done)


def _expect(session: Session, machine: Machine, *states: MachineState) -> Machine:
    """Return the row as it is now. Raises StaleState when a call's result comes too late for it."""
    row = session.get_one(Machine, machine.id)
    if row.state not in states:
        raise StaleState(f"machine {row.id} is {row.state} by now")
    return row
