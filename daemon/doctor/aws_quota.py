"""What today's quotas allow, in machines and cards, and how to ask for more."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from config.reason import Reason
from daemon.doctor import Finding, Verdict
from daemon.doctor.aws_site import bad
from pricing.aws import types
from pricing.aws.clients import Clients
from pricing.offer import Market

Key = tuple[str, Market]
_CODES = {
    "L-DB2E81BA": ("G", Market.ON_DEMAND),
    "L-417A185B": ("P", Market.ON_DEMAND),
    "L-3819A6DF": ("G", Market.SPOT),
    "L-7212CCBC": ("P", Market.SPOT),
    "L-C4BD4855": ("P5", Market.SPOT),
}
# Sources disagree on the code of P6's spot quota, so it is known by its name.
_P6_SPOT = re.compile(r"(?=.*\bP6\b)(?=.*\bSpot\b)", re.IGNORECASE)
_ENOUGH = 8  # vCPUs worth asking for: two of the smallest machines with a card


@dataclass(frozen=True, slots=True)
class Limit:
    """One quota, in vCPUs."""

    code: str
    name: str
    vcpus: float


def quotas(clients: Clients, region: str) -> Iterator[Finding]:
    """Return what each quota of cards that the region sells allows; with none the region is of no use."""
    limits = _limits(clients.get("service-quotas", region))
    smallest = _smallest(types.read(clients.get("ec2", region), region))
    found = [_finding(key, limit, smallest[key], region) for key, limit in limits.items() if smallest.get(key)]
    yield from found
    if not any(one.verdict is Verdict.OK for one in found):
        yield bad("quota", "quota_nothing", "quota_nothing", region=region)


def _limits(client: Any) -> dict[Key, Limit]:  # noqa: ANN401 - a client that boto3 made
    pages = client.get_paginator("list_service_quotas").paginate(ServiceCode="ec2")
    listed = [quota for page in pages for quota in page["Quotas"]]
    known = [(_key(quota), quota) for quota in listed]
    found = {key: Limit(quota["QuotaCode"], quota["QuotaName"], float(quota["Value"])) for key, quota in known if key}
    # A quota that isn't listed was never raised, and GPUs start at none.
    missing = {key: Limit(code, code, 0.0) for code, key in _CODES.items() if key not in found}
    return dict(sorted({**found, **missing}.items()))


def _key(quota: Mapping[str, Any]) -> Key | None:
    if _P6_SPOT.match(quota["QuotaName"]):
        return ("P6", Market.SPOT)
    return _CODES.get(quota["QuotaCode"])


def _smallest(catalogue: types.Catalogue) -> dict[Key, list[types.Spec]]:
    """Return, by quota, for each kind of card the machine with the fewest vCPUs that has whole ones."""
    found: dict[Key, dict[str, types.Spec]] = {}
    for spec in sorted(
        {spec.type: spec for spec, _ in catalogue.sold()}.values(), key=lambda one: (one.vcpus, one.type)
    ):
        if spec.gpus < 1:
            continue
        for market in (Market.ON_DEMAND, Market.SPOT):
            if market.value in spec.sold_as:
                found.setdefault((types.quota_family(spec.type, market), market), {}).setdefault(spec.gpu, spec)
    return {key: list(cards.values()) for key, cards in found.items()}


def _finding(key: Key, limit: Limit, cards: list[types.Spec], region: str) -> Finding:
    family, market = key
    said = {"family": family, "market": market.value, "vcpus": f"{limit.vcpus:g}"}
    fits = [_fitting(spec, int(limit.vcpus // spec.vcpus)) for spec in cards if limit.vcpus >= spec.vcpus]
    if fits:
        return Finding("quota", Verdict.OK, Reason("doctor.quota", {**said, "fits": ", ".join(fits)}))
    least = cards[0]
    wanted = max(_ENOUGH, least.vcpus)
    asked: dict[str, str | int] = {"code": limit.code, "name": limit.name, "region": region, "wanted": wanted, **said}
    found = Reason("doctor.quota_small", {**said, "type": least.type, "needs": least.vcpus})
    return Finding("quota", Verdict.WARN, found, Reason("doctor_next.quota", asked))


def _fitting(spec: types.Spec, count: int) -> str:
    cards = spec.gpu if spec.gpus == 1 else f"{spec.gpus:g} {spec.gpu}"
    return f"{count} x {spec.type} ({cards})"
