"""Linux processes as /proc shows them: whole trees, who heeds which signal, and this process's own family ties."""

import ctypes
import os
import signal
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from config.clock import Clock

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_PROC = Path("/proc")
_KILL_PAUSE_S = 0.01
SHELLS = frozenset({"ash", "bash", "dash", "fish", "ksh", "mksh", "sh", "zsh"})
# They end by themselves when what they read from ends; killed before, they take its last words with them.
PIPES = frozenset({"awk", "cat", "gawk", "grep", "head", "mawk", "sed", "tail", "tee", "tr", "ts"})


@dataclass(frozen=True, slots=True)
class Process:
    """One live process."""

    pid: int
    parent: int

    @property
    def name(self) -> str:
        """The name of its program, such as `bash` for a shell script; empty when it has just ended."""
        with suppress(OSError):
            program = (_PROC / str(self.pid) / "exe").readlink().name.removesuffix(" (deleted)")
            if program != "busybox":
                return program
        with suppress(OSError):
            return (_PROC / str(self.pid) / "comm").read_text().strip()
        return ""

    def catches(self, number: int) -> bool:
        """Say whether it has its own answer to a signal."""
        with suppress(OSError, IndexError, ValueError):
            text = (_PROC / str(self.pid) / "status").read_text()
            return bool(int(text.split("SigCgt:")[1].split()[0], 16) >> (number - 1) & 1)
        return False

    def has(self, mark: bytes) -> bool:
        """Say whether `NAME=value` was in its first environment."""
        with suppress(OSError):
            return mark in (_PROC / str(self.pid) / "environ").read_bytes().split(b"\0")
        return False


def table() -> dict[int, Process]:
    """Return every live process by its number; one that has ended and waits for its parent is left out."""
    found = (_read(int(entry.name)) for entry in _PROC.iterdir() if entry.name.isdigit())
    return {process.pid: process for process in found if process}


def _read(pid: int) -> Process | None:
    try:
        text = (_PROC / str(pid) / "stat").read_text(errors="replace")
    except OSError:
        return None
    state, parent = text.rpartition(")")[2].split()[:2]
    return None if state in "ZX" else Process(pid, int(parent))


def below(roots: Iterable[int], processes: dict[int, Process]) -> list[Process]:
    """Return the processes under `roots`, without them, parents first."""
    children: dict[int, list[Process]] = {}
    for process in processes.values():
        children.setdefault(process.parent, []).append(process)
    found = [child for root in roots for child in children.get(root, [])]
    for process in found:
        found.extend(children.get(process.pid, []))
    return found


def family(leader: int, mark: bytes) -> list[Process]:
    """Return `leader`, all that carry `mark` in their environment, and all below these: wherever they have gone."""
    processes = table()
    roots = {pid for pid, process in processes.items() if pid == leader or process.has(mark)} - {os.getpid()}
    members = {pid: processes[pid] for pid in roots}
    members |= {process.pid: process for process in below(roots, processes)}
    return list(members.values())


def ask(members: list[Process], number: signal.Signals, asked: set[int]) -> bool:
    """Send a signal to the programs among `members` that a user would mean, once each; say whether any still runs.

    That is the topmost program of each tree: it tells its own children, and a DataLoader's workers must not die before it.
    A shell that waits for it would take the signal for itself, or go on with the next line of its script; it is made to
    stand still instead, unless its script has a trap for the signal.
    """
    programs = list(_programs(members, number))
    for process in programs:
        if process.pid not in asked:
            asked.add(process.pid)
            send(process.pid, number)
    return bool(programs)


def _programs(members: list[Process], number: signal.Signals) -> Iterable[Process]:
    pids = {process.pid for process in members}
    left = [process for process in members if process.parent not in pids]
    for process in left:
        name = process.name
        if name in SHELLS and not process.catches(number):
            send(process.pid, signal.SIGSTOP)
            left.extend(member for member in members if member.parent == process.pid)
        elif name not in PIPES:
            yield process


def kill(find: Callable[[], Iterable[Process]], clock: Clock, seconds: float) -> bool:
    """Kill what `find` returns until it returns nothing, for it may fork meanwhile; say whether all ended in time."""
    end = clock.monotonic() + seconds
    while found := list(find()):
        for process in found:
            send(process.pid, signal.SIGKILL)
        if clock.monotonic() >= end:
            return False
        clock.wait(threading.Event(), _KILL_PAUSE_S)
    return True


def send(pid: int, number: signal.Signals) -> None:
    """Send a signal; a process that has ended, or isn't ours to signal, is left alone."""
    with suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)


def age_s(pid: int) -> float:
    """Return how long a process has been there, whatever programs it has become since. Raises OSError."""
    started = int((_PROC / str(pid) / "stat").read_text(errors="replace").rpartition(")")[2].split()[19])
    uptime = float((_PROC / "uptime").read_text().split()[0])
    return max(0.0, uptime - started / os.sysconf("SC_CLK_TCK"))


def adopt_orphans() -> None:
    """Make this process the parent of every process below it whose own parent ends."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def hear_of_parent(number: signal.Signals, parent: int) -> None:
    """Have the kernel send `number` to this process when `parent` ends; at once if it has."""
    _prctl(_PR_SET_PDEATHSIG, number)
    if os.getppid() != parent:
        os.kill(os.getpid(), number)


def _prctl(option: int, value: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(option, value, 0, 0, 0):
        raise OSError(ctypes.get_errno(), f"prctl({option}) was refused")
