"""A bill: what a cloud charged, by day and machine, long after the fact."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from typing import Protocol

from config.reason import Reason


@dataclass(frozen=True, slots=True)
class BilledDay:
    """What one machine cost in one UTC day; `micro` is millionths of `currency`, `machine` empty where the bill names none."""

    day: date
    machine: str
    micro: int
    currency: str
    estimated: bool  # the cloud may still change it


class BillError(Exception):
    """The cloud shows no bill; `reason` says why, and what to do next."""

    def __init__(self, reason: Reason) -> None:
        super().__init__(str(reason))
        self.reason = reason


class BillSource(Protocol):
    """Where a cloud says what it charged for the machines of this installation."""

    name: str  # of the cloud

    def days(self, since: date, until: date) -> Sequence[BilledDay]:
        """Return what was charged from `since` until before `until`; may block and may cost money; BillError."""
