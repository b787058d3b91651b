"""The sandbox cloud's market: prices, stock and lifetimes as a pure function of (seed, time).

Nothing is remembered, so two processes that know the seed see the same market, whichever ran first. The shape follows
public records of real spot markets: a price stays within a few percent for a week, stock jumps between nothing and
everything within hours, and an interruption is several times likelier for a fresh machine than for an old one.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from hashlib import blake2b
from pathlib import Path

from config.gpus import usable_bytes
from config.settings import SandboxSettings
from config.units import Money
from pricing.offer import Market, Offer, Pool

CLOUD = "sandbox"
REGIONS = {"us-east": 1.0, "eu-west": 1.08, "ap-south": 1.2}  # dearer by this factor than the first
ZONES = "abc"
AGES = ((1 / 3, 7.2), (1.0, 4.8), (math.inf, 0.8))  # up to this age in hours: times the pool's mean hazard
_GIB = 1024**3
_HOUR = 3600
_STOCK_BLOCK = 4 * _HOUR
_LOOK_AHEAD = 60 * 24  # hours: a price limit that holds for two months is taken to hold for good
_DISK_HOURLY_MICRO = 10_959  # 0.08 USD per GiB and month, for 100 GiB
_WEEKLY, _DAILY = 0.05, 0.01  # how far spot prices wander from their mean
_SHARE_LOW, _SHARE_HIGH = 0.18, 0.60  # mean spot price as a share of on demand; pools differ


@dataclass(frozen=True, slots=True)
class _Type:
    name: str
    gpu: str
    gpus: int
    vcpus: int
    memory_gib: int
    hourly: str


_TYPES = (
    _Type("g1.t4", "T4", 1, 4, 16, "0.526"),
    _Type("g2.l4", "L4", 1, 8, 32, "0.805"),
    _Type("g2.a10g", "A10G", 1, 4, 16, "1.006"),
    _Type("g2.a10g.8x", "A10G", 8, 192, 768, "16.288"),
    _Type("g3.l40s", "L40S", 1, 8, 64, "1.861"),
    _Type("g3.l40s.8x", "L40S", 8, 192, 1536, "30.131"),
    _Type("p1.v100", "V100-16", 1, 8, 61, "3.06"),
    _Type("p1.v100.8x", "V100-16", 8, 64, 488, "24.48"),
    _Type("p2.a100", "A100-40", 1, 12, 85, "4.097"),
    _Type("p2.a100.8x", "A100-40", 8, 96, 1152, "32.773"),
    _Type("p2.a100-80", "A100-80", 1, 12, 170, "5.121"),
    _Type("p2.a100-80.8x", "A100-80", 8, 96, 1152, "40.966"),
    _Type("p3.h100", "H100-80", 1, 24, 256, "6.88"),
    _Type("p3.h100.8x", "H100-80", 8, 192, 2048, "55.04"),
)


class SandboxMarket:
    """What the sandbox sells at a moment, and how long it would last."""

    def __init__(self, settings: SandboxSettings) -> None:
        """Lay out the catalogue; the price file, if there is one, takes the place of the invented list.

        Raises SourceError when the file can't be read.
        """
        self._settings = settings
        offers = _listed(settings.price_file) if settings.price_file else self._invented()
        self._catalogue = {offer.pool: self._with_risk(offer) for offer in offers}
        self._moving = settings.price_file is None  # a list says what it says

    def offers(self, now: datetime) -> list[Offer]:
        """Return every offer at `now`, those without stock included with `free=0`."""
        return [self._at(offer, now) for offer in self._catalogue.values()]

    def offer(self, pool: Pool, now: datetime) -> Offer | None:
        """Return one pool's offer at `now`, None when the sandbox never sold it."""
        listed = self._catalogue.get(pool)
        return self._at(listed, now) if listed else None

    def hazard(self, pool: Pool, age: timedelta = timedelta(hours=12)) -> float:
        """Return interruptions per hour for a machine of this age; 0 for what isn't spot."""
        hours = age.total_seconds() / _HOUR
        return self._mean_hazard(pool) * next(factor for until, factor in AGES if hours < until)

    def lifetime(self, pool: Pool, token: str) -> timedelta | None:
        """Return how long the machine launched with `token` lives before the market takes it, None for ever."""
        mean = self._mean_hazard(pool)
        if not mean:
            return None
        left, start = -math.log1p(-self._chance("life", pool, token)), 0.0
        for until, factor in AGES:
            hours = left / (mean * factor)
            if start + hours < until:
                return timedelta(hours=min(start + hours, 24 * 365))
            left, start = left - (until - start) * mean * factor, until
        raise AssertionError("the last age class has no end")  # pragma: no cover

    def warned(self, token: str) -> bool:
        """Say whether the interruption of the machine launched with `token` comes with a notice."""
        return self._chance("notice", token) >= self._settings.no_notice_share

    def answer_lost(self, token: str) -> bool:
        """Say whether the answer to the launch with `token` gets lost on its way."""
        return self._chance("answer", token) < self._settings.lost_answer_share

    def throttles(self, call: int) -> bool:
        """Say whether an account's call with this number is refused as too frequent."""
        return self._chance("throttle", call) < self._settings.throttle_share

    def passes_bid(self, pool: Pool, bid_micro: int, since: datetime) -> datetime | None:
        """Return when the spot price first passes `bid_micro`, None when it doesn't for two months."""
        mean = self._catalogue[pool].hourly_micro
        if mean * (1 + _WEEKLY + _DAILY) < bid_micro:
            return None
        hour = int(since.timestamp()) // _HOUR
        for step in range(_LOOK_AHEAD):
            if self._spot_micro(pool, mean, hour + step) > bid_micro:
                return max(since, datetime.fromtimestamp((hour + step) * _HOUR, UTC))
        return None

    def _at(self, offer: Offer, now: datetime) -> Offer:
        if offer.pool.market is not Market.SPOT:
            return replace(offer, as_of=now)
        price = self._spot_micro(offer.pool, offer.hourly_micro, int(now.timestamp()) // _HOUR)
        native = Money(price).exact() if self._moving else offer.native_hourly
        return replace(offer, as_of=now, hourly_micro=price, native_hourly=native, free=self._free(offer, now))

    def _spot_micro(self, pool: Pool, mean_micro: int, hour: int) -> int:
        if not self._moving:
            return mean_micro
        drift = _WEEKLY * self._wave("week", pool, hour, 168) + _DAILY * self._wave("day", pool, hour, 24)
        return round(mean_micro * (1 + drift) / 100) * 100

    def _wave(self, name: str, pool: Pool, hour: int, period: int) -> float:
        """Return a slow random curve in [-1, 1]: straight lines between one random point per period."""
        index, within = divmod(hour, period)
        here, there = (2 * self._chance(name, pool, index + step) - 1 for step in (0, 1))
        return here + (there - here) * within / period

    def _free(self, offer: Offer, now: datetime) -> int:
        full = 1 + int(15 * self._chance("stock", offer.pool)) if offer.free is None else offer.free
        return 0 if self._empty(offer.pool, now.timestamp()) else full

    def _empty(self, pool: Pool, seconds: float) -> bool:
        """Say whether stock is out: some four-hour blocks hold one gap, so that gaps add up to `sold_out_share`."""
        share = self._settings.sold_out_share
        index, within = divmod(seconds + _STOCK_BLOCK * self._chance("phase", pool), _STOCK_BLOCK)
        if self._chance("gap", pool, index) >= 2 * share:
            return False
        least = max(0.0, 2 * share - 1)
        length = least + (1 - least) * self._chance("length", pool, index)
        start = (1 - length) * self._chance("start", pool, index)
        return start <= within / _STOCK_BLOCK < start + length

    def _mean_hazard(self, pool: Pool) -> float:
        """Return the mean over a machine's first day; pools differ by a factor of nine around the setting."""
        if pool.market is not Market.SPOT:
            return 0.0
        return self._settings.hazard_per_hour * 0.275 * 9 ** self._chance("hazard", pool)

    def _with_risk(self, offer: Offer) -> Offer:
        """Return the offer with what the settings say of booting and of interruptions."""
        spot = offer.pool.market is Market.SPOT
        notice = self._settings.notice if spot else timedelta(0)
        return replace(offer, boot=self._settings.boot, notice=notice, hazard_per_hour=self._mean_hazard(offer.pool))

    def _invented(self) -> Iterator[Offer]:
        for kind in _TYPES:
            for region, dearer in REGIONS.items():
                for zone in ZONES:
                    yield from self._pair(kind, region, f"{region}-{zone}", dearer)

    def _pair(self, kind: _Type, region: str, zone: str, dearer: float) -> Iterator[Offer]:
        on_demand = round(Money.parse(kind.hourly).micro * dearer / 1000) * 1000
        pool = Pool(CLOUD, region, zone, kind.name, Market.ON_DEMAND)
        offer = Offer(
            pool=pool, gpu=kind.gpu, gpus=kind.gpus, gpu_memory=usable_bytes(kind.gpu), vcpus=kind.vcpus,
            memory=kind.memory_gib * _GIB, hourly_micro=on_demand, ceiling_micro=on_demand,
            as_of=datetime.fromtimestamp(0, UTC), family=kind.name.partition(".")[0],
            native_hourly=Money(on_demand).exact(), disk_hourly_micro=_DISK_HOURLY_MICRO,
            cuda_max="13.0",
        )  # fmt: skip
        yield offer
        spot = replace(pool, market=Market.SPOT)
        share = _SHARE_LOW + (_SHARE_HIGH - _SHARE_LOW) * self._chance("share", spot)
        yield replace(offer, pool=spot, hourly_micro=int(on_demand * share))

    def _chance(self, *what: object) -> float:
        """Return the number in [0, 1) that belongs to `what` under this seed."""
        text = "|".join(map(str, (self._settings.seed, *what)))
        return int.from_bytes(blake2b(text.encode(), digest_size=7).digest()) / 2**56


def _listed(path: Path) -> Iterator[Offer]:
    """Yield what a price list offers, as the sandbox's own."""
    from pricing.sources.file import FileSource  # here, because hardly any sandbox has one

    for offer in FileSource(path).offers(datetime.fromtimestamp(0, UTC)):
        yield replace(offer, pool=replace(offer.pool, cloud=CLOUD))
