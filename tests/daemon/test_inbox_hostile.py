"""Drops that want to do harm: each is refused with a sentence, and the next file gets its turn."""

import io
import os
import socket
import stat
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from daemon.inbox import Claimed, Refused, safe_read
from daemon.inbox.safe_read import NotTaken, being_written, open_folder, read_safely
from daemon.inbox.walk import Everything, walk
from tests.daemon.inbox_site import JOB, Site

ROOT = os.geteuid() == 0
as_root = pytest.mark.skipif(not ROOT, reason="only root may do this")


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path, largest_code="1MB")


def refused_beside_a_good_one(site: Site) -> str:
    """Return why the bad drop is refused; a good one beside it must be taken in the same scan."""
    site.put("good.yaml")
    found = site.scan()
    [good] = [one for one in found if isinstance(one, Claimed)]
    [bad] = [one for one in found if isinstance(one, Refused)]
    assert good.source == "good.yaml"
    site.inbox.accept(good, ["j1"])
    errors = [path for path in (site.folder / "rejected").iterdir() if path.name.endswith(".error.txt")]
    assert [path.read_text().startswith(bad.text) for path in errors] == [True]
    assert site.scan() == []
    return bad.text


# ---------------------------------------------------------------- kinds of files


def test_a_symbolic_link(site: Site) -> None:
    (site.folder / "a.yaml").symlink_to("/etc/passwd")
    assert "symbolic link" in refused_beside_a_good_one(site)
    assert (site.folder / "rejected" / "a.yaml").is_symlink()


def test_a_link_to_a_folder(site: Site, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "job.yaml").write_text(JOB)
    (site.folder / "a").symlink_to(tmp_path / "outside")
    assert "symbolic link" in refused_beside_a_good_one(site)


def test_a_pipe_without_a_writer(site: Site) -> None:
    os.mkfifo(site.folder / "a.yaml")
    assert "it is a pipe" in refused_beside_a_good_one(site)


