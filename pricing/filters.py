"""The hard conditions: each keeps the offers that satisfy a need and has a sentence for the others.

They apply in the order of FILTERS, from what never changes to what may be otherwise in a minute; an offer is counted by
the first one that it fails. For a filter called `x`, `pass.x` says why offers were passed over and `nothing.x` why none
is left.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import numpy as np

from config import gpus
from config.reason import Value
from pricing.columns import Columns, Integers, Mask, card, whole_and_share
from pricing.need import Need
from pricing.offer import Quota

Closed = Mapping[str, tuple[datetime, str]]
"""What is left alone for a while: a pool, a family (`cloud/region/family/market`) or a cloud; until when, why."""
Values = dict[str, Value]
_SHORTEST_STAY = timedelta(hours=1)  # owned capacity that ends sooner isn't worth a boot
_SHOWN = 6  # names in one sentence


@dataclass(frozen=True, slots=True)
class Question:
    """A need, and everything of the moment that decides which offers satisfy it."""

    need: Need
    now: datetime
    closed: Closed
    stale_after: timedelta
    quotas: Sequence[Quota]
    checkpointed: bool


@dataclass(frozen=True, slots=True)
class Filter:
    """One condition: `keep` returns None when the need doesn't ask; `values` fill its sentences from what was left."""

    name: str
    keep: Callable[[Columns, Question], Mask | None]
    values: Callable[[Columns, Question, Mask], Values] = lambda _columns, _question, _rows: {}
    momentary: bool = False  # what it rules out may be had again without anybody doing anything


# ---------------------------------------------------------------- the machine


def _place(columns: Columns, q: Question) -> Mask | None:
    need = q.need
    wanted = (need.cloud, need.region, need.zone)
    if not any(wanted):
        return None
    return columns.place.where(lambda place: all(w in {"", p} for w, p in zip(wanted, place, strict=True)))


def _place_values(columns: Columns, q: Question, rows: Mask) -> Values:
    """Name the places that there are, one step finer than what of the wanted one is right."""
    wanted = [part for part in (q.need.cloud, q.need.region, q.need.zone) if part]
    places = columns.place.among(rows)
    known = [p for p in places if q.need.cloud in {"", p.cloud}] or places
    named = {p.cloud if q.need.cloud != p.cloud else f"{p.cloud}/{p.region}" for p in known}
    if q.need.zone and (near := [p for p in known if p.region == q.need.region]):
        named = {str(place) for place in near}
    return {"infra": "/".join(wanted), "places": _listed(named)}


def _gpu(columns: Columns, q: Question) -> Mask | None:
    names = {whole_and_share(name)[0] for name in q.need.gpu_names}
    return columns.card.where(names.__contains__) if names else None


def _gpu_values(columns: Columns, q: Question, rows: Mask) -> Values:
    return {"gpus": _listed(q.need.gpu_names), "found": _listed(filter(None, columns.card.among(rows))) or "none"}


def _count(columns: Columns, q: Question) -> Mask:
    """Keep machines with enough GPUs, and slices where a slice will do.

    A slice stands in for one whole GPU only when the job says how much memory it needs and names no card; a job that
    asks for a part by its count (`0.25`) or its name (`A10-1/4`) takes slices of at least that size.
    """
    need = q.need
    if need.gpus == 1 and not need.gpu_names and need.gpu_memory:
        return columns.gpus > 0
    if need.gpus > 1 or not need.gpu_names:
        return columns.gpus >= need.gpus
    shares = dict(sorted(map(whole_and_share, need.gpu_names), reverse=True))  # the smallest share of each card
    return columns.gpus >= need.gpus * columns.card.numbers(shares, 1.0)


def _count_values(columns: Columns, q: Question, rows: Mask) -> Values:
    return {"gpus": f"{q.need.gpus:g}", "best": f"{columns.gpus[rows].max():g}"}


