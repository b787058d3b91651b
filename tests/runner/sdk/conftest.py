import signal
from collections.abc import Iterator

import pytest
import torch


@pytest.fixture(autouse=True)
def signals_stay() -> Iterator[None]:
    """Take back what a run does to this process."""
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGUSR1)}
    yield
    for number, action in before.items():
        signal.signal(number, action)


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """The number of threads changes the last bits."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(autouse=True)
def no_frugald_around(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CHECKPOINT_DIR", "CHECKPOINT_INTERVAL", "CHECKPOINT_SIGNAL", "NOTICE_FILE", "PROGRESS_FILE"):
        monkeypatch.delenv(f"FRUGALD_{name}", raising=False)
    for name in ("RANK", "WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
