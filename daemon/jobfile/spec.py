"""The words of a job file and what they may hold (docs/job-files.md explains each)."""

from collections.abc import Iterator
from datetime import timedelta
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from config import gpus
from config.fields import Duration, Span
from config.gpus import UnknownGpu
from config.units import Money
from daemon.jobfile.accelerators import Accelerator, Accelerators, accelerator
from daemon.jobfile.values import (
    AtLeast,
    Deadline,
    InsidePath,
    Line,
    MemoryAtLeast,
    Moment,
    Name,
    Names,
    Number,
    Paths,
    Price,
    Switch,
    Text,
    Variable,
    Version,
    Whole,
    Workdir,
    listed,
    wrong,
)
from pricing.need import Need

_GIB = 1024**3
_DEFAULT_DISK = 50 * _GIB
_RESTARTS = 3  # of a failed command, where `retry` asks for some and says no number
_VARIABLE = r"[A-Za-z_][A-Za-z0-9_]*"
_EVENTS = ("no-capacity", "interruption", "error")

Event = Literal["no-capacity", "interruption", "error"]
VariableName = Annotated[str, Field(pattern=f"^{_VARIABLE}$", max_length=200)]
ExitCode = Annotated[Whole, Field(ge=1, le=255)]


def _known_gpu(name: str) -> str:
    if not gpus.matches(name):
        try:
            gpus.find(name)
        except UnknownGpu as error:
            raise wrong("says", why=str(error)) from error
    return name


def _as_table(word: str) -> BeforeValidator:
    """Take a bare value for a table that holds it under `word`: `budget: 20 USD`."""

    def table(value: Any) -> Any:  # noqa: ANN401 - whatever was written
        return {word: value} if isinstance(value, str | int | float) and not isinstance(value, bool) else value

    return BeforeValidator(table)


def _secret_names(value: Any) -> Any:  # noqa: ANN401
    """Take SkyPilot's table of names without values, too; a value has no business in a job file."""
    if not isinstance(value, dict):
        return listed(value)
    for name, secret in value.items():
        if secret is not None:
            raise wrong("secret_written", name=str(name))
    return list(value)


def _strategy(name: str) -> str:
    if name.upper() != "EAGER_NEXT_REGION":
        raise wrong("strategy", written=name)
    return name.upper()


class Words(BaseModel):
    """One table of a job file: unknown words are errors, values never change."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, hide_input_in_errors=True)


class Resources(Words):
    """What one machine must have."""

    accelerators: Accelerators = ()
    gpu_memory: MemoryAtLeast | None = None
    gpus: AtLeast | None = None
    cpus: AtLeast | None = None
    memory: MemoryAtLeast | None = None
    disk_size: MemoryAtLeast | None = None
    use_spot: Switch = "auto"
    infra: Annotated[Line, Field(pattern=r"^[A-Za-z0-9._*-]+(/[A-Za-z0-9._*-]+){0,2}$")] | None = None
    max_hourly_cost: Price | None = None
    cuda: Version | None = None
    compute_capability: Version | None = None

    def over(self, base: "Resources") -> "Resources":
        """Return these over `base`: what is said here counts, the rest is as there."""
        return base.model_copy(update={word: getattr(self, word) for word in self.model_fields_set})

    def needs(self) -> Iterator[Need]:
        """Yield one Need for each GPU that would do; one GPU of any kind where nothing is said."""
        cloud, region, zone = ([*(self.infra or "").replace("*", "").split("/"), "", ""])[:3]
        limit = self.max_hourly_cost
        for choice in map(accelerator, self.accelerators) if self.accelerators else (Accelerator(frozenset(), None),):
            said = choice.count if choice.count is not None else self.gpus
            yield Need(
                gpus=1 if said is None else said,
                gpu_names=choice.names,
                gpu_memory=max(self.gpu_memory or 0, choice.memory),
                vcpus=self.cpus or 0,
                memory=self.memory or 0,
                disk=self.disk_size or 0,
                cuda=self.cuda or "",
                min_compute_capability=self.compute_capability or "",
                cloud=cloud,
                region=region,
                zone=zone,
                max_hourly_micro=limit.micro if limit else None,
                spot=self.use_spot,
            )


class Checkpoint(Words):
    """Where the command keeps its checkpoints, and how it is told to write one."""

    path: InsidePath = "checkpoints"
    interval: Span = timedelta(minutes=10)
    signal: Literal["SIGTERM", "SIGUSR1", "SIGINT"] = "SIGTERM"
    grace: Duration = timedelta(seconds=30)
    keep: Annotated[Whole, Field(ge=1, le=100)] = 2


class Work(Words):
    """How much there is to do: hours on GPUs of a kind."""

    hours: Annotated[Number, Field(gt=0, le=1_000_000)]
    on: Annotated[Line, AfterValidator(_known_gpu)] = "V100-16"


class JobBudget(Words):
    """A cap on the whole job."""

    cap: Price
    at_cap: Literal["stop", "hold"] = "stop"


class Retry(Words):
    """After which events the job is tried again, and for how long from its submission on."""

    on_events: Annotated[tuple[Event, ...], BeforeValidator(listed)] = ("no-capacity", "interruption")
    duration: Span | None = None


class JobRecovery(Words):
    """SkyPilot's words for trying again."""

    strategy: Annotated[str, AfterValidator(_strategy)] | None = None
    max_restarts_on_errors: Annotated[Whole, Field(ge=0, le=1000)] | None = None


