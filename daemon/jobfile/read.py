"""Read a job file: YAML 1.2, TOML, JSON, or a shell script with `#FRUGALD` lines."""

import difflib
import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from io import StringIO
from pathlib import PurePath
from typing import Any

from pydantic import ValidationError
from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.events import AliasEvent, CollectionEndEvent, CollectionStartEvent, NodeEvent

from daemon.jobfile.matrix import combinations
from daemon.jobfile.problems import JobFileError, Problem
from daemon.jobfile.script import read_script
from daemon.jobfile.spec import JobSpec, Words

DEEPEST = 20
MOST_NODES = 2_000
NOT_YET = {
    "image": "container images", "environment": "managed environments", "ports": "open ports",
    "file_mounts": "mounts", "schedule": "repeating jobs", "idle": "machines kept for later jobs",
    "keep_on_failure": "machines kept after a failure", "service": "services", "volumes": "volumes",
    "config": "SkyPilot's own settings", "num_nodes": "jobs on several machines",
}
_WORDS = (*JobSpec.model_fields, "matrix", "num_nodes")
Lines = Mapping[str, int]


def read_job(data: bytes, filename: str) -> list[JobSpec]:
    """Read one job file into its jobs (several for a `matrix`). Raises JobFileError with everything that is wrong."""
    text = _decode(data)
    values, lines = _parse(text, filename)
    if not isinstance(values, dict):
        raise JobFileError([Problem(1, "", "a job file is a table of words like `name:` and `run:`; see docs/job-files.md")])
    values = dict(values)
    values.setdefault("name", _name(filename))
    problems = list(_refused(values, lines))
    matrix = values.pop("matrix", None)
    values = {word: value for word, value in values.items() if word not in NOT_YET}
    specs = []
    for combined in combinations(values, matrix, lines):
        try:
            specs.append(JobSpec.model_validate(combined))
        except ValidationError as error:
            problems += [p for p in _problems(error, lines) if p not in problems]
    if problems:
        raise JobFileError(sorted(problems, key=lambda p: p.line))
    return specs


def _decode(data: bytes) -> str:
    if b"\x00" in data:
        raise JobFileError([Problem(0, "", "it is not a text file")])
    try:
        return data.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise JobFileError([Problem(line, "", "it is not UTF-8: save it again as UTF-8")]) from error


def _parse(text: str, filename: str) -> tuple[Any, Lines]:
    suffix = PurePath(filename).suffix.lower()
    if suffix == ".toml":
        return _toml(text)
    if suffix == ".json":
        return _json(text)
    if suffix in {".sh", ".slurm", ".sbatch"}:
        return read_script(text)
    return _yaml(text)


def _yaml(text: str) -> tuple[Any, Lines]:
    try:
        _look_first(text)
        loaded = YAML(typ="rt", pure=True).load(StringIO(text))
    except JobFileError:
        raise
    except MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 0
        raise JobFileError([Problem(line, "", f"not YAML: {error.problem or error.context or error}")]) from error
    except (YAMLError, RecursionError, ValueError) as error:
        raise JobFileError([Problem(0, "", f"not YAML: {str(error).splitlines()[0] if str(error) else 'too deep'}")]) from error
    return _plain(loaded), dict(_marks(loaded))


def _look_first(text: str) -> None:
    """Refuse what could grow or surprise, before anything is built: aliases, tags, depth, size."""
    depth = nodes = 0
    for event in YAML(typ="safe", pure=True).parse(StringIO(text)):
        line = event.start_mark.line + 1
        if isinstance(event, AliasEvent) or getattr(event, "anchor", None):
            raise JobFileError([Problem(line, "", "anchors and aliases (`&x`, `*x`) are not taken: write it out")])
        if isinstance(event, NodeEvent) and getattr(event, "tag", None):
            raise JobFileError([Problem(line, "", "tags (`!x`) are not taken: write a plain value")])
        nodes += isinstance(event, NodeEvent)
        depth += isinstance(event, CollectionStartEvent) - isinstance(event, CollectionEndEvent)
        if depth > DEEPEST or nodes > MOST_NODES:
            raise JobFileError([Problem(line, "", f"more than {DEEPEST} levels or {MOST_NODES} values: a job file is smaller")])


