"""What people may ask of the running daemon: messages to the control thread, and its answer."""

from dataclasses import dataclass, field
from typing import Any, Protocol


@dataclass(frozen=True, slots=True)
class Cancel:
    """End a job for good, without saving."""

    job: str


@dataclass(frozen=True, slots=True)
class Hold:
    """Let a job save and wait until it is released."""

    job: str


@dataclass(frozen=True, slots=True)
class Release:
    """Let a held job go on."""

    job: str


@dataclass(frozen=True, slots=True)
class SetBudget:
    """Set a cap, in micro-units of the accounting currency. `at_cap` is empty to leave it as it is."""

    scope: str
    subject: str
    period: str
    cap_micro: int
    at_cap: str = ""


@dataclass(frozen=True, slots=True)
class DryRun:
    """Say what a job file would do and cost, and do nothing."""

    text: str
    filename: str
    user: str


Command = Cancel | Hold | Release | SetBudget | DryRun


@dataclass(frozen=True, slots=True)
class Answer:
    """What came of a command: a code for programs, a sentence for people, and values."""

    ok: bool
    code: str
    message: str
    data: dict[str, Any] = field(default_factory=dict)


class Commands(Protocol):
    """Whoever carries commands out."""

    def ask(self, command: Command, timeout: float = 10.0) -> Answer:
        """Carry out one command and return its answer. Raises TimeoutError."""
