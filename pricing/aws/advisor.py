"""The Spot Instance Advisor's public file: how often machines of a type were taken away last month, in five bands."""

import json
import math
from collections.abc import Mapping

from pricing.offer import SourceError

URL = "https://spot-bid-advisor.s3.amazonaws.com/spot-advisor-data.json"
_MONTH_HOURS = 730.0


def hazards(data: bytes, region: str) -> dict[str, float]:
    """Return interruptions an hour by machine type, as a prior only. Raises SourceError.

    A band says which share p of the month's machines was interrupted. Its middle stands for it, and a constant rate that
    takes p of them within a month is -ln(1 - p) / 730. The bands are ordinal: two types of one band may differ by much.
    """
    try:
        says = json.loads(data)
        middles = _middles(says["ranges"])
        types = says["spot_advisor"].get(region, {}).get("Linux", {})
        return {name: rate(middles[one["r"]]) for name, one in types.items() if one["r"] in middles}
    except (ValueError, KeyError, TypeError) as error:
        raise SourceError(
            f"the Spot Advisor's file can't be read ({error!r}): what frugald has seen itself is used; or set "
            "`clouds.aws.advisor = false`"
        ) from error


def rate(share: float) -> float:
    """Return the constant rate an hour that takes this share of machines in a month."""
    return -math.log1p(-share) / _MONTH_HOURS


def _middles(ranges: list[Mapping[str, float]]) -> dict[int, float]:
    """Return the middle of each band as a share, by its index; a band begins where the one before it ends."""
    found, lower = {}, 0.0
    for band in sorted(ranges, key=lambda band: band["index"]):
        found[int(band["index"])] = (lower + float(band["max"])) / 200
        lower = float(band["max"])
    return found
