import json
import os
import signal
import subprocess
import sys
from collections import OrderedDict
from pathlib import Path
from typing import Any

import pytest
import torch

from frugald.folder import CheckpointError, Folder

_SAVE_ON_AND_ON = """
import sys
from pathlib import Path
import torch
from frugald.folder import Folder
folder = Folder(Path(sys.argv[1]), keep=2)
step = (folder.newest() or 0)
while True:
    step += 1
    folder.write(step, {"step": step, "weights": torch.full((250_000,), float(step))})
    print(step, flush=True)
"""


def names(path: Path) -> list[str]:
    return sorted(entry.name for entry in path.iterdir())


def filled(path: Path, *steps: int, keep: int = 9) -> Folder:
    folder = Folder(path, keep)
    for step in steps:
        folder.write(step, {"step": step, "weights": torch.full((100,), float(step))})
    return folder


def test_a_checkpoint_is_a_file_and_a_manifest(tmp_path: Path) -> None:
    folder = filled(tmp_path / "new" / "folder", 7)
    told = json.loads((folder.path / "ckpt-7.json").read_bytes())
    data = (folder.path / "ckpt-7.pt").read_bytes()
    assert (told["step"], told["file"], told["size"]) == (7, "ckpt-7.pt", len(data))
    assert len(told["sha256"]) == 64
    assert folder.newest() == 7
    assert torch.equal(folder.read(7)["weights"], torch.full((100,), 7.0))


def test_an_empty_or_missing_folder_has_none(tmp_path: Path) -> None:
    assert Folder(tmp_path, 1).newest() is None
    assert Folder(tmp_path / "nowhere", 1).newest() is None


def test_the_newest_few_stay(tmp_path: Path) -> None:
    filled(tmp_path, 1, 2, 9, 10, 11, keep=3)
    assert names(tmp_path) == sorted(f"ckpt-{step}.{kind}" for step in (9, 10, 11) for kind in ("json", "pt"))


def _cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def _flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize(
    ("name", "damage", "says"),
    [
        ("ckpt-3.pt", _cut, "should have"),
        ("ckpt-3.pt", _flip, "not those that were saved"),
        ("ckpt-3.pt", Path.unlink, "missing"),
        ("ckpt-3.json", _cut, "manifest can't be read"),
        ("ckpt-3.json", lambda path: path.write_text("[]"), "manifest can't be read"),
        ("ckpt-3.json", lambda path: path.write_text('{"step": 3}'), "manifest can't be read"),
    ],
)
def test_a_damaged_checkpoint_is_left_out_with_a_warning(tmp_path: Path, name: str, damage: Any, says: str) -> None:
    folder = filled(tmp_path, 1, 2, 3)
    damage(tmp_path / name)
    with pytest.warns(UserWarning, match=says):
        assert folder.newest() == 2


def test_a_file_without_a_manifest_is_no_checkpoint(tmp_path: Path) -> None:
    folder = filled(tmp_path, 1, 2)
    (tmp_path / "ckpt-2.json").unlink()
    assert folder.newest() == 1


def test_steps_are_numbers_and_other_files_are_left_alone(tmp_path: Path) -> None:
    for name in ("ckpt-best.pt", "ckpt-.json", "notes.json", "model.pt"):
        (tmp_path / name).write_bytes(b"mine")
    folder = filled(tmp_path, 9, 10, keep=1)
    assert folder.newest() == 10
    assert set(names(tmp_path)) == {
        "ckpt-best.pt",
        "ckpt-.json",
        "notes.json",
        "model.pt",
        "ckpt-10.pt",
        "ckpt-10.json",
    }


def test_what_lies_ahead_is_of_another_run_and_what_was_half_written_of_none(tmp_path: Path) -> None:
    folder = filled(tmp_path, 10, 20, 30, keep=2)
    _flip(tmp_path / "ckpt-30.pt")
    (tmp_path / "ckpt-25.pt").write_bytes(b"no manifest")
    (tmp_path / ".ckpt-26.pt.123.tmp").write_bytes(b"half")
    filled(tmp_path, 22, keep=2)
    assert names(tmp_path) == ["ckpt-20.json", "ckpt-20.pt", "ckpt-22.json", "ckpt-22.pt"]
    assert folder.newest() == 22


def test_the_same_step_may_be_saved_again(tmp_path: Path) -> None:
    folder = filled(tmp_path, 1, 2)
    folder.write(2, {"step": 2, "weights": torch.zeros(1)})
    assert folder.newest() == 2
    assert torch.equal(folder.read(2)["weights"], torch.zeros(1))


class Strange:
    """Something that only code could bring back."""


def test_a_state_that_cannot_be_loaded_shows_at_the_first_save(tmp_path: Path) -> None:
    folder = Folder(tmp_path, 1)
    with pytest.raises(CheckpointError, match="holds more than tensors, numbers and texts"):
        folder.write(1, {"strange": Strange()})
    assert folder.newest() is None


def test_a_step_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"ckpt-5\.pt can't be loaded"):
        Folder(tmp_path, 1).read(5)


def test_what_optimizers_save_is_plain_enough(tmp_path: Path) -> None:
    Folder(tmp_path, 1).write(
        1, {"a": OrderedDict(x=torch.ones(2, dtype=torch.bfloat16)), "b": (1, None, True, 2.5, "é")}
    )
    assert Folder(tmp_path, 1).read(1)["b"] == (1, None, True, 2.5, "é")


def test_a_full_disk_leaves_what_was_there(tmp_path: Path) -> None:
    folder = filled(tmp_path, 1)

    class Full:
        def __reduce__(self) -> Any:
            raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space"):
        folder.write(2, {"state": Full()})
    assert names(tmp_path) == ["ckpt-1.json", "ckpt-1.pt"]


def test_keeping_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="keep is 0"):
        Folder(tmp_path, 0)


def test_a_kill_at_any_moment_leaves_a_whole_checkpoint(tmp_path: Path) -> None:
    """Each round's kill comes while later saves are under way; none may be lost that was said to be saved."""
    said = 0
    for round_ in range(3):
        saver = subprocess.Popen([sys.executable, "-c", _SAVE_ON_AND_ON, str(tmp_path)], stdout=subprocess.PIPE)
        assert saver.stdout is not None
        with saver, saver.stdout as told:
            for _ in range(3 + 4 * round_):
                said = int(told.readline())
            os.kill(saver.pid, signal.SIGKILL)
        newest = Folder(tmp_path, 2).newest()
        assert newest is not None
        assert newest >= said
        assert Folder(tmp_path, 2).read(newest)["weights"][0] == newest
