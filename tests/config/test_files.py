"""Files that appear whole, whatever lies in the way."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from config.files import draft_of, fit, write_atomically


def test_a_file_is_replaced_whole(tmp_path: Path) -> None:
    path = tmp_path / "a"
    write_atomically(path, b"one")
    before = path.stat().st_ino
    write_atomically(path, b"two", 0o600)
    assert path.read_bytes() == b"two"
    assert path.stat().st_ino != before
    assert path.stat().st_mode & 0o777 == 0o600
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_what_fails_leaves_the_old_file_and_no_draft(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a"
    write_atomically(path, b"one")

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        write_atomically(path, b"two")
    assert path.read_bytes() == b"one"
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_nothing_is_written_through_what_was_put_in_the_way(tmp_path: Path) -> None:
    victim, path = tmp_path / "victim", tmp_path / "a"
    victim.write_bytes(b"old")
    for put in (draft_of(path).hardlink_to, draft_of(path).symlink_to):
        put(victim)
        write_atomically(path, b"new")
        assert victim.read_bytes() == b"old"
    os.mkfifo(draft_of(path))
    write_atomically(path, b"newer")
    assert path.read_bytes() == b"newer"


@given(
    st.text(st.characters(exclude_characters="/\0", exclude_categories=["Cs"]), min_size=1, max_size=300),
    st.sampled_from(["", "x-"]),
)
def test_a_name_always_fits(name: str, before: str) -> None:
    fitted = fit(before, name, ".error.txt")
    assert len(os.fsencode(fitted)) <= 255
    assert fitted.startswith(before)
    assert fitted.endswith(name[-20:] + ".error.txt")
    if len(os.fsencode(name)) < 200:
        assert fitted == f"{before}{name}.error.txt"


def test_a_long_name_can_be_written(tmp_path: Path) -> None:
    write_atomically(tmp_path / ("好" * 85), b"x")
    assert len(list(tmp_path.iterdir())) == 1
