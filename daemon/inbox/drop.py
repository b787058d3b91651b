"""Put a job into the drop folder so that the daemon sees it whole or not at all."""

import shutil
from pathlib import Path


def submit_file(folder: Path, path: Path) -> Path:
    """Copy a job file, folder or archive into the drop folder under a hidden name, then rename it. Raises OSError."""
    target = folder / path.name
    n = 1
    while target.exists():
        n += 1
        target = folder / (f"{path.stem}-{n}{path.suffix}" if path.is_file() else f"{path.name}-{n}")
    draft = folder / f".{target.name}.tmp"
    if path.is_dir():
        shutil.rmtree(draft, ignore_errors=True)
        shutil.copytree(path, draft, symlinks=True, ignore=shutil.ignore_patterns("__pycache__", ".venv", ".git"))
    else:
        shutil.copyfile(path, draft)
    draft.rename(target)
    return target
