"""The code of a job: what is packed, under which rules, and that the same files are the same code."""

import io
import os
import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from daemon.inbox import Claimed
from daemon.inbox.ignore import Ignored
from daemon.inbox.pack import pack
from daemon.inbox.safe_read import NotTaken, open_folder
from daemon.inbox.walk import walk
from tests.daemon.inbox_site import JOB, Site


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path, largest_code="1MB")


def files(site: Site, claimed: Claimed) -> list[str]:
    with tarfile.open(fileobj=io.BytesIO(site.store.get(claimed.code_key))) as tar:
        return sorted(tar.getnames())


def packed(folder: Path, target: Path, largest: int = 1 << 20) -> str:
    descriptor = open_folder(folder)
    try:
        return pack(descriptor, target, largest, os.getuid())
    finally:
        os.close(descriptor)


def test_a_folder_is_one_job_and_its_own_code(site: Site) -> None:
    site.put("my exp.v2/job.yaml", "run: python train.py\n")
    site.put("my exp.v2/train.py", "print()")
    [claimed] = site.take()
    assert (claimed.source, claimed.specs[0].name) == ("my exp.v2", "my exp.v2")
    assert claimed.code_key == f"code/{claimed.code_sha256}.tar.gz"
    assert files(site, claimed) == ["job.yaml", "train.py"]
    assert site.names("accepted") == ["j0-my exp.v2"]


@pytest.mark.parametrize("job_file", ["job.yml", "job.toml", "job.json", "job.sh"])
def test_the_job_file_of_a_folder_may_be_in_any_format(site: Site, job_file: str) -> None:
    site.put(f"a/{job_file}", {"job.toml": "run='x'", "job.json": '{"run":"x"}'}.get(job_file, "run: x"))
    assert site.take()[0].specs[0].name == "a"


def test_a_folder_may_name_a_part_of_itself(site: Site) -> None:
    site.put("a/job.yaml", "run: x\nworkdir: src\n")
    site.put("a/src/train.py", "1")
    site.put("a/data.bin", "1")
    assert files(site, site.take()[0]) == ["train.py"]


@pytest.mark.parametrize("root", ["", "exp/", "./"])
@pytest.mark.parametrize("ending", [".tar.gz", ".TGZ"])
def test_an_archive_is_one_job(site: Site, tmp_path: Path, root: str, ending: str) -> None:
    site.put(".draft", "")
    with tarfile.open(site.folder / ".draft", "w:gz") as tar:
        for name, text in (("job.yaml", JOB), ("lib/net.py", "1")):
            (tmp_path / "file").write_text(text)
            tar.add(tmp_path / "file", root + name)
    (site.folder / ".draft").rename(site.folder / f"digits{ending}")
    [claimed] = site.take()
    assert (claimed.specs[0].name, files(site, claimed)) == ("digits", ["job.yaml", "lib/net.py"])


def test_the_workdir_beside_a_file_is_copied_and_stays(site: Site) -> None:
    site.put("train/net.py", "1")
    for name in ("a.yaml", "b.yaml"):
        site.put(name, f"run: x # {name}\nworkdir: ./train\n")
    first, second = site.take()
    assert files(site, first) == ["net.py"]
    assert first.code_key == second.code_key
    assert len(list(site.store.list(""))) == 1
    assert (site.folder / "train" / "net.py").exists()
    assert site.take() == []  # a folder without a job file is nobody's job


def test_the_jobs_of_a_matrix_share_one_workdir(site: Site) -> None:
    site.put("x/a.py", "1")
    site.put("a.yaml", "run: x\nworkdir: ${{ matrix.w }}\nmatrix: {w: [x, y]}\n")
    assert "`workdir` must be the same" in site.refusal()
    site.put("b.yaml", "run: x\nworkdir: x\nmatrix: {w: [1, 2]}\n")
    [claimed] = site.take()
    assert [spec.name for spec in claimed.specs] == ["b-1", "b-2"]


def test_code_that_is_too_large_names_the_largest_files(site: Site) -> None:
    site.put("a/job.yaml")
    for number in range(1, 8):
        site.put(f"a/w{number}.bin", b"x" * number * 100_000)
    text = site.refusal()
    assert "its code has 2.7MB, and 1MB is the most" in text
    assert "w7.bin (683.6KB), w6.bin (585.9KB), w5.bin (488.3KB), w4.bin (390.6KB), w3.bin (293KB)" in text
    assert "w2.bin" not in text


# ---------------------------------------------------------------- the same files, the same bytes


