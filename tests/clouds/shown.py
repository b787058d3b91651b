"""How EC2 shows instances, spot requests and volumes, and what their filters look at."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from tests.clouds.instances import STATES, Instance, matches
from tests.clouds.keys import ACCOUNT
from tests.clouds.wire import Refused

Fields = Mapping[str, list[str]]


def instance(one: Instance, now: datetime) -> dict[str, Any]:
    state, why = one.state(now), one.why(now)
    here = state not in {"terminated", "stopped"}
    shown: dict[str, Any] = {
        "InstanceId": one.id, "ImageId": one.image["ImageId"], "InstanceType": one.type, "LaunchTime": one.launched,
        "State": {"Code": STATES[state], "Name": state}, "StateTransitionReason": why.transition if why else "",
        "StateReason": why.reason if why else None, "ClientToken": one.token, "Architecture": one.image["Architecture"],
        "Placement": {"AvailabilityZone": one.zone, "Tenancy": "default", "GroupName": ""}, "AmiLaunchIndex": 0,
        "Tags": tags(one.tags), "EbsOptimized": False, "EnaSupport": True, "RootDeviceName": "/dev/sda1",
        "RootDeviceType": "ebs", "VirtualizationType": "hvm", "Hypervisor": "xen", "Monitoring": {"State": "disabled"},
        "MetadataOptions": {"State": "applied", **_metadata(one)}, "ProductCodes": [], "SourceDestCheck": True,
        "PlatformDetails": "Linux/UNIX", "CapacityReservationId": one.owned or None,
        "CapacityReservationSpecification": {"CapacityReservationPreference": "open"} if not one.owned else None,
    }  # fmt: skip
    if one.market != "on-demand":
        shown["InstanceLifecycle"] = one.market
    if one.request:
        shown["SpotInstanceRequestId"] = one.request.id
    if one.profile:
        shown["IamInstanceProfile"] = {"Arn": one.profile, "Id": "AIPA" + one.id[-16:].upper()}
    return shown | (_network(one, state) if here else {"BlockDeviceMappings": [], "SecurityGroups": []})


def _metadata(one: Instance) -> dict[str, Any]:
    asked = {name: value for name, value in one.asked.get("MetadataOptions", {}).items() if name != "HttpProtocolIpv6"}
    default = {"HttpTokens": "required", "HttpPutResponseHopLimit": 2, "HttpEndpoint": "enabled"}
    return default | {"InstanceMetadataTags": "disabled"} | asked


def _network(one: Instance, state: str) -> dict[str, Any]:
    disk = {"VolumeId": one.volume, "Status": "attached", "AttachTime": one.launched, "DeleteOnTermination": True}
    public = one.public_ip if state != "pending" else None
    return {
        "PrivateIpAddress": one.private_ip, "PublicIpAddress": public, "SubnetId": one.subnet, "VpcId": one.vpc,
        "SecurityGroups": [{"GroupId": ident, "GroupName": name} for ident, name in one.groups],
        "BlockDeviceMappings": [{"DeviceName": "/dev/sda1", "Ebs": disk}],
    }  # fmt: skip


def instance_fields(one: Instance, now: datetime) -> Fields:
    why, state = one.why(now), one.state(now)
    return {
        "instance-id": [one.id], "client-token": [one.token], "instance-state-name": [state],
        "instance-state-code": [str(STATES[state])], "instance-type": [one.type], "availability-zone": [one.zone],
        "instance-lifecycle": [one.market] if one.market != "on-demand" else [], "image-id": [one.image["ImageId"]],
        "spot-instance-request-id": [one.request.id] if one.request else [], "subnet-id": [one.subnet],
        "capacity-reservation-id": [one.owned] if one.owned else [], "state-reason-code": [why.code] if why else [],
        "vpc-id": [one.vpc], "instance.group-id": [ident for ident, _ in one.groups], "launch-time": [f"{one.launched:%FT%T.000Z}"],
        "tenancy": ["default"], "owner-id": [ACCOUNT], "iam-instance-profile.arn": [one.profile], **_tag_fields(one.tags),
    }  # fmt: skip


def request(one: Instance, now: datetime) -> dict[str, Any]:
    asked = one.request
    assert asked is not None
    state, code, since = one.status(now)
    return {
        "SpotInstanceRequestId": asked.id, "State": state, "Type": "one-time", "InstanceId": one.id,
        "Status": {"Code": code, "Message": _MESSAGES.get(code, code), "UpdateTime": since}, "CreateTime": asked.made,
        "LaunchedAvailabilityZone": one.zone, "InstanceInterruptionBehavior": "terminate", "Tags": tags(asked.tags),
        "ProductDescription": "Linux/UNIX", "SpotPrice": asked.max_price or None,
        "LaunchSpecification": {"ImageId": one.image["ImageId"], "InstanceType": one.type},
    }  # fmt: skip


def request_fields(one: Instance, now: datetime) -> Fields:
    asked = one.request
    assert asked is not None
    state, code, _ = one.status(now)
    return {
        "spot-instance-request-id": [asked.id], "state": [state], "status-code": [code], "instance-id": [one.id],
        "launched-availability-zone": [one.zone], "launch.instance-type": [one.type], "type": ["one-time"],
        **_tag_fields(asked.tags),
    }  # fmt: skip


_MESSAGES = {
    "fulfilled": "Your Spot request is fulfilled.",
    "instance-terminated-no-capacity": "Your Spot instance was terminated due to lack of available capacity.",
    "instance-terminated-by-user": "Your Spot instance was terminated by user-initiated termination.",
    "instance-terminated-by-price": "Your Spot instance was terminated because its maximum price was exceeded.",
}


def volume(one: Instance, now: datetime) -> dict[str, Any]:
    held = {
        "InstanceId": one.id, "VolumeId": one.volume, "State": "attached", "Device": "/dev/sda1", "DeleteOnTermination": True,
        "AttachTime": one.launched,
    }  # fmt: skip
    return {
        "VolumeId": one.volume, "Size": one.disk_gb, "State": "in-use", "AvailabilityZone": one.zone, "VolumeType": "gp3",
        "CreateTime": one.launched, "Encrypted": True, "Attachments": [held], "Tags": tags(one.volume_tags), "Iops": 3000,
        "SnapshotId": one.image["BlockDeviceMappings"][0]["Ebs"]["SnapshotId"], "Throughput": 125,
    }  # fmt: skip


def volume_fields(one: Instance, now: datetime) -> Fields:
    return {
        "volume-id": [one.volume], "status": ["in-use"], "attachment.instance-id": [one.id], "volume-type": ["gp3"],
        "availability-zone": [one.zone], "attachment.status": ["attached"], **_tag_fields(one.volume_tags),
    }  # fmt: skip


def tags(found: Mapping[str, str]) -> list[dict[str, str]]:
    return [{"Key": key, "Value": value} for key, value in found.items()]


def _tag_fields(found: Mapping[str, str]) -> dict[str, list[str]]:
    named = {f"tag:{key}": [value] for key, value in found.items()}
    return {"tag-key": list(found), **named}


def passes(fields: Fields, filters: Sequence[Mapping[str, Any]]) -> bool:
    """Say whether every filter has a value that fits."""
    return all(
        any(matches(value, pattern) for value in fields.get(one["Name"], ()) for pattern in one.get("Values", ()))
        for one in filters
    )


def check_filters(filters: Sequence[Mapping[str, Any]], known: frozenset[str]) -> None:
    """Raises Refused for a filter that EC2 doesn't know."""
    for one in filters:
        name = one.get("Name", "")
        if name not in known | {"tag-key"} and not name.startswith("tag:"):
            raise Refused("InvalidParameterValue", f"The filter '{name}' is invalid")


INSTANCE_FILTERS = frozenset({
    "instance-id", "client-token", "instance-state-name", "instance-state-code", "instance-type", "availability-zone",
    "instance-lifecycle", "image-id", "spot-instance-request-id", "subnet-id", "capacity-reservation-id", "vpc-id",
    "state-reason-code", "instance.group-id", "launch-time", "tenancy", "owner-id", "iam-instance-profile.arn",
})  # fmt: skip
REQUEST_FILTERS = frozenset({
    "spot-instance-request-id", "state", "status-code", "instance-id", "launched-availability-zone", "type",
    "launch.instance-type",
})  # fmt: skip
VOLUME_FILTERS = frozenset({
    "volume-id", "status", "attachment.instance-id", "volume-type", "availability-zone", "attachment.status",
})  # fmt: skip
IMAGE_FILTERS = frozenset({
    "image-id", "name", "architecture", "state", "owner-alias", "owner-id", "root-device-type", "virtualization-type",
    "is-public", "image-type", "platform-details",
})  # fmt: skip
