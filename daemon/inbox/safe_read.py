"""Open what a stranger dropped, and judge the open file, never its path again."""

import os
import stat
from dataclasses import dataclass
from pathlib import Path


class NotTaken(ValueError):
    """What was dropped can't be taken; the message says why and what to do."""


@dataclass(frozen=True, slots=True)
class Contents:
    """A file's bytes and the user it belongs to."""

    data: bytes
    uid: int


def read_safely(path: Path, largest: int) -> Contents:
    """Read a dropped file whole. Raises NotTaken for anything but a small, plain file with one name."""
    try:
        # Not following links, and not waiting for a writer of a pipe.
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError as error:
        if path.is_symlink():
            raise NotTaken("it is a symbolic link: drop the file itself") from error
        raise NotTaken(f"it can't be read: {error.strerror}") from error
    with os.fdopen(descriptor, "rb") as file:
        found = os.fstat(descriptor)
        _judge(found, largest)
        data = file.read(largest + 1)
        after = os.fstat(descriptor)
    if len(data) > largest:
        raise NotTaken(_too_large(len(data), largest))
    if (found.st_size, found.st_mtime_ns) != (after.st_size, after.st_mtime_ns) or len(data) != after.st_size:
        raise NotTaken("it changed while it was read: write it under another name, then rename it")
    return Contents(data, found.st_uid)


def _judge(found: os.stat_result, largest: int) -> None:
    if not stat.S_ISREG(found.st_mode):
        kinds = {stat.S_IFIFO: "a pipe", stat.S_IFCHR: "a device", stat.S_IFBLK: "a device", stat.S_IFSOCK: "a socket"}
        raise NotTaken(f"it is {kinds.get(stat.S_IFMT(found.st_mode), 'no plain file')}: drop a plain file")
    if found.st_nlink != 1:
        raise NotTaken("it has a second name (a hard link): drop a copy of it")
    if found.st_size > largest:
        raise NotTaken(_too_large(found.st_size, largest))


def _too_large(size: int, largest: int) -> str:
    return f"it has {size:,} bytes; a job file may have {largest:,}: put code into `workdir`"
