import json
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import frugald


def test_progress_is_a_small_json_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FRUGALD_PROGRESS_FILE", str(tmp_path / "progress.json"))
    frugald.progress(3, 10, loss=0.5, accuracy=1)
    assert json.loads((tmp_path / "progress.json").read_bytes()) == {
        "step": 3,
        "total_steps": 10,
        "metrics": {"loss": 0.5, "accuracy": 1.0},
    }
    frugald.progress(4)
    assert json.loads((tmp_path / "progress.json").read_bytes()) == {"step": 4, "total_steps": -1, "metrics": {}}
    assert [path.name for path in tmp_path.iterdir()] == ["progress.json"]


def test_progress_has_no_words_that_json_lacks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FRUGALD_PROGRESS_FILE", str(tmp_path / "progress.json"))
    frugald.progress(1, loss=float("nan"), best=float("-inf"), rate=2)
    assert json.loads((tmp_path / "progress.json").read_bytes())["metrics"] == {"rate": 2.0}


def test_without_frugald_around_nothing_is_told_or_heard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    frugald.progress(1, 2, loss=3)
    assert frugald.notice() is None
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("why", "ends"), [("interruption", True), ("lease", True), ("command", True), ("rebalance", False)]
)
def test_a_notice_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, why: str, ends: bool) -> None:
    path = tmp_path / "notice.json"
    monkeypatch.setenv("FRUGALD_NOTICE_FILE", str(path))
    assert frugald.notice() is None
    path.write_text(json.dumps({"why": why, "in_s": 120, "at": "2026-01-01T00:02:00Z", "more": 1}))
    notice = frugald.notice()
    assert notice == frugald.Notice(why, 120.0, "2026-01-01T00:02:00Z")
    assert notice.ends is ends


@given(
    st.binary()
    | st.recursive(st.none() | st.text() | st.floats(), st.lists).map(lambda value: json.dumps(value).encode())
)
def test_half_a_notice_is_none_yet(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    path = tmp_path_factory.mktemp("notice") / "notice.json"
    path.write_bytes(data)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FRUGALD_NOTICE_FILE", str(path))
        assert frugald.notice() is None


def test_the_package_needs_the_standard_library_only() -> None:
    code = "import sys, frugald, frugald.checkpoint; print(sorted({name.partition('.')[0] for name in sys.modules} & {'torch', 'numpy', 'config', 'runner', 'obstore'}))"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == "[]"
