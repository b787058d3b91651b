"""The book: the newest offers in numpy columns, filtered by need, with a reason and a count for all that it passes over."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from config import gpus
from config.reason import Reason
from pricing.need import Need
from pricing.offer import Market, Offer, Quota

Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class Selection:
    """What is left of the book for one need, and how many offers each filter ruled out, in the filters' order."""

    indices: NDArray[np.intp]
    passed_over: tuple[tuple[Reason, int], ...]
    offers: int

    def nothing_left(self) -> Reason:
        """Return the sentence of the filter that ruled out the last offers: the nearest miss."""
        if not self.passed_over:
            return Reason("pass.no_offers")
        return self.passed_over[-1][0]


class PriceBook:
    """An immutable set of offers; a new one is made after each poll."""

    def __init__(self, offers: Sequence[Offer]) -> None:
        self.offers = tuple(offers)
        self._gpu = _texts(o.gpu for o in offers)
        self._cloud = _texts(o.pool.cloud for o in offers)
        self._region = _texts(o.pool.region for o in offers)
        self._zone = _texts(o.pool.zone for o in offers)
        self._market = _texts(str(o.pool.market) for o in offers)
        self._pool = _texts(str(o.pool) for o in offers)
        self._family = _texts(f"{o.pool.cloud}/{o.pool.region}/{o.family}/{o.pool.market}" for o in offers)
        self.gpus = np.array([o.gpus for o in offers], dtype=float)
        self._gpu_memory = np.array([o.gpu_memory for o in offers], dtype=np.int64)
        self._vcpus = np.array([o.vcpus for o in offers], dtype=float)
        self._memory = np.array([o.memory for o in offers], dtype=np.int64)
        self.hourly = np.array([o.hourly_micro for o in offers], dtype=np.int64)
        self._free = np.array([-1 if o.free is None else o.free for o in offers], dtype=np.int64)
        self._as_of = np.array([o.as_of.timestamp() for o in offers], dtype=float)
        self._ends = np.array([o.ends.timestamp() if o.ends else np.inf for o in offers], dtype=float)
        self._cuda = _texts(o.cuda_max for o in offers)
        self.hazard = np.array([np.nan if o.hazard_per_hour is None else o.hazard_per_hour for o in offers], dtype=float)
        self.boot_h = np.array([o.boot.total_seconds() / 3600 for o in offers], dtype=float)
        self.speed = np.array([_speed(o.gpu) for o in offers], dtype=float)
        self.spot = self._market == str(Market.SPOT)
        self.reserved = self._market == str(Market.RESERVED)

    def __len__(self) -> int:
        return len(self.offers)

    def select(
        self, need: Need, now: datetime, *, closed: Mapping[str, tuple[datetime, str]], stale_after: timedelta,
        quotas: Sequence[Quota],
    ) -> Selection:
        """Return the offers that satisfy every hard condition of `need`; the others are counted by their first miss."""
        left = np.ones(len(self.offers), dtype=bool)
        passed: list[tuple[Reason, int]] = []
        for keep, reason in self._filters(need, now, closed, stale_after, quotas):
            ruled_out = int((left & ~keep).sum())
            if ruled_out:
                passed.append((self._with_best(reason, left), ruled_out))
                left &= keep
        return Selection(np.flatnonzero(left), tuple(passed), len(self.offers))

    def _filters(
        self, need: Need, now: datetime, closed: Mapping[str, tuple[datetime, str]], stale_after: timedelta,
        quotas: Sequence[Quota],
    ) -> list[tuple[Mask, Reason]]:
        return [
            (self._placed(need), Reason("pass.place", {"infra": "/".join(filter(None, (need.cloud, need.region, need.zone)))})),
            (self._named(need), Reason("pass.gpu", {"gpus": ", ".join(sorted(need.gpu_names))})),
            (self._counted(need), Reason("pass.count", {"gpus": need.gpus})),
            (self._gpu_memory >= need.gpu_memory, Reason("pass.gpu_memory", {"gpu_memory_bytes": need.gpu_memory})),
            (self._vcpus >= need.vcpus, Reason("pass.vcpus", {"vcpus": need.vcpus})),
            (self._memory >= need.memory, Reason("pass.memory", {"memory_bytes": need.memory})),
            (self._able(need), Reason("pass.cuda", {"cuda": need.cuda, "capability": need.min_compute_capability})),
            (self._cheap_enough(need), Reason("pass.price", {"limit_hourly_micro": need.max_hourly_micro})),
            (self._wanted_market(need), Reason("pass.market", {"spot": need.spot})),
            (self._free != 0, Reason("pass.sold_out")),
            (self._open(closed), Reason("pass.closed", {"why": ", ".join(sorted({why for _, why in closed.values()}))})),
            (self._within_quota(need, quotas), Reason("pass.quota")),
            (now.timestamp() - self._as_of <= stale_after.total_seconds(), Reason("pass.stale", {"after_s": stale_after.total_seconds()})),
            (self._ends > now.timestamp() + 3600, Reason("pass.ends")),
        ]

    def _with_best(self, reason: Reason, left: Mask) -> Reason:
        """Add the nearest miss to a filter's reason: the largest memory or the lowest price that was there."""
        if reason.code == "pass.gpu_memory":
            best = int(np.argmax(np.where(left, self._gpu_memory, -1)))
            return Reason(reason.code, {**reason.values, "best": self.offers[best].gpu or "none", "best_bytes": self.offers[best].gpu_memory})
        if reason.code == "pass.price":
            best = int(np.argmin(np.where(left, self.hourly, np.iinfo(np.int64).max)))
            return Reason(reason.code, {**reason.values, "best_hourly_micro": int(self.hourly[best])})
        return reason

    def _placed(self, need: Need) -> Mask:
        keep = np.ones(len(self.offers), dtype=bool)
        for column, wanted in ((self._cloud, need.cloud), (self._region, need.region), (self._zone, need.zone)):
            if wanted:
                keep &= column == wanted
        return keep

    def _named(self, need: Need) -> Mask:
        return np.isin(self._gpu, sorted(need.gpu_names)) if need.gpu_names else np.ones(len(self.offers), dtype=bool)

    def _counted(self, need: Need) -> Mask:
        # A slice of a GPU (less than one) will do for a job that needs one GPU, if its memory fits and no card is named.
        if need.gpus <= 1 and not need.gpu_names:
            return self.gpus > 0 if need.gpus else self.gpus >= 0
        return self.gpus >= need.gpus

    def _able(self, need: Need) -> Mask:
        able = {name: _runs(name, need.cuda, need.min_compute_capability) for name in np.unique(self._gpu)}
        keep = np.array([able[name] for name in self._gpu], dtype=bool)
        if need.cuda:
            new_enough = {text: not text or _version(text) >= _version(need.cuda) for text in np.unique(self._cuda)}
            keep &= np.array([new_enough[text] for text in self._cuda], dtype=bool)
        return keep

    def _cheap_enough(self, need: Need) -> Mask:
        if need.max_hourly_micro is None:
            return np.ones(len(self.offers), dtype=bool)
        return self.hourly <= need.max_hourly_micro

    def _wanted_market(self, need: Need) -> Mask:
        if need.spot == "yes":
            return self.spot | self.reserved
        return ~self.spot if need.spot == "no" else np.ones(len(self.offers), dtype=bool)

    def _open(self, closed: Mapping[str, tuple[datetime, str]]) -> Mask:
        keys = sorted(closed)
        return ~(np.isin(self._pool, keys) | np.isin(self._family, keys) | np.isin(self._cloud, keys))

    def _within_quota(self, need: Need, quotas: Sequence[Quota]) -> Mask:
        keep = np.ones(len(self.offers), dtype=bool)
        for quota in quotas:
            family = self._family == f"{quota.cloud}/{quota.region}/{quota.family}/{quota.market}"
            wanted = self._vcpus if quota.unit == "vcpus" else self.gpus
            keep &= ~(family & (quota.used + wanted > quota.limit))
        return keep


def _texts(values: object) -> NDArray[np.object_]:
    return np.array(list(values), dtype=object)  # type: ignore[call-overload]


@lru_cache(maxsize=None)
def _speed(name: str) -> float:
    try:
        return gpus.find(name).speed or 1.0
    except ValueError:
        return 1.0


@lru_cache(maxsize=4096)
def _runs(name: str, cuda: str, capability: str) -> bool:
    """Say whether a card serves a CUDA version and has a compute capability; unknown cards are given the benefit."""
    try:
        gpu = gpus.find(name)
    except ValueError:
        return True
    if cuda and gpus.supports_cuda(gpu, cuda) is not None:
        return False
    return not capability or _version(str(gpu.compute_capability)) >= _version(capability)


def _version(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split("."))
