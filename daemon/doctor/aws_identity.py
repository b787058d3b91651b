"""Who the credentials are, how long they last, and whether this computer's clock agrees with AWS's."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Any

from botocore.credentials import RefreshableCredentials
from botocore.exceptions import BotoCoreError, ClientError
from botocore.parsers import ResponseParserError

from config.clock import Clock
from config.settings import Settings
from daemon.doctor import Finding
from daemon.doctor.aws_site import Site, bad, odd, ok, refused
from daemon.setup.aws_names import names
from pricing.aws.clients import Clients

_SKEW, _TOO_MUCH = timedelta(minutes=1), timedelta(minutes=5)  # AWS refuses what is signed 5 minutes off
_CHAINED = timedelta(minutes=30)  # grants of a daemon with a role last an hour and are renewed at half of it


@dataclass(frozen=True, slots=True)
class Identity:
    """What was found of the credentials; without a site nothing more can be asked."""

    findings: list[Finding]
    site: Site | None


def identify(settings: Settings, clients: Clients, clock: Clock) -> Identity:
    """Ask AWS who we are; the answer's date shows the clock."""
    aws = settings.clouds.aws
    try:
        answer = clients.get("sts", aws.regions[0]).get_caller_identity()
    except ClientError as error:
        return Identity([refused("credentials", error), *_clock(error.response, clock.now())], None)
    except (BotoCoreError, ResponseParserError) as error:
        return Identity([bad("credentials", "no_credentials", "credentials", why=str(error))], None)
    site = Site(settings, clients, names(aws, answer["Account"], settings.store.url), answer["Arn"])
    return Identity([*_who(site), *_clock(answer, clock.now())], site)


def _who(site: Site) -> Iterator[Finding]:
    arn = site.caller
    if arn.endswith(":root"):
        yield bad("credentials", "root", "no_root", arn=arn)
        return
    credentials = site.clients.credentials()
    renewed = isinstance(credentials, RefreshableCredentials)
    if credentials is not None and credentials.token and not renewed:
        yield odd("credentials", "temporary", "renewing", arn=arn, source=str(credentials.method))
    else:
        yield ok("credentials", "renewing" if renewed else "static", arn=arn)
    longest = site.settings.lease.longest
    if site.rents and ":assumed-role/" in arn and longest > _CHAINED:
        yield odd("credentials", "chained", "chained", longest_s=longest.total_seconds())


def _clock(answer: Mapping[str, Any], now: datetime) -> Iterator[Finding]:
    dated = _date(answer.get("ResponseMetadata", {}).get("HTTPHeaders", {}).get("date", ""))
    if dated is None:
        return
    off = abs(now - dated)
    if off > _TOO_MUCH:
        yield bad("clock", "skewed", "ntp", off_s=off.total_seconds())
    elif off > _SKEW:
        yield odd("clock", "skewed", "ntp", off_s=off.total_seconds())
    else:
        yield ok("clock", "clock")


def _date(text: str) -> datetime | None:
    """Read an HTTP date, which is in UTC; nothing of what is none: a proxy may have written it."""
    try:
        return parsedate_to_datetime(text).replace(tzinfo=UTC)
    except ValueError:
        return None
