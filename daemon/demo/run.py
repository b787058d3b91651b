"""`make demo`: two real training jobs on the sandbox cloud, told live, and what they cost at the end."""

import json
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from types import FrameType
from typing import Any

import click
from sqlalchemy import Engine
from sqlmodel import Session, select

from config.clock import Clock, SystemClock
from config.load import load_settings
from daemon import views
from daemon.cli.event_line import line
from daemon.database import open_reader
from daemon.demo import report
from daemon.demo.receiver import Receiver
from daemon.demo.setting import EXAMPLES, PACE, DaemonProcess, write_settings
from daemon.inbox import submit_file
from daemon.models import Installation
from runner.providers.sandbox import SandboxCloud

SECRETS = {
    "team": "whsec_ZnJ1Z2FsZCBkZW1vIHRlYW0ga2V5LCBub3Qgc2VjcmV0",
    "ledger": "whsec_ZnJ1Z2FsZCBkZW1vIGxlZGdlciBrZXksIG5vdCBzZWNyZXQ=",
}
PATIENCE_S = 400.0
INTERRUPT_AT = 0.4  # of the training's steps
NOTICE = timedelta(seconds=8)
RAISED_TO = "1 USD"
_MOST_DEATHS = 5
_OVER = {"succeeded", "failed", "cancelled"}


class DemoFailed(Exception):
    """The demo did not come to its end; the message says where it stood."""


