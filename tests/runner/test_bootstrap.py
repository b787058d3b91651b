"""The agent's bundle, and how a machine gets it."""

import io
import subprocess
import sys
import zipfile
from hashlib import sha256
from pathlib import Path

import pytest

from runner.bootstrap import BundleError, UserData, agent_command, build_bundle, fetch_bundle, publish_bundle, user_data
from runner.store import MemoryStore, StoreError
from tests.fakes.clock import FakeClock


class LateStore(MemoryStore):
    """The first `failures` reads get no answer; counts what is written."""

    def __init__(self, failures: int = 0) -> None:
        super().__init__()
        self.failures = failures
        self.puts = 0

    def put(self, key: str, data: bytes) -> None:
        self.puts += 1
        super().put(key, data)

    def get(self, key: str) -> bytes:
        if self.failures:
            self.failures -= 1
            raise StoreError("no answer")
        return super().get(key)


def test_the_same_sources_make_the_same_bundle() -> None:
    assert build_bundle() == build_bundle()


def test_the_bundle_holds_the_agent_and_nothing_of_the_daemon() -> None:
    names = zipfile.ZipFile(io.BytesIO(build_bundle())).namelist()
    assert {"__main__.py", "config/units.py", "config/clock.py", "runner/__init__.py", "runner/store/base.py"} < set(
        names
    )
    assert "runner/sdk/frugald/__init__.py" in names
    allowed = ("__main__.py", "config/", "runner/__init__.py", "runner/agent/", "runner/store/", "runner/sdk/")
    assert [name for name in names if not name.startswith(allowed)] == []
    assert [name for name in names if not name.endswith(".py")] == []
    assert [name for name in names if name.startswith("config/")] == [
        "config/__init__.py", "config/clock.py", "config/units.py",
    ]  # fmt: skip


def test_a_bundle_is_published_once_under_its_hash() -> None:
    store = LateStore()
    key, digest = publish_bundle(store)
    assert publish_bundle(store) == (key, digest)
    assert store.puts == 1
    assert key == f"agents/{digest}.pyz"
    assert sha256(store.get(key)).hexdigest() == digest


def test_a_bundle_for_s3_carries_the_library_that_reads_it() -> None:
    plain, native = build_bundle(), build_bundle(native=True)
    added = set(zipfile.ZipFile(io.BytesIO(native)).namelist()) - set(zipfile.ZipFile(io.BytesIO(plain)).namelist())
    assert "native/obstore/_obstore.abi3.so" in added
    assert all(name.startswith("native/obstore/") and name.endswith((".py", ".so")) for name in added)
    assert build_bundle(native=True) == native


def test_only_a_store_in_s3_gets_the_library() -> None:
    class Bucket(MemoryStore):
        url = "s3://bucket"

    for store, native in ((MemoryStore(), False), (Bucket(), True)):
        key, _ = publish_bundle(store)
        names = zipfile.ZipFile(io.BytesIO(store.get(key))).namelist()
        assert ("native/obstore/__init__.py" in names) is native


def test_an_unpacked_bundle_opens_s3_without_any_installed_package(tmp_path: Path) -> None:
    zipfile.ZipFile(io.BytesIO(build_bundle(native=True))).extractall(tmp_path)
    code = "import sys; sys.path[:0] = sys.argv[1:]; from runner.store import open_store; print(open_store('s3://bucket/x').url)"
    command = [sys.executable, "-I", "-S", "-c", code, str(tmp_path), str(tmp_path / "native")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("s3://bucket/x\n", "")


def test_an_unpacked_bundle_runs_as_the_agent(tmp_path: Path) -> None:
    zipfile.ZipFile(io.BytesIO(build_bundle(native=True))).extractall(tmp_path)
    command = [sys.executable, "-I", "-S", str(tmp_path), "--help"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert "usage: runner.agent" in done.stdout


def wanted(bundle: bytes) -> UserData:
    return UserData("memory://", "m-1", "agents/x.pyz", sha256(bundle).hexdigest())


def test_a_machine_fetches_what_the_launch_named(tmp_path: Path) -> None:
    store = LateStore()
    store.put("agents/x.pyz", b"the agent")
    assert fetch_bundle(store, wanted(b"the agent"), tmp_path, FakeClock()).read_bytes() == b"the agent"


def test_a_changed_bundle_is_refused(tmp_path: Path) -> None:
    store = LateStore()
    store.put("agents/x.pyz", b"something else")
    with pytest.raises(BundleError, match="the launch named"):
        fetch_bundle(store, wanted(b"the agent"), tmp_path, FakeClock())
    assert list(tmp_path.iterdir()) == []


def test_a_store_that_is_late_is_asked_again_longer_each_time(tmp_path: Path) -> None:
    store, clock = LateStore(failures=3), FakeClock()
    store.put("agents/x.pyz", b"the agent")
    fetch_bundle(store, wanted(b"the agent"), tmp_path, clock)
    assert clock.waits == [0.5, 1.0, 2.0]


def test_a_store_that_stays_away_is_given_up_after_a_minute(tmp_path: Path) -> None:
    clock = FakeClock()
    with pytest.raises(StoreError):
        fetch_bundle(LateStore(failures=100), wanted(b"the agent"), tmp_path, clock)
    assert 60 <= clock.monotonic() < 120


def test_user_data_survives_the_launch_and_stays_small() -> None:
    text = user_data("memory://", "m-1", "agents/x.pyz", sha256(b"the agent").hexdigest())
    assert UserData.from_text(text) == wanted(b"the agent")
    with pytest.raises(ValueError, match="16384"):
        user_data("memory://" + "x" * 20_000, "m-1", "k", "h")


def test_the_agent_gets_the_command_line_it_expects(tmp_path: Path) -> None:
    bundle = tmp_path / "agent.pyz"
    assert agent_command(wanted(b""), bundle, tmp_path, "http://127.0.0.1:9") == [
        sys.executable, "-P", str(bundle), "--store", "memory://", "--machine", "m-1",
        "--folder", str(tmp_path), "--metadata", "http://127.0.0.1:9",
    ]  # fmt: skip
