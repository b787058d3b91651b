"""What one attempt has been told: to start, to save, to stop."""

import threading
from dataclasses import dataclass

from runner.store.records import Command


@dataclass(frozen=True, slots=True)
class Stop:
    """End the attempt, and why: notice | lease | command | max_duration | agent_stopped."""

    why: str
    save: bool = True  # else end at once


class Orders:
    """Written by the agent's other threads, read by the attempt's own."""

    def __init__(self) -> None:
        """Nothing has been told yet."""
        self._seq = 0
        self.start: Command | None = None
        self.stop: Stop | None = None
        self.save = False  # write a checkpoint now, and go on
        self.told = threading.Event()

    def take(self, command: Command) -> None:
        """Take in the daemon's newest word; an older one, or one already taken, changes nothing."""
        if command.seq <= self._seq:
            return
        self._seq = command.seq
        if command.do == "start":
            self.start = command
        elif command.do == "save":
            self.save = True
        elif command.do in {"stop", "cancel"}:
            self.end(Stop("command", save=command.do == "stop"))
        self.told.set()

    def end(self, stop: Stop) -> None:
        """Stop; the first reason stands, but it may turn into an end at once."""
        if self.stop is None or (self.stop.save and not stop.save):
            self.stop = stop
        self.told.set()
