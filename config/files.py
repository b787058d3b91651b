"""Files that appear whole."""

import os
from pathlib import Path

_LONGEST_NAME = 255  # bytes, on every file system that matters
_KEPT_END = 20  # characters of a cut name: its ending tells what it is


def write_atomically(path: Path, data: bytes, mode: int = 0o644) -> None:
    """Write a file so that readers see the old one or the new one, never a part, and a power cut leaves one of the two.

    Whatever lies at the draft's name (left over, or put there by somebody) is removed, not written through. Raises OSError.
    """
    draft = draft_of(path)
    draft.unlink(missing_ok=True)
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, mode)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def draft_of(path: Path) -> Path:
    """Return the hidden name beside `path` that it is written under until it is whole."""
    return path.with_name(fit(".", path.name, ".tmp"))


def sync_folder(folder: Path) -> None:
    """Make renames in a folder last through a power cut. Raises OSError."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def fit(before: str, name: str, after: str = "") -> str:
    """Return `before + name + after`, with the middle of `name` cut out where a file system would find it too long."""
    room = _LONGEST_NAME - len(os.fsencode(before)) - len(os.fsencode(after))
    if len(os.fsencode(name)) <= room:
        return f"{before}{name}{after}"
    start, end = name[:-_KEPT_END], name[-_KEPT_END:]
    while len(os.fsencode(start)) > room - len(os.fsencode(end)) - 3:
        start = start[:-1]
    return f"{before}{start}...{end}{after}"
