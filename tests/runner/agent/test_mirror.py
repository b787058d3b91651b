"""What is taken from a checkpoint folder, when, and what of it is sent: without processes, in virtual time."""

import io
import json
import os
import pickle
import zipfile
from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path

import pytest

from runner.agent.mirror import Mirror
from runner.agent.pace import Pace
from runner.agent.report import Report
from runner.agent.shelf import Shelf
from runner.agent.stage import Stage
from runner.store import MemoryStore, StoreError
from runner.store.records import MANIFEST, Manifest
from tests.fakes.clock import FakeClock

JOB = "j-1"
TOP = f"jobs/{JOB}/checkpoints/"


def saved(state: bytes) -> bytes:
    """Return a file as torch.save writes it: a zip file."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr(zipfile.ZipInfo("archive/data.pkl"), state)
    return file.getvalue()


class WatchedStore(MemoryStore):
    """Remembers what is sent, takes time for it, fails when told, and may do something in the middle."""

    def __init__(self, clock: FakeClock) -> None:
        super().__init__(clock)
        self.clock = clock
        self.sent: list[str] = []
        self.failures = 0
        self.bytes_per_s = 0.0
        self.meanwhile: Callable[[], object] = lambda: None

    def put_file(self, key: str, path: Path) -> None:
        if self.failures:
            self.failures -= 1
            raise StoreError("no answer")
        super().put_file(key, path)
        self.sent.append(key.removeprefix(TOP))
        if self.bytes_per_s:
            self.clock.advance(path.stat().st_size / self.bytes_per_s)
        self.meanwhile()

    def checkpoints(self) -> dict[str, dict[str, bytes]]:
        """Return the files of each complete checkpoint, as a machine that restores it would see them."""
        found = {}
        for key in [info.key for info in self.list(TOP) if info.key.endswith(MANIFEST)]:
            manifest = Manifest.from_json(self.get(key))
            found[key.removeprefix(TOP).removesuffix(f"/{MANIFEST}")] = {
                path: self.get(where) for path, _, _, where in manifest.files
            }
            assert all(sha256(self.get(where)).hexdigest() == digest for _, _, digest, where in manifest.files)
        return found


@dataclass
class Bench:
    folder: Path
    attempt: int = 0
    keep: int = 2
    clock: FakeClock = field(default_factory=FakeClock)

    def __post_init__(self) -> None:
        self.folder.mkdir()
        self.store = WatchedStore(self.clock)
        self.report = Report(JOB, self.attempt, self.clock)
        self.report.started()
        self.shelf = Shelf(self.store, JOB, self.attempt, self.keep, self.clock)
        stage = Stage(self.folder, self.folder.with_name("staging"))
        self.mirror = Mirror(self.folder, stage, self.shelf, self.report, self.clock, Pace())
        self.mirror.begin(-1)

    def write(self, name: str, data: bytes) -> Path:
        """Write a file now, by the virtual clock."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        now = self.clock.now().timestamp()
        os.utime(path, (now, now))
        return path

    def sdk(self, step: int, data: bytes, *, digest: str | None = None) -> None:
        self.write(f"ckpt-{step}.pt", data)
        told = {
            "step": step,
            "file": f"ckpt-{step}.pt",
            "size": len(data),
            "sha256": digest or sha256(data).hexdigest(),
        }
        self.write(f"ckpt-{step}.json", json.dumps(told).encode())

    def rounds(self, seconds: float) -> None:
        """Let time pass, with a look every half a second as the agent does."""
        for _ in range(round(2 * seconds)):
            self.clock.advance(0.5)
            self.mirror.round()

    def names(self) -> list[str]:
        return sorted(self.store.checkpoints())

    def newest(self) -> dict[str, bytes]:
        return self.store.checkpoints()[self.report.status().checkpoint.removeprefix(TOP).rstrip("/")]

    def warnings(self) -> list[str]:
        return [code for code, _ in self.report.status().warnings]


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path / "checkpoints")


