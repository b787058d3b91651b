"""Claiming: what is taken, when, in which order, and what survives a crash."""

import os
import pwd
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from config.clock import SystemClock
from config.reason import Reason
from daemon.inbox import Claimed, Refused
from daemon.jobfile import Currency, read_job
from runner.store import StoreError
from tests.daemon.inbox_site import JOB, LATER, Site


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def test_a_file_becomes_a_job_and_moves_out_of_the_way(site: Site) -> None:
    site.put("train.yaml")
    [claimed] = site.take(accept=False)
    assert (claimed.source, claimed.specs[0].name, claimed.code_key) == ("train.yaml", "train", "")
    assert claimed.user == pwd.getpwuid(os.getuid()).pw_name
    assert site.names() == ["accepted", "done", "rejected"]
    site.inbox.accept(claimed, ["j1"])
    site.inbox.accept(claimed, ["j1"])
    assert site.names("accepted") == ["j1-train.yaml"]
    assert (site.folder / "accepted" / "j1-train.yaml").read_text() == JOB
    assert site.scan() == []


def test_a_wrong_file_gets_its_reasons_beside_it(site: Site) -> None:
    site.put("train.yaml", "run: x\nresources:\n  gpu_memroy: 3GB\nspice: hot\n")
    text = site.refusal()
    assert (
        text.splitlines()[0]
        == "train.yaml: line 3: resources.gpu_memroy: there is no such word; did you mean `gpu_memory`?"
    )
    assert site.names("rejected") == ["train.yaml", "train.yaml.error.txt"]
    beside = (site.folder / "rejected" / "train.yaml.error.txt").read_text()
    assert beside.startswith(text)
    assert "Correct it and drop it again" in beside


def test_nobodys_file_is_replaced(site: Site) -> None:
    for text in ("run: [", "run: {", "spice: hot"):
        site.put("train.yaml", text)
        site.refusal()
    kept = [path for path in (site.folder / "rejected").iterdir() if path.suffix == ".yaml"]
    assert {path.read_text() for path in kept} == {"run: [", "run: {", "spice: hot"}
    assert len(site.names("rejected")) == 6


def test_somebodys_own_error_file_is_not_replaced_either(site: Site) -> None:
    site.put("train.yaml.error.txt", "mine")
    site.refusal()
    site.put("train.yaml", "run: [")
    site.refusal()
    assert (site.folder / "rejected" / "train.yaml.error.txt").read_text() == "mine"
    assert len(site.names("rejected")) == 4


@pytest.mark.parametrize(
    "name",
    [
        ".hidden.yaml",
        ".x.yaml.tmp",
        "x.yaml.tmp",
        "x.yaml.part",
        "x.yaml~",
        ".x.yaml.swp",
        "x.YAML.PART",
        "x.crdownload",
    ],
)
def test_what_is_on_its_way_is_left_alone(site: Site, name: str) -> None:
    site.put(name)
    assert site.scan() == []
    assert (site.folder / name).exists()


@pytest.mark.parametrize("name", ["notes.txt", "noending", "data.csv", "x.zip", "x.tar", "x.sbatch"])
def test_what_is_no_job_is_refused_with_what_would_be(site: Site, name: str) -> None:
    site.put(name)
    assert "a job file ends in .yaml" in site.refusal() or name.endswith("sbatch")


@pytest.mark.parametrize(
    "name",
    ["训练 🚀.yaml", "a b'c\"d$(x).yaml", "-rf.yaml", "x" * 250 + ".yaml", "好" * 83 + ".yml", "a\nb.yaml", "é.YAML"],
)
def test_any_name_is_fine(site: Site, name: str) -> None:
    site.put(name)
    [claimed] = site.take()
    assert claimed.source.isprintable()
    [kept] = site.names("accepted")
    assert kept.startswith("j0-")
    assert kept.endswith(name[-5:])


def test_a_long_name_can_be_refused_too(site: Site) -> None:
    site.put("x" * 250 + ".yaml", "run: [")
    site.refusal()
    assert len(site.names("rejected")) == 2
    assert site.scan() == []


