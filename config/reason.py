"""A reason is a code with values; sentences are made from it when a person looks."""

import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cache
from pathlib import Path
from string import Formatter
from typing import Any

from config import units

Value = str | int | float | bool | None


@dataclass(frozen=True, slots=True)
class Reason:
    """Why something is as it is: `code` names a sentence in `config/words/en/`, `values` fill it.

    A value may be a reason itself, as `stored` gives it. The ending of a value's name says how it is printed: `_micro` as money (`_hourly_micro` as money an hour), `_s` as a
    duration, `_bytes` as memory, `_percent` with a percent sign; anything else as it is.
    """

    code: str
    values: Mapping[str, Value] = field(default_factory=dict)

    def __str__(self) -> str:
        """Return the English sentence."""
        return sentence(self.code, self.values)

    def stored(self) -> dict[str, Any]:
        """Return it as JSON, to be kept inside an event: whoever shows the event makes the sentence."""
        return {"code": self.code, "values": dict(self.values)}


def sentence(code: str, values: Mapping[str, Any], currency: str = "USD") -> str:
    """Fill the sentence named `code`; a code without a sentence shows itself and its values, never an error."""
    template = sentences().get(code)
    if template is None:
        return " ".join([code, *(f"{name}={value}" for name, value in values.items())])
    shown = {name: _shown(name, values.get(name), currency) for _, name, _, _ in Formatter().parse(template) if name}
    return template.format_map(shown)


@cache
def sentences(language: str = "en") -> dict[str, str]:
    """Return every sentence of a language by its code."""
    found: dict[str, str] = {}
    for path in sorted(Path(__file__).with_name("words").joinpath(language).glob("*.toml")):
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
        found |= {f"{table}.{name}": text for table, entries in tables.items() for name, text in entries.items()}
    return found


def _shown(name: str, value: Value | Mapping[str, Any], currency: str) -> str:
    if value is None:
        return "unknown"
    if isinstance(value, Mapping):
        return sentence(str(value.get("code", "")), value.get("values", {}), currency)
    if isinstance(value, str):
        return value
    for ending, shown in _ENDINGS.items():
        if name.endswith(ending):
            return shown(value, currency)
    return str(value)


_ENDINGS: dict[str, Callable[[Any, str], str]] = {
    "hourly_micro": lambda value, currency: f"{units.Money(int(value), currency)}/h",
    "_micro": lambda value, currency: str(units.Money(int(value), currency)),
    "_s": lambda value, _: units.print_duration(timedelta(seconds=float(value))),
    "_bytes": lambda value, _: units.print_memory(int(value)),
    "_percent": lambda value, _: f"{float(value):g} %",
}
