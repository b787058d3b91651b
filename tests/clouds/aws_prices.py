"""What AWS sells and what an account owns: the stand-in's price list, spot prices, reservations, plans and quotas.

Prices on demand are those of us-east-1 of July 2026; everything else is made from them, the same in every run.
"""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

from pricing.offer import Market
from tests.clouds import aws_list, aws_sold
from tests.clouds.call import Answer, Call
from tests.clouds.wire import Refused, error, page

ON_DEMAND = {
    "g4dn.xlarge": "0.5260", "g4dn.metal": "7.8240", "g5.xlarge": "1.0060", "g5.12xlarge": "5.6720", "g6.xlarge": "0.8048",
    "g6.2xlarge": "0.9776", "g6.4xlarge": "1.3232", "g6f.xlarge": "0.2375", "g6e.xlarge": "1.8610", "g5g.xlarge": "0.4200",
    "p4d.24xlarge": "21.9576", "p5.48xlarge": "55.0400", "p6-b200.48xlarge": "113.9328",
}  # fmt: skip
PRICED_ONLY = {"p3.2xlarge": "3.0600", "g4ad.xlarge": "0.37853"}
_SOLD_IN = {"p4d.24xlarge": "ac", "p5.48xlarge": "b", "p6-b200.48xlarge": "b", "g4dn.metal": "ab"}
_LETTERS = "abc"
_EVERY = timedelta(hours=4)  # a spot price changes
_EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
ACCOUNT = "123456789012"
_QUOTAS = {
    "L-DB2E81BA": "Running On-Demand G and VT instances",
    "L-417A185B": "Running On-Demand P instances",
    "L-3819A6DF": "All G and VT Spot Instance Requests",
    "L-7212CCBC": "All P4, P3 and P2 Spot Instance Requests",
    "L-C4BD4855": "All P5 Spot Instance Requests",
    "L-5DA1FF5D": "All P6 Spot Instance Requests",
    "L-34B43A08": "All Standard (A, C, D, H, I, M, R, T, Z) Spot Instance Requests",
}
Handler = Callable[["Catalogue", Call], Answer]


