"""Show a plan, ask, and carry it out: the same for every cloud."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from config.reason import Reason
from daemon.setup import shown
from daemon.setup.steps import Line, Step, blocked, do, look, to_make, to_remove

Say = Callable[[str], None]
Agree = Callable[[], bool]


@dataclass(frozen=True, slots=True)
class Outcome:
    """The plan as it was found, and the steps that were done; `ok` where nothing that is needed failed."""

    plan: Sequence[Line]
    done: Sequence[Line] = ()
    ok: bool = True

    def stored(self) -> dict[str, Any]:
        """Return it as JSON."""
        return {
            "ok": self.ok,
            "plan": [line.stored() for line in self.plan],
            "done": [_name(line) for line in self.done if not line.failed],
            "failed": {_name(line): str(line.failed) for line in self.done if line.failed},
        }


def make(steps: Sequence[Step], say: Say, agree: Agree) -> Outcome:
    """Make what is missing and correct what is stale; nothing at all while something stands in the way."""
    plan = look(steps)
    _say(say, shown.plan(plan))
    if obstacles := blocked(plan):
        say(f"\n{Reason('setup.blocked', {'count': len(obstacles)})}")
        return Outcome(plan, ok=False)
    wanted = to_make(plan)
    if not wanted:
        say(f"\n{Reason('setup.all_there')}")
        return Outcome(plan)
    say(f"\n{Reason('setup.cost')}")
    return _carry_out(plan, wanted, "setup.made", lambda step: step.make(), say, agree)


def undo(steps: Sequence[Step], say: Say, agree: Agree) -> Outcome:
    """Take away what carries our tag, the last made first; name what is left."""
    plan = look(steps)
    wanted = to_remove(plan)
    _say(say, shown.undoing(plan, wanted))
    if not wanted:
        say(f"\n{Reason('setup.nothing_to_undo')}")
        return Outcome(plan)
    return _carry_out(plan, wanted, "setup.removed", lambda step: step.remove(), say, agree)


def _carry_out(
    plan: Sequence[Line], wanted: Sequence[Line], code: str, act: Callable[[Step], None], say: Say, agree: Agree
) -> Outcome:
    if not agree():
        return Outcome(plan, ok=False)
    done = do(wanted, act)
    failed = [line for line in done if line.failed]
    say(str(Reason(code, {"count": len(done) - len(failed), "of": len(done)})))
    _say(say, [f"{_name(line)}: {line.failed}" for line in failed])
    return Outcome(plan, done, ok=all(line.step.optional for line in failed))


def _say(say: Say, lines: Sequence[str]) -> None:
    for line in lines:
        say(line)


def _name(line: Line) -> str:
    step = line.step
    return " ".join(part for part in (step.kind, step.name, step.region) if part)
