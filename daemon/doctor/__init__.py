"""Look whether a cloud is ready: one finding for each thing that must be so, with the next step where it isn't."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from config.reason import Reason


class Verdict(StrEnum):
    """How good a finding is; a failure keeps machines from being rented, or results from being kept."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True, slots=True)
class Finding:
    """What was looked at and found; `following` is the next step, `region` empty for the whole account."""

    check: str
    verdict: Verdict
    found: Reason
    following: Reason | None = None
    region: str = ""

    def stored(self) -> dict[str, str]:
        """Return it as JSON."""
        values: dict[str, Any] = {"check": self.check, "region": self.region, "verdict": self.verdict.value}
        return values | {"found": str(self.found), "next": str(self.following or "")}


def worst(findings: Iterable[Finding]) -> Verdict:
    """Return the worst verdict, `ok` of nothing."""
    return max((one.verdict for one in findings), key=list(Verdict).index, default=Verdict.OK)


def lines(findings: Sequence[Finding]) -> list[str]:
    """Return findings as people read them."""
    return [text for one in findings for text in _lines(one)]


def _lines(one: Finding) -> list[str]:
    place = f"{one.region} {one.check}" if one.region else one.check
    shown = [f"{one.verdict.value:<6}{place}: {one.found}"]
    following = str(one.following or "").splitlines()
    return shown + [f"{'':<6}{'next: ' if n == 0 else '      '}{text}" for n, text in enumerate(following)]
