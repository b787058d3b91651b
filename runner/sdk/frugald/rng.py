"""The state of every random generator that training draws from, as plain values that torch loads safely."""

import random
import sys
from typing import Any

State = dict[str, Any]


def take(own: Any = None, *, all_gpus: bool = True) -> State:
    """Return the state of Python's, NumPy's and torch's generators, and of `own`, a torch.Generator.

    `all_gpus` is for one process that uses them all; else the state of the current one is enough.
    """
    import torch

    state: State = {"python": random.getstate(), "torch": torch.get_rng_state()}
    if own is not None:
        state["own"] = own.get_state()
    if torch.cuda.is_available() and torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        state["cuda"] = torch.cuda.get_rng_state_all() if all_gpus else [torch.cuda.get_rng_state()]
    if numpy := sys.modules.get("numpy"):
        name, keys, *rest = numpy.random.get_state()
        state["numpy"] = [name, keys.tolist(), *rest]
    return state


def restore(state: State, own: Any = None) -> None:
    """Set every generator back to `state`; GPUs that are not here now are left out."""
    import torch

    random.setstate(state["python"])
    torch.set_rng_state(state["torch"])
    if own is not None and "own" in state:
        own.set_state(state["own"])
    if "cuda" in state and torch.cuda.is_available():
        _restore_gpus(state["cuda"])
    if "numpy" in state:
        import numpy as np

        np.random.set_state(tuple(state["numpy"]))  # noqa: NPY002 - scripts that draw from it exist


def _restore_gpus(states: list[Any]) -> None:
    import torch

    if len(states) == 1:
        torch.cuda.set_rng_state(states[0])
        return
    for device, state in enumerate(states[: torch.cuda.device_count()]):
        torch.cuda.set_rng_state(state, device)
