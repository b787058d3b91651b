"""`.gitignore` and `.frugaldignore`: what of a folder is not code."""

import os
import re
from dataclasses import dataclass
from functools import cached_property

from pathspec import GitIgnoreSpec

from daemon.inbox.safe_read import NotTaken

IGNORE_FILES = (".gitignore", ".frugaldignore")
_NEVER = ".git"  # whatever the rules say
_USUALLY = ("__pycache__/", "*.pyc", ".venv/")  # unless the rules say otherwise
_LARGEST = 64 * 1024
_MOST_STARS = 4  # in one part of a path: each more multiplies the time that a hostile name takes


@dataclass(frozen=True)
class Ignored:
    """The rules of a folder and of those above it. The last line that fits decides, the nearest file first, as in git."""

    base: str = ""
    lines: tuple[str, ...] = _USUALLY
    above: "Ignored | None" = None

    def inside(self, folder: int, path: str, names: set[str]) -> "Ignored":
        """Return the rules that hold in a folder. Raises NotTaken for a pattern that takes too long, OSError."""
        lines = [line for name in IGNORE_FILES if name in names for line in _lines(folder, name, path)]
        return Ignored(path, tuple(lines), self) if lines else self

    def leave_out(self, path: str, *, is_folder: bool) -> bool:
        """Say whether something is left out."""
        if path.rpartition("/")[2] == _NEVER:
            return True
        rules: Ignored | None = self
        while rules:
            name = path.removeprefix(rules.base)
            said = (rules.of_folders.check_file(f"{name}/") if is_folder else rules.of_files.check_file(name)).include
            if said is not None:
                return said
            rules = rules.above
        return False

    @cached_property
    def of_folders(self) -> GitIgnoreSpec:
        """The lines that can fit a folder: all of them."""
        return GitIgnoreSpec.from_lines(self.lines)

    @cached_property
    def of_files(self) -> GitIgnoreSpec:
        """The lines that can fit a file. Those of folders would fit all that is in them, and nothing left out is entered."""
        return GitIgnoreSpec.from_lines(line for line in self.lines if not line.rstrip().endswith("/"))


def _lines(folder: int, name: str, path: str) -> list[str]:
    try:
        descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    except OSError:
        return []  # a link, as git sees it, too
    with os.fdopen(descriptor, "rb") as file:
        lines = file.read(_LARGEST).decode("utf-8-sig", "replace").splitlines()
    for line in lines:
        if any(len(re.findall(r"\*+", part)) > _MOST_STARS for part in line.split("/")):
            raise NotTaken("pattern", pattern=line[:80], path=path + name)
    return lines
