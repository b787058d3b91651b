"""A matrix makes one job of each combination of its values."""

import itertools
import re
from collections.abc import Iterator
from typing import Any

from daemon.jobfile.problems import JobFileError, Lines, Problem

MOST_JOBS = 1_000
LONGEST_VALUE = 200
_MOST_TEXT = 50_000_000  # characters in all the jobs of a file
_PLACE = re.compile(r"\$\{\{\s*matrix\.(\w+)\s*\}\}")
_NAME = re.compile(r"[A-Za-z_]\w{0,50}", re.ASCII)
Values = dict[str, Any]


def combinations(values: Values, matrix: Any, lines: Lines, size: int) -> Iterator[Values]:  # noqa: ANN401
    """Yield the values of each job, `${{ matrix.x }}` filled in and the variable MATRIX_X set. Raises JobFileError.

    `size` is how many characters the file has.
    """
    lists = {} if matrix is None else _checked(matrix, lines, size)
    unknown = sorted(set(_places(values)) - set(lists))
    if unknown:
        raise JobFileError([Problem.at(("matrix",), lines, "no_list", name=name) for name in unknown])
    for chosen in itertools.product(*lists.values()):
        yield _filled(values, dict(zip(lists, chosen, strict=True))) if lists else values


def _checked(matrix: Any, lines: Lines, size: int) -> dict[str, list[str]]:  # noqa: ANN401
    if not isinstance(matrix, dict) or not matrix:
        raise JobFileError([Problem.at(("matrix",), lines, "not_a_matrix")])
    problems, jobs = [], 1
    for name, choices in matrix.items():
        if not _NAME.fullmatch(name):
            problems.append(Problem.at(("matrix", name), lines, "matrix_name"))
        if not isinstance(choices, list) or not choices or not all(map(_is_value, choices)):
            problems.append(Problem.at(("matrix", name), lines, "not_a_matrix"))
        else:
            jobs *= len(choices)
    if jobs > MOST_JOBS or jobs * size > _MOST_TEXT:
        problems.append(
            Problem.at(("matrix",), lines, "too_many_jobs", jobs=jobs, most=min(MOST_JOBS, _MOST_TEXT // size))
        )
    if problems:
        raise JobFileError(problems)
    return {name: [_text(choice) for choice in choices] for name, choices in matrix.items()}


def _is_value(choice: object) -> bool:
    return isinstance(choice, str | int | float) and len(str(choice)) <= LONGEST_VALUE


def _text(choice: object) -> str:
    return str(choice).lower() if isinstance(choice, bool) else str(choice)


def _filled(values: Values, chosen: dict[str, str]) -> Values:
    filled: Values = {word: _fill(value, chosen) for word, value in values.items()}
    if filled["name"] == values["name"]:
        filled["name"] = _distinct(str(values["name"]), list(chosen.values()))
    envs = filled.get("envs")
    if envs is None or isinstance(envs, dict):
        filled["envs"] = {**{f"MATRIX_{name.upper()}": value for name, value in chosen.items()}, **(envs or {})}
    return filled


def _distinct(name: str, chosen: list[str]) -> str:
    """Return a name that tells the job from the others of its matrix, as far as a name has room."""
    words = ["".join(c if c.isalnum() or c in "._+-" else "-" for c in value) for value in chosen]
    return "-".join([name, *words])[:100].strip("-. ")


def _fill(value: Any, chosen: dict[str, str]) -> Any:  # noqa: ANN401
    if isinstance(value, dict):
        return {word: _fill(item, chosen) for word, item in value.items()}
    if isinstance(value, list):
        return [_fill(item, chosen) for item in value]
    return _PLACE.sub(lambda match: chosen[match[1]], value) if isinstance(value, str) else value


def _places(value: Any) -> Iterator[str]:  # noqa: ANN401
    """Yield the name in each `${{ matrix.name }}`."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        for item in value:
            yield from _places(item)
    elif isinstance(value, str):
        yield from _PLACE.findall(value)
