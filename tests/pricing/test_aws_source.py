"""AWS's price source, over the wire against the stand-in's catalogue."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from config.aws_settings import AwsSettings
from config.units import MICRO
from pricing.aws import advisor, list_prices, owned
from pricing.aws.clients import Clients
from pricing.commitments import Usage, advice
from pricing.offer import Market, Offer, SourceError
from pricing.sources.aws import AwsSource, sources
from tests.clouds import aws_list
from tests.clouds.aws_prices import Catalogue
from tests.clouds.aws_sold import zone_id
from tests.contracts.price_source import NOW, FailingSourceContract, Prices, PriceSourceContract
from tests.pricing.aws_site import Port, Site, open_port

DAY = timedelta(days=1)
BULK = list_prices.bulk_url("aws", "us-east-1")
ADVICE = {
    "ranges": [{"index": n, "label": "", "dots": 0, "max": most} for n, most in enumerate((5, 11, 16, 22, 100))],
    "spot_advisor": {"us-east-1": {"Linux": {"g5.xlarge": {"s": 59, "r": 4}, "p4d.24xlarge": {"s": 67, "r": 0}}}},
}


@pytest.fixture(scope="module")
def port() -> Iterator[Port]:
    with pytest.MonkeyPatch.context() as patch, open_port() as port:
        patch.setenv("AWS_ENDPOINT_URL", port.url)
        patch.setenv("AWS_ACCESS_KEY_ID", "key")
        patch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
        patch.delenv("AWS_PROFILE", raising=False)
        yield port


@pytest.fixture(scope="module")
def clients(port: Port) -> Clients:
    return Clients(AwsSettings())


@pytest.fixture
def site(port: Port) -> Site:
    port.site = Site(Catalogue(), NOW, public={advisor.URL: json.dumps(ADVICE).encode()})
    return port.site


@dataclass
class Shop:
    """Makes sources of the stand-in's account."""

    site: Site
    clients: Clients
    cache: Path

    def sources(
        self, currency: str = "USD", rates: Mapping[str, float] | None = None, **settings: Any
    ) -> list[AwsSource]:
        return sources(AwsSettings(**settings), self.clients, self.cache, currency, rates or {}, self.site.fetch)

    def source(self, **settings: Any) -> AwsSource:
        return self.sources(**settings)[0]


@pytest.fixture
def shop(site: Site, clients: Clients, tmp_path: Path) -> Shop:
    return Shop(site, clients, tmp_path / "cache")


def offers(source: AwsSource, now: datetime = NOW) -> dict[str, Offer]:
    return {str(offer.pool).removeprefix("aws/us-"): offer for offer in source.offers(now)}


def reserved(source: AwsSource, now: datetime = NOW) -> dict[str, tuple[int | None, datetime | None]]:
    """Return what is free of each owned pool and until when."""
    owned_pools = {name: offer for name, offer in offers(source, now).items() if name.endswith("reserved")}
    assert all(offer.hourly_micro == 0 for offer in owned_pools.values())
    return {name.removesuffix("/reserved"): (offer.free, offer.ends) for name, offer in owned_pools.items()}


class TestOneRegion(FailingSourceContract):
    @pytest.fixture
    def prices(self, shop: Shop) -> Prices:
        catalogue = shop.site.catalogue
        return Prices(
            shop.source(),
            break_down=lambda: catalogue.fail("DescribeSpotPriceHistory", "UnauthorizedOperation", 403),
            mend=lambda: catalogue.mend("DescribeSpotPriceHistory"),
        )


class TestEverythingOwnedInEuros(PriceSourceContract):
    @pytest.fixture
    def prices(self, shop: Shop) -> Prices:
        catalogue = shop.site.catalogue
        catalogue.own_reserved("g5.xlarge", 3, NOW - DAY, NOW + 90 * DAY)
        catalogue.own_reservation("g6.xlarge", "us-east-1b", 4, 2)
        catalogue.own_block("p5.48xlarge", "us-east-1b", 2, 2, NOW + 3 * DAY)
        catalogue.own_savings_plan("2.5", NOW + 100 * DAY)
        shop.site.run("g6e.xlarge", "us-east-1a", InstanceLifecycle="spot")
        (source,) = shop.sources("EUR", {"USD": 0.85}, discounts={"g*": 0.1})
        return Prices(source, currency="EUR")


