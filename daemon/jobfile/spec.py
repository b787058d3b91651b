"""The words of a job file and what they may hold (docs/job-files.md explains each)."""

import re
from collections.abc import Mapping
from datetime import datetime, timedelta
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, field_serializer, model_validator

from config import gpus
from config.fields import Amount, Duration, MemorySize
from config.units import Money, parse_duration, parse_memory
from pricing.need import Need

_GIB = 1024**3
_UNSAFE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
_ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_COUNTED = re.compile(r"(?P<name>[^:]+?)(?::(?P<count>\d+(?:\.\d+)?))?")
_ACCELERATOR_MEMORY = re.compile(r"(?P<memory>\d+(?:\.\d+)?\s*[GM]i?B?)(?:\.\.|\+)?", re.IGNORECASE)


def _clean(text: str) -> str:
    if _UNSAFE.search(text):
        raise ValueError("it holds control characters or characters that change the writing direction: remove them")
    return text


def _at_least(value: Any) -> Any:  # noqa: ANN401 - whatever was written
    """Take `8+`, `8` or 8: all of them mean at least."""
    return value.strip().removesuffix("+") if isinstance(value, str) else value


def _text(value: Any) -> Any:  # noqa: ANN401
    """Take a number for a text, since `cuda: 12.8` is one in YAML."""
    return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else value


def _time(value: Any) -> Any:  # noqa: ANN401
    if isinstance(value, datetime):
        moment = value
    elif isinstance(value, str):
        try:
            moment = datetime.fromisoformat(value.strip())
        except ValueError:
            raise ValueError(f"{value!r} is not a time: write it like `2026-12-24T18:00+08:00`") from None
    else:
        raise ValueError(f"{value!r} is not a time: write it like `2026-12-24T18:00+08:00`")  # noqa: TRY004
    if moment.tzinfo is None:
        raise ValueError(f"{value!r} names no time zone: write it like `2026-12-24T18:00+08:00`, or end it with Z")
    return moment


def _deadline(value: Any) -> Any:  # noqa: ANN401
    if isinstance(value, str) and re.match(r"\s*\d[\d.]*\s*[dhms]", value) and "-" not in value:
        return parse_duration(value)
    return value if isinstance(value, timedelta) else _time(value)


def _inside(value: str) -> str:
    path = PurePosixPath(value)
    if path.is_absolute() or ".." in path.parts or not value.strip():
        raise ValueError(f"{value!r} must be a path inside the job's own folder, without `..`")
    return value


def _switch(value: Any) -> Any:  # noqa: ANN401
    words = {True: "yes", False: "no", "true": "yes", "false": "no", "yes": "yes", "no": "no", "auto": "auto", "any": "auto"}
    key = value.strip().lower() if isinstance(value, str) else value
    if not isinstance(key, str | bool) or key not in words:
        raise ValueError(f"{value!r} is not one of true, false, auto")
    return words[key]


Line = Annotated[str, AfterValidator(_clean)]
Moment = Annotated[datetime, BeforeValidator(_time)]
AtLeast = Annotated[float, BeforeValidator(_at_least), Field(ge=0, le=100_000)]
MemoryAtLeast = Annotated[MemorySize, BeforeValidator(_at_least)]
Version = Annotated[str, BeforeValidator(_text), Field(pattern=r"^\d+(\.\d+)*$")]
InsidePath = Annotated[Line, AfterValidator(_inside)]


class Words(BaseModel):
    """One table of a job file: unknown words are errors, values never change."""

    model_config = ConfigDict(extra="forbid", frozen=True, str_max_length=100_000)


