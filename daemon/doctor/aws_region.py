"""What one region must have: permissions, an image, a network, and room in the quotas."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

from botocore.exceptions import ClientError

from config.clock import SystemClock
from daemon.doctor import Finding
from daemon.doctor.aws_quota import quotas
from daemon.doctor.aws_site import Findings, Site, at, bad, checked, odd, ok, refused
from daemon.setup.aws_calls import DENIED, code_of
from daemon.setup.aws_groups import default_vpc, key, named, single, wanted
from daemon.setup.aws_names import OWNER
from pricing.aws import types
from pricing.offer import Market, Offer, Pool
from runner.provider import LaunchRequest
from runner.providers.ec2.codes import QUOTA, SOLD_OUT
from runner.providers.ec2.images import Images
from runner.providers.ec2.request import Image, Place, parameters

_READS: dict[str, dict[str, Any]] = {
    "describe_availability_zones": {},
    "describe_capacity_reservations": {},
    "describe_instance_type_offerings": {},
    "describe_instance_types": {},
    "describe_instances": {},
    "describe_reserved_instances": {},
    "describe_spot_instance_requests": {},
    "describe_spot_price_history": {},
}
_SCORES = {
    "get_spot_placement_scores": {"TargetCapacity": 1, "InstanceTypes": ["g4dn.xlarge", "g5.xlarge", "g6.xlarge"]}
}
_ALLOWED, _NOT_THERE = "DryRunOperation", "InvalidInstanceID"
_MAY = {_ALLOWED} | QUOTA | SOLD_OUT  # who may not ask is not told of quotas and stock
_NO_MACHINE = "i-00000000000000000"


def examine(site: Site, region: str) -> Iterator[Finding]:
    """Return the findings of one region; a part that AWS doesn't answer fails alone."""
    return at(region, _parts(site, region))


def _parts(site: Site, region: str) -> Iterator[Finding]:
    ec2 = site.clients.get("ec2", region)
    yield from checked("permissions", lambda: reads(site, ec2))
    if site.rents:
        yield from checked("image", lambda: image(site, region))
        yield from checked("network", lambda: network(site, ec2, region))
        yield from checked("permissions", lambda: launches(site, region))
    if site.aws.queue:
        yield from checked("notices", lambda: notices(site, region))
    yield from checked("quota", lambda: quotas(site.clients, region))


def reads(site: Site, ec2: Any) -> Iterator[Finding]:  # noqa: ANN401 - a client that boto3 made
    """Try every question that the daemon asks of EC2."""
    tried = _READS | (_SCORES if site.aws.placement_scores else {})
    denied = [found for call, values in tried.items() for found in _tried(ec2, call, **values)]
    yield from denied
    if not denied:
        yield ok("permissions", "may_read", count=len(tried))


def image(site: Site, region: str) -> Iterator[Finding]:
    """Find the image that machines boot from."""
    wanted_one = site.aws.image
    if not wanted_one.startswith("ami-"):
        try:
            site.clients.get("ssm", region).get_parameter(Name=wanted_one)
        except ClientError as error:
            if code_of(error) != "ParameterNotFound":
                raise
            yield odd("image", "no_parameter", "parameter", name=wanted_one)
    yield ok("image", "image", id=_image(site, region).id, name=wanted_one)


def network(site: Site, ec2: Any, region: str) -> Iterator[Finding]:  # noqa: ANN401
    """See that every zone has a default subnet, and who may come in."""
    vpc = default_vpc(ec2)
    if not vpc:
        yield bad("network", "no_vpc", "vpc", region=region)
        return
    zones = _zones(ec2)
    bare = sorted(zones - _subnets(ec2).keys())
    if bare:
        yield odd("network", "no_subnet", "subnet", zones=", ".join(bare), zone=bare[0])
    else:
        yield ok("network", "network", vpc=vpc, zones=len(zones))
    yield _group(site, ec2, vpc)


def launches(site: Site, region: str) -> Iterator[Finding]:
    """Try to rent the smallest machine in both markets, and to end one, without doing it."""
    ec2 = site.clients.launch(region)
    place = _where(site, ec2)
    if place is None:
        return  # what is missing has been told of
    found, catalogue = _image(site, region), types.read(site.clients.get("ec2", region), region)
    denied: list[Finding] = []
    for market in (Market.SPOT, Market.ON_DEMAND):
        spec, zone = _smallest(catalogue, market)
        subnet = place[0].get(zone) or next(iter(place[0].values()))
        asked = _launch(site, Pool("aws", region, zone, spec.type, market), found, Place(subnet, *place[1:]))
        denied += _tried(ec2, "run_instances", **asked)
    denied += _ends(ec2)
    yield from denied
    if not denied:
        yield ok("permissions", "may_rent")


