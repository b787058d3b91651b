"""Give every machine its own short-lived credentials for the store, and renew them while it lives.

Nothing is kept on disk: after a restart every machine gets a new grant, which does no harm.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from sqlmodel import col, select

from daemon.models import Attempt, Machine
from daemon.states import MachineState
from daemon.world import World
from runner.provider import Throttled
from runner.store import Store
from runner.store.grants import Grant, MachineKeys

_BELIEVED = (MachineState.REQUESTED, MachineState.BOOTING, MachineState.RUNNING, MachineState.ENDING)
_ASK_AGAIN = timedelta(seconds=5)


@dataclass(frozen=True)
class Given:
    """A grant as it lies in the store; the secrets themselves are forgotten."""

    key: str
    jobs: frozenset[str]
    renew_at: datetime  # half of its life is gone then


class Grants:
    """Keeps a valid grant in the store for every machine of a cloud that hands them out."""

    def __init__(self, world: World) -> None:
        self.world = world
        self._given: dict[str, Given] = {}
        self._busy: set[str] = set()
        self._not_before: dict[str, datetime] = {}
        self._warned: set[str] = set()

    def run_once(self, now: datetime) -> dict[str, int]:
        """Ask for every grant that is due, and remove those of machines that are gone."""
        live = self._live()
        due = [(machine, jobs) for machine, jobs in live if self._is_due(machine, jobs, now)]
        for machine, jobs in due:
            self._ask(machine, jobs, now)
        return {"grants": len(due), "removed": self._forget({machine.id for machine, _ in live})}

    def _live(self) -> list[tuple[Machine, frozenset[str]]]:
        if not self.world.grants:
            return []
        with self.world.database.write() as session:
            machines = session.exec(
                select(Machine).where(
                    col(Machine.cloud).in_(list(self.world.grants)),
                    col(Machine.state).in_(_BELIEVED),
                    Machine.provider_id != "",
                )
            ).all()
            # Ended attempts too: what they left may still be on its way.
            pairs = session.exec(
                select(Attempt.machine_id, Attempt.job_id).where(col(Attempt.machine_id).in_([m.id for m in machines]))
            ).all()
        return [(m, frozenset(job for machine, job in pairs if machine == m.id)) for m in machines]

    def _is_due(self, machine: Machine, jobs: frozenset[str], now: datetime) -> bool:
        if machine.id in self._busy or now < self._not_before.get(machine.id, now):
            return False
        given = self._given.get(machine.id)
        return given is None or given.jobs != jobs or given.renew_at <= now

    def _ask(self, machine: Machine, jobs: frozenset[str], now: datetime) -> None:
        self._busy.add(machine.id)
        keys = self.world.grants[machine.cloud]
        work = partial(_give, keys, self.world.store, machine.provider_id, machine.id, sorted(jobs), now)
        self.world.calls.submit(f"grants:{machine.cloud}", work, partial(self._answered, machine, jobs, now))

    def _answered(self, machine: Machine, jobs: frozenset[str], asked_at: datetime, outcome: Any) -> None:  # noqa: ANN401
        self._busy.discard(machine.id)
        if isinstance(outcome, Exception):
            wait = outcome.retry_after if isinstance(outcome, Throttled) else _ASK_AGAIN
            self._not_before[machine.id] = self.world.clock.now() + wait
            self.world.journal_failure(f"grants of {machine.cloud}", outcome)
            return
        key, grant = outcome
        life = grant.expires_at - asked_at
        self._not_before.pop(machine.id, None)
        # Never more often than once a minute, however wrong a clock is.
        self._given[machine.id] = Given(key, jobs, asked_at + max(life / 2, timedelta(minutes=1)))
        self._warn_if_short(machine.cloud, life)

    def _warn_if_short(self, cloud: str, life: timedelta) -> None:
        """Say once when a machine could outlive its grant while the daemon is down: half of it is left at worst."""
        lease = self.world.settings.lease
        if life / 2 >= lease.longest or cloud in self._warned:
            return
        self._warned.add(cloud)
        with self.world.database.write() as session:
            self.world.journal.emit(
                session,
                self.world.clock.now(),
                "grant.short",
                cloud=cloud,
                life_s=life.total_seconds(),
                lease_s=lease.longest.total_seconds(),
            )

    def _forget(self, live: set[str]) -> int:
        gone = [machine for machine in self._given if machine not in live and machine not in self._busy]
        for machine in gone:
            key = self._given.pop(machine).key
            self.world.calls.submit("grants", partial(self.world.store.delete, key), _whatever)
        return len(gone)


def _give(
    keys: MachineKeys, store: Store, provider_id: str, machine: str, jobs: Sequence[str], now: datetime
) -> tuple[str, Grant]:
    key, grant = keys.grant(provider_id, machine, jobs, now)
    store.put(key, grant.to_json())
    return key, grant


def _whatever(_outcome: Any) -> None:  # noqa: ANN401
    """A grant that stays in the store ends by itself."""
