"""Which clouds there are: each is imported only when it is switched on."""

from collections.abc import Mapping

from config.clock import Clock
from config.settings import Settings
from pricing.offer import PriceSource
from runner.provider import Provider
from runner.store import Store


def build_providers(settings: Settings, owner: str, clock: Clock, _store: Store) -> Mapping[str, Provider]:
    """Return every cloud that is switched on, by name."""
    found: dict[str, Provider] = {}
    if settings.clouds.sandbox.enabled:
        from runner.providers.sandbox import SandboxCloud

        found["sandbox"] = SandboxCloud(settings.under_state_dir("sandbox"), settings.clouds.sandbox, owner, clock)
    if settings.clouds.local.enabled:
        from runner.providers.local import LocalProvider

        found["local"] = LocalProvider(settings.under_state_dir("local"), settings.clouds.local, owner, clock)
    return found


def build_sources(settings: Settings, providers: Mapping[str, Provider]) -> tuple[PriceSource, ...]:
    """Return every price source that is switched on; those of our own clouds are told what is in use."""
    found: list[PriceSource] = []
    if settings.clouds.sandbox.enabled:
        from pricing.sources.sandbox import SandboxSource

        found.append(SandboxSource(settings.clouds.sandbox, in_use=providers["sandbox"].in_use))
    if settings.clouds.local.enabled:
        from pricing.sources.local import LocalSource

        found.append(LocalSource(settings.clouds.local, in_use=providers["local"].in_use))
    if settings.prices.files:
        from pricing.sources.file import FileSource

        found += [FileSource(path, settings.currency, settings.rates) for path in settings.prices.files]
    return tuple(found)
