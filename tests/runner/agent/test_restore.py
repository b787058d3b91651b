"""What a new attempt begins from: the checkpoint it was told, or the newest that is still whole."""

from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from runner.agent.report import Report
from runner.agent.restore import Restore
from runner.agent.shelf import Shelf
from runner.store import MemoryStore
from runner.store.records import MANIFEST, Command, Manifest
from tests.fakes.clock import FakeClock

JOB = "j-1"
TOP = f"jobs/{JOB}/checkpoints/"


@dataclass
class Bench:
    folder: Path
    store: MemoryStore = field(default_factory=lambda: MemoryStore(FakeClock()))

    def __post_init__(self) -> None:
        self.report = Report(JOB, 3, FakeClock())
        self.shelf = Shelf(self.store, JOB, 3, 2, FakeClock())

    def put(self, step: int, attempt: int, files: dict[str, bytes]) -> str:
        prefix = f"{TOP}{step:012d}-{attempt}/"
        listed: list[list[Any]] = []
        for path, data in files.items():
            self.store.put(f"{prefix}0/{path.replace('..', 'up').lstrip('/')}", data)
            listed.append(
                [path, len(data), sha256(data).hexdigest(), f"{prefix}0/{path.replace('..', 'up').lstrip('/')}"]
            )
        self.store.put(prefix + MANIFEST, Manifest(JOB, attempt, step, listed, running_s=7.0).to_json())
        return prefix

    def restore(self, prefix: str, step: int) -> int | None:
        restore = Restore(self.store, JOB, self.report, self.shelf, lambda work: work())
        manifest = restore.into(self.folder, Command(1, "start", restore=prefix, restore_step=step))
        return manifest.step if manifest else None

    def files(self) -> dict[str, bytes]:
        return {
            str(path.relative_to(self.folder)): path.read_bytes() for path in self.folder.rglob("*") if path.is_file()
        }

    def codes(self) -> list[str]:
        return [code for code, _ in self.report.status().warnings]


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path / "checkpoints")


def test_the_named_checkpoint_comes_back_whole(bench: Bench) -> None:
    bench.put(400, 0, {"ckpt-400.pt": b"old"})
    prefix = bench.put(500, 1, {"checkpoint-500/model.bin": b"m", "latest": b"500"})
    assert bench.restore(prefix, 500) == 500
    assert bench.files() == {"checkpoint-500/model.bin": b"m", "latest": b"500"}
    status = bench.report.status()
    assert (status.restored_step, status.restored_from, status.warnings) == (500, prefix, [])
    assert bench.report.job_ran_s() == 7.0


def test_without_a_name_the_job_starts_from_zero(bench: Bench) -> None:
    bench.put(400, 0, {"ckpt-400.pt": b"old"})
    assert bench.restore("", -1) is None
    assert bench.files() == {}


def damage_bytes(bench: Bench, prefix: str) -> None:
    bench.store.put(f"{prefix}0/a.pt", b"torn")


def damage_file(bench: Bench, prefix: str) -> None:
    bench.store.delete(f"{prefix}0/a.pt")


def damage_manifest(bench: Bench, prefix: str) -> None:
    bench.store.put(prefix + MANIFEST, b'{"job": "j-1", "attempt": 1, "step": 500, "files": [["a.pt", 5]]}')


def damage_json(bench: Bench, prefix: str) -> None:
    bench.store.put(prefix + MANIFEST, b"{")


def remove(bench: Bench, prefix: str) -> None:
    bench.store.delete(prefix + MANIFEST)


@pytest.mark.parametrize("damage", [damage_bytes, damage_file, damage_manifest, damage_json, remove])
def test_a_damaged_checkpoint_gives_way_to_the_newest_older_one(bench: Bench, damage: Any) -> None:
    bench.put(300, 0, {"a.pt": b"300"})
    bench.put(400, 0, {"a.pt": b"400", "b.pt": b"400"})
    prefix = bench.put(500, 1, {"b.pt": b"500", "a.pt": b"whole"})
    bench.put(600, 1, {"a.pt": b"600"})
    damage(bench, prefix)
    assert bench.restore(prefix, 500) == 400
    assert bench.files() == {"a.pt": b"400", "b.pt": b"400"}  # nothing of the damaged one
    assert bench.codes() == ["agent.checkpoint_corrupt"]


def test_when_no_older_one_is_left_a_newer_one_is_taken(bench: Bench) -> None:
    bench.put(600, 1, {"a.pt": b"600"})
    bench.put(700, 1, {"a.pt": b"700"})
    assert bench.restore(f"{TOP}{500:012d}-1/", 500) == 700


def test_when_none_is_whole_the_job_starts_from_zero_and_says_so(bench: Bench) -> None:
    prefix = bench.put(500, 1, {"a.pt": b"500"})
    damage_bytes(bench, prefix)
    bench.store.put(f"{TOP}{400:012d}-1/0/a.pt", b"half an upload")
    assert bench.restore(prefix, 500) is None
    assert bench.codes() == ["agent.checkpoint_corrupt", "agent.checkpoint_none"]
    assert bench.files() == {}


@pytest.mark.parametrize("path", ["../outside", "/outside", "a/../../outside", ""])
def test_a_manifest_that_names_a_file_outside_is_damaged(bench: Bench, path: str) -> None:
    prefix = f"{TOP}{500:012d}-1/"
    bench.store.put(f"{prefix}0/x", b"x")
    listed = [[path, 1, sha256(b"x").hexdigest(), f"{prefix}0/x"]]
    bench.store.put(prefix + MANIFEST, Manifest(JOB, 1, 500, listed).to_json())
    assert bench.restore(prefix, 500) is None
    assert not (bench.folder.parent / "outside").exists()
