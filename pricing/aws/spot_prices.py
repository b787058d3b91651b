"""Spot prices: a step function of time for each machine type and zone; each point holds until the next."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from itertools import pairwise
from typing import Any

from pricing.aws.asking import Client, asking

_PRODUCTS = ["Linux/UNIX", "Linux/UNIX (Amazon VPC)"]


@dataclass(frozen=True, order=True, slots=True)
class Step:
    """From `at` on an hour costs `price`, in the cloud's currency."""

    at: datetime
    price: Decimal


@dataclass(frozen=True, slots=True)
class History:
    """The steps of one pool, oldest first, and their mean weighted by how long each held."""

    steps: tuple[Step, ...]
    mean: Decimal | None


@dataclass(frozen=True, slots=True)
class Current:
    """The prices in force, by machine type and zone name, and the name of each zone by its id."""

    prices: Mapping[tuple[str, str], Decimal]
    zones: Mapping[str, str]


def current(client: Client, region: str, types: Collection[str], now: datetime) -> Current:
    """Ask for the prices in force at `now`: a question that starts now brings the last change before. SourceError."""
    points = _points(client, region, {"InstanceTypes": sorted(types), "StartTime": now})
    newest: dict[tuple[str, str], Step] = {}
    for point in points:
        where, step = (point["InstanceType"], point["AvailabilityZone"]), _step(point)
        if step.at <= now and (where not in newest or newest[where] < step):
            newest[where] = step
    zones = {p["AvailabilityZoneId"]: p["AvailabilityZone"] for p in points if p.get("AvailabilityZoneId")}
    return Current({where: step.price for where, step in newest.items()}, zones)


def history(client: Client, region: str, machine_type: str, zone: str, since: datetime, until: datetime) -> History:
    """Return what an hour cost from `since` to `until`, at most 90 days back. Raises SourceError."""
    where = {"InstanceTypes": [machine_type], "AvailabilityZone": zone}
    points = _points(client, region, {**where, "StartTime": since, "EndTime": until})
    steps = _in_force(sorted({_step(point) for point in points}), since, until)
    return History(tuple(steps), mean(steps, until))


def mean(steps: Sequence[Step], until: datetime) -> Decimal | None:
    """Return the mean price, each weighted by how long it held; None where nothing held for any time."""
    ends = [*(step.at for step in steps), until]
    spans = [Decimal(str((end - start).total_seconds())) for start, end in pairwise(ends)]
    total = sum(spans, Decimal(0))
    if total <= 0:
        return None
    return sum((step.price * span for step, span in zip(steps, spans, strict=True)), Decimal(0)) / total


def _in_force(steps: Iterable[Step], since: datetime, until: datetime) -> list[Step]:
    """Cut the steps to the span: the price that was in force at its beginning starts there."""
    cut: list[Step] = []
    for step in steps:
        if step.at >= until:
            break
        begins = Step(max(step.at, since), step.price)
        if cut and cut[-1].at == begins.at:
            cut.pop()
        if not cut or cut[-1].price != begins.price:  # the two names of one product repeat each other
            cut.append(begins)
    return cut


def _points(client: Client, region: str, question: Mapping[str, object]) -> list[dict[str, Any]]:
    with asking("spot prices", "ec2:DescribeSpotPriceHistory", region):
        pages = client.get_paginator("describe_spot_price_history").paginate(ProductDescriptions=_PRODUCTS, **question)
        return [point for page in pages for point in page["SpotPriceHistory"]]


def _step(point: Mapping[str, Any]) -> Step:
    return Step(point["Timestamp"], Decimal(point["SpotPrice"]))