# ---------------------------------------------------------------- prices and machines


def test_a_machine_costs_what_the_list_says_and_spot_what_is_in_force(shop: Shop) -> None:
    found = offers(shop.source())
    listed, spot = found["east-1a/g5.xlarge/on-demand"], found["east-1a/g5.xlarge/spot"]
    assert (listed.hourly_micro, listed.ceiling_micro, listed.native_hourly) == (1_006_000, 1_006_000, "1.006000 USD")
    in_force = shop.site.catalogue.price("g5.xlarge", Market.SPOT, "us-east-1a", NOW)
    assert (spot.hourly_micro, spot.ceiling_micro) == (in_force * MICRO, 1_006_000)
    assert (spot.notice, listed.notice) == (timedelta(minutes=2), timedelta(0))
    assert (spot.minimum_billing, spot.boot, spot.cuda_max) == (timedelta(minutes=1), timedelta(minutes=4), "13.0")
    assert spot.disk_hourly_micro == 10_959


def test_the_price_list_is_asked_with_every_filter_and_all_its_pages(shop: Shop) -> None:
    shop.site.catalogue.page_size = 7
    found = offers(shop.source())
    assert found["east-1b/p5.48xlarge/on-demand"].hourly_micro == 55_040_000
    assert found["east-1b/g4dn.metal/on-demand"].hourly_micro == 7_824_000
    assert shop.site.catalogue.asked.count("GetProducts") > 2


def test_a_type_that_is_priced_but_sold_nowhere_is_no_offer(shop: Shop) -> None:
    names = offers(shop.source())
    assert not [name for name in names if "/p3.2xlarge/" in name]
    assert [name for name in names if "/p5.48xlarge/" in name] == [
        "east-1b/p5.48xlarge/on-demand",
        "east-1b/p5.48xlarge/spot",
    ]


def test_machines_are_what_they_are(shop: Shop) -> None:
    found = offers(shop.source())
    part, whole = found["east-1a/g6f.xlarge/on-demand"], found["east-1b/p5.48xlarge/on-demand"]
    assert (part.gpu, part.gpus, part.vcpus) == ("L4", 0.125, 4)
    assert part.gpu_memory < 22553 * 2**20 / 8
    assert (whole.gpu, whole.gpus, whole.vcpus, whole.memory) == ("H100-80", 8, 192, 2 * 2**40)
    assert not [name for name in found if "/g5g." in name]  # arm64


@pytest.mark.parametrize(
    ("name", "on_demand", "spot"),
    [("p5.48xlarge", "P", "P5"), ("p6-b200.48xlarge", "P", "P6"), ("g4dn.metal", "G", "G")],
)
def test_families_are_those_of_the_quotas(shop: Shop, name: str, on_demand: str, spot: str) -> None:
    found = offers(shop.source())
    assert found[f"east-1b/{name}/on-demand"].family == on_demand
    assert found[f"east-1b/{name}/spot"].family == spot


def test_the_accounts_own_discount_holds_for_the_list_and_not_for_spot(shop: Shop) -> None:
    found = offers(shop.source(discounts={"g5.*": 0.25}))
    assert found["east-1a/g5.xlarge/on-demand"].hourly_micro == 754_500
    assert found["east-1a/g5.xlarge/spot"].ceiling_micro == 754_500
    in_force = shop.site.catalogue.price("g5.xlarge", Market.SPOT, "us-east-1a", NOW)
    assert found["east-1a/g5.xlarge/spot"].hourly_micro == in_force * MICRO


def test_interruption_rates_are_those_of_the_bands(shop: Shop) -> None:
    found = offers(shop.source())
    assert found["east-1a/g5.xlarge/spot"].hazard_per_hour == advisor.rate(0.61)
    assert found["east-1a/p4d.24xlarge/spot"].hazard_per_hour == advisor.rate(0.025)
    assert found["east-1a/g6.xlarge/spot"].hazard_per_hour is None
    assert offers(shop.source(advisor=False))["east-1a/g5.xlarge/spot"].hazard_per_hour is None


