"""Which permissions a call needs, on which resources, as AWS's service authorization reference has them."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import unquote

from tests.clouds import house
from tests.clouds.call import Call
from tests.clouds.ec2 import Ec2
from tests.clouds.form import asked as read
from tests.clouds.keys import ACCOUNT
from tests.clouds.policy import Need

_TAGGED_AT_LAUNCH = ("instance", "volume", "network-interface", "spot-instances-request")
_S3_NAMES = {
    "ListObjectsV2": "ListBucket", "ListObjects": "ListBucket", "HeadBucket": "ListBucket", "HeadObject": "GetObject",
    "UploadPart": "PutObject", "CreateMultipartUpload": "PutObject", "CompleteMultipartUpload": "PutObject",
    "CopyObject": "PutObject", "DeleteObjects": "DeleteObject", "ListParts": "ListMultipartUploadParts",
    "ListMultipartUploads": "ListBucketMultipartUploads", "ListObjectVersions": "ListBucketVersions",
    "ListBuckets": "ListAllMyBuckets", "GetPublicAccessBlock": "GetBucketPublicAccessBlock",
    "PutPublicAccessBlock": "PutBucketPublicAccessBlock", "DeletePublicAccessBlock": "PutBucketPublicAccessBlock",
    "GetBucketEncryption": "GetEncryptionConfiguration", "PutBucketEncryption": "PutEncryptionConfiguration",
    "DeleteBucketEncryption": "PutEncryptionConfiguration", "DeleteBucketTagging": "PutBucketTagging",
    "GetBucketLifecycleConfiguration": "GetLifecycleConfiguration",
    "PutBucketLifecycleConfiguration": "PutLifecycleConfiguration",
    "DeleteBucketLifecycleConfiguration": "PutLifecycleConfiguration",
}  # fmt: skip


def needs(call: Call, ec2: Ec2, body: bytes) -> tuple[Need, ...]:
    """Return them, the call's own first."""
    found = _SERVICES.get(call.service, _other)
    return tuple(found(call, ec2, body))


def partition(region: str) -> str:
    return "aws-cn" if region.startswith("cn-") else "aws-us-gov" if region.startswith("us-gov-") else "aws"


def _arn(call: Call, service: str, resource: str, *, region: str | None = None, account: str = ACCOUNT) -> str:
    where = call.region if region is None else region
    return f"arn:{partition(call.region)}:{service}:{where}:{account}:{resource}"


def _other(call: Call, _: Ec2, __: bytes) -> Iterator[Need]:
    yield Need(f"{call.service}:{call.action.rpartition('/')[2]}")


# ---------------------------------------------------------------- EC2


def _ec2(call: Call, ec2: Ec2, _: bytes) -> Iterator[Need]:
    handler = _EC2.get(call.action)
    if handler is None:
        yield Need(f"ec2:{call.action}")
    else:
        yield from handler(call, ec2)


def _run(call: Call, _: Ec2) -> Iterator[Need]:
    asked = read(call.action, call.params)
    tags = {one["ResourceType"]: one.get("Tags", []) for one in asked.get("TagSpecifications", ())}
    spot = asked.get("InstanceMarketOptions", {}).get("MarketType") == "spot"
    kinds = _TAGGED_AT_LAUNCH if spot else _TAGGED_AT_LAUNCH[:-1]
    for kind in kinds:
        yield Need("ec2:RunInstances", _arn(call, "ec2", f"{kind}/*"), _request_tags(tags.get(kind, ())))
    yield Need("ec2:RunInstances", _arn(call, "ec2", f"image/{asked.get('ImageId', '*')}", account=""))
    for resource in _used(asked):
        yield Need("ec2:RunInstances", _arn(call, "ec2", resource))
    for kind, given in tags.items():
        context = {"ec2:CreateAction": ["RunInstances"], **_request_tags(given)}
        yield Need("ec2:CreateTags", _arn(call, "ec2", f"{kind}/*"), context)
    yield from _passed(call, asked)
    if spot and house.role(house.SPOT_ROLE, partition(call.region)) is None:
        yield _linked(call, "spot.amazonaws.com")