class JobSpec(Words):
    """One job, as its file says. Amounts are in the accounting currency."""

    name: Name
    run: Annotated[Text, Field(min_length=1)]
    project: Name | None = None
    setup: Text = ""
    workdir: Workdir | None = None
    resources: Resources = Resources()
    any_of: tuple[Resources, ...] = ()
    envs: dict[VariableName, Variable] = {}
    secrets: Annotated[tuple[VariableName, ...], BeforeValidator(_secret_names)] = ()
    outputs: Paths = ()
    checkpoint: Annotated[Checkpoint, _as_table("path")] | None = None
    budget: Annotated[JobBudget, _as_table("cap")] | None = None
    deadline: Deadline | None = None
    work: Work | None = None
    max_duration: Span | None = None
    retry: Retry = Retry()
    job_recovery: Annotated[JobRecovery, _as_table("strategy")] = JobRecovery()
    recover_on_exit_codes: Annotated[tuple[ExitCode, ...], BeforeValidator(listed)] = (75,)
    priority: Annotated[Whole, Field(ge=-1000, le=1000)] = 0
    not_before: Moment | None = None
    after: Names = ()

    @property
    def at_cap(self) -> str:
        """Return what happens when the job's own budget is used up: `stop` or `hold`."""
        return self.budget.at_cap if self.budget else "stop"

    @property
    def cap(self) -> Money | None:
        """Return the job's own cap."""
        return self.budget.cap if self.budget else None

    @property
    def max_restarts_on_errors(self) -> int:
        """Return how often a failed command is run again."""
        said = self.job_recovery.max_restarts_on_errors
        return said if said is not None else _RESTARTS if "error" in self.retry.on_events else 0

    @property
    def disk_bytes(self) -> int:
        """Return the disk that a machine gets."""
        return max(need.disk for need in self.needs()) or _DEFAULT_DISK

    def needs(self) -> tuple[Need, ...]:
        """Return every way to satisfy the job: one Need for each GPU of each alternative of `any_of`."""
        return self._needs

    @cached_property
    def _needs(self) -> tuple[Need, ...]:
        choices = [choice.over(self.resources) for choice in self.any_of] or [self.resources]
        return tuple(dict.fromkeys(need for choice in choices for need in choice.needs()))

    def environment(self, credentials: Path | None) -> dict[str, str]:
        """Return the variables of the command, the secrets read from the daemon's credentials folder. Raises OSError."""
        return {**self.envs, **{name: _secret(credentials, name) for name in self.secrets}}

    def to_json(self) -> dict[str, Any]:
        """Return the spec as JSON values: what the file says, not what it leaves out."""
        return self.model_dump(mode="json", exclude_unset=True)

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> Self:
        """Read a spec that `to_json` wrote."""
        return cls.model_validate(values)


def _secret(credentials: Path | None, name: str) -> str:
    if credentials is None:
        raise FileNotFoundError(f"secret {name}: the daemon has no credentials folder; see docs/job-files.md")
    return (credentials / name).read_text(encoding="utf-8").removesuffix("\n")
