"""What goes wrong on purpose: refusals, lost answers and slow ones, for whom and how often."""

import threading
from collections.abc import Iterable
from dataclasses import dataclass

from tests.clouds.wire import Refused

_THROTTLED = {
    "ec2": ("RequestLimitExceeded", "Request limit exceeded.", 503),
    "s3": ("SlowDown", "Please reduce your request rate.", 503),
    "sts": ("Throttling", "Rate exceeded", 400),
    "iam": ("Throttling", "Rate exceeded", 400),
}


@dataclass
class Fault:
    """What happens to calls. `times` None: to every one; an empty `action`, `region` or `key`: of any.

    With a `code` the call is refused and nothing happens; `lost`: it takes effect, but the connection closes without an
    answer; `delay_s`: its answer takes that much longer.
    """

    action: str = ""
    code: str = ""
    status: int = 400
    times: int | None = None
    key: str = ""  # id of an access key
    region: str = ""
    lost: bool = False
    delay_s: float = 0.0

    def refusal(self, service: str) -> Refused:
        """Return the error; `throttled` is spelled as each service does."""
        if self.code == "throttled":
            return Refused(*_THROTTLED.get(service, ("ThrottlingException", "Rate exceeded", 400)))
        return Refused(self.code, f"{self.code}, as the test wants it", self.status)


class Faults:
    """Those in force."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._faults: list[Fault] = []

    def add(self, faults: Iterable[Fault]) -> None:
        with self._lock:
            self._faults += faults

    def clear(self) -> None:
        with self._lock:
            self._faults.clear()

    def of(self, action: str, key: str, region: str) -> Fault | None:
        """Take what befalls a call."""
        with self._lock:
            for one in self._faults:
                if one.times != 0 and _fits(one.action, action) and _fits(one.key, key) and _fits(one.region, region):
                    one.times = one.times - 1 if one.times else one.times
                    return one
        return None

    def give_back(self, fault: Fault) -> None:
        """Let a fault befall the next call instead: this one was refused anyway."""
        with self._lock:
            fault.times = None if fault.times is None else fault.times + 1


def _fits(wanted: str, value: str) -> bool:
    return wanted in {"", value}
