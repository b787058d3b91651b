"""The sums, against games of chance: the same job played two hundred thousand times and more."""

import math
from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from pricing import expected_cost as cost

LIVES = 400_000
HOURS = NDArray[np.float64]
MARKETS = [  # interruptions an hour, interval, write, restart
    (0.02, 1.0, 1 / 60, 0.1),
    (0.2, 0.5, 5 / 60, 0.2),
    (0.5, 0.247, 1 / 60, 0.1),
    (1.4, 0.25, 5 / 60, 0.2),
]


def exponential(hazard: float, size: int = LIVES) -> HOURS:
    return np.random.default_rng(7).exponential(1 / hazard, size)


def segments(lives: HOURS, interval: float, write: float, restart: float) -> HOURS:
    """Return how many checkpoints each life writes."""
    return np.floor(np.maximum(lives - restart, 0) / (interval + write))


@pytest.mark.parametrize(("hazard", "interval", "write", "restart"), MARKETS)
def test_an_hour_of_work_costs_what_a_long_game_costs(
    hazard: float, interval: float, write: float, restart: float
) -> None:
    lives = exponential(hazard)
    work = segments(lives, interval, write, restart).sum() * interval * 1.7
    assert cost.per_work_hour(3.06, 1.7, hazard, interval, write, restart) == pytest.approx(
        3.06 * lives.sum() / work, rel=0.005
    )


@pytest.mark.parametrize(("hazard", "interval", "write", "restart"), MARKETS)
def test_with_a_notice_nothing_is_lost(hazard: float, interval: float, write: float, restart: float) -> None:
    lives = exponential(hazard)
    useful = np.maximum(lives - restart - write, 0).sum() * interval / (interval + write)
    expected = 3.06 * lives.sum() / (1.7 * useful)
    told = cost.per_work_hour_with_notice(3.06, 1.7, hazard, interval, write, restart)
    assert told == pytest.approx(expected, rel=0.005)
    assert told < cost.per_work_hour(3.06, 1.7, hazard, interval, write, restart)


def weibull(shape: float, mean: float) -> tuple[HOURS, Callable[[HOURS], HOURS]]:
    scale = mean / math.gamma(1 + 1 / shape)
    lives = scale * np.random.default_rng(3).weibull(shape, LIVES * 2)
    return lives, lambda t: np.exp(-((t / scale) ** shape))


@pytest.mark.parametrize("shape", [0.6, 1.0, 1.5])
def test_any_law_of_life(shape: float) -> None:
    lives, survival = weibull(shape, mean=3)
    told = cost.per_work_hour_by_law(1.0, 1.0, survival, 3.0, 0.25, 1 / 60, 0.1)
    assert told == pytest.approx(lives.sum() / (segments(lives, 0.25, 1 / 60, 0.1).sum() * 0.25), rel=0.005)


def test_the_exponential_law_is_the_closed_form() -> None:
    told = cost.per_work_hour_by_law(2.0, 1.3, lambda t: np.exp(-t / 3), 3.0, 0.25, 1 / 60, 0.1)
    assert told == pytest.approx(cost.per_work_hour(2.0, 1.3, 1 / 3, 0.25, 1 / 60, 0.1), rel=1e-9)


def test_lives_of_very_different_length_make_work_cheaper_than_equal_ones_of_the_same_mean() -> None:
    _, survival = weibull(0.6, mean=3)
    uneven = cost.per_work_hour_by_law(1.0, 1.0, survival, 3.0, 0.25, 1 / 60, 0.1)
    assert uneven < cost.per_work_hour(1.0, 1.0, 1 / 3, 0.25, 1 / 60, 0.1)


def play(work: int, hazard: float, segment: float, restart: float, games: int = 200_000) -> HOURS:
    """Return the hours that machines run until `work` segments are done, game by game: what is begun and cut off is lost."""
    chance = np.random.default_rng(11)
    left, hours = np.full(games, float(work)), np.zeros(games)
    while (going := left > 0).any():
        lives = chance.exponential(1 / hazard, going.sum())
        done = np.floor(np.maximum(lives - restart, 0) / segment)
        enough = restart + left[going] * segment
        hours[going] += np.minimum(lives, enough)
        left[going] = np.maximum(left[going] - done, 0)
    return hours


