"""Linux processes: telling one from a later one with the same number, and ending whole trees of them."""

import ctypes
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_PROC = Path("/proc")
_STATE, _PARENT, _START = 0, 1, 19  # fields of /proc/<pid>/stat after the command's closing bracket


def identity(pid: int) -> str | None:
    """Return a name for a live process that no later process can have; None if it has ended (a zombie has)."""
    fields = _stat(pid)
    if fields is None or fields[_STATE] in "ZX":
        return None
    boot = (_PROC / "sys/kernel/random/boot_id").read_text().strip()
    return f"{pid}:{fields[_START]}:{boot}"


def alive(name: str) -> bool:
    """Say whether the process that `identity` named is still there."""
    return bool(name) and identity(int(name.partition(":")[0])) == name


def marked(variable: str, value: str) -> list[int]:
    """Return the live processes of this user whose first environment had `variable=value`."""
    wanted = f"{variable}={value}".encode()
    return [pid for pid in _pids() if wanted in _environment(pid).split(b"\0")]


def descendants(pid: int) -> list[int]:
    """Return the live processes below `pid`, parents before children."""
    children: dict[int, list[int]] = {}
    for other in _pids():
        fields = _stat(other)
        if fields and fields[_STATE] not in "ZX":
            children.setdefault(int(fields[_PARENT]), []).append(other)
    found = list(children.get(pid, []))
    for one in found:
        found.extend(children.get(one, []))
    return found


def kill_all(find: Callable[[], list[int]], pause: Callable[[], object]) -> None:
    """Kill what `find` returns until it returns nothing: a process may fork while its tree is being killed."""
    while pids := find():
        for pid in pids:
            send(pid, signal.SIGKILL)
        pause()


def send(pid: int, number: signal.Signals) -> None:
    """Send a signal; a process that is gone, or was never ours, is left alone."""
    with suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)


def reap() -> dict[int, int]:
    """Collect the ended children of this process: exit codes by process, minus the signal's number for a killed one."""
    ended: dict[int, int] = {}
    with suppress(ChildProcessError):
        while (one := os.waitpid(-1, os.WNOHANG))[0]:
            ended[one[0]] = os.waitstatus_to_exitcode(one[1])
    return ended


def adopt_orphans() -> None:
    """Make this process the parent of every descendant whose own parent ends, so that none can slip away."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def die_with_parent(parent: int) -> None:
    """Have the kernel kill this process when `parent`, which started it, ends; also if it has ended already."""
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGKILL)


def _prctl(option: int, value: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(option, value, 0, 0, 0):  # pragma: no cover - both options exist since Linux 3.4
        raise OSError(ctypes.get_errno(), f"prctl({option}) was refused")


def _pids() -> Iterator[int]:
    return (int(entry.name) for entry in _PROC.iterdir() if entry.name.isdigit())


def _stat(pid: int) -> list[str] | None:
    try:
        text = (_PROC / str(pid) / "stat").read_text(errors="replace")
    except OSError:
        return None
    return text.rpartition(")")[2].split()


def _environment(pid: int) -> bytes:
    try:
        return (_PROC / str(pid) / "environ").read_bytes()
    except OSError:
        return b""
