"""The host of one machine, a process of its own: boots it, serves its metadata, keeps its timers, ends it.

Started as `python -P -m runner.providers.rack.host DRAFT FINAL`: the folder DRAFT holds the machine's state, and its
becoming FINAL is the launch, so a machine exists if and only if its host has started. The host works alone; it is asked
by files in its folder, and it answers in `machine.json`. Nothing of the machine outlives it.
"""

import json
import math
import os
import shutil
import signal
import sys
import threading
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path

from config.clock import Clock, SystemClock
from runner.providers.rack import processes
from runner.providers.rack.state import DISK, FILE, GUARD, INTERRUPT, TERMINATE, MachineState, clear, scratch

MARK = "FRUGALD_MACHINE_FOLDER"  # in the environment of everything that runs on a machine
POLL_S = 0.1
STOP_S = 5.0  # what a guest has between the signal to shut down and the power going off
_ALIVE_EVERY_S = 1.0


class Host:
    """The hypervisor, the power supply and the first process of one machine."""

    def __init__(self, folder: Path, state: MachineState, clock: Clock) -> None:
        """Count from now: the guest timer runs before anything that could hang."""
        self._folder = folder
        self._disk = folder / DISK
        self._state = state
        self._clock = clock
        self._start = clock.monotonic()
        self._guard_at = self._start + state.guard_s
        self._guard_seen = (0, 0)
        self._taken_at = None if state.lives_s is None else self._start + state.lives_s
        self._taken_why, self._notice_s = state.lives_why, state.notice_s
        self._agent = 0  # its process, once booted
        self._exit_code: int | None = None
        self._stopping = threading.Event()
        self._alive_at = self._start

    def stop(self, *_: object) -> None:
        """End the machine as if it had been terminated: a signal's handler."""
        self._stopping.set()

    def run(self) -> None:
        """Live the machine's whole life; returns when nothing of it is left."""
        from runner.providers.rack.metadata import serve  # here, because the launch waits for what is above

        try:
            self._write(metadata=serve(self._clock, self._metadata))
            why = None
            while why is None:
                self._clock.wait(self._stopping, POLL_S)
                why = self._step(self._clock.monotonic())
            self._end(why)
        finally:
            self._kill_all()  # whatever else failed, such as a full disk

    def _step(self, now: float) -> str | None:
        """Do what is due, and return why the machine must end now, if it must."""
        self._say_alive(now)
        self._reap()
        if self._stopping.is_set() or (self._folder / TERMINATE).exists():
            return "terminated"
        if self._exit_code is not None:
            return "exited" if self._exit_code == 0 else "crashed"
        if now >= self._guard(now):
            return "guard"
        if self._interrupted(now):
            return self._taken_why
        if not self._agent and now >= self._start + self._state.boot_s:
            self._boot()
        return None

    def _guard(self, now: float) -> float:
        """Return when the guest timer ends the machine; a change of the guard file moves it."""
        with suppress(OSError, ValueError):  # not written yet, or half written: the timer stands
            seen = (self._disk / GUARD).stat()
            version = (seen.st_ino, seen.st_mtime_ns)
            if version != self._guard_seen:
                self._guard_at = now + _seconds((self._disk / GUARD).read_text())
                self._guard_seen = version
        return self._guard_at

    def _interrupted(self, now: float) -> bool:
        """Announce the interruption when its notice is due, and say whether the machine is taken away now."""
        self._hear_request(now)
        if self._taken_at is None:
            return False
        left = self._taken_at - now
        if self._state.notice_at is None and 0 < left <= self._notice_s:
            self._write(notice_at=(self._clock.now() + timedelta(seconds=left)).isoformat())
        return left <= 0

    def _hear_request(self, now: float) -> None:
        path = self._folder / INTERRUPT
        if not path.exists():
            return
        try:
            self._notice_s = float(json.loads(path.read_bytes())["notice_s"])
            self._taken_at, self._taken_why = now + self._notice_s, "interrupted"
        except (ValueError, KeyError, TypeError) as error:
            sys.stderr.write(f'{path} must look like {{"notice_s": 8}}: {error!r}\n')
        path.unlink()

    def _metadata(self, path: str) -> str | None:
        if path == "/latest/meta-data/instance-id":
            return self._state.id
        if path == "/latest/meta-data/spot/instance-action" and self._state.notice_at:
            at = datetime.fromisoformat(self._state.notice_at).strftime("%Y-%m-%dT%H:%M:%SZ")
            return json.dumps({"action": "terminate", "time": at})
        return None

    def _boot(self) -> None:
        """Start what a machine runs first, in its own session, with nothing of the daemon's environment."""
        user_data = self._disk / "user-data.json"
        user_data.write_text(self._state.user_data)
        command = [sys.executable, "-P", "-m", "runner.bootstrap", "--user-data", str(user_data)]
        command += ["--folder", str(self._disk), "--metadata", self._state.metadata, "--parent", str(os.getpid())]
        self._agent = os.posix_spawn(sys.executable, command, self._environment(), setsid=True)
        self._write(condition="running")

    def _environment(self) -> dict[str, str]:
        path = os.pathsep.join([str(Path(sys.executable).parent), "/usr/local/bin", "/usr/bin", "/bin"])
        temporary = scratch(self._folder)
        shutil.rmtree(temporary, ignore_errors=True)
        temporary.mkdir(mode=0o700)
        own = {"HOME": str(self._disk), "TMPDIR": str(temporary), "PATH": path, "LANG": "C.UTF-8"}
        return own | {MARK: str(self._folder)} | self._state.environment

    def _end(self, why: str) -> None:
        """End the machine: a shutdown when it was asked for, else the power goes off."""
        self._write(condition="ending")
        if why in {"terminated", "guard"} and self._agent and self._exit_code is None:
            processes.send(self._agent, signal.SIGTERM)
            self._wait_for_agent(self._clock.monotonic() + STOP_S)
        self._kill_all()
        clear(self._folder)
        self._state.ended(self._clock.now(), f"machine_end.{why}").write(self._folder)

    def _kill_all(self) -> None:
        processes.kill_all(lambda: processes.descendants(os.getpid()), self._pause)

    def _wait_for_agent(self, until: float) -> None:
        while self._exit_code is None and self._clock.monotonic() < until:
            self._pause()

    def _pause(self) -> None:
        self._clock.wait(threading.Event(), POLL_S / 4)
        self._reap()

    def _reap(self) -> None:
        self._exit_code = processes.reap().get(self._agent, self._exit_code)

    def _say_alive(self, now: float) -> None:
        """Touch the state every second: should the host be killed, this is until when the machine ran."""
        if now >= self._alive_at:
            os.utime(self._folder / FILE)
            self._alive_at = now + _ALIVE_EVERY_S

    def _write(self, **values: str) -> None:
        self._state = self._state.changed(**values)
        self._state.write(self._folder)


def _seconds(text: str) -> float:
    seconds = float(text)
    if not math.isfinite(seconds):
        raise ValueError(f"{text!r} is not a number of seconds")
    return seconds


def main(draft: Path, final: Path) -> int:
    """Leave the caller's process tree, make the machine exist, and host it; the caller waits only for the launch."""
    heard, said = os.pipe()
    if os.fork():
        os.close(said)
        return 0 if os.read(heard, 1) else 1  # nothing to read: the host ended before the launch
    os.close(heard)
    os.setsid()
    processes.adopt_orphans()
    os.nice(5)  # the daemon stays quick while its machines work
    state = MachineState.read(draft).changed(host=processes.identity(os.getpid()))
    state.write(draft)
    host = Host(final, state, SystemClock())
    signal.signal(signal.SIGTERM, host.stop)
    try:
        draft.rename(final)  # fails when the machine exists: a launch that was cut off has been repeated
    except OSError:
        return 1
    os.write(said, b"1")
    os.close(said)
    os.chdir(final)
    host.run()
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2])))