class Resources(Words):
    """What one machine must have."""

    accelerators: str | dict[str, float] | list[str] | None = None
    gpu_memory: MemoryAtLeast | None = None
    gpus: AtLeast | None = None
    cpus: AtLeast | None = None
    memory: MemoryAtLeast | None = None
    disk_size: MemoryAtLeast | None = None
    use_spot: Annotated[Literal["yes", "no", "auto"], BeforeValidator(_switch)] = "auto"
    infra: Annotated[Line, Field(pattern=r"^[A-Za-z0-9._*-]+(/[A-Za-z0-9._*-]+){0,2}$")] | None = None
    max_hourly_cost: Amount | None = None
    cuda: Version | None = None
    compute_capability: Version | None = None

    @model_validator(mode="after")
    def _known_gpus(self) -> Self:
        self.wanted()
        return self

    def wanted(self) -> list[tuple[frozenset[str], float, int]]:
        """Return the alternatives that `accelerators` names: GPU keys (none: any), count, memory. Raises ValueError."""
        default = 1.0 if self.gpus is None else self.gpus
        written = self.accelerators
        if written is None:
            return [(frozenset(), default, 0)]
        if isinstance(written, Mapping):
            return [_accelerator(name, count) for name, count in written.items()]
        names = written if isinstance(written, list) else written.split(",")
        return [_accelerator(name, default) for name in names]

    def needs(self, currency: str = "USD") -> tuple[Need, ...]:
        """Return one Need for each accelerator that would do."""
        cloud, region, zone = ([*(self.infra or "").split("/"), "", "", ""])[:3]
        limit = self.max_hourly_cost
        if limit is not None and limit.currency != currency:
            raise ValueError(f"`max_hourly_cost` must be in {currency}")
        return tuple(
            Need(
                gpus=count, gpu_names=names, gpu_memory=max(self.gpu_memory or 0, memory), vcpus=self.cpus or 0,
                memory=self.memory or 0, disk=self.disk_size or 0, cuda=self.cuda or "",
                min_compute_capability=self.compute_capability or "", cloud=cloud.replace("*", ""),
                region=region.replace("*", ""), zone=zone.replace("*", ""),
                max_hourly_micro=limit.micro if limit else None, spot=self.use_spot,
            )
            for names, count, memory in self.wanted()
        )


class Checkpoint(Words):
    """Where the command keeps its checkpoints, and how it is told to write one."""

    path: InsidePath = "checkpoints"
    interval: Duration = timedelta(minutes=10)
    signal: Literal["SIGTERM", "SIGUSR1", "SIGINT"] = "SIGTERM"
    grace: Duration = timedelta(seconds=30)
    keep: Annotated[int, Field(ge=1, le=100)] = 2


class Work(Words):
    """How much there is to do: hours on one GPU of a kind."""

    hours: Annotated[float, Field(gt=0, le=1_000_000)]
    on: Line = "V100-16"

    @model_validator(mode="after")
    def _known(self) -> Self:
        gpus.matches(self.on)
        return self


class JobBudget(Words):
    """A cap on the whole job."""

    cap: Amount
    at_cap: Literal["stop", "hold"] = "stop"


class Retry(Words):
    """Which ends of an attempt are tried again, and for how long."""

    on_events: tuple[Literal["no-capacity", "interruption", "error"], ...] = ("no-capacity", "interruption")
    duration: Duration | None = None


class JobRecovery(Words):
    """SkyPilot's words for trying again."""

    max_restarts_on_errors: Annotated[int, Field(ge=0, le=1000)] = 0
    strategy: Line | None = None
    recover_on_exit_codes: tuple[int, ...] | None = None


