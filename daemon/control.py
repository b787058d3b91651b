"""The one thread that owns the database and makes every decision."""

import queue
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Protocol

from daemon.advise import advises, record_advice
from daemon.database import Fenced
from daemon.decide import decide
from daemon.read import PriceView, read_snapshot
from daemon.record import record
from daemon.world import World

Message = Callable[[], None]


class Loop(Protocol):
    """Something to be done again and again."""

    def run_once(self, now: datetime) -> Mapping[str, int]:
        """Do it once, and return counts of what was done."""


class Decisions:
    """Reads, decides, records: the heart of the daemon in three lines."""

    def __init__(self, world: World, prices: PriceView) -> None:
        self.world = world
        self.prices = prices

    def run_once(self, now: datetime) -> dict[str, int]:
        """Make one plan and write it down; return how much of each kind it holds."""
        with self.world.database.write() as session:
            plan = decide(read_snapshot(self.world, session, self.prices, now))
            write_down = record_advice if advises(self.world.settings) else record
            write_down(self.world, session, plan, now)
        return {
            "launches": len(plan.launches),
            "renewals": len(plan.renewals),
            "stops": len(plan.stops),
            "holds": len(plan.holds),
            "releases": len(plan.releases),
        }


class Control:
    """Takes messages one after the other: loops that are due, results of calls, questions of people."""

    def __init__(self) -> None:
        self.messages: queue.SimpleQueue[Message | None] = queue.SimpleQueue()
        self.loops: dict[str, Loop] = {}
        self.failed: dict[str, str] = {}  # loops whose last run raised, and what
        self.on_failure: Callable[[str, Exception], None] = lambda _name, _error: None
        self._due: set[str] = set()

    def post(self, message: Message) -> None:
        """Put something on the queue, to be run on the control thread. Any thread may call this."""
        self.messages.put(message)

    def due(self, name: str, now: Callable[[], datetime]) -> None:
        """Ask for one run of a loop; asked again before it ran, it still runs once. Any thread may call this."""
        if name not in self._due:
            self._due.add(name)
            self.post(lambda: self._run(name, now))

    def stop(self) -> None:
        """Let `serve` return after the messages that are there already. Any thread may call this."""
        self.messages.put(None)

    def serve(self) -> None:
        """Run messages until `stop`."""
        while (message := self.messages.get()) is not None:
            self._safely("message", message)

    def drain(self) -> int:
        """Run the messages that are there now and those they make, without waiting; return how many."""
        count = 0
        while not self.messages.empty():
            message = self.messages.get()
            if message is not None:
                self._safely("message", message)
                count += 1
        return count

    def _run(self, name: str, now: Callable[[], datetime]) -> None:
        self._due.discard(name)
        self._safely(name, lambda: self.loops[name].run_once(now()))

    def _safely(self, name: str, work: Callable[[], object]) -> None:
        """Run one piece of work; its fault is reported and must not stop the others, unless we are no longer the owner."""
        try:
            work()
            self.failed.pop(name, None)
        except Fenced:
            raise
        except Exception as error:  # noqa: BLE001 - whatever went wrong, the next message may be the one that saves money
            self.failed[name] = str(error)
            self.on_failure(name, error)