def test_without_the_advisors_file_there_are_prices_and_a_note(shop: Shop) -> None:
    shop.site.public.clear()
    source = shop.source()
    assert offers(source)["east-1a/g5.xlarge/spot"].hazard_per_hour is None
    assert "didn't come" in source.notes["interruption rates"]
    offers(source, NOW + timedelta(minutes=1))
    assert len(shop.site.fetched) == 1


# ---------------------------------------------------------------- spot prices


def test_a_spot_price_is_the_last_change_before_now(shop: Shop) -> None:
    shop.site.catalogue.spot(
        "g5.xlarge", "us-east-1a", [(NOW - DAY, "0.4"), (NOW - timedelta(seconds=1), "0.45"), (NOW + DAY, "0.9")]
    )
    shop.site.catalogue.page_size = 5
    assert offers(shop.source())["east-1a/g5.xlarge/spot"].hourly_micro == 450_000


def test_the_history_is_a_step_function_with_a_mean_weighted_by_time(shop: Shop) -> None:
    source = shop.source()
    pool = offers(source)["east-1a/g5.xlarge/spot"].pool
    hour = timedelta(hours=1)
    shop.site.catalogue.spot("g5.xlarge", "us-east-1a", [(NOW - 10 * hour, "0.4"), (NOW - hour, "0.8")])
    history = source.history(pool, NOW - 4 * hour, NOW)
    assert [(step.at, step.price) for step in history.steps] == [
        (NOW - 4 * hour, Decimal("0.4")),
        (NOW - hour, Decimal("0.8")),
    ]
    assert history.mean == Decimal("0.5")
    assert source.history(pool, NOW, NOW).mean is None


# ---------------------------------------------------------------- the list on disk and the bulk file


def test_the_list_is_read_every_twelve_hours_and_survives_a_restart(shop: Shop) -> None:
    asked = shop.site.catalogue.asked
    offers(shop.source())
    times = asked.count("GetProducts")
    again = shop.source()
    assert offers(again, NOW + timedelta(hours=11))["east-1a/g5.xlarge/on-demand"].as_of == NOW + timedelta(hours=11)
    assert asked.count("GetProducts") == times
    offers(again, NOW + timedelta(hours=12))
    assert asked.count("GetProducts") == 2 * times


def test_a_list_that_nobody_confirms_grows_old_and_says_why(shop: Shop) -> None:
    source = shop.source()
    offers(source)
    shop.site.catalogue.fail("GetProducts", "InvalidParameterException")
    later = NOW + timedelta(hours=25)
    found = offers(source, later)
    assert found["east-1a/g5.xlarge/on-demand"].as_of == NOW
    assert found["east-1a/g5.xlarge/spot"].as_of == later
    assert "list prices in us-east-1" in source.notes["list prices"]


@pytest.mark.parametrize("content", [b"", b"{}", b'{"form": 1, "currency": "USD", "at": "never", "types": {}}'])
def test_a_list_on_disk_that_cannot_be_read_is_asked_for_again(shop: Shop, content: bytes) -> None:
    shop.cache.mkdir()
    (shop.cache / "aws-us-east-1.json").write_bytes(content)
    assert offers(shop.source())["east-1a/g5.xlarge/on-demand"].hourly_micro == 1_006_000


def test_without_permission_for_the_list_the_bulk_file_says_the_same(shop: Shop) -> None:
    before = offers(shop.source())
    (shop.cache / "aws-us-east-1.json").unlink()
    shop.site.catalogue.fail("GetProducts", "AccessDeniedException")
    shop.site.public[BULK] = aws_list.bulk(shop.site.catalogue, "us-east-1")
    without = shop.source()
    assert offers(without) == before
    assert without.reserved_offerings(NOW) == shop.source().reserved_offerings(NOW)
    assert shop.site.fetched.count(BULK) == 1


def test_without_either_both_reasons_are_told(shop: Shop) -> None:
    shop.site.catalogue.fail("GetProducts", "AccessDeniedException")
    with pytest.raises(SourceError, match=r"`pricing:GetProducts`; and the price file didn't come"):
        shop.source().offers(NOW)


# ---------------------------------------------------------------- owned capacity


