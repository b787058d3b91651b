"""Files that are whole or not there, even after a power cut."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import IO

PART = ".tmp"


def write_whole(path: Path, write: Callable[[IO[bytes]], object], *, durable: bool = True) -> None:
    """Let `write` fill a file beside `path`, then rename it to `path`. Raises OSError; `path` is then as before."""
    part = path.with_name(f".{path.name}.{os.getpid()}{PART}")
    try:
        with part.open("w+b") as file:
            write(file)
            file.flush()
            if durable:
                os.fsync(file.fileno())
        part.replace(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
    if durable:
        sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Make the names in a folder survive a power cut."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
