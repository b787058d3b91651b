"""The order of what fits: owned first, then what the whole job costs in truth."""

from dataclasses import replace
from datetime import timedelta
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from config import gpus
from pricing import expected_cost as cost
from pricing.expected_cost import WorkView
from pricing.history import Hazards, Observation
from pricing.need import Need
from pricing.offer import Market, Offer
from pricing.ranking import LIMIT, Ranked, rank
from tests.pricing.offers import GIB, USD, offer, select

SAVED = WorkView(hours=10, checkpointed=True, interval_h=0.5)
NOTHING_SEEN = Hazards(())
ANY = Need()
SPOT = offer("V100-16", hourly_micro=1_000_000, ceiling_micro=3_060_000, hazard_per_hour=0.2, type="spot")
ON_DEMAND = replace(
    SPOT, pool=replace(SPOT.pool, market=Market.ON_DEMAND, type="od"), hourly_micro=3_060_000, hazard_per_hour=0.0
)
OWNED = offer("T4", Market.RESERVED, hourly_micro=0, ceiling_micro=0, free=1, type="owned")


def ranked(*offers: Offer, work: WorkView = SAVED, need: Need = ANY, hazards: Hazards = NOTHING_SEEN) -> list[Ranked]:
    book, selection = select(need, *offers, checkpointed=work.checkpointed)
    found = rank(book, selection, work, hazards, need)
    assert [book.offers[one.index] for one in found] == [one.offer for one in found]
    return found


def types(*offers: Offer, **changes: Any) -> list[str]:
    return [one.offer.pool.type for one in ranked(*offers, **changes)]


def test_owned_capacity_comes_first_however_slow_and_whatever_it_is_said_to_cost() -> None:
    assert types(SPOT, OWNED) == ["owned", "spot"]
    assert types(SPOT, replace(OWNED, hourly_micro=9 * USD)) == ["owned", "spot"]
    assert ranked(OWNED)[0].expected_micro == 0


def test_the_figures_are_those_of_the_sums() -> None:
    [found] = ranked(SPOT)
    restart = 3 / 60 + SAVED.restore_h
    each = cost.per_work_hour(USD, 1.0, 0.2, 0.5, SAVED.write_h, restart)
    hours = cost.whole_job(1.0, float(each) / USD, 10, 0.2, restart)
    assert found.per_work_hour_micro == pytest.approx(each, rel=1e-6)
    assert found.expected_hours == pytest.approx(hours)
    assert found.expected_micro == pytest.approx(USD * hours, rel=1e-6)
    assert found.interruptions == pytest.approx(0.2 * hours)


def test_a_price_tag_is_not_the_cost() -> None:
    """The V100 of policies.md: at $1.65 in a pool with 1.4 interruptions an hour it is dearer than a calm one at $2.50."""
    wild = replace(SPOT, hourly_micro=1_650_000, hazard_per_hour=1.4)
    calm = replace(SPOT, pool=replace(SPOT.pool, type="calm"), hourly_micro=2_500_000, hazard_per_hour=0.05)
    assert types(wild, calm) == ["calm", "spot"]
    assert types(wild, calm, work=replace(SAVED, interval_h=0.1)) == ["spot", "calm"]


def test_a_faster_gpu_may_cost_more() -> None:
    h100 = offer("H100-80", Market.ON_DEMAND, hourly_micro=10 * USD, ceiling_micro=10 * USD, type="h100")
    assert gpus.find("H100-80").speed > 10 / 3.06
    assert types(ON_DEMAND, h100) == ["h100", "od"]


def test_gpus_that_the_job_can_not_use_do_not_make_it_faster() -> None:
    eight = replace(ON_DEMAND, pool=replace(ON_DEMAND.pool, type="eight"), gpus=8.0)
    one, many = (ranked(ON_DEMAND, eight, need=Need(gpus=count)) for count in (1, 8))
    assert one[0].per_work_hour_micro == one[1].per_work_hour_micro
    assert [found.offer.pool.type for found in many] == ["eight"]
    assert many[0].per_work_hour_micro == one[0].per_work_hour_micro