def test_regional_reserved_instances_are_free_in_every_zone_less_what_runs_anywhere(shop: Shop) -> None:
    shop.site.catalogue.own_reserved("g5.xlarge", 3, NOW - DAY, NOW + 90 * DAY)
    shop.site.run("g5.xlarge", "us-east-1a")
    shop.site.run("g5.xlarge", "us-east-1b", InstanceLifecycle="spot")
    shop.site.run("g5.xlarge", "us-east-1b", PlatformDetails="Windows")
    shop.site.run("g5.xlarge", "us-east-1b", Placement={"AvailabilityZone": "us-east-1b", "Tenancy": "dedicated"})
    shop.site.run("g5.12xlarge", "us-east-1a")
    ends = NOW + 90 * DAY
    assert reserved(shop.source()) == {f"east-1{zone}/g5.xlarge": (2, ends) for zone in "abc"}


def test_zonal_reserved_instances_are_used_first_in_their_zone(shop: Shop) -> None:
    catalogue = shop.site.catalogue
    catalogue.own_reserved("g5.xlarge", 2, NOW - DAY, NOW + 90 * DAY, zone="us-east-1a")
    catalogue.own_reserved("g5.xlarge", 5, NOW - DAY, NOW + 90 * DAY)
    for _ in range(3):
        shop.site.run("g5.xlarge", "us-east-1a")
    found = reserved(shop.source())
    assert {name: free for name, (free, _) in found.items()} == {f"east-1{zone}/g5.xlarge": 4 for zone in "abc"}


def test_reserved_instances_count_only_while_they_are_in_force(shop: Shop) -> None:
    catalogue = shop.site.catalogue
    catalogue.own_reserved("g5.xlarge", 1, NOW - 2 * DAY, NOW)
    catalogue.own_reserved("g5.xlarge", 1, NOW + DAY, NOW + 2 * DAY)
    catalogue.own_reserved("g5.xlarge", 1, NOW - DAY, NOW + DAY, State="retired")
    catalogue.own_reserved("g5.xlarge", 1, NOW - DAY, NOW + DAY, ProductDescription="Windows")
    assert reserved(shop.source()) == {}


def test_a_reservation_has_what_it_says_is_available_and_an_end_if_it_ends(shop: Shop) -> None:
    catalogue = shop.site.catalogue
    catalogue.own_reservation("g6.xlarge", "us-east-1b", 4, 2)
    catalogue.own_reservation("g6e.xlarge", "us-east-1a", 4, 0, NOW + DAY, InstanceMatchCriteria="targeted")
    catalogue.own_reservation("g5.xlarge", "us-east-1a", 4, 4, State="cancelled")
    catalogue.own_reservation("g5.xlarge", "us-east-1a", 4, 4, InstancePlatform="Windows")
    assert reserved(shop.source()) == {"east-1b/g6.xlarge": (2, None), "east-1a/g6e.xlarge": (0, NOW + DAY)}


def test_a_block_is_left_before_its_machines_die(shop: Shop) -> None:
    shop.site.catalogue.own_block("p5.48xlarge", "us-east-1b", 2, 1, NOW + DAY)
    last = NOW + DAY - timedelta(minutes=45)
    source = shop.source()
    assert reserved(source) == {"east-1b/p5.48xlarge": (1, last)}
    shop.site.now = last
    assert reserved(source, last) == {}


def test_what_never_ends_is_offered_before_what_does(shop: Shop) -> None:
    catalogue = shop.site.catalogue
    catalogue.own_reservation("p5.48xlarge", "us-east-1b", 3, 2)
    catalogue.own_reservation("p5.48xlarge", "us-east-1b", 1, 1)
    catalogue.own_block("p5.48xlarge", "us-east-1b", 8, 8, NOW + DAY)
    source = shop.source()
    assert reserved(source) == {"east-1b/p5.48xlarge": (3, None)}
    for one in catalogue.reservations.values():
        if one["ReservationType"] == "default":
            one["AvailableInstanceCount"] = 0
    assert reserved(source) == {"east-1b/p5.48xlarge": (8, NOW + DAY - timedelta(minutes=45))}


