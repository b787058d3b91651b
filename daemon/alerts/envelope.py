"""The body of an alert: one versioned JSON form for every event (docs/alerts.md shows each)."""

import json
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

from config.reason import sentence
from config.settings import AlertSettings
from config.units import Money
from daemon.models import Event, Outbox

VERSION = 1
LARGEST = 20_000
"""No body has more bytes, so that every receiver takes it."""
_LONGEST_TEXT, _LONGEST_LOG, _LONGEST_VALUE = 3_000, 8_000, 1_000
ALERTS = frozenset(
    {
        "budget.threshold",
        "budget.forecast",
        "budget.reached",
        "job.placed",
        "job.advised",
        "job.started",
        "job.resumed",
        "job.interrupted",
        "job.lost",
        "job.held",
        "job.finished",
        "job.failed",
        "job.cancelled",
        "job.warning",
        "machine.leaked",
        "prices.stale",
        "prices.quarantined",
        "grant.short",
        "bill.drift",
        "bill.unchecked",
        "source.down",
        "source.up",
        "file.rejected",
        "daemon.started",
        "daemon.stopped",
    }
)
"""Events that are told to people; the others are in the event table alone."""


def outbox_rows(event: Event, endpoints: Sequence[AlertSettings], install: str, currency: str = "USD") -> list[Outbox]:
    """Return the messages that an event makes, one for each endpoint that wants it."""
    if event.code not in ALERTS:
        return []
    body = envelope(event, install, currency)
    return [
        Outbox(event_id=event.id or 0, endpoint=endpoint.name, payload=body, created_at=event.at, next_at=event.at)
        for endpoint in endpoints
        if any(fnmatchcase(event.code, pattern) for pattern in endpoint.events)
    ]


def envelope(event: Event, install: str, currency: str = "USD") -> dict[str, Any]:
    """Return an event's body; money is there in millionths and as people read it."""
    return {
        "version": VERSION,
        "id": f"evt_{install}_{event.id}",
        "type": event.code,
        "at": event.at.isoformat(timespec="milliseconds"),
        "install": install,
        "text": shortened(sentence(event.code, event.values, currency), _LONGEST_TEXT),
        "standing": _standing(event, currency),
        "job": event.job_id,
        "machine": event.machine_id,
        "attempt": event.attempt if event.attempt >= 0 else None,
        "currency": currency,
        "data": _readable(event.values, currency),
    }


def _standing(event: Event, currency: str) -> str:
    """Return what was spent and what is still needed, where the event's own sentence doesn't say both."""
    if event.values.get("spent_micro") is None or event.code.startswith("budget."):
        return ""
    known = event.values.get("needed_micro") is not None
    return sentence("alert.standing" if known else "alert.spent", event.values, currency)


def _readable(values: Mapping[str, Any], currency: str) -> dict[str, Any]:
    found = dict(values)
    for name, value in values.items():
        if isinstance(value, Mapping):
            found |= {name: sentence(value["code"], value["values"], currency), f"{name}_code": value["code"]}
        if name.endswith("_micro") and isinstance(value, int):
            found[name.removesuffix("_micro")] = str(Money(value, currency))
    for name, value in found.items():
        if isinstance(value, str):
            most = _LONGEST_LOG if name == "log_tail" else _LONGEST_VALUE
            found[name] = shortened(value, most, keep_end=name == "log_tail")
    return found


def shortened(text: str, most: int, *, keep_end: bool = False) -> str:
    """Return `text`, cut so that it takes at most `most` bytes in JSON: of a log the end counts, of a sentence the beginning."""
    if _bytes(text) <= most:
        return text
    low, high = 0, len(text)
    while low < high:  # the most characters that fit
        middle = (low + high + 1) // 2
        low, high = (
            (middle, high) if _bytes(text[-middle:] if keep_end else text[:middle]) <= most - 3 else (low, middle - 1)
        )
    return f"…{text[len(text) - low :]}" if keep_end else f"{text[:low]}…"


def _bytes(text: str) -> int:
    return len(json.dumps(text, ensure_ascii=False).encode("utf-8", "replace")) - 2
