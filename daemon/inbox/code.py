"""Read one claimed drop: its job file, and the folder that is its code, packed."""

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from config.settings import InboxSettings
from daemon.inbox.pack import pack
from daemon.inbox.ready import JOB_FILES
from daemon.inbox.safe_read import NotTaken, open_folder, read_safely, refuse_odd
from daemon.inbox.unpack import unpack
from daemon.jobfile import Currency, JobSpec, read_job

SUFFIXES = (".yaml", ".yml", ".toml", ".json", ".sh")
ARCHIVES = (".tar.gz", ".tgz")
_SLURM = (".slurm", ".sbatch")
_OURS = {"accepted", "rejected", "done"}


@dataclass(frozen=True, slots=True)
class Dropped:
    """What a drop holds. `code` is the packed folder, to be stored by whoever asked; None for a job without one."""

    specs: list[JobSpec]
    data: bytes  # of the job file
    uid: int
    code: Path | None = None
    code_sha256: str = ""


@dataclass(frozen=True, slots=True)
class _Reader:
    folder: Path  # the drop folder
    scratch: Path  # a folder to be made for archives in the making
    settings: InboxSettings
    currency: Currency | None

    def read(self, source: Path, name: str) -> Dropped:
        found = source.lstat()
        if stat.S_ISDIR(found.st_mode):
            return self._tree(source, _utf8(name), found.st_uid, found.st_uid)
        refuse_odd(found)
        ending = _utf8(name).lower()
        if ending.endswith(ARCHIVES):
            return self._archive(source, name)
        if not ending.endswith(SUFFIXES):
            raise NotTaken("slurm") if ending.endswith(_SLURM) else NotTaken("ending", endings=", ".join(SUFFIXES))
        return self._file(source, name)

    def _file(self, source: Path, name: str) -> Dropped:
        contents = read_safely(source, self.settings.largest_file)
        specs = read_job(contents.data, name, self.currency)
        workdir = _workdir(specs)
        if not workdir:
            return Dropped(specs, contents.data, contents.uid)
        parts = PurePosixPath(workdir).parts
        if not parts:
            raise NotTaken("workdir_all")
        if parts[0] in _OURS or parts[0].startswith("."):
            raise NotTaken("workdir_ours", workdir=workdir)
        return self._with_code(specs, contents.data, contents.uid, contents.uid, self.folder, workdir)

    def _archive(self, source: Path, name: str) -> Dropped:
        folder = self.scratch / "unpacked"
        folder.mkdir(mode=0o700, parents=True)
        uid = unpack(source, folder, self.settings.largest_code)
        inner = [path for path in folder.iterdir() if not path.name.startswith(".")]
        if len(inner) == 1 and inner[0].is_dir() and not inner[0].is_symlink():
            folder = inner[0]
        return self._tree(folder, name, uid, os.geteuid())

    def _tree(self, folder: Path, name: str, uid: int, reader: int) -> Dropped:
        job_file = next((folder / file for file in JOB_FILES if os.path.lexists(folder / file)), None)
        if job_file is None:
            raise NotTaken("no_job_file", names=", ".join(JOB_FILES))
        contents = read_safely(job_file, self.settings.largest_file)
        ending = next((ending for ending in ARCHIVES if name.lower().endswith(ending)), "")
        specs = read_job(contents.data, name[: len(name) - len(ending)] + job_file.suffix, self.currency)
        return self._with_code(specs, contents.data, uid, reader, folder, _workdir(specs) or ".")

    def _with_code(
        self, specs: list[JobSpec], data: bytes, uid: int, reader: int, folder: Path, workdir: str
    ) -> Dropped:
        self.scratch.mkdir(mode=0o700, exist_ok=True)
        target = self.scratch / "code.tar.gz"
        with _opened(folder, workdir) as descriptor:
            digest = pack(descriptor, target, self.settings.largest_code, reader)
        return Dropped(specs, data, uid, target, digest)


def read_drop(
    source: Path,
    name: str,
    folder: Path,
    scratch: Path,
    settings: InboxSettings,
    currency: Currency | None = None,
) -> Dropped:
    """Read a claimed file, folder or archive that was dropped under `name`. Raises JobFileError, NotTaken, OSError.

    `folder` is the drop folder, where the `workdir` of a file lies; `scratch` may be made, and is the caller's to remove.
    """
    return _Reader(folder, scratch, settings, currency).read(source, name)


def _workdir(specs: list[JobSpec]) -> str:
    found = {spec.workdir or "" for spec in specs}
    if len(found) > 1:
        raise NotTaken("workdirs")
    return found.pop()


@contextmanager
def _opened(folder: Path, workdir: str) -> Iterator[int]:
    try:
        descriptor = open_folder(folder, workdir)
    except OSError as error:
        if error.errno not in {errno.ENOENT, errno.ENOTDIR, errno.ELOOP}:
            raise
        raise NotTaken("workdir_none", workdir=workdir) from error
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _utf8(name: str) -> str:
    try:
        name.encode()
    except UnicodeEncodeError as error:
        raise NotTaken("name") from error
    return name
