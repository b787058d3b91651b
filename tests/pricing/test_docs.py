"""The pages on prices and choosing say what the code does."""

import re
from datetime import timedelta
from pathlib import Path

import pytest

from config.units import Money
from pricing.book import PriceBook
from pricing.expected_cost import WorkView, best_interval
from pricing.filters import FILTERS
from pricing.history import Hazards
from pricing.need import Need
from pricing.offer import Market, Offer
from pricing.ranking import Ranked, rank
from tests.pricing.offers import GIB, NOW, STALE_AFTER, offer

DOCS = Path(__file__).parents[2] / "docs"
CHOOSING = (DOCS / "choosing.md").read_text(encoding="utf-8")
WORK = WorkView(hours=10, checkpointed=True, interval_h=0.5, write_h=1 / 60, restore_h=2 / 60)
NEED = Need(gpu_memory=14 * GIB)
OFFERS = [  # market, GPU, price an hour, interruptions an hour
    (Market.SPOT, "V100-16", "1.10", 0.1),
    (Market.SPOT, "V100-16", "0.90", 1.4),
    (Market.SPOT, "A100-40", "1.95", 0.5),
    (Market.ON_DEMAND, "V100-16", "3.06", 0.0),
    (Market.ON_DEMAND, "H100-80", "6.88", 0.0),
    (Market.RESERVED, "T4", "0.00", 0.0),
]


def example() -> list[Ranked]:
    offers = [_offer(*row, n) for n, row in enumerate(OFFERS)]
    book = PriceBook(offers)
    selection = book.select(NEED, NOW, closed={}, stale_after=STALE_AFTER, quotas=(), checkpointed=True)
    return rank(book, selection, WORK, Hazards(()), NEED)


def _offer(market: Market, gpu: str, price: str, hazard: float, n: int) -> Offer:
    micro = Money.parse(price).micro
    return offer(
        gpu,
        market,
        hourly_micro=micro,
        ceiling_micro=micro * 4,
        hazard_per_hour=hazard,
        boot=timedelta(minutes=3),
        type=str(n),
    )


def table() -> list[str]:
    """Return the table of the worked example as the page must have it."""
    return [
        f"| {one.offer.pool.market} {one.offer.gpu} | ${one.offer.hourly_micro / 1e6:.2f} | {one.offer.hazard_per_hour:g} "
        f"| ${one.per_work_hour_micro / 1e6:.2f} | {one.expected_hours:.1f} h | {one.interruptions:.1f} "
        f"| ${one.expected_micro / 1e6:.2f} |"
        for one in example()
        if one.expected_micro is not None
    ]


def test_the_worked_example_is_what_the_code_reckons() -> None:
    shown = [line for line in CHOOSING.splitlines() if re.match(r"\| (spot|on-demand|reserved) ", line)]
    assert shown == table()


def test_the_sums_in_the_text_are_right() -> None:
    told = re.search(
        r"0\.5 interruptions an hour and a write of one minute the best interval is (\d+) minutes",
        " ".join(CHOOSING.split()),
    )
    assert told
    assert int(told[1]) == pytest.approx(60 * best_interval(0.5, 1 / 60), abs=0.5)


def test_every_filter_is_explained_in_its_place() -> None:
    explained = re.findall(r"^\| `(\w+)` \|", CHOOSING, re.MULTILINE)
    assert explained == [one.name for one in FILTERS]


def test_every_doubt_is_explained() -> None:
    prices = (DOCS / "prices.md").read_text(encoding="utf-8")
    for code in ("not_a_price", "free", "spot_above_on_demand", "above_ceiling", "currency", "jump"):
        assert f"| `{code}` |" in prices