def _gpu_memory(columns: Columns, q: Question) -> Mask | None:
    return columns.gpu_memory >= q.need.gpu_memory if q.need.gpu_memory else None


def _gpu_memory_values(columns: Columns, q: Question, rows: Mask) -> Values:
    best = columns.offers[_largest(columns.gpu_memory, rows)]
    return {"gpu_memory_bytes": q.need.gpu_memory, "best": best.gpu or best.pool.type, "best_bytes": best.gpu_memory}


def _vcpus(columns: Columns, q: Question) -> Mask | None:
    return columns.vcpus >= q.need.vcpus if q.need.vcpus else None


def _vcpus_values(columns: Columns, q: Question, rows: Mask) -> Values:
    return {"vcpus": f"{q.need.vcpus:g}", "best": f"{columns.vcpus[rows].max():g}"}


def _memory(columns: Columns, q: Question) -> Mask | None:
    return columns.memory >= q.need.memory if q.need.memory else None


def _memory_values(columns: Columns, q: Question, rows: Mask) -> Values:
    return {"memory_bytes": q.need.memory, "best_bytes": int(columns.memory[rows].max())}


# ---------------------------------------------------------------- its software


def _capability(columns: Columns, q: Question) -> Mask | None:
    least = q.need.min_compute_capability
    return columns.card.where(lambda name: _capability_of(name) >= _version(least)) if least else None


def _capability_values(columns: Columns, q: Question, rows: Mask) -> Values:
    best = max(columns.card.among(rows), key=_capability_of)
    has = ".".join(map(str, _capability_of(best))) or "none"
    return {"capability": q.need.min_compute_capability, "best": best or "none", "best_capability": has}


def _cuda(columns: Columns, q: Question) -> Mask | None:
    return columns.card.where(lambda name: _serves(name, q.need.cuda)) if q.need.cuda else None


def _cuda_values(columns: Columns, q: Question, rows: Mask) -> Values:
    return {"cuda": q.need.cuda, "found": _listed(filter(None, columns.card.among(rows))) or "none"}


def _driver(columns: Columns, q: Question) -> Mask | None:
    if not q.need.cuda:
        return None
    return columns.cuda_max.where(lambda newest: not newest or _version(newest) >= _version(q.need.cuda))


def _driver_values(columns: Columns, q: Question, rows: Mask) -> Values:
    return {"cuda": q.need.cuda, "best": max(columns.cuda_max.among(rows), key=_version)}


# ---------------------------------------------------------------- its price and market


def _price(columns: Columns, q: Question) -> Mask | None:
    return None if q.need.max_hourly_micro is None else columns.hourly <= q.need.max_hourly_micro


def _price_values(columns: Columns, q: Question, rows: Mask) -> Values:
    return {"limit_hourly_micro": q.need.max_hourly_micro, "best_hourly_micro": int(columns.hourly[rows].min())}


def _only_spot(columns: Columns, q: Question) -> Mask | None:
    return columns.spot | columns.reserved if q.need.spot == "yes" else None


def _no_spot(columns: Columns, q: Question) -> Mask | None:
    return ~columns.spot if q.need.spot == "no" else None


def _restart(columns: Columns, q: Question) -> Mask | None:
    """A job that starts from zero after an interruption goes to spot only when it says so."""
    return ~columns.spot if q.need.spot == "auto" and not q.checkpointed else None


def _ends(columns: Columns, q: Question) -> Mask:
    return columns.ends > (q.now + _SHORTEST_STAY).timestamp()


# ---------------------------------------------------------------- this moment


def _sold_out(columns: Columns, _: Question) -> Mask:
    return ~columns.sold_out


def _closed(columns: Columns, q: Question) -> Mask | None:
    names = {name for name, (until, _) in q.closed.items() if until > q.now}
    if not names:
        return None
    keep = ~(columns.family.where(names.__contains__) | columns.place.where(lambda place: place.cloud in names))
    keep[[columns.rows[name] for name in names if name in columns.rows]] = False
    return keep


