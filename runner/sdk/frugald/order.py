"""An order of the training data that can be taken up again anywhere."""

import hashlib
import os
from collections.abc import Iterator, Sized


class Shuffled:
    """A sampler: each epoch has its own order, made from the seed and the epoch's number and nothing else.

    A resumed run starts it in the middle without loading what was seen. With several processes (RANK, WORLD_SIZE) each
    gets its own share, all of the same size: some samples are seen twice where the data doesn't divide.
    """

    def __init__(self, data: Sized, *, seed: int = 0, rank: int | None = None, world: int | None = None) -> None:
        """Shuffle the indices of `data`."""
        self._data = data
        self._seed = seed
        self._rank = int(os.environ.get("RANK", "0")) if rank is None else rank
        self._world = int(os.environ.get("WORLD_SIZE", "1")) if world is None else world
        self._epoch = 0
        self._skip = 0

    def start(self, epoch: int, skip: int = 0) -> None:
        """Choose the order of `epoch` and leave out its first `skip` samples, once."""
        self._epoch, self._skip = epoch, skip

    def __iter__(self) -> Iterator[int]:
        """Yield the indices of this process from where it starts."""
        import torch

        digest = hashlib.sha256(f"{self._seed} {self._epoch}".encode()).digest()
        generator = torch.Generator().manual_seed(int.from_bytes(digest[:7], "big"))
        order = torch.randperm(len(self._data), generator=generator).tolist()
        share = (order + order[: -len(order) % self._world])[self._rank :: self._world]
        skip, self._skip = self._skip, 0
        yield from share[skip:]

    def __len__(self) -> int:
        """Return the samples of a whole epoch in this process."""
        return (len(self._data) + self._world - 1) // self._world
