"""What runs in an account, whoever started it: it fills quotas, reserved instances and Savings Plans."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pricing.aws.asking import Client, asking
from pricing.aws.types import quota_family
from pricing.offer import Market

_RUNNING = [{"Name": "instance-state-name", "Values": ["pending", "running"]}]


@dataclass(frozen=True, slots=True)
class Instance:
    """One running machine. `lifecycle` is empty on demand, else `spot`, `capacity-block` or another of AWS's words."""

    type: str
    zone: str
    lifecycle: str = ""
    linux: bool = True
    shared: bool = True  # it has the default tenancy
    vcpus: int = 0

    @property
    def discountable(self) -> bool:
        """Say whether the benefit of reserved instances and Savings Plans for Linux can fall to it."""
        return not self.lifecycle and self.linux and self.shared


def running(client: Client, region: str) -> list[Instance]:
    """Return every machine of the account in a region. Raises SourceError."""
    with asking("what runs", "ec2:DescribeInstances", region):
        pages = client.get_paginator("describe_instances").paginate(
            Filters=_RUNNING, PaginationConfig={"PageSize": 1000}
        )
        return [
            _instance(one) for page in pages for group in page["Reservations"] for one in group.get("Instances", ())
        ]


def vcpus_in_use(
    instances: Iterable[Instance], vcpus: Mapping[str, int], market: Market
) -> Mapping[str, int]:  # by quota family
    """Return the vCPUs that run in each quota family of one market; a capacity block counts against no quota."""
    lifecycle = "spot" if market is Market.SPOT else ""
    used: Counter[str] = Counter()
    for one in instances:
        if one.lifecycle == lifecycle:
            used[quota_family(one.type, market)] += vcpus.get(one.type, one.vcpus)
    return used


def count(instances: Sequence[Instance]) -> Mapping[tuple[str, str], int]:
    """Return how many machines that discounts can fall to run, by type and zone."""
    return Counter((one.type, one.zone) for one in instances if one.discountable)


def _instance(one: Mapping[str, Any]) -> Instance:
    placement, cpus = one.get("Placement", {}), one.get("CpuOptions", {})
    return Instance(
        type=one["InstanceType"],
        zone=placement.get("AvailabilityZone", ""),
        lifecycle=one.get("InstanceLifecycle", ""),
        linux=_linux(one),
        shared=placement.get("Tenancy", "default") == "default",
        vcpus=cpus.get("CoreCount", 0) * cpus.get("ThreadsPerCore", 0),
    )


def _linux(one: Mapping[str, Any]) -> bool:
    """Say whether it is billed as plain Linux: SUSE, Red Hat and Windows are other products."""
    details = one.get("PlatformDetails")
    return bool(details == "Linux/UNIX" if details else one.get("Platform", "").casefold() != "windows")
