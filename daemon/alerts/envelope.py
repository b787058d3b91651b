"""The body of an alert: one versioned JSON form for every event (docs/alerts.md shows each)."""

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

from config.reason import sentence
from config.settings import AlertSettings
from config.units import Money
from daemon.models import Event, Outbox

VERSION = 1
LARGEST = 20_000
ALERTS = frozenset({
    "budget.threshold", "budget.forecast", "budget.reached", "job.placed", "job.started", "job.resumed", "job.interrupted",
    "job.lost", "job.held", "job.finished", "job.failed", "job.cancelled", "job.warning", "machine.leaked", "prices.stale",
    "prices.quarantined", "source.down", "source.up", "file.rejected", "daemon.started", "daemon.stopped",
})
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
        "text": sentence(event.code, event.values, currency),
        "job": event.job_id,
        "machine": event.machine_id,
        "attempt": event.attempt if event.attempt >= 0 else None,
        "currency": currency,
        "data": _readable(event.values, currency),
    }


def _readable(values: Mapping[str, Any], currency: str) -> dict[str, Any]:
    found = dict(values)
    for name, value in values.items():
        if name.endswith("_micro") and isinstance(value, int):
            found[name.removesuffix("_micro")] = str(Money(value, currency))
    if isinstance(found.get("log_tail"), str):
        found["log_tail"] = found["log_tail"][-LARGEST // 2 :]
    return found
