"""Open what a stranger dropped, and judge the open file, never its path again."""

import fcntl
import os
import signal
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from config.reason import Reason, Value

_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NOCTTY | os.O_CLOEXEC
_KINDS = {
    stat.S_IFLNK: "symlink",
    stat.S_IFIFO: "pipe",
    stat.S_IFCHR: "device",
    stat.S_IFBLK: "device",
    stat.S_IFSOCK: "socket",
}


class NotTaken(Exception):
    """What was dropped can't be taken; `reason` says why and what to do."""

    def __init__(self, code: str, /, **values: Value) -> None:
        """Make the reason `drop.<code>`."""
        self.reason = Reason(f"drop.{code}", values)
        super().__init__(str(self.reason))


@dataclass(frozen=True, slots=True)
class Contents:
    """A file's bytes and the user it belongs to."""

    data: bytes
    uid: int


def read_safely(path: Path, largest: int) -> Contents:
    """Read a dropped file whole. Raises NotTaken for anything but a small, plain file with one name that keeps still; OSError."""
    with open_safely(path) as (descriptor, found):
        if found.st_size > largest:
            raise NotTaken("too_large", size_bytes=found.st_size, most_bytes=largest)
        data = _read(descriptor, largest + 1)
        after = os.fstat(descriptor)
    if len(data) != found.st_size or _mark(found) != _mark(after):
        raise NotTaken("changed")
    return Contents(data, found.st_uid)


@contextmanager
def open_safely(path: Path) -> Iterator[tuple[int, os.stat_result]]:
    """Open a plain file with one name, and say what it is. Raises NotTaken for anything else, OSError."""
    # No link is followed, and a pipe's writer is not waited for. Devices are not opened: that alone may do something.
    refuse_odd(path.lstat())
    descriptor = os.open(path, _FLAGS | os.O_NONBLOCK)
    try:
        found = os.fstat(descriptor)
        refuse_odd(found)
        yield descriptor, found
    finally:
        os.close(descriptor)


def refuse_odd(found: os.stat_result) -> None:
    """Refuse anything but a plain file with one name. Raises NotTaken."""
    if not stat.S_ISREG(found.st_mode):
        raise NotTaken(_KINDS.get(stat.S_IFMT(found.st_mode), "no_file"))
    if found.st_nlink != 1:
        raise NotTaken("hard_link")


def open_folder(folder: Path, inner: str = ".") -> int:
    """Open `inner` below `folder` without following a link on the way down. The caller closes it. Raises OSError."""
    descriptor = os.open(folder, os.O_DIRECTORY | _FLAGS)
    for part in Path(inner).parts:
        above = descriptor
        try:
            descriptor = os.open(part, os.O_DIRECTORY | _FLAGS, dir_fd=above)
        finally:
            os.close(above)
    return descriptor


def being_written(path: Path) -> bool:
    """Say whether a program on this computer has a plain file open for writing, as far as the kernel tells.

    It does for a local file system, to the file's owner and to root: it refuses a lease for reading.
    """
    try:
        descriptor = os.open(path, _FLAGS | os.O_NONBLOCK)
    except OSError:
        return False
    try:
        # A writer that comes in this very moment is announced by a signal that does nothing.
        fcntl.fcntl(descriptor, fcntl.F_SETSIG, signal.SIGURG)
        fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_RDLCK)
        fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_UNLCK)
    except BlockingIOError:
        return True
    except OSError:
        return False  # a file system without leases, or somebody else's file
    finally:
        os.close(descriptor)
    return False


def _read(descriptor: int, most: int) -> bytes:
    parts = []
    while most > 0 and (part := os.read(descriptor, min(most, 1 << 20))):
        parts.append(part)
        most -= len(part)
    return b"".join(parts)


def _mark(found: os.stat_result) -> tuple[int, ...]:
    return found.st_ino, found.st_size, found.st_mtime_ns
