"""Unpack what a stranger packed."""

import gzip
import os
import tarfile
import zlib
from pathlib import Path

from daemon.inbox.safe_read import NotTaken, open_safely
from daemon.inbox.walk import MOST_FILES

_LARGEST_READ = 1 << 20  # bytes; only a name or a header of a hostile archive asks for more at once


class _Stream(gzip.GzipFile):
    """A gzip file that never gives more than a little at once: tarfile reads whole headers, and those can be bombs."""

    def read(self, size: int | None = -1) -> bytes:
        """Read up to `size` bytes. Raises NotTaken for more than a mebibyte."""
        if size is None or not 0 <= size <= _LARGEST_READ:
            raise NotTaken("not_gzip", why="one of its headers is larger than a header can be")
        return super().read(size)


def unpack(archive: Path, folder: Path, largest: int) -> int:
    """Unpack a .tar.gz into an empty folder and return the number of the user it belongs to.

    Raises NotTaken for names and links that lead outside, for devices, for bombs, and for what is no such archive.
    """
    with open_safely(archive) as (descriptor, found):
        if found.st_size > largest:
            raise NotTaken("archive_too_large", size_bytes=found.st_size, most_bytes=largest)
        try:
            with (
                os.fdopen(descriptor, "rb", closefd=False) as raw,
                _Stream(fileobj=raw) as stream,
                tarfile.open(fileobj=stream, mode="r:") as tar,
            ):
                _extract(tar, folder, largest)
        except tarfile.FilterError as error:
            code = "odd_member" if isinstance(error, tarfile.SpecialFileError) else "leaves"
            raise NotTaken(code, path=error.tarinfo.name) from error
        except (
            tarfile.TarError,
            EOFError,
            zlib.error,
            ValueError,
            OverflowError,
            RecursionError,
            gzip.BadGzipFile,
        ) as error:
            raise NotTaken("not_gzip", why=str(error) or type(error).__name__) from error
    return found.st_uid


def _extract(tar: tarfile.TarFile, folder: Path, largest: int) -> None:
    total, last = 0, -1
    for count, member in enumerate(tar):
        total += member.size
        if total > largest:
            raise NotTaken("bomb", most_bytes=largest)
        if count >= MOST_FILES:
            raise NotTaken("many_files", most=MOST_FILES)
        if member.size < 0 or member.offset <= last:
            raise NotTaken("not_gzip", why="its headers contradict each other")
        last = member.offset
        if member.islnk() and not os.path.lexists(folder / member.linkname):
            raise NotTaken("odd_member", path=member.name)  # tarfile would read on to the end to find what it links to
        tar.extract(member, folder, filter="data")
        tar.members = []  # type: ignore[attr-defined]  # they would pile up in memory
