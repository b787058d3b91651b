"""The states of jobs, attempts and machines, and the only moves between them."""

from collections.abc import Mapping
from enum import StrEnum


class JobState(StrEnum):
    """Where a job is, in words that its owner would use."""

    QUEUED = "queued"  # waits for its turn, an offer or money
    PLACING = "placing"  # an offer is chosen, the machine is being rented
    STARTING = "starting"  # the machine boots and sets up
    RUNNING = "running"
    RECOVERING = "recovering"  # interrupted, lost or moved: the next machine is on its way
    HELD = "held"  # waits for a person: budget, pause, no way to place it
    STOPPING = "stopping"  # cancelled by a person, the machine is ending
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"


class AttemptState(StrEnum):
    """Where one run of a job on one machine is."""

    PLACED = "placed"  # its machine is on its way
    READY = "ready"  # set up, waiting for the start word
    RUNNING = "running"  # the start word is given: it may write checkpoints
    SAVING = "saving"  # told or forced to stop: the last checkpoint is on its way
    ENDED = "ended"


class MachineState(StrEnum):
    """Where a rented machine is."""

    INTENDED = "intended"  # written down with its token, not asked for yet
    REQUESTED = "requested"  # the cloud has been asked and has answered with an id
    UNKNOWN = "unknown"  # the answer was lost: looked for by its token before anything else
    BOOTING = "booting"
    RUNNING = "running"  # its agent has been heard
    ENDING = "ending"  # its end has been asked for; it bills until a listing shows it gone
    GONE = "gone"


Moves = Mapping[StrEnum, frozenset[StrEnum]]
J, A, M = JobState, AttemptState, MachineState

JOB_MOVES: Moves = {
    J.QUEUED: frozenset({J.PLACING, J.HELD, J.CANCELLED, J.FAILED}),
    J.PLACING: frozenset({J.STARTING, J.QUEUED, J.RECOVERING, J.HELD, J.STOPPING, J.CANCELLED, J.FAILED, J.SUCCEEDED}),
    J.STARTING: frozenset({J.RUNNING, J.RECOVERING, J.QUEUED, J.HELD, J.STOPPING, J.CANCELLED, J.FAILED, J.SUCCEEDED}),
    J.RUNNING: frozenset({J.SUCCEEDED, J.FAILED, J.RECOVERING, J.HELD, J.STOPPING}),
    J.RECOVERING: frozenset({J.PLACING, J.QUEUED, J.HELD, J.STOPPING, J.CANCELLED, J.FAILED, J.SUCCEEDED}),
    J.HELD: frozenset({J.QUEUED, J.CANCELLED, J.STOPPING, J.SUCCEEDED, J.FAILED}),
    J.STOPPING: frozenset({J.CANCELLED, J.SUCCEEDED, J.FAILED}),
}
ATTEMPT_MOVES: Moves = {
    A.PLACED: frozenset({A.READY, A.RUNNING, A.ENDED}),
    A.READY: frozenset({A.RUNNING, A.ENDED}),
    A.RUNNING: frozenset({A.SAVING, A.ENDED}),
    A.SAVING: frozenset({A.ENDED}),
}
MACHINE_MOVES: Moves = {
    M.INTENDED: frozenset({M.REQUESTED, M.UNKNOWN, M.GONE}),
    M.UNKNOWN: frozenset({M.REQUESTED, M.ENDING, M.GONE, M.INTENDED}),
    M.REQUESTED: frozenset({M.BOOTING, M.RUNNING, M.ENDING, M.GONE}),
    M.BOOTING: frozenset({M.RUNNING, M.ENDING, M.GONE}),
    M.RUNNING: frozenset({M.ENDING, M.GONE}),
    M.ENDING: frozenset({M.GONE}),
}
JOB_TERMINAL = frozenset(JobState) - JOB_MOVES.keys()
JOB_OPEN = frozenset(JobState) - JOB_TERMINAL
MACHINE_LIVE = frozenset(MachineState) - {MachineState.GONE}
"""Machines that may exist and bill, as far as anyone knows."""


class StaleState(Exception):
    """The row is no longer in the state that the caller saw: drop the result and look again."""


def moves(state: StrEnum) -> frozenset[StrEnum]:
    """Return the states that may follow `state`; empty for a terminal one."""
    table = {JobState: JOB_MOVES, AttemptState: ATTEMPT_MOVES, MachineState: MACHINE_MOVES}[type(state)]
    return table.get(state, frozenset())
