"""The price list of AWS as it comes over the wire, read without a network."""

import json
import math
from decimal import Decimal
from typing import Any

import pytest

from pricing.aws.advisor import hazards
from pricing.aws.list_prices import Term, bulk_url, by_bulk_file
from pricing.aws.overlay import discounted
from pricing.aws.terms import offerings
from pricing.offer import SourceError


def rates(**amounts: str) -> dict[str, Any]:
    return {
        f"S.{unit}": {"unit": unit, "pricePerUnit": {"USD": amount, "CNY": "7"}, "beginRange": "0"}
        for unit, amount in amounts.items()
    }


def product(name: str, **other: str) -> dict[str, Any]:
    attributes = {
        "instanceType": name,
        "regionCode": "us-east-1",
        "operatingSystem": "Linux",
        "preInstalledSw": "NA",
        "capacitystatus": "Used",
        "marketoption": "OnDemand",
        "tenancy": "Shared",
    }
    return {"productFamily": "Compute Instance", "attributes": attributes | other}


def term(length: str, payment: str, kind: str, **amounts: str) -> dict[str, Any]:
    says = {"LeaseContractLength": length, "PurchaseOption": payment, "OfferingClass": kind}
    return {"termAttributes": says, "priceDimensions": rates(**amounts)}


def bulk(on_demand: str = "1.006", **other: str) -> bytes:
    reserved = {
        "A.1": term("1yr", "No Upfront", "standard", Hrs="0.634"),
        "A.2": term("3yr", "AllUpfront", "convertible", Quantity="10510.4", Hrs="0"),
        "A.3": term("5yr", "No Upfront", "standard", Hrs="0.1"),
    }
    file = {
        "formatVersion": "v1.0",
        "products": {"A": product("g5.xlarge", **other), "B": product("m5.large")},
        "terms": {
            "OnDemand": {
                "A": {"A.X": {"termAttributes": {}, "priceDimensions": rates(Hrs=on_demand)}},
                "B": {"B.X": {"termAttributes": {}, "priceDimensions": rates(Hrs="0.096")}},
            },
            "Reserved": {"A": reserved},
        },
        "attributesList": {},
    }
    return json.dumps(file, indent=2).encode()


def test_machines_with_gpus_have_their_hourly_price_and_the_terms_that_are_sold() -> None:
    found = by_bulk_file(bulk(), "us-east-1", "USD")
    assert set(found) == {"g5.xlarge"}
    assert found["g5.xlarge"].hourly == Decimal("1.006")
    assert found["g5.xlarge"].terms == (
        Term(8760, "No Upfront", "standard", Decimal("0.634"), Decimal(0)),
        Term(26280, "All Upfront", "convertible", Decimal(0), Decimal("10510.4")),
    )


def test_an_upfront_payment_is_spread_over_the_hours_of_its_term() -> None:
    assert Term(8760, "Partial Upfront", "standard", Decimal("0.05"), Decimal(876)).effective_hourly == Decimal("0.15")


def test_a_list_in_yuan_is_read_in_yuan() -> None:
    assert by_bulk_file(bulk(), "cn-north-1", "CNY")["g5.xlarge"].hourly == 7


@pytest.mark.parametrize("other", [{"marketoption": "CapacityBlock"}, {"tenancy": "Host"}, {"operatingSystem": "SUSE"}])
def test_what_is_sold_otherwise_is_left_out(other: dict[str, str]) -> None:
    with pytest.raises(SourceError, match="no machine with a GPU in us-east-1"):
        by_bulk_file(bulk(**other), "us-east-1", "USD")


def test_what_costs_nothing_is_left_out() -> None:
    with pytest.raises(SourceError, match="no machine with a GPU"):
        by_bulk_file(bulk("0.0000000000"), "us-east-1", "USD")


def test_half_a_file_says_that_it_is_fetched_again() -> None:
    with pytest.raises(SourceError, match=r"can't be read .* fetched again"):
        by_bulk_file(bulk()[:700], "us-east-1", "USD")


def test_every_partition_has_its_own_place() -> None:
    assert bulk_url("aws", "eu-west-1").startswith("https://pricing.us-east-1.amazonaws.com/offers/v1.0/aws/AmazonEC2")
    assert ".amazonaws.com.cn/offers/v1.0/cn/" in bulk_url("aws-cn", "cn-north-1")


@pytest.mark.parametrize(
    ("machine_type", "expected"), [("g5.xlarge", "0.9"), ("p5.4xlarge", "0.8"), ("p5.48xlarge", "0.5")]
)
def test_the_most_specific_discount_counts(machine_type: str, expected: str) -> None:
    discounts = {"*": 0.1, "p5.*": 0.2, "p5.48xlarge": 0.5}
    assert discounted(Decimal(1), machine_type, discounts) == Decimal(expected)


def test_reserved_terms_become_offerings_in_the_accounting_currency() -> None:
    listed = by_bulk_file(bulk(), "us-east-1", "USD")
    monthly, upfront = offerings(listed, "us-east-1", Decimal(2), {"g5.*": 0.5})
    assert (monthly.effective_hourly_micro, monthly.upfront_micro) == (634_000, 0)
    assert (upfront.effective_hourly_micro, upfront.upfront_micro) == (399_939, 10_510_400_000)


def test_a_band_of_the_advisor_becomes_a_rate_that_takes_as_many_in_a_month() -> None:
    says = {
        "ranges": [{"index": 0, "max": 5}, {"index": 1, "max": 11}],
        "spot_advisor": {"us-east-1": {"Linux": {"g5.xlarge": {"s": 59, "r": 1}, "p9.xlarge": {"s": 1, "r": 9}}}},
    }
    found = hazards(json.dumps(says).encode(), "us-east-1")
    assert set(found) == {"g5.xlarge"}
    assert 1 - math.exp(-found["g5.xlarge"] * 730) == pytest.approx(0.08)
    assert hazards(json.dumps(says).encode(), "eu-west-1") == {}
    with pytest.raises(SourceError, match="can't be read"):
        hazards(b"<html>", "us-east-1")
