"""What work costs in truth: price, speed, boot, restore, checkpoint writes and lost work (docs/choosing.md has the sums).

Times are hours, rates are per hour, money is whatever unit the price is in. The formulas come from renewal theory: a
machine's life is one cycle; see Daly, "A higher order estimate of the optimum checkpoint interval" (2006).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

_TINY = 1e-9


@dataclass(frozen=True, slots=True)
class WorkView:
    """What is known of a job's work. `hours` is what is left, on one GPU `on_gpu`; None when nobody said."""

    hours: float | None = None
    on_gpu: str = ""
    checkpointed: bool = False
    interval_h: float | None = None
    write_h: float = 1 / 60  # the blocking part of writing one checkpoint
    restore_h: float = 2 / 60


def per_work_hour(price: float, speed: float, hazard: float, interval: float, write: float, restart: float) -> float:
    """Return the cost of one hour of work when lives are exponential and work since the last checkpoint is lost.

    kappa = p e^(l r) (e^(l (t + c)) - 1) / (l s t), for l -> 0: p (1 + c / t) / s.
    """
    if hazard < _TINY:
        return price * (1 + write / interval) / speed
    growth = math.expm1(hazard * (interval + write)) / (hazard * interval)
    return price * math.exp(hazard * restart) * growth / speed


def per_work_hour_with_notice(price: float, speed: float, hazard: float, interval: float, write: float, restart: float) -> float:
    """Return the cost of one hour of work when each interruption is announced early enough to save: nothing is lost."""
    if hazard < _TINY:
        return price * (1 + write / interval) / speed
    useful = math.exp(-hazard * (restart + write)) / hazard
    return price / hazard / (speed * useful * interval / (interval + write))


def per_work_hour_by_law(
    price: float, speed: float, survival: Callable[[float], float], mean_life: float, interval: float, write: float, restart: float
) -> float:
    """Return the cost of one hour of work for any law of life, `survival(t) = P(life > t)`."""
    segments, k = 0.0, 1
    while (alive := survival(restart + k * (interval + write))) > 1e-7 and k < 1_000_000:
        segments += alive
        k += 1
    return price * mean_life / (speed * interval * segments) if segments else math.inf


def whole_job(price: float, per_hour: float, work: float, hazard: float, first_start: float) -> float:
    """Return the cost of `work` hours at `per_hour`, the first start included."""
    start = first_start if hazard < _TINY else math.expm1(hazard * first_start) / hazard
    return price * start + work * per_hour


def without_checkpoints(price: float, speed: float, hazard: float, work: float, restart: float) -> float:
    """Return the cost of a job that starts from zero after every interruption: p (e^(l (W/s + r)) - 1) / l."""
    length = work / speed + restart
    if hazard < _TINY:
        return price * length
    exponent = hazard * length
    return math.inf if exponent > 700 else price * math.expm1(exponent) / hazard


def best_interval(hazard: float, write: float) -> float:
    """Return the checkpoint interval of least cost: the root of l t = 1 - e^(-l (t + c)), found by Newton's method."""
    if hazard < _TINY:
        return math.inf
    x = math.sqrt(2 * hazard * write)  # Young's first guess, in units of 1 / l
    for _ in range(30):
        e = math.exp(-(x + hazard * write))
        step = (x - 1 + e) / (1 - e)
        x -= step
        if abs(step) < 1e-12:
            break
    return x / hazard


def young_interval(hazard: float, write: float) -> float:
    """Return Young's approximation, sqrt(2 c / l)."""
    return math.sqrt(2 * write / hazard)


def daly_interval(hazard: float, write: float) -> float:
    """Return Daly's approximation for c < 2 / l."""
    ratio = write * hazard / 2
    return math.sqrt(2 * write / hazard) * (1 + math.sqrt(ratio) / 3 + ratio / 9) - write
