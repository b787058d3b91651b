"""What work costs in truth: price, speed, boot, restore, checkpoint writes, lost work (docs/choosing.md).

Times are hours, rates are per hour, money is whatever unit the price is in; every argument may be a number or a numpy
array. The formulas come from renewal theory, where a machine's life is one cycle; see J. T. Daly, "A higher order
estimate of the optimum checkpoint interval for restart dumps" (2006).
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]
Real = float | Numbers
_RAREST = 1e-9  # interruptions an hour: what an interval is reckoned for where there are none
_QUICKEST = 1e-6  # hours: a checkpoint write that takes less counts as this, else the best interval were zero
_NEWTON_STEPS = 8  # from Young's guess, five are enough for every digit


@dataclass(frozen=True, slots=True)
class WorkView:
    """What is known of a job's work. `hours` is what is left, measured on the GPUs it asks for, each an `on_gpu`.

    `on_gpu` is a key of the GPU table, empty for a V100; `interval_h` is None where the best interval may be taken.
    """

    hours: float | None = None  # None when nobody said
    on_gpu: str = ""
    checkpointed: bool = False
    interval_h: float | None = None
    write_h: float = 1 / 60  # the blocking part of writing one checkpoint
    restore_h: float = 2 / 60


def per_work_hour(price: Real, speed: Real, hazard: Real, interval: Real, write: Real, restart: Real) -> Real:
    """Return the cost of one hour of work when lives are exponential and work since the last checkpoint is lost.

    kappa = p e^(l r) (e^(l (t + c)) - 1) / (l s t), and p (1 + c / t) / s without interruptions.
    """
    segment = np.add(interval, write)
    return price * np.exp(hazard * restart) * segment * _growth(hazard * segment) / (speed * interval)


def per_work_hour_with_notice(
    price: Real, speed: Real, hazard: Real, interval: Real, write: Real, restart: Real
) -> Real:
    """Return the cost of one hour of work when each interruption is announced early enough to save: nothing is lost."""
    return price * np.exp(hazard * np.add(restart, write)) * np.add(interval, write) / (speed * interval)


def per_work_hour_by_law(
    price: float, speed: float, survival: Callable[[Numbers], Numbers], mean_life: float,
    interval: float, write: float, restart: float,
) -> float:  # fmt: skip
    """Return the cost of one hour of work for any law of life: `survival(t)` is the chance to live longer than t.

    kappa = p E[L] / (s t sum over k >= 1 of S(r + k (t + c))); the sum ends after a thousand mean lives.
    """
    segment = interval + write
    ends = restart + segment * np.arange(1, 2 + int(1000 * mean_life / segment), dtype=np.float64)
    return price * mean_life / (speed * interval * float(survival(ends).sum()))


def whole_job(price: Real, per_hour: Real, work: Real, hazard: Real, first_start: Real) -> Real:
    """Return the cost of `work` hours at `per_hour` each, the first start and its repetitions included."""
    return price * first_start * _growth(hazard * first_start) + work * per_hour


def without_checkpoints(price: Real, speed: Real, hazard: Real, work: Real, restart: Real) -> Real:
    """Return the cost of a job that starts from zero after every interruption: p (e^(l (W / s + r)) - 1) / l."""
    length = np.divide(work, speed) + restart
    return price * length * _growth(hazard * length)


def interruptions(hazard: Real, billed_hours: Real) -> Real:
    """Return how many interruptions to expect in the hours that machines run (Wald's identity)."""
    return hazard * billed_hours


def best_interval(hazard: Real, write: Real) -> Real:
    """Return the checkpoint interval of least cost: the root of l t = 1 - e^(-l (t + c)).

    In closed form it is (1 + W(-e^(-l c - 1))) / l with Lambert's W; here Newton's method finds it. Price, speed and
    restart don't matter.
    """
    rate = np.maximum(hazard, _RAREST)
    overhead = rate * np.maximum(write, _QUICKEST)
    x: Numbers = np.sqrt(2 * overhead)  # Young's, in mean lives
    for _ in range(_NEWTON_STEPS):
        done = np.expm1(-(x + overhead))
        x = x + (x + done) / done
    return np.divide(x, rate)


def young_interval(hazard: Real, write: Real) -> Real:
    """Return Young's approximation (1974), sqrt(2 c / l)."""
    young: Real = np.sqrt(2 * np.divide(write, hazard))
    return young


def daly_interval(hazard: Real, write: Real) -> Real:
    """Return Daly's approximation for c < 2 / l."""
    half = np.multiply(hazard, write) / 2
    daly: Real = young_interval(hazard, write) * (1 + np.sqrt(half) / 3 + half / 9) - write
    return daly


def _growth(x: Real) -> Numbers:
    """Return (e^x - 1) / x, which is 1 at 0 and infinite where no float is large enough."""
    safe = np.where(np.equal(x, 0), 1.0, x)
    with np.errstate(over="ignore"):
        return np.where(np.equal(x, 0), 1.0, np.expm1(safe) / safe)
