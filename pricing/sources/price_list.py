"""What a price list says: rows of text turned into offers, or every error of the whole list at once."""

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import TypeVar

from config import gpus
from config.units import Money, parse_duration, parse_memory
from pricing.columns import whole_and_share
from pricing.offer import Market, Offer, Pool

REQUIRED = ("cloud", "region", "type")
OPTIONAL = (
    "zone", "market", "price", "on_demand_price", "gpu", "gpus", "gpu_memory", "vcpus", "memory", "free", "count", "ends",
    "as_of", "family", "disk_price", "minimum_billing", "boot", "notice", "cuda_max", "hazard",
)  # fmt: skip
_SHOWN = 20  # errors in one message
_MOST = 2**53  # micro-units, nine billions
_UNNAMED = -(2**62)  # the ceiling of an offer whose row names none
Cell = TypeVar("Cell")


class PriceListError(ValueError):
    """A price list that can't be used; `errors` are its mistakes, each with its line and column."""

    def __init__(self, errors: Sequence[str]) -> None:
        """Keep the errors; the message names the first ones."""
        more = f"; and {len(errors) - _SHOWN} more" if len(errors) > _SHOWN else ""
        super().__init__("; ".join(errors[:_SHOWN]) + more)
        self.errors = tuple(errors)


@dataclass(frozen=True)
class Currency:
    """The accounting currency, and what one unit of others is worth in it."""

    code: str = "USD"
    rates: Mapping[str, float] = field(default_factory=dict)

    def rate(self, native: str) -> Decimal:
        """Return accounting units for one native unit. Raises ValueError where no rate is set."""
        if native == self.code:
            return Decimal(1)
        if native not in self.rates:
            raise ValueError(
                f"no rate for {native}: add `{native} = ...` under `[rates]` in the settings, in {self.code}"
            )
        return Decimal(str(self.rates[native]))

    def convert(self, money: Money) -> int:
        """Return micro-units of the accounting currency, rounded. Raises ValueError where no rate is set."""
        micro = round(money.micro * self.rate(money.currency))
        if abs(micro) > _MOST:
            raise ValueError(f"{money} is more money than can be counted here")
        return micro

    def amount(self, text: str) -> int:
        """Read and convert an amount. Raises ValueError."""
        return self.convert(Money.parse(text, self.code))


@dataclass(frozen=True, slots=True)
class Listed:
    """An offer as a list has it. Without `dated` its price holds for as long as it stands in the list."""

    line: int
    offer: Offer
    dated: bool


@dataclass
class _Row:
    """The cells of one row; what is wrong with them is collected, so that all is told at once."""

    line: int
    cells: Mapping[str, str]
    errors: list[str]

    def read(self, column: str, parse: Callable[[str], Cell], default: Cell) -> Cell:
        """Return a cell's value, the default when it is empty, and the default with an error when it can't be read."""
        text = self.cells.get(column, "")
        try:
            return parse(text) if text else default
        except (ValueError, ArithmeticError) as error:
            self.wrong(column, str(error))
            return default

    def wrong(self, column: str, what: str) -> None:
        self.errors.append(f"line {self.line}, {column}: {what}")


def read_rows(
    rows: Iterable[tuple[int, Mapping[str, str] | str]], currency: Currency, modified: datetime
) -> list[Listed]:
    """Return the offers of rows, each with its line; a row without cells is the sentence that says what is wrong.

    `modified` dates spot prices that name no time of their own. Raises PriceListError with everything that is wrong.
    """
    errors: list[str] = []
    listed: list[Listed] = []
    for line, cells in rows:
        if isinstance(cells, str):
            errors.append(f"line {line}: {cells}")
            continue
        offer = _offer(_Row(line, cells, errors), currency, modified)
        listed.append(Listed(line, offer, dated="as_of" in cells or offer.pool.market is Market.SPOT))
    if not errors:  # what rows say of each other is only worth looking at when each is right
        _refuse_twins(listed, errors)
        listed = _with_ceilings(listed, errors)
    if errors:
        raise PriceListError(errors)
    return listed


def _offer(row: _Row, currency: Currency, modified: datetime) -> Offer:
    pool = _pool(row)
    gpu, share, memory = _gpu(row)
    native = row.read("price", lambda text: Money.parse(text, currency.code), None)
    if native is None and "price" not in row.cells and pool.market is not Market.RESERVED:
        row.wrong("price", "is missing: write it like `3.06` or `3.06 USD`")
    listed = native or Money(0, currency.code)
    hourly = 0 if pool.market is Market.RESERVED else row.read("price", lambda _: currency.convert(listed), 0)
    return Offer(
        pool=pool, gpu=gpu, gpus=share, gpu_memory=memory, hourly_micro=hourly,
        ceiling_micro=row.read("on_demand_price", currency.amount, _UNNAMED),
        vcpus=row.read("vcpus", _whole, 1), memory=row.read("memory", parse_memory, 0),
        as_of=row.read("as_of", _time, modified), family=row.cells.get("family", pool.type), free=_free(row, pool.market),
        ends=row.read("ends", _time, None), native_hourly=listed.exact(), fx_rate=_fx(currency, listed),
        disk_hourly_micro=row.read("disk_price", currency.amount, 0),
        minimum_billing=row.read("minimum_billing", parse_duration, timedelta(0)),
        boot=row.read("boot", parse_duration, timedelta(minutes=3)), notice=row.read("notice", parse_duration, timedelta(0)),
        cuda_max=row.read("cuda_max", _cuda, ""), hazard_per_hour=row.read("hazard", _not_negative, None),
    )  # fmt: skip


