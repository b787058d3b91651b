"""A thread that owns one piece of work and does it again and again."""

import threading
from collections.abc import Callable

from config.clock import Clock

_SLOWEST = 3  # doublings of the period after failures


class Repeated:
    """One round of `work` every `period_s`; later after failures."""

    def __init__(
        self, name: str, work: Callable[[], object], period_s: float, clock: Clock, say: Callable[[str], None]
    ) -> None:
        """Prepare; nothing runs before `start`."""
        self._name = name
        self._work = work
        self._period_s = period_s
        self._clock = clock
        self._say = say
        self._stopping = threading.Event()
        self._woken = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Begin with a first round."""
        self._thread.start()

    def wake(self) -> None:
        """Begin the next round now."""
        self._woken.set()

    def stop(self, until: float) -> bool:
        """Begin no other round; say whether the last one ended before `until` (monotonic seconds)."""
        self._stopping.set()
        self.wake()
        if self._thread.ident is not None:
            self._thread.join(max(0.0, until - self._clock.monotonic()))
        return not self._thread.is_alive()

    def _run(self) -> None:
        failures = 0
        while not self._stopping.is_set():
            failures = 0 if self._round(first_failure=failures == 0) else failures + 1
            self._clock.wait(self._woken, self._period_s * 2 ** min(failures, _SLOWEST))
            self._woken.clear()

    def _round(self, *, first_failure: bool) -> bool:
        try:
            self._work()
        except Exception as error:  # noqa: BLE001 - the next round may go well, and the job goes on meanwhile
            if first_failure:
                self._say(f"{self._name}: {error or type(error).__name__}; trying again")
            return False
        return True
