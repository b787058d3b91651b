"""kill -9 of the daemon at each kind of step, of the agent, and of the training: both jobs still end right."""

import json
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlmodel import Session, select

from daemon import views
from daemon.database import open_reader
from daemon.demo.run import Demo
from daemon.models import Machine
from tests.e2e.dying_daemon import POINTS
from tests.e2e.light import light_job

PACE = {"length": "8s", "longest": "15s", "shortest": "4s", "boot": "14s", "end": "1s"}


class Rehearsal(Demo):
    """The demo with two light jobs, and somebody who kills one process of the first while it runs."""

    victim = ""
    killed = 0

    def _interrupt(self, job: dict[str, Any]) -> None:
        if not self.victim:
            super()._interrupt(job)
        elif job["name"] == "steady" and job["step"] > 20 and not self.killed:
            self.killed = process_of(job["id"], self.victim)
            os.kill(self.killed, signal.SIGKILL)


def process_of(job: str, what: str) -> int:
    """Return the process of a job's training, or of the agent above it."""
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            command = entry.joinpath("cmdline").read_bytes().split(b"\0")
            environment = entry.joinpath("environ").read_bytes()
        except OSError:
            continue
        if f"FRUGALD_JOB_ID={job}".encode() in environment and b"train.py" in command:
            return int(entry.name) if what == "training" else agent_above(int(entry.name))
    raise AssertionError(f"the training of {job} does not run")


def agent_above(pid: int) -> int:
    while pid > 1:
        pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        if b"--machine" in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0"):
            return pid
    raise AssertionError("no agent runs above it")


@pytest.fixture
def rehearsal(tmp_path: Path) -> Iterator[Rehearsal]:
    lines: list[str] = []
    for name in ("steady", "greedy"):
        light_job(tmp_path / "examples" / name, name)
    demo = Rehearsal(tmp_path, say=lines.append, examples=tmp_path / "examples", jobs=("steady", "greedy"), pace=PACE)
    try:
        yield demo
    finally:
        demo.close()
        left = [p for p in Path("/proc").iterdir() if p.name.isdigit() and _belongs(p, tmp_path)]
        if left or sys.exc_info()[0]:
            sys.stdout.write("\n".join(lines))
        assert left == []


def _belongs(process: Path, folder: Path) -> bool:
    try:
        return (
            str(folder).encode() in process.joinpath("cmdline").read_bytes() + process.joinpath("environ").read_bytes()
        )
    except OSError:
        return False


def check(demo: Rehearsal, found: dict[str, Any]) -> None:
    """Both jobs are right, nothing is leaked, nothing was rented twice, no cap was passed."""
    greedy, steady = found["demo"]["jobs"]
    assert (greedy["state"], steady["state"]) == ("succeeded", "succeeded")
    assert (greedy["final_step"], steady["final_step"]) == (260, 120)
    assert greedy["resumed_from_step"] > 0
    assert found["demo"]["leaked_machines"] == 0
    assert found["demo"]["webhooks"]["signature_valid"]
    assert demo.held["cost_micro"] <= demo.held["budget_micro"] == 1000
    for name, steps in (("greedy", 260), ("steady", 120)):
        (lines,) = demo.folder.glob(f"drop/done/{name}-*/outputs/lines.json")
        assert json.loads(lines.read_text()) == list(range(1, steps + 1))
    engine = open_reader(demo.folder / "frugald.db")
    with Session(engine) as session:
        rows = session.exec(select(Machine)).all()
        attempts = [
            run
            for job in views.jobs(session)
            for run in views.job_status(session, session.get_one(views.Job, job["id"]))["runs"]
        ]
    engine.dispose()
    rented = list(demo._cloud().machines())
    assert len({m.token for m in rented}) == len(rented)
    assert {m.token for m in rented} <= {row.token for row in rows}
    assert len({run["machine"]["id"] for run in attempts}) == len(attempts)
    assert len(rented) <= len(attempts)


@pytest.mark.slow
@pytest.mark.parametrize("point", POINTS)
def test_the_daemon_is_killed_and_started_again(rehearsal: Rehearsal, point: str) -> None:
    start = rehearsal.daemon.start
    rehearsal.daemon.start = lambda command=None: start(  # type: ignore[method-assign]
        command if rehearsal.daemon.deaths else [sys.executable, "-m", "tests.e2e.dying_daemon", point]
    )
    found = rehearsal.run()
    assert rehearsal.daemon.deaths == [-signal.SIGKILL]
    assert found["demo"]["jobs"][1]["interruptions"] >= 1
    check(rehearsal, found)


@pytest.mark.slow
@pytest.mark.parametrize("victim", ["agent", "training"])
def test_a_process_of_the_job_is_killed(rehearsal: Rehearsal, victim: str) -> None:
    rehearsal.victim = victim
    found = rehearsal.run()
    assert rehearsal.killed
    assert found["demo"]["jobs"][1]["resumed_from_step"] > 0
    check(rehearsal, found)
