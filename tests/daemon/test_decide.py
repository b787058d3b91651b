"""Deciding is pure: a snapshot in, a plan out."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from config.settings import ChooseSettings, LeaseSettings
from daemon.budgets import Cap, Lease, Purse, window_of
from daemon.decide import decide
from daemon.snapshot import HeldJob, LiveMachine, Snapshot, WaitingJob
from pricing.book import PriceBook
from pricing.expected_cost import WorkView
from pricing.history import Hazards
from pricing.need import Need
from pricing.offer import Market, Offer, Pool, Quota

NOW = datetime(2026, 12, 1, 12, tzinfo=UTC)
UTC_ZONE = ZoneInfo("UTC")
GIB = 1024**3
LEASE = LeaseSettings(
    length=timedelta(minutes=10),
    longest=timedelta(minutes=40),
    shortest=timedelta(minutes=2),
    boot=timedelta(minutes=10),
    end=timedelta(minutes=1),
)


def offer(zone: str = "a", market: Market = Market.SPOT, hourly: int = 400_000, **values: Any) -> Offer:
    fixed: dict[str, Any] = {
        "pool": Pool("aws", "us-east-1", zone, "g5.xlarge", market),
        "gpu": "A10G",
        "gpus": 1,
        "gpu_memory": 22 * GIB,
        "vcpus": 4,
        "memory": 16 * GIB,
        "hourly_micro": hourly,
        "ceiling_micro": max(hourly, 1_000_000),
        "as_of": NOW,
        "family": "g",
        "boot": timedelta(minutes=3),
        "hazard_per_hour": 0.1,
    }
    return Offer(**(fixed | values))


def job(name: str = "j1", **values: Any) -> WaitingJob:
    fixed: dict[str, Any] = {
        "id": name,
        "name": name,
        "user": "wei",
        "project": "vision",
        "priority": 0,
        "submitted_at": NOW,
        "needs": (Need(gpu_memory=12 * GIB),),
        "work": WorkView(checkpointed=True, interval_h=0.2),
        "disk": 0,
    }
    return WaitingJob(**(fixed | values))


def snapshot(offers: list[Offer], waiting: list[WaitingJob] | None = None, **values: Any) -> Snapshot:
    fixed: dict[str, Any] = {
        "now": NOW,
        "waiting": tuple(waiting if waiting is not None else [job()]),
        "held": (),
        "machines": (),
        "machine_count": 0,
        "recent_launches": 0,
        "book": PriceBook(offers),
        "hazards": Hazards(()),
        "purse": Purse((), {}, UTC_ZONE),
        "lease": LEASE,
        "choose": ChooseSettings(),
        "stale_after": timedelta(minutes=15),
    }
    return Snapshot(**(fixed | values))


def purse(
    cap_micro: int, scope: tuple[str, str] = ("all", ""), period: str = "month", at_cap: str = "stop", spent: int = 0
) -> Purse:
    cap = Cap("cap", scope, period, cap_micro, at_cap)
    return Purse((cap,), {("cap", window_of(period, NOW, UTC_ZONE).start): spent}, UTC_ZONE)


def test_the_same_snapshot_gives_the_same_plan_and_stays_as_it_was() -> None:
    seen = snapshot([offer("a"), offer("b", hourly=300_000)], purse=purse(10_000_000))
    assert decide(seen) == decide(seen)
    assert seen.purse.leases == {}


def test_the_cheapest_offer_in_expectation_wins_and_the_next_ones_are_told() -> None:
    (launch,) = decide(
        snapshot([offer("a"), offer("b", hourly=300_000), offer("c", Market.ON_DEMAND, 900_000)])
    ).launches
    assert launch.offer.pool.zone == "b"
    assert [c.offer.pool.zone for c in launch.runners_up] == ["a", "c"]
    assert launch.bid_micro == 1_000_000


def test_a_cheap_pool_that_is_often_interrupted_loses_against_a_dearer_calm_one() -> None:
    wild = offer("a", hourly=300_000, hazard_per_hour=6.0)
    calm = offer("b", hourly=330_000, hazard_per_hour=0.02)
    (launch,) = decide(snapshot([wild, calm])).launches
    assert launch.offer.pool.zone == "b"


def test_owned_capacity_comes_first_while_it_is_free() -> None:
    owned = offer("r", Market.RESERVED, 0, free=1)
    plan = decide(snapshot([offer("a"), owned], [job("j1"), job("j2")]))
    assert [launch.offer.pool.market for launch in plan.launches] == [Market.RESERVED, Market.SPOT]


def test_stock_is_shared_between_the_jobs_of_one_plan() -> None:
    plan = decide(snapshot([offer("a", free=1), offer("b", hourly=500_000)], [job("j1"), job("j2")]))
    assert [launch.offer.pool.zone for launch in plan.launches] == ["a", "b"]


def test_priority_then_age_decides_who_comes_first() -> None:
    old = job("old", submitted_at=NOW - timedelta(hours=1))
    new, urgent = job("new"), job("urgent", priority=10)
    plan = decide(snapshot([offer("a", free=2)], [new, old, urgent]))
    assert [launch.job for launch in plan.launches] == ["urgent", "old"]
    assert [skip.job for skip in plan.skips] == ["new"]


def test_a_job_that_fits_nowhere_is_told_the_nearest_miss() -> None:
    (skip,) = decide(snapshot([offer()], [job(needs=(Need(gpu_memory=80 * GIB),))])).skips
    assert "80GB" in str(skip.reason)


def test_a_price_limit_is_also_the_bid_and_what_the_lease_is_priced_at() -> None:
    (launch,) = decide(snapshot([offer()], [job(needs=(Need(max_hourly_micro=450_000),))])).launches
    assert launch.bid_micro == 450_000
    assert launch.lease.hourly_micro == 450_000


def test_the_first_lease_covers_boot_and_the_time_to_end_the_machine() -> None:
    (launch,) = decide(snapshot([offer()])).launches
    assert launch.lease.until - NOW == timedelta(minutes=12)


def test_no_launch_without_room_for_its_lease() -> None:
    needed = 200_000  # twelve minutes at the ceiling of 1 USD an hour
    assert decide(snapshot([offer()], purse=purse(needed))).launches
    (skip,) = decide(snapshot([offer()], purse=purse(needed - 1))).skips
    assert skip.reason.values["budget"] == "cap"


def test_two_jobs_do_not_share_the_same_money() -> None:
    plan = decide(snapshot([offer()], [job("j1"), job("j2")], purse=purse(399_999)))
    assert len(plan.launches) == 1
    assert len(plan.skips) == 1


def test_a_cheaper_offer_is_taken_when_money_is_short() -> None:
    dear, cheap = offer("a", hourly=400_000), offer("b", hourly=450_000, ceiling_micro=500_000)
    (launch,) = decide(snapshot([dear, cheap], purse=purse(150_000))).launches
    assert launch.offer.pool.zone == "b"


def test_a_job_whose_own_cap_is_used_up_is_held() -> None:
    (hold,) = decide(snapshot([offer()], purse=purse(100, ("job", "j1"), "total"))).holds
    assert hold.budget == "cap"


def test_a_holding_cap_waits_for_room_for_the_whole_job() -> None:
    ten_hours = job(work=WorkView(hours=10, on_gpu="A10G", checkpointed=True, interval_h=0.2))
    assert decide(snapshot([offer()], [ten_hours], purse=purse(9_000_000, at_cap="hold"))).launches
    assert not decide(snapshot([offer()], [ten_hours], purse=purse(2_000_000, at_cap="hold"))).launches


def test_a_quota_rules_out_its_family_and_market_only() -> None:
    quotas = (Quota("aws", "us-east-1", "g", Market.SPOT, limit=4, used=2, unit="vcpus"),)
    (launch,) = decide(snapshot([offer(), offer("c", Market.ON_DEMAND, 900_000)], quotas=quotas)).launches
    assert launch.offer.pool.market is Market.ON_DEMAND


@pytest.mark.parametrize(
    ("values", "code"),
    [
        ({"waiting": (job(not_before=NOW + timedelta(hours=1)),)}, "wait.not_before"),
        ({"waiting": (job(waits_for=("first",)),)}, "wait.after"),
        ({"machine_count": 100}, "wait.machines"),
        ({"recent_launches": 20}, "wait.launches"),
        ({"uncapped_clouds": frozenset({"aws"})}, "wait.no_cap"),
    ],
)
def test_a_job_that_must_wait_is_told_why(values: dict[str, Any], code: str) -> None:
    plan = decide(snapshot([offer()], **values))
    assert not plan.launches
    assert [skip.reason.code for skip in plan.skips] == [code]


def test_stale_prices_never_win() -> None:
    (launch,) = decide(snapshot([offer("a", as_of=NOW - timedelta(hours=1)), offer("b", hourly=700_000)])).launches
    assert launch.offer.pool.zone == "b"


def test_a_near_deadline_leaves_no_room_for_an_interruption() -> None:
    offers = [offer("a"), offer("c", Market.ON_DEMAND, 900_000)]
    work = WorkView(hours=2, on_gpu="A10G", checkpointed=True, interval_h=0.2)
    (relaxed,) = decide(snapshot(offers, [job(work=work, deadline=NOW + timedelta(hours=6))])).launches
    (hurried,) = decide(snapshot(offers, [job(work=work, deadline=NOW + timedelta(hours=2.1))])).launches
    assert (relaxed.offer.pool.market, hurried.offer.pool.market) == (Market.SPOT, Market.ON_DEMAND)
    assert decide(snapshot(offers[:1], [job(work=work, deadline=NOW + timedelta(hours=2.1))])).launches  # best effort


def live(minutes_left: float, age: float = 30, **values: Any) -> LiveMachine:
    lease = Lease("m1", job().scopes("aws"), NOW, NOW + timedelta(minutes=minutes_left) + LEASE.end, 1_000_000)
    return LiveMachine("m1", lease, NOW - timedelta(minutes=age), **({"renewable": True} | values))


def renewing(machine: LiveMachine, cap_micro: int) -> Snapshot:
    seen = snapshot([], [], machines=(machine,), purse=purse(cap_micro))
    seen.purse.take(machine.lease)
    return seen


def test_a_lease_is_renewed_when_half_of_it_has_passed_and_grows_with_age() -> None:
    assert not decide(renewing(live(minutes_left=20), 10_000_000)).renewals
    (renewal,) = decide(renewing(live(minutes_left=10), 10_000_000)).renewals
    assert renewal.lease.until == NOW + timedelta(minutes=30) + LEASE.end  # as long as it has lived
    (young,) = decide(renewing(live(minutes_left=4, age=1), 10_000_000)).renewals
    assert young.lease.until == NOW + LEASE.length + LEASE.end
    (old,) = decide(renewing(live(minutes_left=4, age=1000), 10_000_000)).renewals
    assert old.lease.until == NOW + LEASE.longest + LEASE.end


def test_a_machine_that_was_not_heard_is_not_renewed() -> None:
    assert decide(renewing(live(minutes_left=1, renewable=False), 10_000_000)) == decide(
        renewing(live(1, renewable=False), 0)
    )


def test_near_a_cap_leases_shrink_and_at_the_cap_the_machine_stops() -> None:
    nine_minutes = 150_000  # of 1 USD an hour
    (shorter,) = decide(renewing(live(minutes_left=3), nine_minutes)).renewals
    assert NOW + timedelta(minutes=7.9) < shorter.lease.until - LEASE.end <= NOW + timedelta(minutes=8)
    plan = decide(renewing(live(minutes_left=1.5), 45_000))
    assert [stop.budget for stop in plan.stops] == ["cap"]
    assert not plan.renewals


def test_a_held_job_is_released_when_its_cap_is_raised_gone_or_in_its_next_period() -> None:
    month = window_of("month", NOW, UTC_ZONE).start
    held = HeldJob("j1", "cap", 1_000_000, month)
    as_it_was = snapshot([], [], held=(held,), purse=purse(1_000_000))
    assert not decide(as_it_was).releases
    assert decide(replace(as_it_was, purse=purse(1_000_001))).releases
    assert decide(replace(as_it_was, purse=Purse((), {}, UTC_ZONE))).releases
    last_month = replace(held, period_start=window_of("month", NOW - timedelta(days=31), UTC_ZONE).start)
    assert decide(replace(as_it_was, held=(last_month,))).releases
