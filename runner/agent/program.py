"""A command of the user's: a shell in a session of its own, and everything that it has started."""

import os
import shutil
import signal
import subprocess
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from config.clock import Clock
from runner.agent import processes

_PIPE = 1 << 16
_KILL_S = 5.0
_LAST_WORDS_S = 1.0
MARK = "FRUGALD_FOLDER"  # in the environment of everything that the command starts


class Program:
    """One run of a shell script; its output goes to `write` as it comes."""

    def __init__(
        self, script: str, folder: Path, environment: Mapping[str, str], write: Callable[[bytes], None], clock: Clock
    ) -> None:
        """Start it in `folder`; `environment` holds MARK, by which its processes are known. Raises OSError."""
        self._mark = f"{MARK}={environment[MARK]}".encode()
        self._clock = clock
        self._asked: set[int] = set()
        shell = shutil.which("bash") or "/bin/sh"
        self._shell = subprocess.Popen(
            [shell, "-c", script], cwd=folder, env=dict(environment), stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip
        self._pump = threading.Thread(target=self._read, args=(write,), name="output", daemon=True)
        self._pump.start()

    @property
    def exit_code(self) -> int | None:
        """How the shell ended, as a shell tells it (128 + n for signal n); None while it runs."""
        code = self._shell.poll()
        return code if code is None or code >= 0 else 128 - code

    def ask(self, number: signal.Signals) -> bool:
        """Send the stop signal to the job's own programs, once to each; say whether any of them still runs."""
        return processes.ask(self._family(), number, self._asked)

    def kill(self) -> int:
        """End all of it at once, and return how many processes there were. Then its output is complete."""
        count = len(self._family())
        processes.kill(self._family, self._clock, _KILL_S)
        with suppress(subprocess.TimeoutExpired):  # the kernel holds it, and the machine's end will take it
            self._shell.wait(_KILL_S)
        self._pump.join(_LAST_WORDS_S)
        return count

    def _family(self) -> list[processes.Process]:
        # Once the shell has been reaped its number may be another's.
        leader = self._shell.pid if self._shell.poll() is None else 0
        return processes.family(leader, self._mark)

    def _read(self, write: Callable[[bytes], None]) -> None:
        assert self._shell.stdout is not None  # noqa: S101 - it was asked for
        with self._shell.stdout as pipe:
            while data := os.read(pipe.fileno(), _PIPE):
                write(data)
