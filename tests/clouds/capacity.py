"""Whether there is room for a launch: quotas, reservations, the price offered, and what a pool has left."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal

from pricing.offer import Market
from tests.clouds.aws_prices import Catalogue
from tests.clouds.instances import Instance
from tests.clouds.launch import Plan
from tests.clouds.wire import Refused

Where = tuple[str, str, str]  # type, zone, market
_UNCOUNTED = {"terminated", "stopped"}
_OUT = {"shutting-down", "terminated", "stopping", "stopped"}


@dataclass
class Capacity:
    """What AWS has left for the account."""

    catalogue: Catalogue
    stock: dict[Where, int] = field(default_factory=dict)  # how many instances a pool has left; no limit without
    refusals: dict[Where, int | None] = field(default_factory=dict)  # sold out for so many launches yet; None: for good
    _returned: set[str] = field(default_factory=set)  # instances whose reserved place is free again

    def check_quota(self, made: Plan, region: str, count: int, running: Iterable[Instance], now: datetime) -> None:
        """Raises Refused when so many more would exceed the quota."""
        spot = made.market == "spot"
        code = quota_code(made.type, spot=spot)
        if made.market == "capacity-block" or code not in self.catalogue.quotas:
            return
        limit = self.catalogue.quotas[code]
        if vcpus(running, region, code, now) + made.vcpus * count <= limit:
            return
        if spot:
            raise Refused("MaxSpotInstanceCountExceeded", "Max spot instance count exceeded")
        raise Refused(
            "VcpuLimitExceeded",
            f"You have requested more vCPU capacity than your current vCPU limit of {limit:.0f} allows for the instance "
            "bucket that the specified instance type belongs to.",
        )

    def room(self, made: Plan, least: int, most: int, now: datetime) -> tuple[str, int]:
        """Return the reservation to launch in, if any, and how many instances. Raises Refused."""
        owned = made.owned or self._open_reservation(made)
        if owned:
            free = self.catalogue.reservations[owned]["AvailableInstanceCount"]
            if free >= least:
                return owned, min(most, free)
            if made.owned:
                raise Refused(
                    "ReservationCapacityExceeded", f"The capacity reservation {owned} has {free} instances left"
                )
        if made.preference == "capacity-reservations-only":
            raise Refused("ReservationCapacityExceeded", "No open capacity reservation has room for the launch")
        self._check_price(made, now)
        return "", self._from_stock(made, least, most)

    def occupy(self, owned: str) -> None:
        """Take one place of a reservation."""
        self.catalogue.reservations[owned]["AvailableInstanceCount"] -= 1

    def free(self, instances: Iterable[Instance], now: datetime) -> None:
        """Give back the places of instances that have ended since."""
        for one in instances:
            if one.owned in self.catalogue.reservations and one.id not in self._returned and one.state(now) in _OUT:
                self._returned.add(one.id)
                self.catalogue.reservations[one.owned]["AvailableInstanceCount"] += 1

    def is_reserved(self, made: Plan, region: str, running: Iterable[Instance], now: datetime) -> bool:
        """Say whether a reserved instance that the account owns would pay for one more on demand."""
        used = [one.zone for one in running if one.reserved and one.type == made.type and one.state(now) not in _OUT]
        slots = sum(
            one["InstanceCount"]
            for one in self.catalogue.reserved
            if one["InstanceType"] == made.type
            and one["State"] == "active"
            and one["Start"] <= now < one["End"]
            and one.get("AvailabilityZone", made.subnet.zone) == made.subnet.zone
        )
        return made.market == "on-demand" and len([zone for zone in used if zone.startswith(region)]) < slots

    def _open_reservation(self, made: Plan) -> str:
        if made.market != "on-demand" or made.preference == "none":
            return ""
        fits = {"InstanceType": made.type, "AvailabilityZone": made.subnet.zone, "InstanceMatchCriteria": "open"}
        for name, one in self.catalogue.reservations.items():
            if one["State"] == "active" and one["AvailableInstanceCount"] and fits.items() <= one.items():
                return name
        return ""

    def _check_price(self, made: Plan, now: datetime) -> None:
        if not made.max_price:
            return
        price = self.catalogue.price(made.type, Market.SPOT, made.subnet.zone, now)
        if Decimal(made.max_price) < price:
            raise Refused(
                "SpotMaxPriceTooLow",
                f"Your Spot request price of {made.max_price} is lower than the minimum required Spot request fulfillment "
                f"price of {price}.",
            )

    def _from_stock(self, made: Plan, least: int, most: int) -> int:
        pool: Where = (made.type, made.subnet.zone, made.market)
        refusals, left = self.refusals.get(pool, 0), self.stock.get(pool, most)
        if refusals != 0 or left < least:
            if refusals:
                self.refusals[pool] = refusals - 1
            raise Refused("InsufficientInstanceCapacity", _sold_out(made), 500)
        count = min(left, most)
        if pool in self.stock:
            self.stock[pool] -= count
        return count


def vcpus(instances: Iterable[Instance], region: str, code: str, now: datetime) -> int:
    """Return what counts against a quota: spot until its request is closed, all until they are terminated."""
    return sum(
        one.vcpus
        for one in instances
        if one.region == region
        and one.market != "capacity-block"
        and quota_code(one.type, spot=one.market == "spot") == code
        and one.state(now) not in _UNCOUNTED
    )


def quota_code(machine_type: str, *, spot: bool) -> str:
    """Return the code of the quota that a type counts against, empty for one that the stand-in doesn't limit."""
    family = machine_type.partition(".")[0]
    if family.startswith(("g", "vt")):
        return "L-3819A6DF" if spot else "L-DB2E81BA"
    if not family.startswith("p"):
        return ""
    if not spot:
        return "L-417A185B"
    return {"5": "L-C4BD4855", "6": "L-5DA1FF5D"}.get(family[1:2], "L-7212CCBC")


def _sold_out(made: Plan) -> str:
    if made.market == "spot":
        return "There is no Spot capacity available that matches your request."
    where = f"{made.type} capacity in the Availability Zone you requested ({made.subnet.zone})"
    return (
        f"We currently do not have sufficient {where}. Our system will be working on provisioning additional capacity."
    )
