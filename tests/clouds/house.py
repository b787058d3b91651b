"""What moto keeps of the account: subnets, security groups, roles, queues and rules, read from its memory."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from moto.ec2.models import ec2_backends
from moto.events.models import events_backends
from moto.iam.models import SERVICE_NAME_CONVERSION, iam_backends
from moto.sqs.models import sqs_backends

from tests.clouds.keys import ACCOUNT, Policy

SPOT_ROLE = "AWSServiceRoleForEC2Spot"
SERVICE_NAME_CONVERSION["spot"] = "EC2Spot"  # as AWS spells it, unlike moto


@dataclass(frozen=True)
class Subnet:
    """Where an instance's network lies."""

    id: str
    zone: str
    vpc: str
    public: bool


@dataclass(frozen=True)
class Role:
    """A role with what its policies say."""

    name: str
    id: str
    arn: str
    policies: tuple[Policy, ...]
    trust: Policy
    longest_s: int


def subnets(region: str) -> dict[str, Subnet]:
    found = (one for by_id in _ec2(region).subnets.values() for one in by_id.values())
    return {
        one.id: Subnet(one.id, one.availability_zone, one.vpc_id, _is(one.map_public_ip_on_launch)) for one in found
    }


def default_subnet(region: str, zone: str) -> Subnet | None:
    defaults = {vpc.id for vpc in _ec2(region).vpcs.values() if _is(vpc.is_default)}
    return next((one for one in subnets(region).values() if one.zone == zone and one.vpc in defaults), None)


def groups(region: str, vpc: str) -> dict[str, str]:
    """Return the names of the security groups of a network by id."""
    return {one.id: one.name for one in _ec2(region).groups[vpc].values()}


def role(name: str, partition: str = "aws") -> Role | None:
    found = iam_backends[ACCOUNT][partition].roles
    one = next((one for one in found.values() if one.name == name), None)
    if one is None:
        return None
    documents = (*one.policies.values(), *(managed.document for managed in one.managed_policies.values()))
    trust = json.loads(one.assume_role_policy_document or "{}")
    longest = int(one.max_session_duration or 3600)
    return Role(one.name, one.id, one.arn, tuple(map(json.loads, documents)), trust, longest)


def profile(given: Mapping[str, str], partition: str = "aws") -> tuple[str, Role | None] | None:
    """Return the ARN of an instance profile and its role; None when there is no such profile."""
    name = given.get("Name") or given.get("Arn", "").rpartition("/")[2]
    found = iam_backends[ACCOUNT][partition].instance_profiles
    one = next((one for one in found.values() if one.name == name), None)
    if one is None:
        return None
    return one.arn, role(one.roles[0].name, partition) if one.roles else None


def have_spot_role() -> None:
    """Make the role that EC2 ends spot instances with, unless it is there: EC2 does so at the first spot launch."""
    if role(SPOT_ROLE) is None:
        iam_backends[ACCOUNT]["aws"].create_service_linked_role("spot.amazonaws.com", "", "")


def announce(region: str, event: Mapping[str, Any]) -> None:
    """Put an event of AWS's own on the default bus: the rules there send it on."""
    bus = events_backends[ACCOUNT][region].describe_event_bus("default")
    for rule in list(bus.rules.values()):
        if rule.state == "ENABLED":
            # moto counts an event's time in seconds, and writes it as AWS does where it sends it on.
            seconds = datetime.fromisoformat(event["time"]).timestamp()
            rule.send_to_targets({**event, "time": seconds}, transform_input=False)


def send(region: str, queue: str, event: Mapping[str, Any]) -> None:
    """Put an event into a queue straight away."""
    sqs_backends[ACCOUNT][region].send_message(queue, json.dumps(event))


def _ec2(region: str) -> Any:
    return ec2_backends[ACCOUNT][region]


def _is(value: Any) -> bool:
    return str(value).lower() == "true"


def tags(region: str, ident: str) -> dict[str, str]:
    """Return the tags of what moto keeps for EC2."""
    return dict(_ec2(region).tags.get(ident, {}))
