"""Take what was dropped: claim it by renaming, read it, pack its code, and say where it went.

A file is claimed by a rename inside the folder, the only step that can't happen by half. What is claimed and not settled
when the daemon dies is found in `.claimed/` and judged again under the same claim.
"""

import os
import pwd
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from pathlib import Path
from typing import Protocol

from config.clock import Clock
from config.files import write_atomically
from config.settings import InboxSettings
from daemon.inbox.pack import pack, unpack
from daemon.inbox.safe_read import Contents, NotTaken, read_safely
from daemon.jobfile import JobFileError, JobSpec, read_job
from runner.store import Store

SUFFIXES = (".yaml", ".yml", ".toml", ".json", ".sh", ".slurm", ".sbatch")
ARCHIVES = (".tar.gz", ".tgz")
JOB_FILES = ("job.yaml", "job.yml", "job.toml", "job.json", "job.sh")
MOST_AT_ONCE = 500
CLAIMED, ACCEPTED, REJECTED, DONE = ".claimed", "accepted", "rejected", "done"
_OURS = {ACCEPTED, REJECTED, DONE}
_SEPARATOR = "--"


class _Ids(Protocol):
    def new(self, prefix: str, letters: int = 8) -> str: ...


@dataclass(frozen=True, slots=True)
class Claimed:
    """A drop that holds one job or, by a matrix, several."""

    claim: str  # its name in `.claimed/`
    source: str  # the name it was dropped under
    specs: tuple[JobSpec, ...]
    content_key: str  # the same file with the same code from the same user has the same key
    user: str
    code_key: str = ""
    code_sha256: str = ""


@dataclass(frozen=True, slots=True)
class Refused:
    """A drop that can't be taken; it lies in `rejected/` with this text beside it."""

    claim: str
    source: str
    text: str


