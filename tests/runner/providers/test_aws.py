"""AWS's machines, against an account in this process (`tests/fakes/ec2.py`), which is not AWS."""

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any, cast

import pytest

from config.aws_settings import AwsSettings
from pricing.aws.clients import Clients
from pricing.offer import Market
from runner.bootstrap import user_data
from runner.provider import Condition, Denied, LaunchRequest, Notice, ProviderError, SoldOut, Throttled, Unknown
from runner.providers.aws import AwsCloud
from tests.contracts.provider import CloudContract, CloudWorld
from tests.fakes.clock import FakeClock
from tests.fakes.ec2 import Account, FakeClients, refusal
from tests.pricing.offers import GIB, offer

TWO = AwsSettings(regions=("us-east-1", "eu-west-1"))
LAG = timedelta(seconds=1)


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def account(clock: FakeClock) -> Account:
    return Account(clock)


def opened(account: Account, owner: str = "me", fault: str = "", **settings: Any) -> AwsCloud:
    clients = cast("Clients", FakeClients(account, fault))
    return AwsCloud(TWO.model_copy(update=settings), clients, owner, account.clock, listing_lag=LAG)


@pytest.fixture
def cloud(account: Account) -> AwsCloud:
    return opened(account)


def request(token: str, owner: str = "me", **changes: Any) -> LaunchRequest:
    told = user_data("s3://frugald-1-us-east-1/here", token, "agents/x.pyz", "0" * 64)
    place = {name: changes.pop(name) for name in ("market", "gpu", "type", "region", "zone") if name in changes}
    facts = {"bid_micro": None, "disk": 200 * GIB, "guard": timedelta(hours=1)} | changes
    return LaunchRequest(
        token=token,
        offer=offer(**place),
        user_data=told,
        tags={"frugald:owner": owner, "frugald:machine": token},
        **facts,
    )


@pytest.fixture
def world(account: Account, clock: FakeClock) -> CloudWorld:
    def until(condition: Callable[[], bool]) -> None:
        for _ in range(400):
            if condition():
                return
            clock.advance(0.5)
        pytest.fail("not within 200 s")

    return CloudWorld(
        provider=opened(account), stranger=opened(account, "somebody else"), request=request, until=until, now=clock.now,
        lossy=opened(account, fault="lossy"), throttled=opened(account, fault="throttled"),
        sold_out=opened(account, fault="sold_out"), small_quota=opened(account, fault="small_quota"),
        late=opened(account, fault="late"), interrupt=account.interrupt,
    )  # fmt: skip


class TestAwsCloud(CloudContract):
    pass


def running(account: Account, cloud: AwsCloud) -> str:
    machine = cloud.launch(request("one"))
    account.clock.advance(5)
    return machine.id


# -------------------------------------------------------------------- launching


def test_a_machine_is_named_by_region_and_instance(cloud: AwsCloud) -> None:
    assert cloud.launch(request("one")).id == "us-east-1/i-00000000000000001"


def test_what_gives_no_answer_before_anything_was_rented_may_be_asked_again(account: Account, cloud: AwsCloud) -> None:
    account.broken["describe_subnets"] = refusal("InternalError", 500)
    with pytest.raises(Throttled, match="nothing has been rented yet"):
        cloud.launch(request("one"))
    assert account.instances == []


def test_an_answer_that_is_no_refusal_leaves_open_what_happened(account: Account, cloud: AwsCloud) -> None:
    account.broken["run_instances"] = refusal("SomethingNew", 503)
    with pytest.raises(Unknown, match="SomethingNew"):
        cloud.launch(request("one"))
    account.broken["run_instances"] = refusal("SomethingNew", 400)
    with pytest.raises(Denied, match="SomethingNew"):
        cloud.launch(request("one"))


def test_a_region_without_our_security_group_says_who_makes_it(account: Account, cloud: AwsCloud) -> None:
    account.groups = []
    with pytest.raises(Denied, match="frugald setup aws"):
        cloud.launch(request("one"))


