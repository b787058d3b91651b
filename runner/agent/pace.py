"""How often the agent does what, in seconds."""

from dataclasses import asdict, dataclass
from typing import Self


@dataclass(frozen=True, slots=True)
class Pace:
    """All periods of the agent; tests make them short together."""

    poll_s: float = 0.2  # processes, orders, the machine's end
    beat_s: float = 1.0  # sign of life out; lease and command in
    notice_s: float = 1.0
    status_s: float = 3.0  # an unchanged status is written again: its ages grow
    log_s: float = 1.0  # what is printed reaches the store within about two of these
    outputs_s: float = 5.0
    checkpoint_s: float = 0.5  # a look at the checkpoint folder
    quiet_s: float = 1.0  # unchanged for so long: nobody is writing to it
    retry_s: float = 0.5  # first wait after a failed call to the store; doubles
    closing_s: float = 1.0  # kept free before the machine's end for the last words

    @classmethod
    def times(cls, factor: float) -> Self:
        """Return the usual pace with every period multiplied, but the same time for the last words."""
        usual = cls()
        periods = {name: seconds * factor for name, seconds in asdict(usual).items()}
        return cls(**periods | {"closing_s": usual.closing_s})
