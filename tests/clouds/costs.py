"""Cost Explorer: the bill by day and tag, for tags that somebody has activated."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import Any

from tests.clouds.bill import Line, Prices, line
from tests.clouds.call import Answer, Call
from tests.clouds.instances import Instance, matches
from tests.clouds.wire import Refused, page

_METRICS = {
    "AmortizedCost", "BlendedCost", "NetAmortizedCost", "NetUnblendedCost", "NormalizedUsageAmount", "UnblendedCost",
    "UsageQuantity",
}  # fmt: skip
_KNOWN = {"TimePeriod", "Granularity", "Metrics", "GroupBy", "Filter", "NextPageToken"}
_DAYS_A_PAGE = 10
_SETTLED = timedelta(days=30)  # a younger bill is estimated
_DAY = timedelta(days=1)


@dataclass(frozen=True)
class Books:
    """What was used, and the tags by which it can be counted: key -> Active or Inactive."""

    instances: Sequence[Instance]
    prices: Prices
    until: datetime  # younger usage isn't in the books yet
    tags: dict[str, str]

    def day(self, day: date) -> list[Line]:
        begins = datetime.combine(day, time(0), UTC)
        found = (line(one, self.prices, self.until, (begins, begins + _DAY)) for one in self.instances)
        return [one for one in found if one and one.micro]

    def tag(self, one: Line, key: str) -> str:
        """Return a tag's value as the bill knows it."""
        return one.tags.get(key, "") if self.tags.get(key) == "Active" else ""


def answer(call: Call, books: Books) -> Answer | None:
    """Answer what concerns costs, None otherwise. Raises Refused."""
    handler = _ACTIONS.get(call.action)
    return Answer.of_json(handler(call, books)) if handler else None


def _usage(call: Call, books: Books) -> dict[str, Any]:
    asked = call.params
    unknown = set(asked) - _KNOWN
    metrics = asked.get("Metrics") or []
    if unknown or not metrics or set(metrics) - _METRICS:
        raise _wrong(f"Invalid parameter or metric: {sorted(unknown) or metrics}")
    groups = [_group(one) for one in asked.get("GroupBy", ())]
    if len(groups) > 2:
        raise _wrong("Too many groupings: at most 2")
    days = _days(asked, call.at)
    found, token = page(days, asked, "NextPageToken", _DAYS_A_PAGE, "InvalidNextTokenException")
    results = [_result(day, groups, metrics, books, asked.get("Filter"), call.at) for day in found]
    more = {"NextPageToken": token} if token else {}
    return {
        "ResultsByTime": results,
        "DimensionValueAttributes": [],
        "GroupDefinitions": asked.get("GroupBy", []),
    } | more


def _days(asked: Mapping[str, Any], now: datetime) -> list[date]:
    if asked.get("Granularity") != "DAILY":
        raise _wrong("The stand-in keeps its books by the day: ask for the granularity DAILY")
    period = asked.get("TimePeriod", {})
    try:
        start, end = (date.fromisoformat(period[name]) for name in ("Start", "End"))
    except (KeyError, ValueError):
        raise _wrong("Start and End time should be given as yyyy-MM-dd") from None
    if not start < end:
        raise _wrong("Start date (and hour) should be before end date (and hour)")
    if start > now.date() or end > now.date() + _DAY:
        raise _wrong("The time period lies in the future")
    return [start + _DAY * number for number in range((end - start).days)]


def _group(one: Mapping[str, str]) -> str:
    if one.get("Type") != "TAG" or not one.get("Key"):
        raise _wrong(f"Invalid grouping {dict(one)}: the stand-in groups by tags")
    return one["Key"]


def _result(
    day: date, groups: Sequence[str], metrics: Sequence[str], books: Books, wanted: Any, now: datetime
) -> dict[str, Any]:
    sums: dict[tuple[str, ...], int] = {}
    for one in books.day(day):
        if _passes(one, wanted, books):
            keys = tuple(f"{key}${books.tag(one, key)}" for key in groups)
            sums[keys] = sums.get(keys, 0) + one.micro
    shown = [{"Keys": list(keys), "Metrics": _amounts(metrics, micro)} for keys, micro in sorted(sums.items())]
    estimated = now.date() - day < _SETTLED
    period = {"Start": day.isoformat(), "End": (day + _DAY).isoformat()}
    total = {} if groups else _amounts(metrics, sum(sums.values()))
    return {"TimePeriod": period, "Total": total, "Groups": shown if groups else [], "Estimated": estimated}


def _amounts(metrics: Sequence[str], micro: int) -> dict[str, Any]:
    return {name: {"Amount": f"{micro / 1_000_000:.10f}", "Unit": "USD"} for name in metrics}


def _passes(one: Line, wanted: Any, books: Books) -> bool:
    if not wanted:
        return True
    if set(wanted) == {"And"}:
        return all(_passes(one, part, books) for part in wanted["And"])
    if set(wanted) != {"Tags"}:
        raise _wrong(f"The stand-in filters by tags, not by {sorted(wanted)}")
    value = books.tag(one, wanted["Tags"]["Key"])
    return any(matches(value, pattern) for pattern in wanted["Tags"]["Values"])


# ---------------------------------------------------------------- which tags count


def _list_tags(call: Call, books: Books) -> dict[str, Any]:
    """A tag is known here once something with it was billed."""
    named = call.params.get("TagKeys")
    status = call.params.get("Status")
    known = {key: books.tags.get(key, "Inactive") for key in _seen(books)} | books.tags
    tags = [
        {"TagKey": key, "Type": "UserDefined", "Status": has}
        for key, has in known.items()
        if (named is None or key in named) and status in {None, has}
    ]
    return {"CostAllocationTags": tags}


def _seen(books: Books) -> Iterator[str]:
    for one in books.instances:
        yield from one.tags


def _update_tags(call: Call, books: Books) -> dict[str, Any]:
    known = {*_seen(books), *books.tags}
    errors = []
    for one in call.params["CostAllocationTagsStatus"]:
        if one["TagKey"] in known:
            books.tags[one["TagKey"]] = one["Status"]
        else:
            told = f"Tag key {one['TagKey']} is not known"
            errors.append({"TagKey": one["TagKey"], "Code": "ValidationException", "Message": told})
    return {"Errors": errors}


def _wrong(message: str) -> Refused:
    return Refused("ValidationException", message)


_ACTIONS: dict[str, Callable[[Call, Books], dict[str, Any]]] = {
    "GetCostAndUsage": _usage,
    "ListCostAllocationTags": _list_tags,
    "UpdateCostAllocationTagsStatus": _update_tags,
}
