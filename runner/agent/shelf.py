"""A job's checkpoints in the store: put there with the manifest last, the older ones taken away."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from config.clock import Clock
from runner.store import Store
from runner.store.records import MANIFEST, Manifest, checkpoint_prefix, job_key

_ENOUGH_TO_MEASURE = 1 << 16  # bytes


@dataclass(frozen=True, slots=True)
class Staged:
    """One file of a checkpoint, where it can be sent from."""

    path: str
    local: Path
    size: int
    sha256: str


class Shelf:
    """What this attempt has put into the store, and what it may point to there."""

    def __init__(self, store: Store, job: str, attempt: int, keep: int, clock: Clock) -> None:
        """Keep the newest `keep` complete checkpoints of the job."""
        self._store = store
        self._job = job
        self._attempt = attempt
        self._keep = max(1, keep)
        self._clock = clock
        self._there: dict[tuple[str, int, str], str] = {}  # files that need not be sent again
        self._complete: dict[str, Manifest] = {}  # by prefix, of every attempt up to this one
        self._generation: dict[str, int] = {}
        self.bytes_per_s = 0.0  # measured, 0 while unknown

    def restored(self, prefix: str, manifest: Manifest) -> None:
        """Know what this attempt began from: files that don't change point there."""
        self._complete[prefix] = manifest
        self._point_to(manifest)

    def bytes_to_send(self, files: list[Staged]) -> int:
        """Return how much of a checkpoint isn't in the store yet."""
        return sum(file.size for file in files if (file.path, file.size, file.sha256) not in self._there)

    def put(self, step: int, files: list[Staged], running_s: float, unchanged: Callable[[], bool]) -> str | None:
        """Send a checkpoint and return its prefix; None if `unchanged()` denies, before the manifest. Raises StoreError.

        A second one of the same step goes beside the first, and the manifest moves over at once.
        """
        prefix = checkpoint_prefix(self._job, step, self._attempt)
        generation = self._generation.get(prefix, 0)
        listed = [[f.path, f.size, f.sha256, self._send(f, f"{prefix}{generation}/{f.path}")] for f in files]
        if not unchanged():
            self._there = {
                file: key for file, key in self._there.items() if not key.startswith(f"{prefix}{generation}/")
            }
            return None
        manifest = Manifest(self._job, self._attempt, step, listed, running_s)
        self._store.put(prefix + MANIFEST, manifest.to_json())
        self._generation[prefix] = generation + 1
        self._complete.pop(prefix, None)  # so that the newest is the last
        self._complete[prefix] = manifest
        self._point_to(manifest)
        return prefix

    def tidy(self) -> None:
        """Delete what no kept manifest needs, manifests first; nothing of a later attempt. Raises StoreError."""
        top = job_key(self._job, "checkpoints/")
        keys = [info.key for info in self._store.list(top) if _attempt_of(info.key[len(top) :]) <= self._attempt]
        kept = self._kept([key for key in keys if _is_manifest(key, top)])
        needed = {prefix + MANIFEST for prefix in kept} | {key for m in kept.values() for _, _, _, key in m.files}
        for key in sorted(set(keys) - needed, key=lambda key: not _is_manifest(key, top)):
            self._store.delete(key)
        self._complete = kept

    def _kept(self, manifests: list[str]) -> dict[str, Manifest]:
        """Return the newest few: this attempt's in the order they were made, before them those of earlier attempts."""
        for key in manifests:
            prefix = key.removesuffix(MANIFEST)
            if prefix not in self._complete:
                manifest = read_manifest(self._store.get(key))
                if manifest:
                    self._complete = {prefix: manifest, **self._complete}
        order = sorted(self._complete.items(), key=lambda item: self._age(item[1]))
        return dict(order[-self._keep :])

    def _age(self, manifest: Manifest) -> tuple[int, int]:
        # Sorting is stable: within this attempt the order is when they were made, since a step may be reached twice.
        return (manifest.attempt, 0 if manifest.attempt == self._attempt else manifest.step)

    def _send(self, file: Staged, key: str) -> str:
        known = (file.path, file.size, file.sha256)
        if known not in self._there:
            began = self._clock.monotonic()
            self._store.put_file(key, file.local)
            self._measure(file.size, self._clock.monotonic() - began)
            self._there = {other: where for other, where in self._there.items() if where != key} | {known: key}
        return self._there[known]

    def _measure(self, size: int, seconds: float) -> None:
        if size >= _ENOUGH_TO_MEASURE and seconds > 0:
            rate = size / seconds
            self.bytes_per_s = (self.bytes_per_s + rate) / 2 if self.bytes_per_s else rate

    def _point_to(self, manifest: Manifest) -> None:
        self._there = {(path, size, digest): key for path, size, digest, key in manifest.files}


def read_manifest(data: bytes) -> Manifest | None:
    """Read a manifest; None when it isn't one whose files can be fetched."""
    try:
        manifest = Manifest.from_json(data)
        whole = all(
            isinstance(path, str) and isinstance(size, int) and isinstance(digest, str) and isinstance(key, str)
            for path, size, digest, key in manifest.files
        )
    except (ValueError, TypeError):
        return None
    return manifest if whole and isinstance(manifest.step, int) and isinstance(manifest.attempt, int) else None


def _is_manifest(key: str, top: str) -> bool:
    folder, _, name = key[len(top) :].partition("/")
    return bool(folder) and name == MANIFEST


def _attempt_of(relative: str) -> int:
    """Return the attempt that wrote `<step>-<attempt>/...`; what doesn't look so belongs to none, and stays."""
    _, _, number = relative.partition("/")[0].partition("-")
    return int(number) if number.isdecimal() else 1 << 62