def notices(site: Site, region: str) -> Iterator[Finding]:
    """Read the queue without taking anything out."""
    sqs = site.clients.get("sqs", region)
    try:
        url = sqs.get_queue_url(QueueName=site.aws.queue)["QueueUrl"]
        sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=1, VisibilityTimeout=0, WaitTimeSeconds=0)
        yield ok("notices", "queue", name=site.aws.queue)
    except sqs.exceptions.QueueDoesNotExist:
        yield bad("notices", "no_queue", "setup", name=site.aws.queue)


def _tried(ec2: Any, call: str, **values: Any) -> Findings:  # noqa: ANN401
    """Yield a finding where a call is not allowed; a dry run that is allowed says so by an error."""
    try:
        getattr(ec2, call)(DryRun=True, **values)
    except ClientError as error:
        if code_of(error) not in _MAY:
            yield refused("permissions", error, f"ec2:{error.operation_name}")


def _ends(ec2: Any) -> Findings:  # noqa: ANN401
    """Without a machine of ours the tag that allows its end is nowhere, so that a denial proves nothing."""
    ours = ec2.describe_instances(Filters=[{"Name": "tag-key", "Values": [OWNER]}], MaxResults=5)["Reservations"]
    machine = ours[0]["Instances"][0]["InstanceId"] if ours else _NO_MACHINE
    try:
        ec2.terminate_instances(InstanceIds=[machine], DryRun=True)
    except ClientError as error:
        code = code_of(error)
        if code == _ALLOWED or code.startswith(_NOT_THERE):
            return
        if code in DENIED and not ours:
            yield odd("permissions", "end_untold", "end_untold")
        else:
            yield refused("permissions", error, "ec2:TerminateInstances")


def _where(site: Site, ec2: Any) -> tuple[dict[str, str], str, str] | None:  # noqa: ANN401
    """Return the subnets by zone, the security group and the instance profile."""
    subnets, group = _subnets(ec2), named(ec2, default_vpc(ec2), site.aws.name)
    return (subnets, group["GroupId"], site.names.machine_role) if subnets and group else None


def _launch(site: Site, pool: Pool, found: Image, place: Place) -> dict[str, Any]:
    """Return the request that the daemon would send for a machine of the pool."""
    offer = Offer(
        pool=pool, gpu="", gpus=1, gpu_memory=0, vcpus=1, memory=0, hourly_micro=1, ceiling_micro=1,
        as_of=datetime.min.replace(tzinfo=UTC),
    )  # fmt: skip
    tags = {OWNER: site.aws.name, "frugald:machine": "doctor"}
    request = LaunchRequest(
        token="doctor",  # noqa: S106 - names the request
        offer=offer,
        bid_micro=None,
        disk=0,
        user_data="",
        tags=tags,
        guard=timedelta(0),
    )
    return parameters(request, found, place, None, "")


def _smallest(catalogue: types.Catalogue, market: Market) -> tuple[types.Spec, str]:
    sold = [(spec, zone) for spec, zone in catalogue.sold() if market.value in spec.sold_as]
    return min(sold, key=lambda one: (one[0].vcpus, one[0].type, one[1]))


def _image(site: Site, region: str) -> Image:
    return Images(site.clients, site.aws.image, SystemClock()).of(region)


def _zones(ec2: Any) -> set[str]:  # noqa: ANN401
    filters = [{"Name": "zone-type", "Values": ["availability-zone"]}]
    return {zone["ZoneName"] for zone in ec2.describe_availability_zones(Filters=filters)["AvailabilityZones"]}


def _subnets(ec2: Any) -> dict[str, str]:  # noqa: ANN401
    found = ec2.describe_subnets(Filters=[{"Name": "default-for-az", "Values": ["true"]}])["Subnets"]
    return {subnet["AvailabilityZone"]: subnet["SubnetId"] for subnet in found}


def _group(site: Site, ec2: Any, vpc: str) -> Finding:  # noqa: ANN401
    group = named(ec2, vpc, site.aws.name)
    if not group:
        return bad("network", "no_group", "setup", name=site.aws.name)
    has = {key(rule) for rule in single(group["IpPermissions"])}
    try:
        should = {key(rule) for rule in wanted(site.aws.open_to)}
    except ValueError as error:
        return bad("network", "bad_cidr", "cidr", why=str(error))
    if has != should:
        return odd(
            "network", "group_differs", "setup", name=site.aws.name, add=len(should - has), drop=len(has - should)
        )
    return ok("network", "group", name=site.aws.name, open=", ".join(site.aws.open_to) or "nobody")
