"""Turns pydantic's errors into problems: where in the file, what is wrong, what to write instead."""

from collections.abc import Callable, Iterator, Mapping
from difflib import get_close_matches
from typing import Any, get_args

from pydantic import ValidationError

from config.toml_lines import Key
from daemon.jobfile.foreign import OURS
from daemon.jobfile.problems import Lines, Problem
from daemon.jobfile.spec import JobSpec, Words
from daemon.jobfile.values import written

_LIMITS = {
    "greater_than": ("gt", "above"),
    "greater_than_equal": ("ge", "at_least"),
    "less_than_equal": ("le", "at_most"),
}


def explain(error: ValidationError, lines: Lines) -> Iterator[Problem]:
    """Yield a problem for each of pydantic's errors."""
    for one in error.errors(include_url=False):
        path = tuple(part for part in one["loc"] if part != "[key]")
        code, values = _reason(dict(one), path)
        yield Problem.at(path, lines, code, **values)


def _reason(error: Mapping[str, Any], path: Key) -> tuple[str, dict[str, Any]]:
    kind, context = str(error["type"]), error.get("ctx", {})
    if kind.startswith("jobfile."):
        return kind.removeprefix("jobfile."), {name: value for name, value in context.items() if name != "code"}
    if kind in _LIMITS:
        name, code = _LIMITS[kind]
        return code, {"written": written(error["input"]), "limit": f"{context[name]:g}"}
    sentence = next((_SENTENCES[start] for start in _SENTENCES if kind.startswith(start)), None)
    return sentence(path, error) if sentence else ("says", {"why": error["msg"]})


def _unknown(path: Key, _: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    word, above = str(path[-1]), path[:-1]
    table = _table_at(above)
    known = [*table.model_fields, *(("matrix",) if not above else ())]
    if near := get_close_matches(word, known, 1, 0.7):
        return "near", {"near": near[0]}
    if word in OURS:
        return "foreign", {"ours": OURS[word]}
    homes = [home for home, words in _homes() if word in words and home != (str(above[-1]) if above else "")]
    if homes:
        return "elsewhere" if homes[0] else "on_top", {"home": homes[0], "word": word}
    return "unknown", {"known": ", ".join(known)}


def _homes() -> Iterator[tuple[str, tuple[str, ...]]]:
    yield "", tuple(JobSpec.model_fields)
    for word, field in JobSpec.model_fields.items():
        if table := _table_in(field.annotation):
            yield word, tuple(table.model_fields)


def _table_at(path: Key) -> type[Words]:
    table: type[Words] = JobSpec
    for part in path:
        if isinstance(part, str) and part in table.model_fields:
            table = _table_in(table.model_fields[part].annotation) or table
    return table


def _table_in(annotation: Any) -> type[Words] | None:  # noqa: ANN401 - any type
    if isinstance(annotation, type) and issubclass(annotation, Words):
        return annotation
    return next((table for part in get_args(annotation) if (table := _table_in(part))), None)


def _says(_: Key, error: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    return "says", {"why": str(error["ctx"]["error"])}


def _missing(path: Key, _: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    return ("no_run", {}) if path == ("run",) else ("missing", {"word": str(path[-1])})


def _choice(_: Key, error: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    return "choice", {"written": written(error["input"]), "choices": error["ctx"]["expected"].replace("'", "")}


def _written(code: str) -> Callable[[Key, Mapping[str, Any]], tuple[str, dict[str, Any]]]:
    return lambda _, error: (code, {"written": "nothing" if error["input"] is None else written(error["input"])})


_SENTENCES: Mapping[str, Callable[[Key, Mapping[str, Any]], tuple[str, dict[str, Any]]]] = {
    "extra_forbidden": _unknown,
    "missing": _missing,
    "value_error": _says,
    "literal_error": _choice,
    "int_from_float": _written("not_whole"),
    "int": _written("not_whole"),
    "float": _written("not_a_number"),
    "finite_number": _written("not_a_number"),
    "string_pattern": _written("pattern"),
    "string_too": _written("length"),
    "too_": _written("length"),
    "string": _written("not_text"),
    "tuple": _written("not_a_list"),
    "model": _written("not_a_table"),
    "dict": _written("not_a_table"),
}
