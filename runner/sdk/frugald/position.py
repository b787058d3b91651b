"""Where in its data a run is, and how it gets back there."""

import warnings
from collections.abc import Iterator
from itertools import islice
from typing import Any

from frugald import ranks, rng
from frugald.order import Shuffled
from frugald.stop import workers_spared


class Position:
    """Epoch, batches done in it, and the random states that lead on from there; each process has its own."""

    def __init__(self) -> None:
        """Stand before the first batch."""
        self.epoch = 0
        self.batches = 0
        self._opened = False  # an epoch has begun and its batches have not
        self._walked = False  # in this process
        self._own: Any = None  # the loader's own generator
        self._start: rng.State | None = None  # before this epoch's first batch was drawn
        self._back: rng.State | None = None  # what to return to once the batches are where they were

    def state(self) -> dict[str, Any]:
        """Return what `load` takes."""
        now = rng.take(self._own, all_gpus=ranks.world() == 1)
        return {"epoch": self.epoch, "batches": self.batches, "start": self._start, "now": now}

    def load(self, states: list[dict[str, Any]]) -> None:
        """Go to where this process was; `states` are those of all processes, by rank."""
        if len(states) == ranks.world():
            mine = states[ranks.rank() if ranks.world() > 1 else 0]
            self.epoch, self.batches = mine["epoch"], mine["batches"]
            self._start, self._back = mine["start"], mine["now"]
            rng.restore(mine["now"])
            return
        self.epoch, self.batches = states[0]["epoch"], states[0]["batches"] * len(states) // ranks.world()
        warnings.warn(
            f"saved by {len(states)} processes and loaded by {ranks.world()}: the run goes on, but not bit for bit",
            stacklevel=4,
        )

    def open_epoch(self) -> None:
        """Let this epoch's batches be drawn."""
        self._opened = True

    def close_epoch(self) -> None:
        """Stand before the first batch of the next epoch."""
        self.epoch, self.batches, self._start, self._back = self.epoch + 1, 0, None, None

    def walk(self, loader: Any) -> Iterator[Any]:
        """Yield the batches that are left of this epoch. Raises RuntimeError when it was walked through already."""
        if not self._opened:
            raise RuntimeError(
                "batches() goes through the training data once in each epoch of epochs(): loop over both"
            )
        self._opened = False
        self._own = getattr(loader, "generator", None)
        self._start_workers(loader)
        if self.batches and self._start and self._back:
            rest = self._return(loader, self._start, self._back)
        else:
            self._start = rng.take(self._own, all_gpus=ranks.world() == 1)
            rest = self._rest(loader)
        for batch in rest:
            self.batches += 1
            yield batch

    def _return(self, loader: Any, start: rng.State, back: rng.State) -> Iterator[Any]:
        """Draw the batches again as they were drawn, then go on with the random numbers from where they were."""
        rng.restore(start, self._own)
        rest = self._rest(loader)
        rng.restore(back, self._own)
        self._back = None
        return rest

    def _start_workers(self, loader: Any) -> None:
        """Start workers that stay: it draws a random number, which the run drew in its first epoch and not in this one."""
        if self.epoch and not self._walked and getattr(loader, "persistent_workers", False):
            now = rng.take(self._own)
            _begin(loader)
            rng.restore(now, self._own)

    def _rest(self, loader: Any) -> Iterator[Any]:
        """Start `loader` and pass over the batches that are done; an order of ours needs none loaded for that."""
        order: Any = getattr(loader, "sampler", None)
        size: int = getattr(loader, "batch_size", None) or 0
        if isinstance(order, Shuffled):
            order.start(self.epoch, self.batches * size)
        elif hasattr(order, "set_epoch"):
            order.set_epoch(self.epoch)
        if self.batches and self.batches >= length(loader):
            return iter(())
        skip = 0 if isinstance(order, Shuffled) and size else self.batches
        batches = _begin(loader)
        self._walked = True
        for _ in islice(batches, skip):
            pass
        return batches


def _begin(loader: Any) -> Iterator[Any]:
    with workers_spared():
        return iter(loader)


def length(loader: Any) -> float:
    """Return how many batches `loader` has, infinity where it can't say."""
    try:
        return len(loader)
    except TypeError:
        return float("inf")
