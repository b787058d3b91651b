"""The stand-in's answers of EC2 about prices, machine types and what is owned."""

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from moto.ec2.models.availability_zones_and_regions import RegionsAndZonesBackend
from moto.ec2.models.instance_types import INSTANCE_TYPES

from tests.clouds import aws_list
from tests.clouds.call import Answer, Call
from tests.clouds.wire import Refused, ec2_answer, filters, listed, only, page, time

if TYPE_CHECKING:
    from tests.clouds.aws_prices import Catalogue

PRODUCTS = ("Linux/UNIX", "Linux/UNIX (Amazon VPC)")


def zone_id(zone: str) -> str:
    known = {one.name: one.zone_id for one in RegionsAndZonesBackend.zones[zone[:-1]]}
    return known[zone]


def _size(call: Call, catalogue: "Catalogue", least: int, most: int) -> int:
    asked = int(call.params.get("MaxResults", most))
    if not least <= asked <= most:
        raise Refused("InvalidParameterValue", f"Value ( {asked} ) for parameter maxResults is invalid")
    return min(asked, catalogue.page_size)


def _paged(catalogue: "Catalogue", call: Call, key: str, items: Sequence[Any], most: int = 1000) -> Answer:
    size = _size(call, catalogue, 5, most)
    some, token = page(items, call.params, "NextToken", size, "InvalidNextToken")
    return ec2_answer(call.action, {key: some, "NextToken": token})


def _passes(value: str, wanted: Sequence[str] | None) -> bool:
    return wanted is None or any(fnmatchcase(value, pattern) for pattern in wanted)


def instance_types(catalogue: "Catalogue", call: Call) -> Answer:
    only(call.params, {"InstanceType", "MaxResults", "NextToken"})
    named = listed(call.params, "InstanceType")
    sold = [name for name in catalogue.on_demand if name in INSTANCE_TYPES]
    if set(named) - set(sold):
        raise Refused("InvalidInstanceType", f"The following supplied instance types do not exist: {named}")
    wanted = filters(call.params, {"instance-type", "processor-info.supported-architecture", "supported-usage-class"})
    found = [
        INSTANCE_TYPES[name]
        for name in sold
        if (not named or name in named)
        and _passes(name, wanted.get("instance-type"))
        and _any(INSTANCE_TYPES[name]["SupportedUsageClasses"], wanted.get("supported-usage-class"))
        and _any(
            INSTANCE_TYPES[name]["ProcessorInfo"]["SupportedArchitectures"],
            wanted.get("processor-info.supported-architecture"),
        )
    ]
    return _paged(catalogue, call, "InstanceTypes", [_kept(one, _SHOWN) for one in found], most=100)


def _any(values: Sequence[str], wanted: Sequence[str] | None) -> bool:
    return any(_passes(value, wanted) for value in values)


_SHOWN = {
    "InstanceType", "SupportedUsageClasses", "CurrentGeneration", "BareMetal", "GpuInfo", "MemoryInfo", "ProcessorInfo",
    "VCpuInfo", "InstanceStorageInfo",
}  # fmt: skip


def _kept(one: Mapping[str, Any], members: set[str]) -> dict[str, Any]:
    return {name: value for name, value in one.items() if name in members}


def type_offerings(catalogue: "Catalogue", call: Call) -> Answer:
    only(call.params, {"LocationType", "MaxResults", "NextToken"})
    kind = call.params.get("LocationType", "region")
    wanted = filters(call.params, {"instance-type", "location"})
    places: dict[str, Callable[[str], list[str]]] = {
        "region": lambda _: [call.region],
        "availability-zone": lambda name: catalogue.zones(call.region, name),
        "availability-zone-id": lambda name: [zone_id(zone) for zone in catalogue.zones(call.region, name)],
    }
    if kind not in places:
        raise Refused("InvalidParameterValue", f"Value ({kind}) for parameter LocationType is invalid")
    found = [
        {"InstanceType": name, "LocationType": kind, "Location": place}
        for name in catalogue.on_demand
        if _passes(name, wanted.get("instance-type"))
        for place in places[kind](name)
        if _passes(place, wanted.get("location"))
    ]
    return _paged(catalogue, call, "InstanceTypeOfferings", found)


