"""Put the offers that fit in the order of what the job would really cost on them."""

import math
from dataclasses import dataclass

from config import gpus
from config.reason import Reason
from pricing import expected_cost as cost
from pricing.book import PriceBook, Selection
from pricing.history import Hazards
from pricing.need import Need
from pricing.offer import Offer

_ON_DEMAND_HAZARD = 0.0002  # machines break, too: about once in seven months
_KEPT = 200
"""How many of the offers with the lowest price per unit of speed are looked at closely."""


@dataclass(frozen=True, slots=True)
class Ranked:
    """One offer with what the job would cost on it."""

    offer: Offer
    expected_micro: int | None  # to finish, None when the work left is unknown
    per_work_hour_micro: int  # for the work that one V100 does in an hour
    interruptions: float | None  # expected until the job is done
    why: Reason


def rank(book: PriceBook, selection: Selection, work: cost.WorkView, hazards: Hazards, need: Need) -> list[Ranked]:
    """Return the offers of `selection`, the cheapest in expectation first; ties go to the lower price, then by name."""
    indices = selection.indices
    if len(indices) > _KEPT:
        sticker = book.hourly[indices] / book.speed[indices]
        indices = indices[sticker.argsort(kind="stable")[:_KEPT]]
    ranked = [_judge(book, int(i), work, hazards, need) for i in indices]
    return sorted(
        (r for r in ranked if r is not None),
        key=lambda r: (r.per_work_hour_micro, r.offer.hourly_micro, str(r.offer.pool)),
    )


def _judge(book: PriceBook, index: int, work: cost.WorkView, hazards: Hazards, need: Need) -> Ranked | None:
    offer = book.offers[index]
    spot = bool(book.spot[index])
    if spot and not work.checkpointed and need.spot != "yes":
        return None  # a job that would start from zero goes to spot only when it says so
    hazard = hazards.rate(str(offer.pool), offer.hazard_per_hour) if spot else _ON_DEMAND_HAZARD
    speed = float(book.speed[index]) * min(1.0, offer.gpus / need.gpus if need.gpus else 1.0)
    price = float(offer.hourly_micro)
    restart = float(book.boot_h[index]) + work.restore_h
    hours = None if work.hours is None else work.hours * _speed_of(work.on_gpu)
    per_hour = _per_hour(price, speed, hazard, restart, work, hours)
    whole = None if hours is None else _whole(price, speed, per_hour, hours, hazard, restart, work)
    return Ranked(
        offer=offer, expected_micro=_micro(whole), per_work_hour_micro=_micro(per_hour) or 0,
        interruptions=None if whole is None or not price or math.isinf(whole) else hazard * whole / price,
        why=Reason("win.reserved" if book.reserved[index] else "win.spot" if spot else "win.on_demand", {
            "per_work_hourly_micro": _micro(per_hour), "sticker_hourly_micro": offer.hourly_micro,
            "hazard": round(hazard, 3), "speed": round(speed, 2),
        }),
    )


def _per_hour(
    price: float, speed: float, hazard: float, restart: float, work: cost.WorkView, hours: float | None
) -> float:
    if work.checkpointed:
        interval = work.interval_h or cost.best_interval(hazard, work.write_h)
        return cost.per_work_hour(price, speed, hazard, min(interval, 24.0), work.write_h, restart)
    length = hours or 1.0
    return cost.without_checkpoints(price, speed, hazard, length, restart) / length


def _whole(
    price: float, speed: float, per_hour: float, hours: float, hazard: float, restart: float, work: cost.WorkView
) -> float:
    if work.checkpointed:
        return cost.whole_job(price, per_hour, hours, hazard, restart)
    return cost.without_checkpoints(price, speed, hazard, hours, restart)


def _speed_of(gpu: str) -> float:
    try:
        return gpus.find(gpu).speed or 1.0 if gpu else 1.0
    except ValueError:
        return 1.0


def _micro(amount: float | None) -> int | None:
    return None if amount is None else 2**62 if math.isinf(amount) else math.ceil(amount)
