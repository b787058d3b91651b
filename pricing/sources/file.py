"""A price list in a file, CSV or JSON, as a price source: read again when the file has changed."""

import csv
import io
import json
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

from pricing.commitments import free_now
from pricing.offer import Market, Offer, Pool, Quota, SourceError
from pricing.sources.price_list import REQUIRED, Currency, Listed, PriceListError, read_rows

_LARGEST = 64 * 1024**2  # bytes: a hundred thousand offers need a third of it
_DIGITS = 30  # of a JSON number; longer ones stay as they are, and are refused where they stand
Rows = Iterator[tuple[int, dict[str, str] | str]]


@dataclass(frozen=True, slots=True)
class _Reading:
    """What the file held when it looked like `stamp`."""

    stamp: tuple[int, int, int]
    listed: Sequence[Listed]
    error: str


class FileSource:
    """Offers of one price list; `docs/prices.md` names its columns.

    A spot price is as old as its `as_of`, or as the file. Others without `as_of` hold for as long as they stand there.
    """

    def __init__(
        self,
        path: Path,
        currency: str = "USD",
        rates: Mapping[str, float] | None = None,
        in_use: Callable[[Pool], int] = lambda _pool: 0,
    ) -> None:
        """Read `path` at each poll; `in_use` says how many machines of an owned pool run already."""
        self.name = f"file:{path}"
        self._path = path
        self._currency = Currency(currency, rates or {})
        self._in_use = in_use
        self._reading: _Reading | None = None

    def offers(self, now: datetime) -> Sequence[Offer]:
        """Return what the list offers at `now`. Raises SourceError with all that is wrong with the file."""
        reading = self._read()
        if reading.error:
            raise SourceError(reading.error)
        return [self._at(one, now) for one in reading.listed]

    def quotas(self, now: datetime) -> Sequence[Quota]:
        """Return nothing: a list has no quotas."""
        del now
        return ()

    def _at(self, one: Listed, now: datetime) -> Offer:
        offer = one.offer
        if offer.pool.market is Market.RESERVED:
            return free_now(offer, self._in_use(offer.pool), now)
        return replace(offer, as_of=min(offer.as_of, now) if one.dated else now)

    def _read(self) -> _Reading:
        try:
            with self._path.open("rb") as file:
                seen = os.fstat(file.fileno())
                stamp = (seen.st_mtime_ns, seen.st_size, seen.st_ino)
                if self._reading is None or self._reading.stamp != stamp:
                    content = file.read(_LARGEST + 1)
                    self._reading = self._parse(content, stamp)
                return self._reading
        except OSError as error:
            raise SourceError(
                f"price list {self._path} can't be read ({error.strerror}): see `prices.files`"
            ) from error

    def _parse(self, content: bytes, stamp: tuple[int, int, int]) -> _Reading:
        modified = datetime.fromtimestamp(stamp[0] / 1e9, UTC)
        try:
            if len(content) > _LARGEST:
                raise PriceListError([f"it is larger than {_LARGEST >> 20} MB: split it"])
            text = content.decode("utf-8-sig")
            rows = _json_rows(text) if text.lstrip().startswith(("[", "{")) else _csv_rows(text)
            return _Reading(stamp, read_rows(rows, self._currency, modified), "")
        except (
            ValueError,
            csv.Error,
        ) as error:  # PriceListError, UnicodeDecodeError and JSONDecodeError are ValueErrors
            return _Reading(stamp, (), f"price list {self._path}: {error}")
        except RecursionError:
            return _Reading(stamp, (), f"price list {self._path}: it is nested too deeply")


def _csv_rows(text: str) -> Rows:
    """Yield each row that isn't blank with its line: its filled cells by column."""
    reader = csv.DictReader(io.StringIO(text, newline=""), strict=True, skipinitialspace=True)
    try:
        reader.fieldnames = [name.strip().casefold() for name in reader.fieldnames or ()]
        missing = [column for column in REQUIRED if column not in reader.fieldnames]
        if missing:
            raise PriceListError([f"line 1: no column {', '.join(missing)}: the first line names the columns"])
        for cells in reader:
            if None in cells or None in cells.values():
                yield reader.line_num, "it has another number of cells than line 1"
            elif filled := {name: cell.strip() for name, cell in cells.items() if cell.strip()}:
                yield reader.line_num, filled
    except csv.Error as error:
        raise PriceListError([f"line {reader.line_num}: {error}"]) from error


def _json_rows(text: str) -> Rows:
    """Yield each object of a JSON list with the line it begins in; numbers keep their digits."""
    decoder = json.JSONDecoder(parse_float=Decimal, parse_int=Decimal)
    blank, between = re.compile(r"\s*"), re.compile(r"\s*,\s*")
    at = _after(blank, text, 0)
    if text[at : at + 1] != "[":
        raise PriceListError(["line 1: write a list of objects, one for each offer: `[{...}, {...}]`"])
    at, line, counted = _after(blank, text, at + 1), 1, 0
    while text[at : at + 1] != "]":
        line, counted = line + text.count("\n", counted, at), at
        value, at = decoder.raw_decode(text, at)
        if isinstance(value, dict):
            yield line, {name.casefold(): shown for name, cell in value.items() if (shown := _shown(cell))}
        else:
            yield line, "write an object, `{...}`, for each offer"
        at = comma.end() if (comma := between.match(text, at)) else _end(text, _after(blank, text, at))
    if text[at + 1 :].strip():
        raise json.JSONDecodeError("Nothing may follow the list", text, at + 1)


def _after(pattern: re.Pattern[str], text: str, at: int) -> int:
    found = pattern.match(text, at)
    return found.end() if found else at


def _end(text: str, at: int) -> int:
    if text[at : at + 1] != "]":
        raise json.JSONDecodeError("Expecting `,` or `]`", text, at)
    return at


def _shown(cell: Any) -> str:  # noqa: ANN401 - whatever JSON holds
    """Return a JSON value as it would stand in a CSV cell."""
    if isinstance(cell, Decimal) and abs(cell.adjusted()) < _DIGITS:
        return format(cell, "f")
    return "" if cell is None else str(cell).strip()
