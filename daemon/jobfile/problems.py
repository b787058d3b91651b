"""What is wrong with a job file: all of it at once, each with its line and what to do next."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong. `line` counts from 1, 0 where no line is to blame; `key` is a dotted path."""

    line: int
    key: str
    message: str

    def __str__(self) -> str:
        """Return `line 3: resources.gpus: ...`."""
        where = f"line {self.line}: " if self.line else ""
        return f"{where}{self.key}: {self.message}" if self.key else f"{where}{self.message}"


class JobFileError(ValueError):
    """The job file can't be used; `problems` holds everything that is wrong with it."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(map(str, problems)))
