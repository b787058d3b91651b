"""Brings complete checkpoints from the job's folder into the store, as soon as they are complete."""

from pathlib import Path

from config.clock import Clock
from runner.agent.found import Found, Seen, everything, look
from runner.agent.pace import Pace
from runner.agent.report import Report
from runner.agent.shelf import Shelf, Staged
from runner.agent.stage import NotWhole, Stage
from runner.agent.whole import SUFFIXES, reads_whole

_HUNGRY = 10  # quiet times
_TIME_TO_TIDY_S = 5.0
_SECOND_NS = 1_000_000_000


class Mirror:
    """Watches one checkpoint folder. `round` and `last_look` belong to one thread at a time."""

    def __init__(self, folder: Path, stage: Stage, shelf: Shelf, report: Report, clock: Clock, pace: Pace) -> None:
        """Take nothing yet."""
        self._folder = folder
        self._stage = stage
        self._shelf = shelf
        self._report = report
        self._clock = clock
        self._pace = pace
        self._left_out: frozenset[Seen] = frozenset()
        self._taken: dict[tuple[Seen, ...], tuple[Seen, ...]] = {}  # files of a checkpoint -> its loose files
        self._refused: tuple[Seen, ...] = ()
        self._watched: dict[str, tuple[tuple[Seen, ...], float, int]] = {}  # files, since when, the job's step then
        self._fed_at = clock.monotonic()
        self._step = -1
        self._inodes: dict[str, Seen] = {}
        self._sent_bytes = 0
        self.newest: tuple[int, int] | None = None  # step, and when its newest file was changed (ns since 1970)

    def leave_out_present(self) -> None:
        """Leave out for good what lies in the folder now and doesn't change: it came with the code."""
        self._left_out = everything(self._folder)

    def begin(self, step: int) -> None:
        """Count what lies in the folder now as known: it came from the store, at `step`."""
        self._taken = {found.files: found.loose for found in self._look()}
        self._step = step
        self._fed_at = self._clock.monotonic()

    @property
    def upload_s(self) -> float:
        """How long the last checkpoint would take to send at the measured rate; 0 while that isn't known."""
        return self._sent_bytes / self._shelf.bytes_per_s if self._shelf.bytes_per_s else 0.0

    @property
    def bytes_per_s(self) -> float:
        """The measured rate to the store; 0 while unknown."""
        return self._shelf.bytes_per_s

    def round(self) -> None:
        """Take the newest checkpoint that is complete, if it isn't in the store yet. Raises StoreError, OSError."""
        now = self._clock.monotonic()
        for found in self._news(now):
            if (self._settled(found, now) or self._hungry(found, now)) and self._take(found, self._quiet(found.beside)):
                self._shelf.tidy()
                return

    def last_look(self, until: float, killed_at: float | None) -> None:
        """Take what the job left, now that none of it runs, if it can be sent before `until`. Raises StoreError, OSError.

        A job that was killed (at `killed_at`) may have been in the middle of a save, one that ended by itself was not.
        """
        for found in self._news(0.0):
            safe = killed_at is None or self._settled(found, killed_at) or _proven(self._folder, found)
            if safe and self._take(found, list(found.beside), until):
                break
        if killed_at is None and until - self._clock.monotonic() > _TIME_TO_TIDY_S:
            self._shelf.tidy()

    def _news(self, now: float) -> list[Found]:
        """Return what is newer than what was taken last, and may be complete."""
        found = self._look()
        names = {one.name for one in found}
        self._watched = {name: what for name, what in self._watched.items() if name in names}
        self._taken = {one.files: self._taken[one.files] for one in found if one.files in self._taken}
        known = next((i for i, one in enumerate(found) if self._is_taken(one)), len(found))
        for one in found[:known]:
            self._watch(one, now)
        return [one for one in found[:known] if not one.unfinished and one.main != self._refused]

    def _look(self) -> list[Found]:
        return [found for found in look(self._folder, self._left_out) if found.files]

    def _is_taken(self, found: Found) -> bool:
        # Loose files go with the newest checkpoint only: that an older one has none now is no news.
        return found.files in self._taken and found.loose in {(), self._taken[found.files]}

    def _watch(self, found: Found, now: float) -> None:
        files, _, _ = self._watched.get(found.name, ((), 0.0, -1))
        if files != found.main:
            self._watched[found.name] = (found.main, max(self._made_at(found), now), self._report.status().step)

    def _settled(self, found: Found, at: float) -> bool:
        """Say whether nobody was writing to it any more at a moment."""
        _, since, _ = self._watched[found.name]
        return at - since >= found.quiets * self._pace.quiet_s

    def _hungry(self, found: Found, now: float) -> bool:
        """Say whether to take even what is rewritten all the time: nothing was taken for long, and it reads whole."""
        return now - self._fed_at >= _HUNGRY * self._pace.quiet_s and _proven(self._folder, found)

    def _take(self, found: Found, beside: list[Seen], until: float | None = None) -> bool:
        """Send one checkpoint and say so; False when it turns out not to be one. Raises StoreError, OSError."""
        self._fed_at = self._clock.monotonic()  # whatever comes of it: the next try in haste is as far away
        try:
            files = self._stage.take(found, beside)
            if not self._in_time(files, until):
                return True  # an older one isn't smaller
            return self._put(found, files)
        except (NotWhole, FileNotFoundError):
            self._refused = found.main  # until it changes
            return False
        finally:
            self._stage.clear()

    def _put(self, found: Found, files: list[Staged]) -> bool:
        step, made_at = self._step_of(found), self._made_at(found)
        sent_bytes = self._shelf.bytes_to_send(files)
        prefix = self._shelf.put(step, files, self._report.job_ran_s(), self._stage.unchanged)
        if prefix is None:
            return False
        self._sent_bytes = sent_bytes
        self._step, self.newest = step, (step, found.changed_ns)
        self._taken[found.files] = found.loose
        self._report.checkpoint(prefix, step, made_at, self._clock.monotonic() - made_at)
        self._warn_of_overwriting(found)
        return True

    def _in_time(self, files: list[Staged], until: float | None) -> bool:
        rate, size = self._shelf.bytes_per_s, self._shelf.bytes_to_send(files)
        if until is None or not rate:
            return True
        needed_s, left_s = size / rate, until - self._clock.monotonic()
        if needed_s > left_s:
            self._report.warn("agent.upload_too_slow", size_bytes=size, needed_s=needed_s, left_s=max(0.0, left_s))
        return needed_s <= left_s

    def _step_of(self, found: Found) -> int:
        _, _, reported = self._watched[found.name]
        if found.step is not None:
            return found.step
        return reported if reported >= 0 else self._step + 1

    def _made_at(self, found: Found) -> float:
        """Return the monotonic second at which its newest file was changed."""
        age_s = self._clock.now().timestamp() - found.changed_ns / _SECOND_NS
        return self._clock.monotonic() - max(0.0, age_s)

    def _quiet(self, files: tuple[Seen, ...]) -> list[Seen]:
        limit = (self._clock.now().timestamp() - self._pace.quiet_s) * _SECOND_NS
        return [seen for seen in files if seen.changed_ns <= limit]

    def _warn_of_overwriting(self, found: Found) -> None:
        """Tell once that a script writes its only checkpoint anew: a kill in the middle leaves it without one."""
        for seen in found.files if found.in_place else ():
            before = self._inodes.get(seen.path)
            if before and before.inode == seen.inode and before != seen and Path(seen.path).suffix in SUFFIXES:
                self._report.warn("agent.overwrites_in_place", file=seen.path)
            self._inodes[seen.path] = seen


def _proven(folder: Path, found: Found) -> bool:
    """Say whether a checkpoint of a single file proves by itself that it is whole."""
    try:
        return len(found.main) == 1 and reads_whole(folder / found.main[0].path) is True
    except OSError:
        return False
