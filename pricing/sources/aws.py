"""AWS's prices, owned capacity and quotas: one source for each region, so that none waits for another."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import TypeVar

from config.aws_settings import AwsSettings
from pricing.aws import (
    advisor,
    instances,
    owned,
    placement,
    quotas,
    savings_plans,
    spot_prices,
    terms,
    types,
)
from pricing.aws.asking import Client, Denied
from pricing.aws.clients import Clients
from pricing.aws.instances import Instance
from pricing.aws.kept import Kept
from pricing.aws.offers import CLOUD, Region
from pricing.aws.owned import Owned, ReservedInstance, Target
from pricing.aws.price_list import PriceList, Public, fetched
from pricing.commitments import ReservedOffering
from pricing.offer import Market, Offer, Pool, Quota, SourceError
from pricing.sources.price_list import Currency

T = TypeVar("T")
_LIST_GOOD = timedelta(hours=24)  # a list price confirmed within it counts as confirmed now
_TYPES_LIFE = timedelta(hours=6)
_ADVISOR_LIFE = timedelta(hours=12)
_SCORES_LIFE = timedelta(hours=12)
_RATES_LIFE = timedelta(hours=1)
_QUOTAS_LIFE = timedelta(minutes=15)
_REST = timedelta(hours=1)  # before a question that only gives hints is asked again
_SEEN_RECENTLY = timedelta(minutes=15)


@dataclass
class Seen:
    """What runs in each region, as its source saw it last: plans for every region must know all of it."""

    regions: Mapping[str, tuple[datetime, Sequence[Instance], Sequence[ReservedInstance]]] = field(default_factory=dict)

    def note(
        self, region: str, now: datetime, running: Sequence[Instance], reserved: Sequence[ReservedInstance]
    ) -> None:
        """Keep what was seen of a region."""
        self.regions = {**self.regions, region: (now, running, reserved)}

    def unseen(self, regions: Iterable[str], now: datetime) -> list[str]:
        """Return the regions of which nothing recent is known."""
        old = now - _SEEN_RECENTLY
        return [name for name in regions if name not in self.regions or self.regions[name][0] < old]


class AwsSource:
    """Offers of one region. `notes` says what is left out of the last answer, and why; `scores` are placement scores."""

    def __init__(
        self,
        settings: AwsSettings,
        clients: Clients,
        cache: Path,
        currency: str,
        rates: Mapping[str, float],
        public: Public,
        region: str = "",
        seen: Seen | None = None,
    ) -> None:
        """Ask nothing yet. `cache` is a folder for the last price list; `region` is the settings' first by default.

        Sources of one account share `seen`; `rates` are accounting units for one unit of other currencies.
        """
        self.region = region or settings.regions[0]
        self.name = f"{CLOUD}/{self.region}"
        self.notes: dict[str, str] = {}
        self.scores: placement.Scores = {}
        self._settings = settings
        self._clients = clients
        self._currency = Currency(currency, rates)
        self._native = "CNY" if settings.partition == "aws-cn" else "USD"
        self._public = public
        self._seen = seen or Seen()
        self._list = PriceList(clients, settings.partition, self.region, self._native, cache, public)
        self._types: Kept[types.Catalogue] = Kept(_TYPES_LIFE)
        self._advice: Kept[dict[str, float]] = Kept(_ADVISOR_LIFE, _REST)
        self._scores: Kept[dict[tuple[str, str], int]] = Kept(_SCORES_LIFE, _REST)
        self._plans: Kept[list[savings_plans.Plan]] = Kept(_RATES_LIFE)
        self._limits: Kept[dict[tuple[str, Market], float]] = Kept(_QUOTAS_LIFE)
        self._running: tuple[datetime, list[Instance]] | None = None
        self._offered: frozenset[tuple[str, Market]] = frozenset()

    def offers(self, now: datetime) -> Iterable[Offer]:
        """Return everything that the region sells and the account owns there; may block; SourceError."""
        catalogue = self._types.get(now, lambda: types.read(self._ec2, self.region))
        self._note("machine types", self._types.failed or _unknown(catalogue))
        listed = self._list.get(now)
        self._note("list prices", self._list.failed)
        spot = spot_prices.current(self._ec2, self.region, catalogue.specs, now)
        self._score(catalogue, spot, now)
        found = tuple(
            Region(
                name=self.region, now=now, catalogue=catalogue, prices=listed.prices, listed_at=_as_of(listed.at, now),
                spot=spot.prices, owned=self._owned(catalogue, now), hazards=self._hazards(now),
                discounts=self._settings.discounts, currency=self._native, rate=self._rate(),
                cuda_max=self._settings.cuda_max,
            ).offers()
        )  # fmt: skip
        self._offered = frozenset((offer.family, offer.pool.market) for offer in found)
        return found

    def quotas(self, now: datetime) -> Sequence[Quota]:
        """Return each quota of the families that were offered last, in vCPUs; may block; SourceError."""
        limits = self._optional("quotas", lambda: self._limits.get(now, self._ask_limits))
        running = self._optional("what runs", lambda: self._instances(now))
        if not limits or running is None:
            return ()
        catalogue = self._types.get(now, lambda: types.read(self._ec2, self.region))
        used = {market: instances.vcpus_in_use(running, catalogue.vcpus, market) for market in Market}
        return [
            Quota(CLOUD, self.region, family, market, limit, used[market].get(family, 0), "vcpus")
            for (family, market), limit in sorted(limits.items())
            if (family, market) in self._offered
        ]

    def reserved_offerings(self, now: datetime) -> Sequence[ReservedOffering]:
        """Return every reserved term of the price list; may block; SourceError."""
        return terms.offerings(self._list.get(now).prices, self.region, self._rate(), self._settings.discounts)

    def history(self, pool: Pool, since: datetime, until: datetime) -> spot_prices.History:
        """Return a spot pool's prices over a time, at most 90 days back, in the cloud's currency. Raises SourceError."""
        return spot_prices.history(self._ec2, self.region, pool.type, pool.zone, since, until)

    def _rate(self) -> Decimal:
        try:
            return self._currency.rate(self._native)
        except ValueError as error:
            raise SourceError(f"AWS's prices in {self.region} can't be converted: {error}") from error

    # ------------------------------------------------------------ owned capacity

    def _owned(self, catalogue: types.Catalogue, now: datetime) -> Owned:
        sold = {name: catalogue.zones.get(name, ()) for name in catalogue.specs}
        running = self._optional("what runs", lambda: self._instances(now))
        held = self._optional("reserved instances", lambda: owned.reserved_instances(self._ec2, self.region, now))
        reserved = held or []
        found: dict[tuple[str, str], list[Target]] = {}
        _add(found, self._optional("capacity reservations", lambda: owned.reservations(self._ec2, self.region)) or {})
        if running is not None:  # else nobody knows what of it is free
            self._seen.note(self.region, now, running, reserved)
            _add(found, owned.unused(reserved, instances.count(running), sold))
            _add(found, self._planned(sold, now))
        lasting = {where: [one for one in some if one.ends is None or one.ends > now] for where, some in found.items()}
        return {where: some for where, some in lasting.items() if some}

    def _planned(self, sold: Mapping[str, Sequence[str]], now: datetime) -> Owned:
        """Return what Savings Plans still pay for: those for every region only when all regions have been seen."""
        plans = self._optional("Savings Plans", lambda: self._plans.get(now, lambda: self._ask_plans(now))) or []
        here = [plan for plan in plans if plan.region in {"", self.region} and plan.ends > now]
        unseen = self._seen.unseen(self._settings.regions, now)
        if unseen and any(not plan.region for plan in here):
            self._note("Savings Plans", f"Compute Savings Plans wait for what runs in {', '.join(unseen)}")
            here = [plan for plan in here if plan.region]
        running = [
            placed
            for region, (_, some, reserved) in sorted(self._seen.regions.items())
            for placed in savings_plans.uncovered(some, region, reserved)
        ]
        return savings_plans.affordable(here, savings_plans.remaining(here, running), self.region, sold)

    def _ask_plans(self, now: datetime) -> list[savings_plans.Plan]:
        try:
            client = self._clients.home("savingsplans")
        except KeyError:  # the partition has no such service
            return []
        return savings_plans.plans(client, self._settings.regions, now)

    # ------------------------------------------------------------ signals and quotas

    def _hazards(self, now: datetime) -> Mapping[str, float]:
        if not self._settings.advisor:
            return {}
        ask = partial(self._advice.get, now, self._ask_advisor)
        return self._optional("interruption rates", ask, SourceError) or {}

    def _ask_advisor(self) -> dict[str, float]:
        return advisor.hazards(fetched("the Spot Advisor's file", advisor.URL, self._public), self.region)

    def _score(self, catalogue: types.Catalogue, spot: spot_prices.Current, now: datetime) -> None:
        if not self._settings.placement_scores:
            return
        specs = [spec for spec in catalogue.specs.values() if catalogue.zones.get(spec.type)]
        ask = partial(placement.placement_scores, self._ec2, self.region, specs, spot.zones)
        self.scores = self._optional("placement scores", lambda: self._scores.get(now, ask), SourceError) or {}

    def _ask_limits(self) -> dict[tuple[str, Market], float]:
        return quotas.limits(self._clients.get("service-quotas", self.region), self.region)

    # ------------------------------------------------------------ asking

    @property
    def _ec2(self) -> Client:
        return self._clients.get("ec2", self.region)

    def _instances(self, now: datetime) -> list[Instance]:
        """Return what runs; offers and quotas of one poll are asked for one after the other, at the same moment."""
        if self._running is None or self._running[0] != now:
            self._running = now, instances.running(self._ec2, self.region)
        return self._running[1]

    def _optional(self, what: str, ask: Callable[[], T], spared: type[SourceError] = Denied) -> T | None:
        """Return what `ask` says; None, and why is noted, when only its permission is missing."""
        try:
            found = ask()
        except spared as error:
            self._note(what, str(error))
            return None
        self._note(what, "")
        return found

    def _note(self, what: str, why: str) -> None:
        self.notes.pop(what, None)
        if why:
            self.notes[what] = why


def sources(
    settings: AwsSettings, clients: Clients, cache: Path, currency: str, rates: Mapping[str, float], public: Public
) -> list[AwsSource]:
    """Return one source for each region of the settings."""
    seen = Seen()
    return [
        AwsSource(settings, clients, cache, currency, rates, public, region, seen)
        for region in dict.fromkeys(settings.regions)
    ]


def _as_of(confirmed: datetime, now: datetime) -> datetime:
    return now if now - confirmed <= _LIST_GOOD else confirmed


def _unknown(catalogue: types.Catalogue) -> str:
    names = ", ".join(catalogue.unknown)
    return f"{names}: `config/gpus.toml` doesn't know their GPU, so they aren't offered" if names else ""


def _add(found: dict[tuple[str, str], list[Target]], more: Owned) -> None:
    for where, some in more.items():
        found.setdefault(where, []).extend(some)
