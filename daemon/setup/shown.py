"""A plan as people read it."""

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from config.reason import Reason
from daemon.setup.steps import Line, State

_WIDE = 11


def plan(lines: Sequence[Line], *, documents: bool = False) -> list[str]:
    """Return what is there and what will be made; with the policies of each if asked."""
    return [text for line in lines for text in _line(line, line.found.state.value, documents=documents)]


def undoing(lines: Sequence[Line], removed: Collection[Line]) -> list[str]:
    """Return what will be taken away and what is left; what isn't there needs no line."""
    gone = {id(line.step) for line in removed}
    seen = [line for line in lines if line.found.state is not State.MISSING]
    return [text for line in seen for text in _line(line, "remove" if id(line.step) in gone else "leave")]


def policies(named: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Return the policies that people attach themselves."""
    return [f"\n{Reason('setup.policy', {'name': name})}\n{json.dumps(one, indent=2)}" for name, one in named.items()]


def _line(line: Line, verb: str, *, documents: bool = False) -> Iterator[str]:
    step = line.step
    place = f" in {step.region}" if step.region else ""
    yield f"{Reason(f'setup_verb.{verb}')!s:<{_WIDE}}{step.kind} {step.name}{place}"
    yield f"{'':<{_WIDE}}{step.about}"
    if line.found.note:
        yield f"{'':<{_WIDE}}({line.found.note})"
    if documents:
        for name, document in step.documents.items():
            yield f"{'':<{_WIDE}}{name}:"
            yield from (f"{'':<{_WIDE}}{text}" for text in json.dumps(document, indent=2).splitlines())
