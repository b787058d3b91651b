"""What the daemon and the agent write for each other: where it lies in the store, and its fields, all JSON.

machines/<machine>/boot.json            daemon -> machine: BootOrder (which attempts, first lease, bundle hash)
machines/<machine>/lease.json           daemon -> agent: Lease, rewritten at each renewal
machines/<machine>/beat.json            agent -> daemon: Beat, rewritten every second or so
jobs/<job>/spec.json                    daemon -> agent: JobOrder
jobs/<job>/code/<sha256>.tar.gz         daemon -> agent: the packed workdir
jobs/<job>/attempts/<n>/command.json    daemon -> agent: Command
jobs/<job>/attempts/<n>/status.json     agent -> daemon: AttemptStatus
jobs/<job>/attempts/<n>/notice.json     agent -> daemon and job: NoticeRecord
jobs/<job>/attempts/<n>/log/<k>         agent -> daemon: log bytes; chunk k starts where chunk k-1 ends
jobs/<job>/checkpoints/<step>-<n>/<file>, .../manifest.json   the manifest is written last
jobs/<job>/outputs/<path>               agent -> daemon: mirrored while the job runs
"""

import json
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Self

MANIFEST = "manifest.json"


def machine_key(machine: str, name: str) -> str:
    """Return where a machine's own record `name` lies."""
    return f"machines/{machine}/{name}"


def job_key(job: str, name: str) -> str:
    """Return where a job's object `name` lies."""
    return f"jobs/{job}/{name}"


def attempt_key(job: str, attempt: int, name: str) -> str:
    """Return where an attempt's record `name` lies."""
    return f"jobs/{job}/attempts/{attempt}/{name}"


def checkpoint_prefix(job: str, step: int, attempt: int) -> str:
    """Return the folder of one checkpoint: steps sort as text, and no two attempts share a folder."""
    return f"jobs/{job}/checkpoints/{step:012d}-{attempt}/"


@dataclass(frozen=True)
class Record:
    """A JSON object with known fields; unknown ones are ignored, so that versions may differ by one."""

    def to_json(self) -> bytes:
        """Return the record as JSON."""
        return json.dumps(asdict(self), sort_keys=True).encode()

    @classmethod
    def from_json(cls, data: bytes) -> Self:
        """Read a record. Raises ValueError when it is no JSON object or a needed field is missing."""
        return cls.from_dict(json.loads(data))

    @classmethod
    def from_dict(cls, values: Any) -> Self:  # noqa: ANN401 - any JSON value
        """Read a record from a decoded JSON object. Raises ValueError."""
        if not isinstance(values, dict):
            raise ValueError(f"{cls.__name__} must be a JSON object")  # noqa: TRY004 - one kind of error for bad JSON
        known = {f.name for f in fields(cls)}
        try:
            return cls(**{name: value for name, value in values.items() if name in known})
        except TypeError as error:
            raise ValueError(str(error)) from error


@dataclass(frozen=True)
class BootOrder(Record):
    """What a machine finds when it boots."""

    machine: str
    attempts: list[list[Any]]  # [[job id, attempt number], ...]
    guard_s: float  # the first lease, counted from boot
    bundle_key: str  # the agent, in the store
    bundle_sha256: str
    tail_s: float = 10.0  # how long before the end of a lease the save must start, at least


@dataclass(frozen=True)
class Beat(Record):
    """The agent's sign of life. `seq` grows by one with each; a lease names the beat that it answers."""

    machine: str
    seq: int
    uptime_s: float
    lease_seq: int = 0  # the newest lease taken in
    lease_left_s: float = 0.0
    gpus: list[dict[str, Any]] = field(default_factory=list)  # what is really there: name, memory bytes, use, driver
    notice_in_s: float | None = None  # the cloud's notice as the machine sees it: seconds until it is taken away
    store_bytes_per_s: float = 0.0  # measured upload rate, 0 while unknown


