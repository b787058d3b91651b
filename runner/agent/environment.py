"""What the job's processes find in their environment."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

from config.units import MICRO
from runner.agent.program import MARK
from runner.store.records import Command, JobOrder

STORE_OPTIONS = "FRUGALD_STORE_OPTIONS"  # holds credentials: the agent's own, never the job's
_TORCHRUN_SIGNALS = ("SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT")


@dataclass(frozen=True)
class Places:
    """Where the parts of one attempt lie on this machine."""

    root: Path
    checkpoints: Path

    @classmethod
    def under(cls, folder: Path, order: JobOrder, attempt: int) -> "Places":
        """Lay out an attempt; a job that names no checkpoint folder gets one that only the SDK knows of."""
        root = folder / "attempts" / f"{order.job}-{attempt}"
        return cls(root, (root / "work" / order.checkpoint_path) if order.checkpoint_path else root / "checkpoints")

    @property
    def work(self) -> Path:
        """The job's code, and where its command runs."""
        return self.root / "work"

    @property
    def outputs(self) -> Path:
        """What the job writes here is mirrored, whatever its file says."""
        return self.root / "outputs"

    @property
    def staging(self) -> Path:
        """The agent's private copies of checkpoints on their way to the store."""
        return self.root / "staging"

    @property
    def notice(self) -> Path:
        """Appears when the machine will end."""
        return self.root / "notice.json"

    @property
    def progress(self) -> Path:
        """The job's word on how far it is."""
        return self.root / "progress.json"


def environment(
    given: Mapping[str, str], order: JobOrder, attempt: int, places: Places, sdk: Path, command: Command | None = None
) -> dict[str, str]:
    """Return the environment of a job's setup, or of its run once the start `command` is there.

    Nothing looks like Slurm: Lightning and others would call `scontrol`.
    """
    inherited = {
        name: value for name, value in given.items() if name != STORE_OPTIONS and not name.startswith("SLURM_")
    }
    merged = inherited | _torch(order) | order.envs
    path = [str(sdk), *filter(None, [merged.get("PYTHONPATH", "")])]
    return merged | {"PYTHONPATH": os.pathsep.join(path)} | _own(order, attempt, places) | _money(command)


def _torch(order: JobOrder) -> dict[str, str]:
    """Have torchrun pass our signal on and wait for the save: by itself it kills after 30 s, and dies of SIGUSR1."""
    signals = dict.fromkeys([*_TORCHRUN_SIGNALS, order.checkpoint_signal])
    return {
        "TORCH_ELASTIC_SHUTDOWN_TIMEOUT": str(max(1, int(order.checkpoint_grace_s))),
        "PET_SIGNALS_TO_HANDLE": ",".join(signals),
        "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1",
        "PYTHONUNBUFFERED": "1",
    }


def _own(order: JobOrder, attempt: int, places: Places) -> dict[str, str]:
    return {
        "FRUGALD_JOB_ID": order.job,
        "FRUGALD_JOB_NAME": order.name,
        "FRUGALD_ATTEMPT": str(attempt),
        "FRUGALD_CHECKPOINT_DIR": str(places.checkpoints),
        "FRUGALD_CHECKPOINT_INTERVAL": f"{order.checkpoint_interval_s:g}",
        "FRUGALD_CHECKPOINT_SIGNAL": order.checkpoint_signal,
        "FRUGALD_NOTICE_FILE": str(places.notice),
        "FRUGALD_PROGRESS_FILE": str(places.progress),
        "FRUGALD_OUTPUT_DIR": str(places.outputs),
        "FRUGALD_GPUS": f"{order.gpus:g}",
        MARK: str(places.root),
    }


def _money(command: Command | None) -> dict[str, str]:
    if command is None:
        return {}
    price = Decimal(command.hourly_micro) / MICRO
    return {"FRUGALD_HOURLY_PRICE": f"{price:.6f}", "FRUGALD_DEADLINE": command.deadline}
