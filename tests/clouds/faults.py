"""What goes wrong on purpose: refusals, lost answers and slow ones, for whom and how often."""

import threading
from collections.abc import Iterable
from dataclasses import dataclass

from tests.clouds.wire import Refused


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

    @property
    def refusal(self) -> Refused:
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


def _fits(wanted: str, value: str) -> bool:
    return wanted in {"", value}


def throttling(service: str, key: str = "", times: int | None = None, action: str = "") -> Fault:
    """Return the fault with which a service says that it is asked too often."""
    code, status = {"ec2": ("RequestLimitExceeded", 503), "s3": ("SlowDown", 503)}.get(
        service, ("ThrottlingException", 400)
    )
    return Fault(action, code, status, times, key)
