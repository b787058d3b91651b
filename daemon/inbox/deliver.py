"""Put a job's results where its owner looks: `done/<name>-<id>/` with a status, the log, and the outputs."""

import json
import os
import pwd
from pathlib import Path
from typing import Any

from config.files import write_atomically
from daemon.inbox.claim import DONE
from runner.store import Missing, Store


class Delivery:
    """Mirrors what is new from the store; what is there already is not read again."""

    def __init__(self, folder: Path, store: Store) -> None:
        self._folder = folder / DONE
        self._store = store
        self._sent: dict[str, dict[str, tuple[int, float]]] = {}
        self._status: dict[str, str] = {}

    def status(self, job: dict[str, Any]) -> None:
        """Write `status.json` if it has changed."""
        text = json.dumps(job, indent=2, sort_keys=True, ensure_ascii=False)
        if self._status.get(job["id"]) != text:
            folder = self._job_folder(job["id"], job["name"])
            write_atomically(folder / "status.json", text.encode())
            self._give(folder / "status.json", job.get("user", ""))
            self._give(folder, job.get("user", ""))
            self._status[job["id"]] = text

    def mirror(self, job_id: str, name: str) -> int:
        """Copy new outputs and log lines of a job; return how many objects were read. Raises StoreError, OSError."""
        known = self._sent.setdefault(job_id, {})
        folder = self._job_folder(job_id, name)
        prefix = f"jobs/{job_id}/outputs/"
        count = 0
        for info in self._store.list(prefix):
            stamp = (info.size, info.changed_at.timestamp())
            if known.get(info.key) != stamp:
                target = folder / "outputs" / info.key.removeprefix(prefix)
                target.parent.mkdir(parents=True, exist_ok=True)
                self._store.get_file(info.key, target)
                known[info.key], count = stamp, count + 1
        return count + self._mirror_log(job_id, folder, known)

    def _mirror_log(self, job_id: str, folder: Path, known: dict[str, tuple[int, float]]) -> int:
        """Write the log again from its chunks when there are new ones: the file is always a copy of what was shipped."""
        chunks = [i for i in self._store.list(f"jobs/{job_id}/attempts/") if "/log/" in i.key]
        new = [info for info in chunks if info.key not in known]
        if not new:
            return 0
        mode = "ab" if len(known) > 0 and (folder / "log.txt").exists() and self._is_tail(chunks, new) else "wb"
        with (folder / "log.txt").open(mode) as log:
            for info in sorted(new if mode == "ab" else chunks, key=_log_order):
                try:
                    log.write(self._store.get(info.key))
                except Missing:
                    continue
                known[info.key] = (info.size, 0.0)
        return len(new)

    @staticmethod
    def _is_tail(chunks: list[Any], new: list[Any]) -> bool:
        ordered = sorted(chunks, key=_log_order)
        return ordered[-len(new):] == sorted(new, key=_log_order)

    def _job_folder(self, job_id: str, name: str) -> Path:
        safe = "".join(c if c.isalnum() or c in "-_." else "-" for c in name).strip(".")[:60]
        folder = self._folder / f"{safe}-{job_id}"
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    @staticmethod
    def _give(path: Path, user: str) -> None:
        """Let the job's owner own the results, where we may decide that."""
        if os.geteuid() == 0 and user:
            try:
                entry = pwd.getpwnam(user)
            except KeyError:
                return
            os.chown(path, entry.pw_uid, entry.pw_gid, follow_symlinks=False)


def _log_order(info: Any) -> tuple[int, int]:  # noqa: ANN401 - ObjectInfo
    parts = info.key.split("/")
    return int(parts[3]), int(parts[-1])