def test_a_card_that_the_image_has_no_driver_for_is_left_alone_not_the_cloud(account: Account, cloud: AwsCloud) -> None:
    with pytest.raises(SoldOut, match="V100"):
        cloud.launch(request("one", gpu="V100-16"))
    opened(account, image="ami-1").launch(request("one", gpu="V100-16"))


def test_a_store_that_machines_cant_reach_is_refused(cloud: AwsCloud) -> None:
    told = user_data("file:///var/store", "one", "agents/x.pyz", "0" * 64)
    with pytest.raises(Denied, match="s3://"):
        cloud.launch(replace(request("one"), user_data=told))


RESERVATION = {
    "CapacityReservationId": "cr-1", "InstanceType": "one-L4", "AvailabilityZone": "us-east-1a", "State": "active",
    "AvailableInstanceCount": 1,
}  # fmt: skip


def test_a_retry_goes_to_the_reservation_of_the_first_try(account: Account, cloud: AwsCloud) -> None:
    account.reservations = [RESERVATION]
    first = cloud.launch(request("one", market=Market.RESERVED))
    account.reservations = []
    assert cloud.launch(request("one", market=Market.RESERVED)).id == first.id
    assert opened(account).launch(request("one", market=Market.RESERVED)).id == first.id  # after a restart
    [one] = account.instances
    target = {"CapacityReservationTarget": {"CapacityReservationId": "cr-1"}}
    assert one["_asked"]["CapacityReservationSpecification"] == target


def test_without_a_reservation_owned_capacity_is_a_discount_of_the_bill(account: Account, cloud: AwsCloud) -> None:
    cloud.launch(request("one", market=Market.RESERVED))
    cloud.launch(request("two", market=Market.ON_DEMAND))
    asked = [one["_asked"]["CapacityReservationSpecification"] for one in account.instances]
    assert [spec["CapacityReservationPreference"] for spec in asked] == ["open", "none"]


def test_a_token_whose_machine_is_forgotten_needs_another_token(account: Account, cloud: AwsCloud) -> None:
    account.broken["run_instances"] = refusal("IdempotentInstanceTerminated")
    with pytest.raises(SoldOut, match="IdempotentInstanceTerminated"):
        cloud.launch(request("one"))


# -------------------------------------------------------------------- listing


def test_one_region_that_fails_makes_the_whole_listing_fail(account: Account, cloud: AwsCloud) -> None:
    cloud.launch(request("one"))
    account.broken["describe_instances@eu-west-1"] = refusal("RequestLimitExceeded", 503)
    with pytest.raises(Throttled):
        cloud.machines()
    account.broken["describe_instances@eu-west-1"] = refusal("InternalError", 500)
    with pytest.raises(ProviderError):
        cloud.machines()


def test_a_token_is_looked_for_where_it_was_asked_for_and_after_a_restart_everywhere(account: Account) -> None:
    cloud = opened(account)
    machine = cloud.launch(request("one", region="eu-west-1", zone="eu-west-1a"))
    account.broken["describe_instances@us-east-1"] = refusal("InternalError", 500)
    found = cloud.find("one")
    assert found is not None
    assert found.id == machine.id
    del account.broken["describe_instances@us-east-1"]
    again = opened(account).find("one")
    assert again is not None
    assert again.id == machine.id


def test_a_stopped_machine_is_ending_and_is_ended(account: Account, cloud: AwsCloud) -> None:
    machine = running(account, cloud)
    account.instances[0]["State"] = {"Name": "stopped"}
    [stopped] = cloud.machines()
    assert stopped.condition is Condition.ENDING
    cloud.terminate(machine)
    assert account.asked("terminate_instances") == [{"InstanceIds": ["i-00000000000000001"]}]


