"""What was asked of AWS, put together: one offer for each machine type, zone and market. Nothing here asks anything."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from decimal import Decimal

from config.units import MICRO, Money
from pricing.aws.list_prices import Prices
from pricing.aws.overlay import discounted
from pricing.aws.owned import Owned, longest
from pricing.aws.types import Catalogue, Spec, quota_family
from pricing.offer import Market, Offer, Pool

CLOUD = "aws"
BOOT = timedelta(minutes=4)
NOTICE = timedelta(minutes=2)
MINIMUM_BILLING = timedelta(seconds=60)
_MONTH_HOURS = 730
# An hour of a GB of gp3 disk by the month; Amazon's list of each partition's first region.
_GP3_MONTHLY = {"USD": Decimal("0.08"), "CNY": Decimal("0.53")}


@dataclass(frozen=True)
class Region:
    """Everything that the offers of one region are made of.

    Prices are in `currency`; `rate` is accounting units for one of it. `spot` is by type and zone, as of `now`; list
    prices are as of `listed_at`. `hazards` is interruptions an hour by type.
    """

    name: str
    now: datetime
    catalogue: Catalogue
    prices: Prices
    listed_at: datetime
    spot: Mapping[tuple[str, str], Decimal]
    owned: Owned
    hazards: Mapping[str, float]
    discounts: Mapping[str, float]
    currency: str
    rate: Decimal
    cuda_max: str

    def offers(self) -> Iterator[Offer]:
        """Yield them all. A type that is priced and sold in no zone is none; neither is spot without a ceiling."""
        for spec, zone in self.catalogue.sold():
            if (spec.type, zone) in self.owned:
                yield self._owned(spec, zone)
            on_demand = self._on_demand(spec, zone)
            if on_demand and "on-demand" in spec.sold_as:
                yield on_demand
            if on_demand and "spot" in spec.sold_as and (spec.type, zone) in self.spot:
                yield self._spot(spec, zone, on_demand.hourly_micro)

    def _on_demand(self, spec: Spec, zone: str) -> Offer | None:
        if spec.type not in self.prices:
            return None
        listed = self._money(discounted(self.prices[spec.type].hourly, spec.type, self.discounts))
        return self._offer(spec, zone, Market.ON_DEMAND, listed, self.listed_at)

    def _spot(self, spec: Spec, zone: str, ceiling: int) -> Offer:
        offer = self._offer(spec, zone, Market.SPOT, self._money(self.spot[spec.type, zone]), self.now)
        return replace(offer, ceiling_micro=ceiling, notice=NOTICE, hazard_per_hour=self.hazards.get(spec.type))

    def _owned(self, spec: Spec, zone: str) -> Offer:
        free, ends = longest(self.owned[spec.type, zone])
        offer = self._offer(spec, zone, Market.RESERVED, Money(0, self.currency), self.now)
        return replace(offer, free=free, ends=ends, native_hourly=f"0 {self.currency}", hazard_per_hour=0.0)

    def _offer(self, spec: Spec, zone: str, market: Market, price: Money, as_of: datetime) -> Offer:
        hourly = round(price.micro * self.rate)
        return Offer(
            pool=Pool(CLOUD, self.name, zone, spec.type, market), gpu=spec.gpu, gpus=spec.gpus,
            gpu_memory=spec.gpu_memory, vcpus=spec.vcpus, memory=spec.memory, hourly_micro=hourly, ceiling_micro=hourly,
            as_of=as_of, family=quota_family(spec.type, market), native_hourly=price.exact(), fx_rate=str(self.rate),
            disk_hourly_micro=self._disk(), minimum_billing=MINIMUM_BILLING, boot=BOOT, cuda_max=self.cuda_max,
        )  # fmt: skip

    def _money(self, price: Decimal) -> Money:
        return Money(round(price * MICRO), self.currency)

    def _disk(self) -> int:
        return round(_GP3_MONTHLY[self.currency] / _MONTH_HOURS * 100 * self.rate * MICRO)
