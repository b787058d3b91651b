"""Owned machines: what is free of them, and whether more would pay."""

from dataclasses import replace
from datetime import timedelta

import pytest

from pricing.commitments import break_even, free_now
from pricing.offer import Market
from tests.pricing.offers import NOW, offer

OWNED = offer(market=Market.RESERVED, free=3, ends=NOW + timedelta(hours=5))


@pytest.mark.parametrize(("used", "free"), [(0, 3), (2, 1), (3, 0), (4, 0)])
def test_what_runs_is_not_free(used: int, free: int) -> None:
    assert free_now(OWNED, used, NOW).free == free


def test_after_its_end_nothing_is_free() -> None:
    assert free_now(OWNED, 0, NOW + timedelta(hours=4, minutes=59)).free == 3
    assert free_now(OWNED, 0, NOW + timedelta(hours=5)).free == 0
    assert free_now(replace(OWNED, ends=None), 0, NOW + timedelta(days=999)).free == 3


def test_a_reservation_pays_from_a_share_of_its_hours_on() -> None:
    assert break_even(1_800_000, 3_000_000) == pytest.approx(0.6)
