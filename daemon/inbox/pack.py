"""Pack a job's folder into one archive: the same files give the same bytes, and so the same name in the store."""

import gzip
import os
import stat
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from pathspec import GitIgnoreSpec

from config.units import print_memory
from daemon.inbox.safe_read import NotTaken

IGNORE_FILES = (".gitignore", ".frugaldignore")
_ALWAYS_IGNORED = (".git/", "__pycache__/", ".venv/", "*.pyc")


@dataclass(frozen=True, slots=True)
class Packed:
    """A packed folder, as a file that the caller removes."""

    path: Path
    sha256: str


def pack(folder: Path, target: Path, largest: int) -> Packed:
    """Pack `folder` into `target` (tar.gz). Raises NotTaken when it is larger than `largest` or leads outside."""
    files = sorted(_files(folder))
    total = sum(size for _, _, size in files)
    if total > largest:
        raise NotTaken(_too_large(files, total, largest))
    with target.open("wb") as raw, gzip.GzipFile("", "wb", 6, raw, mtime=0) as zipped, tarfile.open(
        fileobj=zipped, mode="w", format=tarfile.PAX_FORMAT
    ) as archive:
        for name, path, _ in files:
            _add(archive, name, path)
    with target.open("rb") as file:
        digest = sha256()
        while block := file.read(1 << 20):
            digest.update(block)
    return Packed(target, digest.hexdigest())


def unpack(archive: Path, folder: Path, largest: int) -> None:
    """Unpack what a stranger packed. Raises NotTaken for names or links that lead outside, devices, and bombs."""
    try:
        with tarfile.open(archive, "r:gz") as tar:
            total = 0
            for member in tar:
                total += member.size
                if total > largest:
                    raise NotTaken(f"unpacked it is larger than {print_memory(largest)}")
                tar.extract(member, folder, filter="data")
    except (tarfile.TarError, OSError, EOFError) as error:
        raise NotTaken(f"it can't be unpacked: {error}") from error


def _add(archive: tarfile.TarFile, name: str, path: Path) -> None:
    found = path.lstat()
    info = tarfile.TarInfo(name)
    info.mode = 0o755 if found.st_mode & stat.S_IXUSR else 0o644
    if path.is_symlink():
        info.type, info.linkname = tarfile.SYMTYPE, str(path.readlink())
        archive.addfile(info)
        return
    with path.open("rb") as file:
        info.size = os.fstat(file.fileno()).st_size
        archive.addfile(info, file)


def _files(folder: Path) -> Iterator[tuple[str, Path, int]]:
    """Yield (name, path, size) of everything that no ignore file excludes; rules apply below the file they stand in."""
    root = folder.resolve()
    specs: dict[Path, GitIgnoreSpec] = {}
    for here, folders, names in os.walk(folder):
        base = Path(here)
        lines = [line for ignore in IGNORE_FILES if ignore in names for line in _lines(base / ignore)]
        specs[base] = GitIgnoreSpec.from_lines([*_ALWAYS_IGNORED, *lines])
        above = [(b, s) for b, s in specs.items() if b == base or b in base.parents]
        folders[:] = sorted(d for d in folders if not (base / d).is_symlink() and not _ignored(base / d, above, folder=True))
        for name in names:
            path = base / name
            if not _ignored(path, above):
                yield path.relative_to(folder).as_posix(), path, _size(path, root)


def _lines(path: Path) -> list[str]:
    return [] if path.is_symlink() else path.read_text(encoding="utf-8", errors="replace").splitlines()


def _ignored(path: Path, specs: list[tuple[Path, GitIgnoreSpec]], *, folder: bool = False) -> bool:
    return any(spec.match_file(path.relative_to(base).as_posix() + ("/" if folder else "")) for base, spec in specs)


def _size(path: Path, root: Path) -> int:
    found = path.lstat()
    if stat.S_ISLNK(found.st_mode):
        if not path.resolve().is_relative_to(root):
            raise NotTaken(f"`{path.name}` is a link that leads out of the folder: copy what it points to")
        return 0
    if not stat.S_ISREG(found.st_mode):
        raise NotTaken(f"`{path.name}` is no plain file: remove it")
    return found.st_size


def _too_large(files: list[tuple[str, Path, int]], total: int, largest: int) -> str:
    biggest = sorted(files, key=lambda f: -f[2])[:5]
    listed = ", ".join(f"{name} ({print_memory(size)})" for name, _, size in biggest)
    return (
        f"its code has {print_memory(total)}, {print_memory(largest)} is the most; the largest files are {listed}: "
        "name them in .frugaldignore, or keep data in the store"
    )
