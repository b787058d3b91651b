"""Put a job's results where its owner looks: `done/<name>-<id>/` with a status, the log, and the outputs."""

import json
import os
import pwd
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from config.files import draft_of, write_atomically
from daemon.inbox.claim import DONE
from runner.store import Missing, ObjectInfo, Store

_LONGEST_NAME = 60


@dataclass(frozen=True, slots=True)
class Mirrored:
    """What was new: outputs and pieces of the log that were copied, and outputs that can't be written here."""

    outputs: int = 0
    log_chunks: int = 0
    failed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Log:
    """How much of a log is in its file: so many pieces, the last of which is this."""

    chunks: int
    last: tuple[str, int]


class Delivery:
    """Copies what is new from the store; what is there already is not read again.

    The folders stay the daemon's own, so that nobody can put a link where it writes; their job's owner may read them.
    """

    def __init__(self, folder: Path, store: Store) -> None:
        self._folder = folder / DONE
        self._store = store
        self._logs: dict[str, _Log] = {}
        self._status: dict[str, str] = {}

    def status(self, job: dict[str, Any]) -> None:
        """Write `status.json` if it has changed; `job` has at least `id` and `name`. Raises OSError."""
        text = json.dumps(job, indent=2, sort_keys=True, ensure_ascii=False) + "\n"
        if self._status.get(job["id"]) != text:
            folder = self.folder(job["id"], job["name"])
            _show_to(folder, job.get("user", ""))
            write_atomically(folder / "status.json", text.encode("utf-8", "backslashreplace"))
            self._status[job["id"]] = text

    def mirror(self, job_id: str, name: str) -> Mirrored:
        """Copy new outputs and log lines of a job. Raises StoreError, OSError when the log can't be written."""
        folder = self.folder(job_id, name)
        outputs, failed = self._mirror_outputs(folder / "outputs", f"jobs/{job_id}/outputs/")
        return Mirrored(outputs, self._mirror_log(job_id, folder / "log.txt"), tuple(failed))

    def forget(self, job_id: str) -> None:
        """Let go of what is remembered of a job that has ended."""
        self._logs.pop(job_id, None)
        self._status.pop(job_id, None)

    def folder(self, job_id: str, name: str) -> Path:
        """Return the folder of a job, made if there is none. Raises OSError."""
        safe = "".join(c if c.isalnum() or c in "-_." else "-" for c in name).lstrip(".")[:_LONGEST_NAME]
        folder = self._folder / f"{safe}-{job_id}"
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    # ------------------------------------------------------------------ outputs

    def _mirror_outputs(self, folder: Path, prefix: str) -> tuple[int, list[str]]:
        count, failed = 0, []
        for info in self._store.list(prefix):
            path = info.key.removeprefix(prefix)
            target = folder / path
            try:
                if not _is_inside(path):
                    failed.append(path)
                elif not _is_there(target, info):
                    self._copy(info, target)
                    count += 1
            except Missing:
                continue  # replaced by the job just now
            except OSError:
                failed.append(path)  # its name is too long here, or a file's name is a folder's, too
        return count, failed

    def _copy(self, info: ObjectInfo, target: Path) -> None:
        target.parent.mkdir(parents=True, exist_ok=True)
        self._store.get_file(info.key, target)
        target.chmod(0o644)
        seconds = info.changed_at.timestamp()
        os.utime(target, (seconds, seconds))  # by which a later look knows that it has this version

    # ------------------------------------------------------------------ the log

    def _mirror_log(self, job_id: str, target: Path) -> int:
        chunks = sorted((c for c in self._store.list(f"jobs/{job_id}/attempts/") if _order(c)), key=_order)
        written = self._logs.get(job_id)
        if not chunks or (written and (written.chunks, written.last) == (len(chunks), _mark(chunks[-1]))):
            return 0
        self._logs.pop(job_id, None)  # should this fail half-way, the next time starts afresh
        if written and written.chunks < len(chunks) and _mark(chunks[written.chunks - 1]) == written.last:
            new = chunks[written.chunks :]
            self._append(target, new)
        else:  # after a restart, or when an earlier attempt's last words come late
            new = chunks
            draft = draft_of(target)
            draft.unlink(missing_ok=True)
            self._append(draft, new)
            draft.replace(target)
        self._logs[job_id] = _Log(len(chunks), _mark(chunks[-1]))
        return len(new)

    def _append(self, target: Path, chunks: Iterable[ObjectInfo]) -> None:
        with target.open("ab") as log:
            for chunk in chunks:
                with suppress(Missing):
                    log.write(self._store.get(chunk.key))


def _order(chunk: ObjectInfo) -> tuple[int, ...]:
    """Return the attempt and the number of a piece of a log, nothing for another object."""
    parts = chunk.key.split("/")  # jobs/<job>/attempts/<n>/log/<k>
    if len(parts) != 6 or parts[4] != "log" or not (parts[3].isdecimal() and parts[5].isdecimal()):
        return ()
    return int(parts[3]), int(parts[5])


def _mark(chunk: ObjectInfo) -> tuple[str, int]:
    return chunk.key, chunk.size


def _is_inside(path: str) -> bool:
    return not any(part in {"", ".", ".."} or "\0" in part for part in path.split("/"))


def _is_there(target: Path, info: ObjectInfo) -> bool:
    try:
        found = target.lstat()
    except FileNotFoundError:
        return False
    return found.st_size == info.size and abs(found.st_mtime - info.changed_at.timestamp()) < 1e-3


def _show_to(folder: Path, user: str) -> None:
    """Let the job's owner and nobody else read the results, where we may decide that."""
    if os.geteuid() != 0 or not user:
        return
    try:
        group = pwd.getpwnam(user).pw_gid
    except KeyError:
        return
    os.chown(folder, -1, group)
    folder.chmod(0o750)
