"""What RunInstances refuses, and what it would launch: decided here, done in `ec2`."""

import base64
import binascii
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal, InvalidOperation
from typing import Any

from moto.ec2.models import ec2_backends
from moto.ec2.models.instance_types import INSTANCE_TYPES

from tests.clouds import house
from tests.clouds.aws_prices import Catalogue
from tests.clouds.house import Role, Subnet
from tests.clouds.images import images, parameters
from tests.clouds.keys import ACCOUNT
from tests.clouds.wire import Refused

USER_DATA_LIMIT = 16 * 1024  # bytes before base64
_TAGGABLE = {"instance", "volume", "network-interface"}
_LAST_MINUTES = timedelta(minutes=30)  # of a capacity block: its instances are being ended
_MARKETS = {"spot", "capacity-block", "interruptible-capacity-reservation"}
_SHUTDOWN = {"stop", "terminate"}


@dataclass(frozen=True)
class Plan:
    """A launch that nothing speaks against; whether there is room is another question."""

    type: str
    vcpus: int
    market: str
    subnet: Subnet
    image: Mapping[str, Any]
    groups: tuple[tuple[str, str], ...]
    profile: str
    role: Role | None
    disk_gb: int
    max_price: str
    public: bool
    tags: Mapping[str, Mapping[str, str]]  # by kind of resource
    zoned: bool  # a zone was asked for, by name or by subnet
    owned: str  # the capacity reservation to run in
    preference: str  # open, none, capacity-reservations-only


def plan(region: str, asked: Mapping[str, Any], catalogue: Catalogue, now: datetime) -> Plan:
    """Check a launch as EC2 does. Raises Refused."""
    _check_counts(asked)
    _check_token(asked.get("ClientToken", ""))
    _check_user_data(asked.get("UserData", ""))
    _check_choices(asked)
    market, max_price = _market(asked)
    image = _image(region, asked)
    kind = _type(asked, catalogue)
    if image["Architecture"] not in kind["ProcessorInfo"]["SupportedArchitectures"]:
        raise _wrong(f"The architecture '{image['Architecture']}' of the AMI doesn't fit {kind['InstanceType']}")
    subnet, zoned = _where(region, asked, catalogue, kind["InstanceType"])
    _check_offered(kind, market, subnet.zone, region, catalogue)
    profile, role = _profile(asked)
    owned, preference = _reservation(asked, market, kind["InstanceType"], subnet.zone, catalogue, now)
    return Plan(
        type=kind["InstanceType"], vcpus=kind["VCpuInfo"]["DefaultVCpus"], market=market, subnet=subnet, image=image,
        groups=_groups(region, asked, subnet), profile=profile, role=role, disk_gb=_disk(asked, image), zoned=zoned,
        max_price=max_price, public=_public(asked, subnet), tags=_tags(asked, market), owned=owned, preference=preference,
    )  # fmt: skip


def _wrong(told: str) -> Refused:
    return Refused("InvalidParameterValue", told)


def _check_counts(asked: Mapping[str, Any]) -> None:
    least, most = asked["MinCount"], asked["MaxCount"]
    if least < 1 or most < least:
        raise _wrong(f"Invalid value for min and max count: {least} and {most}")


def _check_token(token: str) -> None:
    if len(token) > 64 or not token.isascii():
        raise _wrong("Client token is too long, or not ASCII: at most 64 characters")


def _check_user_data(text: str) -> None:
    try:
        size = len(base64.b64decode(text, validate=True))
    except (binascii.Error, ValueError):
        raise Refused("InvalidUserData.Malformed", "Invalid BASE64 encoding of user data.") from None
    if size > USER_DATA_LIMIT:
        raise Refused("InvalidUserData.Malformed", f"User data is limited to {USER_DATA_LIMIT} bytes")


def _check_choices(asked: Mapping[str, Any]) -> None:
    if asked.get("InstanceInitiatedShutdownBehavior", "stop") not in _SHUTDOWN:
        raise _wrong("Invalid value for instanceInitiatedShutdownBehavior")
    options = asked.get("MetadataOptions", {})
    if not 1 <= options.get("HttpPutResponseHopLimit", 1) <= 64:
        raise _wrong("HttpPutResponseHopLimit must be between 1 and 64")
    for name, allowed in (
        ("HttpTokens", {"optional", "required"}),
        ("HttpEndpoint", {"enabled", "disabled"}),
        ("InstanceMetadataTags", {"enabled", "disabled"}),
    ):
        if name in options and options[name] not in allowed:
            raise _wrong(f"Value ({options[name]}) for parameter {name} is invalid")
    if "KeyName" in asked:
        _check_login(asked)


def _check_login(asked: Mapping[str, Any]) -> None:
    known = (region for region in ec2_backends[ACCOUNT].values())
    if not any(asked["KeyName"] in region.keypairs for region in known):
        raise Refused("InvalidKeyPair.NotFound", f"The key pair '{asked['KeyName']}' does not exist")