def test_a_whole_job_costs_what_many_games_cost() -> None:
    hazard, interval, write, restart, segments_in_all = 0.4, 0.5, 2 / 60, 0.2, 24
    each = cost.per_work_hour(1.0, 2.0, hazard, interval, write, restart)
    told = cost.whole_job(1.0, each, segments_in_all * interval * 2.0, hazard, restart)
    hours = play(segments_in_all, hazard, interval + write, restart)
    assert told == pytest.approx(hours.mean(), rel=0.005)


def test_a_job_without_checkpoints_costs_what_many_games_cost() -> None:
    told = cost.without_checkpoints(3.0, 2.0, 0.3, 6.0, 0.2)
    assert told == pytest.approx(3.0 * play(1, 0.3, 6.0 / 2.0, 0.2).mean(), rel=0.005)


def test_interruptions_are_counted_right() -> None:
    """Play to the end, counting the lives that were cut off."""
    chance, hazard, need = np.random.default_rng(5), 0.3, 3.2
    left, cut = np.full(200_000, 1.0), 0
    while (going := left > 0).any():
        lives = chance.exponential(1 / hazard, going.sum())
        cut += int((lives < need).sum())
        left[going] = np.where(lives < need, 1.0, 0.0)
    hours = cost.without_checkpoints(1.0, 1.0, hazard, need, 0.0)
    assert cost.interruptions(hazard, hours) == pytest.approx(cut / 200_000, rel=0.005)


def test_without_interruptions_only_the_writes_are_extra() -> None:
    assert cost.per_work_hour(3.0, 2.0, 0.0, 0.5, 0.05, 0.2) == pytest.approx(3.0 / 2.0 * 1.1)
    assert cost.per_work_hour(3.0, 2.0, 1e-12, 0.5, 0.05, 0.2) == pytest.approx(3.0 / 2.0 * 1.1)
    assert cost.whole_job(3.0, 1.5, 10.0, 0.0, 0.2) == pytest.approx(15.6)
    assert cost.without_checkpoints(3.0, 2.0, 0.0, 10.0, 0.2) == pytest.approx(15.6)


def test_what_can_never_finish_costs_more_than_any_number() -> None:
    assert math.isinf(cost.without_checkpoints(1.0, 1.0, 2.0, 1000.0, 0.1))


@pytest.mark.parametrize("hazard", [1e-4, 0.02, 0.5, 1.4, 10.0])
@pytest.mark.parametrize("write", [0.0001, 1 / 60, 0.2, 1.0])
def test_the_best_interval_is_best(hazard: float, write: float) -> None:
    best = cost.best_interval(hazard, write)
    assert hazard * best == pytest.approx(1 - math.exp(-hazard * (best + write)), rel=1e-9)
    at_best, *others = (
        cost.per_work_hour(1, 1, hazard, best * shift, write, 0.1) for shift in (1.0, 0.8, 0.99, 1.01, 1.25)
    )
    assert all(at_best < other for other in others)


def test_the_best_interval_where_nothing_is_interrupted_or_nothing_is_written() -> None:
    assert cost.best_interval(0.0, 1 / 60) > 1000
    assert 0 < cost.best_interval(0.5, 0.0) < 0.01


def test_young_and_daly_come_close() -> None:
    for hazard, write in ((0.1, 1 / 60), (0.5, 1 / 60), (1.4, 5 / 60)):
        best = cost.best_interval(hazard, write)
        by_best, by_young, by_daly = (
            cost.per_work_hour(1, 1, hazard, interval, write, 0.1)
            for interval in (best, cost.young_interval(hazard, write), cost.daly_interval(hazard, write))
        )
        assert by_best <= by_daly <= by_young <= by_best * 1.006
        assert cost.daly_interval(hazard, write) == pytest.approx(best, rel=0.01)


def test_arrays_give_what_numbers_give() -> None:
    hazards = np.array([0.0, 0.02, 1.4])
    many = cost.per_work_hour(2.0, 1.5, hazards, cost.best_interval(hazards, 0.05), 0.05, 0.1)
    alone = [cost.per_work_hour(2.0, 1.5, h, cost.best_interval(h, 0.05), 0.05, 0.1) for h in (0.0, 0.02, 1.4)]
    assert list(np.asarray(many)) == pytest.approx(alone)
