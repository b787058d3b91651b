"""What a store can do. No conditional writes: a manifest written last and attempt numbers in keys replace them."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Protocol


class StoreError(Exception):
    """The store gave no usable answer: try again later."""


class Missing(StoreError):
    """No object has this key."""


@dataclass(frozen=True, slots=True)
class ObjectInfo:
    """What a listing says of an object."""

    key: str
    size: int
    changed_at: datetime


class Store(Protocol):
    """Objects by key, written whole. Keys are relative, with `/` between parts."""

    url: str  # how another process opens the same store, without credentials

    def put(self, key: str, data: bytes) -> None:
        """Write one object; a reader sees the old one or the new one, never a part. Raises StoreError."""

    def put_file(self, key: str, path: Path) -> None:
        """Write one object from a file, in parts if it is large. Raises StoreError."""

    def get(self, key: str) -> bytes:
        """Read one object whole. Raises Missing, StoreError."""

    def get_range(self, key: str, start: int, length: int) -> bytes:
        """Read up to `length` bytes from `start`; empty at or past the end. Raises Missing, StoreError."""

    def get_file(self, key: str, path: Path) -> None:
        """Read one object into a file, which appears whole. Raises Missing, StoreError."""

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        """Yield every object whose key starts with `prefix`, in the order of their keys. Raises StoreError."""

    def head(self, key: str) -> ObjectInfo | None:
        """Return what is known of one object, None if there is none. Raises StoreError."""

    def delete(self, key: str) -> None:
        """Remove one object; none there is success. Raises StoreError."""
