"""Offers turned on their side: an array per property, to look at sixty thousand in a few milliseconds."""

import re
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from functools import cache, cached_property
from operator import attrgetter
from typing import Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from config import gpus
from pricing.offer import Market, Offer

Mask = NDArray[np.bool_]
Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Name = TypeVar("Name", bound=Hashable)
_SHARE = re.compile(r"-(\d+)/(\d+)$")
_HARDWARE_HAZARD = 2e-5
"""Failures an hour and GPU of a machine that nobody takes away: 419 in 54 days on 16,384 (Llama 3, section 3.3.4)."""


class Place(NamedTuple):
    """Where a pool is."""

    cloud: str
    region: str
    zone: str

    def __str__(self) -> str:
        """Return `cloud/region/zone`."""
        return "/".join(self)


class Labels(Generic[Name]):
    """A column of names: each different one kept once, and its number for every row."""

    def __init__(self, values: Iterable[Name]) -> None:
        self._codes: dict[Name, int] = {}
        self.codes = np.array([self._codes.setdefault(value, len(self._codes)) for value in values], dtype=np.intp)
        self.names = tuple(self._codes)

    def where(self, test: Callable[[Name], bool]) -> Mask:
        """Return the rows whose name passes; `test` is asked once for each different name."""
        return np.array([test(name) for name in self.names], dtype=bool)[self.codes]

    def numbers(self, known: Mapping[Name, float], default: float) -> Floats:
        """Return a number for each row by its name."""
        table = np.full(len(self.names), default)
        for name in known.keys() & self._codes.keys():
            table[self._codes[name]] = known[name]
        return table[self.codes]

    def among(self, rows: Mask) -> list[Name]:
        """Return the different names in some rows, in the order of their first row in the whole column."""
        return [self.names[code] for code in np.unique(self.codes[rows])]


class Columns:
    """The columns of offers, in the order given: memory in bytes, prices in micro-units, times in Unix seconds."""

    def __init__(self, offers: Sequence[Offer]) -> None:
        self.offers = offers
        pools = [offer.pool for offer in offers]
        self.place = Labels(Place(pool.cloud, pool.region, pool.zone) for pool in pools)
        self.market = Labels(pool.market for pool in pools)
        self.family = Labels(f"{o.pool.cloud}/{o.pool.region}/{o.family}/{o.pool.market}" for o in offers)
        self.card = Labels(whole_and_share(offer.gpu)[0] for offer in offers)
        self.cuda_max = Labels(offer.cuda_max for offer in offers)
        self.gpus = self._floats("gpus")
        self.gpu_memory = self._integers("gpu_memory")
        self.vcpus = self._floats("vcpus")
        self.memory = self._integers("memory")
        self.hourly = self._integers("hourly_micro")
        self.disk_hourly = self._integers("disk_hourly_micro")
        self.as_of = np.array([offer.as_of.timestamp() for offer in offers], dtype=float)
        self.sold_out = np.array([offer.free == 0 for offer in offers], dtype=bool)

    def __len__(self) -> int:
        return len(self.offers)

    @cached_property
    def spot(self) -> Mask:
        """Return which rows are spot."""
        return self.market.where(lambda market: market is Market.SPOT)

    @cached_property
    def reserved(self) -> Mask:
        """Return which rows are owned capacity."""
        return self.market.where(lambda market: market is Market.RESERVED)

    @cached_property
    def ends(self) -> Floats:
        """Return until when each row may be used, infinite where there is no end."""
        return np.array([o.ends.timestamp() if o.ends else np.inf for o in self.offers], dtype=float)

    @cached_property
    def boot_h(self) -> Floats:
        """Return the hours from a request to a job that can start."""
        return np.array([offer.boot.total_seconds() for offer in self.offers], dtype=float) / 3600

    @cached_property
    def notice_h(self) -> Floats:
        """Return the hours by which an interruption is announced."""
        return np.array([offer.notice.total_seconds() for offer in self.offers], dtype=float) / 3600

    @cached_property
    def advice(self) -> Floats:
        """Return the sources' own interruption rates; without one, NaN for spot, else how often hardware fails."""
        named = np.array([o.hazard_per_hour for o in self.offers], dtype=float)  # None becomes NaN
        return np.where(np.isnan(named) & ~self.spot, _HARDWARE_HAZARD * np.maximum(self.gpus, 1), named)

    @cached_property
    def card_speed(self) -> Floats:
        """Return how fast one whole GPU of each row trains, relative to a V100."""
        return self.card.numbers({name: speed(name) for name in self.card.names}, 1.0)

    @cached_property
    def rows(self) -> dict[str, int]:
        """Return the row of each pool by its name."""
        return {str(offer.pool): row for row, offer in enumerate(self.offers)}

    def _floats(self, name: str) -> Floats:
        return np.array(list(map(attrgetter(name), self.offers)), dtype=float)

    def _integers(self, name: str) -> Integers:
        return np.array(list(map(attrgetter(name), self.offers)), dtype=np.int64)


@cache
def card(name: str) -> gpus.Gpu | None:
    """Return what is known of a GPU by its key, None for one that the table lacks."""
    try:
        return gpus.find(name) if name else None
    except gpus.UnknownGpu:
        return None


def speed(name: str) -> float:
    """Return the training speed of a GPU relative to a V100; no GPU and an unknown one count as 1."""
    known = card(name)
    return known.speed if known else 1.0


def whole_and_share(name: str) -> tuple[str, float]:
    """Part the key of a slice into the whole GPU's key and its share: `A10-1/4` is a quarter of `A10`."""
    found = _SHARE.search(name)
    return (name[: found.start()], int(found[1]) / int(found[2])) if found else (name, 1.0)
