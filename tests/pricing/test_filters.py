"""The hard conditions: who passes, who doesn't, and the sentences for both."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.choose import plain_filter
from config.gpus import usable_bytes
from config.reason import sentences
from pricing.filters import FILTERS
from pricing.need import Need
from pricing.offer import Market, Offer, Quota
from tests.pricing.offers import GIB, NOW, STALE_AFTER, USD, offer, select, types

HOUR = timedelta(hours=1)
SLICE = offer("A10", gpus=0.25, gpu_memory=5 * GIB, type="slice")
WHOLE = offer("A10", hourly_micro=2 * USD, type="whole")
EIGHT = offer("A100-40", gpus=8, vcpus=96, memory=1152 * GIB, hourly_micro=9 * USD, type="eight")
CPU = offer("", type="cpu")


def test_every_filter_has_its_two_sentences() -> None:
    known = sentences()
    assert [code for one in FILTERS for code in (f"pass.{one.name}", f"nothing.{one.name}") if code not in known] == []


# ---------------------------------------------------------------- what passes


def test_a_need_of_nothing_takes_any_machine() -> None:
    assert types(Need(gpus=0), CPU, WHOLE) == ["cpu", "whole"]
    assert types(Need(), CPU, WHOLE) == ["whole"]


@pytest.mark.parametrize(
    ("need", "kept"),
    [
        (Need(gpus=2), ["eight"]),
        (Need(gpu_names=frozenset({"A10"})), ["whole"]),
        (Need(gpu_memory=30 * GIB), ["eight"]),
        (Need(gpus=0, vcpus=9), ["eight"]),
        (Need(gpus=0, memory=33 * GIB), ["eight"]),
        (Need(gpu_names=frozenset({"H100-80"})), []),
    ],
)
def test_the_machine_must_be_large_enough(need: Need, kept: list[str]) -> None:
    assert types(need, WHOLE, EIGHT, CPU) == kept


def test_memory_is_what_programs_get_and_not_what_the_box_says() -> None:
    assert types(Need(gpu_memory=40 * GIB), EIGHT) == []
    assert types(Need(gpu_memory=usable_bytes("A100-40")), EIGHT) == ["eight"]
    assert types(Need(gpu_memory=usable_bytes("A100-40") + 1), EIGHT) == []


@pytest.mark.parametrize(
    ("need", "kept"),
    [
        (Need(), ["whole"]),  # nothing says that a part is enough
        (Need(gpu_memory=4 * GIB), ["slice", "whole"]),
        (Need(gpu_memory=6 * GIB), ["whole"]),
        (Need(gpu_memory=4 * GIB, gpu_names=frozenset({"A10"})), ["whole"]),  # a whole card was asked for by name
        (Need(gpus=0.25), ["slice", "whole"]),
        (Need(gpus=0.5, gpu_memory=4 * GIB), ["whole"]),
        (Need(gpus=0.25, gpu_names=frozenset({"A10"})), ["slice", "whole"]),
        (Need(gpu_names=frozenset({"A10-1/4"})), ["slice", "whole"]),
        (Need(gpu_names=frozenset({"A10-1/2"})), ["whole"]),
        (Need(gpu_names=frozenset({"A10-1/2", "A10-1/4"})), ["slice", "whole"]),
        (Need(gpus=0.25, gpu_names=frozenset({"L4"})), []),
    ],
)
def test_a_slice_stands_in_for_a_gpu_where_it_will_do(need: Need, kept: list[str]) -> None:
    assert types(need, SLICE, WHOLE) == kept


def test_places() -> None:
    here = offer(type="here")
    there = offer(cloud="gcp", region="europe-west4", zone="europe-west4-a", type="there")
    assert types(Need(cloud="aws"), here, there) == ["here"]
    assert types(Need(region="europe-west4"), here, there) == ["there"]
    assert types(Need(cloud="aws", region="us-east-1", zone="us-east-1a"), here, there) == ["here"]
    assert types(Need(cloud="gcp", region="us-east-1"), here, there) == []


def test_software() -> None:
    old, new = offer("V100-16", type="old"), offer("H100-80", type="new")
    unknown = replace(offer(type="unknown"), gpu="Z9000")  # not in our table
    behind = offer(type="behind", cuda_max="12.2")
    every = (behind, new, old, unknown)
    assert types(Need(cuda="13.0"), *every) == ["new", "unknown"]  # the V100 ended with CUDA 12
    assert types(Need(cuda="12.8"), *every) == ["new", "old", "unknown"]
    assert types(Need(cuda="12.2"), *every) == ["behind", "new", "old", "unknown"]
    assert types(Need(min_compute_capability="8.9"), *every) == ["behind", "new", "unknown"]
    assert types(Need(min_compute_capability="9.0"), *every, CPU) == ["new", "unknown"]


def test_markets() -> None:
    every = [offer(market=market, type=market.value) for market in Market]
    assert types(Need(), *every) == ["on-demand", "reserved", "spot"]
    assert types(Need(spot="yes"), *every) == ["reserved", "spot"]
    assert types(Need(spot="no"), *every) == ["on-demand", "reserved"]
    assert types(Need(), *every, checkpointed=False) == ["on-demand", "reserved"]
    assert types(Need(spot="yes"), *every, checkpointed=False) == ["reserved", "spot"]


def test_a_price_limit_includes_itself() -> None:
    assert types(Need(max_hourly_micro=USD // 4), offer()) == ["one-L4"]
    assert types(Need(max_hourly_micro=USD // 4 - 1), offer()) == []


def test_stock() -> None:
    assert types(Need(), offer(free=0)) == []
    assert types(Need(), offer(free=1)) == ["one-L4"]


@pytest.mark.parametrize("key", ["aws/us-east-1a/one-L4/spot", "aws/us-east-1/g/spot", "aws"])
def test_pools_families_and_clouds_are_left_alone(key: str) -> None:
    other = offer(cloud="gcp", type="other")
    assert types(Need(), offer(), other, closed={key: (NOW + HOUR, "sold-out")}) == ["other"]
    assert types(Need(), offer(), other, closed={key: (NOW, "sold-out")}) == ["one-L4", "other"]


def test_the_same_machine_in_another_zone_or_market_is_another_pool() -> None:
    closed = {str(offer().pool): (NOW + HOUR, "sold-out")}
    assert types(Need(), offer(zone="us-east-1b"), closed=closed) == ["one-L4"]
    assert types(Need(), offer(market=Market.ON_DEMAND), closed=closed) == ["one-L4"]


def quota(limit: float, used: float = 0, unit: str = "gpus", market: Market = Market.SPOT) -> Quota:
    return Quota("aws", "us-east-1", "g", market, limit, used, unit)


@pytest.mark.parametrize(
    ("quotas", "kept"),
    [
        ([quota(8)], ["eight", "one-L4"]),
        ([quota(8, used=1)], ["one-L4"]),
        ([quota(8, used=8)], []),
        ([quota(8, unit="vcpus")], ["one-L4"]),  # the whole machine counts: it has 96
        ([quota(0, market=Market.ON_DEMAND)], ["eight", "one-L4"]),
        ([quota(8), quota(7)], ["one-L4"]),
    ],
)
def test_quotas(quotas: list[Quota], kept: list[str]) -> None:
    assert types(Need(), offer(), EIGHT, quotas=quotas) == kept


def test_old_prices() -> None:
    assert types(Need(), offer(as_of=NOW - STALE_AFTER)) == ["one-L4"]
    assert types(Need(), offer(as_of=NOW - STALE_AFTER - timedelta(seconds=1))) == []


def test_owned_capacity_must_stay_for_an_hour() -> None:
    owned = offer(market=Market.RESERVED)
    assert types(Need(), replace(owned, ends=NOW + HOUR)) == []
    assert types(Need(), replace(owned, ends=NOW + HOUR + timedelta(seconds=1))) == ["one-L4"]


# ---------------------------------------------------------------- what is said


def nothing(need: Need, *offers: Offer, **changes: Any) -> str:
    _, selection = select(need, *offers, **changes)
    assert not selection.indices.size
    return str(selection.nothing_left())


@pytest.mark.parametrize(
    ("need", "told"),
    [
        (
            Need(gpu_memory=48 * GIB),
            "no offer has 48GB of GPU memory per GPU: the largest here is A100-40 with 39.2GB",
        ),
        (Need(gpu_names=frozenset({"H100-80", "B200"})), "no offer has B200, H100-80: there are A10, A100-40"),
        (Need(gpus=16), "no offer has 16 GPUs in one machine: the most here is 8"),
        (Need(vcpus=128), "no offer that fits otherwise has 128 vCPUs: the most here is 96"),
        (Need(memory=2048 * GIB), "no offer that fits otherwise has 2TB of memory: the most here is 1.1TB"),
        (Need(cloud="gcp"), "nothing is offered in gcp: there are offers in aws"),
        (Need(cloud="aws", region="eu-1"), "nothing is offered in aws/eu-1: there are offers in aws/us-east-1"),
        (
            Need(cloud="aws", region="us-east-1", zone="us-east-1c"),
            "nothing is offered in aws/us-east-1/us-east-1c: there are offers in aws/us-east-1/us-east-1a",
        ),
        (
            Need(min_compute_capability="9.0"),
            "no GPU that fits otherwise has compute capability 9.0: the nearest here is A10 with 8.6",
        ),
        (
            Need(cuda="10.2"),
            "CUDA 10.2 runs on none of the GPUs that fit otherwise (A10, A100-40): take another image, or other GPUs",
        ),
        (
            Need(max_hourly_micro=USD),
            "the cheapest offer that fits costs $2.00/h, above the job's limit of $1.00/h",
        ),
        (Need(spot="no"), "what fits is sold as spot only, and the job says `use_spot: false`"),
    ],
)
def test_the_nearest_miss_is_named(need: Need, told: str) -> None:
    assert nothing(need, WHOLE, EIGHT) == told


def test_what_only_the_moment_denies_is_told_by_the_most_frequent_reason() -> None:
    sold_out = [offer(free=0, type=f"none-{n}") for n in range(3)]
    old = offer(as_of=NOW - HOUR, type="old")
    assert nothing(Need(), *sold_out, old) == "everything that fits is sold out (3 offers)"
    assert (
        nothing(Need(), old)
        == "the prices of the 1 offers that fit are too old: the newest is from 1h ago, the limit is 15m"
    )


def test_what_is_left_alone_is_told_with_the_reasons_that_matter_here() -> None:
    closed = {
        str(offer().pool): (NOW + timedelta(minutes=6), "sold-out"),
        "aws/us-east-1/g/spot": (NOW + timedelta(minutes=9), "quota"),
        "gcp": (NOW + timedelta(minutes=1), "denied"),
    }
    told = "the 1 offers that fit are left alone for a while (quota, sold-out): the first is tried again in 6m"
    assert nothing(Need(), offer(), closed=closed) == told


def test_quota_names_its_family() -> None:
    told = nothing(Need(), offer(), quotas=[quota(1, used=1)])
    assert told == "the account's quota has no room for the 1 offers that fit (aws/us-east-1/g/spot): raise it, or wait"


def test_an_old_driver_is_told_by_the_newest_there_is() -> None:
    drivers = [offer(cuda_max=version, type=version) for version in ("12.2", "11.8")]
    told = nothing(Need(cuda="12.8"), *drivers)
    assert (
        told
        == "no driver that fits otherwise serves CUDA 12.8: the newest here serves 12.2; take an image with that or older"
    )


def test_without_any_offer_that_is_said() -> None:
    assert nothing(Need()).startswith("no price source has offered anything yet")


def test_what_fits_and_still_can_not_be_had_was_promised_to_others() -> None:
    _, selection = select(Need(), offer())
    assert str(selection.nothing_left()) == "the 1 offers that fit have just been promised to other jobs"


def test_each_offer_is_counted_once_by_its_first_miss() -> None:
    sold_out_and_dear = offer(free=0, hourly_micro=9 * USD, type="both")
    book, selection = select(Need(max_hourly_micro=USD), offer(), sold_out_and_dear, CPU)
    assert [(str(reason), count) for reason, count in selection.passed_over] == [
        ("fewer than 1 GPUs in one machine", 1),
        ("dearer than $1.00/h", 1),
    ]
    assert len(selection.indices) + sum(count for _, count in selection.passed_over) == len(book)


# ---------------------------------------------------------------- against the plain way


def offers() -> st.SearchStrategy[Offer]:
    return st.builds(
        offer,
        gpu=st.sampled_from(["", "L4", "A10", "V100-16", "A100-40"]),
        market=st.sampled_from(list(Market)),
        gpus=st.sampled_from([0.0, 0.25, 0.5, 1.0, 2.0, 8.0]),
        gpu_memory=st.integers(0, 48).map(lambda gib: gib * GIB),
        vcpus=st.integers(1, 64),
        memory=st.integers(1, 64).map(lambda gib: gib * GIB),
        hourly_micro=st.integers(1, 4 * USD),
        free=st.sampled_from([None, 0, 3]),
        as_of=st.sampled_from([NOW, NOW - HOUR]),
        ends=st.sampled_from([None, NOW + HOUR / 2, NOW + 9 * HOUR]),
        cuda_max=st.sampled_from(["", "11.8", "12.4", "13.0"]),
        family=st.sampled_from(["g", "p"]),
        region=st.sampled_from(["us-east-1", "eu-1"]),
        zone=st.sampled_from(["a", "b"]),
        cloud=st.sampled_from(["aws", "gcp"]),
        type=st.integers(0, 99).map(str),
    )


needs = st.builds(
    Need,
    gpus=st.sampled_from([0, 0.25, 1, 2]),
    gpu_names=st.sampled_from([frozenset(), frozenset({"A10"}), frozenset({"A10-1/4", "L4"})]),
    gpu_memory=st.sampled_from([0, 16 * GIB]),
    vcpus=st.sampled_from([0, 16]),
    memory=st.sampled_from([0, 16 * GIB]),
    cuda=st.sampled_from(["", "12.4", "13.0"]),
    min_compute_capability=st.sampled_from(["", "8.0", "8.6"]),
    cloud=st.sampled_from(["", "aws"]),
    region=st.sampled_from(["", "eu-1"]),
    max_hourly_micro=st.sampled_from([None, 2 * USD]),
    spot=st.sampled_from(["yes", "no", "auto"]),
)
CLOSED = {"gcp/eu-1/g/spot": (NOW + HOUR, "quota"), "aws/a/7/spot": (NOW + HOUR, "sold-out"), "aws": (NOW, "denied")}
QUOTAS = (quota(2), Quota("gcp", "eu-1", "p", Market.SPOT, 32, 8, "vcpus"))


@given(st.lists(offers(), max_size=30, unique_by=lambda one: str(one.pool)), needs, st.booleans())
@settings(max_examples=200, deadline=None)
def test_columns_keep_what_a_plain_loop_keeps(found: list[Offer], need: Need, checkpointed: bool) -> None:
    question: dict[str, Any] = {"closed": CLOSED, "quotas": QUOTAS, "checkpointed": checkpointed}
    book, selection = select(need, *found, **question)
    plain = plain_filter(book.offers, need, NOW, stale_after=STALE_AFTER, **question)
    assert [book.offers[row] for row in selection.indices] == plain
    assert sum(count for _, count in selection.passed_over) + len(plain) == len(found)
    assert all(str(reason) and "unknown" not in str(reason) for reason, _ in selection.passed_over)
    assert plain or str(selection.nothing_left())
