"""What pydantic can't see: settings that are fine alone and wrong together."""

import base64
import binascii
import tomllib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo, available_timezones

from pydantic import SecretStr

from config.explain import near
from config.settings import AlertSettings, BudgetSettings, CloudSettings, Settings
from config.toml_lines import Key
from config.units import Money, print_duration

_MAKE_SECRET = "make one with `echo whsec_$(openssl rand -base64 24)`"  # noqa: S105 - a command, not a secret


@dataclass(frozen=True, slots=True)
class Complaint:
    """What is wrong with the settings `keys`, and what to write instead.

    The first key that was written is the one to blame, else the first. Nothing is said while any of `keys` or of `given`,
    the settings that make this one wrong, is itself bad.
    """

    keys: tuple[Key, ...]
    message: str
    hint: str = ""
    given: tuple[Key, ...] = ()


def complaints(settings: Settings) -> Iterator[Complaint]:
    """Yield everything that is wrong between settings."""
    yield from _leases(settings)
    yield from _places(settings)
    yield from _money(settings)
    for index, budget in enumerate(settings.budgets):
        yield from _budget(("budgets", index), budget)
    yield from _twice("budgets", [f"{each.scope} {each.subject}/{each.period}" for each in settings.budgets], "cap")
    for index, alert in enumerate(settings.alerts):
        yield from _alert(("alerts", index), alert)
    yield from _twice("alerts", [alert.name for alert in settings.alerts], "name")


@cache
def event_codes() -> frozenset[str]:
    """Return the code of every event: those that have a sentence in `config/words/en/events.toml`."""
    path = Path(__file__).parent / "words" / "en" / "events.toml"
    tables = tomllib.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    return frozenset(f"{table}.{name}" for table, entries in tables.items() for name in entries)


def _leases(settings: Settings) -> Iterator[Complaint]:
    lease = settings.lease
    for short, long in (("shortest", "length"), ("length", "longest")):
        less, more = getattr(lease, short), getattr(lease, long)
        if less > more:
            yield Complaint(
                (("lease", short), ("lease", long)),
                f"{print_duration(less)} is longer than `{long}`, {print_duration(more)}",
                "keep `shortest` <= `length` <= `longest`",
            )


def _places(settings: Settings) -> Iterator[Complaint]:
    try:
        ZoneInfo(settings.timezone)
    except (KeyError, ValueError, OSError):
        hint = near(settings.timezone, available_timezones()) or "write one like `Asia/Shanghai` or `UTC`"
        yield Complaint((("timezone",),), f"there is no time zone `{settings.timezone}`", hint)
    if settings.store.url and not urlsplit(settings.store.url).scheme:
        yield Complaint(
            (("store", "url"),), "is not an address", "write it like `s3://bucket/prefix` or `file:///srv/store`"
        )
    names = list(CloudSettings.model_fields)
    if not any(getattr(settings.clouds, name).enabled for name in names):
        keys = tuple(("clouds", name, "enabled") for name in names)
        yield Complaint(keys, "no cloud is enabled, so no job could ever run", f"enable one of {', '.join(names)}")
    yield from _store(settings)


def _store(settings: Settings) -> Iterator[Complaint]:
    """Every machine must reach the store, and has what that takes."""
    clouds, bucket = settings.clouds, settings.store.url.startswith("s3://")
    if clouds.aws.enabled and settings.mode == "rent" and not bucket:
        yield Complaint(
            (("clouds", "aws", "enabled"),),
            "its machines reach no store but a bucket",
            "set `store.url` to what `frugald setup aws` prints, like `s3://bucket/prefix`",
        )
    for name in ("sandbox", "local"):
        if bucket and getattr(clouds, name).enabled:
            yield Complaint(
                (("clouds", name, "enabled"),),
                "machines on this computer get no credentials for the bucket of `store.url`",
                f"write `enabled = false` in [clouds.{name}], or leave `store.url` out",
                given=(("store", "url"),),
            )