def test_the_sdks_checkpoint_is_taken_at_once(bench: Bench) -> None:
    bench.sdk(500, b"state")
    bench.mirror.round()
    assert bench.names() == ["000000000500-0"]
    assert bench.newest()["ckpt-500.pt"] == b"state"
    status = bench.report.status()
    assert (status.checkpoint_step, status.checkpoint_age_s) == (500, 0)


def test_the_sdks_checkpoint_without_its_manifest_is_none(bench: Bench) -> None:
    bench.sdk(400, b"whole")
    bench.write("ckpt-500.pt", saved(b"state"))
    bench.rounds(60)
    assert bench.names() == ["000000000400-0"]


def test_another_script_may_name_its_files_like_the_sdk(bench: Bench) -> None:
    bench.write("ckpt-500.pt", saved(b"state"))
    bench.rounds(4)
    assert bench.names() == []  # the SDK's first manifest may still come
    bench.rounds(4)
    assert bench.newest() == {"ckpt-500.pt": saved(b"state")}


def test_what_came_with_the_code_is_no_part_of_a_checkpoint(bench: Bench) -> None:
    bench.write("data/train.bin", b"large")
    bench.write("train.py", b"code")
    bench.write("edited.bin", b"before")
    bench.mirror.leave_out_present()
    bench.write("checkpoint.pth", saved(b"state"))
    bench.clock.advance(1)
    bench.write("edited.bin", b"after")
    bench.rounds(8)
    assert bench.newest() == {"checkpoint.pth": saved(b"state"), "edited.bin": b"after"}


def test_the_sdks_checkpoint_with_other_bytes_is_none(bench: Bench) -> None:
    bench.sdk(400, b"good")
    bench.clock.advance(1)
    bench.sdk(500, b"state", digest="0" * 64)
    bench.rounds(20)
    assert bench.names() == ["000000000400-0"]


def test_the_newest_few_are_kept(bench: Bench) -> None:
    for step in (1, 2, 3, 4):
        bench.sdk(step, b"state %d" % step)
        bench.rounds(1)
    assert bench.names() == ["000000000003-0", "000000000004-0"]
    assert len(list(bench.store.list(TOP))) == 2 * 3  # nothing is left of the others


def test_only_the_newest_of_several_is_sent(bench: Bench) -> None:
    for step in (1, 2, 3):
        bench.sdk(step, b"state %d" % step)
        bench.clock.advance(1)
    bench.rounds(2)
    assert bench.names() == ["000000000003-0"]


def test_what_was_there_before_the_command_is_not_sent(bench: Bench) -> None:
    bench.sdk(7, b"restored")
    bench.write("pretrained.pth", saved(b"x"))
    bench.mirror.begin(7)
    bench.rounds(60)
    assert bench.store.sent == []


def test_a_file_that_is_overwritten_is_taken_when_it_is_quiet_and_reads_whole(bench: Bench) -> None:
    first, second = saved(b"first"), saved(b"second, which is longer")
    bench.write("checkpoint.pth", first)
    bench.mirror.round()
    assert bench.names() == []  # somebody may be writing to it
    bench.rounds(2)
    assert bench.names() == ["000000000000-0"]
    bench.write("checkpoint.pth", second[:40])
    bench.rounds(30)
    assert bench.newest() == {"checkpoint.pth": first}
    bench.write("checkpoint.pth", second)
    bench.rounds(2)
    assert bench.store.checkpoints() == {
        "000000000000-0": {"checkpoint.pth": first}, "000000000001-0": {"checkpoint.pth": second},
    }  # fmt: skip
    assert bench.report.status().warnings == [["agent.overwrites_in_place", {"file": "checkpoint.pth"}]]


def test_a_file_that_is_replaced_at_once_needs_no_warning(bench: Bench) -> None:
    for state in (b"first", b"second"):
        bench.write("checkpoint.part", saved(state)).rename(bench.folder / "checkpoint.pth")
        bench.rounds(2)
    assert len(bench.names()) == 2
    assert bench.warnings() == []


