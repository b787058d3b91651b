"""What is asked of RunInstances: decided from a launch request and what the region has, without asking anybody."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import ROUND_DOWN, Decimal
from typing import Any

from pricing.offer import Market, Pool
from runner.provider import LaunchRequest

_GIB = 1024**3
_MICRO = 1_000_000
# Machines of a capacity block start to be ended 30 minutes before its end.
_BLOCK_TAIL = timedelta(minutes=45)


@dataclass(frozen=True, slots=True)
class Image:
    """What a machine boots from."""

    id: str
    root_device: str
    disk_gib: int  # the least that its root disk may have


@dataclass(frozen=True, slots=True)
class Place:
    """Where a machine goes and who it is there."""

    subnet: str
    security_group: str
    instance_profile: str


@dataclass(frozen=True, slots=True)
class Reservation:
    """Owned capacity that a machine is started in."""

    id: str
    block: bool  # a capacity block, which is a market of its own


def chosen(reservations: Iterable[Mapping[str, Any]], pool: Pool, now: datetime) -> Reservation | None:
    """Return the reservation to start a machine of `pool` in, None where none has room: the same one each time."""
    usable = [found for found in reservations if _usable(found, pool, now)]
    ids = sorted((found.get("ReservationType") != "capacity-block", found["CapacityReservationId"]) for found in usable)
    return Reservation(ids[0][1], block=not ids[0][0]) if ids else None


def parameters(
    request: LaunchRequest, image: Image, place: Place, reservation: Reservation | None, user_data: str
) -> dict[str, Any]:
    """Return the parameters of RunInstances; equal arguments give equal ones, which its idempotency needs."""
    return {
        "ImageId": image.id,
        "InstanceType": request.offer.pool.type,
        "MinCount": 1,
        "MaxCount": 1,
        "SubnetId": place.subnet,
        "SecurityGroupIds": [place.security_group],
        "IamInstanceProfile": {"Name": place.instance_profile},
        "ClientToken": request.token,
        "UserData": user_data,
        "InstanceInitiatedShutdownBehavior": "terminate",
        # Two hops, so that a container on the machine can ask as well.
        "MetadataOptions": {"HttpTokens": "required", "HttpPutResponseHopLimit": 2, "InstanceMetadataTags": "enabled"},
        "BlockDeviceMappings": [_root_disk(request, image)],
        "TagSpecifications": _tags(request),
        **_market(request, reservation),
    }


def _usable(found: Mapping[str, Any], pool: Pool, now: datetime) -> bool:
    ends = found.get("EndDate")
    tail = _BLOCK_TAIL if found.get("ReservationType") == "capacity-block" else timedelta(0)
    return (
        (found.get("State"), found.get("InstanceType"), found.get("AvailabilityZone"))
        == ("active", pool.type, pool.zone)
        and found.get("AvailableInstanceCount", 0) > 0
        and found.get("Tenancy", "default") == "default"
        and found.get("InstancePlatform", "Linux/UNIX") == "Linux/UNIX"
        and (ends is None or now + tail < ends)
    )


def _root_disk(request: LaunchRequest, image: Image) -> dict[str, Any]:
    size = max(image.disk_gib, -(-request.disk // _GIB))
    disk = {"VolumeSize": size, "VolumeType": "gp3", "Encrypted": True, "DeleteOnTermination": True}
    return {"DeviceName": image.root_device, "Ebs": disk}


def _tags(request: LaunchRequest) -> list[dict[str, Any]]:
    kinds = ["instance", "volume", "network-interface"]
    if request.offer.pool.market is Market.SPOT:
        kinds.append("spot-instances-request")
    tags = [{"Key": key, "Value": value} for key, value in sorted(request.tags.items())]
    return [{"ResourceType": kind, "Tags": tags} for kind in kinds]


def _market(request: LaunchRequest, reservation: Reservation | None) -> dict[str, Any]:
    market = request.offer.pool.market
    if market is Market.SPOT:
        return {"InstanceMarketOptions": {"MarketType": "spot", "SpotOptions": _spot(request)}}
    if market is Market.ON_DEMAND:
        # By default it would fill an open reservation, which another offer counts on.
        return {"CapacityReservationSpecification": {"CapacityReservationPreference": "none"}}
    if reservation is None:  # a reserved instance or a savings plan: a discount on the bill of any machine
        return {"CapacityReservationSpecification": {"CapacityReservationPreference": "open"}}
    target = {"CapacityReservationTarget": {"CapacityReservationId": reservation.id}}
    block = {"InstanceMarketOptions": {"MarketType": "capacity-block"}} if reservation.block else {}
    return {"CapacityReservationSpecification": target, **block}


def _spot(request: LaunchRequest) -> dict[str, Any]:
    options: dict[str, Any] = {"SpotInstanceType": "one-time", "InstanceInterruptionBehavior": "terminate"}
    if request.bid_micro is None:
        return options
    native = Decimal(request.bid_micro) / _MICRO / Decimal(request.offer.fx_rate)
    return options | {"MaxPrice": str(native.quantize(Decimal("0.000001"), ROUND_DOWN))}
