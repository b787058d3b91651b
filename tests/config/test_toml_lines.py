import tomllib
from datetime import date
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from config.toml_lines import key_lines, parse

BARE = st.text("abcdefghijklmnopqrstuvwxyz0123456789_-", min_size=1, max_size=6)
NAMES = st.one_of(BARE, st.text(max_size=6))
SCALARS = st.one_of(
    st.integers(-(2**40), 2**40),
    st.booleans(),
    st.floats(allow_nan=False),
    st.dates(),
    st.text(max_size=8),
    st.just('x\n"""'),
)
INLINE = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(NAMES, inner, max_size=3)),
    max_leaves=6,
)
TABLES = st.dictionaries(NAMES, INLINE, max_size=4)
DOCUMENTS = st.tuples(
    TABLES, st.dictionaries(NAMES, st.one_of(TABLES, st.lists(TABLES, min_size=1, max_size=3)), max_size=3)
)


def _quoted(text: str) -> str:
    escaped = "".join(c if c.isprintable() and c not in '"\\' else f"\\U{ord(c):08x}" for c in text)
    return f'"{escaped}"'


def _key(name: str) -> str:
    return name if name and all(c in "abcdefghijklmnopqrstuvwxyz0123456789_-" for c in name) else _quoted(name)


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return f"'''\n{value}'''" if value and value.isalnum() and value.isascii() else _quoted(value)
    if isinstance(value, list):
        return "[\n" + "".join(f"  {_value(each)},  # ], [\n" for each in value) + "]"
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{_key(name)} = {_value(each)}" for name, each in value.items()) + " }"
    return value.isoformat() if isinstance(value, date) else repr(value)


def _written(
    table: dict[str, Any], path: tuple[str | int, ...], out: list[str], expected: dict[tuple[str | int, ...], int]
) -> None:
    """Write pairs the way a person might, and note the line of every key."""
    for name, value in table.items():
        expected[*path, name] = sum(text.count("\n") for text in out) + 1
        out.append(f"{_key(name)} = {_value(value)}  # note = 1\n\n")


@given(DOCUMENTS)
def test_every_key_has_the_line_it_was_written_on(document: Any) -> None:
    top, tables = document
    out: list[str] = []
    expected: dict[tuple[str | int, ...], int] = {}
    tables = {name: table for name, table in tables.items() if name not in top}
    _written(top, (), out, expected)
    for name, table in tables.items():
        for index, element in enumerate(table if isinstance(table, list) else [table]):
            path: tuple[str | int, ...] = (name, index) if isinstance(table, list) else (name,)
            expected[path] = sum(text.count("\n") for text in out) + 1
            expected.setdefault((name,), expected[path])
            out.append(f"[[ {_key(name)} ]]\n" if isinstance(table, list) else f"[{_key(name)}] # [x]\n")
            _written(element, path, out, expected)
    text = "".join(out)
    assert tomllib.loads(text) == {**top, **tables}
    lines = key_lines(text)
    assert {key: lines[key] for key in expected} == expected


def test_dotted_and_nested_headers_are_followed() -> None:
    text = 'a.b . "c d" = 1\n[[x]]\n[x.y]\nk = {p = 1, q.r = [2,\n3]}\n[[x]]\n[[x.z]]\n[[x.z]]\nk = 2\n'
    lines = key_lines(text)
    assert lines["a", "b", "c d"] == 1
    assert lines["x", 0, "y", "k", "q", "r"] == 4
    assert lines["x", 0, "y", "k", "q", "r", 1] == 5
    assert lines["x", 1, "z", 1, "k"] == 9


@given(st.text("ab=[]{}\"'#\n.,: 1", max_size=40))
def test_any_text_is_read_or_its_error_has_a_line(text: str) -> None:
    parsed = parse(text)
    count = text.count("\n") + 1
    assert all(1 <= flaw.line <= count and flaw.message for flaw in parsed.flaws)
    assert all(1 <= line <= count for line in parsed.lines.values())
    if not parsed.flaws:
        assert parsed.data == tomllib.loads(text)


@pytest.mark.parametrize(
    ("line", "hint"),
    [
        ("length = 20m", 'write `length = "20m"`, with quotes'),
        ("timezone = Asia/Shanghai  # home", 'write `timezone = "Asia/Shanghai"`, with quotes'),
        ('currency: "CNY"', 'write `currency = "CNY"`'),
        ("tick = 3", "leave one out"),
    ],
)
def test_a_line_wrong_on_its_own_is_left_out_and_the_rest_is_read(line: str, hint: str) -> None:
    parsed = parse(f"tick = 1\n{line}\n[lease]\nend = 2\n")
    assert [(flaw.line, flaw.hint) for flaw in parsed.flaws] == [(2, hint)]
    assert parsed.data == {"tick": 1, "lease": {"end": 2}}
    assert parsed.lines["lease", "end"] == 4


def test_an_error_that_may_spoil_other_lines_ends_the_reading() -> None:
    parsed = parse('a = 1b\nfiles = [\n  "a",\nb = 3\n')
    assert [flaw.line for flaw in parsed.flaws] == [1, 4]
    assert not parsed.readable