@dataclass
class Catalogue:
    """One account's prices and what it owns. `asked` are the actions in the order in which they came."""

    asked: list[str] = field(default_factory=list)
    reserved: list[dict[str, Any]] = field(default_factory=list)
    reservations: dict[str, dict[str, Any]] = field(default_factory=dict)
    plans: dict[str, dict[str, Any]] = field(default_factory=dict)
    quotas: dict[str, float] = field(default_factory=lambda: dict.fromkeys(_QUOTAS, 256.0))
    scores: dict[str, int] = field(default_factory=dict)  # by zone id
    on_demand: dict[str, str] = field(default_factory=lambda: dict(ON_DEMAND))
    page_size: int = 100  # the most that one page of any action holds
    _spot: dict[tuple[str, str], list[tuple[datetime, Decimal]]] = field(default_factory=dict)
    _failing: dict[str, Refused] = field(default_factory=dict)

    def answer(self, call: Call) -> Answer | None:
        """Answer a call about prices, None for any other."""
        handler = _ACTIONS.get((call.service, call.action))
        if handler is None:
            return None
        self.asked.append(call.action)
        try:
            if call.action in self._failing:
                raise self._failing[call.action]
            return handler(self, call)
        except Refused as refused:
            return error(call, refused)

    # ------------------------------------------------------------ what tests set

    def spot(self, machine_type: str, zone: str, steps: Sequence[tuple[datetime, str]]) -> None:
        """Set all that the spot price of a pool was and will be."""
        self._spot[machine_type, zone] = sorted((at, Decimal(price)) for at, price in steps)

    def own_reserved(
        self, machine_type: str, count: int, start: datetime, end: datetime, zone: str = "", **more: Any
    ) -> None:
        """Own reserved instances, in one zone or in the region."""
        scope = {"Scope": "Availability Zone", "AvailabilityZone": zone} if zone else {"Scope": "Region"}
        self.reserved.append(
            {
                "ReservedInstancesId": f"ri-{len(self.reserved)}", "InstanceType": machine_type, "InstanceCount": count,
                "Start": start, "End": end, "Duration": 31536000, "FixedPrice": 0.0, "UsagePrice": 0.0,
                "ProductDescription": "Linux/UNIX", "InstanceTenancy": "default", "OfferingClass": "standard",
                "OfferingType": "No Upfront", "State": "active", **scope, **more,
            }
        )  # fmt: skip

    def own_reservation(
        self, machine_type: str, zone: str, total: int, available: int, end: datetime | None = None, **more: Any
    ) -> str:
        """Own an on-demand capacity reservation; return its id."""
        name = f"cr-{len(self.reservations):017x}"
        self.reservations[name] = {
            "CapacityReservationId": name, "OwnerId": ACCOUNT, "InstanceType": machine_type, "InstancePlatform": "Linux/UNIX",
            "AvailabilityZone": zone, "Tenancy": "default", "TotalInstanceCount": total, "AvailableInstanceCount": available,
            "State": "active", "InstanceMatchCriteria": "open", "ReservationType": "default", "EndDate": end,
            "EndDateType": "limited" if end else "unlimited", **more,
        }  # fmt: skip
        return name

    def own_block(self, machine_type: str, zone: str, total: int, available: int, end: datetime) -> str:
        """Own a capacity block; return the id of its reservation."""
        block = {"ReservationType": "capacity-block", "InstanceMatchCriteria": "targeted", "CapacityBlockId": "cb-1"}
        return self.own_reservation(machine_type, zone, total, available, end, **block)

    def own_savings_plan(
        self, commitment: str, end: datetime, kind: str = "Compute", region: str = "", family: str = ""
    ) -> str:
        """Own a plan of `commitment` USD an hour; return its id."""
        name = f"sp-{len(self.plans)}"
        where = {"region": region, "ec2InstanceFamily": family} if kind == "EC2Instance" else {}
        self.plans[name] = {
            "savingsPlanId": name, "savingsPlanType": kind, "commitment": commitment, "state": "active", "currency": "USD",
            "start": "2026-01-01T00:00:00.000Z", "end": end.strftime("%Y-%m-%dT%H:%M:%S.000Z"),
            "paymentOption": "No Upfront", "termDurationInSeconds": 31536000, **where,
        }  # fmt: skip
        return name

    def quota(self, code: str, value: float) -> None:
        """Set a quota in vCPUs."""
        self.quotas[code] = value

    def fail(self, action: str, code: str, status: int = 400) -> None:
        """Refuse an action until it is mended."""
        self._failing[action] = Refused(code, f"{code} as the test wants it", status)

    def mend(self, action: str) -> None:
        """Answer an action again."""
        self._failing.pop(action, None)

    # ------------------------------------------------------------ what things cost

    def zones(self, region: str, machine_type: str = "") -> list[str]:
        """Return the zones of a region, or those where a type is sold."""
        return [f"{region}{letter}" for letter in _SOLD_IN.get(machine_type, _LETTERS)]

    def listed_price(self, region: str, machine_type: str) -> Decimal:
        """Return the hour on demand: a tenth more outside us-east-1."""
        price = Decimal(self.on_demand.get(machine_type) or PRICED_ONLY[machine_type])
        return price if region == "us-east-1" else price * Decimal("1.1")

    def price(self, machine_type: str, market: Market, zone: str, at: datetime) -> Decimal:
        """Return what an hour costs at a moment."""
        if market is Market.RESERVED:
            return Decimal(0)
        if market is Market.ON_DEMAND:
            return self.listed_price(zone[:-1], machine_type)
        return [price for _, price in self.steps(machine_type, zone, at, at)][-1]

    def steps(self, machine_type: str, zone: str, start: datetime, end: datetime) -> list[tuple[datetime, Decimal]]:
        """Return the changes of a spot price until `end`, from the last one at or before `start` on."""
        if (machine_type, zone) in self._spot:
            known = [one for one in self._spot[machine_type, zone] if one[0] <= end]
            first = max((n for n, (at, _) in enumerate(known) if at <= start), default=0)
            return known[first:]
        first, last = (start - _EPOCH) // _EVERY, (end - _EPOCH) // _EVERY
        return [(_EPOCH + n * _EVERY, self._spot_price(machine_type, zone, n)) for n in range(first, last + 1)]

    def _spot_price(self, machine_type: str, zone: str, number: int) -> Decimal:
        """Return a step near a third of the price on demand, between a quarter and a half of it."""
        share = (
            Decimal("0.25")
            + Decimal(_chance(machine_type, zone)) / 8
            + Decimal(_chance(machine_type, zone, number)) / 16
        )
        return (self.listed_price(zone[:-1], machine_type) * share).quantize(Decimal("0.0001"))


