"""Put the offers that fit in the order of what the job would really cost on them."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from config.reason import Reason
from config.units import parse_memory
from pricing import expected_cost as cost
from pricing.book import PriceBook, Selection
from pricing.columns import Columns, Floats, Mask, speed
from pricing.history import Hazards
from pricing.need import Need
from pricing.offer import Market, Offer

LIMIT = 100
"""How many offers are handed on, at most: nobody tries more of them in one go."""
_LONGEST_INTERVAL = 24.0  # hours between checkpoints, if the job leaves it to us
_UNKNOWN_HOURS = 4.0  # of V100 work: how long a job without checkpoints is taken to be when nobody said
_DISK_UNIT = parse_memory("100GB")
_RAREST = 1e-4  # interruptions an hour, for a sentence that names the hours between two
_LEAST_HOURS = 0.01  # of work: there is always something to do
_FOREVER = 1e9  # hours: what can't be finished takes this long
_MOST = 2.0**62  # micro-units, the largest amount


@dataclass(frozen=True, slots=True)
class Ranked:
    """One offer with what the job would cost on it."""

    offer: Offer
    index: int  # its row in the book
    expected_micro: int | None  # to finish, None when the work left is unknown
    per_work_hour_micro: int  # for the work that one V100 does in an hour
    expected_hours: float | None  # that machines run until the job is done, lost work and restarts included
    interruptions: float | None  # expected until the job is done
    why: Reason

    @property
    def order(self) -> tuple[bool, int, int, float, str]:
        """Return what sorts offers, the best first: owned, then by cost, price, interruptions and the pool's name."""
        dear = self.per_work_hour_micro if self.expected_micro is None else self.expected_micro
        owned = self.offer.pool.market is Market.RESERVED
        return not owned, dear, self.offer.hourly_micro, self.interruptions or 0.0, str(self.offer.pool)


@dataclass(frozen=True, slots=True)
class _Sums:
    """What is reckoned for the rows of a selection, each an array."""

    speed: Floats  # work-hours an hour, for this job
    hazard: Floats
    hourly: Floats  # with its disk
    each: Floats  # hours that machines run for one work-hour
    total: Floats  # hours that machines run for the whole job; for one work-hour where the work is unknown


def rank(
    book: PriceBook, selection: Selection, work: cost.WorkView, hazards: Hazards, need: Need, limit: int = LIMIT
) -> list[Ranked]:
    """Return the best offers of a selection: owned capacity first, then the cheapest in expectation.

    Ties go to the lower price, then to fewer interruptions, then by the pool's name.
    """
    rows, columns = selection.indices, book.columns
    sums = _sums(columns, rows, work, hazards, need)
    dear = _micro(sums.hourly * sums.total)
    # A stable sort, and the book is in the order of its pools' names.
    order = np.lexsort((sums.hazard * sums.total, columns.hourly[rows], dear, ~columns.reserved[rows]))
    return [_ranked(book, int(rows[n]), int(n), sums, known=work.hours is not None) for n in order[:limit]]


def _sums(columns: Columns, rows: NDArray[np.intp], work: cost.WorkView, hazards: Hazards, need: Need) -> _Sums:
    fast = _speed(columns, need)[rows]
    hazard = hazards.rates(columns.rows, columns.advice)[rows]
    restart = columns.boot_h[rows] + work.restore_h
    hours = None if work.hours is None else max(work.hours * speed(work.on_gpu), _LEAST_HOURS)
    each, total = _hours(fast, hazard, restart, columns.notice_h[rows] >= work.write_h, work, hours)
    disk = columns.disk_hourly[rows] * (need.disk / _DISK_UNIT)
    return _Sums(fast, hazard, columns.hourly[rows] + disk, each, total)


def _speed(columns: Columns, need: Need) -> Floats:
    """Return V100s' worth of each offer, of the GPUs that the job uses: GPUs that it can't use don't make it faster."""
    if not need.gpus:
        return np.ones(len(columns))
    usable = max(need.gpus, 1.0)  # a job that asks for a part of a GPU is as fast as the GPU that it gets
    return columns.card_speed * np.minimum(columns.gpus, usable) / usable


def _hours(
    fast: Floats, hazard: Floats, restart: Floats, warned: Mask, work: cost.WorkView, hours: float | None
) -> tuple[Floats, Floats]:
    """Return the hours that machines run for one hour of work, and for all of it. The price of an hour is one here."""
    if not work.checkpointed:
        length = _UNKNOWN_HOURS if hours is None else hours
        whole = cost.without_checkpoints(1.0, fast, hazard, length, restart)
        return _finite(whole / length), _finite(whole if hours is not None else whole / length)
    interval = work.interval_h or np.minimum(cost.best_interval(hazard, work.write_h), _LONGEST_INTERVAL)
    with np.errstate(over="ignore"):
        saved, lost = (
            kind(1.0, fast, hazard, interval, work.write_h, restart)
            for kind in (cost.per_work_hour_with_notice, cost.per_work_hour)
        )
    each = _finite(np.where(warned, saved, lost))
    return each, each if hours is None else _finite(cost.whole_job(1.0, each, hours, hazard, restart))


def _finite(hours: cost.Real) -> Floats:
    return np.minimum(hours, _FOREVER)


def _ranked(book: PriceBook, row: int, n: int, sums: _Sums, *, known: bool) -> Ranked:
    offer, hours = book.offers[row], float(sums.total[n])
    return Ranked(
        offer=offer,
        index=row,
        expected_micro=int(_micro(sums.hourly[n] * hours)) if known else None,
        per_work_hour_micro=int(_micro(sums.hourly[n] * sums.each[n])),
        expected_hours=hours if known else None,
        interruptions=float(sums.hazard[n] * hours) if known else None,
        why=_why(offer, n, sums),
    )


def _why(offer: Offer, n: int, sums: _Sums) -> Reason:
    """Say what the offer is worth: its price, its speed, how long its machines live, and what that comes to."""
    return Reason(f"win.{offer.pool.market.replace('-', '_')}", {
        "per_work_hour_micro": int(_micro(sums.hourly[n] * sums.each[n])),
        "sticker_hourly_micro": offer.hourly_micro,
        "speed": f"{sums.speed[n]:.2g}",
        "life_s": 3600 / max(float(sums.hazard[n]), _RAREST),
    })  # fmt: skip


def _micro(amount: Floats) -> NDArray[np.int64]:
    """Round money up to whole micro-units."""
    return np.ceil(np.minimum(amount, _MOST)).astype(np.int64)