def test_a_slice_is_as_fast_as_its_share() -> None:
    whole = offer("A10", Market.ON_DEMAND, hourly_micro=USD, type="whole", hazard_per_hour=0.0)
    part = replace(whole, pool=replace(whole.pool, type="part"), gpus=0.25, gpu_memory=5 * GIB, hourly_micro=USD // 4)
    found = ranked(whole, part, need=Need(gpu_memory=4 * GIB), work=WorkView(checkpointed=True, interval_h=0.5))
    assert found[0].per_work_hour_micro == found[1].per_work_hour_micro
    quarter = ranked(whole, need=Need(gpus=0.25), work=WorkView(checkpointed=True, interval_h=0.5))
    assert quarter[0].per_work_hour_micro == found[0].per_work_hour_micro, "whoever asks for a part may use the whole"


def test_work_is_measured_on_the_gpu_that_the_job_names() -> None:
    a100 = offer("A100-40", Market.ON_DEMAND, hourly_micro=4 * USD, type="a100", hazard_per_hour=0.0)
    [found] = ranked(a100, work=WorkView(hours=5, on_gpu="A100-40"))
    assert found.expected_hours == pytest.approx(5 + 3 / 60 + 2 / 60, rel=1e-3)
    [unknown] = ranked(a100, work=WorkView(hours=5, on_gpu=""))
    assert unknown.expected_hours == pytest.approx(5 / gpus.find("A100-40").speed + 5 / 60, rel=1e-3)


def test_without_checkpoints_an_interruption_costs_everything() -> None:
    begins_anew = WorkView(hours=20)
    willing = Need(spot="yes")
    [found] = ranked(SPOT, work=begins_anew, need=willing)
    assert found.expected_micro == pytest.approx(cost.without_checkpoints(USD, 1, 0.2, 20, 5 / 60), rel=1e-6)
    assert types(SPOT, ON_DEMAND, work=begins_anew) == ["od"], "it goes to spot only when it says so"
    assert types(SPOT, ON_DEMAND, work=begins_anew, need=willing) == ["spot"]


def test_what_can_never_be_finished_comes_last_and_has_a_figure() -> None:
    hopeless = replace(SPOT, pool=replace(SPOT.pool, type="hopeless"), hazard_per_hour=3.0)
    found = ranked(hopeless, SPOT, work=WorkView(hours=500), need=Need(spot="yes"))
    assert found[-1].offer.pool.type == "hopeless"
    assert found[-1].expected_micro == USD * 10**9


@pytest.mark.parametrize("hazard", [0.0, 1e-300, 5.0, 1e9, 1e300])
@pytest.mark.parametrize("hours", [0.0, 1e-9, 3.0, 1e9])
@pytest.mark.parametrize("work", [WorkView(checkpointed=True), WorkView(), SAVED, replace(SAVED, write_h=0.0)])
def test_nothing_that_a_source_or_a_job_says_breaks_the_sums(hazard: float, hours: float, work: WorkView) -> None:
    odd = replace(SPOT, hazard_per_hour=hazard, boot=timedelta(hours=2), notice=timedelta(minutes=1))
    owned = replace(OWNED, hazard_per_hour=hazard)
    found = ranked(odd, owned, work=replace(work, hours=hours), need=Need(spot="yes"))
    assert [one.offer.pool.type for one in found] == ["owned", "spot"]
    assert found[0].expected_micro == 0
    assert 0 < (found[1].expected_hours or 0) <= 1e9
    assert found[1].expected_micro


def test_a_notice_that_is_long_enough_makes_spot_cheaper() -> None:
    warned = replace(SPOT, pool=replace(SPOT.pool, type="warned"), notice=timedelta(minutes=2))
    too_late = replace(SPOT, pool=replace(SPOT.pool, type="late"), notice=timedelta(seconds=30))
    assert types(too_late, warned, SPOT) == ["warned", "late", "spot"]
    late, plain = ranked(too_late, SPOT)
    assert late.per_work_hour_micro == plain.per_work_hour_micro


def test_what_was_seen_of_a_pool_counts() -> None:
    twin = replace(SPOT, pool=replace(SPOT.pool, type="twin"))
    seen = Hazards([Observation(str(SPOT.pool), 600, interrupted=True)] * 4)
    assert types(SPOT, twin) == ["spot", "twin"]
    assert types(SPOT, twin, hazards=seen) == ["twin", "spot"]


def test_disk_is_paid_for_too() -> None:
    dear = replace(SPOT, pool=replace(SPOT.pool, type="dear"), hourly_micro=900_000, disk_hourly_micro=200_000)
    assert types(SPOT, dear) == ["dear", "spot"]
    assert types(SPOT, dear, need=Need(disk=100 * GIB)) == ["spot", "dear"]


def test_while_the_work_is_unknown_an_hour_of_it_is_compared() -> None:
    [found] = ranked(SPOT, work=replace(SAVED, hours=None))
    assert (found.expected_micro, found.expected_hours, found.interruptions) == (None, None, None)
    assert found.per_work_hour_micro == ranked(SPOT)[0].per_work_hour_micro
    assert types(SPOT, ON_DEMAND, work=WorkView(checkpointed=True)) == ["spot", "od"]


def test_ties_go_to_the_lower_price_then_to_the_calmer_pool_then_by_name() -> None:
    free = [replace(OWNED, pool=replace(OWNED.pool, type=name)) for name in "cab"]
    assert types(*free) == ["a", "b", "c"]
    priced = replace(OWNED, pool=replace(OWNED.pool, type="0"), hourly_micro=0, hazard_per_hour=0.3)
    assert types(priced, *free) == ["a", "b", "c", "0"]


@given(
    st.lists(
        st.tuples(st.sampled_from(list(Market)), st.integers(1, 4), st.sampled_from([0.0, 0.2, 1.0])), max_size=20
    ),
    st.randoms(),
)
def test_the_order_does_not_depend_on_who_came_first(kinds: list[tuple[Market, int, float]], chance: Random) -> None:
    offers = [
        offer("L4", market, hourly_micro=dollars * USD, ceiling_micro=5 * USD, hazard_per_hour=hazard, type=str(n))
        for n, (market, dollars, hazard) in enumerate(kinds)
    ]
    found = ranked(*offers)
    chance.shuffle(offers)
    assert ranked(*offers) == found
    assert [one.order for one in found] == sorted(one.order for one in found)


def test_no_more_are_handed_on_than_anybody_tries() -> None:
    assert len(ranked(*(replace(SPOT, pool=replace(SPOT.pool, type=str(n))) for n in range(LIMIT + 5)))) == LIMIT
    assert ranked() == []


def test_the_winner_says_why() -> None:
    spot, on_demand = ranked(SPOT, replace(ON_DEMAND, hourly_micro=3 * USD))
    assert str(spot.why).startswith("spot at $1.00/h, 1 x a V100, taken away every 5h or so: $1.")
    assert str(on_demand.why).startswith("on demand at $3.00/h, 1 x a V100: $3.")
    assert str(ranked(OWNED)[0].why).startswith("ours already, ")
