"""The demo's own small world: a folder, a settings file, a receiver for its webhooks, and the daemon as a process."""

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

EXAMPLES = next(
    (path for path in (Path(__file__).parents[2] / "examples", Path(__file__).parent / "examples") if path.is_dir()),
    Path(__file__).parent / "examples",
)
SETTINGS = """\
# frugald's demo: everything on this computer, at a pace that fits into two minutes.
state_dir = "{folder}"
tick = "500ms"
charge_every = "2s"
silent_after = "15s"

[inbox]
every = "500ms"
quiet = "500ms"

[lease]               # an hour's lease would never end while you watch: these are a few seconds long
length = "{length}"
longest = "{longest}"
shortest = "{shortest}"
boot = "{boot}"
end = "{end}"

[prices]
every = "5s"

[clouds.sandbox]
seed = 39
boot = "1s"
notice = "8s"
interruptions = false # the demo asks for the one that you will see
sold_out_share = 0.1

[[budgets]]
scope = "all"
period = "month"
cap = "5 USD"
{alerts}"""
ALERT = """
[[alerts]]
name = "{name}"
kind = "webhook"
url = "{url}"
secret = "{secret}"
allow_private = true
"""


@dataclass
class DaemonProcess:
    """`frugald serve` in a process of its own; started again when it dies, as systemd would."""

    config: Path
    command: Sequence[str] = (sys.executable, "-P", "-m", "daemon.cli", "serve")
    process: subprocess.Popen[bytes] | None = None
    deaths: list[int] = field(default_factory=list)

    def start(self, command: Sequence[str] | None = None) -> None:
        """Start the daemon; its log goes to `daemon.log` beside the settings."""
        environment = os.environ | {"FRUGALD_CONFIG": str(self.config)}
        with (self.config.parent / "daemon.log").open("ab") as log:
            self.process = subprocess.Popen(
                command or self.command,
                env=environment,
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )

    def keep_alive(self) -> bool:
        """Start the daemon again if it has died; say whether it had."""
        if self.process is None or self.process.poll() is None:
            return False
        self.deaths.append(self.process.returncode)
        self.start()
        return True

    def stop(self, patience_s: float = 15) -> None:
        """Ask the daemon to end, then make it."""
        if self.process is None:
            return
        for number in (signal.SIGTERM, signal.SIGKILL):
            if self.process.poll() is None:
                self.process.send_signal(number)
            try:
                self.process.wait(patience_s)
            except subprocess.TimeoutExpired:
                continue
            break


PACE = {"length": "14s", "longest": "25s", "shortest": "5s", "boot": "25s", "end": "2s"}


def write_settings(folder: Path, endpoints: Sequence[tuple[str, str, str]], pace: Mapping[str, str] = PACE) -> Path:
    """Write the demo's `frugald.toml`; `endpoints` are (name, url, secret), `pace` its leases. Returns its path."""
    alerts = "".join(ALERT.format(name=name, url=url, secret=secret) for name, url, secret in endpoints)
    path = folder / "frugald.toml"
    path.write_text(SETTINGS.format(folder=folder, alerts=alerts, **pace), encoding="utf-8")
    return path
