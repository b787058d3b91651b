"""A daemon with the sandbox cloud in a process of its own, started once for all tests of the command line."""

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from daemon.demo.setting import PACE, DaemonProcess, write_settings
from tests.e2e.test_serve import answers, wait_until


@dataclass
class Cli:
    """Runs `frugald` as a user would."""

    folder: Path

    def __call__(self, *words: str, config: str = "frugald.toml") -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-P", "-m", "daemon.cli", "--config", str(self.folder / config), *words]
        return subprocess.run(
            command, check=False, capture_output=True, text=True, timeout=60, env=os.environ | {"COLUMNS": "100"}
        )


@pytest.fixture(scope="session")
def cli(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cli]:
    folder = tmp_path_factory.mktemp("cli")
    daemon = DaemonProcess(write_settings(folder, [], PACE | {"length": "60s", "longest": "60s"}))
    daemon.start()
    wait_until(lambda: answers(folder))
    yield Cli(folder)
    daemon.stop()
    from config.clock import SystemClock
    from config.load import load_settings
    from runner.providers.sandbox import SandboxCloud

    settings = load_settings(folder / "frugald.toml", {})
    SandboxCloud(settings.under_state_dir("sandbox"), settings.clouds.sandbox, "", SystemClock()).destroy_all()
