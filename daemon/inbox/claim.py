"""Take what was dropped: claim it by renaming, read it, pack its code, and say where it went.

A drop is claimed by a rename inside the folder, the only step that can't happen by half. What is claimed and not settled
when the daemon dies is found in `.claimed/` and judged again under the same claim.
"""

import errno
import os
import pwd
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from pathlib import Path
from typing import Protocol

from config.clock import Clock
from config.files import fit, sync_folder, write_atomically
from config.reason import Reason
from config.settings import InboxSettings
from daemon.inbox.code import Dropped, read_drop
from daemon.inbox.ready import Ready
from daemon.inbox.safe_read import NotTaken
from daemon.jobfile import Currency, JobFileError, JobSpec
from daemon.jobfile.text import printable
from runner.store import Store, StoreError

MOST_AT_ONCE = 500
CLAIMED, ACCEPTED, REJECTED, DONE = ".claimed", "accepted", "rejected", "done"
_SEPARATOR = "-"
_TRY_AGAIN = {
    errno.ENOSPC,
    errno.EDQUOT,
    errno.EMFILE,
    errno.ENFILE,
    errno.ENOMEM,
    errno.EIO,
    errno.ESTALE,
    errno.EROFS,
}


class _Ids(Protocol):
    def new(self, prefix: str, letters: int = 8) -> str: ...


@dataclass(frozen=True, slots=True)
class Claimed:
    """A drop that holds one job or, by a matrix, several."""

    claim: str  # the same for the same drop, also after a crash
    path: Path  # where it lies now: `.claimed/<claim>-<name>`
    source: str  # the name it was dropped under, safe to show
    specs: tuple[JobSpec, ...]
    content_key: str  # the same file with the same code from the same user has the same key
    user: str
    code_key: str = ""
    code_sha256: str = ""


@dataclass(frozen=True, slots=True)
class Refused:
    """A drop that can't be taken; it lies in `rejected/` with this text beside it."""

    claim: str
    source: str
    text: str


