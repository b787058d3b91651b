"""Pack a job's folder into one archive: the same files give the same bytes, and so the same name in the store."""

import gzip
import os
import stat
import tarfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from hashlib import file_digest
from heapq import nlargest
from io import BytesIO
from pathlib import Path, PurePosixPath

from config.units import print_memory
from daemon.inbox.ignore import Ignored
from daemon.inbox.safe_read import NotTaken
from daemon.inbox.walk import Entry, walk

_LEVEL = 6


def pack(folder: int, target: Path, largest: int, reader: int) -> str:
    """Pack an open folder into `target` (tar.gz) and return its SHA-256.

    `largest` is in bytes before packing, `reader` the number of the user who must be allowed to read what is packed. Raises
    NotTaken when it is larger, leads outside, or holds what a job can't have; OSError.
    """
    sizes: list[tuple[int, str]] = []
    total = 0
    with packing(target) as archive:
        for entry in walk(folder, Ignored()):
            _refuse(entry, reader)
            total += entry.found.st_size
            sizes.append((entry.found.st_size, entry.path))
            if total <= largest:
                add(archive, entry)
    if total > largest:
        files = ", ".join(f"{path} ({print_memory(size)})" for size, path in nlargest(5, sizes))
        raise NotTaken("code_too_large", size_bytes=total, most_bytes=largest, files=files)
    with target.open("rb") as file:
        return file_digest(file, "sha256").hexdigest()


@contextmanager
def packing(target: Path) -> Iterator[tarfile.TarFile]:
    """Open an archive for writing whose bytes depend on nothing but what is put in. Raises OSError."""
    with ExitStack() as stack:
        raw = stack.enter_context(target.open("wb"))
        zipped = stack.enter_context(gzip.GzipFile("", "wb", _LEVEL, raw, mtime=0))
        yield stack.enter_context(tarfile.open(fileobj=zipped, mode="w", format=tarfile.PAX_FORMAT))


def add(archive: tarfile.TarFile, entry: Entry, path: str = "") -> None:
    """Add one file or link, under its own path or another. Raises NotTaken when it changes meanwhile, OSError."""
    info = tarfile.TarInfo(path or entry.path)
    info.mode = 0o755 if entry.found.st_mode & stat.S_IXUSR else 0o644
    if stat.S_ISLNK(entry.found.st_mode):
        info.type, info.linkname, info.mode = tarfile.SYMTYPE, os.readlink(entry.name, dir_fd=entry.folder), 0o777
        archive.addfile(info)
        return
    descriptor = os.open(entry.name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=entry.folder)
    with os.fdopen(descriptor, "rb") as file:
        info.size = entry.found.st_size
        if not os.path.samestat(os.fstat(descriptor), entry.found):
            raise NotTaken("file_changed", path=entry.path)
        try:
            archive.addfile(info, file)
        except OSError as error:
            if os.fstat(descriptor).st_size == info.size:
                raise
            raise NotTaken("file_changed", path=entry.path) from error
        if os.fstat(descriptor).st_mtime_ns != entry.found.st_mtime_ns:
            raise NotTaken("file_changed", path=entry.path)


def add_bytes(archive: tarfile.TarFile, path: str, data: bytes) -> None:
    """Add a file that holds `data`."""
    info = tarfile.TarInfo(path)
    info.size, info.mode = len(data), 0o644
    archive.addfile(info, BytesIO(data))


def _refuse(entry: Entry, reader: int) -> None:
    mode = entry.found.st_mode
    if stat.S_ISLNK(mode):
        if _leads_out(entry.path, os.readlink(entry.name, dir_fd=entry.folder)):
            raise NotTaken("link_out", path=entry.path)
    elif not stat.S_ISREG(mode):
        raise NotTaken("not_plain", path=entry.path)
    elif entry.found.st_uid != reader and not mode & stat.S_IROTH and reader != 0:
        # A hard link or a rename must not show somebody what the daemon may read and he may not.
        raise NotTaken("not_yours", path=entry.path)


def _leads_out(path: str, link: str) -> bool:
    """Say whether a link names anything outside the packed folder, by its text alone: what it names may be packed later."""
    if link.startswith("/"):
        return True
    depth = len(PurePosixPath(path).parts) - 1
    for part in PurePosixPath(link).parts:
        depth += -1 if part == ".." else 1
        if depth < 0:
            return True
    return False
