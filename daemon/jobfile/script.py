"""A plain shell script is a job, too: `#FRUGALD` comment lines hold the words, the script itself is `run`."""

import re
from typing import Any

from config.toml_lines import Key
from daemon.jobfile.problems import JobFileError, Lines, Problem
from daemon.jobfile.spec import Resources
from daemon.jobfile.yaml12 import read_yaml

_OURS = re.compile(r"#\s?FRUGALD\b")
_LINE = re.compile(r"#\s?FRUGALD\s+(?P<dashes>--)?(?P<word>[A-Za-z_][\w.-]*)(?:\s*[=:]\s*|\s+|$)(?P<value>.*)")
_SHELL = re.compile(r"#!\s*(/\S*/)?(env\s+(-S\s+)?)?(ba|da)?sh\b")


def read_script(text: str) -> tuple[dict[str, Any], Lines]:
    """Return the words of a script and their lines. Raises JobFileError with all that is wrong with them."""
    script = _Script(text)
    if script.problems:
        raise JobFileError(script.problems)
    return script.values, script.lines


class _Script:
    def __init__(self, text: str) -> None:
        self.values: dict[str, Any] = {"run": text}
        self.lines: dict[Key, int] = {("run",): 1}
        self.problems: list[Problem] = []
        if text.startswith("#!") and not _SHELL.match(text):
            self._wrong("not_a_shell", 1)
        for number, line in enumerate(text.split("\n"), 1):
            if _OURS.match(line):
                self._take(line, number)
        slurm = re.search(r"^#SBATCH\b", text, re.MULTILINE)
        if slurm and len(self.lines) == 1:
            self._wrong("slurm", text.count("\n", 0, slurm.start()) + 1)

    def _take(self, line: str, number: int) -> None:
        match = _LINE.fullmatch(line)
        if not match or not (match["value"].strip() or match["dashes"]):
            self._wrong("script_line", number)
            return
        word = match["word"].replace("-", "_")
        path = ("resources", word) if word in Resources.model_fields else tuple(word.split("."))
        try:
            value = read_yaml(match["value"])[0] if match["value"].strip() else True
        except JobFileError as error:
            self.problems += [Problem(number, ".".join(path), problem.reason) for problem in error.problems]
        else:
            self._put(path, value, number)

    def _put(self, path: tuple[str, ...], value: Any, number: int) -> None:  # noqa: ANN401 - any value
        table = self.values
        for part in path[:-1]:
            table = table.setdefault(part, {})
            if not isinstance(table, dict):
                self._wrong("twice", number, word=part)
                return
        if path[-1] in table:
            self._wrong("run_is_script" if path == ("run",) else "twice", number, word=path[-1])
            return
        table[path[-1]] = value
        self.lines[path] = number

    def _wrong(self, code: str, line: int, **values: str) -> None:
        self.problems.append(Problem.of_file(code, line=line, **values))
