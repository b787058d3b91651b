"""A matrix makes one job of each combination of its values."""

import itertools
import re
from collections.abc import Iterator, Mapping
from typing import Any

from daemon.jobfile.problems import JobFileError, Problem

MOST_JOBS = 1_000
_PLACE = re.compile(r"\$\{\{\s*matrix\.(\w+)\s*\}\}")


def combinations(values: dict[str, Any], matrix: Any, lines: Mapping[str, int]) -> Iterator[dict[str, Any]]:  # noqa: ANN401
    """Yield the values of each job: `${{ matrix.x }}` filled in, and the variable X set. Raises JobFileError."""
    if matrix is None:
        yield values
        return
    line = lines.get("matrix", 0)
    if not isinstance(matrix, dict) or not all(isinstance(v, list) and v for v in matrix.values()):
        raise JobFileError([Problem(line, "matrix", "it is a table of lists, like `lr: [0.1, 0.01]`")])
    total = 1
    for choices in matrix.values():
        total *= len(choices)
    if total > MOST_JOBS:
        raise JobFileError([Problem(line, "matrix", f"it makes {total} jobs; {MOST_JOBS} are the most")])
    for chosen in itertools.product(*matrix.values()):
        yield _filled(values, dict(zip(matrix, map(str, chosen), strict=True)), line)


def _filled(values: dict[str, Any], chosen: dict[str, str], line: int) -> dict[str, Any]:
    filled = {word: _fill(value, chosen, line) for word, value in values.items()}
    if filled["name"] == values["name"]:
        filled["name"] = "-".join([str(values["name"]), *chosen.values()])[:100]
    filled["envs"] = {**{name.upper(): value for name, value in chosen.items()}, **(filled.get("envs") or {})}
    return filled


def _fill(value: Any, chosen: dict[str, str], line: int) -> Any:  # noqa: ANN401
    if isinstance(value, dict):
        return {key: _fill(item, chosen, line) for key, item in value.items()}
    if isinstance(value, list):
        return [_fill(item, chosen, line) for item in value]
    if not isinstance(value, str):
        return value

    def one(match: re.Match[str]) -> str:
        if match[1] not in chosen:
            raise JobFileError([Problem(line, "matrix", f"`{match[0]}` names no list of the matrix")])
        return chosen[match[1]]

    return _PLACE.sub(one, value)
