"""`frugald serve` as a process: it starts, answers, stops on SIGTERM, at once on a second one; Ctrl-C leaves nothing."""

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from config.clock import SystemClock
from daemon.client import Client, Unreachable
from daemon.demo.setting import DaemonProcess, write_settings

CLOCK = SystemClock()


def wait_until(true: Callable[[], object], seconds: float = 30) -> None:
    began = CLOCK.monotonic()
    while not true():
        assert CLOCK.monotonic() - began < seconds, "it did not come to be in time"
        CLOCK.wait(threading.Event(), 0.05)


def answers(folder: Path) -> bool:
    if not (folder / "frugald.sock").exists():
        return False
    client = Client(folder / "frugald.sock")
    try:
        return bool(client.get("/status")["install"])
    except Unreachable:
        return False
    finally:
        client.close()


def processes_of(folder: Path) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and int(entry.name) != os.getpid():
                text = entry.joinpath("cmdline").read_bytes() + entry.joinpath("environ").read_bytes()
                found += [int(entry.name)] if str(folder).encode() in text else []
        except OSError:
            continue
    return found


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[DaemonProcess]:
    process = DaemonProcess(write_settings(tmp_path, []))
    process.start()
    wait_until(lambda: answers(tmp_path))
    yield process
    process.stop()


def test_it_ends_in_order_on_sigterm(daemon: DaemonProcess, tmp_path: Path) -> None:
    assert daemon.process is not None
    daemon.process.send_signal(signal.SIGTERM)
    assert daemon.process.wait(20) == 0
    assert not (tmp_path / "frugald.sock").exists()


def test_a_second_daemon_is_refused_with_a_sentence(daemon: DaemonProcess, tmp_path: Path) -> None:
    second = subprocess.run(
        [sys.executable, "-P", "-m", "daemon.cli", "--config", str(daemon.config), "serve"],
        check=False,
        capture_output=True,
        text=True,
        timeout=30,
    )
    assert second.returncode == 1
    assert "already runs" in second.stderr


def test_a_second_sigterm_stops_at_once(tmp_path: Path) -> None:
    """The control thread is kept busy, so that the first signal alone can't end it."""
    config = write_settings(tmp_path, [])
    script = (
        "import os, threading\nfrom pathlib import Path\nfrom config.load import load_settings\nfrom daemon.main import serve\n"
        f"serve(load_settings(Path({str(config)!r}), {{}}), ready=lambda d: d.control.post(threading.Event().wait))\n"
    )
    process = subprocess.Popen([sys.executable, "-P", "-c", script], stderr=subprocess.DEVNULL)
    wait_until(lambda: answers(tmp_path))
    process.send_signal(signal.SIGTERM)
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(1)
    process.send_signal(signal.SIGTERM)
    assert process.wait(5) == 130


def test_bad_settings_end_with_78_and_every_error(tmp_path: Path) -> None:
    config = tmp_path / "frugald.toml"
    config.write_text('[lease]\nlenght = "5m"\nshortest = "x"\n')
    run = subprocess.run(
        [sys.executable, "-P", "-m", "daemon.cli", "--config", str(config), "serve"],
        check=False,
        capture_output=True,
        text=True,
        timeout=30,
    )
    assert run.returncode == 78
    assert "did you mean" in run.stderr
    assert ":3:" in run.stderr


@pytest.mark.slow
def test_ctrl_c_in_the_demo_leaves_no_process(tmp_path: Path) -> None:
    demo = subprocess.Popen(
        [sys.executable, "-P", "-m", "daemon.cli", "demo", "--folder", str(tmp_path / "demo")],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert demo.stdout is not None
    for line in demo.stdout:
        if "started on" in line:  # a training runs on a machine
            break
    demo.send_signal(signal.SIGINT)
    assert demo.wait(40) == 130
    demo.stdout.close()
    assert processes_of(tmp_path) == []


@pytest.mark.slow
def test_the_demo_does_what_it_promises(tmp_path: Path) -> None:
    """The whole of it, with real torch: what `make demo` shows on a fresh machine."""
    run = subprocess.run(
        [sys.executable, "-P", "-m", "daemon.cli", "demo", "--folder", str(tmp_path / "demo")],
        check=False,
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    found = json.loads(run.stdout.splitlines()[-1])["demo"]
    digits, sweep = found["jobs"]
    assert (digits["state"], digits["interruptions"], digits["attempts"], digits["final_step"]) == (
        "succeeded",
        1,
        2,
        1080,
    )
    assert digits["accuracy"] > 0.95
    assert 0 < digits["resumed_from_step"] < 1080
    assert 0 < digits["cost_usd"] < digits["on_demand_usd"]
    assert (sweep["state"], sweep["attempts"]) == ("succeeded", 2)
    assert sweep["resumed_from_step"] > 0
    assert found["webhooks"]["sent"] == found["webhooks"]["delivered"] > 0
    assert found["webhooks"]["signature_valid"] is True
    assert found["leaked_machines"] == 0
    for percent in ("50 %", "80 %"):
        assert percent in run.stdout
    assert "is used up" in run.stdout
    assert processes_of(tmp_path) == []
