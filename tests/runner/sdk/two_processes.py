"""One of two processes that train together: `python -m tests.runner.sdk.two_processes FOLDER RANK WORLD STOP_AT`."""

import os
import signal
import sys
from pathlib import Path

import torch
from torch import distributed, nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset

from frugald import checkpoint


def main(folder: Path, rank: int, world: int, stop_at: int) -> None:
    torch.set_num_threads(1)
    distributed.init_process_group(
        "gloo", init_method=f"file://{folder}/meeting-{os.getppid()}-{stop_at}", rank=rank, world_size=world
    )
    torch.manual_seed(rank)
    net = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.5), nn.Linear(8, 1))
    model = DistributedDataParallel(net)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    data = TensorDataset(torch.arange(48.0).reshape(12, 4) / 48)
    loader = DataLoader(data, 2, sampler=checkpoint.Shuffled(data, rank=rank, world=world))
    run = checkpoint.Run(folder / "checkpoints", model=model, optimizer=optimizer)
    run.resume()
    for _ in run.epochs(4):
        for (x,) in run.batches(loader):
            optimizer.zero_grad()
            model(x).square().mean().backward()
            optimizer.step()
            if rank == 1 and run.steps + 1 == stop_at:
                os.kill(os.getpid(), signal.SIGTERM)
            run.step()
    sys.stdout.write(f"{run.steps} {[tensor.sum().item() for tensor in net.parameters()]}\n")
    distributed.destroy_process_group()


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]))
