"""Private copies of a checkpoint's files: what is sent is what was checked, whatever the job does meanwhile."""

import hashlib
import os
import shutil
from pathlib import Path

from runner.agent.found import Found, Seen, look_at
from runner.agent.shelf import Staged
from runner.agent.whole import reads_whole


class NotWhole(Exception):
    """What was found is no checkpoint, or not yet: a file is torn, or was changed while it was looked at."""


class Stage:
    """A folder of the agent's own that holds one checkpoint at a time."""

    def __init__(self, source: Path, folder: Path) -> None:
        """Take files from `source`, the job's checkpoint folder."""
        self._source = source
        self._folder = folder
        self._hashes: dict[Seen, str] = {}  # of the files taken last
        self._linked: list[Seen] = []  # whoever writes into these writes into ours

    def take(self, found: Found, beside: list[Seen]) -> list[Staged]:
        """Bring a checkpoint and what goes with it here, checked and hashed. Raises NotWhole, OSError."""
        self.clear()
        check = found.quiets > 0
        staged = [self._one(seen, copy=found.in_place, check=check) for seen in found.files]
        if found.sha256 and staged[0].sha256 != found.sha256:
            raise NotWhole(f"{staged[0].path} has not the bytes that its manifest names")
        staged += [self._one(seen, copy=True, check=check) for seen in found.loose]
        staged += [self._one(seen, copy=True, check=False) for seen in beside]
        self._hashes = dict(zip([*found.main, *beside], (file.sha256 for file in staged), strict=True))
        return staged

    def unchanged(self) -> bool:
        """Say whether what was brought here is as it was when it was checked."""
        return all(look_at(self._folder, seen.path) == seen for seen in self._linked)

    def clear(self) -> None:
        """Remove everything from here."""
        shutil.rmtree(self._folder, ignore_errors=True)
        self._linked = []

    def _one(self, seen: Seen, *, copy: bool, check: bool) -> Staged:
        local = self._folder / seen.path
        local.parent.mkdir(parents=True, exist_ok=True)
        linked = _bring((self._source / seen.path).resolve(), local, copy=copy)
        if linked:
            self._linked.append(seen)
        if look_at(self._folder if linked else self._source, seen.path) != seen:
            raise NotWhole(f"{seen.path} was changed while it was copied")
        digest = self._hashes.get(seen, "")
        if not digest:
            if check and reads_whole(local) is False:
                raise NotWhole(f"{seen.path} doesn't read whole")
            with local.open("rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
        return Staged(seen.path, local, seen.size, digest)


def _bring(source: Path, local: Path, *, copy: bool) -> bool:
    """Link a file, so that its removal doesn't matter; copy it where its next save would write into it. Raises OSError."""
    if not copy:
        try:
            os.link(source, local)
        except OSError:  # another file system, or one without hard links
            pass
        else:
            return True
    shutil.copyfile(source, local)
    return False