@dataclass(frozen=True)
class Lease(Record):
    """How long the machine may go on, counted by the machine from the moment it WROTE beat `beat_seq`.

    No two clocks are compared: the beat was written before the daemon read it, so the machine's end is never later than
    the daemon's.
    """

    machine: str
    seq: int
    beat_seq: int
    length_s: float
    final: bool = False  # no renewal will come: save and end in good time


@dataclass(frozen=True)
class JobOrder(Record):
    """The job as its machine needs it."""

    job: str
    name: str
    run: str
    setup: str = ""
    code_key: str = ""
    code_sha256: str = ""
    envs: dict[str, str] = field(default_factory=dict)
    checkpoint_path: str = "checkpoints"  # relative to the job's folder, or absolute
    checkpoint_interval_s: float = 600.0
    checkpoint_signal: str = "SIGTERM"
    checkpoint_grace_s: float = 30.0
    checkpoint_keep: int = 2
    outputs: list[str] = field(default_factory=list)  # files, folders or patterns, mirrored while the job runs
    gpus: float = 0
    max_duration_s: float | None = None


@dataclass(frozen=True)
class Command(Record):
    """The daemon's word to one attempt. `seq` grows; the newest word stands."""

    seq: int
    do: str  # start | save | stop (save, then end) | cancel (end at once, no save)
    restore: str = ""  # start only: the checkpoint's prefix, empty to start from zero
    restore_step: int = -1
    previous_attempts: int = 0  # start only: how many attempts ran before
    hourly_micro: int = 0
    deadline: str = ""  # ISO time, for the job's own use


class Phase:
    """Where an attempt is, in the agent's words."""

    BOOTING = "booting"
    SETUP = "setup"  # fetching code and running `setup`, before the start word
    READY = "ready"  # set up and waiting for the start word
    RESTORING = "restoring"
    RUNNING = "running"
    SAVING = "saving"
    SUCCEEDED = "succeeded"  # terminal from here on
    FAILED = "failed"
    SAVED = "saved"  # ended early with a complete last checkpoint in the store
    NOT_SAVED = "not-saved"  # ended early; the newest complete checkpoint stands

    TERMINAL = frozenset({SUCCEEDED, FAILED, SAVED, NOT_SAVED})


@dataclass(frozen=True)
class AttemptStatus(Record):
    """What the agent knows of one attempt; rewritten at every change and every few seconds."""

    job: str
    attempt: int
    phase: str
    step: int = -1  # the newest step the job reported, -1 when it reports none
    total_steps: int = -1
    metrics: dict[str, float] = field(default_factory=dict)  # newest values the job reported, such as accuracy
    restored_step: int = -1
    restored_from: str = ""
    checkpoint: str = ""  # prefix of the newest complete checkpoint of this attempt in the store
    checkpoint_step: int = -1
    checkpoint_age_s: float | None = None
    running_s: float = 0.0  # how long the command has run in this attempt
    lost_s: float = 0.0  # run time since the newest complete checkpoint
    write_s: float = 0.0  # how long the last checkpoint took from its end on disk to complete in the store
    exit_code: int | None = None
    ended_because: str = ""  # finished | failed | notice | lease | command | max_duration | setup | agent_stopped
    log_bytes: int = 0
    log_chunks: int = 0
    outputs: int = 0  # objects mirrored so far
    warnings: list[list[Any]] = field(default_factory=list)  # [[reason code, values], ...]
    out_of_memory: bool = False


@dataclass(frozen=True)
class NoticeRecord(Record):
    """A machine will end: written for the daemon and, as a file, for the job."""

    why: str  # interruption | rebalance | lease | command
    in_s: float
    at: str  # ISO time by the machine's clock, for people


@dataclass(frozen=True)
class Manifest(Record):
    """A checkpoint is complete when this exists: the files with their sizes and hashes."""

    job: str
    attempt: int
    step: int
    files: list[list[Any]]  # [[path, size, sha256, key], ...]; key may lie under an older checkpoint: unchanged files
    running_s: float = 0.0
