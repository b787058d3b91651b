"""The stand-in's price list and Savings Plans: JSON answers made from the prices of its catalogue."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from tests.clouds.call import Answer, Call
from tests.clouds.wire import Refused, page

if TYPE_CHECKING:
    from tests.clouds.aws_prices import Catalogue

_TYPES = {"TERM_MATCH", "EQUALS", "CONTAINS", "ANY_OF", "NONE_OF"}
_PLAN_SHARE = {"Compute": Decimal("0.72"), "EC2Instance": Decimal("0.63")}  # of the price on demand


@dataclass(frozen=True)
class TermKind:
    """One way to reserve: so many years, and shares of the price on demand paid at once and by the hour."""

    code: str
    years: int
    payment: str
    spelled: str  # as the price list writes it
    offering_class: str
    at_once: Decimal
    by_hour: Decimal

    def hourly(self, price: Decimal) -> Decimal:
        return (price * self.by_hour).quantize(Decimal("0.0001"))

    def upfront(self, price: Decimal) -> Decimal:
        return (price * self.at_once * self.years * 8760).quantize(Decimal(1))


TERMS = (
    TermKind("4NA7Y494T4", 1, "No Upfront", "No Upfront", "standard", Decimal(0), Decimal("0.66")),
    TermKind("HU7G6KETJZ", 1, "Partial Upfront", "Heavy Utilization", "standard", Decimal("0.30"), Decimal("0.30")),
    TermKind("NQ3QZPMQV9", 3, "All Upfront", "AllUpfront", "standard", Decimal("0.40"), Decimal(0)),
    TermKind("CUZHX8X6JH", 1, "No Upfront", "No Upfront", "convertible", Decimal(0), Decimal("0.75")),
)


# ---------------------------------------------------------------- the price list


def get_products(catalogue: "Catalogue", call: Call) -> Answer:
    params = call.params
    if params.get("ServiceCode") != "AmazonEC2":
        raise Refused("NotFoundException", f"No service {params.get('ServiceCode')}")
    size = int(params.get("MaxResults", 100))
    if not 1 <= size <= 100:
        raise Refused("InvalidParameterException", "MaxResults must be between 1 and 100")
    wanted = [_filter(one) for one in params.get("Filters", ())]
    region = next((value for field, value in wanted if field == "regionCode"), "us-east-1")
    found = [json.dumps(one) for one in products(catalogue, region) if _fits(one["product"], wanted)]
    some, token = page(found, params, "NextToken", min(size, catalogue.page_size), "InvalidNextTokenException")
    return Answer.of_json({"FormatVersion": "aws_v1", "PriceList": some} | ({"NextToken": token} if token else {}))


def bulk(catalogue: "Catalogue", region: str) -> bytes:
    """Return the public file of a region."""
    whole = list(products(catalogue, region))
    return json.dumps(
        {
            "formatVersion": "v1.0",
            "offerCode": "AmazonEC2",
            "products": {one["product"]["sku"]: one["product"] for one in whole},
            "terms": {
                kind: {one["product"]["sku"]: one["terms"][kind] for one in whole if kind in one["terms"]}
                for kind in ("OnDemand", "Reserved")
            },
            "attributesList": {},
        },
        indent=1,
    ).encode()


def _filter(one: dict[str, str]) -> tuple[str, str]:
    if one.get("Type") not in _TYPES or not one.get("Field") or not one.get("Value"):
        raise Refused("InvalidParameterException", f"Invalid filter {one}")
    assert one["Type"] == "TERM_MATCH", "the stand-in knows no other filters"
    return one["Field"], one["Value"]


def _fits(product: dict[str, Any], wanted: Sequence[tuple[str, str]]) -> bool:
    has = {"productFamily": product["productFamily"], "serviceCode": "AmazonEC2", **product["attributes"]}
    return all(has.get(field) == value for field, value in wanted)


def products(catalogue: "Catalogue", region: str) -> Iterator[dict[str, Any]]:
    """Yield every product: next to each machine on Linux those that are to be told from it."""
    from tests.clouds.aws_prices import PRICED_ONLY

    for name in (*catalogue.on_demand, *PRICED_ONLY):
        price = catalogue.listed_price(region, name)
        yield _product(name, region, price, "L", terms=True)
        yield _product(name, region, price * 2, "W", operatingSystem="Windows")
        yield _product(name, region, price * 3, "S", preInstalledSw="SQL Std")
        yield _product(name, region, price + 1, "D", tenancy="Host")
        yield _product(name, region, Decimal(0), "B", marketoption="CapacityBlock")
        yield _product(name, region, price, "U", capacitystatus="UnusedCapacityReservation")
    yield _product("m5.large", region, Decimal("0.096"), "L")
    yield _product("g3.4xlarge", region, Decimal(0), "L")


def _product(name: str, region: str, price: Decimal, mark: str, *, terms: bool = False, **other: str) -> dict[str, Any]:
    sku = f"{mark}{name.upper().replace('.', '').replace('-', '')}"
    metal = name.endswith(".metal")
    attributes = {
        "instanceType": name, "regionCode": region, "servicecode": "AmazonEC2", "operatingSystem": "Linux",
        "preInstalledSw": "NA", "capacitystatus": "Used", "marketoption": "OnDemand", "operation": "RunInstances",
        "tenancy": "Dedicated" if metal else "Shared", **other,
    }  # fmt: skip
    family = "Compute Instance (bare metal)" if metal else "Compute Instance"
    found: dict[str, Any] = {"OnDemand": {f"{sku}.JRTCKXETXF": _term(sku, "JRTCKXETXF", {}, {"Hrs": price})}}
    if terms:
        found["Reserved"] = {f"{sku}.{kind.code}": _reserved(sku, kind, price) for kind in TERMS}
    product = {"sku": sku, "productFamily": family, "attributes": attributes}
    return {"product": product, "serviceCode": "AmazonEC2", "version": "20260720", "terms": found}


def _reserved(sku: str, kind: TermKind, price: Decimal) -> dict[str, Any]:
    says = {
        "LeaseContractLength": f"{kind.years}yr",
        "PurchaseOption": kind.spelled,
        "OfferingClass": kind.offering_class,
    }
    costs = {"Hrs": kind.hourly(price)} | ({"Quantity": kind.upfront(price)} if kind.at_once else {})
    return _term(sku, kind.code, says, costs)


def _term(sku: str, code: str, says: dict[str, str], costs: dict[str, Decimal]) -> dict[str, Any]:
    rates = {"Hrs": "6YS6EN2CT7", "Quantity": "2TG2D8R56U"}
    dimensions = {
        f"{sku}.{code}.{rates[unit]}": {"unit": unit, "pricePerUnit": {"USD": f"{price:.10f}"}, "appliesTo": []}
        for unit, price in costs.items()
    }
    return {"sku": sku, "offerTermCode": code, "termAttributes": says, "priceDimensions": dimensions}


# ---------------------------------------------------------------- Savings Plans


def savings_plans(catalogue: "Catalogue", call: Call) -> Answer:
    states = call.params.get("states") or ["active"]
    found = [one for one in catalogue.plans.values() if one["state"] in states]
    return _paged(catalogue, call, "savingsPlans", found)


def plan_rates(catalogue: "Catalogue", call: Call) -> Answer:
    name = call.params.get("savingsPlanId")
    if not name:
        raise Refused("ValidationException", "savingsPlanId is required")
    if name not in catalogue.plans:
        raise Refused("ResourceNotFoundException", f"No savings plan {name}")
    kind = catalogue.plans[name]["savingsPlanType"]
    return _paged(catalogue, call, "searchResults", _rates(catalogue, call, kind))


def offering_rates(catalogue: "Catalogue", call: Call) -> Answer:
    found = []
    for kind in call.params.get("savingsPlanTypes") or list(_PLAN_SHARE):
        offering = {
            "offeringId": f"o-{kind}",
            "paymentOption": "No Upfront",
            "planType": kind,
            "durationSeconds": 31536000,
        }
        sold = {"savingsPlanOffering": {**offering, "currency": "USD"}}
        found += [{**rate, **sold} for rate in _rates(catalogue, call, kind)]
    return _paged(catalogue, call, "searchResults", found)


def _rates(catalogue: "Catalogue", call: Call, kind: str) -> list[dict[str, Any]]:
    wanted = {one["name"]: one["values"] for one in call.params.get("filters", ())}
    unknown = set(wanted) - {"region", "instanceType", "instanceFamily", "productDescription", "tenancy"}
    if unknown:
        raise Refused("ValidationException", f"Unknown filter {min(unknown)}")
    found = []
    for region in wanted.get("region", ["us-east-1"]):
        for name in catalogue.on_demand:
            for product, more in (("Linux/UNIX", 1), ("Windows", 2)):
                says = {
                    "region": region, "instanceType": name, "instanceFamily": name.partition(".")[0],
                    "productDescription": product, "tenancy": "shared",
                }  # fmt: skip
                if all(says[field] in values for field, values in wanted.items()):
                    rate = catalogue.listed_price(region, name) * _PLAN_SHARE[kind] * more
                    found.append(
                        {
                            "rate": f"{rate:.6f}", "currency": "USD", "unit": "Hrs", "productType": "EC2",
                            "serviceCode": "AmazonEC2", "usageType": f"BoxUsage:{name}", "operation": "RunInstances",
                            "properties": [{"name": field, "value": value} for field, value in says.items()],
                        }
                    )  # fmt: skip
    return found


def _paged(catalogue: "Catalogue", call: Call, key: str, items: Sequence[Any]) -> Answer:
    size = min(int(call.params.get("maxResults", 100)), catalogue.page_size)
    some, token = page(items, call.params, "nextToken", size, "ValidationException")
    return Answer.of_json({key: some} | ({"nextToken": token} if token else {}))