def test_a_launch_finds_the_reservation_that_lasts_as_long_as_the_offer_said(shop: Shop) -> None:
    catalogue = shop.site.catalogue
    block = catalogue.own_block("p5.48xlarge", "us-east-1b", 8, 8, NOW + DAY)
    endless = catalogue.own_reservation("p5.48xlarge", "us-east-1b", 3, 2)
    catalogue.own_reservation("p5.48xlarge", "us-east-1b", 3, 0)
    found = owned.targets(shop.clients.get("ec2", "us-east-1"), "p5.48xlarge", "us-east-1b")
    assert [(one.kind, one.id, one.free) for one in found] == [("reservation", endless, 2), ("block", block, 8)]
    assert [one.lasts(None) for one in found] == [True, False]
    assert [one.lasts(NOW + timedelta(hours=1)) for one in found] == [True, True]


def test_a_savings_plan_pays_for_as_many_machines_as_its_hour_has_left(shop: Shop) -> None:
    ends = NOW + 100 * DAY
    shop.site.catalogue.own_savings_plan("3", ends)
    shop.site.run("g5.xlarge", "us-east-1a")  # takes 0.72432 of it
    found = reserved(shop.source())
    assert found["east-1b/g5.xlarge"] == (3, ends)
    assert found["east-1a/g6e.xlarge"] == (1, ends)
    assert found["east-1b/p5.48xlarge"] == (0, ends)


def test_reserved_instances_pay_before_savings_plans_do(shop: Shop) -> None:
    shop.site.catalogue.own_savings_plan("1.5", NOW + 100 * DAY)
    shop.site.catalogue.own_reserved("g5.xlarge", 1, NOW - DAY, NOW + DAY)
    shop.site.run("g5.xlarge", "us-east-1a")
    assert reserved(shop.source())["east-1b/g5.xlarge"] == (2, NOW + 100 * DAY)


def test_a_plan_of_one_family_pays_for_that_family_in_its_region(shop: Shop) -> None:
    shop.site.catalogue.own_savings_plan("7", NOW + DAY, "EC2Instance", "us-east-1", "g5")
    shop.site.catalogue.own_savings_plan("7", NOW + DAY, "EC2Instance", "eu-west-1", "g6")
    found = reserved(shop.source())
    assert {name.partition("/")[2] for name in found} == {"g5.xlarge", "g5.12xlarge"}
    assert found["east-1a/g5.xlarge"] == (11, NOW + DAY)


def test_a_plan_for_every_region_waits_until_every_region_has_been_seen(shop: Shop) -> None:
    shop.site.catalogue.own_savings_plan("1.5", NOW + DAY)
    east, west = shop.sources(regions=("us-east-1", "us-west-2"))
    assert reserved(east) == {}
    assert "us-west-2" in east.notes["Savings Plans"]
    shop.site.run("g5.xlarge", "us-west-2a")
    assert reserved(west)["west-2a/g5.xlarge"] == (0, NOW + DAY)
    assert reserved(east)["east-1a/g5.xlarge"] == (0, NOW + DAY)


@pytest.mark.parametrize(
    ("action", "what"),
    [
        ("DescribeReservedInstances", "reserved instances"),
        ("DescribeCapacityReservations", "capacity reservations"),
        ("POST /DescribeSavingsPlans", "Savings Plans"),
    ],
)
def test_what_may_not_be_asked_is_left_out_with_a_note(shop: Shop, action: str, what: str) -> None:
    shop.site.catalogue.fail(action, "AccessDenied", 403)
    source = shop.source()
    assert offers(source)
    assert "let the daemon's role call" in source.notes[what]
    shop.site.catalogue.mend(action)
    assert offers(source, NOW + timedelta(minutes=1))
    assert what not in source.notes


# ---------------------------------------------------------------- quotas


def quotas(source: AwsSource) -> dict[tuple[str, Market], tuple[float, float]]:
    source.offers(NOW)
    return {(one.family, one.market): (one.limit, one.used) for one in source.quotas(NOW)}


def test_spot_and_on_demand_have_quotas_of_their_own_in_vcpus(shop: Shop) -> None:
    for number, code in enumerate(("L-DB2E81BA", "L-417A185B", "L-3819A6DF", "L-7212CCBC", "L-C4BD4855", "L-5DA1FF5D")):
        shop.site.catalogue.quota(code, 100 + number)
    shop.site.run("g5.xlarge", "us-east-1a")
    shop.site.run("g5g.xlarge", "us-east-1a")
    shop.site.run("m5.large", "us-east-1a")
    shop.site.run("p5.48xlarge", "us-east-1b", InstanceLifecycle="capacity-block")
    shop.site.run("p5.48xlarge", "us-east-1b", InstanceLifecycle="spot")
    assert quotas(shop.source()) == {
        ("G", Market.ON_DEMAND): (100, 8),
        ("P", Market.ON_DEMAND): (101, 0),
        ("G", Market.SPOT): (102, 0),
        ("P", Market.SPOT): (103, 0),
        ("P5", Market.SPOT): (104, 192),
        ("P6", Market.SPOT): (105, 0),
    }


