"""Telling processes apart, and ending all of a tree."""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from config.clock import SystemClock
from runner.providers.rack import processes
from tests.runner.providers.machines import until

SLEEP = [sys.executable, "-c", "print(flush=True); import time; time.sleep(600)"]


def started(command: list[str]) -> subprocess.Popen[bytes]:
    child = subprocess.Popen(command, stdout=subprocess.PIPE)
    assert child.stdout is not None
    child.stdout.readline()
    return child


def ended(child: subprocess.Popen[bytes]) -> int:
    assert child.stdout is not None
    child.stdout.close()
    return child.wait(10)


def test_a_zombie_is_not_alive() -> None:
    child = started(SLEEP)
    name = processes.identity(child.pid)
    assert name is not None
    assert processes.alive(name)
    child.kill()
    until(lambda: not processes.alive(name))  # nobody has waited for it yet
    assert processes.identity(child.pid) is None
    ended(child)


def test_the_same_number_at_another_time_is_another_process() -> None:
    mine = processes.identity(os.getpid())
    assert mine is not None
    pid, start, boot = mine.split(":")
    assert processes.alive(mine)
    assert not processes.alive(f"{pid}:{int(start) - 1}:{boot}")
    assert not processes.alive(f"{pid}:{start}:another-boot")
    assert not processes.alive("")


def test_a_process_is_known_by_its_first_environment() -> None:
    child = subprocess.Popen(SLEEP, env={"MARK": "here"}, stdout=subprocess.PIPE)
    assert child.stdout is not None
    child.stdout.readline()
    assert processes.marked("MARK", "here") == [child.pid]
    assert processes.marked("MARK", "her") == []
    child.kill()
    ended(child)


def test_a_tree_is_killed_to_the_last_leaf() -> None:
    code = f"import subprocess; p = subprocess.Popen({SLEEP!r}, start_new_session=True); p.wait()"
    child = started([sys.executable, "-c", code])
    leaves = processes.descendants(child.pid)
    assert leaves
    pause = lambda: SystemClock().wait(threading.Event(), 0.01)  # noqa: E731
    processes.kill_all(lambda: processes.descendants(child.pid), pause)
    assert all(processes.identity(pid) is None for pid in leaves)
    assert ended(child) == 0


def test_a_child_bound_to_its_parent_dies_with_it(tmp_path: Path) -> None:
    child = (
        "import os, time; from runner.providers.rack.processes import die_with_parent\n"
        "die_with_parent(os.getppid()); print(os.getpid(), flush=True); time.sleep(600)"
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}])"],
        stdout=subprocess.PIPE,
    )
    assert parent.stdout is not None
    bound = int(parent.stdout.readline())
    parent.kill()
    until(lambda: processes.identity(bound) is None)
    ended(parent)


def test_a_child_whose_parent_died_first_dies_too() -> None:
    code = "from runner.providers.rack.processes import die_with_parent; die_with_parent(1 << 22); print('alive')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert (done.returncode, done.stdout) == (-signal.SIGKILL, b"")


@pytest.mark.parametrize("pid", [1 << 22, 0x7FFFFFFF])
def test_a_signal_to_nobody_is_no_error(pid: int) -> None:
    processes.send(pid, signal.SIGTERM)