@dataclass
class Demo:
    """The demo as a small script of what a user would do; what it shows is read from the database."""

    folder: Path
    clock: Clock = field(default_factory=SystemClock)
    say: Callable[[str], None] = click.echo
    examples: Path = EXAMPLES
    jobs: Sequence[str] = ("digits", "sweep")
    pace: Mapping[str, str] = field(default_factory=lambda: PACE)
    held: dict[str, Any] = field(default_factory=dict)  # the second job as it was held
    started: float = 0.0

    def __post_init__(self) -> None:
        """Build the parts; nothing runs yet."""
        self.receiver = Receiver(SECRETS)
        endpoints = [(name, self.receiver.url(name), secret) for name, secret in SECRETS.items()]
        self.config = write_settings(self.folder, endpoints, self.pace)
        self.settings = load_settings(self.config, {})
        self.daemon = DaemonProcess(self.config)
        self.stopping = threading.Event()
        self._shown = 0
        self._interrupted = False
        self._raised = False
        self._reader: Engine | None = None

    def run(self) -> dict[str, Any]:
        """Run it all and return the numbers. Raises DemoFailed."""
        self.started = self.clock.monotonic()
        self.receiver.start()
        self.say(f"Working in {self.folder}: the settings are in frugald.toml, the drop folder is drop/")
        self.daemon.start()
        self._wait("the daemon to start", lambda: self._shown > 0)
        for name in self.jobs:
            submit_file(self.settings.under_state(self.settings.inbox.folder), self.examples / name)
            self.say(f"          dropped examples/{name} into the drop folder")
        self._wait("both jobs to end", self._jobs_ended)
        self._wait("every machine to be gone", lambda: not self._ask(lambda s: views.machines(s)))
        self._wait("every alert to be delivered", lambda: self._ask(views.alerts)["waiting"] == 0, seconds=20)
        leaked = self._leaked()
        return dict(self._ask(lambda session: report.numbers(session, self.receiver, leaked, self.seconds)))

    @property
    def seconds(self) -> float:
        """Return how long the demo has run."""
        return self.clock.monotonic() - self.started

    def close(self) -> None:
        """End everything that was started, whatever state it is in."""
        self.daemon.stop()
        self._cloud().destroy_all()
        self.receiver.close()
        if self._reader:
            self._reader.dispose()

    # ------------------------------------------------------------------ what a user would do

    def _jobs_ended(self) -> bool:
        found = {job["name"]: job for job in self._ask(views.jobs)}
        for job in found.values():
            self._interrupt(job)
            self._raise_cap(job)
        return len(found) == len(self.jobs) and all(job["state"] in _OVER for job in found.values())

    def _interrupt(self, job: dict[str, Any]) -> None:
        """Let the sandbox take the machine of the first job away, once its training is under way."""
        far = job["total_steps"] > 0 and job["step"] >= INTERRUPT_AT * job["total_steps"]
        if self._interrupted or job["name"] != self.jobs[0] or job["state"] != "running" or not far:
            return
        machine = next(
            (m for m in self._ask(lambda s: views.machines(s)) if m["job"] == job["id"] and m["state"] == "running"),
            None,
        )
        if machine:
            self._interrupted = True
            self.say(
                f"          the sandbox takes {machine['gpu']} in {machine['zone']} back, {NOTICE.seconds} s from now"
            )
            self._cloud().interrupt(machine["provider_id"], NOTICE)

    def _raise_cap(self, job: dict[str, Any]) -> None:
        """Raise the second job's cap as its owner would, once it is held and its machine has ended."""
        over = job["state"] == "held" and not any(m["job"] == job["id"] for m in self._ask(lambda s: views.machines(s)))
        if self._raised or not over:
            return
        self._raised, self.held = True, job
        words = ["budget", "set", f"job:{job['id']}/total", RAISED_TO]
        self.say(f"          $ frugald {' '.join(words[:-1])} '{RAISED_TO}'")
        done = subprocess.run(
            [sys.executable, "-P", "-m", "daemon.cli", "--config", str(self.config), *words],
            check=False,
            capture_output=True,
            text=True,
        )
        self.say(f"          {(done.stdout or done.stderr).strip()}")
        if done.returncode:
            self._raised = False  # the daemon may just be starting again

    # ------------------------------------------------------------------ looking

    def _wait(self, what: str, done: Callable[[], Any], seconds: float = PATIENCE_S) -> None:
        began = self.clock.monotonic()
        while True:
            if self.daemon.keep_alive():
                self.say(f"          the daemon died (exit code {self.daemon.deaths[-1]}) and is started again")
                if len(self.daemon.deaths) > _MOST_DEATHS:
                    raise DemoFailed(f"the daemon does not stay alive; see {self.folder}/daemon.log")
            self._show_events()
            if done():
                return
            if self.stopping.is_set():
                raise KeyboardInterrupt
            if self.clock.monotonic() - began > seconds:
                raise DemoFailed(f"waited {seconds:.0f} s for {what}; see {self.folder}/daemon.log")
            self.clock.wait(self.stopping, 0.3)

    def _show_events(self) -> None:
        if not self._database():
            return
        for event in self._events():
            self._shown = max(self._shown, event["id"])
            if event["code"] != "budget.set":
                self.say(line(event, colour=sys.stdout.isatty()))

    def _events(self) -> list[dict[str, Any]]:
        return list(self._ask(lambda session: views.events(session, after=self._shown)))

    def _database(self) -> bool:
        """Say whether the daemon has made its database, and open it."""
        path = self.settings.under_state_dir("frugald.db")
        if self._reader is None and path.exists():
            reader = open_reader(path)
            with reader.connect() as connection:
                if not connection.exec_driver_sql("SELECT 1 FROM sqlite_master WHERE name = 'installation'").first():
                    reader.dispose()
                    return False
            self._reader = reader
        return self._reader is not None

    def _ask(self, question: Callable[[Session], Any]) -> Any:  # noqa: ANN401 - whatever the question returns
        if self._reader is None:
            raise DemoFailed("the database is not there yet")
        with Session(self._reader) as session:
            return question(session)

    def _cloud(self) -> SandboxCloud:
        owner = self._ask(lambda s: s.exec(select(Installation.install_id)).one()) if self._database() else ""
        return SandboxCloud(self.settings.under_state_dir("sandbox"), self.settings.clouds.sandbox, owner, self.clock)

    def _leaked(self) -> int:
        """Count the machines that the cloud still has, asked of the cloud itself."""
        return sum(machine.ended_at is None for machine in self._cloud().machines())


def main(folder: Path | None = None, *, keep: bool = False) -> int:
    """Run the demo; returns the exit code. Ctrl-C ends it, and everything that it has started."""
    place = (folder or Path(tempfile.mkdtemp(prefix="frugald-demo-"))).absolute()
    place.mkdir(parents=True, exist_ok=True)
    demo = Demo(place)

    def on_signal(_number: int, _frame: FrameType | None) -> None:
        demo.stopping.set()

    previous = {number: signal.signal(number, on_signal) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        found = demo.run()
        click.echo(report.table_of(found))
        click.echo(json.dumps({"demo": found["demo"]}))
        code = 0 if report.is_right(found) else 1
    except KeyboardInterrupt:
        click.echo("interrupted: ending everything that runs", err=True)
        code = 130
    except DemoFailed as error:
        click.echo(f"the demo failed: {error}", err=True)
        code, keep = 1, True
    finally:
        demo.close()
        for number, handler in previous.items():
            signal.signal(number, handler)
    if not keep and folder is None:
        shutil.rmtree(place, ignore_errors=True)
    return code