def test_a_name_that_is_no_text_is_refused(site: Site) -> None:
    Path(os.fsdecode(os.fsencode(site.folder) + b"/\xff\n.yaml")).write_text(JOB)
    assert site.refusal() == "\\udcff\\n.yaml: its name is not UTF-8: rename it"


# ---------------------------------------------------------------- whole or not


def test_a_young_file_waits(site: Site) -> None:
    path = site.put("a.yaml")
    made = datetime.fromtimestamp(path.stat().st_ctime, UTC)
    assert site.scan(made + timedelta(seconds=1)) == []
    assert len(site.scan(made + timedelta(seconds=2.5))) == 1


def test_a_file_with_an_old_time_may_still_be_being_copied(site: Site) -> None:
    path = site.put("a.yaml")
    os.utime(path, (1, 1))
    made = datetime.fromtimestamp(path.stat().st_ctime, UTC)
    assert site.scan(made + timedelta(seconds=1)) == []


def test_a_file_that_grows_waits_until_it_keeps_still(site: Site) -> None:
    long_ago = datetime(2020, 1, 1, tzinfo=UTC)  # this clock never says that the file is old
    path = site.put("a.yaml", "run: |\n  one\n")
    for second in range(0, 20, 2):
        with path.open("a") as file:
            file.write("  more\n")
        assert site.scan(long_ago + timedelta(seconds=second)) == []
    [claimed] = site.scan(long_ago + timedelta(seconds=20))
    assert isinstance(claimed, Claimed)
    assert claimed.specs[0].run.count("more") == 10


def test_a_file_from_the_future_is_taken_once_it_keeps_still(site: Site) -> None:
    path = site.put("a.yaml")
    os.utime(path, (4_200_000_000, 4_200_000_000))
    now = SystemClock().now()
    assert len(site.seen_twice(now, timedelta(seconds=2))) == 1


def test_a_file_that_is_still_open_for_writing_waits_however_old_it_is(site: Site) -> None:
    path = site.put("a.yaml", "run: x\n")
    with path.open("a") as file:
        assert site.scan(LATER) == []
        file.write("budget: 3 USD\n")
    [claimed] = site.scan(LATER)
    assert isinstance(claimed, Claimed)
    assert claimed.specs[0].cap is not None


def test_a_folder_that_grows_waits(site: Site) -> None:
    site.put("mine/job.yaml")
    now = datetime(2020, 1, 1, tzinfo=UTC)
    assert site.scan(now) == []
    site.put("mine/deep/below/train.py", "1")
    assert site.scan(now + timedelta(seconds=3)) == []
    assert len(site.scan(now + timedelta(seconds=6))) == 1