def test_times_owners_and_order_do_not_matter(tmp_path: Path) -> None:
    for name, order in (("a", "xyz"), ("b", "zyx")):
        for letter in order:
            path = tmp_path / name / letter / "f.py"
            path.parent.mkdir(parents=True)
            path.write_text(letter)
    os.utime(tmp_path / "b" / "x" / "f.py", (1, 1))
    assert packed(tmp_path / "a", tmp_path / "1") == packed(tmp_path / "b", tmp_path / "2")
    assert (tmp_path / "1").read_bytes() == (tmp_path / "2").read_bytes()
    assert (tmp_path / "1").read_bytes()[4:8] == bytes(4)  # gzip's own time
    (tmp_path / "b" / "x" / "f.py").chmod(0o755)
    assert packed(tmp_path / "a", tmp_path / "1") != packed(tmp_path / "b", tmp_path / "2")


def test_a_file_that_changes_while_it_is_packed_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a").mkdir()
    path = tmp_path / "a" / "log.txt"
    path.write_text("x" * 1000)
    real = tarfile.TarFile.addfile

    lengths = [5, 1000, 5000]

    def addfile(self: tarfile.TarFile, info: tarfile.TarInfo, file: io.BytesIO | None = None) -> None:
        path.write_text("y" * lengths.pop())
        real(self, info, file)

    monkeypatch.setattr(tarfile.TarFile, "addfile", addfile)
    while lengths:
        path.write_text("x" * 1000)
        os.utime(path, (1, 1))
        with pytest.raises(NotTaken, match=r"`log.txt` changed while it was packed"):
            packed(tmp_path / "a", tmp_path / "1")


# ---------------------------------------------------------------- what is left out


def kept(folder: Path) -> set[str]:
    descriptor = open_folder(folder)
    try:
        return {entry.path for entry in walk(descriptor, Ignored())}
    finally:
        os.close(descriptor)


def fill(folder: Path, texts: dict[str, str]) -> None:
    for name, text in texts.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


def test_caches_and_git_are_never_code(tmp_path: Path) -> None:
    fill(
        tmp_path,
        {".git/config": "", "a/__pycache__/x.pyc": "", "b.pyc": "", ".venv/bin/python": "", "a/b.py": "", ".env": ""},
    )
    assert kept(tmp_path) == {"a/b.py", ".env"}


def test_frugaldignore_comes_after_gitignore_and_the_nearest_file_decides(tmp_path: Path) -> None:
    fill(tmp_path, {
        ".gitignore": "*.log\n/data\n*.bin\n", ".frugaldignore": "!keep.bin\nbig/\n", "a.log": "", "keep.bin": "", "x.bin": "",
        "data/x": "", "sub/data/x": "", "big/x": "", "sub/big/x": "", "sub/.gitignore": "!a.log\nb.py\n", "sub/a.log": "",
        "sub/b.py": "", "sub/c.log": "",
    })  # fmt: skip
    assert kept(tmp_path) == {".gitignore", ".frugaldignore", "keep.bin", "sub/data/x", "sub/.gitignore", "sub/a.log"}


def test_an_ignore_file_that_is_a_link_is_not_read(tmp_path: Path) -> None:
    fill(tmp_path, {"rules": "*.py", "a/x.py": ""})
    (tmp_path / "a" / ".gitignore").symlink_to("../rules")
    assert kept(tmp_path / "a") == {".gitignore", "x.py"}


PATTERNS = st.sampled_from(
    [
        "*.py",
        "/a",
        "b/",
        "!c.py",
        "a/*",
        "**/c",
        "c.p?",
        "[ab].py",
        "#x",
        "\\!b",
        " ",
        "a/**/b",
        "!/a/b.py",
        "*",
        "!*/",
        "a/**",
        "b/**/",
        "[!a].py",
        "[^c]*",
        "!b",
        "a",
        "c ",
        "c.py\\ ",
        "/**/c.py",
        "?",
        "**",
    ]
)
NAMES = ["a.py", "b.py", "c.py", "a/b.py", "a/c.py", "a/b/c.py", "b/a.py", "b/c/a", "c/c", "a/a/b"]


@pytest.mark.skipif(shutil.which("git") is None, reason="git is what it is compared with")
@given(st.lists(PATTERNS, max_size=4), st.lists(PATTERNS, max_size=3))
@settings(max_examples=60, deadline=None)
def test_the_rules_are_gits(tmp_path_factory: pytest.TempPathFactory, above: list[str], below: list[str]) -> None:
    folder = tmp_path_factory.mktemp("repo")
    fill(folder, dict.fromkeys([name for name in NAMES if name not in {"a/b", "b/c"}], "1"))
    fill(folder, {".gitignore": "\n".join(above), "a/.gitignore": "\n".join(below)})
    environment = {**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null"}
    subprocess.run(["git", "init", "-q", folder], check=True, env=environment)
    listed = subprocess.run(
        ["git", "-C", folder, "ls-files", "--others", "--exclude-standard"],
        check=True,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert kept(folder) == set(listed.stdout.split())
