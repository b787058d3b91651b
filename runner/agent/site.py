"""What every attempt on a machine shares."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from config.clock import Clock
from runner.agent.horizon import Horizon
from runner.agent.pace import Pace
from runner.store import Store


@dataclass(frozen=True)
class Site:
    """The machine, as an attempt sees it."""

    store: Store
    clock: Clock
    pace: Pace
    horizon: Horizon
    folder: Path  # the machine's own disk
    sdk: Path  # goes on the PYTHONPATH of jobs
    environment: Mapping[str, str]

    def last_upload_at(self) -> float:
        """Return until when something may be sent: after it come the last words."""
        return self.horizon.ends_at() - self.pace.closing_s / 2
