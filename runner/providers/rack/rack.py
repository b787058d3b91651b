"""A rack of machines: one folder each, one host process each, and no memory of its own."""

import fcntl
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta
from pathlib import Path

from config.clock import Clock
from runner.provider import Gone, ProviderError, Unknown
from runner.providers.rack import processes
from runner.providers.rack.host import MARK, POLL_S
from runner.providers.rack.state import DISK, FILE, INTERRUPT, TERMINATE, MachineState, clear

_KEPT_FOR = timedelta(days=7)  # the token of a machine that ended is known for this long
_LAUNCH_S = 30.0
_DRAFT = ".draft-"


class Rack:
    """The machines below one folder, of every owner; any number of processes may use it at once."""

    def __init__(self, folder: Path, clock: Clock) -> None:
        """Use `folder`, which is made when it is missing."""
        self._machines = folder.resolve() / "machines"  # as the mark on every process of a machine spells it
        self._machines.mkdir(mode=0o700, parents=True, exist_ok=True)  # a machine's environment may hold keys
        self._clock = clock
        self._gone: dict[Path, MachineState] = {}  # ended machines change no more: read once

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep every other launch on this folder out: for looking at what runs and acting on it."""
        with (self._machines.parent / "lock").open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def states(self) -> list[MachineState]:
        """Return every machine that is remembered, after settling those whose host died. Raises ProviderError."""
        folders = sorted(path for path in self._machines.iterdir() if not path.name.startswith("."))
        return [self._settled(folder) for folder in folders]

    def state(self, machine_id: str) -> MachineState | None:
        """Return one machine, None if there never was one. Raises ProviderError."""
        folder = self._machines / machine_id
        return self._settled(folder) if (folder / FILE).exists() else None

    def start(self, state: MachineState) -> MachineState:
        """Make the machine exist: its host runs when this returns. Call it `locked`. Raises Unknown."""
        self._discard_drafts()
        draft = Path(tempfile.mkdtemp(prefix=_DRAFT, dir=self._machines))
        (draft / DISK).mkdir()
        state.write(draft)
        self._run_host(draft, self._machines / state.id)
        started = self.state(state.id)
        if started is None:
            raise Unknown(f"the host of {state.id} did not start: see {draft / 'console.log'}")
        return started

    def _run_host(self, draft: Path, final: Path) -> None:
        command = [sys.executable, "-P", "-m", "runner.providers.rack.host", str(draft), str(final)]
        kept = {name: os.environ[name] for name in ("PATH", "LD_LIBRARY_PATH") if name in os.environ}
        with (draft / "console.log").open("wb") as console, suppress(subprocess.TimeoutExpired):
            subprocess.run(
                command, stdin=subprocess.DEVNULL, stdout=console, stderr=console, env=kept, timeout=_LAUNCH_S,
                start_new_session=True,  # a Ctrl-C meant for the daemon must not cut a launch in two
                check=False,  # what counts is whether the machine exists afterwards
            )  # fmt: skip

    def terminate(self, machine_id: str) -> None:
        """Ask a machine's host for its end; no such machine is success."""
        self._ask(machine_id, TERMINATE, "")

    def interrupt(self, machine_id: str, notice: timedelta) -> None:
        """Have a machine taken away after `notice`. Raises Gone."""
        state = self.state(machine_id)
        if state is None or state.gone:
            raise Gone(f"{machine_id} can't be interrupted: it has ended")
        self._ask(machine_id, INTERRUPT, json.dumps({"notice_s": notice.total_seconds()}))

    def forget_old(self, now: datetime) -> None:
        """Drop machines that ended so long ago that nobody asks for their tokens any more."""
        for state in self.states():
            if state.ended_at and now - datetime.fromisoformat(state.ended_at) > _KEPT_FOR:
                self._discard(self._machines / state.id)

    def destroy_all(self) -> None:
        """End every machine of every owner, and return when no process of any is left."""
        with self.locked():
            self._discard_drafts()
            while living := [state for state in self.states() if processes.alive(state.host)]:
                for state in living:
                    self.terminate(state.id)
                self._clock.wait(threading.Event(), POLL_S / 2)

    def _discard_drafts(self) -> None:
        """Call off launches that were cut off before their host took over: nobody was told of them."""
        for path in self._machines.glob(f"{_DRAFT}*"):
            self._discard(path)

    def _discard(self, folder: Path) -> None:
        """Remove a folder so that it is there or not, never half: a host may be renaming a draft just now."""
        self._gone.pop(folder, None)
        bin_folder = Path(tempfile.mkdtemp(prefix=".bin-", dir=self._machines))
        with suppress(FileNotFoundError):
            folder.rename(bin_folder / "it")
        shutil.rmtree(bin_folder, ignore_errors=True)

    def _ask(self, machine_id: str, name: str, text: str) -> None:
        folder = self._machines / machine_id
        if not folder.is_dir():
            return
        draft = folder / f".{name}"
        draft.write_text(text)
        draft.replace(folder / name)

    def _settled(self, folder: Path) -> MachineState:
        """Return a machine's state; if its host was killed, first end what it left behind."""
        state = self._gone.get(folder) or _read(folder)
        if not state.gone and not processes.alive(state.host):
            state = _read(folder)  # again: it may have ended in good order between the two looks
            state = state if state.gone else self._buried(folder, state)
        if state.gone:
            self._gone[folder] = state
        return state

    def _buried(self, folder: Path, state: MachineState) -> MachineState:
        processes.kill_all(
            lambda: processes.marked(MARK, str(folder)), lambda: self._clock.wait(threading.Event(), POLL_S / 4)
        )
        clear(folder)
        last_seen = datetime.fromtimestamp((folder / FILE).stat().st_mtime, self._clock.now().tzinfo)
        ended = state.ended(min(self._clock.now(), last_seen + timedelta(seconds=1)), "machine_end.host_lost")
        ended.write(folder)
        return ended


def _read(folder: Path) -> MachineState:
    try:
        return MachineState.read(folder)
    except (OSError, ValueError, TypeError) as error:
        raise ProviderError(f"the machine in {folder} could not be read: {error}") from error
