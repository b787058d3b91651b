"""Prices that can't be right are set aside with a reason, and never win."""

import math
from collections.abc import Mapping, Sequence

from config.reason import Reason
from pricing.offer import Market, Offer


def sift(
    offers: Sequence[Offer], last: Mapping[str, int], jump: float, suspects: Mapping[str, int]
) -> tuple[list[Offer], list[tuple[Offer, Reason]]]:
    """Part the offers that can be believed from those that can't.

    `last` holds the prices believed before, by pool; `suspects` the jumps of the last poll: the same price seen twice is
    believed.
    """
    believed, doubted = [], []
    for offer in offers:
        reason = _doubt(offer, last.get(str(offer.pool)), jump, suspects.get(str(offer.pool)))
        if reason:
            doubted.append((offer, reason))
        else:
            believed.append(offer)
    return believed, doubted


def _doubt(offer: Offer, last: int | None, jump: float, suspect: int | None) -> Reason | None:
    price, market = offer.hourly_micro, offer.pool.market
    values = {"offer": str(offer.pool), "price_hourly_micro": price, "ceiling_hourly_micro": offer.ceiling_micro}
    if not isinstance(price, int) or math.isnan(price) or price < 0:
        return Reason("doubt.not_a_price", {"offer": str(offer.pool), "price": str(price)})
    if price == 0 and market is not Market.RESERVED:
        return Reason("doubt.free", values)
    if market is Market.SPOT and price >= offer.ceiling_micro:
        return Reason("doubt.spot_above_on_demand", values)
    if last and price and max(price / last, last / price) > jump and suspect != price:
        return Reason("doubt.jump", {**values, "last_hourly_micro": last})
    return None
