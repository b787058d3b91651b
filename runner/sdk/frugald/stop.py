"""The stop signal: noted when it comes, looked at between steps."""

import os
import signal
import threading
from types import FrameType


class StopSignal:
    """Remembers that this process was asked to stop; SIGTERM, and the signal named in $FRUGALD_CHECKPOINT_SIGNAL."""

    def __init__(self) -> None:
        """Listen to nothing yet."""
        self.came = False
        self._owner = os.getpid()

    def listen(self) -> None:
        """Note the signals from now on. Outside the main thread Python allows no handler, and notices must do."""
        if threading.current_thread() is threading.main_thread():
            for number in _signals():
                signal.signal(number, self._note)

    def _note(self, number: int, frame: FrameType | None) -> None:
        """Set the flag. A worker of a DataLoader has inherited this: it outlives the first signal and not the second.

        The first may have been sent to the whole group, and the batches of the workers are needed up to the save; the
        second comes from the DataLoader's own end.
        """
        del frame
        self.came = True
        if os.getpid() != self._owner:
            signal.signal(number, signal.SIG_DFL)


def _signals() -> set[signal.Signals]:
    name = os.environ.get("FRUGALD_CHECKPOINT_SIGNAL", "SIGTERM")
    try:
        return {signal.SIGTERM, signal.Signals[name]}
    except KeyError as error:
        raise ValueError(f"FRUGALD_CHECKPOINT_SIGNAL is {name!r}, which is no signal: write it like SIGUSR1") from error
