"""Which clouds there are: each is imported only when it is switched on."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from config.clock import Clock
from config.settings import Settings
from pricing.bill import BillSource
from pricing.offer import PriceSource
from runner.provider import Provider
from runner.store.grants import MachineKeys


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
    found.sources += _price_lists(settings)
    return found


def build_providers(settings: Settings, owner: str, clock: Clock) -> Mapping[str, Provider]:
    """Return every cloud that is switched on, by name."""
    return build_clouds(settings, owner, clock).providers


def _price_lists(settings: Settings) -> list[PriceSource]:
    if not settings.prices.files:
        return []
    from pricing.sources.file import FileSource

    return [FileSource(path, settings.currency, settings.rates) for path in settings.prices.files]
