"""Pydantic types for the units: written as people write them, kept exact, described in JSON schema."""

from datetime import timedelta
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, PlainSerializer, WithJsonSchema

from config import units


def _duration(value: Any) -> Any:  # noqa: ANN401 - pydantic hands over whatever was written
    if isinstance(value, timedelta):
        return value
    if isinstance(value, str):
        return units.parse_duration(value)
    raise ValueError(f"{value!r} is not a duration: write it with its unit, like `90s`, `30m` or `1h30m`")


def _lasting(value: timedelta) -> timedelta:
    if not value:
        raise ValueError("no time at all won't do: write a duration above zero, like `1s`")
    return value


def _memory(value: Any) -> Any:  # noqa: ANN401
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ValueError(f"{value!r} is not a memory size: write it like `24GB`")  # noqa: TRY004 - pydantic wants ValueError
    return units.parse_memory(str(value))


def _money(value: Any) -> Any:  # noqa: ANN401
    if isinstance(value, units.Money):
        return value
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ValueError(f"{value!r} is not an amount of money: write it like `20 USD`")  # noqa: TRY004
    money = units.Money.parse(str(value))
    if money.micro < 0:
        raise ValueError(f"{value!r} is below zero: write an amount like `20 USD`")
    return money


Duration = Annotated[
    timedelta,
    BeforeValidator(_duration),
    PlainSerializer(units.exact_duration, return_type=str, when_used="json"),
    WithJsonSchema({"type": "string", "examples": ["90s", "30m", "1h30m", "2d"]}),
]
Span = Annotated[Duration, AfterValidator(_lasting)]  # a duration that isn't zero
MemorySize = Annotated[
    int,
    BeforeValidator(_memory),
    PlainSerializer(lambda size: f"{size}B", return_type=str, when_used="json"),
    WithJsonSchema({"type": ["string", "number"], "examples": ["24GB", "512MB", 24]}),
]
Amount = Annotated[
    units.Money,
    BeforeValidator(_money),
    PlainSerializer(lambda money: money.exact(), return_type=str, when_used="json"),
    WithJsonSchema({"type": ["string", "number"], "examples": ["20 USD", "$20", 0.75]}),
]
