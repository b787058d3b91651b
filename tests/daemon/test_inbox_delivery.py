"""`done/<job>/`: a user of the folder needs nothing else."""

import json
import os
import pwd
from datetime import timedelta
from pathlib import Path

import pytest

from daemon.inbox import Delivery, Mirrored
from runner.store import MemoryStore, ObjectInfo, StoreError
from tests.fakes.clock import FakeClock


class CountingStore(MemoryStore):
    """Knows what was read from it."""

    def __init__(self, clock: FakeClock) -> None:
        super().__init__(clock)
        self.reads: list[str] = []
        self.broken = ""

    def get(self, key: str) -> bytes:
        self.reads.append(key)
        if key == self.broken:
            raise StoreError("away")
        return super().get(key)


class Site:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.clock = FakeClock()
        self.store = CountingStore(self.clock)
        self.restart()

    def restart(self) -> None:
        self.delivery = Delivery(self.folder, self.store)

    def log(self, attempt: int, chunk: int, text: str) -> None:
        self.store.put(f"jobs/j1/attempts/{attempt}/log/{chunk:06d}", text.encode())

    def output(self, name: str, data: bytes = b"x") -> None:
        self.store.put(f"jobs/j1/outputs/{name}", data)

    def mirror(self) -> Mirrored:
        self.store.reads.clear()
        return self.delivery.mirror("j1", "train")

    @property
    def done(self) -> Path:
        return self.folder / "done" / "train-j1"

    @property
    def text(self) -> str:
        return (self.done / "log.txt").read_text()


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def test_outputs_and_log_appear_and_only_what_is_new_is_read(site: Site) -> None:
    site.output("runs/a/events.1")
    site.log(0, 0, "one\n")
    site.store.put("jobs/j1/attempts/0/status.json", b"{}")
    assert site.mirror() == Mirrored(outputs=1, log_chunks=1)
    assert (site.done / "outputs" / "runs" / "a" / "events.1").read_bytes() == b"x"
    assert site.text == "one\n"
    assert site.mirror() == Mirrored()
    assert site.store.reads == []
    site.log(0, 1, "two\n")
    site.output("metrics.json")
    assert site.mirror() == Mirrored(outputs=1, log_chunks=1)
    assert site.store.reads == ["jobs/j1/outputs/metrics.json", "jobs/j1/attempts/0/log/000001"]
    assert site.text == "one\ntwo\n"


def test_an_output_that_changed_is_read_again(site: Site) -> None:
    site.output("a", b"1")
    site.mirror()
    site.output("a", b"22")  # in the same instant
    assert site.mirror().outputs == 1
    site.clock.advance(1)
    site.output("a", b"2")
    assert site.mirror().outputs == 1
    assert (site.done / "outputs" / "a").read_bytes() == b"2"
    assert (site.done / "outputs" / "a").stat().st_mtime == pytest.approx(site.clock.now().timestamp(), abs=1e-3)


def test_a_restart_reads_no_output_again_and_the_log_once(site: Site) -> None:
    site.output("a")
    for number in range(12):
        site.log(0, number, f"{number}\n")
    site.mirror()
    site.restart()
    assert site.mirror() == Mirrored(log_chunks=12)
    assert site.text == "".join(f"{n}\n" for n in range(12))
    assert site.mirror() == Mirrored()


def test_last_words_of_an_earlier_attempt_go_where_they_belong(site: Site) -> None:
    site.log(0, 0, "first\n")
    site.log(1, 0, "second\n")
    site.mirror()
    site.log(0, 1, "late\n")
    site.log(10, 0, "tenth\n")
    site.mirror()
    assert site.text == "first\nlate\nsecond\ntenth\n"


def test_a_log_that_failed_half_way_is_whole_the_next_time(site: Site) -> None:
    site.log(0, 0, "one\n")
    site.mirror()
    site.log(0, 1, "two\n")
    site.log(0, 2, "three\n")
    site.store.broken = "jobs/j1/attempts/0/log/000002"
    with pytest.raises(StoreError):
        site.mirror()
    site.store.broken = ""
    site.mirror()
    assert site.text == "one\ntwo\nthree\n"


def test_one_output_that_cannot_be_written_stops_no_other(site: Site) -> None:
    site.output("a")
    site.output("a/b")
    site.output("x" * 300)
    site.output("z")
    assert site.mirror() == Mirrored(outputs=2, failed=("a/b", "x" * 300))
    assert (site.done / "outputs" / "z").exists()


@pytest.mark.parametrize("name", ["../../../evil", "/evil", "a//b", "a/../../b", "a/\0"])
def test_keys_of_a_hostile_machine_lead_nowhere(site: Site, tmp_path: Path, name: str) -> None:
    key = f"jobs/j1/outputs/{name}"
    site.store._objects[key] = (b"x", ObjectInfo(key, 1, site.clock.now()))
    assert site.mirror().failed == (name,)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_a_status_is_written_when_it_changes(site: Site) -> None:
    job = {"id": "j1", "name": "train", "user": "", "state": "running", "note": "训练"}
    site.delivery.status(job)
    path = site.done / "status.json"
    assert json.loads(path.read_text()) == job
    before = path.stat().st_ino
    site.delivery.status(job)
    assert path.stat().st_ino == before
    site.delivery.status(job | {"state": "succeeded"})
    assert json.loads(path.read_text())["state"] == "succeeded"
    site.delivery.forget("j1")
    assert [path.name for path in site.done.iterdir()] == ["status.json"]


@pytest.mark.parametrize(
    ("name", "folder"), [("a/../b", "a-..-b-j1"), ("..", "-j1"), ("训练 1", "训练-1-j1"), ("x" * 99, "x" * 60 + "-j1")]
)
def test_a_jobs_folder_is_beside_the_others_whatever_its_name(site: Site, name: str, folder: str) -> None:
    assert site.delivery.folder("j1", name) == site.folder / "done" / folder


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may do this")
def test_the_owner_and_nobody_else_may_read_it(site: Site) -> None:
    user = pwd.getpwnam("nobody")
    site.output("runs/a")
    site.mirror()
    site.delivery.status({"id": "j1", "name": "train", "user": "nobody"})
    found = site.done.stat()
    assert (found.st_uid, found.st_gid, found.st_mode & 0o777) == (0, user.pw_gid, 0o750)
    assert (site.done / "outputs" / "runs" / "a").stat().st_mode & 0o004
    site.delivery.status({"id": "j1", "name": "train", "user": "12345"})  # a user without a name: as it was
    assert site.done.stat().st_gid == user.pw_gid


def test_times_to_the_microsecond_are_the_same_version(site: Site) -> None:
    site.clock.advance(timedelta(microseconds=123_457).total_seconds())
    site.output("a")
    assert [site.mirror().outputs for _ in range(3)] == [1, 0, 0]
