"""Walk through a stranger's folder: through open descriptors, so that no swapped link leads elsewhere, and not for ever."""

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from daemon.inbox.safe_read import NotTaken

DEEPEST = 50
MOST_FILES = 100_000


@dataclass(frozen=True, slots=True)
class Entry:
    """Something that isn't a folder: its path below the folder that is walked through, and where to open it."""

    path: str
    found: os.stat_result
    folder: int  # open as long as nothing further is asked for
    name: str


class Rules(Protocol):
    """What to leave out."""

    def inside(self, folder: int, path: str, names: set[str]) -> "Rules":
        """Return the rules that hold in a folder whose entries have these names."""

    def leave_out(self, path: str, *, is_folder: bool) -> bool:
        """Say whether something is left out, with all that is in it."""


class Everything:
    """Leaves nothing out."""

    def inside(self, folder: int, path: str, names: set[str]) -> "Everything":  # noqa: ARG002
        """Return the same."""
        return self

    def leave_out(self, path: str, *, is_folder: bool) -> bool:  # noqa: ARG002
        """Keep it."""
        return False


def walk(folder: int, rules: Rules) -> Iterator[Entry]:
    """Yield everything but folders, in the order of the names. Raises NotTaken for what has no end, OSError."""
    for count, entry in enumerate(_walk(folder, "", rules, 0)):
        if count >= MOST_FILES:
            raise NotTaken("many_files", most=MOST_FILES)
        yield entry


def _walk(folder: int, above: str, rules: Rules, depth: int) -> Iterator[Entry]:
    if depth > DEEPEST:
        raise NotTaken("deep", path=above, most=DEEPEST)
    with os.scandir(folder) as entries:
        found = sorted(((e.name, e.stat(follow_symlinks=False)) for e in entries), key=lambda pair: pair[0])
    rules = rules.inside(folder, above, {name for name, _ in found})
    for name, info in found:
        path, is_folder = above + name, stat.S_ISDIR(info.st_mode)
        if rules.leave_out(path, is_folder=is_folder):
            continue
        if not is_folder:
            yield Entry(path, info, folder, name)
            continue
        inner = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
        try:
            yield from _walk(inner, f"{path}/", rules, depth + 1)
        finally:
            os.close(inner)
