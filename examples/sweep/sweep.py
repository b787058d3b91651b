"""Look for the best settings of a small network: many short trainings in a row, a step after each."""

import argparse
import csv
import json
from itertools import product
from pathlib import Path

import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from frugald import checkpoint

RATES = (3e-4, 1e-3, 2e-3, 5e-3, 1e-2, 3e-2)
WIDTHS = (8, 16, 24)
DECAYS = (0.0, 0.01, 0.03, 0.1, 0.5)


def data() -> list[Tensor]:
    """Return images to learn from and to test with, then their labels."""
    digits = load_digits()
    images = torch.tensor(digits.images, dtype=torch.float32)[:, None] / 16
    return train_test_split(images, torch.tensor(digits.target), test_size=0.3, random_state=0)


def network(width: int) -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, width, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(width, 2 * width, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(32 * width, 10),
    )  # fmt: skip


def trial(sets: list[Tensor], rate: float, width: int, decay: float, epochs: int) -> float:
    """Train one network and return its accuracy."""
    learn, test, learn_labels, test_labels = sets
    torch.manual_seed(0)  # each trial is the same whether or not others ran before it
    model = network(width)
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate, weight_decay=decay)
    for _ in range(epochs):
        for part in torch.randperm(len(learn)).split(64):
            loss = cross_entropy(model(learn[part]), learn_labels[part])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    with torch.no_grad():
        return (model(test).argmax(1) == test_labels).float().mean().item()


def write(results: list[dict[str, float]]) -> None:
    """Write the table so far, best first, and the best alone."""
    Path("outputs").mkdir(exist_ok=True)
    ranked = sorted(results, key=lambda result: -result["accuracy"])
    with Path("outputs/results.csv").open("w", newline="") as file:
        table = csv.DictWriter(file, ranked[0])
        table.writeheader()
        table.writerows(ranked)
    Path("outputs/metrics.json").write_text(json.dumps(ranked[0], indent=2) + "\n")


def main(epochs: int) -> None:
    torch.set_num_threads(1)
    sets = data()
    settings = list(product(RATES, WIDTHS, DECAYS))
    run = checkpoint.Run(total_steps=len(settings))
    done = run.resume()
    results = run.values.setdefault("results", [])
    for rate, width, decay in settings[done:]:
        right = trial(sets, rate, width, decay, epochs)
        results.append({"accuracy": right, "rate": rate, "width": width, "decay": decay})
        write(results)
        print(f"trial {len(results)}/{len(settings)}: {right:.1%} with {rate=:g} {width=} {decay=:g}", flush=True)
        run.step(accuracy=max(result["accuracy"] for result in results))
    run.save()


if __name__ == "__main__":
    words = argparse.ArgumentParser(description=__doc__)
    words.add_argument("--epochs", type=int, default=24, help="of each trial")
    main(**vars(words.parse_args()))
