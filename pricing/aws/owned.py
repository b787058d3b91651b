"""Capacity that the account owns already: reserved instances, capacity reservations and capacity blocks.

An hour of what is paid for and unused costs nothing more, used or not.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from pricing.aws.asking import Client, asking

BLOCK_ENDS_EARLY = timedelta(minutes=45)
"""Machines of a block die from 30 minutes before its end; this leaves a quarter of an hour for the last checkpoint."""

_LINUX = {"Linux/UNIX", "Linux/UNIX (Amazon VPC)"}
_ACTIVE = [{"Name": "state", "Values": ["active"]}]


class Kind(StrEnum):
    """What is owned."""

    RESERVED_INSTANCE = "reserved-instance"
    SAVINGS_PLAN = "savings-plan"
    RESERVATION = "reservation"
    BLOCK = "block"


@dataclass(frozen=True, slots=True)
class Target:
    """A share of owned capacity: `free` more machines of one type can run in it until `ends`, None for no end.

    A machine is launched into a reservation or block by its `id`. The discount of a reserved instance or a Savings Plan
    falls by itself to a machine that is launched on demand.
    """

    kind: Kind
    id: str
    free: int
    ends: datetime | None = None

    def lasts(self, ends: datetime | None) -> bool:
        """Say whether it lasts as long as an offer said that `ends` then, or never with None."""
        return self.ends is None or (ends is not None and self.ends >= ends)


Owned = Mapping[tuple[str, str], Sequence[Target]]
"""By machine type and zone."""


def targets(client: Client, machine_type: str, zone: str) -> list[Target]:
    """Return the reservations and blocks with room for a type in a zone, the longest first. Raises SourceError.

    Take one that `lasts` until the offer's `ends`. Without any, a plain launch on demand meets reserved instances and
    Savings Plans. An open reservation can be named as well as a targeted one.
    """
    found = reservations(client, client.meta.region_name, machine_type)
    return sorted((one for one in found.get((machine_type, zone), ()) if one.free), key=_longest)


def longest(some: Iterable[Target]) -> tuple[int, datetime | None]:
    """Add up what lasts longest of what is free: how many machines, and until when.

    What ends earlier is offered once the rest is taken: an offer's count and end must hold for all of it.
    """
    parts = list(some)
    free = [one for one in parts if one.free] or parts
    last = min(free, key=_longest)
    return sum(one.free for one in free if one.ends == last.ends), last.ends


def _longest(one: Target) -> tuple[bool, float, str]:
    return one.ends is not None, -one.ends.timestamp() if one.ends else 0.0, one.id


# ---------------------------------------------------------------- capacity reservations and blocks


def reservations(client: Client, region: str, machine_type: str = "") -> dict[tuple[str, str], list[Target]]:
    """Return the active capacity reservations and blocks for Linux by type and zone, the full ones too. SourceError."""
    only = [{"Name": "instance-type", "Values": [machine_type]}] if machine_type else []
    found: dict[tuple[str, str], list[Target]] = defaultdict(list)
    with asking("capacity reservations", "ec2:DescribeCapacityReservations", region):
        pages = client.get_paginator("describe_capacity_reservations").paginate(Filters=[*_ACTIVE, *only])
        for one in (one for page in pages for one in page["CapacityReservations"]):
            if _usable(one):
                found[one["InstanceType"], one["AvailabilityZone"]].append(_reservation(one))
    return dict(found)


def _usable(one: Mapping[str, Any]) -> bool:
    ours = one.get("InstancePlatform") in _LINUX and one.get("Tenancy", "default") == "default"
    return ours and one["State"] == "active" and not one.get("Interruptible")


def _reservation(one: Mapping[str, Any]) -> Target:
    block = one.get("ReservationType") == "capacity-block"
    ends = one.get("EndDate")
    return Target(
        kind=Kind.BLOCK if block else Kind.RESERVATION,
        id=one["CapacityReservationId"],
        free=int(one["AvailableInstanceCount"]),
        ends=ends - BLOCK_ENDS_EARLY if block and ends else ends,
    )


# ---------------------------------------------------------------- reserved instances


@dataclass(frozen=True, slots=True)
class ReservedInstance:
    """So many machines of exactly one type are paid for until `ends`, in one zone or, with none named, in the region."""

    id: str
    type: str
    count: int
    ends: datetime
    zone: str = ""


def reserved_instances(client: Client, region: str, now: datetime) -> list[ReservedInstance]:
    """Return the reserved instances for Linux that are in force. Raises SourceError. The call has no pages."""
    with asking("reserved instances", "ec2:DescribeReservedInstances", region):
        answer = client.describe_reserved_instances(Filters=_ACTIVE)
        return [_reserved(one) for one in answer["ReservedInstances"] if _in_force(one, now)]


def unused(
    owned: Iterable[ReservedInstance], running: Mapping[tuple[str, str], int], zones: Mapping[str, Sequence[str]]
) -> dict[tuple[str, str], list[Target]]:
    """Return what is free by type and zone, given what `running` is by type and zone, and where each type is sold.

    Machines in a zone use its zonal reserved instances first; the others use regional ones, whose one count is then
    offered in every zone. Each type is matched exactly: size flexibility doesn't hold for GPU families.
    """
    by_type: dict[str, list[ReservedInstance]] = defaultdict(list)
    for one in owned:
        by_type[one.type].append(one)
    found: dict[tuple[str, str], list[Target]] = {}
    for machine_type, some in by_type.items():
        here = Counter({zone: count for (name, zone), count in running.items() if name == machine_type})
        found |= _unused(machine_type, some, here, zones.get(machine_type, ()))
    return found


def _unused(
    machine_type: str, some: Sequence[ReservedInstance], running: Counter[str], sold: Sequence[str]
) -> dict[tuple[str, str], list[Target]]:
    found: dict[tuple[str, str], list[Target]] = defaultdict(list)
    for zone in {one.zone for one in some if one.zone}:
        zonal = [one for one in some if one.zone == zone]
        left = _less(zonal, running[zone])
        running[zone] = max(0, running[zone] - sum(one.count for one in zonal))
        if zone in sold:
            found[machine_type, zone] += left
    regional = _less([one for one in some if not one.zone], running.total())
    for zone in sold if regional else ():
        found[machine_type, zone] += regional
    return dict(found)


def _less(some: Iterable[ReservedInstance], used: int) -> list[Target]:
    """Take what is used off, off what ends first: what is used later then lasts longest."""
    left = []
    for one in sorted(some, key=lambda one: (one.ends, one.id)):
        taken = min(one.count, used)
        used -= taken
        left.append(Target(Kind.RESERVED_INSTANCE, one.id, one.count - taken, one.ends))
    return left


def _in_force(one: Mapping[str, Any], now: datetime) -> bool:
    ours = one["ProductDescription"] in _LINUX and one.get("InstanceTenancy", "default") == "default"
    return ours and one["State"] == "active" and one["Start"] <= now < one["End"]


def _reserved(one: Mapping[str, Any]) -> ReservedInstance:
    zone = one.get("AvailabilityZone", "") if one.get("Scope") != "Region" else ""
    return ReservedInstance(
        one["ReservedInstancesId"], one["InstanceType"], int(one["InstanceCount"]), one["End"], zone
    )
