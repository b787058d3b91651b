"""A plain shell script is a job, too: `#FRUGALD` comment lines hold the words, the script itself is `run`."""

import re
from collections.abc import Mapping
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from daemon.jobfile.problems import JobFileError, Problem

_LINE = re.compile(r"#\s?FRUGALD\s+(?:--)?(?P<key>[A-Za-z_][\w.-]*)\s*[=:\s]\s*(?P<value>.*\S)\s*$")
_RESOURCES = {"accelerators", "gpu_memory", "gpus", "cpus", "memory", "disk_size", "use_spot", "infra",
              "max_hourly_cost", "cuda", "compute_capability"}


def read_script(text: str) -> tuple[dict[str, Any], Mapping[str, int]]:
    """Return the words of a script and their lines. Raises JobFileError."""
    values: dict[str, Any] = {"run": text}
    lines: dict[str, int] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not re.match(r"#\s?FRUGALD\b", line):
            continue
        match = _LINE.match(line)
        if not match:
            raise JobFileError([Problem(number, "", "write it like `#FRUGALD --accelerators=A100:1` or `#FRUGALD budget: 5 USD`")])
        key = match["key"].replace("-", "_")
        path = ["resources", key] if key in _RESOURCES else key.split(".")
        _put(values, path, _value(match["value"], number), number)
        lines[".".join(path)] = number
    return values, lines


def _put(values: dict[str, Any], path: list[str], value: Any, number: int) -> None:  # noqa: ANN401
    table = values
    for part in path[:-1]:
        table = table.setdefault(part, {})
        if not isinstance(table, dict):
            raise JobFileError([Problem(number, ".".join(path), f"`{part}` has a value already")])
    if path[-1] in table and path != ["run"]:
        raise JobFileError([Problem(number, ".".join(path), "it is there twice")])
    table[path[-1]] = value


def _value(text: str, number: int) -> Any:  # noqa: ANN401
    try:
        return YAML(typ="safe", pure=True).load(text)
    except YAMLError as error:
        raise JobFileError([Problem(number, "", f"{text!r} is not a value")]) from error
