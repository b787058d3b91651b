"""What a job file may be written in, each read to plain values and the lines of its words."""

import json
import re
import tomllib
from collections.abc import Iterator
from datetime import date, time
from pathlib import PurePath
from typing import Any

from config.toml_lines import Key, key_lines
from daemon.jobfile.problems import JobFileError, Lines, Problem
from daemon.jobfile.script import read_script
from daemon.jobfile.text import UNSAFE, line_at
from daemon.jobfile.yaml12 import DEEPEST, MOST_VALUES, read_yaml

_TOML_TEXT = re.compile(
    r"""
    "{3}(?:\\.|[^\\])*?"{3,5}
    |'{3}.*?'{3,5}
    |"(?:\\.|[^"\\\n])*"
    |'[^'\n]*'
    |\#[^\n]*
    """,
    re.VERBOSE | re.DOTALL,
)
_LONG_KEY = re.compile(rf"(?<![\w-])(?:[\w-]++[ \t]*+\.[ \t]*+){{{DEEPEST}}}")


def decode(data: bytes) -> str:
    """Return the text of a file, without a byte order mark and with one kind of line end. Raises JobFileError."""
    if b"\x00" in data:
        raise JobFileError([Problem.of_file("binary")])
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise JobFileError([Problem.of_file("not_utf8", line=line)]) from error
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    unsafe = UNSAFE.search(text)
    if unsafe:
        line = line_at(text, unsafe.start())
        raise JobFileError([Problem.of_file("control", line=line, character=f"U+{ord(unsafe[0]):04X}")])
    return text


def parse(text: str, filename: str) -> tuple[Any, Lines]:
    """Read a text by its file's name: TOML, JSON, a shell script, or else YAML. Raises JobFileError."""
    suffix = PurePath(filename).suffix.lower()
    if suffix == ".sh":
        return read_script(text)
    if suffix == ".toml":
        values, lines = _toml(text)
    elif suffix == ".json":
        values, lines = _json(text)
    else:
        return read_yaml(text)
    _measure(values)
    return values, lines


def _toml(text: str) -> tuple[Any, Lines]:
    if _LONG_KEY.search(_TOML_TEXT.sub("text", text)):  # tomllib's memory grows with the square of a key's length
        raise JobFileError([Problem.of_file("too_big", levels=DEEPEST, values=MOST_VALUES)])
    try:
        return _plain(tomllib.loads(text)), key_lines(text)
    except (ValueError, RecursionError) as error:
        match = re.search(r"\(at line (\d+)", str(error))
        why = str(error).partition(" (at ")[0]
        raise JobFileError([Problem.of_file("not_toml", line=int(match[1]) if match else 0, why=why)]) from error


def _json(text: str) -> tuple[Any, Lines]:
    twice: list[str] = []

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        table: dict[str, Any] = {}
        for word, value in pairs:
            if word in table:
                twice.append(word)
            table[word] = value
        return table

    try:
        values = json.loads(text, object_pairs_hook=once, parse_constant=_no_constant)
    except json.JSONDecodeError as error:
        raise JobFileError([Problem.of_file("not_json", line=error.lineno, why=error.msg)]) from error
    except (ValueError, RecursionError) as error:
        raise JobFileError([Problem.of_file("not_json", why=str(error))]) from error
    if twice:
        raise JobFileError([Problem.of_file("twice", word=word) for word in twice])
    return values, _json_lines(text)


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is not a number of JSON")


def _json_lines(text: str) -> Lines:
    """Return the lines of a JSON text: it is YAML, too, but for tabs and a few escapes, and then no line is told."""
    try:
        return read_yaml(text.replace("\t", " "))[1]
    except JobFileError:
        return {}


def _plain(value: Any) -> Any:  # noqa: ANN401
    """Return TOML's times as text, to be read like those of the other formats."""
    if isinstance(value, dict):
        return {word: _plain(item) for word, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return value.isoformat() if isinstance(value, date | time) else value


def _measure(values: Any) -> None:  # noqa: ANN401
    sizes = list(_paths(values))
    if len(sizes) > MOST_VALUES or max(map(len, sizes), default=0) > DEEPEST:
        raise JobFileError([Problem.of_file("too_big", levels=DEEPEST, values=MOST_VALUES)])


def unsafe_values(values: Any, lines: Lines) -> Iterator[Problem]:  # noqa: ANN401
    """Yield each word and text that hides unsafe characters behind escapes."""
    for path, value in _leaves(values, ()):
        for text in (path[-1:] if path else ()) + ((value,) if isinstance(value, str) else ()):
            if isinstance(text, str) and (unsafe := UNSAFE.search(text)):
                yield Problem.at(path, lines, "control", character=f"U+{ord(unsafe[0]):04X}")


def _paths(values: Any) -> Iterator[Key]:  # noqa: ANN401
    return (path for path, _ in _leaves(values, ()))


def _leaves(value: Any, path: Key) -> Iterator[tuple[Key, Any]]:  # noqa: ANN401
    yield path, value
    if isinstance(value, dict):
        for word, item in value.items():
            yield from _leaves(item, (*path, word))
    elif isinstance(value, list):
        for number, item in enumerate(value):
            yield from _leaves(item, (*path, number))
