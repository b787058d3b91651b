"""A folder of checkpoints: `ckpt-<step>.pt`, and `ckpt-<step>.json` with its size and hash, written last."""

import hashlib
import json
import re
import warnings
from dataclasses import asdict, dataclass
from pathlib import Path
from pickle import UnpicklingError
from typing import Any, Self

from frugald.files import PART, sync_folder, write_whole

_NAME = re.compile(r"ckpt-(\d+)\.(json|pt)")


class CheckpointError(Exception):
    """A checkpoint can't be written or doesn't fit what it is loaded into."""


@dataclass(frozen=True)
class Manifest:
    """What makes a checkpoint complete: without it, or when it doesn't match the file, there is none."""

    step: int
    file: str
    size: int  # bytes
    sha256: str

    @classmethod
    def of(cls, step: int, path: Path) -> Self:
        """Describe a file as it is on the disk."""
        with path.open("rb") as file:
            return cls(step, path.name, path.stat().st_size, hashlib.file_digest(file, "sha256").hexdigest())


class Folder:
    """The checkpoints of one run; the newest `keep` stay."""

    def __init__(self, path: Path, keep: int) -> None:
        """Use `path`, made when something is written. Raises ValueError when nothing would be kept."""
        if keep < 1:
            raise ValueError(f"keep is {keep}: at least the newest checkpoint must stay, so write keep=1 or more")
        self.path = path
        self._keep = keep
        self._proven = False

    def write(self, step: int, state: dict[str, Any]) -> None:
        """Save `state` as the checkpoint of `step`; a kill at any moment leaves the checkpoints before it. Raises OSError.

        The first one is also read back, so that a state that can't be loaded shows now and not after an interruption.
        """
        import torch

        self.path.mkdir(parents=True, exist_ok=True)
        file, manifest = self._file(step), self._manifest(step)
        manifest.unlink(missing_ok=True)
        write_whole(file, lambda opened: torch.save(state, opened))
        if not self._proven:
            self.read(step, mapped=True)
            self._proven = True
        told = json.dumps(asdict(Manifest.of(step, file))).encode()
        write_whole(manifest, lambda opened: opened.write(told))
        self._tidy(step)

    def read(self, step: int, *, mapped: bool = False) -> dict[str, Any]:
        """Load the checkpoint of `step`; no code in it runs. `mapped` leaves tensors on the disk. Raises CheckpointError."""
        import torch

        file = self._file(step)
        try:
            state: dict[str, Any] = torch.load(file, map_location="cpu", weights_only=True, mmap=mapped)
        except UnpicklingError as error:
            said = str(error).partition("\n")[0]
            raise CheckpointError(
                f"{file} holds more than tensors, numbers and texts, so it isn't loaded: {said}"
            ) from error
        except (OSError, RuntimeError) as error:
            raise CheckpointError(f"{file} can't be loaded: {error}") from error
        return state

    def newest(self) -> int | None:
        """Return the step of the newest checkpoint that is whole, None without one; warns of each that isn't."""
        for step in sorted(self._steps("json"), reverse=True):
            wrong = self._wrong(step)
            if not wrong:
                return step
            warnings.warn(f"checkpoint {self._file(step)} is left out: {wrong}", stacklevel=3)
        return None

    def _wrong(self, step: int) -> str:
        """Say what is wrong with a checkpoint; empty when it is whole."""
        try:
            told = Manifest(**json.loads(self._manifest(step).read_bytes()))
            found = Manifest.of(step, self._file(step))
        except FileNotFoundError:
            return "the file is missing"
        except (OSError, ValueError, TypeError) as error:
            return f"its manifest can't be read: {error}"
        if told.size != found.size:
            return f"it has {found.size} bytes and should have {told.size}"
        return "" if told == found else "its bytes are not those that were saved"

    def _tidy(self, newest: int) -> None:
        """Remove all but the newest few. Steps past `newest` are from a run that was resumed before them."""
        kept = set(sorted(step for step in self._steps("json") if step <= newest)[-self._keep :])
        for kind in ("json", "pt"):  # the manifest goes first: a file without one is no checkpoint
            for step in self._steps(kind) - kept:
                (self.path / f"ckpt-{step}.{kind}").unlink(missing_ok=True)
        for part in self.path.glob(f".ckpt-*{PART}"):
            part.unlink(missing_ok=True)
        sync_folder(self.path)

    def _steps(self, kind: str) -> set[int]:
        names = [_NAME.fullmatch(path.name) for path in self.path.glob(f"ckpt-*.{kind}")]
        return {int(name[1]) for name in names if name}

    def _file(self, step: int) -> Path:
        return self.path / f"ckpt-{step}.pt"

    def _manifest(self, step: int) -> Path:
        return self.path / f"ckpt-{step}.json"
