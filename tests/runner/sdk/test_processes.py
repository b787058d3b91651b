"""Whole processes: two that train together, and one that is told to stop by another."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from frugald.folder import Folder

_ENVIRONMENT = {**os.environ, "GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"}

_ALONE = """
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset
from frugald import checkpoint

class Numbers(Dataset):
    def __len__(self):
        return 64
    def __getitem__(self, index):
        return torch.tensor([float(index)])

run = checkpoint.Run(model=nn.Linear(1, 1))
run.resume()
for epoch in run.epochs(100_000):
    for batch in run.batches(DataLoader(Numbers(), 4, num_workers=1)):
        run.step()
        print(run.steps, flush=True)
"""


def together(folder: Path, world: int, stop_at: int) -> tuple[list[int], list[str]]:
    command = [sys.executable, "-m", "tests.runner.sdk.two_processes", str(folder)]
    ranks = [
        subprocess.Popen(
            [*command, str(rank), str(world), str(stop_at)], stdout=subprocess.PIPE, text=True, env=_ENVIRONMENT
        )
        for rank in range(world)
    ]
    told = [rank.communicate(timeout=120)[0].strip() for rank in ranks]
    return [rank.returncode for rank in ranks], told


@pytest.mark.slow
def test_a_signal_to_one_process_stops_all_at_the_same_step_and_both_go_on_bit_for_bit(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    undisturbed = together(tmp_path / "a", 2, 0)
    assert undisturbed[0] == [0, 0]
    assert together(tmp_path / "b", 2, 5) == ([143, 143], ["", ""])
    assert Folder(tmp_path / "b" / "checkpoints", 1).newest() == 5
    assert together(tmp_path / "b", 2, 0) == undisturbed


@pytest.mark.slow
def test_another_number_of_processes_goes_on_where_the_data_was(tmp_path: Path) -> None:
    assert together(tmp_path, 2, 5)[0] == [143, 143]
    codes, [told] = together(tmp_path, 1, 0)
    assert codes == [0]
    # Two processes did 3 steps and 2 of 3; what is left is 2 of the second epoch's 6 and two whole ones.
    assert told.startswith("19 ")


def test_a_signal_to_the_whole_group_stops_at_a_step_even_with_workers(tmp_path: Path) -> None:
    with tmp_path.joinpath("errors").open("w") as said:
        job = subprocess.Popen(
            [sys.executable, "-c", _ALONE],
            stdout=subprocess.PIPE, stderr=said, text=True, cwd=tmp_path, start_new_session=True,
        )  # fmt: skip
    assert job.stdout is not None
    while job.stdout.readline().strip() != "40":
        assert job.poll() is None
    os.killpg(job.pid, signal.SIGTERM)
    out = job.stdout.read()  # not `communicate`, which loses what was read ahead of the line above
    job.stdout.close()
    code, errors = job.wait(60), tmp_path.joinpath("errors").read_text()
    assert code == 143, errors
    last = int(out.split()[-1]) if out.split() else 40
    assert Folder(tmp_path / "checkpoints", 1).newest() == last + 1
    assert f"saved step {last + 1} and leaving" in errors
