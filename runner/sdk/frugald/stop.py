"""The stop signal: noted when it comes, looked at between steps."""

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class StopSignal:
    """Remembers that this process was asked to stop; by SIGTERM, or the signal named in $FRUGALD_CHECKPOINT_SIGNAL."""

    def __init__(self) -> None:
        """Listen to nothing yet."""
        self.came = False

    def listen(self) -> None:
        """Note the signals from now on. Outside the main thread Python allows no handler, and notices must do."""
        if threading.current_thread() is threading.main_thread():
            for number in _signals():
                signal.signal(number, self._note)

    def _note(self, number: int, frame: FrameType | None) -> None:
        del number, frame
        self.came = True


@contextmanager
def workers_spared() -> Iterator[None]:
    """Start workers in here that a stop signal to the whole process group doesn't reach.

    torch's workers end on SIGTERM at once, and with them the step that should be saved; they also end with their loader.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _signals())
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _signals() -> set[signal.Signals]:
    name = os.environ.get("FRUGALD_CHECKPOINT_SIGNAL", "SIGTERM")
    try:
        return {signal.SIGTERM, signal.Signals[name]}
    except KeyError as error:
        raise ValueError(f"FRUGALD_CHECKPOINT_SIGNAL is {name!r}, which is no signal: write it like SIGUSR1") from error
