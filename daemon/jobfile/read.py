"""Read a job file: YAML 1.2, TOML, JSON, or a shell script with `#FRUGALD` lines."""

from pathlib import PurePath
from typing import Any

from pydantic import ValidationError

from daemon.jobfile.explain import explain
from daemon.jobfile.foreign import move, refuse
from daemon.jobfile.formats import decode, parse, unsafe_values
from daemon.jobfile.matrix import combinations
from daemon.jobfile.problems import JobFileError, Lines, Problem
from daemon.jobfile.spec import JobSpec
from daemon.jobfile.values import Currency

_ENOUGH = 20  # problems, after which no further job of a matrix is looked at
_ARCHIVES = (".tar.gz", ".tgz")


def read_job(data: bytes, filename: str, currency: Currency | None = None) -> list[JobSpec]:
    """Read one job file into its jobs, several for a `matrix`. Raises JobFileError with everything that is wrong.

    Amounts come out in `currency` (US dollars where none is given), which is also that of a bare number.
    """
    text = decode(data)
    parsed, found = parse(text, filename)
    if not isinstance(parsed, dict):
        raise JobFileError([Problem.of_file("not_a_job", line=1)])
    values, lines = parsed, dict(found)
    if hidden := list(unsafe_values(values, lines)):
        raise JobFileError(hidden)  # alone: halves of characters can't even be told about
    problems = [*move(values, lines), *refuse(values, lines)]
    if values.get("name") is None:
        values["name"] = name_of(filename)
    matrix = values.pop("matrix", None)
    specs: list[JobSpec] = []
    try:
        for combined in combinations(values, matrix, lines, len(text)):
            _validate(combined, lines, currency or Currency(), specs, problems)
            if len(problems) >= _ENOUGH:
                break
    except JobFileError as error:
        problems += error.problems
        _validate(values, lines, currency or Currency(), specs, problems)
    if problems:
        raise JobFileError(problems)
    return specs


def _validate(
    values: dict[str, Any], lines: Lines, currency: Currency, specs: list[JobSpec], problems: list[Problem]
) -> None:
    try:
        specs.append(JobSpec.model_validate(values, context=currency))
    except ValidationError as error:
        problems += [problem for problem in explain(error, lines) if problem not in problems]


def name_of(filename: str) -> str:
    """Make a job's name from a file's name: without folder and ending, and without what no name may hold."""
    name = PurePath(filename).name
    ending = next((end for end in _ARCHIVES if name.lower().endswith(end)), PurePath(name).suffix)
    stem = name[: -len(ending)] if ending else name
    cleaned = "".join(c if c.isprintable() else "-" for c in stem)
    return cleaned[:100].strip("-. ") or "job"
