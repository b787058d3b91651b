"""YAML 1.2 as far as a job file needs it: plain values with their lines, and nothing that grows or surprises.

ruamel splits the text into events; values are made from them here, so that anchors, tags, merge keys, keys that stand twice
and deep or long files are refused before anything is built.
"""

import re
from collections.abc import Iterator
from io import StringIO
from typing import Any, NoReturn

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.events import (
    AliasEvent,
    DocumentStartEvent,
    MappingEndEvent,
    MappingStartEvent,
    NodeEvent,
    ScalarEvent,
    SequenceEndEvent,
)

from config.reason import Value
from config.toml_lines import Key
from daemon.jobfile.problems import JobFileError, Lines, Problem

DEEPEST = 20
MOST_VALUES = 2_000
_AS_WRITTEN = {"envs", "matrix"}  # numbers under these stay as they are written: `0.10`, `1e-4`, `007`
_INT = re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")
_WORDS = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}


def read_yaml(text: str) -> tuple[Any, Lines]:
    """Return the value of a YAML 1.2 text and the lines of its words. Raises JobFileError."""
    reader = _Reader(text)
    try:
        return reader.document(), reader.lines
    except JobFileError:
        raise
    except MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 0
        why = error.problem or error.context or "it can't be read"
        raise JobFileError([Problem.of_file("not_yaml", line=line, why=why)]) from error
    except (YAMLError, ValueError, AttributeError, IndexError, RecursionError) as error:  # what ruamel lets through
        why = str(error).partition("\n")[0] or type(error).__name__
        raise JobFileError([Problem.of_file("not_yaml", line=reader.line, why=why)]) from error


class _Reader:
    def __init__(self, text: str) -> None:
        self.lines: dict[Key, int] = {}
        self.line = 0
        self._events: Iterator[Any] = YAML(typ="safe", pure=True).parse(StringIO(text))
        self._count = 0

    def document(self) -> Any:  # noqa: ANN401 - any value
        value, documents = None, 0
        for event in self._events:
            self.line = event.start_mark.line + 1
            if isinstance(event, DocumentStartEvent):
                documents += 1
                if documents > 1:
                    self._refuse("documents")
                if event.version not in {None, (1, 2)} or event.tags:
                    self._refuse("directives")
            elif isinstance(event, NodeEvent):
                value = self._value(event, ())
        return value

    def _value(self, event: NodeEvent, path: Key) -> Any:  # noqa: ANN401
        self._look(event, path)
        if isinstance(event, MappingStartEvent):
            return self._table(path)
        return _scalar(event, path) if isinstance(event, ScalarEvent) else self._list(path)

    def _look(self, event: NodeEvent, path: Key) -> None:
        self.line = event.start_mark.line + 1
        self._count += 1
        if isinstance(event, AliasEvent) or event.anchor:
            self._refuse("anchors")
        if getattr(event, "tag", None):
            self._refuse("tags")
        if len(path) > DEEPEST or self._count > MOST_VALUES:
            self._refuse("too_big", levels=DEEPEST, values=MOST_VALUES)

    def _table(self, path: Key) -> dict[str, Any]:
        table: dict[str, Any] = {}
        while not isinstance(event := next(self._events), MappingEndEvent):
            word = self._word(event, table)
            self.lines[*path, word] = self.line
            table[word] = self._value(next(self._events), (*path, word))
        return table

    def _word(self, event: NodeEvent, table: dict[str, Any]) -> str:
        self._look(event, ())
        word = _scalar(event, ("envs",)) if isinstance(event, ScalarEvent) else None
        if word is None:
            self._refuse("not_a_word")
        if word == "<<":
            self._refuse("merge")
        if word in table:
            self._refuse("twice", word=word)
        return str(word)

    def _list(self, path: Key) -> list[Any]:
        items: list[Any] = []
        while not isinstance(event := next(self._events), SequenceEndEvent):
            here = (*path, len(items))
            self.lines[here] = event.start_mark.line + 1
            items.append(self._value(event, here))
        return items

    def _refuse(self, code: str, **values: Value) -> NoReturn:
        raise JobFileError([Problem.of_file(code, line=self.line, **values)])


def _scalar(event: ScalarEvent, path: Key) -> Any:  # noqa: ANN401
    text = str(event.value)
    if not event.implicit[0]:  # in quotes, or a block
        return text
    if text in _WORDS and (_WORDS[text] is None or path[:1] not in {("envs",), ("matrix",)}):
        return _WORDS[text]
    if path and path[0] in _AS_WRITTEN:
        return text
    if _INT.fullmatch(text):
        return int(text, 0 if text[:2] in {"0o", "0x"} else 10)
    return float(text.replace(".inf", "inf").replace(".nan", "nan")) if _FLOAT.fullmatch(text) else text