def _closed_values(columns: Columns, q: Question, rows: Mask) -> Values:
    here = {*columns.family.among(rows), *(place.cloud for place in columns.place.among(rows))}
    here |= {name for name in q.closed if name in columns.rows and rows[columns.rows[name]]}
    shut = [(until, why) for name, (until, why) in q.closed.items() if name in here and until > q.now]
    return {"why": _listed({why for _, why in shut}), "for_s": (min(shut)[0] - q.now).total_seconds()}


def _quota(columns: Columns, q: Question) -> Mask | None:
    """Keep what still fits into its family's quota; the whole machine counts, whatever the job needs of it."""
    if not q.quotas:
        return None
    room: dict[str, dict[str, float]] = {"gpus": {}, "vcpus": {}}
    for quota in q.quotas:
        family = f"{quota.cloud}/{quota.region}/{quota.family}/{quota.market}"
        left = room[quota.unit]
        left[family] = min(left.get(family, np.inf), quota.limit - quota.used)
    gpus_left, vcpus_left = (columns.family.numbers(room[unit], np.inf) for unit in ("gpus", "vcpus"))
    return (columns.gpus <= gpus_left) & (columns.vcpus <= vcpus_left)


def _quota_values(columns: Columns, q: Question, rows: Mask) -> Values:
    kept = _quota(columns, q)
    return {"families": _listed(columns.family.among(rows if kept is None else rows & ~kept))}


def _stale(columns: Columns, q: Question) -> Mask:
    return columns.as_of >= (q.now - q.stale_after).timestamp()


def _stale_values(columns: Columns, q: Question, rows: Mask) -> Values:
    return {"after_s": q.stale_after.total_seconds(), "best_s": q.now.timestamp() - float(columns.as_of[rows].max())}


FILTERS = (
    Filter("place", _place, _place_values),
    Filter("gpu", _gpu, _gpu_values),
    Filter("count", _count, _count_values),
    Filter("gpu_memory", _gpu_memory, _gpu_memory_values),
    Filter("vcpus", _vcpus, _vcpus_values),
    Filter("memory", _memory, _memory_values),
    Filter("capability", _capability, _capability_values),
    Filter("cuda", _cuda, _cuda_values),
    Filter("driver", _driver, _driver_values),
    Filter("price", _price, _price_values),
    Filter("only_spot", _only_spot),
    Filter("no_spot", _no_spot),
    Filter("restart", _restart),
    Filter("ends", _ends),
    Filter("sold_out", _sold_out, momentary=True),
    Filter("closed", _closed, _closed_values, momentary=True),
    Filter("quota", _quota, _quota_values, momentary=True),
    Filter("stale", _stale, _stale_values, momentary=True),
)


def _serves(name: str, cuda: str) -> bool:
    """Say whether a GPU runs this CUDA; one that the table lacks is given the benefit of the doubt."""
    known = card(name)
    return known is None or gpus.supports_cuda(known, cuda) is None


def _capability_of(name: str) -> tuple[int, ...]:
    """Return a GPU's compute capability: below every version for no GPU and for AMD's, above for one we don't know."""
    if not name:
        return ()
    known = card(name)
    return (99,) if known is None else _version(known.capability)


def _version(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split("."))) if re.fullmatch(r"\d+(\.\d+)*", text) else ()


def _largest(column: Integers, rows: Mask) -> int:
    """Return the row, of some, with the largest number."""
    return int(np.argmax(np.where(rows, column, -1)))


def _listed(names: Iterable[object]) -> str:
    """Return a few names in order, and how many more there are."""
    ordered = sorted(map(str, names))
    more = f" and {len(ordered) - _SHOWN} more" if len(ordered) > _SHOWN else ""
    return ", ".join(ordered[:_SHOWN]) + more
