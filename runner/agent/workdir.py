"""The job's code and the package that it may import, put where its command will find them."""

import hashlib
import tarfile
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

from runner.store import Store
from runner.store.records import JobOrder


class CodeError(Exception):
    """The packed code is not what the job order names, or can't be unpacked safely: a retry would find the same."""


def unpack(store: Store, order: JobOrder, folder: Path) -> int:
    """Fetch the code, check its hash, write it to `folder`, and return its packed bytes. Raises StoreError, CodeError.

    Nothing in the archive can be written outside `folder`: tarfile's `data` filter refuses absolute names, `..`, devices, and
    links that lead out.
    """
    folder.mkdir(parents=True, exist_ok=True)
    if not order.code_key:
        return 0
    packed = folder.with_name("code.tar.gz")
    store.get_file(order.code_key, packed)
    with packed.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    if digest != order.code_sha256:
        raise CodeError(f"{order.code_key} has SHA-256 {digest}, the job order names {order.code_sha256}")
    try:
        with tarfile.open(packed) as archive:
            archive.extractall(folder, filter="data")
    except (tarfile.TarError, OSError, EOFError) as error:
        raise CodeError(f"{order.code_key} can't be unpacked: {error}") from error
    size = packed.stat().st_size
    packed.unlink()
    return size


def sdk(folder: Path) -> Path:
    """Return the folder to put on the job's PYTHONPATH: `frugald` is in it and nothing else of ours. Raises OSError."""
    source = files("runner").joinpath("sdk")
    if isinstance(source, Path):
        return source
    _copy(source.joinpath("frugald"), folder / "sdk" / "frugald")  # from inside the bundle
    return folder / "sdk"


def _copy(source: Traversable, target: Path) -> None:
    if source.is_dir():
        target.mkdir(parents=True, exist_ok=True)
        for entry in source.iterdir():
            _copy(entry, target / entry.name)
    else:
        target.write_bytes(source.read_bytes())
