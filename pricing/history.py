"""What was seen of prices and machines: where a price changed, and how often the machines of a pool are taken away."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pricing.offer import Offer

AGES_H = (1 / 3, 1.0)
"""Where the classes of age end: interruptions grow rarer with age, and steps at 20 minutes and an hour show it."""
_MOST_OFTEN = 3600.0  # interruptions an hour, whatever a source says
_LONGEST_H = 1000.0  # hours that an assumption counts for at most, so that `never` gives way to what happens


@dataclass(frozen=True, slots=True)
class Prior:
    """What is assumed of a pool before anything was seen in it: a Gamma law of its interruption rate."""

    mean_life_h: float = 3.0
    weight: float = 2.0  # as many interruptions as what was assumed counts for


@dataclass(frozen=True, slots=True)
class Observation:
    """How long one machine lived, and whether the cloud took it (else it was given back)."""

    pool: str
    age_s: float
    interrupted: bool


@dataclass(slots=True)
class _Seen:
    hours: float = 0.0
    taken: int = 0

    def add(self, hours: float, *, taken: bool) -> None:
        self.hours += hours
        self.taken += taken


class Hazards:
    """Interruption rates by pool and age: a Gamma prior, and what was seen.

    rate = (interruptions + h u) / (hours + h): u is the rate that the pool's source names, else the prior's, and h the
    hours in which it makes as many interruptions as the prior's weight. Machines that were given back count for their hours.
    """

    def __init__(self, observations: Iterable[Observation], prior: Prior = Prior()) -> None:
        self._prior = prior
        self._pools: dict[str, _Seen] = {}
        self._ages: dict[tuple[str, int], _Seen] = {}
        for one in observations:
            self._note(one)

    def rate(self, pool: str, advice: float | None = None) -> float:
        """Return interruptions an hour, over all ages; `advice` is the source's own figure."""
        assumed = 1 / self._prior.mean_life_h if advice is None else min(advice, _MOST_OFTEN)
        return self._learnt(self._pools.get(pool), assumed)

    def rate_at(self, pool: str, age_h: float, advice: float | None = None) -> float:
        """Return interruptions an hour at this age; what isn't known of the age is taken from the pool."""
        return self._learnt(self._ages.get((pool, _age_class(age_h))), self.rate(pool, advice))

    def rates(self, rows: Mapping[str, int], advice: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return `rate` for many pools at once: `advice` by row, NaN for none, and the row of each pool by its name."""
        found = np.minimum(np.where(np.isnan(advice), 1 / self._prior.mean_life_h, advice), _MOST_OFTEN)
        for pool, seen in self._pools.items():
            if pool in rows:
                found[rows[pool]] = self._learnt(seen, found[rows[pool]])
        return found

    def _learnt(self, seen: _Seen | None, assumed: float) -> float:
        if seen is None:
            return assumed
        hours = min(self._prior.weight / assumed, _LONGEST_H) if assumed else _LONGEST_H
        return (seen.taken + hours * assumed) / (seen.hours + hours)

    def _note(self, one: Observation) -> None:
        hours = max(one.age_s, 0.0) / 3600
        self._pools.setdefault(one.pool, _Seen()).add(hours, taken=one.interrupted)
        last = _age_class(hours)
        for age, (start, end) in enumerate(zip((0.0, *AGES_H), (*AGES_H, float("inf")), strict=True)):
            if age <= last:
                ended_here = one.interrupted and age == last
                self._ages.setdefault((one.pool, age), _Seen()).add(min(hours, end) - start, taken=ended_here)


def price_changes(last: Mapping[str, int], offers: Sequence[Offer]) -> list[tuple[str, int]]:
    """Return pool and price an hour of each offer whose price isn't the last one known: the rows worth keeping."""
    return [(pool, o.hourly_micro) for o in offers if last.get(pool := str(o.pool)) != o.hourly_micro]


def _age_class(age_h: float) -> int:
    return sum(age_h > end for end in AGES_H)
