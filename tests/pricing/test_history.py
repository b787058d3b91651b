"""What is learnt of pools from machines that lived in them."""

import numpy as np
import pytest

from pricing.history import Hazards, Observation, Prior, price_changes
from tests.pricing.offers import USD, offer

HOUR = 3600.0


def lived(hours: float, *, interrupted: bool = True, pool: str = "a") -> Observation:
    return Observation(pool, hours * HOUR, interrupted)


def test_an_unknown_pool_is_what_its_source_says_or_what_is_usual() -> None:
    assert Hazards(()).rate("a") == pytest.approx(1 / 3)
    assert Hazards(()).rate("a", advice=0.05) == pytest.approx(0.05)
    assert Hazards((), Prior(mean_life_h=10)).rate("a") == pytest.approx(0.1)


def test_what_was_seen_outweighs_what_was_assumed() -> None:
    once = Hazards([lived(0.5)])
    assert once.rate("a") == pytest.approx((1 + 2) / (0.5 + 6))
    assert Hazards([lived(0.5)] * 1000).rate("a") == pytest.approx(2, rel=0.01)
    assert once.rate("b") == pytest.approx(1 / 3)


def test_machines_that_were_given_back_speak_for_their_pool() -> None:
    assert Hazards([lived(100, interrupted=False)]).rate("a") == pytest.approx(2 / 106)


def test_a_source_that_says_never_is_believed_until_something_happens() -> None:
    assert Hazards(()).rate("a", advice=0.0) == 0
    assert Hazards([lived(1.0)] * 50).rate("a", advice=0.0) == pytest.approx(50 / 1050)
    assert Hazards([lived(1.0)] * 50).rate("a", advice=2e-5) == pytest.approx(50 / 1050, rel=0.01)


def test_ages_are_learnt_apart() -> None:
    """Half of the machines go in their first ten minutes, the rest stays for ten hours."""
    seen = Hazards([lived(1 / 6), lived(10)] * 1000)
    fresh, young, old = (seen.rate_at("a", age) for age in (0.1, 0.5, 5))
    assert fresh == pytest.approx(1 / (1 / 6 + 1 / 3), rel=0.1)
    assert young < 0.02
    assert old == pytest.approx(1 / 9, rel=0.1)


def test_an_age_of_which_nothing_is_known_is_like_its_pool() -> None:
    seen = Hazards([lived(0.2)] * 100)
    assert seen.rate_at("a", 5) == pytest.approx(seen.rate("a"))
    assert seen.rate_at("b", 0.1, advice=0.7) == pytest.approx(0.7)


@pytest.mark.parametrize("age_h", [1 / 3, 1.0])
def test_the_end_of_a_class_belongs_to_it(age_h: float) -> None:
    seen = Hazards([lived(age_h)] * 100)
    assert seen.rate_at("a", age_h) > 1
    assert seen.rate_at("a", age_h + 0.01) == pytest.approx(seen.rate("a"))


def test_many_pools_at_once_are_the_same_as_one_by_one() -> None:
    seen = Hazards([lived(0.5), lived(7, interrupted=False, pool="b"), lived(1, pool="gone")])
    rates = seen.rates({"a": 0, "b": 1, "c": 2, "d": 3}, np.array([np.nan, 0.1, np.nan, 0.0]))
    alone = [seen.rate("a"), seen.rate("b", 0.1), seen.rate("c"), seen.rate("d", 0.0)]
    assert list(rates) == pytest.approx(alone)


def test_a_clock_that_jumped_back_does_no_harm() -> None:
    assert Hazards([Observation("a", -5.0, interrupted=False)]).rate("a") == pytest.approx(1 / 3)


def test_only_changes_are_kept() -> None:
    same, dearer, new = (offer(hourly_micro=USD, type=name) for name in ("same", "dearer", "new"))
    last = {str(same.pool): USD, str(dearer.pool): USD - 1, "gone": 5}
    assert price_changes(last, [same, dearer, new]) == [(str(dearer.pool), USD), (str(new.pool), USD)]
