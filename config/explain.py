"""Says in words what is wrong with a setting and what to write instead; takes pydantic's errors apart."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from difflib import get_close_matches
from typing import Any, get_args, get_origin

from config.section import Section
from config.settings import Settings
from config.toml_lines import Key

_SECRET = {"secret", "old_secret", "url"}  # never repeated: the addresses of chat robots hold their key
_PATTERNS = {
    "currency": "write three capital letters, like `USD`",
    "name": "write up to 63 lower-case letters, digits, `-` and `_`, a letter or digit first",
}
_EXAMPLES = {"cap": 'cap = "100 USD"', "name": 'name = "ops"'}
_BOUNDS = {
    "greater_than": ("gt", "more than"),
    "greater_than_equal": ("ge", "at least"),
    "less_than": ("lt", "less than"),
    "less_than_equal": ("le", "at most"),
}


def explain(error: Mapping[str, Any]) -> tuple[str, str]:
    """Return one sentence on what is wrong, and one on what to write instead (may be empty), for an error of pydantic's."""
    kind, key = error["type"], error["loc"]
    if kind in _BOUNDS:
        return _bound(error)
    sentence = _SENTENCES.get(kind) or _SENTENCES.get(kind.partition("_")[0])
    return sentence(key, error) if sentence else (error["msg"], "")


def near(word: str, words: Iterable[str]) -> str:
    """Return `did you mean ...?` with the word most like it, or nothing."""
    found = get_close_matches(word, list(words), n=1)
    return f"did you mean `{found[0]}`?" if found else ""


def dotted(key: Key) -> str:
    """Print a key as one would write it in Python: `budgets[0].cap`."""
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in key).removeprefix(".")


def section_at(key: Key) -> type[Section] | None:
    """Return the section that `key` leads to, None when it leads to a value or nowhere."""
    found: Any = Settings
    for part in key:
        if isinstance(part, int):
            found = get_args(found)[0] if get_origin(found) is tuple else None
        elif is_section(found) and part in found.model_fields:
            found = found.model_fields[part].annotation
        else:
            return None
    return found if is_section(found) else None


def is_section(annotation: Any) -> bool:  # noqa: ANN401 - any type may be asked about
    """Say whether a type is a table of the settings file."""
    return isinstance(annotation, type) and issubclass(annotation, Section)


def setting_keys(section: type[Section] = Settings, above: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Yield the path of every setting; lists of tables count as one setting."""
    for name, field in section.model_fields.items():
        if isinstance(field.annotation, type) and issubclass(field.annotation, Section):
            yield from setting_keys(field.annotation, (*above, name))
        else:
            yield (*above, name)


def _unknown(key: Key, _: Mapping[str, Any]) -> tuple[str, str]:
    section = section_at(key[:-1]) or Settings
    name = str(key[-1])
    hint = near(name, section.model_fields)
    if not hint:
        homes = [dotted(path[:-1]) for path in setting_keys() if path[-1] == name and len(path) > 1]
        hint = f"it belongs in {' or '.join(f'[{home}]' for home in homes)}" if homes else ""
    return "unknown setting", hint or f"known here: {', '.join(section.model_fields)}"


def _missing(key: Key, _: Mapping[str, Any]) -> tuple[str, str]:
    return "is missing", f"add `{_EXAMPLES.get(str(key[-1]), f'{key[-1]} = ...')}`"


def _refused(_: Key, error: Mapping[str, Any]) -> tuple[str, str]:
    sentence, _colon, hint = str(error["ctx"]["error"]).partition(": ")
    return sentence, hint


def _choice(key: Key, error: Mapping[str, Any]) -> tuple[str, str]:
    section = section_at(key[:-1])
    choices = get_args(section.model_fields[str(key[-1])].annotation) if section else ()
    written = error["input"]
    hint = near(written, choices) if isinstance(written, str) else ""
    return f"{_shown(key, written)} is not one of {', '.join(choices)}", hint


def _number(key: Key, error: Mapping[str, Any]) -> tuple[str, str]:
    whole = error["type"].startswith("int")
    return (
        f"{_shown(key, error['input'])} is not a {'whole ' if whole else ''}number",
        f"write it like `{3 if whole else 0.5}`",
    )


def _boolean(key: Key, error: Mapping[str, Any]) -> tuple[str, str]:
    return f"{_shown(key, error['input'])} is neither true nor false", "write `true` or `false`, without quotes"


def _text(key: Key, error: Mapping[str, Any]) -> tuple[str, str]:
    return f"{_shown(key, error['input'])} is not text", "put it in quotes"


def _pattern(key: Key, error: Mapping[str, Any]) -> tuple[str, str]:
    return f"{_shown(key, error['input'])} can't be used", _PATTERNS.get(str(key[-1]), "")


def _list(key: Key, error: Mapping[str, Any]) -> tuple[str, str]:
    name = key[-1]
    if isinstance(error["input"], Mapping):
        return "is one table and should be a list of them", f"write `[[{name}]]`, with two brackets"
    return f"{_shown(key, error['input'])} is not a list", f'write `{name} = ["...", "..."]`'


def _table(key: Key, error: Mapping[str, Any]) -> tuple[str, str]:
    name = dotted(tuple(part for part in key if isinstance(part, str)))
    header = f"[[{name}]]" if isinstance(key[-1], int) else f"[{name}]"
    return f"{_shown(key, error['input'])} is not a table", f"write `{header}` and its settings on the lines below"


def _finite(key: Key, error: Mapping[str, Any]) -> tuple[str, str]:
    return f"{_shown(key, error['input'])} is not a number to reckon with", "write a finite number"


def _bound(error: Mapping[str, Any]) -> tuple[str, str]:
    name, words = _BOUNDS[error["type"]]
    bound = error["ctx"][name]
    return f"{_shown(error['loc'], error['input'])} is out of range", f"it must be {words} {bound:g}"


_SENTENCES: Mapping[str, Callable[[Key, Mapping[str, Any]], tuple[str, str]]] = {
    "extra_forbidden": _unknown,
    "missing": _missing,
    "value_error": _refused,
    "literal_error": _choice,
    "int": _number,
    "float": _number,
    "bool": _boolean,
    "string_pattern_mismatch": _pattern,
    "string": _text,
    "path": _text,
    "tuple": _list,
    "model": _table,
    "dict": _table,
    "finite_number": _finite,
}


def _shown(key: Key, written: object) -> str:
    if _SECRET.intersection(key):
        return "what is written here"
    text = str(written).lower() if isinstance(written, bool) else str(written)
    return f"`{text if len(text) <= 60 else text[:57] + '...'}`"
