"""The sandbox cloud's prices and quotas."""

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime

from config.settings import SandboxSettings
from pricing.offer import Market, Offer, Quota
from pricing.sandbox_market import CLOUD, SandboxMarket

InUse = Callable[[str, str, Market], float]  # (region, family, market) -> GPUs running there


class SandboxSource:
    """Offers of the sandbox cloud, read from the model that the cloud itself sells by."""

    name = CLOUD

    def __init__(self, settings: SandboxSettings, in_use: InUse = lambda _region, _family, _market: 0.0) -> None:
        """Open the market; `in_use` says what of a quota is taken, which only the cloud knows."""
        self._market = SandboxMarket(settings)
        self._limit = settings.quota_gpus
        self._in_use = in_use

    def offers(self, now: datetime) -> Iterable[Offer]:
        """Return everything the sandbox sells at `now`, the sold-out with `free=0`."""
        return self._market.offers(now)

    def quotas(self, now: datetime) -> Sequence[Quota]:
        """Return the limit of each family in each region and market, in GPUs."""
        families = {(offer.pool.region, offer.family, offer.pool.market) for offer in self._market.offers(now)}
        return [
            Quota(CLOUD, region, family, market, self._limit, self._in_use(region, family, market))
            for region, family, market in sorted(families)
        ]
