"""The tables. Times are aware UTC (stored as integer microseconds), money is integer micro-units, both BigInteger."""

from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import JSON, BigInteger, CheckConstraint, Column, Dialect, Index, TypeDecorator, UniqueConstraint, text
from sqlmodel import Field, SQLModel

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


class Utc(TypeDecorator[datetime]):
    """An aware time, kept as microseconds since 1970: exact, sortable, and the same on every database."""

    impl = BigInteger
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> int | None:  # noqa: ARG002 - SQLAlchemy's own signature
        """Refuse a naive time: it has lost its zone already."""
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError("a time without a zone can't be stored")
        return (value - EPOCH) // _MICROSECOND

    def process_result_value(self, value: int | None, dialect: Dialect) -> datetime | None:  # noqa: ARG002
        """Return an aware UTC time."""
        return None if value is None else EPOCH + value * _MICROSECOND


def _time(*, index: bool = False) -> Any:  # noqa: ANN401 - SQLModel's Field is typed so
    return Field(sa_type=Utc, index=index)


def _maybe_time() -> Any:  # noqa: ANN401
    return Field(default=None, sa_type=Utc, nullable=True)


def _money(default: int | None = 0) -> Any:  # noqa: ANN401
    return Field(default=default, sa_type=BigInteger, nullable=default is None)


def _json(default: Any = dict) -> Any:  # noqa: ANN401
    return Field(default_factory=default, sa_column=Column(JSON, nullable=False))


class Installation(SQLModel, table=True):
    """One row: who owns this database now. Every write carries the epoch, so an older daemon can't write."""

    id: int = Field(default=1, primary_key=True)
    install_id: str  # goes into every owner tag
    epoch: int = Field(default=0, sa_type=BigInteger)
    started_at: datetime = _time()


class Job(SQLModel, table=True):
    """A job, from the file it came in to its end."""

    __table_args__ = (
        Index(
            "one_open_job_per_content",
            "content_key",
            unique=True,
            sqlite_where=text("state NOT IN ('succeeded', 'failed', 'cancelled')"),
            postgresql_where=text("state NOT IN ('succeeded', 'failed', 'cancelled')"),
        ),
        Index(
            "queue",
            "priority",
            "submitted_at",
            sqlite_where=text("state IN ('queued', 'recovering')"),
            postgresql_where=text("state IN ('queued', 'recovering')"),
        ),
    )

    id: str = Field(primary_key=True)
    name: str = Field(index=True)
    user: str
    project: str
    state: str = Field(index=True)
    reason_code: str = ""
    reason_values: dict[str, Any] = _json()
    state_since: datetime = _time()
    priority: int = 0
    spec: dict[str, Any] = _json()  # the JobSpec as JSON, secrets by name only
    content_key: str  # hash of file, code and owner: the same while open is the same job
    source: str = ""  # the file's name in the drop folder
    code_key: str = ""
    code_sha256: str = ""
    submitted_at: datetime = _time()
    not_before: datetime | None = _maybe_time()
    retry_at: datetime | None = _maybe_time()
    deadline: datetime | None = _maybe_time()
    finished_at: datetime | None = _maybe_time()
    attempts: int = 0
    failures: int = 0
    interruptions: int = 0
    launches_failed: int = 0
    step: int = Field(default=-1, sa_type=BigInteger)
    total_steps: int = Field(default=-1, sa_type=BigInteger)
    metrics: dict[str, Any] = _json()
    checkpoint: str = ""  # prefix of the newest complete checkpoint of any attempt
    checkpoint_step: int = Field(default=-1, sa_type=BigInteger)
    exit_code: int | None = None
    cost_micro: int = _money()  # sum of its ledger rows
    on_demand_micro: int = _money()  # what the same machine time would have cost on demand
    lost_s: float = 0.0  # run time that had to be done again
    run_s: float = 0.0  # run time of all attempts
    delivered: bool = False  # results lie in done/<job>/


