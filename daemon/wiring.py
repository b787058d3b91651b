"""Which clouds there are: each is imported only when it is switched on."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from config.clock import Clock
from config.settings import Settings
from daemon.http import fetch_public
from pricing.bill import BillSource
from pricing.offer import PriceSource
from runner.provider import Provider
from runner.store.grants import MachineKeys


class CantConnect(Exception):
    """A cloud that is switched on can't be used at all on this computer; the sentence says what to do."""


@dataclass
class Clouds:
    """Where machines are rented, where prices come from, and where bills can be seen."""

    providers: dict[str, Provider] = field(default_factory=dict)
    sources: list[PriceSource] = field(default_factory=list)
    bills: list[BillSource] = field(default_factory=list)
    grants: dict[str, MachineKeys] = field(default_factory=dict)


def build_clouds(settings: Settings, owner: str, clock: Clock) -> Clouds:
    """Connect every cloud and price list that is switched on; `owner` goes into every machine's tag."""
    found = Clouds()
    if settings.clouds.sandbox.enabled:
        from pricing.sources.sandbox import SandboxSource
        from runner.providers.sandbox import SandboxCloud

        sandbox = SandboxCloud(settings.under_state_dir("sandbox"), settings.clouds.sandbox, owner, clock)
        found.providers[sandbox.name] = sandbox
        found.sources.append(SandboxSource(settings.clouds.sandbox, in_use=sandbox.in_use))
    if settings.clouds.local.enabled:
        from pricing.sources.local import LocalSource
        from runner.providers.local import LocalProvider

        local = LocalProvider(settings.under_state_dir("local"), settings.clouds.local, owner, clock)
        found.providers[local.name] = local
        found.sources.append(LocalSource(settings.clouds.local, in_use=local.in_use))
    if settings.clouds.aws.enabled:
        _connect_aws(found, settings, owner, clock)
    found.sources += _price_lists(settings)
    return found


def build_providers(settings: Settings, owner: str, clock: Clock) -> Mapping[str, Provider]:
    """Return every cloud that is switched on, by name."""
    return build_clouds(settings, owner, clock).providers


def _connect_aws(found: Clouds, settings: Settings, owner: str, clock: Clock) -> None:
    """Connect AWS, asking it nothing yet. Raises CantConnect."""
    try:
        from botocore.exceptions import BotoCoreError

        from pricing.aws.bill import AwsBill
        from pricing.aws.clients import Clients
        from pricing.sources.aws import sources
        from runner.providers.aws import AwsCloud
        from runner.providers.ec2.grants import AwsGrants
    except ImportError as error:
        raise CantConnect(f"AWS needs boto3 ({error}): install `frugald[aws]`") from error
    aws = settings.clouds.aws
    try:
        clients = Clients(aws)
    except BotoCoreError as error:
        raise CantConnect(f"AWS: {error}; correct `clouds.aws.profile`") from error
    found.providers["aws"] = AwsCloud(aws, clients, owner, clock)
    found.sources += sources(
        aws, clients, settings.under_state_dir("prices"), settings.currency, settings.rates, fetch_public
    )
    if aws.check_bill:
        found.bills.append(AwsBill(clients, owner))
    if settings.store.url.startswith("s3://"):
        found.grants["aws"] = AwsGrants(clients, aws, settings.store.url)


def _price_lists(settings: Settings) -> list[PriceSource]:
    if not settings.prices.files:
        return []
    from pricing.sources.file import FileSource

    return [FileSource(path, settings.currency, settings.rates) for path in settings.prices.files]
