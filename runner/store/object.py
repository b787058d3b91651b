"""Every store that obstore speaks to, behind our own few calls; the local file system is one of them."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import obstore
from obstore.exceptions import BaseError
from obstore.store import LocalStore, ObjectStore

from runner.store.base import Missing, ObjectInfo, StoreError
from runner.store.files import write_whole
from runner.store.keys import check_key, check_prefix, read, spell

_PART = 8 * 2**20  # bytes
_PARTS = 9_000  # S3 and OSS take 10,000 of one file


class ObstoreStore:
    """Objects behind obstore. An object appears whole because obstore writes aside, then renames or commits."""

    def __init__(self, url: str, store: ObjectStore) -> None:
        """Keep the connection, and `url` for other processes."""
        self.url = url
        self._store = store

    def put(self, key: str, data: bytes) -> None:
        """Write one object whole. Raises StoreError."""
        with self._errors("write", key):
            obstore.put(self._store, self._path(key), data)

    def put_file(self, key: str, path: Path) -> None:
        """Write one object from a file, in parts if it is large. Raises StoreError, also when the file can't be read."""
        spelled = self._path(key)
        try:
            file = path.open("rb")
        except OSError as error:
            raise StoreError(f"{path} can't be stored: {error}") from error
        with file, self._errors("write", key):
            size = os.fstat(file.fileno()).st_size
            obstore.put(self._store, spelled, file, chunk_size=max(_PART, -(-size // _PARTS)))

    def get(self, key: str) -> bytes:
        """Read one object whole. Raises Missing, StoreError."""
        with self._errors("read", key):
            return bytes(obstore.get(self._store, self._path(key)).bytes())

    def get_range(self, key: str, start: int, length: int) -> bytes:
        """Read up to `length` bytes from `start`; empty at or past the end. Raises Missing, StoreError."""
        try:
            with self._errors("read", key):
                where = (start, start + max(length, 1))
                return bytes(obstore.get(self._store, self._path(key), options={"range": where}).bytes())[:length]
        except Missing:
            raise
        except StoreError:
            # A start past the end is an error in every store, each with other words.
            if self._size(key) <= start:
                return b""
            raise

    def get_file(self, key: str, path: Path) -> None:
        """Read one object into a file, which appears whole. Raises Missing, StoreError."""
        try:
            write_whole(path, self._chunks(key))
        except OSError as error:
            raise StoreError(f"{path} can't be written: {error}") from error

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        """Yield every object whose key starts with `prefix`, in the order of their keys. Raises StoreError."""
        folder = check_prefix(prefix)
        with self._errors("list", prefix):
            # obstore's own prefix means whole parts; the spelling of a key may also sort elsewhere.
            found = [_info(meta) for chunk in obstore.list(self._store, spell(folder) or None) for meta in chunk]
        yield from sorted((info for info in found if info.key.startswith(prefix)), key=lambda info: info.key)

    def head(self, key: str) -> ObjectInfo | None:
        """Return what is known of one object, None if there is none. Raises StoreError."""
        try:
            with self._errors("look at", key):
                return _info(obstore.head(self._store, self._path(key)))
        except Missing:
            return None

    def delete(self, key: str) -> None:
        """Remove one object; none there is success. Raises StoreError."""
        try:
            with self._errors("delete", key):
                obstore.delete(self._store, self._path(key))
        except Missing:
            return

    def _chunks(self, key: str) -> Iterator[bytes]:
        with self._errors("read", key):
            yield from obstore.get(self._store, self._path(key)).stream()

    def _size(self, key: str) -> int:
        info = self.head(key)
        if info is None:
            raise Missing(f"there is no object {key!r} in {self.url}")
        return info.size

    def _path(self, key: str) -> str:
        """Return where an object lies for obstore. Raises StoreError when `key` is none."""
        return spell(check_key(key))

    @contextmanager
    def _errors(self, action: str, key: str) -> Iterator[None]:
        """Turn what obstore and the disk raise into Missing and StoreError."""
        try:
            yield
        except (BaseError, OSError, ValueError) as error:
            raise self._explained(error, action, key) from error

    def _explained(self, error: Exception, action: str, key: str) -> StoreError:
        """Return an error that says what was tried, where, and what came of it."""
        if isinstance(error, FileNotFoundError):
            # Only an object can be missing: folders are made when something is written.
            return Missing(f"there is no object {key!r} in {self.url}")
        return StoreError(f"can't {action} {key!r} in {self.url}: {said(error)}")


def local_store(path: Path) -> ObstoreStore:
    """Open the folder `path` as a store, made if it isn't there. Raises StoreError."""
    url = f"file://{path}"
    try:
        return ObstoreStore(url, LocalStore(prefix=path, mkdir=True))
    except (BaseError, OSError, ValueError) as error:
        raise StoreError(f"can't open the store {url}: {said(error)}") from error


def said(error: Exception) -> str:
    """Return an error's own words, without the source code that obstore adds after an empty line."""
    return str(error).partition("\n\n")[0]


def _info(meta: Any) -> ObjectInfo:  # noqa: ANN401 - a TypedDict that exists for type checkers only
    return ObjectInfo(read(meta["path"]), meta["size"], meta["last_modified"])
