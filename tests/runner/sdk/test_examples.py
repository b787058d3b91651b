"""The examples do what their first lines say."""

import csv
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from daemon.jobfile.read import read_job

EXAMPLES = Path(__file__).parents[3] / "examples"


def start(script: str, folder: Path, *words: str) -> subprocess.Popen[str]:
    command = [sys.executable, str(EXAMPLES / script), *words]
    return subprocess.Popen(
        command, cwd=folder, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=os.environ | {"PYTHONUNBUFFERED": "1"}
    )  # fmt: skip


def finish(script: str, folder: Path, *words: str) -> str:
    folder.mkdir(exist_ok=True)
    job = start(script, folder, *words)
    out = job.communicate(timeout=120)[0]
    assert job.returncode == 0, out
    return out


def stop_after(sign: str, script: str, folder: Path, *words: str) -> tuple[int, str]:
    """Tell the script to stop as soon as it has said `sign`; return its exit code and what it said after that."""
    folder.mkdir(exist_ok=True)
    with start(script, folder, *words) as job:
        assert job.stdout is not None
        while sign not in (line := job.stdout.readline()):
            assert line, f"{script} ended early"
        job.send_signal(signal.SIGTERM)
        out = job.stdout.read()  # not `communicate`, which loses what was read ahead of the sign
    return job.returncode, out


@pytest.mark.slow
def test_digits_ends_the_same_with_and_without_an_interruption(tmp_path: Path) -> None:
    finish("digits/train.py", tmp_path / "a", "--epochs", "2")
    code, said = stop_after("epoch 1/2", "digits/train.py", tmp_path / "b", "--epochs", "2")
    assert code == 143, said
    assert "going on from step" in finish("digits/train.py", tmp_path / "b", "--epochs", "2")
    told = [json.loads((tmp_path / name / "outputs" / "metrics.json").read_bytes()) for name in "ab"]
    assert told[0] == told[1]
    assert told[0]["steps"] == 90


@pytest.mark.slow
def test_the_sweep_goes_on_where_it_was(tmp_path: Path) -> None:
    code, said = stop_after("trial 10/90", "sweep/sweep.py", tmp_path, "--epochs", "1")
    assert code == 143, said
    out = finish("sweep/sweep.py", tmp_path, "--epochs", "1")
    assert "trial 10/90" not in out
    assert "trial 90/90" in out
    with (tmp_path / "outputs" / "results.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len({(row["rate"], row["width"], row["decay"]) for row in rows}) == len(rows) == 90
    assert rows == sorted(rows, key=lambda row: -float(row["accuracy"]))


@pytest.mark.parametrize("name", ["digits", "sweep", "plain"])
def test_each_job_file_is_taken(name: str) -> None:
    [spec] = read_job((EXAMPLES / name / "job.yaml").read_bytes(), "job.yaml")
    assert spec.name == name
    assert spec.cap is not None
    assert (EXAMPLES / name / spec.run.split()[1]).is_file()
