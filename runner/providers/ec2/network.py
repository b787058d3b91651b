"""Where machines go: the default subnet of their zone, behind the security group that setup has made."""

from typing import Any

from pricing.aws.clients import Clients
from runner.provider import Denied
from runner.providers.ec2.codes import asking
from runner.providers.ec2.request import Place


class Network:
    """The default VPC of each region; what was found once is kept, what is missing is looked for again."""

    def __init__(self, clients: Clients, group: str, instance_profile: str) -> None:
        """`group` is the name of the security group."""
        self._clients = clients
        self._group = group
        self._profile = instance_profile
        self._subnets: dict[tuple[str, str], str] = {}
        self._groups: dict[str, str] = {}

    def place(self, region: str, zone: str) -> Place:
        """Return where a machine of `zone` goes. Raises ProviderError."""
        return Place(self._subnet(region, zone), self._security_group(region), self._profile)

    def _subnet(self, region: str, zone: str) -> str:
        if (region, zone) not in self._subnets:
            filters = {"default-for-az": "true", "availability-zone": zone}
            found = self._ask(region, f"find the subnet of {zone}", "describe_subnets", filters)["Subnets"]
            if not found:
                raise Denied(
                    f"{zone} has no default subnet: make it with `aws ec2 create-default-subnet --availability-zone {zone}`"
                )
            self._subnets[region, zone] = found[0]["SubnetId"]
        return self._subnets[region, zone]

    def _security_group(self, region: str) -> str:
        if region not in self._groups:
            action = f"find the security group {self._group} in {region}"
            vpcs = self._ask(region, action, "describe_vpcs", {"is-default": "true"})["Vpcs"]
            if not vpcs:
                raise Denied(
                    f"{region} has no default VPC: make it with `aws ec2 create-default-vpc --region {region}`"
                )
            filters = {"group-name": self._group, "vpc-id": vpcs[0]["VpcId"]}
            found = self._ask(region, action, "describe_security_groups", filters)["SecurityGroups"]
            if not found:
                raise Denied(f"{region} has no security group {self._group}: run `frugald setup aws`, which makes it")
            self._groups[region] = found[0]["GroupId"]
        return self._groups[region]

    def _ask(self, region: str, action: str, call: str, filters: dict[str, str]) -> dict[str, Any]:
        with asking(action):
            ec2 = self._clients.get("ec2", region)
            answer: dict[str, Any] = getattr(ec2, call)(
                Filters=[{"Name": name, "Values": [value]} for name, value in filters.items()]
            )
            return answer
