"""`frugald doctor aws`: everything that must be so before a machine can be rented, each region by itself."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

from config.clock import Clock
from config.settings import Settings
from daemon.doctor import Finding
from daemon.doctor import aws_account as account
from daemon.doctor import aws_region as region
from daemon.doctor.aws_identity import identify
from daemon.doctor.aws_site import Site, checked
from pricing.aws.clients import Clients

_AT_ONCE = 8


def examine(settings: Settings, clients: Clients, clock: Clock) -> list[Finding]:
    """Return every finding: of the credentials first, since nothing can be asked without them."""
    identity = identify(settings, clients, clock)
    found = [*identity.findings, *account.settings(settings)]
    if identity.site is None:
        return found
    site, regions = identity.site, identity.site.aws.regions
    with ThreadPoolExecutor(min(_AT_ONCE, len(regions) + 1)) as threads:
        whole = threads.submit(lambda: list(_account(site)))
        parts = threads.map(lambda name: list(region.examine(site, name)), regions)
        return [*found, *whole.result(), *(one for part in parts for one in part)]


def _account(site: Site) -> Iterator[Finding]:
    yield from checked("prices", lambda: account.prices(site))
    if not site.rents:
        return
    yield from checked("roles", lambda: account.roles(site))
    yield from checked("spot role", lambda: account.spot_role(site))
    yield from checked("bucket", lambda: account.bucket(site))