def _pool(row: _Row) -> Pool:
    for column in REQUIRED:
        if column not in row.cells:
            row.wrong(column, "is missing")
    cloud, region, type_ = (row.cells.get(column, "") for column in REQUIRED)
    return Pool(cloud, region, row.cells.get("zone", region), type_, row.read("market", _market, Market.ON_DEMAND))


def _gpu(row: _Row) -> tuple[str, float, int]:
    """Return the whole GPU's key, how many of it, and the bytes that CUDA offers on each."""
    name = row.cells.get("gpu", "")
    count = row.read("gpus", _count, 1.0 if name else 0.0)
    if not name or not count:
        if name or count:
            row.wrong("gpu", "names no GPU, but `gpus` isn't zero" if count else "is named, but `gpus` is zero")
        return "", 0.0, 0
    memory = row.read("gpu_memory", parse_memory, 0)
    try:
        return _known(name, count, memory)
    except gpus.UnknownGpu as error:
        if not memory:
            row.wrong("gpu", f"{error}; or say its `gpu_memory`")
        return name, count, memory


def _known(name: str, count: float, memory: int) -> tuple[str, float, int]:
    """Look a GPU up: its size tells cards of one name apart, and a part of one has the memory that the list says."""
    known = gpus.identify(name, memory // gpus.MIB) if memory and count >= 1 else gpus.find(name)
    if known.share == 1 and count < 1:
        known = gpus.slice_of(known, count)
    whole, share = whole_and_share(known.key)
    return (whole, share, memory or known.usable) if share < 1 else (whole, count, known.usable)


def _free(row: _Row, market: Market) -> int | None:
    """Return how many a reserved row owns, which it must say, and how many others can be had, if it says so."""
    if market is not Market.RESERVED:
        return row.read("free", _whole, None)
    if "count" not in row.cells:
        row.wrong("count", "is missing: how many such machines are owned?")
    return row.read("count", _whole, 0)


def _fx(currency: Currency, money: Money) -> str:
    return str(currency.rate(money.currency)) if money.currency in {currency.code, *currency.rates} else "1"


def _refuse_twins(listed: Sequence[Listed], errors: list[str]) -> None:
    first: dict[Pool, int] = {}
    for one in listed:
        line = first.setdefault(one.offer.pool, one.line)
        if line != one.line:
            errors.append(f"line {one.line}: {one.offer.pool} stands in line {line} already")


def _with_ceilings(listed: Sequence[Listed], errors: list[str]) -> list[Listed]:
    """Give each offer the most its hour can cost: for spot the highest on-demand price of its type and region."""
    on_demand: dict[tuple[str, str, str], int] = {}
    for one in listed:
        if one.offer.pool.market is Market.ON_DEMAND:
            on_demand[_type(one)] = max(on_demand.get(_type(one), 0), one.offer.hourly_micro)
    return [_with_ceiling(one, on_demand.get(_type(one)), errors) for one in listed]


def _with_ceiling(one: Listed, on_demand: int | None, errors: list[str]) -> Listed:
    offer, pool = one.offer, one.offer.pool
    if pool.market is not Market.SPOT:
        return replace(one, offer=replace(offer, ceiling_micro=offer.hourly_micro))
    if offer.ceiling_micro != _UNNAMED:
        return one
    if on_demand is None:
        errors.append(
            f"line {one.line}, on_demand_price: is missing, and no row has {pool.type} in {pool.region} on demand"
        )
    return replace(one, offer=replace(offer, ceiling_micro=on_demand or 0))


def _type(one: Listed) -> tuple[str, str, str]:
    pool = one.offer.pool
    return pool.cloud, pool.region, pool.type


# ---------------------------------------------------------------- cells


def _market(text: str) -> Market:
    try:
        return Market(text.casefold().replace("_", "-").replace(" ", "-"))
    except ValueError:
        raise ValueError(f"{text!r} is no market: write `on-demand`, `spot` or `reserved`") from None


def _count(text: str) -> float:
    count = float(Fraction(text)) if re.fullmatch(r"\d{1,4}(\.\d{1,6}|/[1-9]\d?)?", text, re.ASCII) else math.nan
    if not (count <= 1 or count.is_integer()):
        raise ValueError(f"{text!r} is not a number of GPUs: write a whole number, or a part like `1/4` or `0.25`")
    return count


def _whole(text: str) -> int:
    if not re.fullmatch(r"\d{1,9}", text, re.ASCII):
        raise ValueError(f"{text!r} is not a whole number")
    return int(text)


def _not_negative(text: str) -> float:
    number = float(text)
    if not 0 <= number < math.inf:
        raise ValueError(f"{text!r} is not a rate an hour: write it like `0.2`")
    return number


def _cuda(text: str) -> str:
    if not re.fullmatch(r"\d{1,2}\.\d{1,2}", text, re.ASCII):
        raise ValueError(f"{text!r} is not a CUDA version: write it like `12.8`")
    return text


def _time(text: str) -> datetime:
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f"{text!r} is not a time: write it like `2026-12-31T00:00:00Z`") from None
    if time.tzinfo is None:
        raise ValueError(f"{text!r} has no time zone: write it like `2026-12-31T00:00:00Z`")
    return time.astimezone(UTC)
