"""A drop folder on the real disk, with a daemon's two steps and a store in memory."""

import random
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from config.settings import InboxSettings
from daemon.inbox import Claimed, Inbox, Refused
from daemon.jobfile import Currency
from daemon.world import Ids
from runner.store import MemoryStore
from tests.fakes.clock import FakeClock

JOB = "run: python train.py\n"
LATER = datetime(2100, 1, 1, tzinfo=UTC)  # later than any file's time: everything has kept still by then


class Site:
    """Files in, jobs out. `restart` is a new daemon on the same folder."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        self.folder = folder / "drop"
        self.store = MemoryStore()
        self.settings = InboxSettings(**settings)
        self.rng = random.Random(3)
        self.currency = Currency()
        self.restart()

    def restart(self) -> None:
        self.inbox = Inbox(self.folder, self.store, self.settings, FakeClock(), Ids(self.rng), self.currency)

    def put(self, name: str, data: str | bytes = JOB) -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data.encode() if isinstance(data, str) else data)
        return path

    def scan(self, now: datetime = LATER) -> list[Claimed | Refused]:
        return self.inbox.scan(now)

    def take(self, *, accept: bool = True) -> list[Claimed]:
        """Scan, and accept each drop as the jobs j0, j1, ...; nothing may be refused."""
        found = self.scan()
        claimed = [one for one in found if isinstance(one, Claimed)]
        assert claimed == found
        for number, one in enumerate(claimed if accept else ()):
            self.inbox.accept(one, [f"j{number}"])
        return claimed

    def refusal(self) -> str:
        """Scan, and return why the only drop was refused."""
        [refused] = self.scan()
        assert isinstance(refused, Refused)
        return refused.text

    def names(self, folder: str = "") -> list[str]:
        return sorted(path.name for path in (self.folder / folder).iterdir() if not path.name.startswith("."))

    def seen_twice(self, first: datetime, apart: timedelta) -> list[Claimed | Refused]:
        return [*self.scan(first), *self.scan(first + apart)]
