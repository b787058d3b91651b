"""Every setting, as frozen values. `docs/settings.md` lists them; `config/frugald.toml` is the annotated default."""

from datetime import timedelta
from pathlib import Path
from typing import Annotated, Literal
from zoneinfo import ZoneInfo

from pydantic import Field, SecretStr

from config.aws_settings import AwsSettings
from config.fields import Amount, Duration, MemorySize, Span
from config.section import Section
from config.units import Money

Share = Annotated[float, Field(ge=0, le=1)]
Count = Annotated[int, Field(ge=1)]


class InboxSettings(Section):
    """The drop folder."""

    folder: Path = Path("drop")  # relative to `state_dir`
    every: Span = timedelta(seconds=2)
    quiet: Duration = timedelta(seconds=2)  # a file younger than this may still be being written
    largest_file: MemorySize = 256 * 1024
    largest_code: MemorySize = 2 * 1024**3


class LeaseSettings(Section):
    """How long a machine may go on without the daemon."""

    length: Span = timedelta(minutes=20)
    longest: Span = timedelta(hours=2)  # leases grow up to this while every cap has room
    shortest: Span = timedelta(minutes=2)  # near a cap leases shrink to this; with less room the job is stopped
    boot: Span = timedelta(minutes=20)  # the first lease, counted from boot
    end: Duration = timedelta(minutes=2)  # set aside on top: the time to end a machine


class BudgetSettings(Section):
    """One cap."""

    scope: Literal["all", "project", "user", "cloud"] = "all"
    subject: str = ""
    period: Literal["hour", "day", "week", "month", "total"] = "month"
    cap: Amount
    at_cap: Literal["stop", "hold"] = "stop"
    thresholds: tuple[Annotated[int, Field(ge=1, le=100)], ...] = (50, 80, 100)


class AlertSettings(Section):
    """One place that alerts go to. Secrets come from files in the credentials folder, or are written here."""

    name: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_-]{0,62}$")]
    kind: Literal["webhook", "slack", "dingtalk", "feishu", "wecom", "email"] = "webhook"
    url: str = ""  # for email: smtp://host:port or smtps://user@host:port
    secret: SecretStr | None = None  # webhook: `whsec_...`; chat robots: the signing key; email: the password
    old_secret: SecretStr | None = None  # still signed with while receivers rotate
    events: tuple[str, ...] = ("*",)  # patterns of event codes, such as `budget.*`
    to: tuple[str, ...] = ()  # email
    sender: str = ""  # email
    allow_private: bool = False  # let the address be a private or loopback one


class StoreSettings(Section):
    """The object store that the daemon and every machine can reach."""

    url: str = ""  # empty: a folder `store` in `state_dir`
    profile: str = ""  # s3 only: of ~/.aws/config; empty: that of `clouds.aws`


class PriceSettings(Section):
    """How prices are polled and believed."""

    every: Span = timedelta(minutes=1)
    stale_after: Span = timedelta(minutes=15)
    jump: Annotated[float, Field(gt=1)] = (
        5.0  # a price this many times higher or lower than the last one is looked at twice
    )
    files: tuple[Path, ...] = ()  # price lists, CSV or JSON


class ChooseSettings(Section):
    """How offers are ranked."""

    runners_up: Annotated[int, Field(ge=0)] = 3
    sold_out_for: Duration = timedelta(minutes=3)  # doubles each time, up to an hour
    interrupted_for: Duration = timedelta(minutes=10)
    quota_for: Duration = timedelta(minutes=15)
    max_launches_per_minute: Count = 20
    max_machines: Count = 100
    launch_tries: Count = 20  # offers tried in a row before the job is held


class SandboxSettings(Section):
    """The cloud inside frugald: invented markets, real processes."""

    enabled: bool = True
    seed: int = 1
    boot: Duration = timedelta(seconds=1)
    notice: Duration = timedelta(seconds=8)
    hazard_per_hour: Annotated[float, Field(ge=0)] = 0.2  # mean interruption rate; pools differ
    interruptions: bool = True  # False: only those asked for
    no_notice_share: Share = 0.1  # this share of the interruptions comes without a notice
    sold_out_share: Share = 0.1  # this share of spot pools has nothing at any time
    throttle_share: Share = 0.0  # this share of calls is refused as too frequent
    lost_answer_share: Share = 0.0  # this share of launches succeeds with its answer lost
    listing_lag: Duration = timedelta(0)
    quota_gpus: Annotated[float, Field(ge=0)] = 64
    price_file: Path | None = None  # CSV or JSON list of prices in place of the invented ones


class LocalSettings(Section):
    """This computer as a cloud of one machine per GPU (or one for its CPUs)."""

    enabled: bool = False
    hourly: Amount = Money(0)
    cpu_machines: Annotated[int, Field(ge=0)] = 0  # how many machines its CPUs make, if it has no GPU


class CloudSettings(Section):
    """The clouds that may be rented from."""

    sandbox: SandboxSettings = SandboxSettings()
    local: LocalSettings = LocalSettings()
    aws: AwsSettings = AwsSettings()


class ApiSettings(Section):
    """Where the CLI finds the daemon."""

    socket: Path = Path("frugald.sock")  # relative to `state_dir`


class Settings(Section):
    """All of them."""

    state_dir: Path = Path("var")
    mode: Literal["rent", "advise"] = "rent"  # advise: decide and say, rent nothing
    currency: Annotated[str, Field(pattern=r"^[A-Z]{3}$")] = "USD"
    timezone: str = "UTC"  # of the budget periods
    default_budget: Amount | None = None  # of a job that names none
    tick: Span = timedelta(seconds=1)  # how often the loop looks, at least
    charge_every: Span = timedelta(minutes=1)  # a billing interval in the ledger
    silent_after: Span = timedelta(minutes=3)  # a machine not heard for this long is lost
    rates: dict[str, Annotated[float, Field(gt=0)]] = {}  # noqa: RUF012 - pydantic copies it; accounting units for one unit of another currency
    inbox: InboxSettings = InboxSettings()
    lease: LeaseSettings = LeaseSettings()
    store: StoreSettings = StoreSettings()
    prices: PriceSettings = PriceSettings()
    choose: ChooseSettings = ChooseSettings()
    clouds: CloudSettings = CloudSettings()
    api: ApiSettings = ApiSettings()
    budgets: tuple[BudgetSettings, ...] = ()
    alerts: tuple[AlertSettings, ...] = ()

    @property
    def zone(self) -> ZoneInfo:
        """Return the time zone of the budget periods."""
        return ZoneInfo(self.timezone)

    def under_state(self, path: Path) -> Path:
        """Resolve a path that is relative to `state_dir`."""
        return path if path.is_absolute() else (self.state_dir / path).absolute()

    def under_state_dir(self, name: str) -> Path:
        """Return the folder `name` in `state_dir`, absolute."""
        return self.under_state(Path(name))
