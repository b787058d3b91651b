"""The last good price list of a region, on disk: it survives a restart, and a price service that is down."""

import json
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any

from pricing.aws.list_prices import Listed, Prices, Term

_FORM = 1


@dataclass(frozen=True, slots=True)
class Dated:
    """A price list and when AWS last confirmed it."""

    at: datetime
    prices: Prices


def load(path: Path, currency: str) -> Dated | None:
    """Return what is kept at `path`; None where nothing is, or nothing that can be used."""
    try:
        kept = json.loads(path.read_text(encoding="utf-8"))
        if (kept["form"], kept["currency"]) != (_FORM, currency):
            return None
        at = datetime.fromisoformat(kept["at"])
        return Dated(at, {name: _listed(one) for name, one in kept["types"].items()}) if at.tzinfo else None
    except (OSError, ValueError, KeyError, TypeError, InvalidOperation):
        return None


def save(path: Path, dated: Dated, currency: str) -> None:
    """Keep a list; a reader sees the old one or the new one, whole. A full disk keeps nothing and stops nothing."""
    types = {name: _plain(one) for name, one in dated.prices.items()}
    kept = {"form": _FORM, "currency": currency, "at": dated.at.isoformat(), "types": types}
    draft = path.with_suffix(".new")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        draft.write_text(json.dumps(kept), encoding="utf-8")
        draft.replace(path)
    except OSError:
        draft.unlink(missing_ok=True)


def _plain(one: Listed) -> list[Any]:
    terms = [[t.hours, t.payment, t.offering_class, str(t.hourly), str(t.upfront)] for t in one.terms]
    return [str(one.hourly), terms]


def _listed(kept: list[Any]) -> Listed:
    hourly, terms = kept
    return Listed(Decimal(hourly), tuple(Term(h, p, c, Decimal(fee), Decimal(once)) for h, p, c, fee, once in terms))
