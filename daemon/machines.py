"""What the clouds list: machines that came, went, were noticed, or are nobody's."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from sqlmodel import Session, col, select, update

from config.reason import Reason, sentence
from daemon import jobs, money, sold_out
from daemon.advise import advises
from daemon.models import Attempt, Machine, PoolLife
from daemon.reports import Report, apply_report, read_report
from daemon.states import MachineState
from daemon.world import World
from runner import provider as cloud

_MISSING_FOR = timedelta(minutes=5)
_NOBODYS_GRACE = timedelta(minutes=2)
_TOLD_AGAIN = timedelta(days=1)
_BELIEVED = (MachineState.REQUESTED, MachineState.BOOTING, MachineState.RUNNING, MachineState.ENDING)


@dataclass(frozen=True)
class Listing:
    """One whole listing of a cloud, with the last reports of the machines that are gone."""

    machines: Sequence[cloud.Machine]
    notices: Sequence[cloud.Notice]
    last_words: dict[str, Report] = field(default_factory=dict)


class Listings:
    """Keeps what is believed of machines at what the clouds say. A failed listing is no information."""

    def __init__(self, world: World) -> None:
        self.world = world
        self._busy: set[str] = set()
        self._missing: dict[str, datetime] = {}  # ours, but not listed: since when
        self._nobodys: dict[str, datetime] = {}  # listed with our tag, but unknown here: since when

    def run_once(self, now: datetime) -> dict[str, int]:
        """Ask every cloud for its list, unless it is still busy with the last one."""
        asked = 0
        for name, provider in self.world.providers.items():
            if name in self._busy:
                continue
            with self.world.database.write() as session:
                ours = session.exec(
                    select(Machine).where(Machine.cloud == name, col(Machine.state).in_(_BELIEVED))
                ).all()
                attempts = {m.id: [a for a, _ in jobs.on_machine(session, m.id)] for m in ours}
            self._busy.add(name)
            asked += 1
            work = partial(_list, self.world, provider, {m.provider_id: m for m in ours}, attempts)
            self.world.calls.submit(f"list:{name}", work, partial(self._listed, name, now))
        return {"asked": asked}

    def _listed(self, name: str, asked_at: datetime, outcome: Any) -> None:  # noqa: ANN401
        self._busy.discard(name)
        if isinstance(outcome, Exception):
            self.world.journal_failure(name, outcome)
            return
        now = self.world.clock.now()
        listed = {machine.id: machine for machine in outcome.machines}
        with self.world.database.write() as session:
            ours = session.exec(select(Machine).where(Machine.cloud == name, col(Machine.state).in_(_BELIEVED))).all()
            for row in ours:
                self._compare(session, row, listed.get(row.provider_id), outcome, asked_at, now)
            for notice in outcome.notices:
                self._notice(session, name, notice, now)
            self._sweep(session, name, outcome.machines, now)
        self.world.wake()

    def _compare(
        self,
        session: Session,
        row: Machine,
        seen: cloud.Machine | None,
        listing: Listing,
        asked_at: datetime,
        now: datetime,
    ) -> None:
        if seen is None:
            since = self._missing.setdefault(row.id, asked_at)
            if now - since > _MISSING_FOR and row.launched_at and now - row.launched_at > _MISSING_FOR:
                self._gone(session, row, None, "no longer listed", listing, now)
            return
        self._missing.pop(row.id, None)
        if seen.condition is not cloud.Condition.GONE:
            session.execute(update(Machine).where(col(Machine.id) == row.id).values(seen_at=asked_at))
        if seen.condition is cloud.Condition.GONE:
            if row.id in listing.last_words:  # its last report was read after it was gone: nothing can be missed
                self._gone(session, row, seen.ended_at, seen.why_ended, listing, now)
        elif seen.condition is cloud.Condition.RUNNING and row.state == MachineState.REQUESTED:
            self.world.journal.advance(session, row, MachineState.BOOTING, now=now, reason=Reason("machines.boots"))

    def _gone(
        self, session: Session, row: Machine, ended_at: datetime | None, why: str, listing: Listing, now: datetime
    ) -> None:
        """Close a machine's account, once the cloud says that it is gone."""
        report = listing.last_words.get(row.id)
        if report:
            apply_report(self.world, session, row, report, now)
            session.refresh(row)
        self._missing.pop(row.id, None)
        # Where the cloud doesn't say until when it billed, the lease is the longest that it can have been.
        end = ended_at or min(now, row.lease_until or now)
        money.charge(session, row, max(end, row.charged_until or end), self.world.settings.zone)
        session.refresh(row)
        interrupted = "interrupt" in why or (row.notice_at is not None and not row.ends_because)
        reason = Reason(
            "machines.interrupted" if interrupted else "machines.ended",
            {"offer": row.offer["pool"], "why": sentence(why, {})},
        )
        for attempt, job in jobs.on_machine(session, row.id):
            outcome = "interrupted" if interrupted or row.notice_at else "lost"
            jobs.end(self.world, session, attempt, job, outcome, reason, now)
        self.world.journal.advance(
            session, row, MachineState.GONE, now=now, reason=reason, ended_at=end, leased_micro=0, lease_until=None
        )
        self.world.journal.emit(
            session,
            now,
            "machine.ended",
            machine=row,
            offer=row.offer["pool"],
            spent_micro=row.spent_micro,
            why=sentence(why, {}),
        )
        self._learn(session, row, end, now, interrupted=interrupted)

    def _learn(self, session: Session, row: Machine, end: datetime, now: datetime, *, interrupted: bool) -> None:
        if row.launched_at is None:
            return
        noticed = None if row.notice_at is None else max(0.0, (row.notice_at - row.state_since).total_seconds())
        session.add(
            PoolLife(
                pool=row.offer["pool"],
                at=now,
                age_s=max(0.0, (end - row.launched_at).total_seconds()),
                interrupted=interrupted,
                noticed_s=noticed,
            )
        )
        if interrupted:
            sold_out.interrupted(session, self.world.settings.choose, row.offer["pool"], now)

    def _notice(self, session: Session, name: str, notice: cloud.Notice, now: datetime) -> None:
        row = session.exec(
            select(Machine).where(Machine.cloud == name, Machine.provider_id == notice.machine_id)
        ).first()
        if row and notice.kind == "interruption":
            take_notice(self.world, session, row, notice.at, now)

    def _sweep(self, session: Session, name: str, listed: Sequence[cloud.Machine], now: datetime) -> None:
        """End machines that carry our tag and that no row knows: lost before they could be written down."""
        known = set(session.exec(select(Machine.provider_id).where(Machine.cloud == name)))
        known_tokens = set(
            session.exec(
                select(Machine.token).where(
                    Machine.cloud == name, col(Machine.state).in_([MachineState.INTENDED, MachineState.UNKNOWN])
                )
            )
        )
        for machine in listed:
            nobodys = machine.condition is not cloud.Condition.GONE and machine.id not in known
            if not nobodys or machine.token in known_tokens:
                self._nobodys.pop(machine.id, None)
                continue
            since = self._nobodys.setdefault(machine.id, now)
            if now - since >= _NOBODYS_GRACE:
                only_looks = advises(self.world.settings)
                # told, or asked to end, again if it is still there then
                self._nobodys[machine.id] = now + (_TOLD_AGAIN if only_looks else _NOBODYS_GRACE * 5)
                self.world.journal.emit(
                    session, now, "machine.leaked", cloud=name, machine_there=machine.id, command="frugald reap"
                )
                if only_looks:
                    continue
                end = partial(self.world.providers[name].terminate, machine.id)
                self.world.calls.submit(f"cloud:{name}", end, lambda _: None)


def take_notice(world: World, session: Session, row: Machine, at: datetime, now: datetime) -> None:
    """Act once on a machine's notice, whichever way it came."""
    if row.notice_at is not None or row.state not in _BELIEVED:
        return
    session.execute(update(Machine).where(col(Machine.id) == row.id).values(notice_at=at))
    for attempt, job in jobs.on_machine(session, row.id):
        jobs.interrupted(world, session, attempt, job, at - now, now)
    sold_out.interrupted(session, world.settings.choose, row.offer["pool"], now)


def _list(
    world: World, provider: cloud.Provider, ours: dict[str, Machine], attempts: dict[str, list[Attempt]]
) -> Listing:
    machines = provider.machines()
    notices = provider.notices() if provider.abilities.notices else ()
    last_words = {
        row.id: read_report(world, row, attempts.get(row.id, []))
        for machine in machines
        if machine.condition is cloud.Condition.GONE and (row := ours.get(machine.id))
    }
    return Listing(machines, notices, last_words)
