"""One choice among sixty thousand offers: the book's columns against a plain loop over the same offers."""

import json
import random
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import cache
from statistics import median
from typing import Any

from config import gpus
from pricing.book import PriceBook
from pricing.columns import whole_and_share
from pricing.expected_cost import WorkView
from pricing.history import Hazards, Observation
from pricing.need import Need
from pricing.offer import Market, Offer, Pool, Quota
from pricing.ranking import rank

OFFERS = 60_000
GIB = 1024**3
NOW = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)
STALE_AFTER = timedelta(minutes=15)
NEED = Need(gpu_memory=30 * GIB, vcpus=4, cuda="12.8", min_compute_capability="8.0", max_hourly_micro=20_000_000)
WORK = WorkView(hours=10, on_gpu="A100-40", checkpointed=True)
CARDS = ("T4", "L4", "A10G", "L40S", "V100-16", "A100-40", "A100-80", "H100-80")
Closed = Mapping[str, tuple[datetime, str]]


# ---------------------------------------------------------------- the plain loop


def plain_filter(
    offers: Iterable[Offer], need: Need, now: datetime, *, closed: Closed, stale_after: timedelta, quotas: Sequence[Quota],
    checkpointed: bool,
) -> list[Offer]:  # fmt: skip
    """Return the offers that satisfy a need, looked at one by one; what can be looked up once is."""
    families: dict[str, list[Quota]] = {}
    for quota in quotas:
        families.setdefault(f"{quota.cloud}/{quota.region}/{quota.family}/{quota.market}", []).append(quota)
    return [
        one
        for one in offers
        if _placed(one.pool, need)
        and _enough(one, need)
        and _runs(whole_and_share(one.gpu)[0], one.cuda_max, need)
        and _wanted(one, need, checkpointed=checkpointed)
        and (one.ends is None or one.ends > now + timedelta(hours=1))
        and one.free != 0
        and _open(one, now, closed)
        and all(_has_room(quota, one) for quota in families.get(_family(one), ()))
        and now - one.as_of <= stale_after
    ]


def _placed(pool: Pool, need: Need) -> bool:
    return all(
        wanted in {"", is_}
        for wanted, is_ in ((need.cloud, pool.cloud), (need.region, pool.region), (need.zone, pool.zone))
    )


def _enough(offer: Offer, need: Need) -> bool:
    named = [whole_and_share(name) for name in need.gpu_names]
    shares = [share for name, share in named if name == whole_and_share(offer.gpu)[0]]
    if named and not shares:
        return False
    wanted = need.gpus * min(shares, default=1) if need.gpus <= 1 else need.gpus
    slice_will_do = need.gpus == 1 and not named and need.gpu_memory > 0
    counted = offer.gpus > 0 if slice_will_do else offer.gpus >= wanted
    return counted and offer.gpu_memory >= need.gpu_memory and offer.vcpus >= need.vcpus and offer.memory >= need.memory


@cache
def _runs(card: str, cuda_max: str, need: Need) -> bool:
    try:
        gpu = gpus.find(card) if card else None
    except gpus.UnknownGpu:
        gpu = None
    least = need.min_compute_capability
    if least and (not card or (gpu and _version(gpu.capability) < _version(least))):
        return False
    if need.cuda and gpu and gpus.supports_cuda(gpu, need.cuda):
        return False
    return not need.cuda or not cuda_max or _version(cuda_max) >= _version(need.cuda)


def _version(text: str) -> list[int]:
    return [int(part) for part in text.split(".")]


def _wanted(offer: Offer, need: Need, *, checkpointed: bool) -> bool:
    spot = offer.pool.market is Market.SPOT
    if need.max_hourly_micro is not None and offer.hourly_micro > need.max_hourly_micro:
        return False
    if need.spot == "yes":
        return offer.pool.market in {Market.SPOT, Market.RESERVED}
    return not spot or (need.spot == "auto" and checkpointed)


def _family(offer: Offer) -> str:
    return f"{offer.pool.cloud}/{offer.pool.region}/{offer.family}/{offer.pool.market}"


def _open(offer: Offer, now: datetime, closed: Closed) -> bool:
    return all(closed[key][0] <= now for key in (str(offer.pool), _family(offer), offer.pool.cloud) if key in closed)


def _has_room(quota: Quota, offer: Offer) -> bool:
    return quota.used + (offer.vcpus if quota.unit == "vcpus" else offer.gpus) <= quota.limit


# ---------------------------------------------------------------- the measurement


def invented(chance: random.Random) -> list[Offer]:
    """Return offers of three clouds, on demand and spot, as many as all of them list together."""
    found: list[Offer] = []
    while len(found) < OFFERS:
        card, count, price = chance.choice(CARDS), chance.choice((1, 2, 4, 8)), chance.randint(100_000, 40_000_000)
        region = f"region-{chance.randrange(40)}"
        pool = Pool(
            chance.choice(("aws", "azure", "gcp")),
            region,
            f"{region}{chance.choice('abc')}",
            f"t{len(found)}",
            Market.SPOT,
        )
        spot = Offer(
            pool=pool, gpu=card, gpus=count, gpu_memory=gpus.usable_bytes(card), vcpus=8 * count, memory=count * 64 * GIB,
            hourly_micro=price // 3, ceiling_micro=price, as_of=NOW, family=card, free=chance.choice((None, 0, 4)),
            cuda_max=chance.choice(("12.4", "13.0")),
        )  # fmt: skip
        found += [spot, replace(spot, pool=replace(pool, market=Market.ON_DEMAND), hourly_micro=price, free=None)]
    return found


def measured(work: Callable[[], object], times: int) -> float:
    """Return the median milliseconds of one run."""
    seconds = []
    for _ in range(times):
        start = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - start)
    return 1000 * median(seconds)


def main() -> None:
    chance = random.Random(1)
    offers = invented(chance)
    hazards = Hazards(Observation(str(one.pool), 7200 * chance.random(), interrupted=True) for one in offers[:500])
    question: dict[str, Any] = {
        "closed": {str(one.pool): (NOW + timedelta(hours=1), "sold-out") for one in offers[:50]}, "stale_after": STALE_AFTER,
        "quotas": [Quota("aws", f"region-{n}", card, Market.SPOT, 16, 9) for n in range(40) for card in CARDS],
        "checkpointed": True,
    }  # fmt: skip
    book = PriceBook(offers)

    def choose() -> object:
        return rank(book, book.select(NEED, NOW, **question), WORK, hazards, NEED)

    def loop() -> list[Offer]:
        return plain_filter(book.offers, NEED, NOW, **question)

    kept = [book.offers[row] for row in book.select(NEED, NOW, **question).indices]
    if kept != loop():
        raise SystemExit("the two ways disagree: nothing was measured")
    build, one, rows = measured(lambda: PriceBook(offers), 3), measured(choose, 25), measured(loop, 3)
    print(f"{len(offers):,} offers, {len(kept):,} fit; the book is built in {build:.0f} ms, once a poll")
    print(f"one choice, filtered and ranked: {one:.1f} ms; a plain loop that only filters: {rows:.0f} ms")
    print(json.dumps({
        "bench": "choose", "offers": len(offers), "one_choice_ms": round(one, 2), "row_filter_ms": round(rows, 1),
        "ratio": round(rows / one, 1),
    }))  # fmt: skip


if __name__ == "__main__":
    main()
