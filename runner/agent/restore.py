"""Brings a job's newest complete checkpoint from the store back to where its command will look for it."""

import hashlib
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath
from typing import Protocol, TypeVar

from runner.agent.report import Report
from runner.agent.shelf import Shelf, read_manifest
from runner.store import Missing, Store
from runner.store.records import MANIFEST, Command, Manifest, job_key

Result = TypeVar("Result")


class Patiently(Protocol):
    """Repeats a call to the store until it is answered, or the machine must end."""

    def __call__(self, work: Callable[[], Result], /) -> Result:
        """Return what `work` returns. Raises Missing, StoreError."""


class Corrupt(Exception):
    """A checkpoint in the store is not what its manifest says, or has none."""


class Restore:
    """Reads the checkpoints of one job; each call to the store goes through `patiently`."""

    def __init__(self, store: Store, job: str, report: Report, shelf: Shelf, patiently: Patiently) -> None:
        """Tell `report` what was restored and what was not, and `shelf` what need not be sent again."""
        self._store = store
        self._job = job
        self._report = report
        self._shelf = shelf
        self._call = patiently

    def into(self, folder: Path, command: Command) -> Manifest | None:
        """Fill `folder` with the checkpoint that `command` names, or the newest older one that is complete.

        Without any such the newest of all is taken: the one named may have been replaced while its word was on the way.
        Returns its manifest, None to start from zero. Raises StoreError.
        """
        if not command.restore:
            return None
        for prefix in self._candidates(command):
            try:
                manifest = self._fetch(prefix, folder)
            except Corrupt as error:
                self._report.warn("agent.checkpoint_corrupt", checkpoint=prefix, why=str(error))
                continue
            self._shelf.restored(prefix, manifest)
            self._report.restored(prefix, manifest.step, manifest.running_s)
            return manifest
        self._report.warn("agent.checkpoint_none", step=command.restore_step)
        return None

    def _candidates(self, command: Command) -> Iterator[str]:
        yield command.restore
        top = job_key(self._job, "checkpoints/")
        keys = [info.key for info in self._call(lambda: list(self._store.list(top)))]
        prefixes = {key.removesuffix(MANIFEST) for key in keys if key.endswith(f"/{MANIFEST}")}
        ordered = sorted((_order(prefix[len(top) :]), prefix) for prefix in prefixes - {command.restore})
        older = [prefix for (step, _), prefix in ordered if step <= command.restore_step]
        newer = [prefix for (step, _), prefix in ordered if step > command.restore_step]
        yield from reversed(older)
        yield from reversed(newer)

    def _fetch(self, prefix: str, folder: Path) -> Manifest:
        """Fetch one checkpoint aside, then move it into place: the job never sees a part of one. Raises Corrupt."""
        try:
            manifest = read_manifest(self._call(lambda: self._store.get(prefix + MANIFEST)))
        except Missing as error:
            raise Corrupt("its manifest is missing") from error
        if manifest is None:
            raise Corrupt("its manifest can't be read")
        aside = folder.with_name(f"{folder.name}.restoring")
        try:
            for path, size, digest, key in manifest.files:
                self._fetch_file(key, _inside(aside, path), size, digest)
            _move(aside, folder)
        finally:
            shutil.rmtree(aside, ignore_errors=True)
        return manifest

    def _fetch_file(self, key: str, local: Path, size: int, digest: str) -> None:
        try:
            self._call(lambda: self._store.get_file(key, local))
        except Missing as error:
            raise Corrupt(f"{key} is missing") from error
        with local.open("rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
        if (local.stat().st_size, found) != (size, digest):
            raise Corrupt(f"{key} has not the bytes that its manifest names")


def _order(name: str) -> tuple[int, int]:
    """Return step and attempt of `<step>-<attempt>/`; what doesn't look so comes before all others."""
    step, _, attempt = name.rstrip("/").partition("-")
    return (int(step), int(attempt)) if step.isdecimal() and attempt.isdecimal() else (-1, -1)


def _inside(folder: Path, path: str) -> Path:
    parts = PurePosixPath(path)
    if parts.is_absolute() or ".." in parts.parts or not parts.parts:
        raise Corrupt(f"it names a file outside its folder: {path!r}")
    return folder / parts


def _move(source: Path, target: Path) -> None:
    """Move every file under `source` to the same place under `target`, over what is there."""
    for path in [path for path in source.rglob("*") if path.is_file()]:
        place = target / path.relative_to(source)
        place.parent.mkdir(parents=True, exist_ok=True)
        path.replace(place)
