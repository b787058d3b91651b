"""Teach a small vision transformer to read handwritten digits; it may be interrupted at any time and loses nothing."""

import argparse
import json
import math
from pathlib import Path

import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import Tensor, nn
from torch.nn.functional import affine_grid, cross_entropy, grid_sample
from torch.utils.data import DataLoader, Dataset, TensorDataset

from frugald import checkpoint


class Digits(Dataset[tuple[Tensor, Tensor]]):
    """8x8 images in grey; each time they are seen, they are turned, scaled and shifted a little differently."""

    def __init__(self, images: Tensor, labels: Tensor) -> None:
        self.images, self.labels = images, labels

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        turn, scale, right, down = (torch.rand(4) - 0.5).tolist()
        sine, cosine = (f(turn * 0.3) * (1 + scale * 0.2) for f in (math.sin, math.cos))
        where = torch.tensor([[[cosine, -sine, right * 0.2], [sine, cosine, down * 0.2]]])
        grid = affine_grid(where, [1, 1, 8, 8], align_corners=False)
        return grid_sample(self.images[index][None], grid, align_corners=False)[0], self.labels[index]


class VisionTransformer(nn.Module):
    """Sixteen patches of 2x2 pixels, a few layers of attention, and the mean of what they found."""

    def __init__(self, width: int = 64, depth: int = 4, heads: int = 4) -> None:
        super().__init__()
        edges = nn.Conv2d(1, width // 2, kernel_size=3, padding=1)
        self.patches = nn.Sequential(edges, nn.GELU(), nn.Conv2d(width // 2, width, kernel_size=2, stride=2))
        self.place = nn.Parameter(torch.randn(16, width) * 0.2)
        layer = nn.TransformerEncoderLayer(width, heads, 2 * width, dropout=0.0, batch_first=True, norm_first=True)
        self.layers = nn.TransformerEncoder(layer, depth, enable_nested_tensor=False)
        self.head = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 10))

    def forward(self, images: Tensor) -> Tensor:
        tokens = self.patches(images).flatten(2).transpose(1, 2) + self.place
        return self.head(self.layers(tokens).mean(dim=1))


def data() -> tuple[Digits, TensorDataset]:
    """Return the digits to learn from, and a fifth of all to test with."""
    digits = load_digits()
    images = torch.tensor(digits.images, dtype=torch.float32)[:, None] / 16
    labels = torch.tensor(digits.target)
    learn, test = train_test_split(range(len(labels)), test_size=0.2, stratify=labels, random_state=0)
    return Digits(images[learn], labels[learn]), TensorDataset(images[test], labels[test])


@torch.no_grad()
def accuracy(model: nn.Module, loader: DataLoader, device: torch.device) -> float:
    model.eval()
    right = sum((model(x.to(device)).argmax(1) == y.to(device)).sum().item() for x, y in loader)
    model.train()
    return right / len(loader.dataset)


def main(epochs: int, batch: int, rate: float) -> None:
    torch.manual_seed(0)
    torch.set_num_threads(1)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    learn, test = data()
    loader = DataLoader(learn, batch, shuffle=True, num_workers=2)
    model = VisionTransformer().to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate, weight_decay=0.05)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs * len(loader))

    run = checkpoint.Run(model=model, optimizer=optimizer, scheduler=scheduler)
    run.resume()
    for epoch in run.epochs(epochs):
        for images, labels in run.batches(loader):
            with torch.autocast(device.type, dtype=torch.bfloat16):
                loss = cross_entropy(model(images.to(device)), labels.to(device), label_smoothing=0.1)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            scheduler.step()
            run.step(loss=loss)
        right = accuracy(model, DataLoader(test, 360), device)
        run.report(accuracy=right)
        print(f"epoch {epoch + 1}/{epochs}: step {run.steps}, accuracy {right:.1%}", flush=True)

    result = {"accuracy": accuracy(model, DataLoader(test, 360), device), "steps": run.steps, "epochs": epochs}
    Path("outputs").mkdir(exist_ok=True)
    Path("outputs/metrics.json").write_text(json.dumps(result, indent=2) + "\n")
    print(f"read {result['accuracy']:.1%} of the test digits right", flush=True)


if __name__ == "__main__":
    words = argparse.ArgumentParser(description=__doc__)
    words.add_argument("--epochs", type=int, default=24)
    words.add_argument("--batch", type=int, default=32)
    words.add_argument("--rate", type=float, default=1e-3)
    main(**vars(words.parse_args()))
