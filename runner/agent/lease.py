"""How long this machine may go on: a length, counted from a beat that this machine wrote itself."""

import math
from pathlib import Path

from runner.store.records import Lease

_REMEMBERED = 4_096  # beats; more than an hour of them


class Term:
    """The end of the machine's lease, in monotonic seconds. It only moves away, unless the lease is final."""

    def __init__(self, machine: str, guard_s: float, booted_at: float) -> None:
        """Start with the first lease: `guard_s`, counted from boot."""
        self._machine = machine
        self._beats: dict[int, float] = {}
        self._from = booted_at
        self.ends_at = booted_at + guard_s
        self.seq = 0  # the newest lease taken in
        self.final = False

    def wrote(self, beat: int, at: float) -> None:
        """Remember when a beat was written: before the store had it, so that the daemon read it later."""
        self._beats[beat] = at
        self._beats.pop(beat - _REMEMBERED, None)

    def take(self, lease: Lease) -> bool:
        """Take a lease in and say so; an older one, or one that answers no beat of this machine, changes nothing."""
        counted_from = self._beats.get(lease.beat_seq)
        if lease.machine != self._machine or lease.seq <= self.seq or counted_from is None or not _length(lease):
            return False
        self.seq = lease.seq
        end = counted_from + lease.length_s
        if lease.final or end > self.ends_at:
            self._from, self.ends_at, self.final = counted_from, end, lease.final
        return True

    def save_at(self, tail_s: float, upload_s: float) -> float:
        """Return when the save must start, `tail_s` for the job and `upload_s` for the store, at most half a lease.

        A final lease isn't renewed, so it leaves the time twice: nothing is won by going on to the last second.
        """
        tail = (tail_s + upload_s) * (2 if self.final else 1)
        return self.ends_at - min(tail, max(0.0, self.ends_at - self._from) / 2)


def _length(lease: Lease) -> bool:
    """Say whether the length is a number that can be counted: the store's bytes come from elsewhere."""
    return isinstance(lease.length_s, int | float) and math.isfinite(lease.length_s) and lease.length_s >= 0


def write_guard(path: Path, seconds: float) -> None:
    """Move the guest's timer to `seconds` from now. Raises OSError."""
    part = path.with_name(f".{path.name}.part")
    part.write_text(f"{max(0.0, seconds):.3f}\n")
    part.replace(path)
