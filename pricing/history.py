"""How often the machines of a pool are taken away, learnt from those that were rented."""

from collections.abc import Sequence
from dataclasses import dataclass

PRIOR_MEAN_LIFE_H = 3.0
PRIOR_WEIGHT = 2.0
AGES_H = (1 / 3, 1.0)  # hazards fall steeply with age: under 20 minutes, 20 to 60, over an hour


@dataclass(frozen=True, slots=True)
class Observation:
    """How long one machine lived, and whether the cloud took it (else it was given back)."""

    pool: str
    age_s: float
    interrupted: bool


class Hazards:
    """Interruption rates by pool and age: a Gamma prior, and what was seen.

    rate = (interruptions + a) / (hours + a * m) with a = 2 and m the pool's own mean life where its source names one,
    else three hours.
    """

    def __init__(self, observations: Sequence[Observation]) -> None:
        self._hours: dict[str, float] = {}
        self._taken: dict[str, int] = {}
        self._by_age: dict[tuple[str, int], tuple[float, int]] = {}
        for seen in observations:
            hours = seen.age_s / 3600
            self._hours[seen.pool] = self._hours.get(seen.pool, 0.0) + hours
            self._taken[seen.pool] = self._taken.get(seen.pool, 0) + seen.interrupted
            self._note_ages(seen.pool, hours, taken=seen.interrupted)

    def rate(self, pool: str, advice: float | None = None) -> float:
        """Return interruptions an hour, over all ages; `advice` is the source's own idea."""
        mean = 1 / advice if advice else PRIOR_MEAN_LIFE_H
        return (self._taken.get(pool, 0) + PRIOR_WEIGHT) / (self._hours.get(pool, 0.0) + PRIOR_WEIGHT * mean)

    def rate_at(self, pool: str, age_h: float, advice: float | None = None) -> float:
        """Return interruptions an hour for a machine of this age; the overall rate is its prior."""
        hours, taken = self._by_age.get((pool, _age_class(age_h)), (0.0, 0))
        overall = self.rate(pool, advice)
        return (taken + PRIOR_WEIGHT) / (hours + PRIOR_WEIGHT / overall)

    def _note_ages(self, pool: str, hours: float, *, taken: bool) -> None:
        lived_from = 0.0
        for n, until in enumerate((*AGES_H, float("inf"))):
            if hours <= lived_from:
                break
            seen, count = self._by_age.get((pool, n), (0.0, 0))
            ended_here = taken and hours <= until
            self._by_age[pool, n] = (seen + min(hours, until) - lived_from, count + ended_here)
            lived_from = until


def _age_class(age_h: float) -> int:
    return sum(age_h > limit for limit in AGES_H)