def test_a_socket(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(site.folder)  # a socket's whole path must be short
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("a.yaml")
        assert "it is a socket" in refused_beside_a_good_one(site)


@as_root
@pytest.mark.parametrize("kind", [stat.S_IFCHR, stat.S_IFBLK])
def test_a_device(site: Site, kind: int) -> None:
    try:
        os.mknod(site.folder / "a.yaml", 0o600 | kind, os.makedev(1, 5))
    except PermissionError:
        pytest.skip("no devices can be made here")
    assert "it is a device" in refused_beside_a_good_one(site)


def test_a_hard_link(site: Site, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text(JOB)
    (site.folder / "a.yaml").hardlink_to(tmp_path / "secret")
    assert "second name" in refused_beside_a_good_one(site)


def test_a_sparse_file_of_a_tebibyte(site: Site) -> None:
    with (site.folder / "a.yaml").open("wb") as file:
        file.truncate(1 << 40)
    assert "it has 1TB, and a job file may have 256KB" in refused_beside_a_good_one(site)


def test_a_file_of_one_byte_too_many(site: Site) -> None:
    site.put("a.yaml", b"#" * (256 * 1024 + 1))
    assert "may have 256KB" in refused_beside_a_good_one(site)


@pytest.mark.parametrize(
    ("data", "says"),
    [(b"\x00\x01", "not a text file"), (b"run: \xff", "not UTF-8"), (b"", "a job file is a table"),
     (b"a: &a [x]\nb: [*a, *a]\n", "anchors and aliases"), (b"run: x\nworkdir: ../..\n", "inside the job's own folder")],
)  # fmt: skip
def test_bytes_that_are_no_job(site: Site, data: bytes, says: str) -> None:
    site.put("a.yaml", data)
    assert says in refused_beside_a_good_one(site)


@pytest.mark.parametrize("text", [JOB * 2, JOB, ""])
def test_a_file_that_changes_while_it_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    path = tmp_path / "a.yaml"
    path.write_text(JOB)
    os.utime(path, (1, 1))
    real = os.read

    def read(descriptor: int, most: int) -> bytes:
        data = real(descriptor, most)
        if data:
            path.write_text(text)
        return data

    monkeypatch.setattr(os, "read", read)
    with pytest.raises(NotTaken, match="it changed while it was read"):
        read_safely(path, 1000)


def test_a_link_put_in_place_of_a_file_at_the_last_moment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.yaml"
    path.write_text(JOB)
    real = safe_read.refuse_odd

    def refuse_odd(found: os.stat_result) -> None:
        real(found)
        path.unlink()
        path.symlink_to("/etc/passwd")

    monkeypatch.setattr(safe_read, "refuse_odd", refuse_odd)
    with pytest.raises(OSError, match="Too many levels of symbolic links"):
        read_safely(path, 1 << 20)


def test_a_link_put_in_place_of_a_folder_at_the_last_moment(tmp_path: Path) -> None:
    class Swap(Everything):
        def leave_out(self, path: str, *, is_folder: bool) -> bool:
            (tmp_path / "a" / "inner").rmdir()
            (tmp_path / "a" / "inner").symlink_to("/etc")
            return False

    (tmp_path / "a" / "inner").mkdir(parents=True)
    descriptor = open_folder(tmp_path / "a")
    try:
        with pytest.raises(NotADirectoryError):
            list(walk(descriptor, Swap()))
    finally:
        os.close(descriptor)


def test_what_is_no_file_is_not_even_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.mkfifo(tmp_path / "a.yaml")
    monkeypatch.delattr(os, "open")
    with pytest.raises(NotTaken, match="it is a pipe"):
        read_safely(tmp_path / "a.yaml", 1000)


def test_looking_for_writers_hurts_nobody(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_text("x")
    code = "import sys; f = open(sys.argv[1], 'a'); print('open', flush=True); sys.stdin.read()"
    with subprocess.Popen([sys.executable, "-c", code, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as writer:
        assert writer.stdout is not None
        writer.stdout.readline()
        assert being_written(path)
        writer.communicate()
    assert not being_written(path)
    assert not being_written(tmp_path / "none")


@as_root
def test_a_folder_that_may_not_be_moved_is_told_once(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    real = Path.rename

    def rename(self: Path, target: Any) -> Path:
        if self.name == "mine":
            raise PermissionError(1, "Operation not permitted")
        return real(self, target)

    monkeypatch.setattr(Path, "rename", rename)
    site.put("mine/job.yaml")
    assert "frugald may not move it (Operation not permitted)" in refused_beside_a_good_one(site)
    assert (site.folder / "mine" / "job.yaml").exists()


# ---------------------------------------------------------------- folders


def test_links_out_of_a_folder(site: Site) -> None:
    for number, link in enumerate(("/etc/passwd", "../../../etc/passwd", "sub/../../x")):
        site.put(f"{number}/job.yaml")
        (site.folder / str(number) / "data").symlink_to(link)
        assert "`data` is a link that leads out" in site.refusal()


def test_links_inside_a_folder_are_fine(site: Site) -> None:
    site.put("a/job.yaml")
    site.put("a/data/v1/x", "1")
    (site.folder / "a" / "data" / "now").symlink_to("v1")
    (site.folder / "a" / "again").symlink_to("data/now/x")
    [claimed] = site.take()
    assert members(site, claimed) == {"again": "-> data/now/x", "data/now": "-> v1", "data/v1/x": "1", "job.yaml": JOB}


def members(site: Site, claimed: Claimed) -> dict[str, str]:
    with tarfile.open(fileobj=io.BytesIO(site.store.get(claimed.code_key))) as tar:
        return {
            member.name: f"-> {member.linkname}"
            if member.issym()
            else (file.read().decode() if (file := tar.extractfile(member)) else "")
            for member in tar
        }


def test_the_job_file_of_a_folder_is_no_link(site: Site) -> None:
    (site.folder / "a").mkdir()
    (site.folder / "a" / "job.yaml").symlink_to("/etc/passwd")
    assert "symbolic link" in refused_beside_a_good_one(site)


def test_pipes_inside_a_folder(site: Site) -> None:
    site.put("a/job.yaml")
    os.mkfifo(site.folder / "a" / "pipe")
    assert "`pipe` is no plain file" in refused_beside_a_good_one(site)


def test_folders_without_end(site: Site) -> None:
    site.put("a/job.yaml")
    here = os.open(site.folder / "a", os.O_RDONLY)
    for _ in range(1_500):  # deeper than a path can be written down, and than Python calls itself
        os.mkdir("d", dir_fd=here)
        inner = os.open("d", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = inner
    os.close(here)
    assert "more than 50 folders deep" in refused_beside_a_good_one(site)
    subprocess.run(["rm", "-rf", site.folder], check=True)  # pytest's own cleaning would go too deep


def test_a_folder_of_too_many_files(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("daemon.inbox.walk.MOST_FILES", 20)
    site.put("a/job.yaml")
    for number in range(30):
        site.put(f"a/{number}", "")
    assert "more than 20 files" in refused_beside_a_good_one(site)


def test_patterns_that_want_to_take_for_ever(site: Site) -> None:
    site.put("a/job.yaml")
    site.put("a/.gitignore", "*a" * 100 + "b\n" + "**/a/" * 40 + "b\n")
    deep = "a/" * 40
    site.put(f"a/{deep}" + "a" * 200, "")
    [claimed] = site.take()
    assert deep[:-1] + "/" + "a" * 200 in members(site, claimed)


def test_patterns_without_end(site: Site) -> None:
    site.put("a/job.yaml")
    site.put("a/.frugaldignore", "x\n" * 501)
    assert ".frugaldignore has more than 500 lines" in refused_beside_a_good_one(site)


@as_root
def test_what_somebody_else_keeps_private_is_not_packed(site: Site) -> None:
    site.put("a/job.yaml")
    secret = site.put("a/secret", "x")
    os.chown(site.folder / "a", 1234, 1234)
    secret.chmod(0o600)
    assert "`secret` belongs to somebody else" in refused_beside_a_good_one(site)
    site.put("b/job.yaml")
    os.chown(site.folder / "b", 1234, 1234)
    [claimed] = site.take()
    assert claimed.user == "1234"


@pytest.mark.parametrize(
    ("workdir", "says"),
    [(".", "would take the whole drop folder"), ("none", "is no folder here"), ("accepted", "belongs to frugald"),
     (".claimed", "belongs to frugald"), ("done/x", "belongs to frugald"), ("link", "is no folder here"),
     ("link/etc", "is no folder here"), ("good.yaml", "is no folder here")],
)  # fmt: skip
def test_workdirs_that_are_not_beside_the_file(site: Site, workdir: str, says: str) -> None:
    (site.folder / ".link").symlink_to("/")
    (site.folder / ".link").rename(site.folder / "link")
    site.put("a.yaml", f"run: x\nworkdir: {workdir}\n")
    found = [one for one in site.scan() if isinstance(one, Refused) and one.source == "a.yaml"]
    assert [says in one.text for one in found] == [True]


# ---------------------------------------------------------------- archives


def archive(*members: tuple[tarfile.TarInfo, bytes]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as tar:
        for info, data in members:
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return out.getvalue()


def member(name: str, data: bytes = b"", **fields: Any) -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(name)
    for field, value in fields.items():
        setattr(info, field, value)
    return info, data


GOOD = member("job.yaml", JOB.encode())


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (lambda: archive(GOOD, member("../evil", b"x")), "`../evil` leads out"),
        (lambda: archive(GOOD, member("a/../../evil", b"x")), "leads out"),
        (lambda: archive(GOOD, member("l", type=tarfile.SYMTYPE, linkname="/etc/passwd")), "`l` leads out"),
        (lambda: archive(GOOD, member("l", type=tarfile.SYMTYPE, linkname="../../x")), "`l` leads out"),
        (lambda: archive(GOOD, member("l", type=tarfile.LNKTYPE, linkname="../x")), "neither a file nor a folder"),
        (lambda: archive(GOOD, member("l", type=tarfile.LNKTYPE, linkname="none")), "neither a file nor a folder"),
        (lambda: archive(GOOD, member("d", type=tarfile.CHRTYPE)), "`d` is neither"),
        (lambda: archive(GOOD, member("p", type=tarfile.FIFOTYPE)), "`p` is neither"),
        (lambda: archive(GOOD, member("zeros", bytes(2 << 20))), "unpacked it is larger than 1MB"),
        (lambda: archive(GOOD, member("x", pax_headers={"comment": "x" * (3 << 20)})), "larger than a header can be"),
        (lambda: archive(member("train.py", b"x")), "it holds no job file"),
        (lambda: archive(member("job.yaml", b"run: [")), "line 1: not YAML"),
        (lambda: archive(GOOD)[:-20], "can't be unpacked"),
        (lambda: b"run: x\n", "can't be unpacked"),
        (lambda: b"", "can't be unpacked"),
        (lambda: b"\x1f\x8b" + os.urandom(500), "can't be unpacked"),
        (lambda: os.urandom((1 << 20) + 1), "code may have 1MB"),
    ],
)
def test_archives_that_want_out_or_up(site: Site, data: Callable[[], bytes], says: str, tmp_path: Path) -> None:
    site.put("a.tar.gz", data())
    assert says in refused_beside_a_good_one(site)
    assert not list(tmp_path.rglob("evil"))
    assert list((site.folder / ".claimed").iterdir()) == []


def test_an_absolute_name_in_an_archive_stays_inside(site: Site) -> None:
    site.put("a.tar.gz", archive(GOOD, member("/etc/x", b"1")))
    [claimed] = site.take()
    assert members(site, claimed) == {"etc/x": "1", "job.yaml": JOB}


def test_an_archive_of_a_million_names(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("daemon.inbox.unpack.MOST_FILES", 50)
    site.put("a.tar.gz", archive(GOOD, *[member(f"f{n}") for n in range(60)]))
    assert "more than 50 files" in refused_beside_a_good_one(site)


@as_root
def test_the_owner_of_an_archive_is_the_user(site: Site) -> None:
    path = site.put("a.tar.gz", archive(GOOD, member("secret", b"x", mode=0o600, uid=77)))
    os.chown(path, 1234, 1234)
    [claimed] = site.take()
    assert claimed.user == "1234"
