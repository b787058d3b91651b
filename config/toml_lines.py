"""Reads TOML with the line of every key, which `tomllib` doesn't tell, and past a line that is wrong on its own."""

import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

Key = tuple[str | int, ...]

_TOKEN = re.compile(
    r"""
    (?P<text>"{3}(?:\\.|[^\\])*?"{3,5}|'{3}.*?'{3,5}|"(?:\\.|[^"\\\n])*"|'[^'\n]*')
    |(?P<comment>\#[^\n]*)
    |(?P<mark>[\n\[\]{},=.])
    |(?P<blank>[^\S\n]+)
    |(?P<bare>[^\s\[\]{},=.\#"']+|["'])
    """,
    re.VERBOSE | re.DOTALL,
)
_HEADER = re.compile(r"\s*\[+(?P<table>[\w.-]*)\]")
_PAIR = re.compile(r"\s*(?P<key>[\w.-]+)\s*(?P<sign>[=:])\s*(?P<value>(?:[^#\"']|\"[^\"]*\"|'[^']*')+?)\s*(?:#.*)?")


@dataclass(frozen=True, slots=True)
class Flaw:
    """A syntax error: the line, the key it is about (empty if that can't be told), what is wrong, what to write."""

    line: int
    key: Key
    message: str
    hint: str = ""


@dataclass(frozen=True, slots=True)
class Parsed:
    """What a TOML text says, the line of each key, and its syntax errors; not `readable`: nothing could be made of it."""

    data: dict[str, Any] = field(default_factory=dict)
    lines: dict[Key, int] = field(default_factory=dict)
    flaws: tuple[Flaw, ...] = ()
    readable: bool = True


def parse(text: str) -> Parsed:
    """Read a TOML text; a line that is surely wrong on its own is noted and left out, any other error ends the reading."""
    lines = text.replace("\r\n", "\n").split("\n")
    flaws: list[Flaw] = []
    while True:
        readable = "\n".join(lines)
        try:
            return Parsed(tomllib.loads(readable), key_lines(readable), tuple(flaws))
        except tomllib.TOMLDecodeError as error:
            flaws.append(_flaw(lines, str(error)))
        if not flaws[-1].key:
            return Parsed(flaws=tuple(flaws), readable=False)
        lines[flaws[-1].line - 1] = ""


class _Token(NamedTuple):
    text: str
    line: int


def key_lines(text: str) -> dict[Key, int]:
    """Return the line, counted from 1, on which each key of a valid TOML text stands.

    Keys are as one would index the parsed text: `("budgets", 0, "cap")`. A table's line is that of its header.
    """
    scan = _Scan(list(_tokens(text)))
    scan.document()
    return scan.lines


def _tokens(text: str) -> Iterator[_Token]:
    line = 1
    for match in _TOKEN.finditer(text):
        if match.lastgroup not in {"comment", "blank"}:
            yield _Token(match[0], line)
        line += match[0].count("\n")
    yield _Token("", line)


class _Scan:
    """Reads tokens from left to right; the text is known to be valid, so nothing is checked."""

    def __init__(self, tokens: list[_Token]) -> None:
        self.tokens = tokens
        self.at = 0
        self.lines: dict[Key, int] = {}
        self.counts: dict[Key, int] = {}  # how many elements an array of tables has so far

    @property
    def next(self) -> _Token:
        return self.tokens[self.at]

    def take(self) -> _Token:
        self.at += 1
        return self.tokens[self.at - 1]

    def document(self) -> None:
        table: Key = ()
        while self.next.text:
            if self.next.text == "\n":
                self.take()
            elif self.next.text == "[":
                table = self.header()
            else:
                self.pair(table)

    def header(self) -> Key:
        line = self.take().line
        if self.next.text != "[":
            path = self.placed(self.key())
            self.take()
        else:
            self.take()
            *parents, name = self.key()
            array = (*self.placed(parents), name)
            path = (*array, self.counts.setdefault(array, 0))
            self.counts[array] += 1
            self.at += 2
        self.note(path, line)
        return path

    def placed(self, parts: list[str]) -> Key:
        """Return a header's path; a name of an array of tables means its newest element."""
        path: Key = ()
        for part in parts:
            path = (*path, part)
            if path in self.counts:
                path = (*path, self.counts[path] - 1)
        return path

    def key(self) -> list[str]:
        parts = [_unquoted(self.take().text)]
        while self.next.text == ".":
            self.take()
            parts.append(_unquoted(self.take().text))
        return parts

    def pair(self, table: Key) -> None:
        line = self.next.line
        path = (*table, *self.key())
        self.note(path, line)
        self.take()
        self.value(path)

    def value(self, path: Key) -> None:
        if self.next.text == "[":
            self.elements(path)
        elif self.next.text == "{":
            self.inline(path)
        else:
            while self.next.text not in {"", "\n", ",", "]", "}"}:
                self.take()

    def elements(self, path: Key) -> None:
        index = 0
        self.take()
        while self.next.text != "]":
            if self.next.text in {"\n", ","}:
                self.take()
            else:
                self.note((*path, index), self.next.line)
                self.value((*path, index))
                index += 1
        self.take()

    def inline(self, path: Key) -> None:
        self.take()
        while self.next.text != "}":
            if self.next.text in {"\n", ","}:
                self.take()
            else:
                self.pair(path)
        self.take()

    def note(self, path: Key, line: int) -> None:
        for end in range(1, len(path) + 1):
            self.lines.setdefault(path[:end], line)


def _flaw(lines: list[str], error: str) -> Flaw:
    message, _, where = error.partition(" (at ")
    number = re.match(r"line (\d+)", where)
    line = int(number[1]) if number else len(lines)
    pair = _PAIR.fullmatch(lines[line - 1])
    if not pair:
        return Flaw(line, (), f"is not valid TOML: {message}")
    headers = (_HEADER.match(above) for above in reversed(lines[: line - 1]))
    table = next((header["table"] for header in headers if header), "")
    key = (*filter(None, table.split(".")), *pair["key"].split("."))
    if message.startswith("Cannot overwrite"):
        return Flaw(line, key, "is set twice", "leave one out")
    if not _is_toml(f"{pair['key']} = {pair['value']}"):
        return Flaw(line, key, "is not valid TOML", f'write `{pair["key"]} = "{pair["value"]}"`, with quotes')
    if pair["sign"] == ":":
        return Flaw(line, key, "is not valid TOML", f"write `{pair['key']} = {pair['value']}`")
    return Flaw(line, (), f"is not valid TOML: {message}")


def _is_toml(text: str) -> bool:
    try:
        tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return False
    return True


def _unquoted(key: str) -> str:
    return next(iter(tomllib.loads(f"{key} = 0"))) if key[0] in "\"'" else key
