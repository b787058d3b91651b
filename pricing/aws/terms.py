"""What reserving would cost: each reserved term of the price list as an offering."""

from collections.abc import Mapping
from decimal import Decimal

from config.units import MICRO
from pricing.aws.list_prices import Prices
from pricing.aws.overlay import discounted
from pricing.commitments import ReservedOffering


def offerings(prices: Prices, region: str, rate: Decimal, discounts: Mapping[str, float]) -> list[ReservedOffering]:
    """Return the offerings of every type; `rate` is accounting units for one unit of the list's currency."""

    def micro(amount: Decimal, machine_type: str) -> int:
        return round(discounted(amount, machine_type, discounts) * rate * MICRO)

    return [
        ReservedOffering(
            type=name,
            region=region,
            term_hours=term.hours,
            payment=term.payment,
            offering_class=term.offering_class,
            effective_hourly_micro=micro(term.effective_hourly, name),
            upfront_micro=micro(term.upfront, name),
        )
        for name, listed in sorted(prices.items())
        for term in listed.terms
    ]
