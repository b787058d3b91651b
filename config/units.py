"""Money, durations and memory sizes: one exact parser and one printer each."""

import re
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal, InvalidOperation, localcontext
from typing import Self

MICRO = 1_000_000
MS_PER_HOUR = 3_600_000
_SYMBOLS = {"USD": "$", "CNY": "¥", "EUR": "€"}
_CURRENCIES = {"$": "USD", "¥": "CNY", "￥": "CNY", "€": "EUR", "RMB": "CNY"}
_MONEY = re.compile(
    r"(?P<sign>-?)(?P<before>[$¥￥€]|[A-Za-z]{3})?\s*(?P<number>\d[\d,_]*(?:\.\d+)?)\s*(?P<after>[$¥￥€]|[A-Za-z]{3})?"
)
_GROUPED = re.compile(r"\d{1,3}(,\d{3})+(\.\d+)?|\d+(_\d+)*(\.\d+)?")
_DURATION = re.compile(r"(?:(\d+)d)?\s*(?:(\d+)h)?\s*(?:(\d+)m(?:in)?)?\s*(?:(\d+(?:\.\d{1,6})?)s)?\s*(?:(\d+)ms)?")
_MEMORY = re.compile(r"(?P<number>\d+(?:\.\d+)?)\s*(?P<unit>[KMGT]i?B?|B)?", re.IGNORECASE)
_EXPONENT = {"": 3, "B": 0, "K": 1, "M": 2, "G": 3, "T": 4}


@dataclass(frozen=True, order=True, slots=True)
class Money:
    """An exact amount: integer millionths of one unit of `currency`."""

    micro: int
    currency: str = "USD"

    @classmethod
    def parse(cls, text: str, currency: str = "USD") -> Self:
        """Read `20 USD`, `$20`, `0.75` (in `currency`), `¥1,200` or `-1200 CNY`; ValueError says what is wrong."""
        match = _MONEY.fullmatch(text.strip())
        if not match or not _GROUPED.fullmatch(match["number"]) or (match["before"] and match["after"]):
            raise ValueError(f"{text!r} is not an amount of money: write it like `20 USD`, `$20` or `0.75`")
        named = (match["before"] or match["after"] or currency).upper()
        micro = _micro(match["number"].replace(",", "").replace("_", ""), text)
        return cls(-micro if match["sign"] else micro, _CURRENCIES.get(named, named))

    def __str__(self) -> str:
        """Print with two decimals, or as many up to six as a small amount needs to show three digits."""
        sign = "-" if self.micro < 0 else ""
        amount = f"{_digits(abs(self.micro))}"
        symbol = _SYMBOLS.get(self.currency)
        return f"{sign}{symbol}{amount}" if symbol else f"{sign}{amount} {self.currency}"

    def exact(self) -> str:
        """Print every digit, so that `parse(exact())` gives the same amount back."""
        whole, rest = divmod(abs(self.micro), MICRO)
        return f"{'-' if self.micro < 0 else ''}{whole}.{rest:06d} {self.currency}"


def _micro(number: str, text: str) -> int:
    try:
        with localcontext(prec=60):
            micro = Decimal(number) * MICRO
    except InvalidOperation as error:  # pragma: no cover - the pattern admits digits only
        raise ValueError(f"{text!r} is not a number") from error
    if micro != micro.to_integral_value():
        raise ValueError(f"{text!r} is finer than a millionth: write at most six decimals")
    if micro > 2**62:
        raise ValueError(f"{text!r} is more money than can be counted here")
    return int(micro)


def _digits(micro: int) -> str:
    decimals = 2
    while decimals < 6 and micro and micro < 10 ** (8 - decimals):
        decimals += 1
    step = 10 ** (6 - decimals)
    whole, rest = divmod((micro + step // 2) // step, 10**decimals)
    return f"{whole:,}.{rest:0{decimals}d}"


def parse_duration(text: str) -> timedelta:
    """Read `90s`, `30m`, `1h30m`, `2d`, `500ms`; a bare number is refused because its unit would be a guess."""
    match = _DURATION.fullmatch(text.strip())
    if not match or not any(match.groups()):
        raise ValueError(f"{text!r} is not a duration: write it like `90s`, `30m`, `1h30m` or `2d`")
    days, hours, minutes, seconds, milliseconds = match.groups()
    whole, _, fraction = (seconds or "0").partition(".")
    try:
        return timedelta(
            int(days or 0),
            int(whole),
            int(fraction.ljust(6, "0") or 0),
            int(milliseconds or 0),
            int(minutes or 0),
            int(hours or 0),
        )
    except OverflowError as error:
        raise ValueError(f"{text!r} is too long a time") from error


def print_duration(duration: timedelta) -> str:
    """Print as `parse_duration` reads: the two largest units that are not zero, `0s` for nothing."""
    if duration < timedelta(0):
        return f"-{print_duration(-duration)}"
    if duration < timedelta(seconds=10) and duration.microseconds:
        return f"{duration.total_seconds():.1f}s"
    left = round(duration.total_seconds())
    parts = []
    for unit, size in (("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1)):
        count, left = divmod(left, size)
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts[:2]) or "0s"


def exact_duration(duration: timedelta) -> str:
    """Print every digit, so that `parse_duration(exact_duration(d)) == d` for any `d` from zero up."""
    left, parts = duration // timedelta(microseconds=1), []
    for unit, seconds in (("d", 86_400), ("h", 3_600), ("m", 60)):
        count, left = divmod(left, seconds * MICRO)
        if count:
            parts.append(f"{count}{unit}")
    whole, rest = divmod(left, MICRO)
    if left or not parts:
        parts.append(f"{whole}.{rest:06d}".rstrip("0").rstrip(".") + "s")
    return "".join(parts)


def parse_memory(text: str) -> int:
    """Read `24GB`, `24G`, `24`, `512MB`, `1.5TB` into bytes; G means GiB, as people who train models mean it."""
    match = _MEMORY.fullmatch(text.strip())
    if not match:
        raise ValueError(f"{text!r} is not a memory size: write it like `24GB`, `512MB` or `1.5TB`")
    unit = (match["unit"] or "").upper()
    size = Decimal(match["number"]) * 1024 ** _EXPONENT[unit[:1]]
    if size > 2**62:
        raise ValueError(f"{text!r} is more memory than there is")
    return int(size.to_integral_value())


def print_memory(size: int) -> str:
    """Print bytes as `24GB` (GiB), with one decimal where the size is not whole."""
    for unit, exponent in (("TB", 4), ("GB", 3), ("MB", 2), ("KB", 1)):
        if size >= 1024**exponent:
            amount = size / 1024**exponent
            return f"{amount:.0f}{unit}" if round(amount, 1).is_integer() else f"{amount:.1f}{unit}"
    return f"{size}B"


def cost_micro(hourly_micro: int, duration_ms: int, carried: int = 0) -> tuple[int, int]:
    """Price `duration_ms` at `hourly_micro` per hour: whole micro-units, and what is carried to the next call.

    `carried` is in micro-unit milliseconds per hour. Over any number of calls the sum is the exact price rounded down,
    so splitting an hour into pieces never makes it dearer.
    """
    return divmod(hourly_micro * duration_ms + carried, MS_PER_HOUR)


def ceil_cost_micro(hourly_micro: int, duration_ms: int) -> int:
    """Price `duration_ms` at `hourly_micro` per hour, rounded up: what to set aside."""
    return -(-hourly_micro * duration_ms // MS_PER_HOUR)
