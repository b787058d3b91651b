import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from runner.store import Missing, Store, StoreError, open_store
from runner.store.keys import read, spell
from tests.runner.store.contract import AWKWARD, StoreContract

_REWRITE = """
import sys
from runner.store import open_store
store = open_store(sys.argv[1])
versions = [letter * 2_000_000 for letter in (b"A", b"B")]
print("ready", flush=True)
while True:
    for version in versions:
        store.put("key", version)
"""


class TestFileStore(StoreContract):
    @pytest.fixture
    def store(self, tmp_path_factory: pytest.TempPathFactory) -> Store:
        return open_store(f"file://{tmp_path_factory.mktemp('store')}")


def test_another_process_opens_the_same_store_by_its_url(tmp_path: Path) -> None:
    store = open_store(f"file://{tmp_path}/a folder%20#1?")
    store.put("jobs/7/spec.json", b"{}")
    told = subprocess.run(
        [sys.executable, "-c", "import sys; from runner.store import open_store; print(open_store(sys.argv[1]).get('jobs/7/spec.json'))", store.url],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert told.stdout.strip() == "b'{}'"


def test_a_plain_key_is_a_plain_file(tmp_path: Path) -> None:
    open_store(f"file://{tmp_path}").put("jobs/7/outputs/loss.csv", b"1,2\n")
    assert (tmp_path / "jobs/7/outputs/loss.csv").read_bytes() == b"1,2\n"


@pytest.mark.parametrize("puts", range(5))
def test_a_writer_killed_at_any_moment_leaves_one_whole_object(tmp_path: Path, puts: int) -> None:
    store = open_store(f"file://{tmp_path}")
    store.put("key", b"first")
    writer = subprocess.Popen([sys.executable, "-c", _REWRITE, store.url], stdout=subprocess.PIPE)
    assert writer.stdout is not None
    with writer, writer.stdout as told:
        assert told.readline() == b"ready\n"
        for _ in range(20 * puts):  # another moment each time: so long as it takes to read the object so often
            store.get("key")
        os.kill(writer.pid, signal.SIGKILL)
    assert store.get("key") in {b"first", b"A" * 2_000_000, b"B" * 2_000_000}
    assert [info.key for info in store.list("")] == ["key"]
    store.put("key", b"after")
    assert store.get("key") == b"after"


def test_what_a_killed_writer_left_behind_is_never_shown(tmp_path: Path) -> None:
    store = open_store(f"file://{tmp_path}")
    (tmp_path / "jobs").mkdir()
    (tmp_path / "jobs" / "spec.json#1").write_bytes(b"half")
    assert list(store.list("")) == []
    store.put("jobs/spec.json", b"whole")
    assert [info.key for info in store.list("")] == ["jobs/spec.json"]


def test_a_store_whose_folder_cannot_be_made_says_so(tmp_path: Path) -> None:
    (tmp_path / "taken").write_bytes(b"")
    with pytest.raises(StoreError, match="taken"):
        open_store(f"file://{tmp_path}/taken/store").put("key", b"x")


def test_a_key_below_an_object_is_refused_and_not_missing(tmp_path: Path) -> None:
    store = open_store(f"file://{tmp_path}")
    store.put("a", b"x")
    with pytest.raises(StoreError, match="can't write 'a/b'") as caught:
        store.put("a/b", b"y")
    assert not isinstance(caught.value, Missing)
    assert "Debug source" not in str(caught.value)


@pytest.mark.parametrize(
    ("url", "options", "says"),
    [
        ("s4://bucket/x", None, "must start with file:// or memory://"),
        ("/var/lib/store", None, "must start with"),
        ("", None, "must start with"),
        ("file://host/folder", None, "absolute folder"),
        ("file://", None, "absolute folder"),
        ("memory://name", None, "memory://"),
        ("file:///tmp/x", {"region": "eu"}, "takes no options: remove region"),
    ],
)
def test_a_url_that_opens_nothing_says_what_to_write(url: str, options: dict[str, str] | None, says: str) -> None:
    with pytest.raises(StoreError, match=says):
        open_store(url, options)


@pytest.mark.parametrize("name", AWKWARD)
def test_spelling_is_taken_back(name: str) -> None:
    assert read(spell(name)) == name
    assert not set(spell(name)) & set("#\n\t")