def test_without_permission_for_quotas_none_are_known(shop: Shop) -> None:
    shop.site.catalogue.fail("ListServiceQuotas", "AccessDeniedException")
    source = shop.source()
    assert quotas(source) == {}
    assert "servicequotas:ListServiceQuotas" in source.notes["quotas"]


def test_without_permission_to_see_what_runs_nothing_that_it_fills_is_said(shop: Shop) -> None:
    shop.site.denied.add("DescribeInstances")
    shop.site.catalogue.own_reserved("g5.xlarge", 3, NOW - DAY, NOW + DAY)
    source = shop.source()
    assert reserved(source) == {}
    assert source.quotas(NOW) == ()


# ---------------------------------------------------------------- placement scores


def test_placement_scores_are_asked_for_seldom_and_only_if_wanted(shop: Shop) -> None:
    shop.site.catalogue.scores = {zone_id("us-east-1b"): 9}
    plain, scored = shop.source(), shop.source(placement_scores=True)
    offers(plain)
    assert plain.scores == {}
    offers(scored)
    offers(scored, NOW + timedelta(hours=11))
    assert scored.scores == {("L4", "us-east-1a"): 5, ("L4", "us-east-1b"): 9, ("L4", "us-east-1c"): 5}
    assert shop.site.catalogue.asked.count("GetSpotPlacementScores") == 1


def test_placement_scores_that_are_not_allowed_are_left_out_with_a_note(shop: Shop) -> None:
    shop.site.catalogue.fail("GetSpotPlacementScores", "UnauthorizedOperation", 403)
    source = shop.source(placement_scores=True)
    assert offers(source)
    assert source.scores == {}
    assert "ec2:GetSpotPlacementScores" in source.notes["placement scores"]


# ---------------------------------------------------------------- regions, errors, currencies


def test_each_region_is_a_source_of_its_own(shop: Shop) -> None:
    found = shop.sources(regions=("us-east-1", "eu-west-1", "us-east-1"))
    assert [source.name for source in found] == ["aws/us-east-1", "aws/eu-west-1"]
    europe = {offer.pool.zone: offer for offer in found[1].offers(NOW) if offer.pool.type == "g5.xlarge"}
    assert set(europe) == {"eu-west-1a", "eu-west-1b", "eu-west-1c"}
    assert next(o for o in found[1].offers(NOW) if o.pool.type == "g5.xlarge").hourly_micro == 1_106_600


@pytest.mark.parametrize(
    ("code", "status", "says"),
    [
        ("UnauthorizedOperation", 403, r"spot prices in us-east-1 .*call `ec2:DescribeSpotPriceHistory`"),
        ("ExpiredToken", 400, r"credentials .*us-east-1 .*renew them"),
        ("RequestExpired", 400, r"clock .*us-east-1 .*NTP"),
        ("OptInRequired", 401, r"us-east-1 .*`clouds.aws.regions`"),
        ("InvalidParameterValue", 400, r"no spot prices in us-east-1 .*frugald doctor aws"),
    ],
)
def test_a_refusal_says_what_failed_where_and_what_to_do(shop: Shop, code: str, status: int, says: str) -> None:
    shop.site.catalogue.fail("DescribeSpotPriceHistory", code, status)
    with pytest.raises(SourceError, match=says):
        shop.source().offers(NOW)


def test_without_a_rate_the_sentence_says_which_to_set(shop: Shop) -> None:
    (source,) = shop.sources("EUR")
    with pytest.raises(SourceError, match=r"us-east-1 can't be converted: no rate for USD"):
        source.offers(NOW)


# ---------------------------------------------------------------- reserving