class Machine(SQLModel, table=True):
    """A rented machine: the intent, the lease, and what it has cost."""

    __table_args__ = (
        CheckConstraint(
            "lease_until IS NULL OR charged_until IS NULL OR lease_until >= charged_until", name="lease_covers"
        ),
    )

    id: str = Field(primary_key=True)
    token: str = Field(unique=True)
    state: str = Field(index=True)
    reason_code: str = ""
    reason_values: dict[str, Any] = _json()
    state_since: datetime = _time()
    cloud: str
    region: str
    zone: str
    type: str
    market: str
    gpu: str
    gpus: float
    offer: dict[str, Any] = _json()  # the offer as it was chosen
    bid_micro: int | None = _money(None)
    provider_id: str = Field(default="", index=True)
    intended_at: datetime = _time()
    launched_at: datetime | None = _maybe_time()
    heard_at: datetime | None = _maybe_time()  # when the daemon last read a new beat
    seen_at: datetime | None = _maybe_time()  # when its cloud last listed it as alive: charged up to here
    beat_seq: int = -1
    ended_at: datetime | None = _maybe_time()
    notice_at: datetime | None = _maybe_time()  # when the cloud takes it away, as the notice said
    ends_because: str = ""
    hourly_micro: int = _money()  # what an hour costs now
    highest_hourly_micro: int = _money()  # what an hour can cost at most: leases are priced at this
    on_demand_hourly_micro: int = _money()
    lease_seq: int = 0
    lease_until: datetime | None = _maybe_time()  # its cost is set aside up to here
    leased_micro: int = _money()  # set aside and not yet spent
    charged_until: datetime | None = _maybe_time()  # its cost is in the ledger up to here
    carried: int = _money()  # the part of a micro-unit that the next charge takes in, in micro-unit ms per hour
    spent_micro: int = _money()
    job_id: str = ""  # for whom it was rented; scopes of its cost
    user: str = ""
    project: str = ""


class Attempt(SQLModel, table=True):
    """One run of a job on a machine. Several attempts may share a machine."""

    __table_args__ = (
        UniqueConstraint("job_id", "n"),
        Index(
            "one_writer",
            "job_id",
            unique=True,
            sqlite_where=text("state IN ('running', 'saving')"),
            postgresql_where=text("state IN ('running', 'saving')"),
        ),
        Index(
            "one_waiting",
            "job_id",
            unique=True,
            sqlite_where=text("state IN ('placed', 'ready')"),
            postgresql_where=text("state IN ('placed', 'ready')"),
        ),
    )

    id: str = Field(primary_key=True)
    job_id: str = Field(foreign_key="job.id", index=True)
    n: int
    machine_id: str = Field(foreign_key="machine.id", index=True)
    decision_id: str = ""
    state: str = Field(index=True)
    reason_code: str = ""
    reason_values: dict[str, Any] = _json()
    state_since: datetime = _time()
    created_at: datetime = _time()
    started_at: datetime | None = _maybe_time()
    ended_at: datetime | None = _maybe_time()
    phase: str = ""
    command_seq: int = 0
    command: str = ""
    restored_from: str = ""  # the checkpoint that the start word named
    restored_step: int = Field(default=-1, sa_type=BigInteger)
    step: int = Field(default=-1, sa_type=BigInteger)
    checkpoint_step: int = Field(default=-1, sa_type=BigInteger)
    run_s: float = 0.0
    lost_s: float = 0.0
    exit_code: int | None = None
    outcome: str = ""  # succeeded, failed, interrupted, lost, stopped, cancelled, never-started
    status: dict[str, Any] = _json()  # the newest AttemptStatus


class Decision(SQLModel, table=True):
    """Why an offer won: the winner, the runners-up, and what ruled the others out."""

    id: str = Field(primary_key=True)
    job_id: str = Field(index=True)
    at: datetime = _time()
    winner: dict[str, Any] = _json()
    runners_up: list[Any] = _json(list)
    passed_over: list[Any] = _json(list)  # [[reason code, values, how many offers], ...]


class Budget(SQLModel, table=True):
    """A cap on money for one scope and period."""

    id: str = Field(primary_key=True)  # such as `all/month`, `project:vision/day`, `job:<id>/total`
    scope: str  # all, project, user, cloud, job
    subject: str = ""  # whose; empty for scope all
    period: str  # hour, day, week, month, total
    cap_micro: int = _money()
    at_cap: str = "stop"  # stop: checkpoint and stop; hold: launch only what fits whole
    thresholds: list[int] = _json(list)  # percent
    origin: str = ""  # settings, cli, job file
    created_at: datetime = _time()
    ended_at: datetime | None = _maybe_time()


class BudgetAlert(SQLModel, table=True):
    """One row for each threshold crossed in each period, so that an alert goes out once."""

    __table_args__ = (UniqueConstraint("budget_id", "period_start", "kind", "threshold", "cap_micro"),)

    id: int | None = Field(default=None, primary_key=True)
    budget_id: str
    period_start: datetime = _time()
    kind: str  # spent, forecast, reached
    threshold: int
    cap_micro: int = _money()
    at: datetime = _time()


