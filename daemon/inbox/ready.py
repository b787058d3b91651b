"""Which entries of the drop folder are there whole, so that they may be claimed."""

import os
import stat
from contextlib import suppress
from datetime import datetime, timedelta
from itertools import islice
from pathlib import Path

from daemon.inbox.safe_read import NotTaken, being_written, open_folder
from daemon.inbox.walk import Everything, walk

JOB_FILES = ("job.yaml", "job.yml", "job.toml", "job.json", "job.sh")
_UNFINISHED = (b".tmp", b".part", b".partial", b".filepart", b".crdownload", b".swp", b"~")
Mark = tuple[int, int, int]  # newest change in nanoseconds, files, bytes


class Ready:
    """Remembers what each entry looked like, since an entry that changes is still being written."""

    def __init__(self, folder: Path, quiet: timedelta, ours: frozenset[str]) -> None:
        """Look at `folder`, but not at the entries named in `ours`."""
        self._folder = os.fsencode(folder)
        self._quiet = quiet
        self._ours = {os.fsencode(name) for name in ours}
        self._seen: dict[bytes, tuple[Mark, datetime]] = {}
        self._passed_over: dict[bytes, Mark] = {}

    def names(self, now: datetime, most: int) -> list[bytes]:
        """Return up to `most` names of entries that have kept still for long enough, the oldest first. Raises OSError."""
        with os.scandir(self._folder) as entries:
            marks = {entry.name: mark for entry in entries if (mark := self._mark(entry))}
        self._seen = {name: self._since(name, mark, now) for name, mark in marks.items()}
        self._passed_over = {name: mark for name, mark in self._passed_over.items() if marks.get(name) == mark}
        still = [(mark[0], name) for name, (mark, since) in self._seen.items() if self._is_quiet(mark, since, now)]
        ready = (name for _, name in sorted(still) if name not in self._passed_over and not self._is_open(name))
        return list(islice(ready, most))

    def pass_over(self, name: bytes) -> None:
        """Leave an entry alone until it changes."""
        self._passed_over[name] = self._seen[name][0]

    def _since(self, name: bytes, mark: Mark, now: datetime) -> tuple[Mark, datetime]:
        before, since = self._seen.get(name, (None, now))
        return mark, min(since, now) if before == mark else now

    def _is_quiet(self, mark: Mark, since: datetime, now: datetime) -> bool:
        """Say whether it has not changed for a while, by its own times or by what was seen: its clock may be another."""
        return now.timestamp() - mark[0] / 1e9 >= self._quiet.total_seconds() or now - since >= self._quiet

    def _mark(self, entry: os.DirEntry[bytes]) -> Mark | None:
        """Return how an entry looks, None for one that isn't ours to take."""
        if entry.name.startswith(b".") or entry.name.lower().endswith(_UNFINISHED) or entry.name in self._ours:
            return None
        try:
            found = entry.stat(follow_symlinks=False)
            if not stat.S_ISDIR(found.st_mode):
                return _newest(found), 1, found.st_size
            # A folder without a job file is the workdir of a file beside it.
            return _folder_mark(entry.path) if holds_job(Path(os.fsdecode(entry.path))) else None
        except FileNotFoundError:
            return None

    def _is_open(self, name: bytes) -> bool:
        path = Path(os.fsdecode(self._folder)) / os.fsdecode(name)
        return path.is_file() and not path.is_symlink() and being_written(path)


def holds_job(folder: Path) -> bool:
    """Say whether a folder is a job by itself."""
    return any(os.path.lexists(folder / name) for name in JOB_FILES)


def _newest(found: os.stat_result) -> int:
    return max(found.st_mtime_ns, found.st_ctime_ns)


def _folder_mark(path: bytes) -> Mark:
    newest, count, size = _newest(os.lstat(path)), 0, 0
    with suppress(NotTaken, OSError):  # it will be refused when it is read
        descriptor = open_folder(Path(os.fsdecode(path)))
        try:
            for entry in walk(descriptor, Everything()):
                newest, count, size = max(newest, _newest(entry.found)), count + 1, size + entry.found.st_size
        finally:
            os.close(descriptor)
    return newest, count, size
