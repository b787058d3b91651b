"""`submit_file`: what the daemon finds is what was meant, whole, and under a name of its own."""

import os
import threading
from pathlib import Path

import pytest

from daemon.inbox import submit_file
from tests.daemon.inbox_site import JOB, Site
from tests.daemon.test_inbox_code import files, fill


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "home").mkdir()
    return tmp_path / "home"


def test_a_plain_file_is_copied(site: Site, home: Path) -> None:
    (home / "a.yaml").write_text(JOB)
    assert submit_file(site.folder, home / "a.yaml") == site.folder / "a.yaml"
    assert site.names() == ["a.yaml", "accepted", "done", "rejected"]
    assert (home / "a.yaml").read_text() == JOB
    assert [one.source for one in site.take()] == ["a.yaml"]


def test_a_name_that_is_taken_gets_a_number(site: Site, home: Path) -> None:
    for name in ("a.yaml", "b.tar.gz"):
        (home / name).write_bytes(b"x")
        names = [submit_file(site.folder, home / name).name for _ in range(3)]
        stem, dot, ending = name.partition(".")
        assert names == [name, f"{stem}-2{dot}{ending}", f"{stem}-3{dot}{ending}"]


def test_many_at_once_lose_nothing(site: Site, home: Path) -> None:
    (home / "a.yaml").write_text(JOB)
    names: list[str] = []
    threads = [
        threading.Thread(target=lambda: names.append(submit_file(site.folder, home / "a.yaml").name)) for _ in range(20)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(names)) == 20
    assert {(site.folder / name).read_text() for name in names} == {JOB}


def test_a_job_file_brings_its_workdir_along(site: Site, home: Path) -> None:
    fill(home, {"exp/train.yaml": "run: x\nworkdir: .\n", "exp/train.py": "1", "exp/job.yaml": "run: other", "exp/.gitignore": "*.log",
                "exp/a.log": "1", "elsewhere": "1"})  # fmt: skip
    assert submit_file(site.folder, home / "exp" / "train.yaml").name == "train.tar.gz"
    [claimed] = site.take()
    assert (claimed.specs[0].name, claimed.specs[0].run) == ("train", "x")
    assert files(site, claimed) == [".gitignore", "job.yaml", "train.py", "train.yaml"]


def test_a_part_of_the_folder_keeps_its_place(site: Site, home: Path) -> None:
    fill(home, {"exp/job.toml": "run='x'\nworkdir='src/net'", "exp/src/net/train.py": "1", "exp/src/big": "1"})
    assert submit_file(site.folder, home / "exp" / "job.toml").name == "exp.tar.gz"
    [claimed] = site.take()
    assert (claimed.specs[0].name, files(site, claimed)) == ("exp", ["train.py"])


def test_a_folder_is_packed(site: Site, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(home, {"exp/job.sh": "#FRUGALD --gpus=2\npython x", "exp/lib/a.py": "1", "exp/.gitignore": "job.sh"})
    monkeypatch.chdir(home / "exp")
    assert submit_file(site.folder, Path()).name == "exp.tar.gz"
    [claimed] = site.take()
    assert (claimed.specs[0].name, claimed.specs[0].resources.gpus) == ("exp", 2)
    assert files(site, claimed) == [".gitignore", "lib/a.py"]


def test_a_folder_that_is_dropped_and_one_that_is_submitted_are_the_same_job(site: Site, home: Path) -> None:
    fill(home, {"exp/job.yaml": JOB, "exp/lib/a.py": "1"})
    fill(site.folder, {"exp/job.yaml": JOB, "exp/lib/a.py": "1"})
    submit_file(site.folder, home / "exp")
    first, second = site.take()
    assert first.content_key == second.content_key


def test_a_folder_without_a_job_is_refused(site: Site, home: Path) -> None:
    with pytest.raises(FileNotFoundError, match="holds no job file: one of job"):
        submit_file(site.folder, home)
    assert list(site.folder.glob(".*.tmp")) == []


def test_a_wrong_file_is_for_the_daemon_to_judge(site: Site, home: Path) -> None:
    (home / "a.yaml").write_text("run: [")
    submit_file(site.folder, home / "a.yaml")
    assert "not YAML" in site.refusal()


def test_what_fails_leaves_nothing_behind(site: Site, home: Path) -> None:
    fill(home, {"job.yaml": "run: x\nworkdir: none\n"})
    with pytest.raises(FileNotFoundError):
        submit_file(site.folder, home / "job.yaml")
    assert {path.name for path in site.folder.iterdir()} == {".claimed", "accepted", "done", "rejected"}


def test_nothing_is_seen_before_it_is_whole(site: Site, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[list[str]] = []
    real = os.fsync

    def fsync(descriptor: int) -> None:
        seen.append(site.names())
        real(descriptor)

    (home / "a.yaml").write_text(JOB)
    monkeypatch.setattr("daemon.inbox.drop.os.fsync", fsync)
    submit_file(site.folder, home / "a.yaml")
    ours = ["accepted", "done", "rejected"]
    assert seen == [ours, ["a.yaml", *ours]]  # the file, then the folder that holds its name
