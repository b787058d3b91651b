"""The sandbox's market: the same for everyone who knows the seed, and shaped like real ones."""

import subprocess
import sys
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from statistics import mean

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from config.settings import SandboxSettings
from pricing.offer import Market, Offer
from pricing.sandbox_market import SandboxMarket
from pricing.sources.sandbox import SandboxSource

NOW = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)
SETTINGS = SandboxSettings()
MARKET = SandboxMarket(SETTINGS)
SPOT = [offer.pool for offer in MARKET.offers(NOW) if offer.pool.market is Market.SPOT]
moments = st.datetimes(datetime(2020, 1, 1), datetime(2040, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001
pools = st.sampled_from(SPOT)


def price(pool_index: int, hours: float) -> int:
    offer = MARKET.offer(SPOT[pool_index], NOW + timedelta(hours=hours))
    assert offer is not None
    return offer.hourly_micro


def test_it_is_as_wide_as_a_cloud() -> None:
    offers = MARKET.offers(NOW)
    zones = {(offer.pool.region, offer.pool.zone) for offer in offers}
    assert len({region for region, _ in zones}) >= 3
    assert all(sum(region == other for other, _ in zones) >= 3 for region, _ in zones)
    assert len({offer.gpu for offer in offers}) >= 8
    assert len({offer.gpu_memory for offer in offers}) >= 6
    assert {offer.gpus for offer in offers} == {1, 8}


def test_another_process_sees_the_same_market() -> None:
    code = (
        "from datetime import UTC, datetime; from config.settings import SandboxSettings as S\n"
        "from pricing.sandbox_market import SandboxMarket as M\n"
        "print(repr(M(S()).offers(datetime(2026, 3, 2, 9, tzinfo=UTC))))"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert told.strip() == repr(MARKET.offers(NOW))


def test_another_seed_is_another_market() -> None:
    other = SandboxMarket(SandboxSettings(seed=2)).offers(NOW)
    assert [offer.hourly_micro for offer in other] != [offer.hourly_micro for offer in MARKET.offers(NOW)]


@given(moments, st.integers(0, 5))
@settings(max_examples=40, deadline=None)
def test_spot_is_30_to_90_percent_below_on_demand(now: datetime, seed: int) -> None:
    for offer in SandboxMarket(SandboxSettings(seed=seed)).offers(now):
        if offer.pool.market is Market.SPOT:
            assert 0.1 <= offer.hourly_micro / offer.ceiling_micro <= 0.7
        else:
            assert offer.hourly_micro == offer.ceiling_micro


@given(moments, pools)
@settings(max_examples=100, deadline=None)
def test_prices_move_slowly(now: datetime, pool: object) -> None:
    path = [hourly(pool, now + timedelta(hours=hour)) for hour in range(168)]
    assert all(abs(later / earlier - 1) < 0.01 for earlier, later in pairwise(path))
    assert max(path) / min(path) < 1.15


def hourly(pool: object, now: datetime) -> int:
    offer: Offer | None = MARKET.offer(pool, now)  # type: ignore[arg-type]
    assert offer is not None
    return offer.hourly_micro


def test_prices_do_move() -> None:
    assert len({price(0, hour) for hour in range(168)}) > 20
    assert price(0, 0.0) == price(0, 0.99)


def free(market: SandboxMarket, pool: object, minutes: int) -> int:
    offer: Offer | None = market.offer(pool, NOW + timedelta(minutes=minutes))  # type: ignore[arg-type]
    assert offer is not None
    assert offer.free is not None
    return offer.free


@pytest.mark.parametrize("share", [0.0, 0.1, 0.4, 0.8, 1.0])
def test_the_share_without_stock_is_as_set(share: float) -> None:
    market = SandboxMarket(SandboxSettings(sold_out_share=share))
    empty = [free(market, pool, 97 * step) == 0 for pool in SPOT for step in range(60)]
    assert mean(empty) == pytest.approx(share, abs=0.03)


def test_stock_jumps_between_nothing_and_everything_within_hours() -> None:
    counts = [[free(MARKET, pool, 10 * step) for step in range(6 * 48)] for pool in SPOT]
    assert all(len(set(path) - {0}) == 1 for path in counts)
    jumps = [sum((a == 0) != (b == 0) for a, b in pairwise(path)) for path in counts]
    assert 1 < mean(jumps) < 24


def test_on_demand_is_always_there() -> None:
    everywhere = [offer for hour in range(100) for offer in MARKET.offers(NOW + timedelta(hours=hour))]
    assert all(offer.free is None for offer in everywhere if offer.pool.market is Market.ON_DEMAND)


def test_hazards_fall_with_age() -> None:
    ages = [timedelta(minutes=5), timedelta(minutes=40), timedelta(hours=3)]
    fresh, young, old = (MARKET.hazard(SPOT[0], age) for age in ages)
    assert fresh > young > old > 0


def test_lifetimes_follow_the_hazards() -> None:
    pool = SPOT[0]
    lives = [life for token in range(4000) if (life := MARKET.lifetime(pool, str(token)))]
    for start, end in ((0, 20), (20, 60), (60, 120)):
        at_risk = sum(life > timedelta(minutes=start) for life in lives)
        died = sum(timedelta(minutes=start) < life <= timedelta(minutes=end) for life in lives)
        hours = sum((min(life, timedelta(minutes=end)) - timedelta(minutes=start)).total_seconds() / 3600
                    for life in lives if life > timedelta(minutes=start))  # fmt: skip
        assert at_risk > 100
        assert died / hours == pytest.approx(MARKET.hazard(pool, timedelta(minutes=(start + end) / 2)), rel=0.15)


def test_the_mean_hazard_over_pools_is_the_setting() -> None:
    hazards = [offer.hazard_per_hour or 0 for offer in MARKET.offers(NOW) if offer.pool.market is Market.SPOT]
    assert mean(hazards) == pytest.approx(SETTINGS.hazard_per_hour, rel=0.15)
    assert max(hazards) / min(hazards) > 4


def test_what_is_not_spot_lives_for_ever() -> None:
    [on_demand, *_] = [offer.pool for offer in MARKET.offers(NOW) if offer.pool.market is Market.ON_DEMAND]
    assert MARKET.lifetime(on_demand, "token") is None
    assert MARKET.lifetime(SPOT[0], "token") == MARKET.lifetime(SPOT[0], "token")


@given(moments, pools, st.floats(0.93, 1.07))
@settings(max_examples=60, deadline=None)
def test_a_price_limit_is_passed_when_the_price_says_so(now: datetime, pool: object, share: float) -> None:
    bid = int(hourly(pool, now) * share)
    passed = MARKET.passes_bid(pool, bid, now)  # type: ignore[arg-type]
    if passed is None:
        assert all(hourly(pool, now + timedelta(hours=hour)) <= bid for hour in range(0, 1000, 7))
        return
    assert passed >= now
    assert hourly(pool, passed) > bid
    assert passed == now or hourly(pool, passed - timedelta(seconds=1)) <= bid


def test_the_source_shows_offers_and_what_is_used_of_each_quota() -> None:
    source = SandboxSource(SETTINGS, lambda region, family, market: 3.0 if (region, family, market) == taken else 0.0)
    taken = ("us-east", "g1", Market.SPOT)
    assert list(source.offers(NOW)) == MARKET.offers(NOW)
    used = {(quota.region, quota.family, quota.market): quota.used for quota in source.quotas(NOW)}
    assert used[taken] == 3.0
    assert sum(used.values()) == 3.0
    assert {(offer.pool.region, offer.family, offer.pool.market) for offer in MARKET.offers(NOW)} == set(used)