def test_a_file_that_never_rests_is_taken_in_haste_if_it_reads_whole(bench: Bench) -> None:
    for number in range(60):
        bench.write("checkpoint.pth", saved(b"state %d" % number))
        bench.rounds(0.5)
    assert 1 <= len(bench.names()) <= 2
    assert zipfile.ZipFile(io.BytesIO(bench.newest()["checkpoint.pth"])).testzip() is None


def test_files_that_never_rest_and_cannot_be_proven_are_left_alone(bench: Bench) -> None:
    for number in range(60):
        bench.write("model.h5", b"%d" % number)
        bench.rounds(0.5)
    assert bench.names() == []


def test_a_file_that_changes_while_it_is_sent_is_no_checkpoint(bench: Bench) -> None:
    path = bench.write("step_5.ckpt", b"one")
    bench.store.meanwhile = lambda: path.write_bytes(b"two")
    bench.rounds(2)
    assert bench.names() == []
    bench.store.meanwhile = lambda: None
    bench.rounds(2)
    assert bench.store.checkpoints() == {"000000000005-0": {"step_5.ckpt": b"two"}}


def test_a_file_that_the_job_removes_while_it_is_sent_is_sent_all_the_same(bench: Bench) -> None:
    path = bench.write("checkpoint-5/model.bin", b"one")
    bench.write("checkpoint-5/trainer_state.json", b"{}")
    bench.store.meanwhile = lambda: path.unlink(missing_ok=True)
    bench.rounds(2)
    assert bench.newest()["checkpoint-5/model.bin"] == b"one"


def test_a_folder_marked_as_incomplete_is_none(bench: Bench) -> None:
    bench.write("checkpoint-500/trainer_state.json", b"{}")
    mark = bench.write("checkpoint-500/checkpoint-is-incomplete.txt", b"")
    bench.rounds(60)
    assert bench.store.sent == []
    mark.unlink()
    bench.rounds(2)
    assert bench.names() == ["000000000500-0"]


def test_a_folder_without_marks_must_be_quiet_for_long(bench: Bench) -> None:
    bench.write("checkpoint-500/model.safetensors", b"\2\0\0\0\0\0\0\0{}")
    bench.rounds(4)
    assert bench.names() == []
    bench.write("checkpoint-500/optimizer.bin", b"state")
    bench.rounds(4)
    assert bench.names() == []
    bench.rounds(2)
    assert sorted(bench.newest()) == ["checkpoint-500/model.safetensors", "checkpoint-500/optimizer.bin"]


def test_torchs_distributed_checkpoint_is_complete_with_its_metadata(bench: Bench) -> None:
    bench.write("step_20/__0_0.distcp", b"shard")
    bench.rounds(60)
    assert bench.names() == []
    bench.write("step_20/.metadata", b"index")
    bench.mirror.round()
    assert bench.names() == ["000000000020-0"]
    assert bench.newest() == {"step_20/__0_0.distcp": b"shard", "step_20/.metadata": b"index"}


def test_the_folder_itself_may_be_a_distributed_checkpoint(bench: Bench) -> None:
    bench.write("__0_0.distcp", b"shard")
    bench.write(".metadata", b"index")
    bench.mirror.round()
    assert bench.newest() == {"__0_0.distcp": b"shard", ".metadata": b"index"}


def test_files_that_belong_to_no_step_go_with_the_newest(bench: Bench) -> None:
    bench.write("global_step100/model_states.pt", saved(b"100"))
    bench.write("latest", b"global_step100")
    bench.rounds(6)
    assert bench.newest()["latest"] == b"global_step100"
    bench.write("epoch=3-step=500.ckpt", saved(b"500"))
    bench.write("last.ckpt", saved(b"500"))
    bench.write("runs/events.out.tfevents.1", b"not a checkpoint")
    bench.rounds(6)
    assert sorted(bench.newest()) == ["epoch=3-step=500.ckpt", "last.ckpt", "latest"]
    assert bench.report.status().checkpoint_step == 500