# ---------------------------------------------------------------- how it is paid


def _market(asked: Mapping[str, Any]) -> tuple[str, str]:
    options = asked.get("InstanceMarketOptions")
    if options is None:
        return "on-demand", ""
    if options.get("MarketType") not in _MARKETS:
        raise _wrong(f"Value ({options.get('MarketType')}) for parameter MarketType is invalid")
    spot = options.get("SpotOptions", {})
    if options["MarketType"] != "spot":
        if spot:
            raise Refused("InvalidParameterCombination", "SpotOptions go with the market type spot only")
        return str(options["MarketType"]), ""
    return "spot", _spot(spot)


def _spot(options: Mapping[str, Any]) -> str:
    persistent = options.get("SpotInstanceType", "one-time") == "persistent"
    if options.get("InstanceInterruptionBehavior", "terminate") != "terminate" and not persistent:
        raise Refused("InvalidParameterCombination", "One-time Spot requests can only be terminated when interrupted")
    if "ValidUntil" in options and not persistent:
        raise Refused("InvalidParameterCombination", "ValidUntil goes with persistent Spot requests only")
    price = options.get("MaxPrice", "")
    try:
        if price and not Decimal(price) > Decimal("0.001"):
            raise _wrong(f"Invalid value '{price}' for MaxPrice: it must be greater than 0.001")
    except InvalidOperation:
        raise _wrong(f"Invalid value '{price}' for MaxPrice") from None
    return str(price)


def _reservation(
    asked: Mapping[str, Any], market: str, name: str, zone: str, catalogue: Catalogue, now: datetime
) -> tuple[str, str]:
    wanted = asked.get("CapacityReservationSpecification", {})
    ident = wanted.get("CapacityReservationTarget", {}).get("CapacityReservationId", "")
    if not ident:
        if market == "capacity-block":
            raise Refused(
                "InvalidParameterCombination", "A capacity block must be targeted by the id of its reservation"
            )
        return "", str(wanted.get("CapacityReservationPreference", "open"))
    known = catalogue.reservations.get(ident)
    if known is None:
        raise Refused("InvalidCapacityReservationId.NotFound", f"The capacity reservation '{ident}' does not exist")
    block = known["ReservationType"] == "capacity-block"
    if market == "spot" or block != (market == "capacity-block"):
        raise Refused("InvalidParameterCombination", f"The market type {market} doesn't fit {ident}")
    if (known["InstanceType"], known["AvailabilityZone"]) != (name, zone):
        raise _wrong(f"{ident} holds {known['InstanceType']} in {known['AvailabilityZone']}, not {name} in {zone}")
    ends = known.get("EndDate")
    if known["State"] != "active" or (ends and now >= (ends - _LAST_MINUTES if block else ends)):
        raise Refused("ReservationCapacityExceeded", f"The capacity reservation {ident} is not active any more")
    return str(ident), "targeted"


# ---------------------------------------------------------------- what and where


def _image(region: str, asked: Mapping[str, Any]) -> Mapping[str, Any]:
    name = asked.get("ImageId", "")
    if name.startswith("resolve:ssm:"):
        name = parameters(region).get(name.removeprefix("resolve:ssm:"), "")
    if not name:
        raise Refused("MissingParameter", "The request must contain the parameter ImageId")
    if not name.startswith("ami-"):
        raise Refused("InvalidAMIID.Malformed", f'Invalid id: "{name}" (expecting "ami-...")')
    if name not in images(region):
        raise Refused("InvalidAMIID.NotFound", f"The image id '[{name}]' does not exist")
    return images(region)[name]


def _type(asked: Mapping[str, Any], catalogue: Catalogue) -> Mapping[str, Any]:
    name = asked.get("InstanceType", "m1.small")
    if name not in catalogue.on_demand or name not in INSTANCE_TYPES:
        raise _wrong(f"Invalid value '{name}' for InstanceType.")
    found: Mapping[str, Any] = INSTANCE_TYPES[name]
    return found


def _where(region: str, asked: Mapping[str, Any], catalogue: Catalogue, name: str) -> tuple[Subnet, bool]:
    face = next(iter(asked.get("NetworkInterfaces", ())), {})
    ident = asked.get("SubnetId") or face.get("SubnetId")
    zone = asked.get("Placement", {}).get("AvailabilityZone", "")
    if ident:
        subnet = house.subnets(region).get(ident)
        if subnet is None:
            raise Refused("InvalidSubnetID.NotFound", f"The subnet ID '{ident}' does not exist")
        if zone not in {"", subnet.zone}:
            raise _wrong(f"The subnet {ident} is in {subnet.zone}, not in {zone}")
        return subnet, True
    if zone and zone not in catalogue.zones(region):
        raise _wrong(f"Invalid availability zone: [{zone}]")
    choice = house.default_subnet(region, zone or catalogue.zones(region, name)[0])
    if choice is None:
        raise Refused(
            "MissingInput", f"No subnets found for the default VPC in {zone or region}. Please specify a subnet."
        )
    return choice, bool(zone)


