"""What AWS's machine types are, and in which zones each is sold."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from config import gpus
from pricing.aws.asking import Client, asking
from pricing.offer import Market

_TYPES = [{"Name": "instance-type", "Values": ["g*", "p*"]}]
_FAMILY = re.compile(r"(?P<letters>[a-z]+)(?P<generation>\d+)")


@dataclass(frozen=True, slots=True)
class Spec:
    """One machine type: `gpu` is a key of the GPU table, memory is in bytes, that of a GPU what programs can use."""

    type: str
    gpu: str
    gpus: float
    gpu_memory: int
    vcpus: int
    memory: int
    sold_as: frozenset[str]  # `on-demand`, `spot`, `capacity-block`


@dataclass(frozen=True, slots=True)
class Catalogue:
    """The machine types of one region.

    `vcpus` has every type of the GPU families, also those that aren't offered: their machines count against the quota.
    `unknown` are types whose GPU the table lacks.
    """

    specs: Mapping[str, Spec]
    zones: Mapping[str, tuple[str, ...]]
    vcpus: Mapping[str, int]
    unknown: tuple[str, ...] = ()

    def sold(self) -> list[tuple[Spec, str]]:
        """Return each type with each zone where it is sold."""
        return [(spec, zone) for name, spec in sorted(self.specs.items()) for zone in self.zones.get(name, ())]


def read(client: Client, region: str) -> Catalogue:
    """Ask DescribeInstanceTypes and DescribeInstanceTypeOfferings. Raises SourceError."""
    with asking("machine types", "ec2:DescribeInstanceTypes", region):
        pages = client.get_paginator("describe_instance_types").paginate(Filters=_TYPES)
        described = [one for page in pages for one in page["InstanceTypes"]]
    with asking("the zones of machine types", "ec2:DescribeInstanceTypeOfferings", region):
        pages = client.get_paginator("describe_instance_type_offerings").paginate(
            LocationType="availability-zone", Filters=_TYPES
        )
        offerings = [one for page in pages for one in page["InstanceTypeOfferings"]]
    return _catalogue(described, offerings)


def _catalogue(described: Iterable[Mapping[str, Any]], offerings: Iterable[Mapping[str, str]]) -> Catalogue:
    specs, vcpus, unknown = {}, {}, []
    for one in described:
        name = one["InstanceType"]
        vcpus[name] = int(one["VCpuInfo"]["DefaultVCpus"])
        if not _runs_cuda(one):
            continue
        try:
            specs[name] = spec(one)
        except ValueError:  # a card that came after the table
            unknown.append(name)
    zones: dict[str, tuple[str, ...]] = {}
    for offering in offerings:
        name = offering["InstanceType"]
        zones[name] = tuple(sorted({*zones.get(name, ()), offering["Location"]}))
    return Catalogue(specs, zones, vcpus, tuple(sorted(unknown)))


def _runs_cuda(one: Mapping[str, Any]) -> bool:
    """Say whether the agent and CUDA run there: the agent is built for x86_64."""
    cards = one.get("GpuInfo", {}).get("Gpus", ())
    nvidia = len(cards) == 1 and cards[0].get("Manufacturer") == "NVIDIA"
    return nvidia and "x86_64" in one["ProcessorInfo"]["SupportedArchitectures"]


def spec(one: Mapping[str, Any]) -> Spec:
    """Read one element of DescribeInstanceTypes. Raises ValueError for a GPU that the table doesn't know.

    A type with a part of a GPU has `Count` 0, `LogicalGpuCount` 1 and the share in `GpuPartitionSize`.
    """
    name, card = one["InstanceType"], one["GpuInfo"]["Gpus"][0]
    share = float(card.get("GpuPartitionSize") or 1)
    count = int(card.get("LogicalGpuCount") or card.get("Count") or 0)
    if count < 1 or (share < 1 and count != 1):
        raise ValueError(f"{name} says it has {count} GPUs of share {share}")
    shown = int(card["MemoryInfo"]["SizeInMiB"])
    whole = _whole(name, card["Name"], shown / share)
    usable = gpus.slice_of(whole, share).usable if share < 1 else whole.usable
    return Spec(
        type=name, gpu=whole.key, gpus=share if share < 1 else count, gpu_memory=min(usable, shown * gpus.MIB),
        vcpus=int(one["VCpuInfo"]["DefaultVCpus"]), memory=int(one["MemoryInfo"]["SizeInMiB"]) * gpus.MIB,
        sold_as=frozenset(one.get("SupportedUsageClasses", ())),
    )  # fmt: skip


def _whole(machine_type: str, card: str, memory_mib: float) -> gpus.Gpu:
    try:
        return gpus.identify(card, round(memory_mib))
    except gpus.UnknownGpu:
        sold = gpus.sold_as("aws", machine_type.partition(".")[0])
        if sold is None:
            raise
        return sold


def quota_family(machine_type: str, market: Market) -> str:
    """Return the family under whose quota a type counts, empty for one outside the GPU quotas.

    On demand one quota holds all of P; on spot P2 to P4 share one, P5 and P6 have their own.
    """
    match = _FAMILY.match(machine_type)
    if not match:
        return ""
    if match["letters"] in {"g", "gr", "vt"}:
        return "G"
    if match["letters"] != "p":
        return ""
    generation = int(match["generation"])
    return f"P{generation}" if market is Market.SPOT and generation > 4 else "P"
