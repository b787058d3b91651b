"""A store inside this process, for tests and trials."""

import threading
from collections.abc import Iterator
from pathlib import Path

from config.clock import Clock, SystemClock
from runner.store.base import Missing, ObjectInfo, StoreError
from runner.store.files import write_whole
from runner.store.keys import check_key, check_prefix


class MemoryStore:
    """Objects in a dict; nothing outlives the process."""

    url = "memory://"

    def __init__(self, clock: Clock | None = None) -> None:
        """Start empty; `clock` dates the objects."""
        self._clock = clock or SystemClock()
        self._objects: dict[str, tuple[bytes, ObjectInfo]] = {}
        self._lock = threading.Lock()

    def put(self, key: str, data: bytes) -> None:
        """Write one object."""
        info = ObjectInfo(check_key(key), len(data), self._clock.now())
        with self._lock:
            self._objects[key] = bytes(data), info

    def put_file(self, key: str, path: Path) -> None:
        """Write one object from a file. Raises StoreError when the file can't be read."""
        try:
            data = path.read_bytes()
        except OSError as error:
            raise StoreError(f"{path} can't be stored: {error}") from error
        self.put(key, data)

    def get(self, key: str) -> bytes:
        """Read one object whole. Raises Missing."""
        with self._lock:
            found = self._objects.get(check_key(key))
        if found is None:
            raise Missing(f"there is no object {key!r} in {self.url}")
        return found[0]

    def get_range(self, key: str, start: int, length: int) -> bytes:
        """Read up to `length` bytes from `start`; empty at or past the end. Raises Missing."""
        return self.get(key)[start : start + length]

    def get_file(self, key: str, path: Path) -> None:
        """Read one object into a file, which appears whole. Raises Missing, StoreError."""
        data = self.get(key)
        try:
            write_whole(path, [data])
        except OSError as error:
            raise StoreError(f"{path} can't be written: {error}") from error

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        """Yield every object whose key starts with `prefix`, in the order of their keys."""
        check_prefix(prefix)
        with self._lock:
            found = [info for key, (_, info) in self._objects.items() if key.startswith(prefix)]
        yield from sorted(found, key=lambda info: info.key)

    def head(self, key: str) -> ObjectInfo | None:
        """Return what is known of one object, None if there is none."""
        with self._lock:
            found = self._objects.get(check_key(key))
        return found[1] if found else None

    def delete(self, key: str) -> None:
        """Remove one object; none there is success."""
        with self._lock:
            self._objects.pop(check_key(key), None)