def _chance(*what: object) -> float:
    """Return a number from 0 to 1 that is the same whenever the same is asked."""
    return int(hashlib.sha256(repr(what).encode()).hexdigest()[:8], 16) / 2**32


# ---------------------------------------------------------------- quotas


def _quota(catalogue: Catalogue, call: Call, code: str) -> dict[str, Any]:
    return {
        "ServiceCode": "ec2", "ServiceName": "Amazon Elastic Compute Cloud (Amazon EC2)", "QuotaCode": code,
        "QuotaName": _QUOTAS[code], "Value": catalogue.quotas[code], "Unit": "None", "Adjustable": True, "GlobalQuota": False,
        "QuotaArn": f"arn:aws:servicequotas:{call.region}:{ACCOUNT}:ec2/{code}",
    }  # fmt: skip


def _list_quotas(catalogue: Catalogue, call: Call) -> Answer:
    if call.params.get("ServiceCode") != "ec2":
        raise Refused("NoSuchResourceException", "The request failed because the specified service does not exist.")
    found = [_quota(catalogue, call, code) for code in catalogue.quotas]
    size = min(int(call.params.get("MaxResults", 100)), catalogue.page_size)
    some, token = page(found, call.params, "NextToken", size, "InvalidPaginationTokenException")
    return Answer.of_json({"Quotas": some} | ({"NextToken": token} if token else {}))


def _get_quota(catalogue: Catalogue, call: Call) -> Answer:
    code = call.params.get("QuotaCode", "")
    if call.params.get("ServiceCode") != "ec2" or code not in catalogue.quotas:
        raise Refused("NoSuchResourceException", "The request failed because the specified quota does not exist.")
    return Answer.of_json({"Quota": _quota(catalogue, call, code)})


_ACTIONS: dict[tuple[str, str], Handler] = {
    ("ec2", "DescribeInstanceTypes"): aws_sold.instance_types,
    ("ec2", "DescribeInstanceTypeOfferings"): aws_sold.type_offerings,
    ("ec2", "DescribeSpotPriceHistory"): aws_sold.spot_price_history,
    ("ec2", "DescribeReservedInstances"): aws_sold.reserved_instances,
    ("ec2", "DescribeReservedInstancesOfferings"): aws_sold.reserved_offerings,
    ("ec2", "DescribeCapacityReservations"): aws_sold.capacity_reservations,
    ("ec2", "GetSpotPlacementScores"): aws_sold.placement_scores,
    ("servicequotas", "ListServiceQuotas"): _list_quotas,
    ("servicequotas", "GetServiceQuota"): _get_quota,
    ("pricing", "GetProducts"): aws_list.get_products,
    ("savingsplans", "POST /DescribeSavingsPlans"): aws_list.savings_plans,
    ("savingsplans", "POST /DescribeSavingsPlanRates"): aws_list.plan_rates,
    ("savingsplans", "POST /DescribeSavingsPlansOfferingRates"): aws_list.offering_rates,
}
