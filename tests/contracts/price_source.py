"""What every price source must do: one suite, run against each of them."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest

from config import gpus
from config.units import Money
from pricing.book import PriceBook
from pricing.need import Need
from pricing.offer import Market, Offer, PriceSource, SourceError
from pricing.quarantine import sift

NOW = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)
STALE_AFTER = timedelta(minutes=15)


@dataclass
class Prices:
    """One source, and what a test may do to it."""

    source: PriceSource
    now: datetime = NOW
    currency: str = "USD"
    break_down: Callable[[], None] | None = None  # make it fail from now on; None where it can't
    mend: Callable[[], object] = lambda: None

    def offers(self) -> list[Offer]:
        found = list(self.source.offers(self.now))
        assert found, "the contract needs a source that offers something"
        return found


class PriceSourceContract:
    """Subclass it and give it a fixture `prices`."""

    def test_it_has_a_name(self, prices: Prices) -> None:
        assert prices.source.name

    def test_each_pool_is_offered_once(self, prices: Prices) -> None:
        pools = [offer.pool for offer in prices.offers()]
        assert len(set(pools)) == len(set(map(str, pools))) == len(pools)
        assert all(all((pool.cloud, pool.region, pool.zone, pool.type)) for pool in pools)

    def test_times_are_aware_and_not_in_the_future(self, prices: Prices) -> None:
        for offer in prices.offers():
            assert offer.as_of.utcoffset() == timedelta(0)
            assert offer.as_of <= prices.now
            assert offer.ends is None or offer.ends.utcoffset() == timedelta(0)
            assert min(offer.boot, offer.notice, offer.minimum_billing) >= timedelta(0)

    def test_its_prices_are_fresh_when_it_has_just_been_asked(self, prices: Prices) -> None:
        assert max(offer.as_of for offer in prices.offers()) >= prices.now - STALE_AFTER

    def test_its_prices_can_be_believed(self, prices: Prices) -> None:
        believed, doubted = sift(prices.offers(), {}, 5.0, {}, prices.currency)
        assert [str(reason) for _, reason in doubted] == []
        assert len(believed) == len(prices.offers())

    def test_the_native_figure_is_the_price(self, prices: Prices) -> None:
        for offer in prices.offers():
            native = Money.parse(offer.native_hourly, prices.currency)
            assert native.currency == prices.currency or offer.fx_rate != "1"
            if offer.pool.market is not Market.RESERVED:
                assert round(native.micro * Decimal(offer.fx_rate)) == offer.hourly_micro

    def test_gpus_are_whole_or_one_part_with_the_memory_that_programs_get(self, prices: Prices) -> None:
        for offer in prices.offers():
            assert (offer.gpus > 0) == (offer.gpu_memory > 0) == bool(offer.gpu)
            assert offer.gpus < 1 or float(offer.gpus).is_integer()
            assert offer.vcpus >= 1
            assert offer.memory > 0
            if offer.gpu:
                whole = gpus.find(offer.gpu)
                assert offer.gpu == whole.key
                assert offer.gpu_memory <= whole.usable

    def test_owned_machines_are_counted(self, prices: Prices) -> None:
        for offer in prices.offers():
            assert offer.free is None or offer.free >= 0
            assert offer.pool.market is not Market.RESERVED or offer.free is not None

    def test_asked_again_at_the_same_moment_it_says_the_same(self, prices: Prices) -> None:
        assert list(prices.source.offers(prices.now)) == list(prices.source.offers(prices.now))

    def test_time_goes_on(self, prices: Prices) -> None:
        pools = {offer.pool for offer in prices.offers()}
        later = list(prices.source.offers(prices.now + timedelta(minutes=1)))
        assert {offer.pool for offer in later} == pools

    def test_quotas_are_of_families_that_it_offers(self, prices: Prices) -> None:
        families = {(o.pool.cloud, o.pool.region, o.family, o.pool.market) for o in prices.offers()}
        for quota in prices.source.quotas(prices.now):
            assert (quota.cloud, quota.region, quota.family, quota.market) in families
            assert quota.unit in {"gpus", "vcpus"}
            assert quota.used >= 0
            assert quota.limit >= 0

    def test_the_book_takes_what_it_says(self, prices: Prices) -> None:
        book = PriceBook(prices.offers())
        quotas = list(prices.source.quotas(prices.now))
        selection = book.select(
            Need(gpus=0), prices.now, closed={}, stale_after=STALE_AFTER, quotas=quotas, checkpointed=True
        )
        assert selection.indices.size


class FailingSourceContract(PriceSourceContract):
    """For sources that something may happen to."""

    def test_out_of_order_it_says_why_and_then_comes_back(self, prices: Prices) -> None:
        assert prices.break_down is not None
        before = prices.offers()
        prices.break_down()
        with pytest.raises(SourceError, match=r"\w+ \w+"):
            list(prices.source.offers(prices.now))
        prices.mend()
        assert prices.offers() == before