class JobSpec(Words):
    """One job, as its file says."""

    name: Annotated[Line, Field(min_length=1, max_length=100)]
    run: Annotated[str, Field(min_length=1), AfterValidator(_clean)]
    project: Annotated[Line, Field(max_length=100)] | None = None
    setup: Annotated[str, AfterValidator(_clean)] = ""
    workdir: InsidePath | None = None
    resources: Resources = Resources()
    any_of: tuple[Resources, ...] = ()
    envs: dict[str, Annotated[str, BeforeValidator(_text), AfterValidator(_clean)]] = {}
    secrets: tuple[Line, ...] = ()
    outputs: tuple[InsidePath, ...] = ()
    checkpoint: Checkpoint | None = None
    budget: JobBudget | None = None
    deadline: Annotated[datetime | timedelta, BeforeValidator(_deadline)] | None = None
    work: Work | None = None
    max_duration: Duration | None = None
    retry: Retry = Retry()
    job_recovery: JobRecovery = JobRecovery()
    recover_on_exit_codes: tuple[Annotated[int, Field(ge=1, le=255)], ...] = (75,)
    priority: Annotated[int, Field(ge=-1000, le=1000)] = 0
    not_before: Moment | None = None
    after: tuple[Line, ...] = ()

    @model_validator(mode="before")
    @classmethod
    def _short_forms(cls, value: Any) -> Any:  # noqa: ANN401
        """Take `budget: 20 USD`, `checkpoint: folder`, `after: name`, one output, one secret without their tables."""
        if not isinstance(value, dict):
            return value
        value = dict(value)
        if isinstance(value.get("budget"), str | int | float) and not isinstance(value["budget"], bool):
            value["budget"] = {"cap": value["budget"]}
        if isinstance(value.get("checkpoint"), str):
            value["checkpoint"] = {"path": value["checkpoint"]}
        for word in ("after", "outputs", "secrets"):
            if isinstance(value.get(word), str):
                value[word] = [value[word]]
        return value

    @field_serializer("deadline", when_used="json-unless-none")
    def _write_deadline(self, value: datetime | timedelta) -> str:
        return print_exactly(value) if isinstance(value, timedelta) else value.isoformat()

    @model_validator(mode="after")
    def _names(self) -> Self:
        wrong = [name for name in (*self.envs, *self.secrets) if not _ENV_NAME.fullmatch(name)]
        if wrong:
            raise ValueError(f"{wrong[0]!r} can't be the name of an environment variable")
        return self

    @property
    def at_cap(self) -> str:
        """Return what happens when the job's own budget is used up."""
        return self.budget.at_cap if self.budget else "stop"

    @property
    def cap(self) -> Money | None:
        """Return the job's own cap."""
        return self.budget.cap if self.budget else None

    @property
    def max_restarts_on_errors(self) -> int:
        """Return how often a failed command is run again."""
        if "error" in self.retry.on_events and not self.job_recovery.max_restarts_on_errors:
            return 3
        return self.job_recovery.max_restarts_on_errors

    @property
    def disk_bytes(self) -> int:
        """Return the disk that a machine gets."""
        return max((n.disk for n in self.needs()), default=0) or 50 * _GIB

    def needs(self) -> tuple[Need, ...]:
        """Return every way to satisfy the job, `any_of` instead of `resources` where it is given."""
        return self._needs

    @cached_property
    def _needs(self) -> tuple[Need, ...]:
        return tuple(need for resources in self.any_of or (self.resources,) for need in resources.needs())

    def environment(self, credentials: Path | None) -> dict[str, str]:
        """Return the variables of the command, the secrets read from the daemon's credentials folder. Raises OSError."""
        read = {name: _secret(credentials, name) for name in self.secrets}
        return {**self.envs, **read}

    def to_json(self) -> dict[str, Any]:
        """Return the spec as JSON values."""
        return self.model_dump(mode="json", exclude_defaults=True)

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> Self:
        """Read a spec that `to_json` wrote."""
        return cls.model_validate(values)


def print_exactly(duration: timedelta) -> str:
    """Return a duration so that it reads back as the same, to the microsecond."""
    return f"{duration // timedelta(seconds=1)}.{duration.microseconds:06d}s"


def _secret(credentials: Path | None, name: str) -> str:
    if credentials is None:
        raise FileNotFoundError(f"secret {name}: the daemon has no credentials folder; see docs/job-files.md")
    return (credentials / name).read_text(encoding="utf-8").rstrip("\n")


def _accelerator(text: str, count: float) -> tuple[frozenset[str], float, int]:
    match = _COUNTED.fullmatch(text.strip())
    if not match:
        raise ValueError(f"{text!r} names no GPU: write it like `A100`, `A100:8` or `24GB..:1`")
    many = float(match["count"]) if match["count"] else float(count)
    memory = _ACCELERATOR_MEMORY.fullmatch(match["name"].strip())
    if memory:
        return frozenset(), many, parse_memory(memory["memory"])
    return frozenset(gpu.key for gpu in gpus.matches(match["name"])), many, 0
