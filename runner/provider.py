"""A provider is one cloud, as frugald needs it: seven calls, and errors that say what to do next."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Protocol

from pricing.offer import Offer


class ProviderError(Exception):
    """The provider's call did not do what was asked."""


class SoldOut(ProviderError):
    """Nothing to rent there now: try the next offer and remember this one."""


class QuotaExceeded(ProviderError):
    """The account's limit for this family is reached: leave the whole family alone for a while."""


class Throttled(ProviderError):
    """Asked too often: repeat the same call after `retry_after`."""

    def __init__(self, message: str, retry_after: timedelta = timedelta(seconds=5)) -> None:
        """Keep how long to wait."""
        super().__init__(message)
        self.retry_after = retry_after


class Denied(ProviderError):
    """Credentials, permissions or the request itself were refused: stop using this provider and tell a person."""


class Unknown(ProviderError):
    """The answer was lost: look with `find(token)` before doing anything."""


class Gone(ProviderError):
    """No such machine: what was asked for can't be done to it any more."""


class Condition(StrEnum):
    """What the cloud says of a machine."""

    PENDING = "pending"
    RUNNING = "running"
    ENDING = "ending"
    GONE = "gone"


@dataclass(frozen=True, slots=True)
class Abilities:
    """What this cloud can and can't do; nobody asks for its name instead."""

    release_timer: timedelta | None = None  # the shortest release timer the cloud itself keeps, None without one
    notices: bool = False  # interruption notices can be asked for from outside the machine
    idempotent_launch: bool = True
    terminates: bool = True  # False for this host's own GPUs, which are never ended
    real_money: bool = True  # nothing is rented before a monthly cap is set
    listing_lag: timedelta = timedelta(0)  # how long a new machine may be missing from a listing


@dataclass(frozen=True, slots=True)
class LaunchRequest:
    """One machine to rent. Everything is frozen when `token` is made: a retry sends exactly the same."""

    token: str  # the client token: same token, same machine
    offer: Offer
    bid_micro: int | None  # the highest hourly price accepted (spot only), None = the cloud's own ceiling
    disk: int  # bytes
    user_data: str  # read by the machine when it boots; no secrets
    tags: Mapping[str, str]  # holds `frugald:owner` and `frugald:machine`
    guard: timedelta  # the guest ends the machine this long after boot unless a lease moves it


@dataclass(frozen=True, slots=True)
class Machine:
    """A machine as the cloud lists it."""

    id: str
    token: str
    condition: Condition
    launched_at: datetime  # from when the cloud bills
    ended_at: datetime | None = None  # until when it billed, once it is gone and where the cloud says so
    address: str = ""
    why_ended: str = ""
    tags: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Notice:
    """The cloud's word that a machine will be taken away at `at`."""

    machine_id: str
    at: datetime
    kind: str = "interruption"  # or `rebalance`: more likely to be taken away soon


class Provider(Protocol):
    """One cloud, as the scheduler needs it. Every call may block; none is made inside a transaction."""

    name: str
    abilities: Abilities

    def launch(self, request: LaunchRequest) -> Machine:
        """Rent one machine; the same `request.token` gives the same machine, also after it has ended.

        Raises SoldOut, QuotaExceeded, Throttled, Denied, or Unknown when the answer was lost.
        """

    def find(self, token: str) -> Machine | None:
        """Return the machine launched with `token`, or None when the cloud shows none (yet)."""

    def machines(self) -> Sequence[Machine]:
        """Return all machines with our owner tag in every region, those that ended a while ago included.

        Raises ProviderError when any part of the listing failed: half a listing is no information.
        """

    def terminate(self, machine_id: str) -> None:
        """Ask for the machine's end. Gone already is success; ask until `machines()` says it is gone."""

    def notices(self) -> Sequence[Notice]:
        """Return the interruption notices in force now, the same ones again and again until the machine is gone."""

    def extend(self, machine_id: str, until: datetime) -> None:
        """Move the cloud's own release timer; does nothing where there is none. Raises Gone."""
