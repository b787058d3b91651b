"""Savings Plans: what is left of an hour's commitment, and how many machines more it pays for in full."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from decimal import Decimal
from typing import Any

from pricing.aws.asking import Client, asking
from pricing.aws.instances import Instance
from pricing.aws.owned import Kind, ReservedInstance, Target

Placed = tuple[str, str]
"""Region and machine type."""

_EC2 = "EC2Instance"
_KINDS = (_EC2, "Compute")  # in the order in which AWS applies them
_HOME = "every region"


@dataclass(frozen=True, slots=True)
class Plan:
    """One plan: `commitment` is owed every hour, used or not; `rates` is what a machine takes of it in an hour."""

    id: str
    kind: str  # `EC2Instance`: one family in one region; `Compute`: anything anywhere
    commitment: Decimal
    ends: datetime
    region: str = ""
    family: str = ""
    rates: Mapping[Placed, Decimal] = field(default_factory=dict)

    def covers(self, region: str, machine_type: str) -> bool:
        """Say whether it pays for a machine type in a region."""
        here = self.kind != _EC2 or (region, machine_type.partition(".")[0]) == (self.region, self.family)
        return here and (region, machine_type) in self.rates


def plans(client: Client, regions: Collection[str], now: datetime) -> list[Plan]:
    """Return the account's plans for EC2 that are in force, with their rates in `regions`. Raises SourceError."""
    with asking("Savings Plans", "savingsplans:DescribeSavingsPlans", _HOME):
        described = _all(client.describe_savings_plans, "savingsPlans", {"states": ["active"]})
    found = [_plan(one) for one in described if one["savingsPlanType"] in _KINDS]
    in_force = [plan for plan in found if plan.ends > now]
    return [replace(plan, rates=_rates(client, plan.id, regions)) for plan in in_force]


def _plan(one: Mapping[str, Any]) -> Plan:
    return Plan(
        id=one["savingsPlanId"],
        kind=one["savingsPlanType"],
        commitment=Decimal(one["commitment"]),
        ends=datetime.fromisoformat(one["end"]),
        region=one.get("region", ""),
        family=one.get("ec2InstanceFamily", ""),
    )


def _rates(client: Client, plan: str, regions: Collection[str]) -> dict[Placed, Decimal]:
    wanted = {"region": sorted(regions), "productDescription": ["Linux/UNIX"], "tenancy": ["shared"]}
    question = {"savingsPlanId": plan, "filters": [{"name": name, "values": some} for name, some in wanted.items()]}
    with asking("the rates of Savings Plans", "savingsplans:DescribeSavingsPlanRates", _HOME):
        rates = _all(client.describe_savings_plan_rates, "searchResults", question)
    found = {}
    for one in rates:
        says = {entry["name"]: entry["value"] for entry in one.get("properties", ())}
        if one.get("unit") == "Hrs" and "instanceType" in says:
            found[says.get("region", ""), says["instanceType"]] = Decimal(one["rate"])
    return found


def _all(ask: Any, key: str, question: Mapping[str, Any]) -> list[dict[str, Any]]:  # noqa: ANN401 - a client's method
    """Follow the pages: botocore has no paginators for this service."""
    answer = ask(**question)
    found: list[dict[str, Any]] = list(answer[key])
    while answer.get("nextToken"):
        answer = ask(**question, nextToken=answer["nextToken"])
        found += answer[key]
    return found


# ---------------------------------------------------------------- what is left


def uncovered(instances: Iterable[Instance], region: str, reserved: Iterable[ReservedInstance]) -> list[Placed]:
    """Return the machines whose hour reserved instances don't pay: those come first, and plans pay for the others."""
    left = {(one.type, one.zone): 0 for one in reserved}
    for one in reserved:
        left[one.type, one.zone] += one.count
    found = []
    for instance in instances:
        if not instance.discountable:
            continue
        paid = next((at for at in ((instance.type, instance.zone), (instance.type, "")) if left.get(at)), None)
        if paid:
            left[paid] -= 1
        else:
            found.append((region, instance.type))
    return found


def remaining(owned: Sequence[Plan], running: Iterable[Placed]) -> dict[str, Decimal]:
    """Return what of each plan's hour nothing that runs uses, by plan."""
    left = {plan.id: plan.commitment for plan in owned}
    ordered = sorted(owned, key=lambda plan: (_KINDS.index(plan.kind), plan.id))
    for placed in running:
        share = Decimal(1)  # of this machine's hour that nothing pays for yet
        for plan in ordered:
            if share and plan.covers(*placed) and plan.rates[placed]:
                paid = min(share, left[plan.id] / plan.rates[placed])
                left[plan.id] -= paid * plan.rates[placed]
                share -= paid
    return left


def affordable(
    owned: Iterable[Plan], left: Mapping[str, Decimal], region: str, zones: Mapping[str, Sequence[str]]
) -> dict[tuple[str, str], list[Target]]:
    """Return how many machines of each type each plan still pays for in full, in each zone where the type is sold.

    One commitment is offered as many times as there are types and zones; whatever is launched takes it off all of them.
    """
    found: dict[tuple[str, str], list[Target]] = {}
    for plan in owned:
        for machine_type, sold in zones.items():
            if not plan.covers(region, machine_type) or not plan.rates[region, machine_type]:
                continue
            count = int(left[plan.id] / plan.rates[region, machine_type])
            for zone in sold:
                target = Target(Kind.SAVINGS_PLAN, plan.id, count, plan.ends)
                found.setdefault((machine_type, zone), []).append(target)
    return found
