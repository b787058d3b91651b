"""What is wrong with a job file: all of it at once, each with its line and what to do next."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Self

from config.explain import dotted
from config.reason import Reason, Value
from config.toml_lines import Key
from daemon.jobfile.text import printable

MOST_PROBLEMS = 50
Lines = Mapping[Key, int]
"""The line, counted from 1, of each word of a file, by its path: `("resources", "gpus")`."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong. `line` counts from 1, 0 where no line is to blame; `key` is a path like `resources.gpus`."""

    line: int
    key: str
    reason: Reason

    @classmethod
    def at(cls, path: Key, lines: Lines, code: str, /, **values: Value) -> Self:
        """Return the problem of the word at `path`: the line is its own, or that of the table it stands in."""
        ends = range(len(path), 0, -1)
        line = next((lines[path[:end]] for end in ends if path[:end] in lines), 0)
        return cls(line, dotted(path), Reason(f"jobfile.{code}", values))

    @classmethod
    def of_file(cls, code: str, /, *, line: int = 0, **values: Value) -> Self:
        """Return a problem of the whole file, or of one line of it."""
        return cls(line, "", Reason(f"jobfile.{code}", values))

    @property
    def message(self) -> str:
        """Return the sentence alone."""
        return printable(str(self.reason))

    def __str__(self) -> str:
        """Return `line 3: resources.gpus: ...`, on one line whatever the file held."""
        where = f"line {self.line}: " if self.line else ""
        return f"{where}{printable(self.key)}: {self.message}" if self.key else f"{where}{self.message}"


class JobFileError(ValueError):
    """The job file can't be used; `problems` holds what is wrong with it, in the order of its lines."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        """Keep each problem once, up to a number that a person can read."""
        once = sorted(dict.fromkeys(map(_key, found := list(problems))), key=lambda key: key[0])
        by_key = {_key(problem): problem for problem in reversed(found)}
        kept = [by_key[key] for key in once[:MOST_PROBLEMS]]
        if len(once) > MOST_PROBLEMS:
            kept.append(Problem.of_file("more", count=len(once) - MOST_PROBLEMS))
        self.problems = tuple(kept)
        super().__init__("\n".join(map(str, kept)))


def _key(problem: Problem) -> tuple[int, str, str]:
    return problem.line, problem.key, str(problem)
