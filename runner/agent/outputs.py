"""Mirrors what the job's file calls outputs, and the job's own output folder, while the job runs."""

from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath

from config.clock import Clock
from runner.agent.found import Seen, has_key, look_at
from runner.agent.report import Report
from runner.store import Store
from runner.store.records import job_key

_LARGEST_BACK = 256 << 20  # bytes; a larger file isn't worth the wait
_PATIENT = 10  # a file that took a second to send is not sent again for so many


class Outputs:
    """Sends files that have changed; one that grows all the time is sent again and again, the larger the less often."""

    def __init__(
        self, store: Store, job: str, work: Path, own: Path, patterns: list[str], report: Report, clock: Clock
    ) -> None:
        """Mirror `patterns` under `work`, each a file, a folder or with wildcards, and everything in `own`."""
        self._store = store
        self._job = job
        self._work = work
        self._own = own
        self._patterns = patterns
        self._report = report
        self._clock = clock
        self._sent: dict[str, Seen] = {}
        self._not_before: dict[str, float] = {}

    def round(self) -> None:
        """Send what has changed. Raises StoreError."""
        self._mirror(last=False)

    def last_round(self, *, finished: bool = True) -> None:
        """Send everything that isn't in the store as it is; once finished, tell which pattern fits nothing. Raises StoreError."""
        self._mirror(last=True)
        if not finished:
            return  # what is missing may come in the next attempt
        empty = [pattern for pattern in self._patterns if not any(_under(self._work, pattern))]
        if empty:
            self._report.warn("agent.outputs_missing", patterns=", ".join(empty))

    def bring_back(self) -> None:
        """Fetch what earlier attempts have mirrored: a job that appends to its results must not begin them anew.

        Raises StoreError, OSError.
        """
        top = job_key(self._job, "outputs/")
        for info in list(self._store.list(top)):
            name = info.key[len(top) :]
            if info.size <= _LARGEST_BACK:
                self._store.get_file(info.key, (self._work if self._is_named(name) else self._own) / name)

    def _is_named(self, name: str) -> bool:
        """Say whether a pattern of the job's file fits: then it came from the working folder."""
        path = PurePosixPath(name)
        return any(one.match(pattern) for pattern in self._patterns for one in (path, *path.parents))

    def _mirror(self, *, last: bool) -> None:
        for name, root in self._files():
            seen = look_at(root, name)
            if seen and seen != self._sent.get(name) and (last or self._due(name)):
                self._send(name, root / name, seen)

    def _due(self, name: str) -> bool:
        return self._clock.monotonic() >= self._not_before.get(name, 0.0)

    def _send(self, name: str, path: Path, seen: Seen) -> None:
        began = self._clock.monotonic()
        self._store.put_file(job_key(self._job, f"outputs/{name}"), path)
        now = self._clock.monotonic()
        self._sent[name], self._not_before[name] = seen, now + _PATIENT * (now - began)
        self._report.change(outputs=len(self._sent))

    def _files(self) -> Iterator[tuple[str, Path]]:
        """Yield the name of each output in the store and the folder that the name starts from."""
        for pattern in self._patterns:
            for path in _under(self._work, pattern):
                yield path.relative_to(self._work).as_posix(), self._work
        for path in _all_files([self._own]):
            yield path.relative_to(self._own).as_posix(), self._own


def _under(work: Path, pattern: str) -> Iterable[Path]:
    """Return the files that a pattern means. Only what lies in `work` has a name in the store."""
    if not pattern or pattern.startswith("/") or ".." in Path(pattern).parts:
        return []
    return sorted(set(_all_files(work.glob(pattern.rstrip("/")))))


def _all_files(paths: Iterable[Path]) -> Iterator[Path]:
    for path in paths:
        if path.is_dir():
            yield from (inner for inner in path.rglob("*") if inner.is_file() and has_key(inner.name))
        elif path.is_file() and has_key(path.name):
            yield path
