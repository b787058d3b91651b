"""`.gitignore` and `.frugaldignore`: what of a folder is not code.

The rules are git's, and so is the way they are looked at: a folder that is left out is not entered, so a line has to fit a
path itself and not what lies above it. Matching takes time in proportion to the path's length, whatever the pattern.
"""

import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fnmatch import translate

from daemon.inbox.safe_read import NotTaken

IGNORE_FILES = (".gitignore", ".frugaldignore")
_NEVER = ".git"  # whatever the rules say
_USUALLY = ("__pycache__/", "*.pyc", ".venv/")  # unless the rules say otherwise
_LARGEST = 64 * 1024
_MOST_LINES = 500
_ESCAPED = re.compile(r"\\(.)")
Part = re.Pattern[str] | None
"""What one name of a path must look like; None stands for any number of names."""


def _part(name: str) -> Part:
    """Translate one name of a pattern."""
    if name == "**":
        return None
    plain = _ESCAPED.sub(lambda match: f"[{match[1]}]", name)
    return re.compile(translate(plain.replace("[^", "[!")))


@dataclass(frozen=True, slots=True)
class Line:
    """One line of an ignore file."""

    leaves_out: bool  # False: it takes in again what a line above leaves out
    only_folders: bool
    parts: tuple[Part, ...]

    @classmethod
    def read(cls, text: str) -> "Line | None":
        """Read a line; None for one that says nothing."""
        text = re.sub(r"(?<!\\)\s+$", "", text)
        negated = text.startswith("!")
        text = text.removeprefix("!") if negated else text
        bare = text.rstrip("/")
        if not bare or text.startswith("#"):
            return None
        anchored = "/" in bare
        names = [name for name in bare.removeprefix("/").split("/") if name]
        parts = [None, *map(_part, names)] if not anchored else list(map(_part, names))
        if parts[-1] is None:
            parts.append(_part("*"))  # `a/**` is all that is in `a`, and not `a`
        return cls(not negated, text != bare, tuple(parts))

    def fits(self, names: Sequence[str], *, is_folder: bool) -> bool:
        """Say whether the line is about a path."""
        return (is_folder or not self.only_folders) and _fits(self.parts, names)


def _lines(texts: Iterable[str]) -> tuple[Line, ...]:
    return tuple(line for text in texts if (line := Line.read(text)))


@dataclass(frozen=True, slots=True)
class Ignored:
    """The rules of a folder and of those above it. The last line that fits decides, the nearest file first."""

    depth: int = 0
    lines: tuple[Line, ...] = _lines(_USUALLY)
    above: "Ignored | None" = None

    def inside(self, folder: int, path: str, names: set[str]) -> "Ignored":
        """Return the rules that hold in a folder. Raises NotTaken for too many of them, OSError."""
        lines = _lines(text for name in IGNORE_FILES if name in names for text in _texts(folder, name, path))
        return Ignored(path.count("/"), lines, self) if lines else self

    def leave_out(self, path: str, *, is_folder: bool) -> bool:
        """Say whether something is left out."""
        names = path.split("/")
        rules: Ignored | None = self
        while rules:
            below = names[rules.depth :]
            for line in reversed(rules.lines):
                if line.fits(below, is_folder=is_folder):
                    return line.leaves_out or names[-1] == _NEVER
            rules = rules.above
        return names[-1] == _NEVER


def _fits(pattern: Sequence[Part], names: Sequence[str]) -> bool:
    """Match names against a pattern; only the last `**` ever has to be tried again with one name more."""
    at, name, star, tried = 0, 0, -1, 0
    while name < len(names):
        part = pattern[at] if at < len(pattern) else _NOTHING
        if part is None:
            star, tried, at = at, name, at + 1
        elif part.match(names[name]):
            at, name = at + 1, name + 1
        elif star >= 0:
            tried += 1
            at, name = star + 1, tried
        else:
            return False
    return at == len(pattern)


_NOTHING = re.compile(r"(?!)")


def _texts(folder: int, name: str, path: str) -> list[str]:
    try:
        descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    except OSError:
        return []  # a link, which git doesn't read either
    with os.fdopen(descriptor, "rb") as file:
        texts = file.read(_LARGEST).decode("utf-8-sig", "replace").splitlines()
    if len(texts) > _MOST_LINES:
        raise NotTaken("patterns", path=path + name, most=_MOST_LINES)
    return texts