class Inbox:
    """The drop folder. Only `scan` looks at what users write."""

    def __init__(
        self,
        folder: Path,
        store: Store,
        settings: InboxSettings,
        clock: Clock,  # noqa: ARG002 - every loop's room is handed one
        ids: _Ids,
        currency: Currency | None = None,
    ) -> None:
        """Make the folders. Raises OSError, also when one of them is a link to somewhere else."""
        self.folder = folder
        self._store = store
        self._settings = settings
        self._ids = ids
        self._currency = currency
        self._ready = Ready(folder, settings.quiet, frozenset({ACCEPTED, REJECTED, DONE}))
        folder.mkdir(parents=True, exist_ok=True)
        for name in (CLAIMED, ACCEPTED, REJECTED, DONE):
            (folder / name).mkdir(mode=0o700 if name == CLAIMED else 0o755, exist_ok=True)
            if (folder / name).is_symlink():
                raise NotADirectoryError(f"{folder / name} is a link: remove it, frugald makes a folder there")
        for scratch in (folder / CLAIMED).glob(".*"):
            shutil.rmtree(scratch, ignore_errors=True)  # the daemon died over it

    def scan(self, now: datetime) -> list[Claimed | Refused]:
        """Claim and judge what is ready: what a crash left first, then the oldest, a few hundred at once.

        What can't be judged now, since the store or the disk gives no room, stays claimed for the next scan. Raises
        StoreError or OSError when that is all there is.
        """
        judged: list[Claimed | Refused] = []
        failures: list[StoreError | OSError] = []
        for claim in self._claims(now, judged):
            try:
                judged.append(self._judge(claim))
            except (StoreError, OSError) as error:
                failures.append(error)
        if failures and not judged:
            raise failures[0]
        if judged:
            sync_folder(self.folder / CLAIMED)  # a claim lasts before its jobs do, or a power cut would make them twice
        return judged

    def accept(self, claimed: Claimed, job_ids: Sequence[str]) -> None:
        """Move a drop whose jobs are committed to `accepted/`; once done, doing it again changes nothing. Raises OSError."""
        self._settle(claimed.path, ACCEPTED, f"{job_ids[0]}-" if job_ids else "")

    def refuse(self, claimed: Claimed, reason: Reason) -> Refused:
        """Reject a drop that turned out to be unusable after it was read. Raises OSError."""
        return self._refuse(claimed.path, [str(reason)])

    # ------------------------------------------------------------------ claiming

    def _claims(self, now: datetime, refused: list[Claimed | Refused]) -> Iterator[Path]:
        """Yield what is to be judged, new claims last; what can't be claimed is put into `refused`."""
        left = sorted(path for path in (self.folder / CLAIMED).iterdir() if not path.name.startswith("."))
        yield from left[:MOST_AT_ONCE]
        for name in self._ready.names(now, max(0, MOST_AT_ONCE - len(left))):
            source = self.folder / os.fsdecode(name)
            claim = self.folder / CLAIMED / fit(f"{self._ids.new('c')}{_SEPARATOR}", source.name)
            try:
                source.rename(claim)
            except FileNotFoundError:
                continue  # its owner has taken it back
            except OSError as error:
                refused.append(self._leave(name, claim, error.strerror or str(error)))
            else:
                yield claim

    def _leave(self, name: bytes, claim: Path, why: str) -> Refused:
        """Say once, among the rejected files, why something that can't be moved is not taken."""
        self._ready.pass_over(name)
        claim_id, shown = _parts(claim)
        text = f"{printable(shown)}: {Reason('drop.not_movable', {'why': why})}"
        self._write_error(self.folder / REJECTED / shown, text)
        return Refused(claim_id, printable(shown), text)

    # ------------------------------------------------------------------ judging

    def _judge(self, claim: Path) -> Claimed | Refused:
        claim_id, name = _parts(claim)
        scratch = claim.with_name(f".{claim_id}")
        try:
            dropped = read_drop(claim, name, self.folder, scratch, self._settings, self._currency)
            return self._claimed(claim, dropped)
        except StoreError:
            raise
        except Exception as error:  # noqa: BLE001 - whatever a file brings about, the next one gets its turn
            return self._refuse(claim, _why(error))
        finally:
            shutil.rmtree(scratch, ignore_errors=True)

    def _claimed(self, claim: Path, dropped: Dropped) -> Claimed:
        code_key = f"code/{dropped.code_sha256}.tar.gz" if dropped.code_sha256 else ""
        if dropped.code is not None and self._store.head(code_key) is None:
            self._store.put_file(code_key, dropped.code)
        digest = sha256(dropped.data)
        digest.update(f"\0{dropped.code_sha256}\0{dropped.uid}".encode())
        claim_id, name = _parts(claim)
        return Claimed(
            claim=claim_id,
            path=claim,
            source=printable(name),
            specs=tuple(dropped.specs),
            content_key=digest.hexdigest(),
            user=_user(dropped.uid),
            code_key=code_key,
            code_sha256=dropped.code_sha256,
        )

    # ------------------------------------------------------------------ settling

    def _refuse(self, claim: Path, lines: list[str]) -> Refused:
        claim_id, name = _parts(claim)
        text = "\n".join(f"{printable(name)}: {line}" for line in lines)
        self._settle(claim, REJECTED, "", text)
        return Refused(claim_id, printable(name), text)

    def _settle(self, claim: Path, folder: str, before: str, error: str = "") -> None:
        if not os.path.lexists(claim):
            return
        claim_id, name = _parts(claim)
        target = self.folder / folder / fit(before, name)
        if os.path.lexists(target) or (error and os.path.lexists(_error_file(target))):
            target = self.folder / folder / fit(f"{before}{claim_id}-", name)  # nobody's file is replaced
        if error:
            self._write_error(target, error)
        claim.rename(target)

    @staticmethod
    def _write_error(target: Path, text: str) -> None:
        help_line = Reason("drop.next_step")
        write_atomically(_error_file(target), f"{text}\n\n{help_line}\n".encode("utf-8", "backslashreplace"))


def _error_file(target: Path) -> Path:
    return target.with_name(fit("", target.name, ".error.txt"))


def _parts(claim: Path) -> tuple[str, str]:
    """Return a claim and the name that it was dropped under."""
    claim_id, _, name = claim.name.partition(_SEPARATOR)
    return claim_id, name


def _why(error: Exception) -> list[str]:
    """Return what to tell about a drop that can't be taken. Raises the error when it is no fault of the drop."""
    if isinstance(error, JobFileError):
        return [str(problem) for problem in error.problems]
    if isinstance(error, NotTaken):
        return [printable(str(error.reason))]
    if not isinstance(error, OSError):
        return [printable(str(Reason("drop.unexpected", {"why": f"{type(error).__name__}: {error}"})))]
    if error.errno in _TRY_AGAIN:
        raise error
    return [printable(str(Reason("drop.unreadable", {"why": error.strerror or str(error)})))]


def _user(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)
