"""What an account pays less than the list says: the settings' share off, by pattern of machine types."""

from collections.abc import Mapping
from decimal import Decimal
from fnmatch import fnmatchcase


def discounted(price: Decimal, machine_type: str, discounts: Mapping[str, float]) -> Decimal:
    """Return a list price less the share of the most specific pattern (`p5.48xlarge` before `p5.*` before `*`)."""
    fitting = [pattern for pattern in discounts if fnmatchcase(machine_type, pattern)]
    if not fitting:
        return price
    return price * (1 - Decimal(str(discounts[max(fitting, key=_specific)])))


def _specific(pattern: str) -> tuple[int, str]:
    return sum(letter not in "*?" for letter in pattern), pattern
