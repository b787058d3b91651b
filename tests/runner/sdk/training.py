"""A short training run with everything in it that draws random numbers, and ways to interrupt it."""

import hashlib
import os
import random
import signal
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, TensorDataset

from frugald import checkpoint

EPOCHS, BATCHES, BATCH = 3, 8, 8
STEPS = EPOCHS * BATCHES


class Noisy(Dataset[tuple[torch.Tensor, torch.Tensor]]):
    """Samples with random noise, drawn by the worker that loads them."""

    def __init__(self) -> None:
        numbers = torch.Generator().manual_seed(5)
        self._x = torch.randn(BATCHES * BATCH - 3, 6, generator=numbers)
        self._y = torch.randint(0, 3, (len(self._x),), generator=numbers)

    def __len__(self) -> int:
        return len(self._x)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        return self._x[index] + 0.1 * torch.randn(6), self._y[index]


def quiet() -> TensorDataset:
    noisy = Noisy()
    return TensorDataset(noisy._x, noisy._y)


LOADERS: dict[str, Callable[[], DataLoader[tuple[torch.Tensor, torch.Tensor]]]] = {
    "plain, two workers": lambda: DataLoader(Noisy(), BATCH, shuffle=True, num_workers=2),
    "Shuffled, two workers": lambda: _shuffled(quiet(), workers=2),
    "plain, no workers": lambda: DataLoader(Noisy(), BATCH, shuffle=True),
    "Shuffled, no workers": lambda: _shuffled(quiet(), workers=0),
    "own generator": lambda: DataLoader(Noisy(), BATCH, shuffle=True, generator=torch.Generator().manual_seed(3)),
    "workers that stay": lambda: DataLoader(quiet(), BATCH, shuffle=True, num_workers=2, persistent_workers=True),  # type: ignore[arg-type]
}


def _shuffled(data: Dataset[tuple[torch.Tensor, ...]], workers: int) -> DataLoader[tuple[torch.Tensor, torch.Tensor]]:
    return DataLoader(data, BATCH, sampler=checkpoint.Shuffled(data, seed=11), num_workers=workers)  # type: ignore[arg-type]


class Crash(Exception):
    """The process dies here."""


@dataclass
class Log:
    """What a run did: the loss of each step, and the hash of the weights after the last."""

    losses: dict[int, float] = field(default_factory=dict)
    weights: str = ""


def train(
    folder: Path, loader: DataLoader[tuple[torch.Tensor, torch.Tensor]], before_step: Callable[[checkpoint.Run], None]
) -> Log:
    """Train from where the folder says to the end; `before_step` may interrupt."""
    torch.manual_seed(1)
    np.random.seed(2)  # noqa: NPY002 - many scripts still use it
    random.seed(3)
    model = nn.Sequential(nn.Linear(6, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.3), nn.Linear(16, 3))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.02)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, STEPS)
    run = checkpoint.Run(folder, model=model, optimizer=optimizer, scheduler=scheduler, scaler=None)
    run.resume()
    log = Log()
    for _ in run.epochs(EPOCHS):
        for x, y in run.batches(loader):
            weight = random.random() + float(np.random.random())  # noqa: NPY002
            with torch.autocast("cpu", dtype=torch.bfloat16):
                loss = nn.functional.cross_entropy(model(x), y) * weight
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            scheduler.step()
            log.losses[run.steps + 1] = loss.item()
            before_step(run)
            run.step(loss=loss)
    log.weights = hashlib.sha256(
        b"".join(tensor.numpy().tobytes() for tensor in model.state_dict().values())
    ).hexdigest()
    return log


def nothing(run: checkpoint.Run) -> None:
    """Let the run go on."""


def asked_to_stop_at(step: int) -> Callable[[checkpoint.Run], None]:
    def ask(run: checkpoint.Run) -> None:
        if run.steps + 1 == step:
            os.kill(os.getpid(), signal.SIGTERM)

    return ask


def crash_at(step: int, save_every: int) -> Callable[[checkpoint.Run], None]:
    """Die in `step`; the last save was up to `save_every` steps before."""

    def crash(run: checkpoint.Run) -> None:
        if run.steps + 1 == step:
            raise Crash
        run._interval = 0 if (run.steps + 1) % save_every == 0 else 1e9

    return crash