def test_every_reserved_term_is_an_offering_with_its_upfront_payment_spread(shop: Shop) -> None:
    found = {
        (one.term_hours, one.payment, one.offering_class): one
        for one in shop.source().reserved_offerings(NOW)
        if one.type == "g5.xlarge"
    }
    assert set(found) == {
        (8760, "No Upfront", "standard"),
        (8760, "Partial Upfront", "standard"),
        (26280, "All Upfront", "standard"),
        (8760, "No Upfront", "convertible"),
    }
    partial = found[8760, "Partial Upfront", "standard"]
    assert partial.upfront_micro == 2_644_000_000
    assert partial.effective_hourly_micro == round((Decimal("0.3018") + Decimal(2644) / 8760) * MICRO)


def test_what_was_run_tells_which_of_them_would_have_paid(shop: Shop) -> None:
    offerings = shop.source().reserved_offerings(NOW)
    usage = {("us-east-1", "g5.xlarge"): Usage(700, 700 * 1_006_000), ("eu-west-1", "g5.xlarge"): Usage(700, 1)}
    told = advice(usage, offerings)
    assert [one.offering.term_hours for one in told] == [26280, 8760, 8760, 8760]
    assert [one.pays for one in told] == [True, True, True, True]
    assert told[0].hours_needed == pytest.approx(0.4 * 730, rel=0.01)
    (idle, *_) = advice({("us-east-1", "g5.xlarge"): Usage(100, 100 * 1_006_000)}, offerings)
    assert not idle.pays


def test_a_source_of_no_named_region_is_that_of_the_first(shop: Shop) -> None:
    settings = AwsSettings(regions=("us-west-2", "us-east-1"))
    source = AwsSource(settings, shop.clients, shop.cache, "USD", {}, shop.site.fetch)
    assert {offer.pool.region for offer in source.offers(NOW)} == {"us-west-2"}


# ---------------------------------------------------------------- the stand-in itself


@pytest.mark.parametrize(
    ("service", "action", "question", "code"),
    [
        ("pricing", "get_products", {"ServiceCode": "AmazonEC2", "MaxResults": 101}, "InvalidParameterException"),
        ("pricing", "get_products", {"ServiceCode": "AmazonEC2", "NextToken": "x-1"}, "InvalidNextTokenException"),
        ("pricing", "get_products", {"ServiceCode": "AmazonFood"}, "NotFoundException"),
        ("ec2", "describe_instance_types", {"InstanceTypes": ["g5.tiny"]}, "InvalidInstanceType"),
        (
            "ec2",
            "describe_instance_types",
            {"Filters": [{"Name": "colour", "Values": ["red"]}]},
            "InvalidParameterValue",
        ),
        ("ec2", "describe_spot_price_history", {"NextToken": "x-1"}, "InvalidNextToken"),
        ("ec2", "describe_spot_price_history", {"StartTime": NOW, "EndTime": NOW - DAY}, "InvalidParameterValue"),
        (
            "ec2",
            "describe_capacity_reservations",
            {"CapacityReservationIds": ["cr-none"]},
            "InvalidCapacityReservationId.NotFound",
        ),
        ("savingsplans", "describe_savings_plan_rates", {"savingsPlanId": "sp-none"}, "ResourceNotFoundException"),
        (
            "service-quotas",
            "get_service_quota",
            {"ServiceCode": "ec2", "QuotaCode": "L-NONE"},
            "NoSuchResourceException",
        ),
    ],
)
def test_the_stand_in_refuses_what_aws_refuses(
    shop: Shop, service: str, action: str, question: dict[str, Any], code: str
) -> None:
    with pytest.raises(ClientError) as refused:
        getattr(shop.clients.get(service, "us-east-1"), action)(**question)
    assert refused.value.response["Error"]["Code"] == code


def test_a_pages_token_only_continues_the_same_question(shop: Shop) -> None:
    client = shop.clients.get("ec2", "us-east-1")
    token = client.describe_spot_price_history(InstanceTypes=["g5.xlarge"], MaxResults=5)["NextToken"]
    rest = client.describe_spot_price_history(InstanceTypes=["g5.xlarge"], MaxResults=5, NextToken=token)
    assert {point["InstanceType"] for point in rest["SpotPriceHistory"]} == {"g5.xlarge"}
    with pytest.raises(ClientError, match="InvalidNextToken"):
        client.describe_spot_price_history(InstanceTypes=["g6.xlarge"], MaxResults=5, NextToken=token)