def spot_price_history(catalogue: "Catalogue", call: Call) -> Answer:
    params = call.params
    only(
        params,
        {"InstanceType", "ProductDescription", "AvailabilityZone", "StartTime", "EndTime", "MaxResults", "NextToken"},
    )
    wanted = filters(params, {"instance-type", "availability-zone", "product-description"})
    start = time(params["StartTime"]) if "StartTime" in params else call.at - timedelta(days=90)
    end = min(time(params["EndTime"]), call.at) if "EndTime" in params else call.at
    if "EndTime" in params and time(params["EndTime"]) < start:
        raise Refused("InvalidParameterValue", "The end time is before the start time")
    types = listed(params, "InstanceType") or wanted.get("instance-type") or ["*"]
    products = listed(params, "ProductDescription") or wanted.get("product-description") or ["*"]
    zones = [params["AvailabilityZone"]] if "AvailabilityZone" in params else wanted.get("availability-zone")
    found = [
        {
            "InstanceType": name, "ProductDescription": product, "SpotPrice": f"{price:f}", "Timestamp": at,
            "AvailabilityZone": zone, "AvailabilityZoneId": zone_id(zone),
        }
        for name in catalogue.on_demand
        if _passes(name, types) and "spot" in INSTANCE_TYPES[name]["SupportedUsageClasses"]
        for zone in catalogue.zones(call.region, name)
        if _passes(zone, zones)
        for product in PRODUCTS
        if _passes(product, products)
        for at, price in reversed(catalogue.steps(name, zone, min(start, end), end))
    ]  # fmt: skip
    return _paged(catalogue, call, "SpotPriceHistory", found)


def reserved_instances(catalogue: "Catalogue", call: Call) -> Answer:
    only(call.params, {"ReservedInstancesId", "OfferingClass", "OfferingType"})
    wanted = filters(call.params, {"state", "instance-type", "scope"})
    found = [
        one
        for one in catalogue.reserved
        if _passes(one["State"], wanted.get("state")) and _passes(one["InstanceType"], wanted.get("instance-type"))
    ]
    return ec2_answer(call.action, {"ReservedInstances": found})


def reserved_offerings(catalogue: "Catalogue", call: Call) -> Answer:
    only(
        call.params,
        {"InstanceType", "ProductDescription", "OfferingClass", "OfferingType", "InstanceTenancy", "MinDuration"}
        | {"MaxDuration", "MaxInstanceCount", "IncludeMarketplace", "MaxResults", "NextToken"},
    )
    found = [
        {
            "ReservedInstancesOfferingId": f"{name}-{term.code}", "InstanceType": name, "Scope": "Region",
            "Duration": term.years * 31536000, "UsagePrice": 0.0, "FixedPrice": float(term.upfront(price)),
            "RecurringCharges": [{"Amount": float(term.hourly(price)), "Frequency": "Hourly"}], "Marketplace": False,
            "ProductDescription": "Linux/UNIX", "InstanceTenancy": "default", "CurrencyCode": "USD",
            "OfferingClass": term.offering_class, "OfferingType": term.payment,
        }
        for name in catalogue.on_demand
        if call.params.get("InstanceType", name) == name
        for price in [catalogue.listed_price(call.region, name)]
        for term in aws_list.TERMS
        if call.params.get("OfferingClass", term.offering_class) == term.offering_class
        and call.params.get("OfferingType", term.payment) == term.payment
    ]  # fmt: skip
    return _paged(catalogue, call, "ReservedInstancesOfferings", found, most=100)


def capacity_reservations(catalogue: "Catalogue", call: Call) -> Answer:
    only(call.params, {"CapacityReservationId", "MaxResults", "NextToken"})
    wanted = filters(call.params, {"state", "instance-type", "availability-zone"})
    named = listed(call.params, "CapacityReservationId")
    if set(named) - set(catalogue.reservations):
        raise Refused("InvalidCapacityReservationId.NotFound", f"The capacity reservation {named} does not exist")
    found = [
        one
        for name, one in catalogue.reservations.items()
        if (not named or name in named)
        and one["AvailabilityZone"].startswith(call.region)
        and _passes(one["State"], wanted.get("state"))
        and _passes(one["InstanceType"], wanted.get("instance-type"))
        and _passes(one["AvailabilityZone"], wanted.get("availability-zone"))
    ]
    return _paged(catalogue, call, "CapacityReservations", found)


def placement_scores(catalogue: "Catalogue", call: Call) -> Answer:
    only(
        call.params,
        {"InstanceType", "TargetCapacity", "TargetCapacityUnitType", "SingleAvailabilityZone", "RegionName"},
    )
    if "TargetCapacity" not in call.params:
        raise Refused("MissingParameter", "The request must contain the parameter TargetCapacity")
    few = len(listed(call.params, "InstanceType")) < 3
    found = [
        {"Region": region, "AvailabilityZoneId": name, "Score": 1 if few else catalogue.scores.get(name, 5)}
        for region in listed(call.params, "RegionName") or [call.region]
        for name in map(zone_id, catalogue.zones(region))
    ]
    return ec2_answer(call.action, {"SpotPlacementScores": found[:10]})
