"""Offers, needs and questions for tests: each names only what it is about."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from config.gpus import usable_bytes
from pricing.book import PriceBook, Selection
from pricing.need import Need
from pricing.offer import Market, Offer, Pool

NOW = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)
GIB = 1024**3
USD = 1_000_000
STALE_AFTER = timedelta(minutes=15)


def offer(gpu: str = "L4", market: Market = Market.SPOT, **changes: Any) -> Offer:
    """Return an offer for one `gpu`; `cloud`, `region`, `zone` and `type` go to its pool, the rest to the offer."""
    place = {name: changes.pop(name) for name in ("cloud", "region", "zone", "type") if name in changes}
    pool = replace(Pool("aws", "us-east-1", "us-east-1a", f"one-{gpu or 'cpu'}", market), **place)
    plain = Offer(
        pool=pool, gpu=gpu, gpus=1.0 if gpu else 0.0, gpu_memory=usable_bytes(gpu) if gpu else 0, vcpus=8, memory=32 * GIB,
        hourly_micro=USD // 4, ceiling_micro=USD, as_of=NOW, family="g", native_hourly="0.25 USD",
    )  # fmt: skip
    return replace(plain, **changes)


def select(need: Need, *offers: Offer, **changes: Any) -> tuple[PriceBook, Selection]:
    """Return a book of these offers and what of it satisfies `need`."""
    book = PriceBook(offers)
    question: dict[str, Any] = {
        "now": NOW,
        "closed": {},
        "stale_after": STALE_AFTER,
        "quotas": (),
        "checkpointed": True,
    } | changes
    return book, book.select(need, **question)


def types(need: Need, *offers: Offer, **changes: Any) -> list[str]:
    """Return the machine types that satisfy `need`."""
    book, selection = select(need, *offers, **changes)
    return [book.offers[row].pool.type for row in selection.indices]
