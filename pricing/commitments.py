"""Capacity that is owned or reserved: what is free of it now, and whether buying more of it would pay."""

from dataclasses import replace
from datetime import datetime

from pricing.offer import Offer


def free_now(owned: Offer, used: int, now: datetime) -> Offer:
    """Return an offer of `owned.free` machines in all with what is free while `used` run; none after its end."""
    ended = owned.ends is not None and owned.ends <= now
    return replace(owned, free=0 if ended else max(0, (owned.free or 0) - used), as_of=now)


def break_even(reserved_hourly_micro: int, on_demand_hourly_micro: int) -> float:
    """Return the share of its hours that reserved capacity must be in use to be cheaper than on demand.

    Above 1 it never is. `on_demand_hourly_micro` is what the same work costs otherwise, on spot with lost work.
    """
    return reserved_hourly_micro / on_demand_hourly_micro