def _used(asked: Mapping[str, Any]) -> Iterator[str]:
    faces = asked.get("NetworkInterfaces", [{}])
    groups = asked.get("SecurityGroupIds") or faces[0].get("Groups") or ["*"]
    yield from (f"security-group/{one}" for one in groups)
    yield f"subnet/{asked.get('SubnetId') or faces[0].get('SubnetId') or '*'}"
    target = asked.get("CapacityReservationSpecification", {}).get("CapacityReservationTarget", {})
    if ident := target.get("CapacityReservationId"):
        yield f"capacity-reservation/{ident}"
    if "KeyName" in asked:
        yield f"key-pair/{asked['KeyName']}"


def _passed(call: Call, asked: Mapping[str, Any]) -> Iterator[Need]:
    given = asked.get("IamInstanceProfile")
    found = house.profile(given, partition(call.region)) if given else None
    if found and found[1]:
        yield Need("iam:PassRole", found[1].arn, {"iam:PassedToService": [_ec2_service(call)]})


def _ec2_service(call: Call) -> str:
    return "ec2.amazonaws.com.cn" if call.region.startswith("cn-") else "ec2.amazonaws.com"


def _instances(call: Call, ec2: Ec2) -> Iterator[Need]:
    for ident in _numbered(call.params, "InstanceId"):
        tags = ec2.instances[ident].tags if ident in ec2.instances else {}
        yield Need(f"ec2:{call.action}", _arn(call, "ec2", f"instance/{ident}"), _resource_tags(tags))


def _tag(call: Call, ec2: Ec2) -> Iterator[Need]:
    tags = [
        {"Key": call.params[f"Tag.{n}.Key"]} | {"Value": call.params.get(f"Tag.{n}.Value", "")} for n in _count(call)
    ]
    for ident in _numbered(call.params, "ResourceId"):
        has = ec2.instances[ident].tags if ident in ec2.instances else house.tags(call.region, ident)
        kind = {"i": "instance", "vol": "volume", "sg": "security-group"}.get(ident.partition("-")[0], "*")
        yield Need(
            "ec2:CreateTags", _arn(call, "ec2", f"{kind}/{ident}"), {**_request_tags(tags), **_resource_tags(has)}
        )


def _count(call: Call) -> list[int]:
    return sorted({int(name.split(".")[1]) for name in call.params if re.fullmatch(r"Tag\.\d+\.Key", name)})


def _make_group(call: Call, _: Ec2) -> Iterator[Need]:
    asked = read(call.action, call.params)
    yield Need("ec2:CreateSecurityGroup", _arn(call, "ec2", "security-group/*"))
    yield Need("ec2:CreateSecurityGroup", _arn(call, "ec2", f"vpc/{asked.get('VpcId', '*')}"))
    for one in asked.get("TagSpecifications", ()):
        context = {"ec2:CreateAction": ["CreateSecurityGroup"], **_request_tags(one.get("Tags", ()))}
        yield Need("ec2:CreateTags", _arn(call, "ec2", f"{one['ResourceType']}/*"), context)


def _change_group(call: Call, _: Ec2) -> Iterator[Need]:
    ident = call.params.get("GroupId", "*")
    tags = _resource_tags(house.tags(call.region, ident))
    yield Need(f"ec2:{call.action}", _arn(call, "ec2", f"security-group/{ident}"), tags)


def _numbered(params: Mapping[str, Any], name: str) -> list[str]:
    return [value for key, value in params.items() if re.fullmatch(rf"{name}\.\d+", key)]


def _request_tags(tags: Sequence[Mapping[str, str]]) -> dict[str, list[str]]:
    found = {f"aws:RequestTag/{one['Key']}": [one.get("Value", "")] for one in tags}
    return found | ({"aws:TagKeys": [one["Key"] for one in tags]} if tags else {})


def _resource_tags(tags: Mapping[str, str]) -> dict[str, list[str]]:
    return {f"aws:ResourceTag/{key}": [value] for key, value in tags.items()}


_EC2: dict[str, Callable[[Call, Ec2], Iterator[Need]]] = {
    "RunInstances": _run,
    "TerminateInstances": _instances,
    "StopInstances": _instances,
    "StartInstances": _instances,
    "CreateTags": _tag,
    "CreateSecurityGroup": _make_group,
    "AuthorizeSecurityGroupIngress": _change_group,
    "RevokeSecurityGroupIngress": _change_group,
    "DeleteSecurityGroup": _change_group,
}


