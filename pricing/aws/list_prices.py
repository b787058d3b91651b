"""AWS's price list: on-demand prices and reserved terms of the machines with GPUs, by the Price List API or its bulk file."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any

from pricing.aws.asking import Client, asking
from pricing.offer import SourceError

_GPU_TYPE = re.compile(r"(g|gr|p)\d")  # of machine types with GPUs
_TERM_HOURS = {"1yr": 8760, "3yr": 26280}
_PAYMENTS = {
    "noupfront": "No Upfront",
    "partialupfront": "Partial Upfront",
    "allupfront": "All Upfront",
    "heavyutilization": "Partial Upfront",  # what it was called before 2014
}
# Without `marketoption` the list holds capacity blocks, too, which cost nothing an hour.
_LINUX = {
    "serviceCode": "AmazonEC2",
    "operatingSystem": "Linux",
    "preInstalledSw": "NA",
    "capacitystatus": "Used",
    "marketoption": "OnDemand",
}
_KINDS = (
    {"tenancy": "Shared", "productFamily": "Compute Instance"},
    {"tenancy": "Dedicated", "productFamily": "Compute Instance (bare metal)"},
)
_HOSTS = {
    "aws": "https://pricing.us-east-1.amazonaws.com",
    "aws-cn": "https://pricing.cn-north-1.amazonaws.com.cn",
    "aws-us-gov": "https://pricing.us-east-1.amazonaws.com",
}


@dataclass(frozen=True, slots=True)
class Term:
    """One way to reserve a machine: `hourly` and `upfront` in the list's currency for one machine."""

    hours: int
    payment: str
    offering_class: str
    hourly: Decimal
    upfront: Decimal

    @property
    def effective_hourly(self) -> Decimal:
        """Return the hourly fee with the upfront payment spread over the term."""
        return self.hourly + self.upfront / self.hours


@dataclass(frozen=True, slots=True)
class Listed:
    """What the list says of one machine type: an hour on demand, and its reserved terms."""

    hourly: Decimal
    terms: tuple[Term, ...] = ()


Prices = Mapping[str, Listed]
"""By machine type."""


def by_api(client: Client, region: str, currency: str) -> dict[str, Listed]:
    """Ask GetProducts; `client` is that of the pricing service's home region. Raises SourceError."""
    found: dict[str, Listed] = {}
    with asking("list prices", "pricing:GetProducts", region):
        for kind in _KINDS:
            wanted = {"regionCode": region, **_LINUX, **kind}
            pages = client.get_paginator("get_products").paginate(
                ServiceCode="AmazonEC2",
                FormatVersion="aws_v1",
                Filters=[{"Type": "TERM_MATCH", "Field": field, "Value": value} for field, value in wanted.items()],
                PaginationConfig={"PageSize": 100},
            )
            products = (json.loads(text) for page in pages for text in page["PriceList"])
            found |= _read(((one["product"], one.get("terms", {})) for one in products), currency)
    return _not_empty(found, region)


def bulk_url(partition: str, region: str) -> str:
    """Return where the bulk file of a region lies; it needs no credentials."""
    path = "offers/v1.0/cn" if partition == "aws-cn" else "offers/v1.0/aws"
    return f"{_HOSTS[partition]}/{path}/AmazonEC2/current/{region}/index.json"


def by_bulk_file(data: bytes, region: str, currency: str) -> dict[str, Listed]:
    """Read the bulk file product by product: it has hundreds of megabytes. Raises SourceError."""
    products: dict[str, dict[str, Any]] = {}
    terms: dict[str, dict[str, Any]] = {}
    try:
        for path, value in _walk(data.decode(), 0, ()):
            if path[0] == "products" and _wanted(value):
                products[path[1]] = value
            elif path[0] == "terms" and path[-1] in products:
                terms.setdefault(path[2], {})[path[1]] = value
    except (ValueError, IndexError) as error:
        raise SourceError(
            f"the price file of {region} can't be read ({error}): it is fetched again; if it stays, look at "
            f"{bulk_url('aws', region)}"
        ) from error
    return _not_empty(_read(((product, terms.get(sku, {})) for sku, product in products.items()), currency), region)


def _not_empty(found: dict[str, Listed], region: str) -> dict[str, Listed]:
    if not found:
        raise SourceError(
            f"AWS's price list has no machine with a GPU in {region}: see that `clouds.aws.regions` and "
            "`clouds.aws.partition` go together"
        )
    return found


# ---------------------------------------------------------------- one product


def _wanted(product: Mapping[str, Any]) -> bool:
    has = {"serviceCode": "AmazonEC2", "productFamily": product.get("productFamily"), **product.get("attributes", {})}
    return any(all(has.get(field) == value for field, value in {**_LINUX, **kind}.items()) for kind in _KINDS)


def _read(products: Iterable[tuple[Mapping[str, Any], Mapping[str, Any]]], currency: str) -> dict[str, Listed]:
    found = {}
    for product, terms in products:
        name = product["attributes"].get("instanceType", "")
        if not _GPU_TYPE.match(name):
            continue
        hourly = [_amount(term, "Hrs", currency) for term in terms.get("OnDemand", {}).values()]
        if any(hourly):  # what costs nothing can't be rented
            found[name] = Listed(max(hourly), tuple(_terms(terms.get("Reserved", {}).values(), currency)))
    return found


def _terms(terms: Iterable[Mapping[str, Any]], currency: str) -> Iterator[Term]:
    """Yield reserved terms, told apart by their attributes: their codes differ between regions and years."""
    for term in terms:
        says = term.get("termAttributes", {})
        hours = _TERM_HOURS.get(_plain(says.get("LeaseContractLength", "")))
        payment = _PAYMENTS.get(_plain(says.get("PurchaseOption", "")))
        if hours and payment and _has_price(term, currency):
            kind = _plain(says.get("OfferingClass", "")) or "standard"
            yield Term(hours, payment, kind, _amount(term, "Hrs", currency), _amount(term, "Quantity", currency))


def _plain(text: str) -> str:
    return re.sub(r"[\s_-]", "", text).casefold()


def _has_price(term: Mapping[str, Any], currency: str) -> bool:
    return any(currency in one["pricePerUnit"] for one in term["priceDimensions"].values())


def _amount(term: Mapping[str, Any], unit: str, currency: str) -> Decimal:
    dimensions = [one for one in term["priceDimensions"].values() if one["unit"].casefold() == unit.casefold()]
    return sum((_decimal(one["pricePerUnit"].get(currency, "0")) for one in dimensions), Decimal(0))


def _decimal(text: str) -> Decimal:
    try:
        return Decimal(text)
    except InvalidOperation:
        return Decimal(0)


# ---------------------------------------------------------------- the bulk file

_OPENED = {(), ("products",), ("terms",), ("terms", "OnDemand"), ("terms", "Reserved")}
_BETWEEN = re.compile(r"[\s,:]*")
_decode = json.JSONDecoder().raw_decode


def _walk(text: str, at: int, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield path and value of what lies in the opened objects, never more than one value in memory."""
    stack = [path]
    at = _over(text, text.index("{", at) + 1)
    while stack:
        if text[at] == "}":
            stack.pop()
            at = _over(text, at + 1)
            continue
        key, at = _decode(text, at)
        at, here = _over(text, at), (*stack[-1], key)
        if here in _OPENED and text[at] == "{":
            stack.append(here)
            at = _over(text, at + 1)
            continue
        value, at = _decode(text, at)
        at = _over(text, at)
        if len(here) > 1:
            yield here, value


def _over(text: str, at: int) -> int:
    between = _BETWEEN.match(text, at)
    return between.end() if between else at