def test_a_machine_that_no_listing_shows_yet_is_still_ended_by_whom_rented_it(account: Account) -> None:
    late = opened(account, fault="late")
    machine = late.launch(request("one"))
    late.terminate(machine.id)
    assert account.instances[0]["State"]["Name"] == "shutting-down"


def test_a_machine_that_switched_itself_off_says_so_and_bills_until_then(account: Account, cloud: AwsCloud) -> None:
    cloud.launch(request("one", guard=timedelta(seconds=90)))
    account.clock.advance(300)
    cloud.machines()
    account.clock.advance(300)
    [gone] = cloud.machines()
    assert gone.why_ended == "machine_end.switched_off"
    assert gone.ended_at == gone.launched_at + timedelta(minutes=2)


def test_a_reclaimed_machine_that_nobody_watched_bills_two_minutes_after_its_status(
    account: Account, cloud: AwsCloud
) -> None:
    machine = running(account, cloud)
    told = account.clock.now()
    account.interrupt(machine, timedelta(minutes=2))
    account.clock.advance(600)
    [gone] = opened(account).machines()
    assert gone.ended_at == told + timedelta(minutes=2)


# -------------------------------------------------------------------- notices


def event(kind: str, number: int = 1, **detail: Any) -> dict[str, Any]:
    body = {"id": f"e-{number}", "detail-type": kind, "time": "2026-03-02T09:00:05Z", "detail": detail}
    return {"Body": json.dumps(body), "ReceiptHandle": f"r-{number}"}


def heard(account: Account, *events: dict[str, Any]) -> tuple[AwsCloud, str]:
    cloud = opened(account, queue="notices")
    machine = running(account, cloud)
    account.messages = list(events)
    return cloud, machine


WARNING = "EC2 Spot Instance Interruption Warning"
ID = {"instance-id": "i-00000000000000001"}


def test_a_warning_in_the_queue_is_a_notice_and_two_ways_tell_it_once(account: Account) -> None:
    cloud, machine = heard(account, event(WARNING, 1, **ID), event(WARNING, 2, **ID))
    [notice] = cloud.notices()
    assert notice == Notice(machine, account.clock.now() + timedelta(minutes=2))
    assert account.messages == []
    account.interrupt(machine, timedelta(minutes=2))
    assert list(cloud.notices()) == [notice]


def test_a_rebalance_recommendation_is_no_interruption(account: Account) -> None:
    cloud, _ = heard(account, event("EC2 Instance Rebalance Recommendation", **ID))
    assert [notice.kind for notice in cloud.notices()] == ["rebalance"]


def test_planned_maintenance_is_an_interruption_once_it_is_near(account: Account) -> None:
    detail = {
        "service": "EC2", "eventTypeCategory": "scheduledChange", "startTime": "Mon, 02 Mar 2026 12:00:00 GMT",
        "affectedEntities": [{"entityValue": "i-00000000000000001"}],
    }  # fmt: skip
    cloud, _ = heard(account, event("AWS Health Event", **detail))
    account.instances[0]["_asked"]["UserData"] = ""  # its timer is far away
    assert [notice.kind for notice in cloud.notices()] == ["rebalance"]
    account.clock.advance(timedelta(hours=2, minutes=50))
    assert [notice.kind for notice in cloud.notices()] == ["interruption"]


def test_what_is_no_event_is_thrown_away(account: Account) -> None:
    broken = [{"Body": text, "ReceiptHandle": str(n)} for n, text in enumerate(["", "[]", "{}", '{"detail-type": 1}'])]
    cloud, _ = heard(account, *broken, event("EC2 Instance State-change Notification", 9, state="running", **ID))
    assert list(cloud.notices()) == []
    assert account.messages == []


def test_a_queue_that_fails_costs_only_its_own_notices(account: Account) -> None:
    cloud, machine = heard(account)
    account.broken["get_queue_url"] = refusal("AWS.SimpleQueueService.NonExistentQueue")
    account.interrupt(machine, timedelta(minutes=2))
    assert [notice.machine_id for notice in cloud.notices()] == [machine]