def test_two_files_of_one_save_are_one_checkpoint(bench: Bench) -> None:
    bench.write("model.pt", saved(b"m1"))
    bench.clock.advance(0.5)
    bench.mirror.round()
    bench.write("optimizer.pt", saved(b"o1"))
    bench.rounds(2)
    assert list(bench.store.checkpoints().values()) == [{"model.pt": saved(b"m1"), "optimizer.pt": saved(b"o1")}]


def test_unchanged_files_are_not_sent_again(bench: Bench) -> None:
    bench.write("vocabulary.bin", b"large and the same")
    for number in range(4):
        bench.write("model.pt", saved(b"state %d" % number))
        bench.rounds(2)
    assert [key for key in bench.store.sent if key.endswith("vocabulary.bin")] == ["000000000000-0/0/vocabulary.bin"]
    # Old checkpoints are gone, but not what newer ones point to.
    assert bench.names() == ["000000000002-0", "000000000003-0"]
    assert all(files["vocabulary.bin"] == b"large and the same" for files in bench.store.checkpoints().values())


def test_a_second_checkpoint_of_one_step_replaces_the_first_at_once(bench: Bench) -> None:
    bench.sdk(5, b"one")
    bench.rounds(1)
    seen: list[bytes] = []
    bench.store.meanwhile = lambda: seen.append(bench.newest()["ckpt-5.pt"])
    bench.sdk(5, b"two")
    bench.rounds(1)
    assert seen == [b"one", b"one"]  # while each file is sent, the first still stands
    assert bench.store.checkpoints() == {"000000000005-0": bench.newest()}
    assert bench.newest()["ckpt-5.pt"] == b"two"


def test_a_failing_store_is_tried_again_and_nothing_is_sent_twice(bench: Bench) -> None:
    bench.write("checkpoint-5/a.bin", b"a")
    bench.write("checkpoint-5/trainer_state.json", b"{}")
    bench.rounds(2)
    bench.store.sent.clear()
    bench.write("checkpoint-6/b.bin", b"b")
    bench.write("checkpoint-6/trainer_state.json", b"{ }")

    def fail_next() -> None:
        bench.store.failures = 1
        bench.store.meanwhile = lambda: None

    bench.store.meanwhile = fail_next
    with pytest.raises(StoreError):
        bench.rounds(2)
    assert bench.names() == ["000000000005-0"]
    bench.rounds(2)
    assert bench.names() == ["000000000005-0", "000000000006-0"]
    assert sorted(bench.store.sent) == [
        "000000000006-0/0/checkpoint-6/b.bin",
        "000000000006-0/0/checkpoint-6/trainer_state.json",
    ]


def test_the_step_is_the_one_told_when_the_file_was_written(bench: Bench) -> None:
    bench.report.change(step=40)
    bench.write("checkpoint.pth", saved(b"x"))
    bench.mirror.round()
    bench.report.change(step=43)
    bench.rounds(2)
    assert bench.names() == ["000000000040-0"]


def test_without_any_step_checkpoints_are_counted_on_from_the_restored_one(bench: Bench) -> None:
    bench.mirror.begin(17)
    bench.write("checkpoint.pth", saved(b"x"))
    bench.rounds(2)
    assert bench.names() == ["000000000018-0"]


def test_the_last_look_after_a_natural_end_takes_what_is_there(bench: Bench) -> None:
    bench.write("checkpoint-5/model.bin", b"m")
    bench.mirror.last_look(until=1e9, killed_at=None)
    assert bench.names() == ["000000000005-0"]


