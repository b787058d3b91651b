"""Put a job into the drop folder so that the daemon sees it whole or not at all."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath

from config.files import draft_of, sync_folder
from daemon.inbox.code import ARCHIVES
from daemon.inbox.ignore import Ignored
from daemon.inbox.pack import add, add_bytes, packing
from daemon.inbox.ready import JOB_FILES
from daemon.inbox.safe_read import open_folder
from daemon.inbox.walk import walk
from daemon.jobfile import JobFileError, read_job


def submit_file(folder: Path, path: Path) -> Path:
    """Copy a job file, folder or archive into the drop folder, with the `workdir` beside it, and return its name there.

    A folder, and a file with its `workdir`, become one .tar.gz, without what `.gitignore` and `.frugaldignore` name. A job
    file that is wrong is copied as it is: the daemon says what is wrong. Raises OSError, NotTaken for endless folders.
    """
    if path.is_dir():
        job_file = job_file_in(path)
        return _packed(folder, path.resolve().name, path, ".", job_file)
    workdir = "" if path.name.lower().endswith(ARCHIVES) else _workdir(path)
    if workdir:
        stem = path.absolute().parent.name if path.name in JOB_FILES else path.stem
        return _packed(folder, stem, path.absolute().parent, workdir, path)
    with _draft(folder, path.name) as (draft, target):
        shutil.copyfile(path, draft)
    return target


def job_file_in(folder: Path) -> Path:
    """Return the job file of a folder. Raises FileNotFoundError."""
    found = next((folder / name for name in JOB_FILES if (folder / name).is_file()), None)
    if found is None:
        raise FileNotFoundError(f"{folder} holds no job file: one of {', '.join(JOB_FILES)}")
    return found


def _workdir(path: Path) -> str:
    try:
        return next((spec.workdir for spec in read_job(path.read_bytes(), path.name) if spec.workdir), "")
    except JobFileError:
        return ""


def _packed(folder: Path, stem: str, root: Path, workdir: str, job_file: Path) -> Path:
    """Drop an archive of `workdir` below `root`, with the job file on top under a name that the daemon looks for."""
    prefix = "".join(f"{part}/" for part in PurePosixPath(workdir).parts)
    name = f"job{job_file.suffix.lower()}"
    with _draft(folder, f"{stem}.tar.gz") as (draft, target):
        descriptor = open_folder(root, workdir)
        try:
            with packing(draft) as archive:
                add_bytes(archive, name, job_file.read_bytes())
                for entry in walk(descriptor, Ignored()):
                    if prefix or entry.path not in JOB_FILES:
                        add(archive, entry, prefix + entry.path)
        finally:
            os.close(descriptor)
    return target


@contextmanager
def _draft(folder: Path, name: str) -> Iterator[tuple[Path, Path]]:
    """Reserve a name that nobody has: whoever makes its draft may use it. Filled in, the draft gets the name."""
    ending = next((end for end in ARCHIVES if name.lower().endswith(end)), Path(name).suffix)
    stem, number = name[: len(name) - len(ending)], 1
    while True:
        target = folder / (f"{stem}{ending}" if number == 1 else f"{stem}-{number}{ending}")
        draft = draft_of(target)
        number += 1
        try:
            draft.touch(exist_ok=False)
        except FileExistsError:
            continue  # somebody else is about to use this name
        if not os.path.lexists(target):
            break
        draft.unlink()
    try:
        yield draft, target
        with draft.open("rb") as file:
            os.fsync(file.fileno())
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
    draft.rename(target)  # from here on its name is anybody's
    sync_folder(folder)
