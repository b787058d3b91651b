"""What runs on the machines: their real user data, as processes of this computer, each machine in a folder of its own.

A guest finds its cloud by AWS_ENDPOINT_URL and its own metadata server, a Python without this project but with the packages
beside it, and small programs that stand for those of an Ubuntu: `shutdown`, `poweroff`, `systemd-run`.
"""

import base64
import gzip
import shlex
import signal
import subprocess
import sys
import threading
import venv
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path

import psutil

from config.clock import Clock
from tests.clouds.instances import Instance

MARK = "STANDIN_GUEST"
_PATIENCE_S = 2.0  # from SIGTERM to SIGKILL
_SHUTDOWN = "#!/bin/sh\nprintf '%s' \"$*\" > {power}.new && mv {power}.new {power}\n"
_POWEROFF = "#!/bin/sh\nexec shutdown -h now\n"


@dataclass
class Guest:
    """One machine's processes; `off` is when it shuts itself down."""

    folder: Path
    off: datetime | None = None
    process: "subprocess.Popen[bytes] | None" = None
    ending: bool = False
    _seen: int = 0

    def look(self, now: datetime, minute: timedelta) -> None:
        """Read what `shutdown` was last asked."""
        try:
            changed = (self.folder / "power").stat().st_mtime_ns
            asked = (self.folder / "power").read_text().split()
        except FileNotFoundError:
            return
        if changed != self._seen:
            self._seen = changed
            self.off = _off(asked, now, minute)


def _off(asked: list[str], now: datetime, minute: timedelta) -> datetime | None:
    if "-c" in asked:
        return None
    when = next((one for one in asked if not one.startswith("-")), "+1")
    return now if when == "now" else now + int(when.removeprefix("+")) * minute


@dataclass
class Guests:
    """All machines that have processes."""

    folder: Path
    clock: Clock
    minute: timedelta  # how long `shutdown -h +1` takes
    environment: Callable[[Instance], Mapping[str, str]]
    _guests: dict[str, Guest] = field(default_factory=dict)
    _threads: list[threading.Thread] = field(default_factory=list)

    def tend(self, instances: Iterable[Instance]) -> None:
        """Start what has booted, shut down what asked for it, end what is being ended."""
        now = self.clock.now()
        for one in instances:
            guest = self._guests.get(one.id)
            if guest is None and one.alive(now):
                self._guests[one.id] = self._boot(one)
            elif guest is not None and not guest.ending:
                guest.look(now, self.minute)
                if guest.off and now >= guest.off:
                    one.power_off(now)
                if not one.alive(now):
                    self._end(one.id, guest)

    def stop(self) -> None:
        """Leave no process."""
        for ident in self._guests:
            kill(ident, 0)
        for thread in self._threads:
            thread.join()
        for guest in self._guests.values():
            if guest.process:
                guest.process.wait()
        self._guests.clear()

    def processes(self, ident: str) -> list[psutil.Process]:
        """Return what runs on a machine."""
        return running(ident)

    def console(self, ident: str) -> str:
        """Return what its user data printed."""
        return (self.folder / ident / "console.log").read_text(errors="replace")

    def _end(self, ident: str, guest: Guest) -> None:
        guest.ending = True
        thread = threading.Thread(target=kill, args=(ident, _PATIENCE_S), daemon=True)
        self._threads.append(thread)
        thread.start()

    def _boot(self, one: Instance) -> Guest:
        guest = Guest(self.folder / one.id)
        for part in ("home", "tmp", "bin", "disk"):
            (guest.folder / part).mkdir(parents=True)
        python = self._python()
        _programs(guest.folder, python)
        script = guest.folder / "user-data"
        script.write_bytes(_user_data(one))
        if script.read_bytes().startswith(b"#!"):
            guest.process = self._run(one, guest, script, python)
        return guest

    def _run(self, one: Instance, guest: Guest, script: Path, python: Path) -> "subprocess.Popen[bytes]":
        path = f"{guest.folder / 'bin'}:{python.parent}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
        places = {"HOME": str(guest.folder / "home"), "TMPDIR": str(guest.folder / "tmp"), "PATH": path, MARK: one.id}
        places["FRUGALD_DISK"] = str(guest.folder / "disk")  # /var/lib is this computer's own
        with (guest.folder / "console.log").open("wb") as console:
            return subprocess.Popen(
                ["bash", str(script)], env={"LANG": "C.UTF-8", **self.environment(one), **places}, cwd=guest.folder / "home",
                stdin=subprocess.DEVNULL, stdout=console, stderr=subprocess.STDOUT, start_new_session=True,
            )  # fmt: skip

    def _python(self) -> Path:
        """Return a Python that has the packages installed beside this one, but not this project."""
        home = self.folder / "python"
        if not home.exists():
            venv.create(home, symlinks=True)
            beside = next(Path(one) for one in sys.path if one.endswith("site-packages"))
            (next((home / "lib").iterdir()) / "site-packages" / "beside.pth").write_text(f"{beside}\n")
        return home / "bin" / "python3"


def _user_data(one: Instance) -> bytes:
    text = base64.b64decode(one.asked.get("UserData", ""))
    return gzip.decompress(text) if text.startswith(b"\x1f\x8b") else text


def _programs(folder: Path, python: Path) -> None:
    systemd_run = Path(__file__).with_name("systemd_run.py").read_text()
    _program(folder / "bin" / "shutdown", _SHUTDOWN.format(power=shlex.quote(str(folder / "power"))))
    _program(folder / "bin" / "poweroff", _POWEROFF)
    _program(folder / "bin" / "systemd-run", f"#!{python} -P\n{systemd_run}")


def _program(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(0o755)


# ---------------------------------------------------------------- processes


def running(ident: str) -> list[psutil.Process]:
    """Return the processes of a guest: all that have inherited its mark, and their children, marked or not."""
    found: dict[int, psutil.Process] = {}
    for one in psutil.process_iter():
        try:
            if one.environ().get(MARK) == ident:
                found |= {each.pid: each for each in (one, *one.children(recursive=True))}
        except psutil.Error:
            continue
    return [one for one in found.values() if _lives(one)]


def _lives(one: psutil.Process) -> bool:
    try:
        return bool(one.status() != psutil.STATUS_ZOMBIE)
    except psutil.Error:
        return False


def kill(ident: str, patience_s: float) -> None:
    """Ask all of a guest's processes to end, then end them."""
    asked = running(ident)
    if patience_s and asked:
        _signal(asked, signal.SIGTERM)
        psutil.wait_procs(asked, timeout=patience_s)
    while left := running(ident):
        _signal(left, signal.SIGKILL)
        psutil.wait_procs(left, timeout=1)


def _signal(processes: Iterable[psutil.Process], number: int) -> None:
    for one in processes:
        try:
            one.send_signal(number)
        except psutil.Error:
            continue