@pytest.mark.parametrize(
    ("name", "data", "taken"),
    [
        ("checkpoint.pth", saved(b"whole"), True),
        ("checkpoint.pth", saved(b"torn")[:-5], False),
        ("checkpoint-5/model.bin", b"the optimizer's file may be missing", False),
        ("model.h5", b"nobody knows", False),
    ],
)
def test_the_last_look_after_a_kill_takes_what_is_proven(bench: Bench, name: str, data: bytes, taken: bool) -> None:
    bench.write(name, data)
    bench.mirror.last_look(until=1e9, killed_at=bench.clock.monotonic())
    assert bool(bench.names()) == taken


def test_the_last_look_after_a_kill_goes_back_to_an_older_one(bench: Bench) -> None:
    bench.write("checkpoint-4/model.bin", b"whole")
    bench.clock.advance(30)
    bench.write("checkpoint-5/model.bin", b"half")
    bench.mirror.last_look(until=1e9, killed_at=bench.clock.monotonic())
    assert bench.names() == ["000000000004-0"]


def test_an_upload_that_cannot_end_in_time_is_not_begun(bench: Bench) -> None:
    bench.store.bytes_per_s = 100_000
    bench.sdk(1, bytes(100_000))
    bench.rounds(1)
    assert bench.mirror.bytes_per_s == pytest.approx(100_000, rel=0.01)
    assert bench.mirror.upload_s == pytest.approx(1.0, rel=0.1)
    bench.sdk(2, b"1" * 100_000)
    now = bench.clock.monotonic()
    bench.store.sent.clear()
    bench.mirror.last_look(until=now + 0.9, killed_at=None)
    assert bench.store.sent == []
    assert bench.warnings() == ["agent.upload_too_slow"]
    bench.mirror.last_look(until=now + 1.5, killed_at=None)
    assert bench.names() == ["000000000001-0", "000000000002-0"]


def test_another_attempts_newest_stays_until_there_are_enough_of_our_own(bench: Bench) -> None:
    for attempt, step in ((0, 1), (0, 2), (0, 3), (2, 9)):
        prefix = f"{TOP}{step:012d}-{attempt}/"
        bench.store.put(f"{prefix}0/a.pt", b"x")
        files = [["a.pt", 1, sha256(b"x").hexdigest(), f"{prefix}0/a.pt"]]
        bench.store.put(prefix + MANIFEST, Manifest(JOB, attempt, step, files).to_json())
    bench.shelf = Shelf(bench.store, JOB, 1, 2, bench.clock)
    bench.mirror = Mirror(
        bench.folder, Stage(bench.folder, bench.folder.with_name("s")), bench.shelf, bench.report, bench.clock, Pace()
    )
    bench.sdk(4, b"ours")
    bench.rounds(1)
    assert bench.names() == ["000000000003-0", "000000000004-1", "000000000009-2"]  # a later attempt is never touched
    bench.sdk(5, b"ours too")
    bench.rounds(1)
    assert bench.names() == ["000000000004-1", "000000000005-1", "000000000009-2"]


def test_half_an_upload_of_an_attempt_that_died_is_cleared_away(bench: Bench) -> None:
    bench.store.put(f"{TOP}000000000001-0/0/half.pt", b"x")
    bench.sdk(2, b"ours")
    bench.rounds(1)
    assert not any("half" in info.key for info in bench.store.list(TOP))


def test_names_that_no_key_can_hold_are_left_out(bench: Bench) -> None:
    (bench.folder / os.fsdecode(b"\xff.pt")).write_bytes(saved(b"x"))
    bench.write("model.pt", saved(b"x"))
    bench.rounds(2)
    assert list(bench.newest()) == ["model.pt"]


def test_a_pickle_without_its_end_is_not_whole(bench: Bench) -> None:
    whole = pickle.dumps({"step": 3, "weights": list(range(1000))})
    bench.write("state.pkl", whole[:-10])
    bench.rounds(20)
    assert bench.names() == []
    bench.write("state.pkl", whole)
    bench.rounds(2)
    assert bench.newest() == {"state.pkl": whole}
