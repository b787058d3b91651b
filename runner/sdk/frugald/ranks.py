"""The processes that train together: who writes, and what all of them agree on. One process is the plain case."""

import os
from typing import Any


def rank() -> int:
    """Return which of the processes this is."""
    distributed = _group()
    return distributed.get_rank() if distributed else int(os.environ.get("RANK", "0"))


def leads() -> bool:
    """Say whether this process decides for all: the first of a group, or one that has none."""
    return world() == 1 or rank() == 0


def world() -> int:
    """Return how many processes train together."""
    distributed = _group()
    return distributed.get_world_size() if distributed else 1


def highest(value: int) -> int:
    """Return the highest value that any process brings. Every process must call it."""
    distributed = _group()
    if not distributed:
        return value
    import torch

    device = "cuda" if "nccl" in distributed.get_backend() else "cpu"
    tensor = torch.tensor([value], device=device)
    distributed.all_reduce(tensor, op=distributed.ReduceOp.MAX)
    return int(tensor.item())


def first(value: Any) -> Any:
    """Return what rank 0 brings. Every process must call it."""
    distributed = _group()
    if not distributed:
        return value
    box = [value]
    distributed.broadcast_object_list(box)
    return box[0]


def gathered(value: Any) -> list[Any]:
    """Return what each process brings, by rank. Every process must call it."""
    distributed = _group()
    if not distributed:
        return [value]
    found: list[Any] = [None] * distributed.get_world_size()
    distributed.all_gather_object(found, value)
    return found


def wait_for_all() -> None:
    """Return when every process has come here."""
    if distributed := _group():
        distributed.barrier()


def _group() -> Any:
    from torch import distributed

    return distributed if distributed.is_available() and distributed.is_initialized() else None