def _plain(value: Any) -> Any:  # noqa: ANN401
    """Return plain Python values in place of ruamel's round-trip ones."""
    if isinstance(value, Mapping):
        return {_key(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, bool) or value is None:
        return value
    for kind in (int, float, str):
        if isinstance(value, kind):
            return kind(value)
    return value


def _key(key: Any) -> str:  # noqa: ANN401
    return "on" if key is True else str(key)


def _marks(value: Any, path: str = "") -> Iterator[tuple[str, int]]:  # noqa: ANN401
    if isinstance(value, Mapping) and hasattr(value, "lc"):
        for key, item in value.items():
            here = f"{path}.{_key(key)}" if path else _key(key)
            yield here, value.lc.key(key)[0] + 1
            yield from _marks(item, here)
    elif isinstance(value, list) and hasattr(value, "lc"):
        for n, item in enumerate(value):
            yield f"{path}.{n}", value.lc.item(n)[0] + 1
            yield from _marks(item, f"{path}.{n}")


def _toml(text: str) -> tuple[Any, Lines]:
    try:
        return tomllib.loads(text), _scan(text, r"^\s*(?P<key>[A-Za-z0-9_.-]+)\s*=", r"^\s*\[+(?P<table>[^\]]+)\]+")
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        match = re.search(r"line (\d+)", str(error))
        raise JobFileError([Problem(int(match[1]) if match else 0, "", f"not TOML: {error}")]) from error


def _json(text: str) -> tuple[Any, Lines]:
    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        twice = {key for n, (key, _) in enumerate(pairs) if key in {k for k, _ in pairs[:n]}}
        if twice:
            raise JobFileError([Problem(0, sorted(twice)[0], "it is there twice")])
        return dict(pairs)

    try:
        return json.loads(text, object_pairs_hook=once), _scan(text, r'^\s*"(?P<key>[^"]+)"\s*:', r"^\0(?P<table>)")
    except json.JSONDecodeError as error:
        raise JobFileError([Problem(error.lineno, "", f"not JSON: {error.msg}")]) from error
    except RecursionError as error:
        raise JobFileError([Problem(0, "", "not JSON: too deep")]) from error


def _scan(text: str, key: str, table: str) -> Lines:
    """Find the lines of keys by looking, for parsers that don't tell."""
    found: dict[str, int] = {}
    inside = ""
    for number, line in enumerate(text.splitlines(), 1):
        if head := re.match(table, line):
            inside = f"{head['table'].strip()}."
            found.setdefault(inside[:-1], number)
        elif entry := re.match(key, line):
            found.setdefault(f"{inside}{entry['key']}", number)
            found.setdefault(entry["key"], number)
    return found


def _refused(values: Mapping[str, Any], lines: Lines) -> Iterator[Problem]:
    """Refuse by name what can't be honoured yet; one node is what everybody gets anyway."""
    for word, what in NOT_YET.items():
        if word in values and not (word == "num_nodes" and values[word] == 1):
            yield Problem(lines.get(word, 0), word, f"{what} are not supported yet: remove the word `{word}`")


def _problems(error: ValidationError, lines: Lines) -> Iterator[Problem]:
    for one in error.errors(include_url=False):
        path = [str(part) for part in one["loc"] if not _is_type(str(part))]
        key = ".".join(path)
        line = next((lines[k] for n in range(len(path), 0, -1) if (k := ".".join(path[:n])) in lines), 0)
        yield Problem(line, key, _message(dict(one), path))


def _message(one: dict[str, Any], path: list[str]) -> str:
    if one["type"] == "extra_forbidden":
        near = difflib.get_close_matches(path[-1], _known(path[:-1]), 1, 0.6)
        return f"unknown word; did you mean `{near[0]}`?" if near else "unknown word; docs/job-files.md lists all"
    if one["type"] == "missing":
        return "it is missing"
    message = str(one["msg"]).removeprefix("Value error, ")
    return message[:1].lower() + message[1:] if message.startswith("Input") else message


def _known(path: list[str]) -> list[str]:
    """Return the words that are known at a place of the file."""
    table: Any = JobSpec
    for part in path:
        field = table.model_fields.get(part) if isinstance(table, type) and issubclass(table, Words) else None
        table = next((t for t in _types(field.annotation) if issubclass(t, Words)), table) if field else table
    return [*table.model_fields, *(_WORDS if table is JobSpec else ())]


def _types(annotation: Any) -> list[type]:  # noqa: ANN401
    parts = getattr(annotation, "__args__", None)
    if parts is None:
        return [annotation] if isinstance(annotation, type) else []
    return [t for part in parts for t in _types(part)]


def _is_type(part: str) -> bool:
    """Say whether a part of pydantic's path names a branch of a union and not a word of the file."""
    return part in {"str", "datetime", "timedelta"} or "[" in part or part.startswith(("function-", "nullable"))


def _name(filename: str) -> str:
    """Make a job's name from its file's name."""
    stem = PurePath(filename).name
    for suffix in (".tar.gz", ".tgz"):
        stem = stem.removesuffix(suffix)
    stem = PurePath(stem).stem if "." in stem else stem
    cleaned = "".join(c if c.isprintable() and c not in "/\\" else "-" for c in stem).strip("-. ")
    return cleaned[:100] or "job"
