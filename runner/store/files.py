"""A file that appears whole: written beside its place under another name, then renamed."""

import os
import tempfile
from collections.abc import Iterable
from pathlib import Path


def write_whole(path: Path, chunks: Iterable[bytes]) -> None:
    """Write `chunks` to `path`, folders included; whatever fails, `path` is as before. Raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name[:50]}.", suffix=".part")
    part = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            for chunk in chunks:
                file.write(chunk)
        part.replace(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
