"""The book: the newest offers, which of them satisfy a need, and a reason with a count for all that it passes over."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import numpy as np
from numpy.typing import NDArray

from config.reason import Reason
from pricing.columns import Columns
from pricing.filters import FILTERS, Closed, Question, Values
from pricing.need import Need
from pricing.offer import Offer, Quota


@dataclass(frozen=True, slots=True)
class RuledOut:
    """The offers that one filter was the first to rule out."""

    name: str  # of the filter
    values: Values
    count: int
    momentary: bool


@dataclass(frozen=True, slots=True)
class Selection:
    """What is left of the book for one need: rows of `PriceBook.offers`, and what ruled the others out."""

    indices: NDArray[np.intp]
    ruled_out: tuple[RuledOut, ...]  # in the order of the filters

    @property
    def passed_over(self) -> tuple[tuple[Reason, int], ...]:
        """Return each reason that ruled out offers, in the filters' order, with how many it ruled out first."""
        return tuple((Reason(f"pass.{one.name}", one.values), one.count) for one in self.ruled_out)

    def nothing_left(self) -> Reason:
        """Return the one reason that helps most when nothing can be had: the nearest miss.

        What was selected and still isn't there has been promised to others. Else it is the last filter, because what it
        ruled out satisfied everything before it; but of those that only look at the moment, the one that most of the
        fitting offers failed.
        """
        if self.indices.size:
            return Reason("nothing.taken", {"count": self.indices.size})
        if not self.ruled_out:
            return Reason("nothing.offers")
        nearest = self.ruled_out[-1]
        if nearest.momentary:
            nearest = max((one for one in self.ruled_out if one.momentary), key=lambda one: one.count)
        return Reason(f"nothing.{nearest.name}", {**nearest.values, "count": nearest.count})


class PriceBook:
    """Offers that never change, one for each pool and in the order of their names; made anew after each poll."""

    def __init__(self, offers: Sequence[Offer]) -> None:
        """Take the newest offer of each pool; of two of the same age, the later in the sequence."""
        newest: dict[str, Offer] = {}
        for offer in offers:
            before = newest.setdefault(str(offer.pool), offer)
            if offer.as_of >= before.as_of:
                newest[str(offer.pool)] = offer
        self.offers = tuple(newest[pool] for pool in sorted(newest))
        self.columns = Columns(self.offers)

    def __len__(self) -> int:
        return len(self.offers)

    def select(
        self, need: Need, now: datetime, *, closed: Closed, stale_after: timedelta, quotas: Sequence[Quota],
        checkpointed: bool,
    ) -> Selection:  # fmt: skip
        """Return the offers that satisfy every hard condition of `need`; the others are counted by their first miss.

        `closed` are pools, families and clouds that are left alone for a while; `checkpointed` says whether the job
        goes on after an interruption instead of starting from zero.
        """
        question = Question(need, now, closed, stale_after, quotas, checkpointed)
        left = np.ones(len(self), dtype=bool)
        passed: list[RuledOut] = []
        for one in FILTERS:
            keep = one.keep(self.columns, question)
            count = 0 if keep is None else int(np.count_nonzero(left & ~keep))
            if keep is not None and count:
                passed.append(RuledOut(one.name, one.values(self.columns, question, left), count, one.momentary))
                left = left & keep
        return Selection(np.flatnonzero(left), tuple(passed))
