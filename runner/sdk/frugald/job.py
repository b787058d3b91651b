"""What a job and its machine tell each other: notices in, progress out."""

import json
import math
import os
from dataclasses import dataclass
from pathlib import Path
from typing import SupportsFloat

from frugald.files import write_whole


@dataclass(frozen=True)
class Notice:
    """The machine will end, or is likely to."""

    why: str  # interruption | rebalance | lease | command
    in_s: float  # counted from when the notice was written
    at: str = ""  # ISO time by the machine's clock

    @property
    def ends(self) -> bool:
        """Say whether the machine surely ends; a `rebalance` only says that it may."""
        return self.why != "rebalance"


def notice() -> Notice | None:
    """Return the notice that this machine will end, None while there is none; from $FRUGALD_NOTICE_FILE."""
    path = os.environ.get("FRUGALD_NOTICE_FILE")
    if not path:
        return None
    try:
        told = json.loads(Path(path).read_bytes())
        return Notice(str(told["why"]), float(told["in_s"]), str(told.get("at", "")))
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def progress(step: int, total: int | None = None, **metrics: SupportsFloat) -> None:
    """Tell how far the job is, as {"step", "total_steps", "metrics"} in $FRUGALD_PROGRESS_FILE; nothing without it.

    Metrics that are not finite are left out: JSON has no word for them. Raises OSError when the file can't be written.
    """
    path = os.environ.get("FRUGALD_PROGRESS_FILE")
    if not path:
        return
    values = {name: float(value) for name, value in metrics.items()}
    told = {
        "step": step,
        "total_steps": -1 if total is None else total,
        "metrics": {name: value for name, value in values.items() if math.isfinite(value)},
    }
    write_whole(Path(path), lambda file: file.write(json.dumps(told).encode()), durable=False)
