"""Prices that can't be right never get into the book."""

from dataclasses import replace
from typing import Any

import pytest

from config.reason import sentences
from pricing.offer import Market, Offer
from pricing.quarantine import sift
from tests.pricing.offers import USD, offer

SPOT = offer(hourly_micro=USD, ceiling_micro=3 * USD)
ON_DEMAND = offer(market=Market.ON_DEMAND, hourly_micro=3 * USD, ceiling_micro=3 * USD)
OWNED = offer(market=Market.RESERVED, hourly_micro=0, ceiling_micro=0)
POOL = str(SPOT.pool)


def doubt(one: Offer, last: int | None = None, suspect: int | None = None) -> str:
    """Return the code of the doubt, or nothing when the offer is believed."""
    known = {POOL: last} if last is not None else {}
    believed, doubted = sift([one], known, 5.0, {POOL: suspect} if suspect is not None else {})
    assert (len(believed), len(doubted)) in {(1, 0), (0, 1)}
    return doubted[0][1].code if doubted else ""


def test_what_is_plausible_is_believed() -> None:
    assert [doubt(one) for one in (SPOT, ON_DEMAND, OWNED)] == ["", "", ""]


@pytest.mark.parametrize("price", [-1, float("nan"), 0.5, None, "1", 2**63])
def test_what_is_no_price(price: Any) -> None:
    assert doubt(replace(ON_DEMAND, hourly_micro=price)) == "doubt.not_a_price"
    assert doubt(replace(SPOT, ceiling_micro=price)) == "doubt.not_a_price"


def test_nothing_is_free_but_what_is_owned() -> None:
    assert doubt(replace(ON_DEMAND, hourly_micro=0)) == "doubt.free"
    assert doubt(replace(SPOT, hourly_micro=0)) == "doubt.free"
    assert doubt(OWNED) == ""


@pytest.mark.parametrize(
    ("dollars", "code"), [(2, ""), (3, "doubt.spot_above_on_demand"), (4, "doubt.spot_above_on_demand")]
)
def test_spot_is_cheaper_than_on_demand_or_wrong(dollars: int, code: str) -> None:
    assert doubt(replace(SPOT, hourly_micro=dollars * USD)) == code


def test_nothing_costs_more_than_it_can_cost() -> None:
    assert doubt(replace(ON_DEMAND, ceiling_micro=3 * USD - 1)) == "doubt.above_ceiling"


@pytest.mark.parametrize(
    ("last", "code"),
    [(USD // 5, ""), (USD // 5 - 1, "doubt.jump"), (5 * USD, ""), (5 * USD + 1, "doubt.jump"), (0, "")],
)
def test_a_jump_is_looked_at_twice(last: int, code: str) -> None:
    assert doubt(SPOT, last=last) == code


@pytest.mark.parametrize(
    ("suspect", "code"), [(USD, ""), (USD * 105 // 100, ""), (2 * USD, "doubt.jump"), (USD // 2, "doubt.jump")]
)
def test_a_jump_is_believed_when_it_is_seen_again(suspect: int, code: str) -> None:
    assert doubt(SPOT, last=20 * USD, suspect=suspect) == code


def test_what_can_not_be_is_not_believed_the_second_time_either() -> None:
    assert doubt(replace(ON_DEMAND, hourly_micro=0), last=USD, suspect=0) == "doubt.free"


def test_another_currency_needs_a_rate() -> None:
    yuan = replace(ON_DEMAND, native_hourly="21.30 CNY")
    assert doubt(yuan) == "doubt.currency"
    assert doubt(replace(yuan, fx_rate="0.14")) == ""
    assert sift([yuan], {}, 5.0, {}, currency="CNY") == ([yuan], [])
    assert doubt(replace(OWNED, native_hourly="21.30 CNY")) == ""


def test_one_wrong_price_does_not_taint_the_others() -> None:
    wrong = replace(ON_DEMAND, hourly_micro=0)
    believed, [(doubted, _)] = sift([SPOT, wrong, OWNED], {}, 5.0, {})
    assert (believed, doubted) == ([SPOT, OWNED], wrong)


def test_every_doubt_has_a_sentence() -> None:
    suspicious = [
        replace(ON_DEMAND, hourly_micro=-1), replace(ON_DEMAND, hourly_micro=0), replace(SPOT, hourly_micro=4 * USD),
        replace(ON_DEMAND, ceiling_micro=1), replace(ON_DEMAND, native_hourly="1 CNY"), SPOT,
    ]  # fmt: skip
    _, doubted = sift(suspicious, {POOL: 100 * USD}, 5.0, {})
    codes = {reason.code for _, reason in doubted}
    assert codes == {code for code in sentences() if code.startswith("doubt.")}
    assert all("unknown" not in str(reason) for _, reason in doubted)
