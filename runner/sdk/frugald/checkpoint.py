"""Checkpoints of a training run, and loops that go on from one bit for bit.

    run = checkpoint.Run(model=model, optimizer=optimizer, scheduler=scheduler)
    run.resume()
    for epoch in run.epochs(10):
        for images, labels in run.batches(loader):
            ...
            run.step(loss=loss)
        run.report(accuracy=test(model))

`Shuffled` is an order of the data that starts anywhere at once.
"""

import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn, Protocol

from frugald import job, ranks
from frugald.folder import CheckpointError, Folder
from frugald.order import Shuffled
from frugald.position import Position, length
from frugald.stop import StopSignal

__all__ = ["CheckpointError", "Run", "Shuffled"]

STOPPED = 143  # the exit code after a save that was asked for: 128 + SIGTERM
_TELL_EVERY_S = 0.5
_GO_ON, _SAVE, _STOP = range(3)


class Stateful(Protocol):
    """What has a state to save: a model, an optimizer, a scheduler, a scaler, an average of weights."""

    def state_dict(self) -> Any:
        """Return the state: tensors, numbers and texts, in lists and dicts."""

    def load_state_dict(self, state_dict: Any, /) -> Any:
        """Take the state in."""


class Run:
    """One training run: counts its steps, saves now and then and when told to stop, and goes on from what was saved.

    `steps` is how many are done. Whatever else must survive goes into `values`: numbers, texts and tensors, in lists and
    dicts.
    """

    def __init__(
        self,
        folder: str | Path | None = None,
        *,
        keep: int = 2,
        interval: float | None = None,
        total_steps: int | None = None,
        **parts: Stateful | None,
    ) -> None:
        """Prepare to save `parts` in `folder` every `interval` seconds and keep the newest few; a part may be None.

        Folder and interval are $FRUGALD_CHECKPOINT_DIR and $FRUGALD_CHECKPOINT_INTERVAL, or `checkpoints` and 600 without
        frugald. `total_steps` is for progress, where it isn't epochs times batches. Raises ValueError.
        """
        self.steps = 0
        self.values: dict[str, Any] = {}
        self._parts = {name: _bare(part) for name, part in parts.items() if part is not None}
        self._folder = Folder(Path(folder or os.environ.get("FRUGALD_CHECKPOINT_DIR") or "checkpoints"), keep)
        self._interval = _interval() if interval is None else interval
        self._total = total_steps
        self._epochs = 0
        self._position = Position()
        self._metrics: dict[str, Any] = {}
        self._stop = StopSignal()
        self._warned = False  # a save has answered the word that the machine may end
        self._saved_step = -1
        self._saved_at = self._told_at = time.monotonic()

    def resume(self) -> int:
        """Take in the newest whole checkpoint and return its step, 0 in a new run; heed stop signals from now on.

        Raises CheckpointError when it holds other parts, and what torch raises when a part has another shape.
        """
        self._stop.listen()
        step = ranks.first(self._folder.newest() if ranks.leads() else None)
        if step is not None:
            self._take_in(step, self._folder.read(step))
            _say(f"going on from step {step}")
        self._saved_at = time.monotonic()
        self._tell()
        return self.steps

    def epochs(self, count: int) -> Iterator[int]:
        """Yield the number of each epoch that is left, an interrupted one first; save after the last."""
        self._epochs = count
        while self._position.epoch < count:
            self._position.open_epoch()
            yield self._position.epoch
            self._position.close_epoch()
        if self._saved_step != self.steps:
            self.save()

    def batches(self, loader: Any) -> Iterator[Any]:
        """Yield the batches of `loader` that are left of this epoch, the same and in the same order as without a stop.

        They are drawn again to get there, unless the loader's sampler is `Shuffled`. Raises RuntimeError outside `epochs`.
        """
        if self._total is None and length(loader) < float("inf"):
            self._total = self._epochs * len(loader)
        return self._position.walk(loader)

    def step(self, **metrics: Any) -> None:
        """Count one step and note its metrics; save when it is time, and when told to stop also leave with code 143.

        With several processes all must call it: they agree on what to do.
        """
        self.steps += 1
        self._note(metrics)
        wanted = ranks.highest(self._wanted())
        if wanted:
            self.save()
        if wanted == _STOP:
            self._leave()
        if time.monotonic() - self._told_at >= _TELL_EVERY_S:
            self._tell()

    def report(self, **metrics: Any) -> None:
        """Tell metrics that belong to no single step, such as the accuracy after an epoch."""
        self._note(metrics)
        self._tell()

    def save(self) -> None:
        """Save now. With several processes all must call it, and rank 0 writes. Raises OSError, CheckpointError."""
        position = ranks.gathered(self._position.state())
        if ranks.rank() == 0:
            self._folder.write(self.steps, self._state() | {"position": position})
        self._saved_step, self._saved_at = self.steps, time.monotonic()
        self._tell()

    def _state(self) -> dict[str, Any]:
        return {
            "step": self.steps,
            "values": self.values,
            "metrics": _numbers(self._metrics),
            "parts": {name: part.state_dict() for name, part in self._parts.items()},
        }

    def _take_in(self, step: int, state: dict[str, Any]) -> None:
        saved, here = sorted(state["parts"]), sorted(self._parts)
        if saved != here:
            raise CheckpointError(
                f"the checkpoint of step {step} holds {', '.join(saved)} and the run has {', '.join(here)}: "
                "give Run the same parts, or begin in another folder"
            )
        for name, part in self._parts.items():
            part.load_state_dict(state["parts"][name])
        self.steps = self._saved_step = state["step"]
        self.values, self._metrics = state["values"], state["metrics"]
        self._position.load(state["position"])

    def _wanted(self) -> int:
        """Say what to do after this step."""
        notice = job.notice()
        if self._stop.came or (notice and notice.ends):
            return _STOP
        if notice and not self._warned:
            self._warned = True
            return _SAVE
        return _SAVE if time.monotonic() - self._saved_at >= self._interval else _GO_ON

    def _leave(self) -> NoReturn:
        _say(f"saved step {self.steps} and leaving, as asked")
        ranks.wait_for_all()
        raise SystemExit(STOPPED)

    def _note(self, metrics: dict[str, Any]) -> None:
        # A tensor is kept without its graph, and made a number only when told: that would make a GPU wait each step.
        self._metrics |= {
            name: getattr(value, "detach", lambda value=value: value)() for name, value in metrics.items()
        }

    def _tell(self) -> None:
        self._told_at = time.monotonic()
        if ranks.rank() == 0:
            job.progress(self.steps, self._total, **_numbers(self._metrics))


def _bare(part: Any) -> Any:
    """Return the model inside DistributedDataParallel, so that a checkpoint fits with and without it."""
    return part.module if type(part).__name__ == "DistributedDataParallel" else part


def _numbers(metrics: dict[str, Any]) -> dict[str, float]:
    return {name: float(value) for name, value in metrics.items()}


def _interval() -> float:
    text = os.environ.get("FRUGALD_CHECKPOINT_INTERVAL", "600")
    try:
        return float(text)
    except ValueError as error:
        raise ValueError(f"FRUGALD_CHECKPOINT_INTERVAL is {text!r}: write a number of seconds") from error


def _say(sentence: str) -> None:
    if ranks.rank() == 0:
        sys.stderr.write(f"frugald: {sentence}\n")
        sys.stderr.flush()
