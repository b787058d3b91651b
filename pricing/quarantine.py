"""Prices that can't be right are set aside with a reason, and never win."""

from collections.abc import Callable, Mapping, Sequence

from config.reason import Reason
from pricing.offer import Market, Offer

_MOST = 2**53  # micro-units an hour, nine billions
_SAME = 1.1
"""A jump is believed when the next poll shows it again, give or take this factor: spot prices keep moving."""


def sift(
    offers: Sequence[Offer], last: Mapping[str, int], jump: float, suspects: Mapping[str, int], currency: str = "USD"
) -> tuple[list[Offer], list[tuple[Offer, Reason]]]:
    """Part the offers that can be believed from those that can't, which come with the reason.

    `last` holds the price last believed of each pool, however many polls ago; `suspects` the price of each pool that
    the poll before this one set aside. A price `jump` times above or below the last one has to be seen twice.
    """
    believed: list[Offer] = []
    doubted: list[tuple[Offer, Reason]] = []
    for offer in offers:
        pool = str(offer.pool)
        reason = _impossible(offer, currency) or _jumped(offer, last.get(pool), jump, suspects.get(pool))
        if reason:
            doubted.append((offer, reason))
        else:
            believed.append(offer)
    return believed, doubted


def _impossible(offer: Offer, currency: str) -> Reason | None:
    """Say why a price can't be right whatever it was before."""
    return next((_because(code, offer) for code, found in _CHECKS if found(offer)), None) or _foreign(offer, currency)


def _not_a_price(offer: Offer) -> bool:
    """Say whether a figure is missing, not a number, not a whole one, negative, or too large to be counted."""
    return any(type(micro) is not int or not 0 <= micro < _MOST for micro in (offer.hourly_micro, offer.ceiling_micro))


def _free_of_charge(offer: Offer) -> bool:
    """Say whether what nobody owns costs nothing: capacity that is only sold in blocks is listed like that."""
    return offer.hourly_micro == 0 and offer.pool.market is not Market.RESERVED


def _no_saving(offer: Offer) -> bool:
    return offer.pool.market is Market.SPOT and offer.hourly_micro >= offer.ceiling_micro


def _above_ceiling(offer: Offer) -> bool:
    """Say whether it costs more than the most it can cost: what is set aside for it would be too little."""
    return offer.hourly_micro > offer.ceiling_micro


_CHECKS: tuple[tuple[str, Callable[[Offer], bool]], ...] = (
    ("doubt.not_a_price", _not_a_price),
    ("doubt.free", _free_of_charge),
    ("doubt.spot_above_on_demand", _no_saving),
    ("doubt.above_ceiling", _above_ceiling),
)


def _because(code: str, offer: Offer) -> Reason:
    if code == "doubt.not_a_price":  # it can't be printed as money
        return Reason(code, {"offer": str(offer.pool), "price": str(offer.hourly_micro)})
    return Reason(code, {
        "offer": str(offer.pool), "price_hourly_micro": offer.hourly_micro, "ceiling_hourly_micro": offer.ceiling_micro,
    })  # fmt: skip


def _foreign(offer: Offer, currency: str) -> Reason | None:
    """Say whether a price in another currency was taken over without a rate; what is owned has no price to convert."""
    named = offer.native_hourly[-3:]
    if named in {"", currency} or offer.fx_rate != "1" or offer.pool.market is Market.RESERVED:
        return None
    return Reason("doubt.currency", {"offer": str(offer.pool), "native": offer.native_hourly, "currency": currency})


def _jumped(offer: Offer, last: int | None, jump: float, suspect: int | None) -> Reason | None:
    price = offer.hourly_micro
    if _within(last, price, jump) or (suspect is not None and _within(suspect, price, _SAME)):
        return None
    return Reason("doubt.jump", {"offer": str(offer.pool), "last_hourly_micro": last, "price_hourly_micro": price})


def _within(one: int | None, other: int, factor: float) -> bool:
    """Say whether two prices differ by at most a factor; nothing can be said of a price of zero or none."""
    return not one or not other or max(one, other) <= factor * min(one, other)