def _money(settings: Settings) -> Iterator[Complaint]:
    amounts: list[tuple[Key, Money]] = [(("clouds", "local", "hourly"), settings.clouds.local.hourly)]
    amounts += [(("budgets", index, "cap"), budget.cap) for index, budget in enumerate(settings.budgets)]
    if settings.default_budget:
        amounts.append((("default_budget",), settings.default_budget))
    for key, amount in amounts:
        if amount.micro and amount.currency != settings.currency and amount.currency not in settings.rates:
            yield Complaint(
                (key,),
                f"there is no rate for {amount.currency}",
                f"say what one {amount.currency} is worth in {settings.currency}: `{amount.currency} = ...` in [rates]",
                given=(("currency",), ("rates",)),
            )
    for currency in settings.rates:
        if currency == settings.currency:
            yield Complaint((("rates", currency),), "is the accounting currency itself", "leave it out")
        elif not (len(currency) == 3 and currency.isascii() and currency.isalpha() and currency.isupper()):
            yield Complaint((("rates", currency),), "is not a currency", "write three capital letters, like `CNY`")


def _budget(key: Key, budget: BudgetSettings) -> Iterator[Complaint]:
    scope, subject = (*key, "scope"), (*key, "subject")
    if budget.scope == "all" and budget.subject:
        yield Complaint(
            (subject, scope), "a budget of scope `all` has no subject", "leave it out, or name another scope"
        )
    elif budget.scope != "all" and not budget.subject:
        yield Complaint(
            (scope, subject), f"a budget of scope `{budget.scope}` needs a subject", f"say which {budget.scope}"
        )
    elif budget.scope == "cloud" and budget.subject not in CloudSettings.model_fields:
        hint = near(budget.subject, CloudSettings.model_fields) or f"known: {', '.join(CloudSettings.model_fields)}"
        yield Complaint((subject, scope), f"there is no cloud `{budget.subject}`", hint)
    for percent, times in Counter(budget.thresholds).items():
        if times > 1:
            yield Complaint(((*key, "thresholds"),), f"{percent} is there {times} times", "name each once")


def _alert(key: Key, alert: AlertSettings) -> Iterator[Complaint]:
    yield from _address(key, alert)
    if alert.kind == "webhook":
        yield from _secrets(key, alert)
    for name in ("to", "sender"):
        if alert.kind == "email" and not getattr(alert, name):
            hint = 'write an address, like "ops@example.com"'
            yield Complaint(((*key, name),), "an email alert needs it", hint, given=((*key, "kind"),))
    for index, pattern in enumerate(alert.events):
        if event_codes() and not any(fnmatchcase(code, pattern) for code in event_codes()):
            yield Complaint(((*key, "events", index),), f"no event matches `{pattern}`", near(pattern, event_codes()))


def _address(key: Key, alert: AlertSettings) -> Iterator[Complaint]:
    url, kind = ((*key, "url"),), ((*key, "kind"),)
    schemes = ("smtps", "smtp") if alert.kind == "email" else ("https", "http")
    if not alert.url:
        hint = f"write it here, or into a file `alerts.{alert.name}.url` in the credentials folder"
        yield Complaint(url, f"an alert of kind `{alert.kind}` needs an address", hint, given=kind)
    elif not _is_address(alert.url, schemes):
        hint = f"it must start with {schemes[0]}:// or {schemes[1]}:// and name a host"
        yield Complaint(url, f"is not an address for an alert of kind `{alert.kind}`", hint, given=kind)


def _secrets(key: Key, alert: AlertSettings) -> Iterator[Complaint]:
    kind = ((*key, "kind"),)
    if alert.secret is None:
        hint = f"{_MAKE_SECRET} and put it in a file `alerts.{alert.name}.secret` in the credentials folder"
        yield Complaint(((*key, "secret"),), "a webhook needs a secret to sign with", hint, given=kind)
    for name in ("secret", "old_secret"):
        value = getattr(alert, name)
        if value is not None and not _signs(value):
            message = "is not a webhook secret: `whsec_` and 24 to 64 bytes in base64"
            yield Complaint(((*key, name),), message, _MAKE_SECRET, given=kind)


def _signs(secret: SecretStr) -> bool:
    prefix, _, encoded = secret.get_secret_value().partition("whsec_")
    try:
        return not prefix and 24 <= len(base64.b64decode(encoded, validate=True)) <= 64
    except (binascii.Error, ValueError):
        return False


def _is_address(url: str, schemes: tuple[str, ...]) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme in schemes and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


def _twice(table: str, names: list[str], field: str) -> Iterator[Complaint]:
    for index, name in enumerate(names):
        if name in names[:index]:
            first = names.index(name)
            message = f"`{name}` is there already, as {table}[{first}]"
            yield Complaint(((table, index, field),), message, "leave one out", given=((table, first),))
