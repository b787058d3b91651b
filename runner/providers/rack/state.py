"""What is known of one hosted machine: `machine.json` in its folder, always whole, with one writer at a time."""

import json
import os
import shutil
import tempfile
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any, Self

FILE = "machine.json"
SCRATCH = "frugald-"  # begins the name of a machine's folder for temporary files, below the computer's own
DISK = "disk"  # the machine's own folder below its state: what the agent gets, deleted when the machine ends
GUARD = "guard"  # in `disk`: the agent writes how many more seconds the machine may live
TERMINATE = "terminate"  # beside the state: asks the host to end the machine
INTERRUPT = "interrupt.json"  # beside the state: asks the host for an interruption, {"notice_s": seconds}


@dataclass(frozen=True)
class MachineState:
    """One machine. The provider writes it once; from then on its host does, until the host is gone."""

    id: str
    token: str
    fingerprint: str  # of everything else in the launch request: the same token must come with the same request
    launched_at: str  # ISO time; also the start of the bill
    tags: dict[str, str]
    user_data: str
    guard_s: float
    place: dict[str, Any] = field(default_factory=dict)  # what its cloud has to know again: the pool, the GPU
    environment: dict[str, str] = field(default_factory=dict)  # on top of what every machine has
    boot_s: float = 0.0
    lives_s: float | None = None  # the market takes the machine after this long; None leaves it alone
    notice_s: float = 0.0  # how long before that the metadata server says so; 0 is no notice
    lives_why: str = "interrupted"
    condition: str = "pending"  # a runner.provider.Condition
    host: str = ""  # the host process, as `processes.identity` names it
    metadata: str = ""  # where the metadata server listens
    notice_at: str | None = None  # ISO time of the end that was announced
    ended_at: str | None = None
    why_ended: str = ""

    @property
    def gone(self) -> bool:
        """Say whether the machine has ended and nothing of it runs."""
        return self.condition == "gone"

    def changed(self, **values: Any) -> Self:  # noqa: ANN401 - fields of this class
        """Return the state with some fields changed."""
        return replace(self, **values)

    def ended(self, at: datetime, why: str) -> Self:
        """Return the state of the machine once it has ended."""
        return replace(self, condition="gone", ended_at=at.isoformat(), why_ended=why)

    def write(self, folder: Path) -> None:
        """Replace the state in `folder`, on the disk when this returns."""
        draft = folder / f".{FILE}"
        with draft.open("w") as file:
            json.dump(asdict(self), file)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(folder / FILE)

    @classmethod
    def read(cls, folder: Path) -> Self:
        """Read the state from `folder`. Raises OSError, ValueError, TypeError."""
        return cls(**json.loads((folder / FILE).read_bytes()))


def scratch(folder: Path) -> Path:
    """Return a machine's folder for temporary files: short, since a Unix socket's path takes 107 bytes and programs put
    theirs there (torch's data loaders among them).
    """
    return Path(tempfile.gettempdir()) / f"{SCRATCH}{folder.name}"


def clear(folder: Path) -> None:
    """Delete what a machine had on its disk."""
    for path in (folder / DISK, scratch(folder)):
        shutil.rmtree(path, ignore_errors=True)