def _check_offered(kind: Mapping[str, Any], market: str, zone: str, region: str, catalogue: Catalogue) -> None:
    name, zones = kind["InstanceType"], catalogue.zones(region, kind["InstanceType"])
    if zone not in zones:
        raise Refused(
            "Unsupported",
            f"Your requested instance type ({name}) is not supported in your requested Availability Zone ({zone}). Please "
            f"retry your request by not specifying an Availability Zone or choosing {', '.join(zones)}.",
        )
    if market not in kind["SupportedUsageClasses"]:
        raise Refused("Unsupported", f"{name} is not supported for the usage class {market}.")


def _groups(region: str, asked: Mapping[str, Any], subnet: Subnet) -> tuple[tuple[str, str], ...]:
    faces: Sequence[Mapping[str, Any]] = asked.get("NetworkInterfaces", ())
    if faces and ("SecurityGroupIds" in asked or "SubnetId" in asked):
        raise Refused(
            "InvalidParameterCombination",
            "Network interfaces and an instance-level subnet ID or security groups may not be specified on the same request",
        )
    known = house.groups(region, subnet.vpc)
    default = [ident for ident, name in known.items() if name == "default"]
    wanted = asked.get("SecurityGroupIds") or (faces[0].get("Groups") if faces else None) or default
    for one in wanted:
        if one not in known:
            raise Refused("InvalidGroup.NotFound", f"The security group '{one}' does not exist in VPC '{subnet.vpc}'")
    return tuple((one, known[one]) for one in wanted)


def _public(asked: Mapping[str, Any], subnet: Subnet) -> bool:
    faces = asked.get("NetworkInterfaces", ())
    if len(faces) > 1:
        return False
    return bool(faces[0].get("AssociatePublicIpAddress", subnet.public)) if faces else subnet.public


def _profile(asked: Mapping[str, Any]) -> tuple[str, Role | None]:
    given = asked.get("IamInstanceProfile")
    if not given:
        return "", None
    found = house.profile(given)
    if found is None:
        name = given.get("Name") or given.get("Arn")
        part = "name" if "Name" in given else "arn"
        raise _wrong(
            f"Value ({name}) for parameter iamInstanceProfile.{part} is invalid. Invalid IAM Instance Profile {part}"
        )
    return found


def _disk(asked: Mapping[str, Any], image: Mapping[str, Any]) -> int:
    root = image["BlockDeviceMappings"][0]
    wanted = {one.get("DeviceName"): one.get("Ebs", {}) for one in asked.get("BlockDeviceMappings", ())}
    size = int(wanted.get(root["DeviceName"], {}).get("VolumeSize", root["Ebs"]["VolumeSize"]))
    if size < root["Ebs"]["VolumeSize"]:
        least = f"expect size >= {root['Ebs']['VolumeSize']}GB"
        told = f"Volume of size {size}GB is smaller than snapshot '{root['Ebs']['SnapshotId']}', {least}"
        raise Refused("InvalidBlockDeviceMapping", told)
    return size + sum(int(one.get("VolumeSize", 8)) for name, one in wanted.items() if name != root["DeviceName"])


def _tags(asked: Mapping[str, Any], market: str) -> dict[str, dict[str, str]]:
    known = _TAGGABLE | ({"spot-instances-request"} if market == "spot" else set())
    found: dict[str, dict[str, str]] = {}
    for one in asked.get("TagSpecifications", ()):
        if one.get("ResourceType") not in known:
            raise _wrong(f"'{one.get('ResourceType')}' is not a valid taggable resource type for this operation.")
        found.setdefault(one["ResourceType"], {}).update(checked_tags(one.get("Tags", ())))
    return found


def checked_tags(tags: Sequence[Mapping[str, str]]) -> dict[str, str]:
    """Return tags by key. Raises Refused."""
    found: dict[str, str] = {}
    for tag in tags:
        key, value = tag.get("Key", ""), tag.get("Value", "")
        if key.lower().startswith("aws:"):
            raise _wrong("Tag keys starting with 'aws:' are reserved for internal use")
        if not 1 <= len(key) <= 127 or len(value) > 256:
            raise _wrong(f"Tag key or value is too long, or the key is missing: '{key[:20]}'")
        if key in found:
            raise _wrong(f"Duplicate tag key '{key}' specified.")
        found[key] = value
    if len(found) > 50:
        raise Refused("TagLimitExceeded", "The maximum number of tags for a resource is 50")
    return found
