"""A training script that knows nothing of frugald: it overwrites one checkpoint and goes on from it when it is there."""

from pathlib import Path

import torch
from sklearn.datasets import load_digits
from torch import nn

EPOCHS = 40
SAVED = Path("checkpoints/checkpoint.pth")


def main() -> None:
    torch.manual_seed(0)
    torch.set_num_threads(1)
    digits = load_digits()
    images = torch.tensor(digits.images, dtype=torch.float32)[:, None] / 16
    labels = torch.tensor(digits.target)
    model = nn.Sequential(
        nn.Conv2d(1, 32, 3, padding=1), nn.ReLU(), nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(),
        nn.MaxPool2d(2), nn.Flatten(), nn.Linear(1024, 128), nn.ReLU(), nn.Dropout(0.3), nn.Linear(128, 10),
    )  # fmt: skip
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

    first = 0
    if SAVED.exists():
        saved = torch.load(SAVED)
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        first = saved["epoch"] + 1
        print(f"going on from epoch {first}", flush=True)

    for epoch in range(first, EPOCHS):
        right = 0
        for part in torch.randperm(len(labels)).split(64):
            scores = model(images[part])
            loss = nn.functional.cross_entropy(scores, labels[part])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            right += (scores.argmax(1) == labels[part]).sum().item()
        print(f"epoch {epoch + 1}/{EPOCHS}: {right / len(labels):.1%} of the training digits right", flush=True)
        SAVED.parent.mkdir(exist_ok=True)
        torch.save({"epoch": epoch, "model": model.state_dict(), "optimizer": optimizer.state_dict()}, SAVED)


if __name__ == "__main__":
    main()