# ---------------------------------------------------------------- S3


def _s3(call: Call, _: Ec2, body: bytes) -> Iterator[Need]:
    bucket, key = f"arn:{partition(call.region)}:s3:::{call.params['Bucket']}", call.params["Key"]
    action = f"s3:{_S3_NAMES.get(call.action, call.action)}"
    if call.action == "DeleteObjects":
        yield from (Need(action, f"{bucket}/{one}") for one in re.findall(r"<Key>([^<]*)</Key>", body.decode()))
    elif key:
        yield Need(action, f"{bucket}/{key}")
    else:
        prefix = {"s3:prefix": [str(call.params["prefix"])]} if "prefix" in call.params else {}
        yield Need(action, bucket if call.params["Bucket"] else "*", prefix)
    if source := call.headers.get("x-amz-copy-source"):
        yield Need("s3:GetObject", f"arn:{partition(call.region)}:s3:::{unquote(source).lstrip('/')}")


# ---------------------------------------------------------------- IAM, STS and the rest


def _iam(call: Call, _: Ec2, __: bytes) -> Iterator[Need]:
    params = call.params
    role = _role(call, params["RoleName"]) if "RoleName" in params else ""
    profile = f"instance-profile/{params['InstanceProfileName']}" if "InstanceProfileName" in params else ""
    if call.action == "CreateServiceLinkedRole":
        yield _linked(call, params["AWSServiceName"])
        return
    yield Need(f"iam:{call.action}", _arn(call, "iam", profile, region="") if profile else role or "*")
    if call.action == "AddRoleToInstanceProfile":
        yield Need("iam:PassRole", role, {"iam:PassedToService": [_ec2_service(call)]})
    if call.action in {"CreateRole", "CreateInstanceProfile"} and any(name.startswith("Tags.") for name in params):
        kind = call.action.removeprefix("Create")
        yield Need(f"iam:Tag{kind}", _arn(call, "iam", profile, region="") if profile else role)


def _role(call: Call, name: str) -> str:
    known = house.role(name, partition(call.region))
    return known.arn if known else _arn(call, "iam", f"role/{name}", region="")


def _linked(call: Call, service: str) -> Need:
    resource = _arn(call, "iam", f"role/aws-service-role/{service}/{house.SPOT_ROLE}", region="")
    return Need("iam:CreateServiceLinkedRole", resource, {"iam:AWSServiceName": [service]})


def _sts(call: Call, _: Ec2, __: bytes) -> Iterator[Need]:
    if call.action != "GetCallerIdentity":  # needs no permission
        yield Need(f"sts:{call.action}", call.params.get("RoleArn", "*"))


def _sqs(call: Call, _: Ec2, __: bytes) -> Iterator[Need]:
    name = call.params.get("QueueName") or call.params.get("QueueUrl", "*").rpartition("/")[2]
    yield Need(f"sqs:{call.action}", _arn(call, "sqs", name))
    if call.action == "CreateQueue" and call.params.get("tags"):
        yield Need("sqs:TagQueue", _arn(call, "sqs", name))


def _events(call: Call, _: Ec2, __: bytes) -> Iterator[Need]:
    name = call.params.get("Rule") or call.params.get("Name") or "*"
    yield Need(f"events:{call.action}", call.params.get("ResourceARN") or _arn(call, "events", f"rule/{name}"))
    if call.action == "PutRule" and call.params.get("Tags"):
        yield Need("events:TagResource", _arn(call, "events", f"rule/{name}"))


def _ssm(call: Call, _: Ec2, __: bytes) -> Iterator[Need]:
    for name in call.params.get("Names") or [call.params.get("Name", "*")]:
        account = "" if name.startswith("/aws/service/") else ACCOUNT
        yield Need(f"ssm:{call.action}", _arn(call, "ssm", f"parameter/{name.lstrip('/')}", account=account))


_SERVICES: dict[str, Callable[[Call, Ec2, bytes], Iterator[Need]]] = {
    "ec2": _ec2, "s3": _s3, "iam": _iam, "sts": _sts, "sqs": _sqs, "events": _events, "ssm": _ssm,
}  # fmt: skip
