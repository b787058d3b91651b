"""Real machines for tests: a stand-in agent in a local store, and proof that nothing is left running."""

import json
import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from hashlib import sha256
from pathlib import Path
from typing import Any

from config.clock import SystemClock
from pricing.offer import Offer
from runner.bootstrap import user_data
from runner.provider import LaunchRequest
from runner.store import open_store

CLOCK = SystemClock()
# What each machine does is in its user data's machine name; everything it says goes to `said.json` on its disk.
AGENT = """
import json, os, signal, subprocess, sys, time
machine, folder = sys.argv[sys.argv.index("--machine") + 1], sys.argv[sys.argv.index("--folder") + 1]
said = {"argv": sys.argv, "environment": dict(os.environ), "cwd": os.getcwd(), "pid": os.getpid()}
if machine.endswith("stubborn"):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    command = "import os, time; os.setsid(); os.fork() and os._exit(0); time.sleep(600)"
    subprocess.run([sys.executable, "-c", command])
if machine.endswith("guarded"):
    open(os.path.join(folder, "guard"), "w").write("600")
with open(os.path.join(folder, "draft"), "w") as file:
    json.dump(said, file)
os.rename(os.path.join(folder, "draft"), os.path.join(folder, "said.json"))
if machine.endswith("finished"):
    sys.exit(0)
if machine.endswith("failed"):
    sys.exit(3)
time.sleep(600)
"""


def until(condition: Callable[[], bool], seconds: float = 20) -> None:
    """Wait for real processes to do something; fail when they don't."""
    end = CLOCK.monotonic() + seconds
    while not condition():
        assert CLOCK.monotonic() < end, f"not within {seconds} s"
        CLOCK.wait(threading.Event(), 0.02)


@dataclass
class Site:
    """A store with the stand-in agent, and where machines live."""

    folder: Path
    offer: Offer

    def __post_init__(self) -> None:
        self._store = open_store(f"file://{self.folder / 'store'}")
        self._key = "agents/stand-in.py"
        self._store.put(self._key, AGENT.encode())

    def request(self, token: str, *, owner: str = "me", digest: str = "", **other: Any) -> LaunchRequest:
        digest = digest or sha256(AGENT.encode()).hexdigest()
        told = user_data(f"file://{self.folder / 'store'}", token, self._key, digest)
        tags = {"frugald:owner": owner, "frugald:machine": token}
        facts = {"offer": self.offer, "bid_micro": None, "disk": 10, "guard": timedelta(minutes=2)} | other
        return LaunchRequest(token=token, user_data=told, tags=tags, **facts)

    def said(self, machine_id: str) -> dict[str, Any]:
        """What the agent on a machine said when it started; waits for it."""
        path = self.folder / "cloud/machines" / machine_id / "disk/said.json"
        until(path.exists)
        return json.loads(path.read_text())

    def left_over(self) -> list[str]:
        """Every process whose command line or environment names this folder."""
        return [where.name for where in Path("/proc").iterdir() if where.name.isdigit() and self._names_us(where)]

    def _names_us(self, where: Path) -> bool:
        try:
            text = (where / "cmdline").read_bytes() + (where / "environ").read_bytes()
        except OSError:
            return False
        return str(self.folder).encode() in text
