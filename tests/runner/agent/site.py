"""A rented machine for tests: the real agent in a process of its own, and a daemon's half of the talk with it."""

import io
import json
import os
import signal
import subprocess
import sys
import tarfile
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from hashlib import sha256
from pathlib import Path
from typing import Any

from config.clock import SystemClock
from runner.agent.processes import Process, table
from runner.providers.rack.metadata import MetadataServer
from runner.store import Missing, Store, open_store
from runner.store.records import (
    MANIFEST,
    AttemptStatus,
    Beat,
    BootOrder,
    Command,
    JobOrder,
    Lease,
    Manifest,
    Phase,
    attempt_key,
    job_key,
    machine_key,
)  # fmt: skip

CLOCK = SystemClock()
JOB, MACHINE = "j-1", "m-1"
PYTHON = sys.executable


def until(condition: Callable[[], Any], seconds: float = 20.0) -> Any:
    """Wait for real processes to do something and return what `condition` returned; fail when they don't."""
    end = CLOCK.monotonic() + seconds
    while not (found := condition()):
        assert CLOCK.monotonic() < end, f"not within {seconds} s"
        CLOCK.wait(threading.Event(), 0.01)
    return found


def packed(files: dict[str, str]) -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w:gz") as archive:
        for name, text in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(text.encode())
            archive.addfile(entry, io.BytesIO(text.encode()))
    return file.getvalue()


@dataclass
class Rented:
    """One machine with one attempt. Set what differs, then `boot`."""

    base: Path
    guard_s: float = 60.0
    tail_s: float = 1.0
    attempt: int = 0
    pace: float = 0.1
    environment: dict[str, str] = field(default_factory=dict)
    notice: str | None = None
    rebalance: str | None = None
    agent: subprocess.Popen[bytes] | None = None
    words: int = 0
    launcher: list[str] = field(default_factory=lambda: [PYTHON, "-P", "-m", "runner.agent"])

    def __post_init__(self) -> None:
        self.store: Store = open_store(f"file://{self.base}/store")
        self.disk = self.base / "disk"
        self.server = MetadataServer(CLOCK, self._metadata)
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()

    @property
    def root(self) -> Path:
        return self.disk / "attempts" / f"{JOB}-{self.attempt}"

    def boot(self, run: str, *, code: dict[str, str] | None = None, **order: Any) -> None:
        """Put the orders into the store and start the agent, as the machine's host does."""
        given = {"checkpoint_grace_s": 5.0, "checkpoint_interval_s": 1.0} | order
        if code is not None:
            data = packed(code)
            given |= {"code_key": job_key(JOB, "code.tar.gz"), "code_sha256": sha256(data).hexdigest()}
            self.store.put(job_key(JOB, "code.tar.gz"), data)
            given |= order
        self.store.put(job_key(JOB, "spec.json"), JobOrder(job=JOB, name="digits", run=run, **given).to_json())
        boot = BootOrder(MACHINE, [[JOB, self.attempt]], self.guard_s, "", "", self.tail_s)
        self.store.put(machine_key(MACHINE, "boot.json"), boot.to_json())
        self.disk.mkdir(exist_ok=True)
        address = f"http://127.0.0.1:{self.server.server_address[1]}"
        self.agent = subprocess.Popen(
            [*self.launcher, "--store", self.store.url, "--machine", MACHINE, "--folder", str(self.disk),
             "--metadata", address, "--pace", str(self.pace)],
            env=os.environ | {"OMP_NUM_THREADS": "1"} | self.environment, start_new_session=True, cwd=self.base,
        )  # fmt: skip

    def start(self, run: str, *, restore: str = "", restore_step: int = -1, **order: Any) -> None:
        """Boot and give the start word at once."""
        self.say(
            "start", restore=restore, restore_step=restore_step, previous_attempts=self.attempt, hourly_micro=350_000
        )
        self.boot(run, **order)

    def say(self, do: str, **values: Any) -> None:
        self.words += 1
        self.store.put(attempt_key(JOB, self.attempt, "command.json"), Command(self.words, do, **values).to_json())

    def lease(self, seq: int, length_s: float, *, final: bool = False) -> None:
        lease = Lease(MACHINE, seq, self.beat().seq, length_s, final)
        self.store.put(machine_key(MACHINE, "lease.json"), lease.to_json())

    def interrupt(self, in_s: float) -> None:
        at = (CLOCK.now() + timedelta(seconds=in_s)).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        self.notice = json.dumps({"action": "terminate", "time": at})

    def _metadata(self, path: str) -> str | None:
        told = {"spot/instance-action": self.notice, "events/recommendations/rebalance": self.rebalance}
        return told.get(path.removeprefix("/latest/meta-data/"))

    def beat(self) -> Beat:
        return Beat.from_json(until(lambda: self.read(machine_key(MACHINE, "beat.json"))))

    def status(self) -> AttemptStatus:
        data = self.read(attempt_key(JOB, self.attempt, "status.json"))
        return AttemptStatus.from_json(data) if data else AttemptStatus(JOB, self.attempt, "")

    def read(self, key: str) -> bytes:
        try:
            return self.store.get(key)
        except Missing:
            return b""

    def log(self) -> str:
        keys = [info.key for info in self.store.list(attempt_key(JOB, self.attempt, "log/"))]
        return b"".join(self.store.get(key) for key in keys).decode()

    def manifests(self) -> list[Manifest]:
        keys = [info.key for info in self.store.list(job_key(JOB, "checkpoints/"))]
        return [Manifest.from_json(self.store.get(key)) for key in keys if key.endswith(MANIFEST)]

    def wait_for(self, phase: str, seconds: float = 20.0) -> AttemptStatus:
        """Wait until the attempt is in a phase; fail at once when it has ended in another."""

        def there() -> AttemptStatus | None:
            status = self.status()
            assert status.phase == phase or status.phase not in Phase.TERMINAL, (status, self.log())
            return status if status.phase == phase else None

        found: AttemptStatus = until(there, seconds)
        return found

    def wait_for_file(self, name: str) -> Path:
        path = self.root / "work" / name
        until(path.exists)
        return path

    def end(self, phase: str, seconds: float = 20.0) -> AttemptStatus:
        """Wait for the agent's exit, in order, and check how the attempt ended."""
        assert self.agent is not None
        code = self.agent.wait(seconds)
        status = self.status()
        assert (code, status.phase) == (0, phase), (code, status, self.log())
        assert self.strays() == []
        return status

    def strays(self) -> list[Process]:
        """Return the processes of this machine's jobs, wherever they have gone."""
        mark = f"FRUGALD_FOLDER={self.root}".encode()
        return [process for process in table().values() if process.has(mark)]

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()
        if self.agent and self.agent.poll() is None:
            os.killpg(self.agent.pid, signal.SIGKILL)
            self.agent.wait()
        for process in self.strays():
            os.kill(process.pid, signal.SIGKILL)


def python(lines: str) -> str:
    """Return a job's run line that does `lines` in Python."""
    return f"exec {PYTHON} - <<'END'\n{lines}\nEND"
