"""One thing that setup makes: how to see it, to make it and to take it away; the same list serves both ways."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from config.reason import Reason


class State(StrEnum):
    """How a thing stands in the account."""

    MISSING = "missing"
    STALE = "stale"  # ours, and not as it should be
    THERE = "there"  # ours, as it should be
    SHARED = "shared"  # not ours, and good as it is
    FOREIGN = "foreign"  # has our name and not our tag: never touched
    UNKNOWN = "unknown"  # can't be seen


@dataclass(frozen=True, slots=True)
class Found:
    """How a thing stands, and what there is to say on it."""

    state: State
    note: Reason | None = None


class Refused(Exception):
    """A step couldn't be done; `reason` says why and what to do next."""

    def __init__(self, reason: Reason) -> None:
        """Keep the reason."""
        super().__init__(str(reason))
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Step:
    """One thing: each of its three functions may raise Refused.

    `make` makes a missing thing and corrects a stale one. `optional`: the rest works without it.
    """

    kind: str  # "bucket"
    name: str
    region: str  # empty: of the whole account
    about: Reason
    look: Callable[[], Found]
    make: Callable[[], None]
    remove: Callable[[], None]
    documents: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # its policies, by name
    optional: bool = False


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a plan: a step, how its thing stands, and what became of it."""

    step: Step
    found: Found
    failed: Reason | None = None

    def stored(self) -> dict[str, Any]:
        """Return it as JSON."""
        return {
            "kind": self.step.kind,
            "name": self.step.name,
            "region": self.step.region,
            "about": str(self.step.about),
            "state": self.found.state.value,
            "note": str(self.found.note or ""),
            "failed": str(self.failed or ""),
            "documents": dict(self.step.documents),
        }


def look(steps: Iterable[Step]) -> list[Line]:
    """Return how everything stands; what can't be seen is unknown, with the reason."""
    return [Line(step, _look(step)) for step in steps]


def unseen(steps: Iterable[Step]) -> list[Line]:
    """Return the plan for an account that can't be looked at."""
    return [Line(step, Found(State.UNKNOWN)) for step in steps]


def to_make(plan: Sequence[Line]) -> list[Line]:
    """Return what setup would make or correct."""
    return [line for line in plan if line.found.state in {State.MISSING, State.STALE}]


def to_remove(plan: Sequence[Line]) -> list[Line]:
    """Return what undoing would take away, the last made first: only what carries our tag."""
    return [line for line in reversed(plan) if line.found.state in {State.THERE, State.STALE}]


def blocked(plan: Sequence[Line]) -> list[Line]:
    """Return what keeps setup from making anything: foreign things with our names, and what can't be seen."""
    bad = {State.FOREIGN, State.UNKNOWN}
    return [line for line in plan if line.found.state in bad and not line.step.optional]


def do(lines: Iterable[Line], act: Callable[[Step], None]) -> list[Line]:
    """Act on each step, one after the other; a failure is kept in its line and stops no other."""
    return [_do(line, act) for line in lines]


def _look(step: Step) -> Found:
    try:
        return step.look()
    except Refused as refused:
        return Found(State.UNKNOWN, refused.reason)


def _do(line: Line, act: Callable[[Step], None]) -> Line:
    try:
        act(line.step)
    except Refused as refused:
        return Line(line.step, line.found, refused.reason)
    return line
