"""The parameters of RunInstances, and what EC2's answers mean."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from config.reason import sentences
from pricing.offer import Market
from runner.provider import Condition, LaunchRequest
from runner.providers.ec2 import listing
from runner.providers.ec2.request import Image, Place, Reservation, chosen, parameters
from tests.pricing.offers import GIB, NOW, offer

IMAGE = Image("ami-1", "/dev/sda1", 65)
PLACE = Place("subnet-1", "sg-1", "frugald-machine")


def request(market: Market = Market.SPOT, **changes: Any) -> LaunchRequest:
    facts = {"bid_micro": None, "disk": 200 * GIB, "guard": timedelta(hours=1)} | changes
    tags = {"frugald:owner": "me", "frugald:machine": "m-1"}
    return LaunchRequest(token="one", offer=offer(market=market), user_data="", tags=tags, **facts)


def asked(market: Market = Market.SPOT, reservation: Reservation | None = None, **changes: Any) -> dict[str, Any]:
    return parameters(request(market, **changes), IMAGE, PLACE, reservation, "#!/bin/bash")


def test_equal_requests_are_asked_equally() -> None:
    swapped = replace(request(), tags={"frugald:machine": "m-1", "frugald:owner": "me"})
    assert parameters(swapped, IMAGE, PLACE, None, "#!/bin/bash") == asked()


def test_spot_ends_for_good_and_names_a_price_only_when_there_is_a_limit() -> None:
    plain = {"SpotInstanceType": "one-time", "InstanceInterruptionBehavior": "terminate"}
    assert asked()["InstanceMarketOptions"] == {"MarketType": "spot", "SpotOptions": plain}
    assert asked(bid_micro=1_230_000)["InstanceMarketOptions"]["SpotOptions"] == plain | {"MaxPrice": "1.230000"}
    assert "CapacityReservationSpecification" not in asked()


def test_a_limit_in_another_currency_is_told_in_the_clouds_own_and_never_above_it() -> None:
    limited = replace(request(bid_micro=1_000_000), offer=offer(fx_rate="7.1"))
    found = parameters(limited, IMAGE, PLACE, None, "")["InstanceMarketOptions"]["SpotOptions"]["MaxPrice"]
    assert found == "0.140845"


def test_on_demand_never_fills_a_reservation_that_another_offer_counts_on() -> None:
    spec = asked(Market.ON_DEMAND)["CapacityReservationSpecification"]
    assert spec == {"CapacityReservationPreference": "none"}
    assert "InstanceMarketOptions" not in asked(Market.ON_DEMAND)


def test_a_capacity_block_is_a_market_of_its_own() -> None:
    found = asked(Market.RESERVED, Reservation("cr-1", block=True))
    assert found["InstanceMarketOptions"] == {"MarketType": "capacity-block"}
    target = {"CapacityReservationTarget": {"CapacityReservationId": "cr-1"}}
    assert found["CapacityReservationSpecification"] == target


def test_a_machine_guards_its_metadata_its_disk_and_its_end() -> None:
    found = asked()
    options = {"HttpTokens": "required", "HttpPutResponseHopLimit": 2, "InstanceMetadataTags": "enabled"}
    assert found["MetadataOptions"] == options
    disk = {"VolumeSize": 200, "VolumeType": "gp3", "Encrypted": True, "DeleteOnTermination": True}
    assert found["BlockDeviceMappings"] == [{"DeviceName": "/dev/sda1", "Ebs": disk}]
    assert found["InstanceInitiatedShutdownBehavior"] == "terminate"


@pytest.mark.parametrize(("wanted", "size"), [(0, 65), (65 * GIB, 65), (65 * GIB + 1, 66)])
def test_the_disk_holds_the_image_and_what_was_asked_for(wanted: int, size: int) -> None:
    assert asked(disk=wanted)["BlockDeviceMappings"][0]["Ebs"]["VolumeSize"] == size


def test_everything_that_costs_carries_the_tags() -> None:
    kinds = ["instance", "volume", "network-interface"]
    assert [spec["ResourceType"] for spec in asked()["TagSpecifications"]] == [*kinds, "spot-instances-request"]
    assert [spec["ResourceType"] for spec in asked(Market.ON_DEMAND)["TagSpecifications"]] == kinds


def reserved(name: str = "cr-1", **changes: Any) -> dict[str, Any]:
    plain = {
        "CapacityReservationId": name, "InstanceType": "one-L4", "AvailabilityZone": "us-east-1a", "State": "active",
        "AvailableInstanceCount": 1, "Tenancy": "default", "InstancePlatform": "Linux/UNIX", "ReservationType": "default",
    }  # fmt: skip
    return plain | changes


POOL = offer(market=Market.RESERVED).pool


@pytest.mark.parametrize(
    "change",
    [
        {"AvailableInstanceCount": 0}, {"State": "expired"}, {"InstanceType": "g6.xlarge"}, {"Tenancy": "dedicated"},
        {"AvailabilityZone": "us-east-1b"}, {"InstancePlatform": "Windows"}, {"EndDate": NOW},
        {"ReservationType": "capacity-block", "EndDate": NOW + timedelta(minutes=45)},
    ],
)  # fmt: skip
def test_a_reservation_without_room_is_not_chosen(change: dict[str, Any]) -> None:
    assert chosen([reserved(**change)], POOL, NOW) is None


def test_the_choice_among_reservations_doesnt_depend_on_their_order() -> None:
    block = reserved("cr-9", ReservationType="capacity-block", EndDate=NOW + timedelta(days=1))
    found = [reserved("cr-2"), block, reserved("cr-1")]
    assert chosen(found, POOL, NOW) == chosen(found[::-1], POOL, NOW) == Reservation("cr-9", block=True)
    assert chosen(found[::2], POOL, NOW) == Reservation("cr-1", block=False)


# -------------------------------------------------------------------- answers


def instance(state: str, code: str = "", **changes: Any) -> dict[str, Any]:
    plain = {
        "InstanceId": "i-1", "ClientToken": "one", "State": {"Name": state}, "LaunchTime": NOW, "StateReason": {"Code": code},
        "Tags": [{"Key": "frugald:owner", "Value": "me"}, {"Key": "aws:ec2spot:fleet-request-id", "Value": "x"}],
    }  # fmt: skip
    return plain | changes


def test_a_machine_has_our_tags_and_its_region() -> None:
    found = listing.machine("us-east-1", instance("running"), None)
    assert (found.id, found.tags, found.why_ended) == ("us-east-1/i-1", {"frugald:owner": "me"}, "")


@pytest.mark.parametrize(
    ("state", "meant"),
    [
        ("pending", Condition.PENDING), ("running", Condition.RUNNING), ("shutting-down", Condition.ENDING),
        ("stopping", Condition.ENDING), ("stopped", Condition.ENDING), ("terminated", Condition.GONE),
    ],
)  # fmt: skip
def test_every_state_means_something(state: str, meant: Condition) -> None:
    assert listing.condition(instance(state)) is meant


@pytest.mark.parametrize(
    "code",
    [
        "Server.SpotInstanceTermination", "Server.SpotInstanceShutdown", "Client.UserInitiatedShutdown",
        "Client.InstanceInitiatedShutdown", "Server.InsufficientInstanceCapacity", "Server.InternalError",
        "Server.ScheduledStop", "Client.InternalError", "Client.VolumeLimitExceeded", "Client.InvalidSnapshot.NotFound",
        "NeverHeardOf", "",
    ],
)  # fmt: skip
def test_every_end_has_a_sentence_and_only_a_reclaim_is_an_interruption(code: str) -> None:
    why = listing.why(instance("terminated", code))
    assert why in sentences()
    assert ("interrupt" in why) is code.startswith("Server.Spot")


def test_the_end_is_when_ec2_says_it_began() -> None:
    said = instance("terminated", StateTransitionReason="User initiated (2026-03-02 09:30:00 GMT)")
    assert listing.said_end(said) == datetime(2026, 3, 2, 9, 30, tzinfo=UTC)
    assert listing.said_end(instance("terminated", StateTransitionReason="Server.SpotInstanceTermination")) is None
