"""The object store: the one thing that the daemon and every machine must both reach."""

from collections.abc import Callable, Mapping
from pathlib import Path

from runner.store.base import Missing, ObjectInfo, Store, StoreError
from runner.store.memory import MemoryStore

__all__ = ["MemoryStore", "Missing", "ObjectInfo", "Store", "StoreError", "open_store"]

Options = Mapping[str, str]


def open_store(url: str, options: Options | None = None) -> Store:
    """Open the store at `url`: `file:///absolute/folder`, `s3://bucket/prefix`, or `memory://`: a new one in this process.

    A file URL is taken as it stands, without percent signs for special characters. `options` hold what a URL must not
    show. Raises StoreError.
    """
    scheme, colon, rest = url.partition("://")
    opener = _OPENERS.get(scheme)
    if not colon or opener is None:
        known = " or ".join(f"{name}://" for name in sorted(_OPENERS))
        raise StoreError(f"{url!r} is no store that frugald can open: its URL must start with {known}")
    return opener(rest, options or {})


def _file(rest: str, options: Options) -> Store:
    from runner.store.object import local_store

    _refuse(options, "file")
    if not rest.startswith("/"):
        raise StoreError(f"'file://{rest}' needs an absolute folder: write it like `file:///var/lib/frugald/store`")
    return local_store(Path(rest))


def _s3(rest: str, options: Options) -> Store:
    from runner.store.s3 import bucket_store

    return bucket_store(rest, options)


def _memory(rest: str, options: Options) -> Store:
    _refuse(options, "memory")
    if rest:
        raise StoreError(f"'memory://{rest}' has no name: write `memory://`")
    return MemoryStore()


def _refuse(options: Options, scheme: str) -> None:
    if options:
        raise StoreError(f"a {scheme} store takes no options: remove {', '.join(sorted(options))}")


_OPENERS: dict[str, Callable[[str, Options], Store]] = {"file": _file, "memory": _memory, "s3": _s3}
