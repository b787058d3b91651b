"""One stream of what a job prints and what the agent says of it, shipped to the store in pieces that are never rewritten."""

import threading
from collections.abc import Callable

from runner.store import Store

CHUNK = 1 << 20  # bytes in one object, at most
WAITING = 8 << 20  # bytes that wait for the store, at most
TOTAL = 256 << 20  # bytes of one attempt; past it only the end is kept
TAIL = 64 << 10
OWN = "[frugald] "


class Log:
    """Bytes in from any thread, chunks out by one; bounded whatever the job prints and the store does."""

    def __init__(
        self, store: Store, key: Callable[[str], str], tell: Callable[[int, int], None], *, total: int = TOTAL
    ) -> None:
        """Ship to `key("log/<k>")`; `tell` the bytes and chunks that are in the store."""
        self._store = store
        self._key = key
        self._tell = tell
        self._total = total
        self._lock = threading.Lock()
        self._waiting = bytearray()
        self._left_out = 0
        self._sending = b""  # a chunk that may be in the store already: sent again as it was
        self._bytes = self._chunks = 0
        self._tail = b""

    @property
    def tail(self) -> str:
        """The newest output, for a look at why a job failed."""
        with self._lock:
            return self._tail.decode("utf-8", "replace")

    @property
    def full(self) -> bool:
        """Say whether the attempt has printed more than is kept."""
        return self._bytes >= self._total

    def say(self, sentence: str) -> None:
        """Add a line of the agent's own."""
        with self._lock:
            fresh = not self._tail or self._tail.endswith(b"\n")
        self.write(f"{'' if fresh else chr(10)}{OWN}{sentence}\n".encode("utf-8", "replace"))

    def write(self, data: bytes) -> None:
        """Add output."""
        with self._lock:
            self._tail = (self._tail + data)[-TAIL:]
            self._waiting += data
            self._bound(TAIL if self.full else WAITING)

    def ship(self, *, last: bool = False) -> None:
        """Send what is there in whole lines; the `last` time also what lies past the total. Raises StoreError."""
        while chunk := self._next(last=last):
            self._store.put(self._key(f"log/{self._chunks:06d}"), chunk)
            self._sending = b""
            self._chunks += 1
            self._bytes += len(chunk)
            self._tell(self._bytes, self._chunks)

    def _bound(self, limit: int) -> None:
        """Leave out the oldest lines that wait when there are too many."""
        if len(self._waiting) > limit:
            cut = len(self._waiting) - limit // 2
            cut = self._waiting.find(b"\n", cut) + 1 or cut
            del self._waiting[:cut]
            self._left_out += cut

    def _next(self, *, last: bool) -> bytes:
        if self._sending:
            return self._sending
        with self._lock:
            if not self._waiting or (self.full and not last):
                return b""
            note = f"\n{OWN}{self._left_out} bytes of output are left out here\n".encode() if self._left_out else b""
            end = CHUNK if last else self._waiting.rfind(b"\n", 0, CHUNK) + 1 or CHUNK
            self._sending = note + bytes(self._waiting[:end])
            del self._waiting[:end]
            self._left_out = 0
        return self._sending
