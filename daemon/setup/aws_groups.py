"""The security group of a region: nobody may come in, but for the CIDRs that the settings name."""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from ipaddress import ip_network
from typing import Any

from botocore.exceptions import ClientError

from config.reason import Reason
from daemon.setup.aws_calls import calling, code_of
from daemon.setup.aws_names import PORTS, Names, is_ours, tag_list
from daemon.setup.steps import Found, Refused, State, Step
from pricing.aws.clients import Clients

Rule = dict[str, Any]
"""One protocol, one span of ports, one source: as IpPermissions has it."""

_SOURCES = {
    "IpRanges": "CidrIp", "Ipv6Ranges": "CidrIpv6", "PrefixListIds": "PrefixListId", "UserIdGroupPairs": "GroupId",
}  # fmt: skip
_ABOUT = "frugald: nobody comes in but for the networks that its settings name"


def step(clients: Clients, names: Names, region: str) -> Step:
    """Return the step that makes the security group of one region."""
    group = _Group(clients.get("ec2", region), names, region)
    about = Reason("setup_about.group", {"open": ", ".join(names.settings.open_to) or "nobody"})
    made = (calling(group.look), calling(group.make), calling(group.remove))
    return Step("security group", names.settings.name, region, about, *made)


def wanted(cidrs: Iterable[str]) -> list[Rule]:
    """Return the rules that let these networks in. Raises ValueError for what is no network."""
    return [_rule(port, str(ip_network(cidr, strict=False))) for cidr in cidrs for port in PORTS]


def single(permissions: Iterable[Mapping[str, Any]]) -> Iterator[Rule]:
    """Take EC2's rules apart, one for each source."""
    for permission in permissions:
        ports = {key: permission[key] for key in ("IpProtocol", "FromPort", "ToPort") if key in permission}
        for kind, key in _SOURCES.items():
            for source in permission.get(kind, []):
                yield {**ports, kind: [{key: source[key]}]}


def key(rule: Rule) -> str:
    """Return what two equal rules share."""
    return json.dumps(rule, sort_keys=True)


def default_vpc(ec2: Any) -> str:  # noqa: ANN401 - a client that boto3 made
    """Return the id of a region's default VPC, empty where there is none."""
    found = ec2.describe_vpcs(Filters=[{"Name": "is-default", "Values": ["true"]}])["Vpcs"]
    return str(found[0]["VpcId"]) if found else ""


def named(ec2: Any, vpc: str, name: str) -> dict[str, Any]:  # noqa: ANN401
    """Return the security group of a name in a VPC, empty where there is none."""
    filters = [{"Name": "group-name", "Values": [name]}, {"Name": "vpc-id", "Values": [vpc]}]
    found = ec2.describe_security_groups(Filters=filters)["SecurityGroups"]
    return dict(found[0]) if found else {}


@dataclass(frozen=True, slots=True)
class _Group:
    ec2: Any
    names: Names
    region: str

    def look(self) -> Found:
        group = self._group()
        if not group:
            return Found(State.MISSING)
        if not is_ours(group.get("Tags", []), self.names.tags):
            return Found(State.FOREIGN, Reason("setup.foreign", {"name": f"{group['GroupId']} in {self.region}"}))
        add, drop = self._changes(group)
        if not add and not drop:
            return Found(State.THERE)
        return Found(State.STALE, Reason("setup.group_differs", {"add": len(add), "drop": len(drop)}))

    def make(self) -> None:
        """Create it if need be, let in whom the settings name, and nobody else."""
        group = self._group() or {"GroupId": self._create(), "IpPermissions": []}
        add, drop = self._changes(group)
        for rule in drop:
            self.ec2.revoke_security_group_ingress(GroupId=group["GroupId"], IpPermissions=[rule])
        for rule in add:
            self._open(group["GroupId"], rule)

    def remove(self) -> None:
        """Delete it."""
        group = self._group()
        try:
            if group:
                self.ec2.delete_security_group(GroupId=group["GroupId"])
        except ClientError as error:
            if code_of(error) == "DependencyViolation":
                raise Refused(Reason("setup.group_in_use", {"region": self.region})) from error
            raise

    def _create(self) -> str:
        tags = [{"ResourceType": "security-group", "Tags": tag_list(self.names.tags)}]
        named_so = {"GroupName": self.names.settings.name, "VpcId": self._vpc(), "Description": _ABOUT}
        return str(self.ec2.create_security_group(**named_so, TagSpecifications=tags)["GroupId"])

    def _open(self, group: str, rule: Rule) -> None:
        try:
            self.ec2.authorize_security_group_ingress(GroupId=group, IpPermissions=[rule])
        except ClientError as error:
            if code_of(error) != "InvalidPermission.Duplicate":
                raise

    def _changes(self, group: Mapping[str, Any]) -> tuple[list[Rule], list[Rule]]:
        """Return the rules to add and those to drop."""
        try:
            should = {key(rule): rule for rule in wanted(self.names.settings.open_to)}
        except ValueError as error:
            raise Refused(Reason("setup.bad_cidr", {"why": str(error)})) from error
        has = {key(rule): rule for rule in single(group["IpPermissions"])}
        return [should[k] for k in should if k not in has], [has[k] for k in has if k not in should]

    def _group(self) -> dict[str, Any]:
        return named(self.ec2, self._vpc(), self.names.settings.name)

    def _vpc(self) -> str:
        found = default_vpc(self.ec2)
        if not found:
            raise Refused(Reason("setup.no_vpc", {"region": self.region}))
        return found


def _rule(port: int, cidr: str) -> Rule:
    kind = "Ipv6Ranges" if ":" in cidr else "IpRanges"
    return {"IpProtocol": "tcp", "FromPort": port, "ToPort": port, kind: [{_SOURCES[kind]: cidr}]}