class Inbox:
    """The drop folder. Only `scan` looks at what users write."""

    def __init__(self, folder: Path, store: Store, settings: InboxSettings, clock: Clock, ids: _Ids) -> None:
        self.folder = folder
        self._store = store
        self._settings = settings
        self._clock = clock
        self._ids = ids
        self._sizes: dict[bytes, tuple[int, int]] = {}
        for name in ("", CLAIMED, ACCEPTED, REJECTED, DONE):
            (folder / name).mkdir(parents=True, exist_ok=True)

    def scan(self, now: datetime) -> list[Claimed | Refused]:
        """Claim and judge what is ready, the oldest first and a few hundred at once, leftovers of a crash before all."""
        left = sorted((self.folder / CLAIMED).iterdir())[:MOST_AT_ONCE]
        claims = left or [claim for entry in self._ready(now) if (claim := self._claim(entry))]
        return [self._judge(claim) for claim in claims]

    def accept(self, claimed: Claimed, job_ids: list[str]) -> None:
        """Move a drop whose jobs are committed to `accepted/`; once done, doing it again changes nothing."""
        source = self.folder / CLAIMED / claimed.claim
        if source.exists() or source.is_symlink():
            source.rename(_free_name(self.folder / ACCEPTED, f"{'-'.join(job_ids[:3])}{_SEPARATOR}{claimed.source}"))

    def _ready(self, now: datetime) -> list[os.DirEntry[bytes]]:
        ready = [entry for entry in os.scandir(os.fsencode(self.folder)) if self._is_drop(entry) and self._is_quiet(entry, now)]
        return sorted(ready, key=_changed)[:MOST_AT_ONCE]

    def _is_drop(self, entry: os.DirEntry[bytes]) -> bool:
        name = os.fsdecode(entry.name)
        if name.startswith(".") or name.endswith((".tmp", ".part", "~", ".swp")) or name in _OURS:
            return False
        if entry.is_dir(follow_symlinks=False):
            return self._holds_job(Path(os.fsdecode(entry.path)))
        return True

    @staticmethod
    def _holds_job(folder: Path) -> bool:
        """Say whether a folder is one job: other folders are the workdirs of files beside them."""
        return any((folder / name).exists() for name in JOB_FILES)

    def _is_quiet(self, entry: os.DirEntry[bytes], now: datetime) -> bool:
        """Say whether a drop has been left alone long enough to be whole."""
        try:
            newest = max(_times(entry))
        except OSError:
            return False
        return now.timestamp() - newest >= self._settings.quiet.total_seconds()

    def _claim(self, entry: os.DirEntry[bytes]) -> Path | None:
        name = os.fsdecode(entry.name)
        target = self.folder / CLAIMED / f"{self._ids.new('c')}{_SEPARATOR}{name}"
        try:
            Path(os.fsdecode(entry.path)).rename(target)
        except FileNotFoundError:
            return None  # its owner has taken it back, or another daemon was first
        return target

    def _judge(self, claim: Path) -> Claimed | Refused:
        source = claim.name.split(_SEPARATOR, 1)[-1]
        try:
            return self._read(claim, source)
        except JobFileError as error:
            text = "\n".join(f"{source}: {problem}" for problem in error.problems)
        except NotTaken as error:
            text = f"{source}: {error}"
        except (OSError, UnicodeError) as error:
            text = f"{source}: it can't be read: {error}"
        return self._refuse(claim, source, text)

    def _refuse(self, claim: Path, source: str, text: str) -> Refused:
        target = _free_name(self.folder / REJECTED, source)
        help_line = "Nothing was run. Correct the file and drop it again; docs/job-files.md explains every word."
        write_atomically(target.with_name(f"{target.name}.error.txt"), f"{text}\n\n{help_line}\n".encode("utf-8", "replace"))
        claim.rename(target)
        return Refused(claim.name, source, text)

    def _read(self, claim: Path, source: str) -> Claimed:
        if claim.is_dir() and not claim.is_symlink():
            return self._read_folder(claim, claim, source)
        if source.lower().endswith(ARCHIVES):
            return self._read_archive(claim, source)
        if not source.lower().endswith(SUFFIXES):
            raise NotTaken(f"a job file ends in one of {', '.join((*SUFFIXES, *ARCHIVES))}")
        contents = read_safely(claim, self._settings.largest_file)
        specs = read_job(contents.data, source)
        workdirs = {spec.workdir for spec in specs if spec.workdir}
        if not workdirs:
            return self._claimed(claim, source, specs, contents, None)
        return self._claimed(claim, source, specs, contents, self._beside(workdirs.pop()))

    def _beside(self, workdir: str) -> Path:
        """Return the folder beside a dropped file that its `workdir` names."""
        folder = self.folder / workdir
        if folder.resolve() == self.folder.resolve():
            raise NotTaken("`workdir: .` would take the whole drop folder: drop a folder that holds job.yaml instead")
        if not folder.resolve().is_relative_to(self.folder.resolve()):
            raise NotTaken(f"`workdir: {workdir}` leads out of the drop folder")
        if not folder.is_dir():
            raise NotTaken(f"`workdir: {workdir}` is no folder in the drop folder: put it beside the job file first")
        return folder

    def _read_archive(self, claim: Path, source: str) -> Claimed:
        read_safely_size(claim, self._settings.largest_code)
        folder = self.folder / CLAIMED / f".{claim.name}.unpacked"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        try:
            unpack(claim, folder, self._settings.largest_code)
            inner = [path for path in folder.iterdir() if not path.name.startswith(".")]
            root = inner[0] if len(inner) == 1 and inner[0].is_dir() and not self._holds_job(folder) else folder
            return self._read_folder(claim, root, source)
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _read_folder(self, claim: Path, folder: Path, source: str) -> Claimed:
        job_file = next((folder / name for name in JOB_FILES if (folder / name).exists()), None)
        if job_file is None:
            raise NotTaken(f"it holds no job file: one of {', '.join(JOB_FILES)}")
        contents = read_safely(job_file, self._settings.largest_file)
        specs = read_job(contents.data, job_file.name if job_file.suffix == ".sh" else f"{source}{job_file.suffix}")
        workdir = next((spec.workdir for spec in specs if spec.workdir), None) or "."
        inside = (folder / workdir).resolve()
        if not inside.is_relative_to(folder.resolve()) or not inside.is_dir():
            raise NotTaken(f"`workdir: {workdir}` is no folder inside what was dropped")
        return self._claimed(claim, source, specs, contents, inside)

    def _claimed(
        self, claim: Path, source: str, specs: list[JobSpec], contents: Contents, workdir: Path | None
    ) -> Claimed:
        code_key, code_sha256 = self._store_code(claim, workdir) if workdir else ("", "")
        digest = sha256(contents.data)
        digest.update(f"\0{code_sha256}\0{contents.uid}".encode())
        return Claimed(claim.name, source, tuple(specs), digest.hexdigest(), _user(contents.uid), code_key, code_sha256)

    def _store_code(self, claim: Path, workdir: Path) -> tuple[str, str]:
        archive = self.folder / CLAIMED / f".{claim.name}.tar.gz"
        try:
            packed = pack(workdir, archive, self._settings.largest_code)
            key = f"code/{packed.sha256}.tar.gz"
            if self._store.head(key) is None:
                self._store.put_file(key, packed.path)
            return key, packed.sha256
        finally:
            archive.unlink(missing_ok=True)


def read_safely_size(path: Path, largest: int) -> None:
    """Refuse an archive that is no plain file or too large to look into. Raises NotTaken."""
    if path.is_symlink() or not path.is_file():
        raise NotTaken("it is no plain file")
    found = path.stat()
    if found.st_nlink != 1:
        raise NotTaken("it has a second name (a hard link): drop a copy of it")
    if found.st_size > largest:
        raise NotTaken(f"it has {found.st_size:,} bytes; {largest:,} is the most")


def _times(entry: os.DirEntry[bytes]) -> Iterator[float]:
    yield entry.stat(follow_symlinks=False).st_mtime
    if entry.is_dir(follow_symlinks=False):
        for here, _, names in os.walk(entry.path):
            yield from (os.lstat(os.path.join(here, name)).st_mtime for name in names)


def _changed(entry: os.DirEntry[bytes]) -> tuple[float, bytes]:
    return entry.stat(follow_symlinks=False).st_mtime, entry.name


def _user(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def _free_name(folder: Path, name: str) -> Path:
    """Return a path in `folder` that nothing has yet, so that nobody's file is replaced."""
    path, n = folder / name, 1
    while path.exists() or path.is_symlink():
        n += 1
        path = folder / f"{n}-{name}"
    return path
