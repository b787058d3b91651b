"""What the account may run: quotas in vCPUs by family and market; that of spot is not that of on demand."""

import re
from collections.abc import Iterable, Mapping
from typing import Any

from pricing.aws.asking import Client, asking
from pricing.offer import Market

Limits = Mapping[tuple[str, Market], float]
"""vCPUs by quota family and market."""

_BY_CODE = {
    "L-DB2E81BA": ("G", Market.ON_DEMAND),
    "L-417A185B": ("P", Market.ON_DEMAND),
    "L-3819A6DF": ("G", Market.SPOT),
    "L-7212CCBC": ("P", Market.SPOT),  # P4, P3 and P2
    "L-C4BD4855": ("P5", Market.SPOT),
}
# Sources disagree on the code of P6's spot quota, so it is known by its name.
_P6_SPOT = re.compile(r"(?=.*\bP6\b)(?=.*\bSpot\b)", re.IGNORECASE)


def limits(client: Client, region: str) -> dict[tuple[str, Market], float]:
    """Ask ListServiceQuotas for the GPU families. Raises SourceError."""
    with asking("quotas", "servicequotas:ListServiceQuotas", region):
        pages = client.get_paginator("list_service_quotas").paginate(ServiceCode="ec2")
        return _limits(quota for page in pages for quota in page["Quotas"])


def _limits(quotas: Iterable[Mapping[str, Any]]) -> dict[tuple[str, Market], float]:
    found: dict[tuple[str, Market], float] = {}
    for quota in quotas:
        if quota["QuotaCode"] in _BY_CODE:
            found[_BY_CODE[quota["QuotaCode"]]] = float(quota["Value"])
        if _P6_SPOT.match(quota["QuotaName"]):
            found["P6", Market.SPOT] = float(quota["Value"])
    return found
