"""The arithmetic of caps: nothing is ever promised that a cap has no room for."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from config.units import cost_micro
from daemon.budgets import Cap, Lease, Purse, Shortfall, Window, scopes, window_of, windows

UTC_ZONE = ZoneInfo("UTC")
SHANGHAI = ZoneInfo("Asia/Shanghai")
NEW_YORK = ZoneInfo("America/New_York")
NOON = datetime(2026, 12, 1, 12, tzinfo=UTC)
EVERYTHING = scopes("j1", "vision", "wei", "aws")

moments = st.integers(0, 3 * 365 * 86_400 * 10**6).map(
    lambda us: datetime(2025, 1, 1, tzinfo=UTC) + timedelta(microseconds=us)
)
zones = st.sampled_from([UTC_ZONE, SHANGHAI, NEW_YORK, ZoneInfo("Asia/Kolkata"), ZoneInfo("Australia/Lord_Howe")])
periods = st.sampled_from(["hour", "day", "week", "month", "total"])


def lease(hours: float = 1, hourly: int = 1_000_000, start: datetime = NOON, machine: str = "m1") -> Lease:
    return Lease(machine, EVERYTHING, start, start + timedelta(hours=hours), hourly)


@given(moments, zones, periods)
def test_every_moment_lies_in_exactly_one_period(at: datetime, zone: ZoneInfo, period: str) -> None:
    window = window_of(period, at, zone)
    assert window.start <= at < window.end
    assert window_of(period, window.start, zone) == window
    if period != "total":
        assert window_of(period, window.end, zone).start == window.end
        assert window_of(period, window.end - timedelta(microseconds=1), zone) == window


def test_periods_begin_in_the_budgets_own_time_zone() -> None:
    at = datetime(2026, 11, 30, 17, 0, tzinfo=UTC)  # already December in Shanghai
    assert window_of("month", at, SHANGHAI) == Window(
        datetime(2026, 11, 30, 16, tzinfo=UTC), datetime(2026, 12, 31, 16, tzinfo=UTC)
    )
    assert window_of("month", at, UTC_ZONE).start == datetime(2026, 11, 1, tzinfo=UTC)


def test_a_day_with_a_clock_change_is_23_or_25_hours_long() -> None:
    spring = window_of("day", datetime(2026, 3, 8, 15, tzinfo=UTC), NEW_YORK)
    autumn = window_of("day", datetime(2026, 11, 1, 15, tzinfo=UTC), NEW_YORK)
    assert (spring.end - spring.start, autumn.end - autumn.start) == (timedelta(hours=23), timedelta(hours=25))


def test_a_lease_that_crosses_the_end_of_a_period_counts_in_each_for_its_share() -> None:
    over_midnight = lease(hours=2, hourly=3_000_000, start=datetime(2026, 12, 1, 23, 30, tzinfo=UTC))
    first, second = windows("day", over_midnight.start, over_midnight.until, UTC_ZONE)
    assert over_midnight.share_micro(first) == 1_500_000
    assert over_midnight.share_micro(second) == 4_500_001  # one more: a carried part of a micro-unit may come on top


def test_a_cap_with_room_admits_and_one_without_says_how_much_is_missing() -> None:
    cap = Cap("all/month", ("all", ""), "month", 10_000_000)
    purse = Purse((cap,), {("all/month", window_of("month", NOON, UTC_ZONE).start): 9_200_000}, UTC_ZONE)
    assert purse.shortfall(lease(hours=0.8)) is None
    lack = purse.shortfall(lease(hours=0.9))
    assert lack is not None
    assert (lack.spent_micro, lack.needed_micro) == (9_200_000, 900_000)
    assert lack.reason.values["left_micro"] == 800_000


def test_a_machines_own_present_lease_does_not_stand_in_its_way() -> None:
    purse = Purse((Cap("all/total", ("all", ""), "total", 1_000_000),), {}, UTC_ZONE, {"m1": lease()})
    assert purse.shortfall(lease()) is None
    assert purse.shortfall(lease(machine="m2")) is not None


def test_a_budget_of_another_scope_does_not_count() -> None:
    purse = Purse((Cap("user:li/total", ("user", "li"), "total", 0),), {}, UTC_ZONE)
    assert purse.shortfall(lease()) is None


def test_a_holding_cap_needs_room_for_the_whole_job() -> None:
    caps = (Cap("project:vision/month", ("project", "vision"), "month", 5_000_000, at_cap="hold"),)
    purse = Purse(caps, {}, UTC_ZONE)
    assert purse.holding(lease(), 5_000_000) is None
    assert purse.holding(lease(), 5_000_001) is not None


@given(
    cap=st.integers(0, 10**9),
    spent=st.integers(0, 10**9),
    hourly=st.integers(0, 10**8),
    wanted=st.timedeltas(timedelta(seconds=1), timedelta(days=3)),
    start=moments,
    period=periods,
    zone=zones,
)
def test_the_longest_lease_fits_and_a_longer_one_does_not(
    cap: int, spent: int, hourly: int, wanted: timedelta, start: datetime, period: str, zone: ZoneInfo
) -> None:
    purse = Purse((Cap("c", ("all", ""), period, cap),), {("c", window_of(period, start, zone).start): spent}, zone)
    asked = Lease("m1", EVERYTHING, start, start + wanted, hourly)
    granted = purse.longest(asked, start + min(wanted, timedelta(seconds=1)))
    if isinstance(granted, Shortfall):
        assert granted.spent_micro + granted.leased_micro + granted.needed_micro > cap
        return
    assert purse.shortfall(granted) is None
    assert granted.until <= asked.until
    if granted.until < asked.until:
        assert purse.shortfall(replace(granted, until=granted.until + timedelta(seconds=0.2))) is not None
    purse.take(granted)
    assert spent > cap or not purse.overdrawn()


@given(
    hourly=st.integers(0, 10**8),
    pieces=st.lists(st.integers(1, 10**7), min_size=1, max_size=20),
    start=moments,
)
def test_charging_in_pieces_never_uses_more_than_was_set_aside(hourly: int, pieces: list[int], start: datetime) -> None:
    """However a lease's time is cut into billing intervals, spent + what is still set aside never grows."""
    left = Lease("m1", EVERYTHING, start, start + timedelta(milliseconds=sum(pieces)), hourly)
    promised, spent = left.total_micro, 0
    for piece in pieces:
        amount, carried = cost_micro(hourly, piece, left.carried)
        spent += amount
        left = replace(left, start=left.start + timedelta(milliseconds=piece), carried=carried)
        assert spent + left.total_micro <= promised


@pytest.mark.parametrize("period", ["hour", "day", "week", "month"])
def test_overdrawn_names_the_period_that_is(period: str) -> None:
    purse = Purse((Cap("c", ("all", ""), period, 1_999_999),), {}, UTC_ZONE, {"m1": lease(hours=2)})
    found = purse.overdrawn()
    assert bool(found) == (period != "hour")  # an hour holds one of the two
