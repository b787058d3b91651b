"""The kinds of values that a job file holds, each with its own parser and JSON schema."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from math import isfinite
from pathlib import PurePosixPath
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    PlainSerializer,
    PlainValidator,
    ValidationInfo,
    WithJsonSchema,
)
from pydantic_core import PydanticCustomError

from config import units
from config.fields import Amount, MemorySize
from config.units import Money

LONGEST_TEXT = 100_000  # bytes; Linux takes no argument of a program above 131,072
_BARE = re.compile(r"\s*-?[\d.,_]+\s*")
_SWITCH = {"true": "yes", "false": "no", "yes": "yes", "no": "no", "auto": "auto"}


@dataclass(frozen=True, slots=True)
class Currency:
    """The accounting currency, which amounts without a currency are in, and what one unit of others is worth in it."""

    code: str = "USD"
    rates: Mapping[str, float] = field(default_factory=dict)

    def take(self, money: Money) -> Money:
        """Return an amount in this currency. Raises ValueError when there is no rate for its own."""
        if money.currency == self.code:
            return money
        if money.currency not in self.rates:
            raise wrong("currency", currency=money.currency, ours=self.code)
        return Money(int(money.micro * Decimal(str(self.rates[money.currency]))), self.code)


def wrong(code: str, /, **values: str | float) -> PydanticCustomError:
    """Return an error for pydantic whose sentence is `jobfile.<code>`."""
    return PydanticCustomError(f"jobfile.{code}", "{code}", {"code": code, **values})


def written(value: Any) -> str:  # noqa: ANN401 - whatever was written
    """Return a value as its writer knows it, cut when it is long."""
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _text(value: Any) -> Any:  # noqa: ANN401
    """Take a number for a text: `name: 7`, `cuda: 12.8`; `true` is none."""
    return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else value


def _variable(value: Any) -> Any:  # noqa: ANN401
    if value is None:
        raise wrong("no_value")
    return str(value).lower() if isinstance(value, bool) else _text(value)


def _short_enough(text: str) -> str:
    if len(text.encode("utf-8", "replace")) > LONGEST_TEXT:
        raise wrong("too_long", most=LONGEST_TEXT)
    return text


def _one_line(text: str) -> str:
    if "\n" in text or "\t" in text or text != text.strip():
        raise wrong("one_line")
    return text


def _number(value: Any) -> Any:  # noqa: ANN401
    if isinstance(value, bool):
        raise wrong("not_a_number", written=written(value))
    return value


def _at_least(value: Any) -> Any:  # noqa: ANN401
    """Take `8+`, `8..` or 8: all of them mean at least."""
    if not isinstance(value, str):
        return _number(value)
    bare = value.strip().removesuffix("+").removesuffix("..").strip()
    if ".." in bare or re.search(r"\d\s*-\s*\d", bare):
        raise wrong("upper_limit", written=written(value), lower=re.split(r"\.\.|-", bare)[0].strip())
    return bare


def _inside(value: str) -> str:
    path = PurePosixPath(value)
    if path.is_absolute() or ".." in path.parts or not value.strip() or value.startswith("~"):
        raise wrong("outside", written=written(value))
    return value


def _workdir(value: Any) -> Any:  # noqa: ANN401
    if isinstance(value, dict) or (isinstance(value, str) and "://" in value):
        raise wrong("no_repositories")
    return value


def _moment(value: Any) -> datetime:  # noqa: ANN401
    try:
        moment = value if isinstance(value, datetime) else datetime.fromisoformat(str(value).strip())
    except ValueError:
        raise wrong("not_a_time", written=written(value)) from None
    if moment.tzinfo is None:
        raise wrong("no_time_zone", written=written(value))
    return moment


def _deadline(value: Any) -> datetime | timedelta:  # noqa: ANN401
    if isinstance(value, timedelta):
        return value
    try:
        left = units.parse_duration(str(value))
    except ValueError:
        return _moment(value)
    if not left:
        raise wrong("no_time_left")
    return left


def _print_deadline(value: datetime | timedelta) -> str:
    return units.exact_duration(value) if isinstance(value, timedelta) else value.isoformat()


def _switch(value: Any) -> str:  # noqa: ANN401
    word = str(value).strip().lower()
    if word not in _SWITCH:
        raise wrong("not_a_switch", written=written(value))
    return _SWITCH[word]


def _amount(value: Any, info: ValidationInfo) -> Any:  # noqa: ANN401
    """Take a bare number for an amount in the accounting currency."""
    if isinstance(value, float) and isfinite(value):
        value = f"{Decimal(repr(value)):f}"  # 1e-06 is 0.000001
    if isinstance(info.context, Currency) and not isinstance(value, bool) and _BARE.fullmatch(str(value)):
        return f"{value} {info.context.code}"
    return value


def _exchanged(money: Money, info: ValidationInfo) -> Money:
    if money.micro <= 0:
        raise wrong("no_money")
    return info.context.take(money) if isinstance(info.context, Currency) else money


def listed(value: Any) -> Any:  # noqa: ANN401
    """Take one value for a list of one."""
    return [value] if isinstance(value, str | int) and not isinstance(value, bool) else value


_LIST = WithJsonSchema({"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]})
Text = Annotated[str, BeforeValidator(_text), AfterValidator(_short_enough)]
Line = Annotated[Text, AfterValidator(_one_line), Field(min_length=1, max_length=1000)]
Name = Annotated[Line, Field(max_length=100)]
Variable = Annotated[Text, BeforeValidator(_variable)]
Moment = Annotated[datetime, BeforeValidator(_moment), WithJsonSchema({"type": "string", "format": "date-time"})]
Deadline = Annotated[
    datetime | timedelta,
    PlainValidator(_deadline),
    PlainSerializer(_print_deadline, return_type=str, when_used="json"),
    WithJsonSchema({"type": "string", "examples": ["12h", "2026-12-24T18:00+08:00"]}),
]
Whole = Annotated[int, BeforeValidator(_number)]
Number = Annotated[float, BeforeValidator(_number)]
AtLeast = Annotated[
    float,
    BeforeValidator(_at_least),
    Field(ge=0, le=100_000),
    WithJsonSchema({"type": ["string", "number"], "examples": ["8+", 8]}),
]
MemoryAtLeast = Annotated[MemorySize, BeforeValidator(_at_least)]
Version = Annotated[str, BeforeValidator(_text), Field(pattern=r"^\d{1,3}(\.\d{1,3}){0,2}$")]
InsidePath = Annotated[Line, AfterValidator(_inside)]
Workdir = Annotated[InsidePath, BeforeValidator(_workdir)]
Paths = Annotated[tuple[InsidePath, ...], BeforeValidator(listed), _LIST]
Names = Annotated[tuple[Line, ...], BeforeValidator(listed), _LIST]
Switch = Annotated[
    Literal["yes", "no", "auto"], BeforeValidator(_switch), WithJsonSchema({"enum": [True, False, "auto"]})
]
Price = Annotated[Amount, BeforeValidator(_amount), AfterValidator(_exchanged)]
