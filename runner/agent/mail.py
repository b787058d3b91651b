"""The agent's half of the talk with the daemon: beats, statuses and notices out; leases and commands in."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from config.clock import Clock
from runner.agent.attempt import Attempt
from runner.agent.horizon import Horizon
from runner.agent.lease import write_guard
from runner.store import Missing, Store
from runner.store.records import AttemptStatus, Beat, Command, Lease, attempt_key, machine_key


class Mail:
    """One round writes a beat, reads the lease, and does the same for each attempt's status and command."""

    def __init__(
        self, store: Store, machine: str, horizon: Horizon, guard: Path, gpus: Callable[[], list[dict[str, Any]]],
        clock: Clock, booted_at: float, status_s: float,
    ) -> None:  # fmt: skip
        """Move the guest's timer by the file `guard` with each lease."""
        self._store = store
        self._machine = machine
        self._horizon = horizon
        self._guard = guard
        self._gpus = gpus
        self._clock = clock
        self._status_s = status_s
        self._booted_at = booted_at
        self._guarded = horizon.term.ends_at  # what the guest's timer stands at
        self._seq = 0
        self._written: dict[str, tuple[AttemptStatus, float]] = {}
        self._noticed: set[str] = set()
        self.attempts: Sequence[Attempt] = ()

    def round(self) -> None:
        """Do each part even when another fails. Raises the first StoreError or OSError, after all parts."""
        parts: list[Callable[[], None]] = [self._beat, self._lease]
        for attempt in self.attempts:
            parts += [partial(self._command, attempt), partial(self.tell, attempt)]
        failures: list[Exception] = []
        for part in parts:
            try:
                part()
            except Exception as error:  # noqa: BLE001 - raised below
                failures.append(error)
        if failures:
            raise failures[0]

    def tell(self, attempt: Attempt) -> None:
        """Write an attempt's status where it has changed or grown old, and its notice once. Raises StoreError."""
        key = attempt_key(attempt.job, attempt.number, "status.json")
        status, now = attempt.report.status(), self._clock.monotonic()
        before, at = self._written.get(key, (None, 0.0))
        if before is None or _lasting(status) != _lasting(before) or now - at >= self._status_s:
            self._store.put(key, status.to_json())
            self._written[key] = (status, now)
        if attempt.report.notice and key not in self._noticed:
            self._store.put(attempt_key(attempt.job, attempt.number, "notice.json"), attempt.report.notice.to_json())
            self._noticed.add(key)

    def _beat(self) -> None:
        self._seq += 1
        now = self._clock.monotonic()
        self._horizon.term.wrote(self._seq, now)
        beat = Beat(
            self._machine, self._seq, uptime_s=now - self._booted_at, lease_seq=self._horizon.term.seq,
            lease_left_s=max(0.0, self._horizon.term.ends_at - now), gpus=self._gpus(),
            notice_in_s=self._horizon.notice_in_s,
            store_bytes_per_s=max((attempt.bytes_per_s for attempt in self.attempts), default=0.0),
        )  # fmt: skip
        self._store.put(machine_key(self._machine, "beat.json"), beat.to_json())

    def _lease(self) -> None:
        lease = self._read(machine_key(self._machine, "lease.json"), Lease.from_json)
        if lease:
            self._horizon.term.take(lease)
        ends_at = self._horizon.term.ends_at
        if ends_at != self._guarded:
            write_guard(self._guard, ends_at - self._clock.monotonic())
            self._guarded = ends_at

    def _command(self, attempt: Attempt) -> None:
        command = self._read(attempt_key(attempt.job, attempt.number, "command.json"), Command.from_json)
        if command:
            attempt.orders.take(command)

    def _read(self, key: str, parse: Callable[[bytes], Any]) -> Any:  # noqa: ANN401 - a record
        """Return a record, None where there is none, or none that can be read: the daemon writes it again."""
        try:
            return parse(self._store.get(key))
        except (Missing, ValueError):
            return None


def _lasting(status: AttemptStatus) -> dict[str, Any]:
    """Return what is worth a write of its own: not the fields that only count seconds."""
    counting = {"running_s", "lost_s", "checkpoint_age_s"}
    return {name: value for name, value in vars(status).items() if name not in counting}
