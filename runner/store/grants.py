"""The short-lived credentials of one machine: the daemon leaves them in the store, the machine reads and renews them.

A machine's own identity may read nothing but its grant; what the grant opens is the store below its own jobs.
"""

import json
import threading
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from typing import Protocol, Self

from config.clock import Clock
from runner.store.base import StoreError

_SOON = timedelta(seconds=30)  # how long a machine waits before it asks for a newer grant again


@dataclass(frozen=True, slots=True)
class Grant:
    """Credentials that end by themselves."""

    access_key_id: str
    secret_access_key: str
    token: str
    expires_at: datetime

    def to_json(self) -> bytes:
        """Return it as the object that the machine reads."""
        return json.dumps(asdict(self) | {"expires_at": self.expires_at.isoformat()}, sort_keys=True).encode()

    @classmethod
    def from_json(cls, data: bytes) -> Self:
        """Read it on the machine. Raises ValueError."""
        values = json.loads(data)
        try:
            ends = datetime.fromisoformat(values["expires_at"])
            return cls(
                access_key_id=str(values["access_key_id"]),
                secret_access_key=str(values["secret_access_key"]),
                token=str(values["token"]),
                expires_at=ends if ends.tzinfo else ends.replace(tzinfo=UTC),
            )
        except (KeyError, TypeError) as error:
            raise ValueError(f"a grant needs {error}") from error

    def __repr__(self) -> str:
        """Show nothing that is secret."""
        return f"Grant(until {self.expires_at.isoformat()})"


class MachineKeys(Protocol):
    """A cloud that hands out credentials for single machines."""

    def grant(self, provider_id: str, machine: str, jobs: Sequence[str], now: datetime) -> tuple[str, Grant]:
        """Make credentials for one machine and its jobs; return the key at which it looks for them. May block.

        Raises ProviderError.
        """


class Granted:
    """The machine's side: the grant as it stands, renewed when less than a third of its life is left."""

    def __init__(self, read: Callable[[], bytes], clock: Clock) -> None:
        """`read` fetches the object of the grant; it raises StoreError."""
        self._read = read
        self._clock = clock
        self._lock = threading.Lock()
        self._grant: Grant | None = None
        self._renew_at = datetime.min.replace(tzinfo=UTC)

    def renew(self) -> None:
        """Read the grant if it is time to. Raises StoreError while there is none that is valid.

        Called before each call of the store and on the caller's thread, because reading is a call of a store itself.
        """
        # While one thread reads, the others go on with the grant that they have.
        if not self._lock.acquire(blocking=self._grant is None):
            return
        try:
            self._renew(self._clock.now())
        finally:
            self._lock.release()

    def _renew(self, now: datetime) -> None:
        if now < self._renew_at:
            return
        try:
            self._take(Grant.from_json(self._read()), now)
        except (StoreError, ValueError) as error:
            if self._grant is None or self._grant.expires_at <= now:
                raise StoreError(f"this machine has no valid credentials yet, it asks again soon: {error}") from error
            self._renew_at = now + _SOON

    def _take(self, grant: Grant, now: datetime) -> None:
        if grant.expires_at <= now:
            raise StoreError(
                f"the grant in the store ended at {grant.expires_at.isoformat()}: the daemon must renew it"
            )
        self._renew_at = max(now + (grant.expires_at - now) * 2 / 3, now + _SOON)
        if grant == self._grant:
            self._renew_at = now + _SOON
        self._grant = grant

    def current(self) -> Grant:
        """Return the newest grant. Raises StoreError."""
        if self._grant is None:
            raise StoreError("this machine has no credentials yet")
        return self._grant