class Ledger(SQLModel, table=True):
    """What was spent: append-only, one row for each machine and billing interval."""

    __table_args__ = (
        UniqueConstraint("machine_id", "from_at", "kind"),
        CheckConstraint("to_at >= from_at", name="forward"),
    )

    id: int | None = Field(default=None, primary_key=True)
    machine_id: str = Field(index=True)
    job_id: str = Field(index=True)
    user: str
    project: str
    cloud: str
    kind: str = "machine"  # machine, disk, egress, correction
    from_at: datetime = _time(index=True)
    to_at: datetime = _time()
    hourly_micro: int = _money()
    amount_micro: int = _money()
    native_amount: str = ""
    native_currency: str = ""
    fx_rate: str = "1"


class BillCheck(SQLModel, table=True):
    """What a cloud billed for one machine and UTC day, beside what the ledger says: the newest comparison of them."""

    __tablename__ = "bill_check"
    __table_args__ = (UniqueConstraint("cloud", "day", "machine"),)

    id: int | None = Field(default=None, primary_key=True)
    cloud: str
    day: str  # such as `2026-12-08`
    machine: str  # empty: what the bill gives no machine for
    ledger_micro: int = _money()
    billed_micro: int = _money()
    estimated: bool  # the cloud may still change it
    checked_at: datetime = _time()


class Spending(SQLModel, table=True):
    """The ledger summed by scope and hour, kept by `amount = amount + n` in the same transaction."""

    __table_args__ = (UniqueConstraint("scope", "subject", "hour_at"),)

    id: int | None = Field(default=None, primary_key=True)
    scope: str
    subject: str
    hour_at: datetime = _time()
    amount_micro: int = _money()


class Event(SQLModel, table=True):
    """What happened: append-only; the code and the values make its sentence."""

    id: int | None = Field(default=None, primary_key=True)
    at: datetime = _time(index=True)
    code: str = Field(index=True)
    job_id: str = Field(default="", index=True)
    machine_id: str = ""
    attempt: int = -1
    values: dict[str, Any] = _json()


class Outbox(SQLModel, table=True):
    """A message to one endpoint, written in the transaction of its cause and sent until it is taken."""

    __table_args__ = (UniqueConstraint("event_id", "endpoint"),)

    id: int | None = Field(default=None, primary_key=True)
    event_id: int = Field(index=True)
    endpoint: str
    payload: dict[str, Any] = _json()
    created_at: datetime = _time()
    next_at: datetime | None = Field(default=None, sa_type=Utc, nullable=True, index=True)  # None: no further try
    tries: int = 0
    delivered_at: datetime | None = _maybe_time()
    dead_at: datetime | None = _maybe_time()
    last_answer: str = ""


class Endpoint(SQLModel, table=True):
    """What is remembered of a place that alerts go to; its address and secrets stay in the settings."""

    name: str = Field(primary_key=True)
    disabled_at: datetime | None = _maybe_time()
    disabled_because: str = ""


class SoldOutMemory(SQLModel, table=True):
    """A pool (or a whole family) that had nothing: left alone until `until`, longer each time."""

    key: str = Field(primary_key=True)  # the pool as text, or `cloud/region/family/market`
    until: datetime = _time()
    times: int = 1
    why: str = "sold-out"  # sold-out, quota, interrupted


class PricePoint(SQLModel, table=True):
    """A pool's price from `at` on; a row only when it changed."""

    __table_args__ = (UniqueConstraint("pool", "at"),)

    id: int | None = Field(default=None, primary_key=True)
    pool: str = Field(index=True)
    at: datetime = _time()
    hourly_micro: int = _money()


class PoolLife(SQLModel, table=True):
    """How long one machine of a pool lived and whether the cloud took it: what hazards are learnt from."""

    id: int | None = Field(default=None, primary_key=True)
    pool: str = Field(index=True)
    at: datetime = _time()
    age_s: float
    interrupted: bool
    noticed_s: float | None = None  # how long before its end the notice came


class SourceHealth(SQLModel, table=True):
    """When a price source last answered, and why not since."""

    name: str = Field(primary_key=True)
    ok_at: datetime | None = _maybe_time()
    failed_at: datetime | None = _maybe_time()
    reason: str = ""
    offers: int = 0
    quarantined: int = 0


class Taken(SQLModel, table=True):
    """A drop-folder entry that was claimed: a crash between the commit and the move changes nothing."""

    claim: str = Field(primary_key=True)  # the name it was claimed under
    at: datetime = _time()
    job_ids: list[Any] = _json(list)
    error: str = ""