def test_the_oldest_come_first_and_only_so_many(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("daemon.inbox.claim.MOST_AT_ONCE", 3)
    for number in (4, 2, 5, 1, 3):
        site.put(f"{number}.yaml", f"run: echo {number}\n")
    assert [[one.source for one in site.take()] for _ in range(3)] == [
        ["4.yaml", "2.yaml", "5.yaml"],
        ["1.yaml", "3.yaml"],
        [],
    ]


# ---------------------------------------------------------------- twice


def test_the_same_file_from_the_same_user_has_the_same_key(site: Site) -> None:
    site.put("a.yaml")
    [first] = site.take()
    site.put("a.yaml")
    [again] = site.take()
    site.put("a.yaml", JOB + "priority: 1\n")
    [other] = site.take()
    assert first.content_key == again.content_key != other.content_key
    assert first.claim != again.claim


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may do this")
def test_the_same_file_from_another_user_is_another_job(site: Site) -> None:
    keys = set()
    for uid in (1, 2):
        os.chown(site.put("a.yaml"), uid, -1)
        keys |= {one.content_key for one in site.take()}
    assert len(keys) == 2


def test_the_same_file_with_other_code_is_another_job(site: Site) -> None:
    keys = []
    for code in ("1", "2", "1"):
        site.put("mine/job.yaml")
        site.put("mine/train.py", code)
        keys += [one.content_key for one in site.take()]
    assert keys[0] == keys[2] != keys[1]
    assert len(list(site.store.list("code/"))) == 2


# ---------------------------------------------------------------- crashes


def test_a_claim_that_was_not_settled_comes_again_as_the_same(site: Site) -> None:
    site.put("mine/job.yaml")
    site.put("b.yaml", "run: [")
    before = site.scan()
    site.restart()
    again = site.scan()
    assert [one for one in before if isinstance(one, Claimed)] == again
    site.inbox.accept(again[0], ["j1"])  # type: ignore[arg-type]
    site.restart()
    assert site.scan() == []
    assert site.names("accepted") == ["j1-mine"]


def test_a_drop_can_be_refused_after_it_was_read(site: Site) -> None:
    site.put("a.yaml")
    [claimed] = site.take(accept=False)
    refused = site.inbox.refuse(claimed, Reason("jobfile.currency", {"currency": "EUR", "ours": "USD"}))
    assert refused.claim == claimed.claim
    assert "no rate is set for EUR" in (site.folder / "rejected" / "a.yaml.error.txt").read_text()
    assert site.scan() == []


def test_what_a_killed_daemon_had_in_hand_is_cleaned_up(site: Site) -> None:
    site.put(".claimed/.c123/unpacked/huge", "x")
    site.restart()
    assert list((site.folder / ".claimed").iterdir()) == []


class BrokenStore:
    """Takes nothing, as long as it is broken."""

    def __init__(self, site: Site) -> None:
        self.inner = site.store
        self.broken = True

    def head(self, key: str) -> object:
        if self.broken:
            raise StoreError("the store is away")
        return self.inner.head(key)

    def put_file(self, key: str, path: Path) -> None:
        self.inner.put_file(key, path)


def test_a_store_that_is_away_is_nobodys_fault(site: Site) -> None:
    store = BrokenStore(site)
    site.inbox._store = store  # type: ignore[assignment]
    site.put("mine/job.yaml")
    with pytest.raises(StoreError):
        site.scan()
    site.put("plain.yaml")
    [plain] = site.scan()  # others go on
    assert isinstance(plain, Claimed)
    site.inbox.accept(plain, ["j1"])
    store.broken = False
    assert [one.source for one in site.take()] == ["mine"]


def test_a_full_disk_is_nobodys_fault(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    site.put("a.yaml")
    with monkeypatch.context() as patch:
        patch.setattr("daemon.inbox.claim.read_drop", full)
        with pytest.raises(OSError, match="No space"):
            site.scan()
    assert len(site.take()) == 1


def test_a_mistake_of_ours_stops_nobody_else(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    def read(data: bytes, *rest: object) -> object:
        if data == b"bad":
            raise ZeroDivisionError("division by zero")
        return real(data, *rest)  # type: ignore[arg-type]

    real = read_job
    monkeypatch.setattr("daemon.inbox.code.read_job", read)
    site.put("a.yaml", "bad")
    site.put("b.yaml")
    refused, claimed = sorted(site.scan(), key=lambda one: one.source)
    assert isinstance(refused, Refused)
    assert "ZeroDivisionError: division by zero" in refused.text
    assert isinstance(claimed, Claimed)


def test_a_link_in_place_of_our_folders_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "drop").mkdir()
    (tmp_path / "drop" / "rejected").symlink_to(tmp_path)
    with pytest.raises(NotADirectoryError, match="rejected is a link"):
        Site(tmp_path)


def test_amounts_are_in_the_currency_of_the_settings(site: Site) -> None:
    site.currency = Currency("CNY", {"USD": 7})
    site.restart()
    site.put("a.yaml", "run: x\nbudget: 2 USD\n")
    [claimed] = site.take()
    assert str(claimed.specs[0].cap) == "¥14.00"


def test_ten_thousand_files_dropped_at_once_are_all_taken(tmp_path: Path) -> None:
    site = Site(tmp_path)
    for number in range(10_000):
        descriptor = os.open(site.folder / f"{number}.yaml", os.O_WRONLY | os.O_CREAT)
        os.write(descriptor, b"run: echo %d\n" % number)
        os.close(descriptor)
    sources: list[str] = []
    while found := site.take():
        assert len(found) <= 500
        sources += [one.source for one in found]
    assert len(sources) == len(set(sources)) == 10_000
    assert site.names() == ["accepted", "done", "rejected"]
