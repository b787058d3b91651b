"""What is known of one attempt, as the daemon will read it; every thread of the agent adds to it."""

import json
import math
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

from config.clock import Clock
from runner.store.records import AttemptStatus, NoticeRecord, Phase


class Report:
    """The attempt's status. Times are kept as moments and told as seconds up to the telling."""

    def __init__(self, job: str, attempt: int, clock: Clock) -> None:
        """Start in the phase `booting`."""
        self._clock = clock
        self._lock = threading.Lock()
        self._status = AttemptStatus(job, attempt, Phase.BOOTING)
        self._started_at: float | None = None
        self._ended_at: float | None = None
        self._checkpoint_at: float | None = None
        self._ran_before_s = 0.0
        self.notice: NoticeRecord | None = None

    def change(self, **values: Any) -> None:  # noqa: ANN401 - fields of AttemptStatus
        """Set fields of the status."""
        with self._lock:
            self._status = replace(self._status, **values)

    def warn(self, code: str, **values: str | float) -> bool:
        """Add a warning, once for each code; say whether it is new."""
        with self._lock:
            if any(known == code for known, _ in self._status.warnings):
                return False
            self._status = replace(self._status, warnings=[*self._status.warnings, [code, values]])
        return True

    def restored(self, prefix: str, step: int, ran_before_s: float) -> None:
        """The command begins from a checkpoint of the store, for which the job ran `ran_before_s` in all."""
        self._ran_before_s = ran_before_s
        self.change(restored_from=prefix, restored_step=step)

    def started(self) -> None:
        """The job's command runs from now on."""
        self._started_at = self._clock.monotonic()
        self.change(phase=Phase.RUNNING)

    def ended(self) -> None:
        """The job's command runs no more."""
        self._ended_at = self._ended_at or self._clock.monotonic()

    def checkpoint(self, prefix: str, step: int, made_at: float, write_s: float) -> None:
        """A checkpoint that was whole on the disk at `made_at` is complete in the store."""
        self._checkpoint_at = made_at
        self.change(checkpoint=prefix, checkpoint_step=step, write_s=write_s)

    def running_s(self) -> float:
        """Return how long the command has run."""
        if self._started_at is None:
            return 0.0
        return (self._ended_at or self._clock.monotonic()) - self._started_at

    def job_ran_s(self) -> float:
        """Return how long the job has run for what it has now, earlier attempts included."""
        return self._ran_before_s + self.running_s()

    def status(self) -> AttemptStatus:
        """Return the status as of now."""
        with self._lock:
            status = self._status
        age = None if self._checkpoint_at is None else max(0.0, self._clock.monotonic() - self._checkpoint_at)
        return replace(status, running_s=self.running_s(), lost_s=self._lost_s(status.phase), checkpoint_age_s=age)

    def _lost_s(self, phase: str) -> float:
        if self._started_at is None or phase in {Phase.SUCCEEDED, Phase.SAVED}:
            return 0.0
        since = max(self._started_at, self._checkpoint_at or self._started_at)
        return max(0.0, (self._ended_at or self._clock.monotonic()) - since)

    def read_progress(self, path: Path) -> None:
        """Take in what the job says of itself; a file that isn't as the SDK writes it changes nothing."""
        try:
            told = json.loads(path.read_bytes())
            step, total = int(told["step"]), int(told.get("total_steps") or -1)
            metrics = {str(name): float(value) for name, value in (told.get("metrics") or {}).items()}
        except (OSError, ValueError, KeyError, TypeError, AttributeError, OverflowError):
            return
        finite = {name: value for name, value in metrics.items() if math.isfinite(value)}
        self.change(step=step, total_steps=total, metrics=finite)
