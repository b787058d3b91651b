"""What the stand-in for AWS does, asked through boto3 as the daemon asks it. None of this shows what AWS itself does."""

import base64
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import boto3
import httpx
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError, ConnectionClosedError

from config.aws_settings import AwsSettings
from config.clock import SystemClock
from pricing.offer import Market
from runner.store import open_store
from tests.clouds.aws import AwsCloud
from tests.clouds.capacity import vcpus
from tests.clouds.faults import Fault
from tests.clouds.images import parameters
from tests.clouds.keys import Key
from tests.fakes.clock import FakeClock

ONE_TRY = Config(retries={"mode": "standard", "total_max_attempts": 1}, connect_timeout=5, read_timeout=30)
ZONE = "us-east-1b"
IMAGE = parameters("us-east-1")[AwsSettings().image]
MACHINE = "frugald-machine"
SECOND = timedelta(seconds=1)


class Account:
    """The stand-in, and clients that were made once."""

    def __init__(self, cloud: AwsCloud, clock: FakeClock) -> None:
        self.cloud = cloud
        self.clock = clock
        self._key, self._secret = cloud.key("admin")
        self._made: dict[tuple[str, str], Any] = {}

    def client(self, service: str, region: str = "us-east-1", key: Key | tuple[str, str] | None = None) -> Any:
        if key is not None or (service, region) not in self._made:
            made = _client(self.cloud.url, service, region, key or (self._key, self._secret))
            if key is not None:
                return made
            self._made[service, region] = made
        return self._made[service, region]

    @property
    def ec2(self) -> Any:
        return self.client("ec2")

    def launch(self, **changed: Any) -> str:
        return str(self.ec2.run_instances(**question(**changed))["Instances"][0]["InstanceId"])

    def shown(self, ident: str) -> Any:
        return self.ec2.describe_instances(InstanceIds=[ident])["Reservations"][0]["Instances"][0]

    def request(self, ident: str) -> Any:
        filters = [{"Name": "instance-id", "Values": [ident]}]
        return self.ec2.describe_spot_instance_requests(Filters=filters)["SpotInstanceRequests"][0]

    def role(self, name: str, policy: Any, service: str = "") -> Any:
        principal = {"Service": service} if service else {"AWS": "arn:aws:iam::123456789012:root"}
        trust = json.dumps(allow("sts:AssumeRole", "*", Principal=principal, without="Resource"))
        iam = self.client("iam")
        made = iam.create_role(RoleName=name, AssumeRolePolicyDocument=trust, MaxSessionDuration=43200)["Role"]
        iam.put_role_policy(RoleName=name, PolicyName="p", PolicyDocument=json.dumps(policy))
        return made

    def profile(self) -> None:
        iam = self.client("iam")
        iam.create_instance_profile(InstanceProfileName=MACHINE)
        iam.add_role_to_instance_profile(InstanceProfileName=MACHINE, RoleName=MACHINE)


def _client(url: str, service: str, region: str, key: Key | tuple[str, str]) -> Any:
    ident, secret, token = (key.id, key.secret, key.token) if isinstance(key, Key) else (*key, None)
    return boto3.client(
        service, region_name=region, endpoint_url=url, aws_access_key_id=ident, aws_secret_access_key=secret,
        aws_session_token=token, config=ONE_TRY,
    )  # fmt: skip


def question(**changed: Any) -> dict[str, Any]:
    base = {
        "ImageId": IMAGE, "InstanceType": "g5.xlarge", "MinCount": 1, "MaxCount": 1, "Placement": {"AvailabilityZone": ZONE},
    }  # fmt: skip
    return {name: value for name, value in (base | changed).items() if value is not None}


def spot(price: str | None = None) -> dict[str, Any]:
    return {"MarketType": "spot", "SpotOptions": {"MaxPrice": price} if price else {}}


def tagged(kind: str = "instance", **tags: str) -> list[dict[str, Any]]:
    return [{"ResourceType": kind, "Tags": [{"Key": f"frugald:{key}", "Value": value} for key, value in tags.items()]}]


def allow(action: Any, resource: Any = "*", without: str = "", **more: Any) -> dict[str, Any]:
    statement = {"Effect": "Allow", "Action": action, "Resource": resource, **more}
    statement.pop(without, None)
    return {"Version": "2012-10-17", "Statement": [statement]}


@contextmanager
def refused(code: str, status: int = 400) -> Iterator[None]:
    with pytest.raises(ClientError) as caught:
        yield
    answer = caught.value.response
    assert (answer["Error"]["Code"], answer["ResponseMetadata"]["HTTPStatusCode"]) == (code, status)


def eventually(true: Callable[[], Any], seconds: float = 10.0) -> None:
    clock = SystemClock()
    ends = clock.monotonic() + seconds
    while not true():
        assert clock.monotonic() < ends, "it has not come true"
        clock.wait(threading.Event(), 0.02)


@pytest.fixture(scope="module")
def whole() -> Iterator[Account]:
    clock = FakeClock()
    with AwsCloud(clock=clock) as cloud:
        yield Account(cloud, clock)


@pytest.fixture
def account(whole: Account) -> Account:
    whole.cloud.reset(keep_keys=True)
    return whole


# ---------------------------------------------------------------- who calls


def test_a_signed_call_is_answered_and_recorded_and_says_who_called(account: Account) -> None:
    assert account.client("sts").get_caller_identity()["Arn"].endswith(":user/admin")
    last = account.cloud.calls[-1]
    assert (last.service, last.action, last.code) == ("sts", "GetCallerIdentity", "")


@pytest.mark.parametrize(
    ("service", "call", "codes"),
    [
        ("ec2", lambda it: it.describe_instances(), {"id": ("AuthFailure", 401), "secret": ("AuthFailure", 401)}),
        ("s3", lambda it: it.list_objects_v2(Bucket="some-bucket"), {"id": ("InvalidAccessKeyId", 403), "secret": ("SignatureDoesNotMatch", 403)}),
        ("sts", lambda it: it.get_caller_identity(), {"id": ("InvalidClientTokenId", 403), "secret": ("SignatureDoesNotMatch", 403)}),
        ("pricing", lambda it: it.get_products(ServiceCode="AmazonEC2"), {"id": ("UnrecognizedClientException", 400), "secret": ("InvalidSignatureException", 400)}),
    ],
)  # fmt: skip
def test_a_wrong_key_is_refused_in_the_words_of_each_service(
    account: Account, service: str, call: Any, codes: Any
) -> None:
    ident, secret = account.cloud.key("somebody")
    with refused(*codes["id"]):
        call(account.client(service, key=("AKIANOBODY", secret)))
    with refused(*codes["secret"]):
        call(account.client(service, key=(ident, "wrong")))


def test_an_unsigned_call_is_refused_but_the_price_list_is_public(account: Account) -> None:
    assert ask(f"{account.cloud.url}/some-bucket/key", "GET", {})[0] == 403
    status, text = ask(f"{account.cloud.url}/offers/v1.0/aws/AmazonEC2/current/us-east-1/index.json", "GET", {})
    assert status == 200 and json.loads(text)["offerCode"] == "AmazonEC2"


def test_a_clock_that_is_more_than_five_minutes_wrong_is_refused_and_the_answer_tells_the_time(
    account: Account,
) -> None:
    account.cloud.skew = timedelta(minutes=4)
    account.ec2.describe_instances()
    account.cloud.skew = timedelta(minutes=6)
    with refused("RequestExpired"):
        account.ec2.describe_instances()
    account.cloud.skew = timedelta(minutes=16)
    with refused("RequestTimeTooSkewed", 403):
        account.client("s3").list_buckets()


def test_objects_with_difficult_names_go_through_boto3_and_obstore(account: Account, monkeypatch: Any) -> None:
    s3, name = account.client("s3"), "a b/c+d=é~(1)'%20.bin"
    s3.create_bucket(Bucket="some-bucket")
    s3.put_object(Bucket="some-bucket", Key=name, Body=b"\x00\xff" * 9000, Metadata={"note": "two  spaces"})
    assert s3.get_object(Bucket="some-bucket", Key=name)["Body"].read() == b"\x00\xff" * 9000
    account.cloud.use(monkeypatch, *account.cloud.key("store"))
    store = open_store("s3://some-bucket/prefix", {})
    store.put("x/y z+é.txt", b"hello")
    assert store.get("x/y z+é.txt") == b"hello"
    listed = s3.list_objects_v2(Bucket="some-bucket", Prefix="prefix/x/")["Contents"]
    assert len(listed) == 1


def test_a_large_file_goes_up_in_parts(account: Account, tmp_path: Path) -> None:
    s3 = account.client("s3")
    s3.create_bucket(Bucket="some-bucket")
    (tmp_path / "large").write_bytes(bytes(9 * 1024 * 1024))
    s3.upload_file(str(tmp_path / "large"), "some-bucket", "large")
    assert s3.head_object(Bucket="some-bucket", Key="large")["ContentLength"] == 9 * 1024 * 1024
    actions = [one.action for one in account.cloud.calls]
    assert {"CreateMultipartUpload", "UploadPart", "CompleteMultipartUpload"} <= set(actions)


# ---------------------------------------------------------------- launching


@pytest.mark.parametrize(
    ("changed", "code"),
    [
        ({"ImageId": "ami-0000000000000dead"}, "InvalidAMIID.NotFound"),
        ({"ImageId": "ubuntu"}, "InvalidAMIID.Malformed"),
        ({"ImageId": None}, "MissingParameter"),
        ({"InstanceType": "g99.xlarge"}, "InvalidParameterValue"),
        ({"InstanceType": "p4d.24xlarge"}, "Unsupported"),  # sold in other zones
        ({"InstanceType": "p3.2xlarge"}, "InvalidParameterValue"),  # priced, not sold
        ({"InstanceType": "g5g.xlarge"}, "InvalidParameterValue"),  # arm64
        ({"Placement": None, "SubnetId": "subnet-0dead"}, "InvalidSubnetID.NotFound"),
        ({"SecurityGroupIds": ["sg-0dead"]}, "InvalidGroup.NotFound"),
        ({"IamInstanceProfile": {"Name": "nobody"}}, "InvalidParameterValue"),
        ({"KeyName": "nobody"}, "InvalidKeyPair.NotFound"),
        ({"UserData": "x" * 16385}, "InvalidUserData.Malformed"),
        ({"ClientToken": "x" * 65}, "InvalidParameterValue"),
        ({"MinCount": 2}, "InvalidParameterValue"),
        ({"TagSpecifications": [{"ResourceType": "instance", "Tags": [{"Key": "aws:x", "Value": ""}]}]}, "InvalidParameterValue"),
        ({"TagSpecifications": tagged("spot-instances-request", owner="me")}, "InvalidParameterValue"),
        ({"InstanceMarketOptions": spot("0.001")}, "InvalidParameterValue"),
        ({"InstanceMarketOptions": spot("0.0011")}, "SpotMaxPriceTooLow"),
        ({"MetadataOptions": {"HttpPutResponseHopLimit": 65}}, "InvalidParameterValue"),
        ({"BlockDeviceMappings": [{"DeviceName": "/dev/sda1", "Ebs": {"VolumeSize": 8}}]}, "InvalidBlockDeviceMapping"),
    ],
)  # fmt: skip
def test_a_launch_that_aws_would_refuse_is_refused_and_launches_nothing(
    account: Account, changed: Any, code: str
) -> None:
    with refused(code):
        account.launch(**changed)
    assert account.cloud.ec2.instances == {}


def test_a_launch_with_everything_is_shown_as_it_was_asked(account: Account) -> None:
    account.role(MACHINE, allow("s3:GetObject"), "ec2.amazonaws.com")
    account.profile()
    ident = account.launch(
        UserData="#!/bin/sh\n" + "x" * 16373, InstanceMarketOptions=spot("1.5"), IamInstanceProfile={"Name": MACHINE},
        MetadataOptions={"HttpTokens": "required", "HttpPutResponseHopLimit": 2, "InstanceMetadataTags": "enabled"},
        InstanceInitiatedShutdownBehavior="terminate", ClientToken="t" * 64,
        BlockDeviceMappings=[{"DeviceName": "/dev/sda1", "Ebs": {"VolumeSize": 200, "VolumeType": "gp3", "Encrypted": True}}],
        TagSpecifications=[*tagged(owner="me", job="j1"), *tagged("volume", job="j1"), *tagged("spot-instances-request", job="j1")],
    )  # fmt: skip
    shown = account.shown(ident)
    assert shown["State"]["Name"] == "running" and shown["Placement"]["AvailabilityZone"] == ZONE
    assert shown["InstanceLifecycle"] == "spot" and shown["ClientToken"] == "t" * 64
    assert {"Key": "frugald:job", "Value": "j1"} in shown["Tags"] and shown["IamInstanceProfile"]["Arn"].endswith(
        MACHINE
    )
    assert shown["MetadataOptions"]["HttpPutResponseHopLimit"] == 2
    request = account.request(ident)
    assert (request["Status"]["Code"], request["SpotPrice"]) == ("fulfilled", "1.5")
    assert request["SpotInstanceRequestId"] == shown["SpotInstanceRequestId"]
    volume = account.ec2.describe_volumes(Filters=[{"Name": "tag:frugald:job", "Values": ["j1"]}])["Volumes"][0]
    assert volume["Size"] == 200 and volume["Attachments"][0]["InstanceId"] == ident
    asked = account.ec2.describe_instance_attribute(InstanceId=ident, Attribute="userData")["UserData"]["Value"]
    assert len(base64.b64decode(asked)) == 16 * 1024 - 1


def test_one_token_is_one_machine_per_zone_and_only_for_the_same_question(account: Account) -> None:
    first = account.launch(ClientToken="one")
    assert account.launch(ClientToken="one") == first
    elsewhere = account.launch(ClientToken="one", Placement={"AvailabilityZone": "us-east-1a"})
    assert elsewhere != first
    with refused("IdempotentParameterMismatch"):
        account.launch(ClientToken="one", InstanceType="g6.xlarge")
    account.ec2.terminate_instances(InstanceIds=[first])
    with refused("IdempotentInstanceTerminated"):
        account.launch(ClientToken="one")
    found = account.ec2.describe_instances(Filters=[{"Name": "client-token", "Values": ["one"]}])["Reservations"]
    assert {one["Instances"][0]["InstanceId"] for one in found} == {first, elsewhere}


def test_a_subnet_makes_a_token_zonal_too_and_regions_share_none(account: Account) -> None:
    subnets = {one["AvailabilityZone"]: one["SubnetId"] for one in account.ec2.describe_subnets()["Subnets"]}
    token: dict[str, Any] = {"Placement": None, "ClientToken": "one"}
    first, second = (account.launch(SubnetId=subnets[zone], **token) for zone in ("us-east-1a", "us-east-1b"))
    assert first != second
    west = account.client("ec2", "us-west-2")
    image = parameters("us-west-2")[AwsSettings().image]
    west.run_instances(**question(ImageId=image, Placement=None, ClientToken="one"))
    assert len(account.cloud.ec2.instances) == 3


def test_as_many_are_launched_as_there_is_room_for_between_min_and_max(account: Account) -> None:
    account.cloud.restock("g5.xlarge", ZONE, Market.ON_DEMAND, 3)
    many = account.ec2.run_instances(**question(MinCount=2, MaxCount=5))["Instances"]
    assert len(many) == 3
    with refused("InsufficientInstanceCapacity", 500):
        account.launch()
    account.cloud.restock("g5.xlarge", ZONE, Market.ON_DEMAND)
    assert len(account.ec2.run_instances(**question(MinCount=1, MaxCount=4))["Instances"]) == 4


def test_a_pool_is_sold_out_as_often_as_wanted_and_others_are_not(account: Account) -> None:
    account.cloud.sell_out("g5.xlarge", ZONE, Market.SPOT, times=2)
    for _ in range(2):
        with refused("InsufficientInstanceCapacity", 500):
            account.launch(InstanceMarketOptions=spot(), ClientToken="one")
    account.launch(InstanceMarketOptions=spot(), ClientToken="one")
    account.cloud.sell_out("g5.xlarge", ZONE, Market.ON_DEMAND)
    with refused("InsufficientInstanceCapacity", 500):
        account.launch()
    account.launch(Placement={"AvailabilityZone": "us-east-1a"})


def test_quotas_count_vcpus_by_family_and_market_until_machines_are_terminated(account: Account) -> None:
    account.cloud.timing.ends_in = timedelta(seconds=30)
    account.cloud.catalogue.quota("L-3819A6DF", 8)
    account.cloud.catalogue.quota("L-DB2E81BA", 4)
    first = account.launch(InstanceMarketOptions=spot())
    account.launch(InstanceMarketOptions=spot(), InstanceType="g6.xlarge")
    with refused("MaxSpotInstanceCountExceeded"):
        account.launch(InstanceMarketOptions=spot())
    account.launch()
    with refused("VcpuLimitExceeded"):
        account.launch()
    account.ec2.terminate_instances(InstanceIds=[first])
    with refused("MaxSpotInstanceCountExceeded"):
        account.launch(InstanceMarketOptions=spot())
    account.clock.advance(30)
    account.launch(InstanceMarketOptions=spot())
    running = account.cloud.ec2.instances.values()
    assert vcpus(running, "us-east-1", "L-3819A6DF", account.clock.now()) == 8


def test_an_owned_reservation_is_filled_freed_and_costs_nothing_more(account: Account) -> None:
    owned = account.cloud.catalogue.own_reservation("g5.xlarge", ZONE, 1, 1, InstanceMatchCriteria="targeted")
    target: dict[str, Any] = {
        "CapacityReservationSpecification": {"CapacityReservationTarget": {"CapacityReservationId": owned}}
    }
    first = account.launch(**target)
    assert account.shown(first)["CapacityReservationId"] == owned
    with refused("ReservationCapacityExceeded"):
        account.launch(**target)
    account.ec2.terminate_instances(InstanceIds=[first])
    account.launch(**target)
    assert [line.instance_micro for line in account.cloud.bill()] == [0, 0]
    with refused("InvalidCapacityReservationId.NotFound"):
        account.launch(
            CapacityReservationSpecification={"CapacityReservationTarget": {"CapacityReservationId": "cr-0"}}
        )


def test_an_open_reservation_takes_ordinary_launches_first(account: Account) -> None:
    owned = account.cloud.catalogue.own_reservation("g5.xlarge", ZONE, 1, 1)
    assert [account.shown(account.launch()).get("CapacityReservationId") for _ in range(2)] == [owned, None]
    with refused("ReservationCapacityExceeded"):
        account.launch(CapacityReservationSpecification={"CapacityReservationPreference": "capacity-reservations-only"})


def test_a_capacity_block_is_launched_by_its_id_until_half_an_hour_before_its_end(account: Account) -> None:
    ends = account.clock.now() + timedelta(hours=2)
    owned = account.cloud.catalogue.own_block("p5.48xlarge", ZONE, 2, 2, ends)
    block: dict[str, Any] = {"InstanceType": "p5.48xlarge", "InstanceMarketOptions": {"MarketType": "capacity-block"}}
    with refused("InvalidParameterCombination"):
        account.launch(**block)
    block["CapacityReservationSpecification"] = {"CapacityReservationTarget": {"CapacityReservationId": owned}}
    assert account.shown(account.launch(**block))["InstanceLifecycle"] == "capacity-block"
    account.clock.advance(timedelta(minutes=91))
    with refused("ReservationCapacityExceeded"):
        account.launch(**block)


def test_a_parameter_that_ec2_does_not_know_is_refused(account: Account) -> None:
    with refused("InvalidParameterValue"):
        account.ec2.describe_instances(Filters=[{"Name": "colour", "Values": ["red"]}])
    with refused("InvalidParameterCombination"):
        account.ec2.describe_instances(InstanceIds=[account.launch()], MaxResults=5)


# ---------------------------------------------------------------- living and ending


def test_a_machine_boots_runs_and_ends_over_time_and_is_forgotten_after_an_hour(account: Account) -> None:
    account.cloud.timing.boots_in, account.cloud.timing.ends_in = 40 * SECOND, 20 * SECOND
    ident = account.launch()
    states = [account.shown(ident)["State"]["Name"]]
    account.clock.advance(40)
    states.append(account.shown(ident)["State"]["Name"])
    ended = account.clock.now()
    account.ec2.terminate_instances(InstanceIds=[ident])
    account.ec2.terminate_instances(InstanceIds=[ident])
    states.append(account.shown(ident)["State"]["Name"])
    account.clock.advance(20)
    last = account.shown(ident)
    assert [*states, last["State"]["Name"]] == ["pending", "running", "shutting-down", "terminated"]
    assert last["StateReason"]["Code"] == "Client.UserInitiatedShutdown"
    assert last["StateTransitionReason"] == f"User initiated ({ended:%Y-%m-%d %H:%M:%S} GMT)"
    account.clock.advance(3600)
    with refused("InvalidInstanceID.NotFound"):
        account.shown(ident)
    assert account.ec2.describe_instances()["Reservations"] == []


def test_a_new_machine_may_be_missing_from_listings_for_a_while(account: Account) -> None:
    account.cloud.timing.visible_after = 5 * SECOND
    ident = account.launch(ClientToken="one")
    with refused("InvalidInstanceID.NotFound"):
        account.shown(ident)
    with refused("InvalidInstanceID.NotFound"):
        account.ec2.terminate_instances(InstanceIds=[ident])
    assert account.ec2.describe_instances()["Reservations"] == []
    assert account.launch(ClientToken="one") == ident
    account.clock.advance(5)
    assert account.shown(ident)["InstanceId"] == ident


def test_listings_are_filtered_paged_and_one_unknown_id_fails_them(account: Account) -> None:
    idents = [account.launch(TagSpecifications=tagged(job=f"j{number % 2}")) for number in range(7)]
    paid = account.launch(InstanceMarketOptions=spot())
    pages = list(account.ec2.get_paginator("describe_instances").paginate(PaginationConfig={"PageSize": 5}))
    assert [len(page["Reservations"]) for page in pages] == [5, 3]

    def found(name: str, *values: str) -> set[str]:
        answer = account.ec2.describe_instances(Filters=[{"Name": name, "Values": list(values)}])
        return {one["InstanceId"] for item in answer["Reservations"] for one in item["Instances"]}

    assert found("tag:frugald:job", "j1") == set(idents[1::2]) and found("tag-key", "frugald:*") == set(idents)
    assert found("instance-lifecycle", "spot") == {paid} == found("instance-id", paid, "i-0dead")
    assert found("spot-instance-request-id", account.request(paid)["SpotInstanceRequestId"]) == {paid}
    assert found("instance-state-name", "terminated") == set()
    with refused("InvalidInstanceID.NotFound"):
        account.ec2.terminate_instances(InstanceIds=[idents[0], "i-0123456789abcdef0"])
    assert account.shown(idents[0])["State"]["Name"] == "running"


def test_a_machine_that_fails_while_it_boots_ends_without_a_bill(account: Account) -> None:
    account.cloud.timing.boots_in = 40 * SECOND
    ident = account.launch()
    account.cloud.kill(ident, "Server.InsufficientInstanceCapacity")
    shown = account.shown(ident)
    assert (shown["State"]["Name"], shown["StateReason"]["Code"]) == (
        "terminated",
        "Server.InsufficientInstanceCapacity",
    )
    account.clock.advance(3000)
    assert account.cloud.bill() == []


def test_the_status_of_a_spot_request_tells_who_ended_the_machine(account: Account) -> None:
    ident = account.launch(InstanceMarketOptions=spot())
    account.ec2.terminate_instances(InstanceIds=[ident])
    request = account.request(ident)
    assert (request["State"], request["Status"]["Code"]) == ("closed", "instance-terminated-by-user")


# ---------------------------------------------------------------- what goes wrong


def test_a_lost_answer_has_had_its_effect_and_the_token_finds_it(account: Account) -> None:
    account.cloud.lose_answers(1)
    account.cloud.sell_out("g5.xlarge", ZONE, Market.ON_DEMAND, times=1)
    with refused("InsufficientInstanceCapacity", 500):  # without effect, so not the answer that is lost
        account.launch(ClientToken="one")
    with pytest.raises(ConnectionClosedError):
        account.launch(ClientToken="one")
    assert account.launch(ClientToken="one") in account.cloud.ec2.instances
    assert len(account.cloud.ec2.instances) == 1


def test_throttling_says_so_in_each_services_words_and_ends(account: Account) -> None:
    account.cloud.throttle(2)
    with refused("RequestLimitExceeded", 503):
        account.ec2.describe_instances()
    with refused("ThrottlingException"):
        account.client("ssm").get_parameter(Name=AwsSettings().image)
    account.ec2.describe_instances()


def test_a_fault_may_befall_one_key_action_or_region_only(account: Account) -> None:
    unlucky = account.client("ec2", key=account.cloud.key("unlucky", faults=[Fault("", "Unavailable", 503)]))
    with refused("Unavailable", 503):
        unlucky.describe_instances()
    account.cloud.fail("DescribeInstances", "InternalError", 500, region="us-west-2")
    account.ec2.describe_instances()
    with refused("InternalError", 500):
        account.client("ec2", "us-west-2").describe_instances()


def test_the_image_is_found_by_its_parameter_unless_it_is_taken_away(account: Account) -> None:
    ssm = account.client("ssm")
    ident = ssm.get_parameter(Name=AwsSettings().image)["Parameter"]["Value"]
    image = account.ec2.describe_images(ImageIds=[ident])["Images"][0]
    assert image["Name"].startswith("Deep Learning Base OSS Nvidia Driver GPU AMI (Ubuntu 24.04)")
    assert image["BlockDeviceMappings"][0]["DeviceName"] == image["RootDeviceName"]
    account.cloud.hidden.add(AwsSettings().image)
    with refused("ParameterNotFound"):
        ssm.get_parameter(Name=AwsSettings().image)
    named = [{"Name": "name", "Values": ["Deep Learning Base OSS Nvidia Driver GPU AMI (Ubuntu 24.04)*"]}]
    found = account.ec2.describe_images(Owners=["amazon"], Filters=named)["Images"]
    assert max(found, key=lambda one: str(one["CreationDate"]))["ImageId"] == ident and len(found) == 2


# ---------------------------------------------------------------- interruptions


def test_each_channel_tells_of_an_interruption_alone(account: Account) -> None:
    queue = account.client("sqs").create_queue(QueueName="notices")["QueueUrl"]
    account.cloud.event_queue = "notices"
    idents = {name: account.launch(InstanceMarketOptions=spot()) for name in ("status", "events", "imds")}
    for name, ident in idents.items():
        account.cloud.interrupt(ident, timedelta(minutes=2), {name})
    states = {name: account.request(ident)["Status"]["Code"] for name, ident in idents.items()}
    assert states == {"status": "instance-terminated-no-capacity", "events": "fulfilled", "imds": "fulfilled"}
    told = account.client("sqs").receive_message(QueueUrl=queue, MaxNumberOfMessages=10)["Messages"]
    assert [json.loads(one["Body"])["detail"]["instance-id"] for one in told] == [idents["events"]]
    seen = {name: imds(account, ident, "spot/instance-action")[0] for name, ident in idents.items()}
    assert seen == {"status": 404, "events": 404, "imds": 200}
    assert all(account.shown(ident)["State"]["Name"] == "running" for ident in idents.values())


def test_the_status_is_dated_two_minutes_before_the_end_and_then_the_machine_dies(account: Account) -> None:
    ident = account.launch(InstanceMarketOptions=spot())
    dies = account.cloud.interrupt(ident, timedelta(seconds=7))
    request = account.request(ident)
    assert request["Status"]["UpdateTime"] == dies - timedelta(seconds=120)
    assert json.loads(imds(account, ident, "spot/instance-action")[1]) == {
        "action": "terminate",
        "time": f"{dies:%FT%TZ}",
    }
    account.clock.advance(7)
    shown = account.shown(ident)
    assert (shown["State"]["Name"], shown["StateReason"]["Code"]) == ("terminated", "Server.SpotInstanceTermination")
    assert account.request(ident)["Status"]["Code"] == "instance-terminated-no-capacity"


def test_a_rule_puts_what_it_matches_into_its_queue(account: Account) -> None:
    sqs, events = account.client("sqs"), account.client("events")
    queue = sqs.create_queue(QueueName="notices")["QueueUrl"]
    kinds = ["EC2 Spot Instance Interruption Warning", "EC2 Instance Rebalance Recommendation"]
    events.put_rule(Name="frugald", EventPattern=json.dumps({"source": ["aws.ec2"], "detail-type": kinds[:1]}))
    events.put_targets(Rule="frugald", Targets=[{"Id": "1", "Arn": "arn:aws:sqs:us-east-1:123456789012:notices"}])
    ident = account.launch(InstanceMarketOptions=spot())
    account.cloud.recommend_rebalance(ident)
    account.cloud.interrupt(ident)
    told = [json.loads(one["Body"]) for one in sqs.receive_message(QueueUrl=queue, MaxNumberOfMessages=10)["Messages"]]
    assert [one["detail-type"] for one in told] == kinds[:1]
    assert (
        told[0]["detail"] == {"instance-id": ident, "instance-action": "terminate"} and told[0]["source"] == "aws.ec2"
    )
    assert imds(account, ident, "events/recommendations/rebalance")[0] == 200


# ---------------------------------------------------------------- the metadata server


def imds(account: Account, ident: str, name: str, token: str = "") -> tuple[int, str]:
    url = account.cloud.imds(ident).url
    if not token:
        lasts = {"X-aws-ec2-metadata-token-ttl-seconds": "60"}
        _, token = ask(f"{url}/latest/api/token", "PUT", lasts)
    return ask(f"{url}/latest/meta-data/{name}", "GET", {"X-aws-ec2-metadata-token": token})


def ask(url: str, method: str, headers: dict[str, str]) -> tuple[int, str]:
    answer = httpx.request(method, url, headers=headers, trust_env=False)
    return answer.status_code, answer.text


def test_the_metadata_server_wants_a_token_and_knows_the_machine(account: Account) -> None:
    options = {"InstanceMetadataTags": "enabled"}
    ident = account.launch(TagSpecifications=tagged(job="j1"), MetadataOptions=options)
    assert imds(account, ident, "instance-id") == (200, ident)
    assert imds(account, ident, "placement/region") == (200, "us-east-1")
    assert imds(account, ident, "tags/instance/frugald:job") == (200, "j1")
    assert imds(account, ident, "instance-id", token="wrong")[0] == 401
    assert imds(account, ident, "iam/info")[0] == 404
    assert ask(f"{account.cloud.imds(ident).url}/latest/api/token", "PUT", {})[0] == 400
    assert imds(account, account.launch(TagSpecifications=tagged(job="j1")), "tags/instance/frugald:job")[0] == 404


def test_a_machine_reads_only_its_own_grant_with_the_keys_of_its_role(account: Account) -> None:
    s3 = account.client("s3")
    s3.create_bucket(Bucket="some-bucket")
    role = account.role(
        MACHINE, allow("s3:GetObject", "arn:aws:s3:::some-bucket/keys/${aws:userid}/*"), "ec2.amazonaws.com"
    )
    account.profile()
    mine, other = (account.launch(IamInstanceProfile={"Name": MACHINE}) for _ in range(2))
    for ident in (mine, other):
        s3.put_object(Bucket="some-bucket", Key=f"keys/{role['RoleId']}:{ident}/store.json", Body=b"{}")
    assert imds(account, mine, "iam/security-credentials/") == (200, MACHINE)
    given = json.loads(imds(account, mine, f"iam/security-credentials/{MACHINE}")[1])
    key = account.cloud.keys[given["AccessKeyId"]]
    machine = account.client("s3", key=key)
    assert machine.get_object(Bucket="some-bucket", Key=f"keys/{role['RoleId']}:{mine}/store.json")
    with refused("AccessDenied", 403):
        machine.get_object(Bucket="some-bucket", Key=f"keys/{role['RoleId']}:{other}/store.json")
    with refused("AccessDenied", 403):  # S3 doesn't tell whoever can't list that a key is missing
        machine.get_object(Bucket="some-bucket", Key=f"keys/{role['RoleId']}:{mine}/nothing")


# ---------------------------------------------------------------- the bill


def test_an_hour_on_demand_costs_the_machine_its_disk_and_its_address(account: Account) -> None:
    account.cloud.timing.boots_in = 30 * SECOND
    ident = account.launch(TagSpecifications=tagged(job="j1"))
    account.clock.advance(30 + 3600)
    account.ec2.terminate_instances(InstanceIds=[ident])
    account.clock.advance(7200)
    (line,) = account.cloud.bill()
    assert (line.instance, line.tags["frugald:job"], line.seconds, line.instance_micro) == (
        ident,
        "j1",
        3600,
        1_006_000,
    )
    assert line.billed_until - line.billed_from == timedelta(hours=1)
    assert line.address_micro == 5000
    assert line.disk_micro == round(Decimal("0.08") / 730 * 75 * 3630 / 3600 * 1_000_000)


def test_a_minute_is_the_least_that_is_billed(account: Account) -> None:
    ident = account.launch()
    account.clock.advance(5)
    account.ec2.terminate_instances(InstanceIds=[ident])
    (line,) = account.cloud.bill()
    assert line.seconds == 60 and line.instance_micro == round(1_006_000 / 60)


def test_spot_is_billed_by_the_price_of_each_moment(account: Account) -> None:
    now = account.clock.now()
    steps = [(now - timedelta(days=1), "0.40"), (now + timedelta(minutes=30), "0.60")]
    account.cloud.catalogue.spot("g5.xlarge", ZONE, steps)
    ident = account.launch(InstanceMarketOptions=spot())
    account.clock.advance(5400)
    account.ec2.terminate_instances(InstanceIds=[ident])
    (line,) = account.cloud.bill()
    assert line.instance_micro == 200_000 + 600_000 and not line.credited


def test_what_aws_takes_within_the_first_hour_is_free_and_later_is_not(account: Account) -> None:
    account.cloud.catalogue.spot("g5.xlarge", ZONE, [(account.clock.now(), "0.40")])
    early, late = (account.launch(InstanceMarketOptions=spot()) for _ in range(2))
    account.clock.advance(1800)
    account.cloud.interrupt(early, timedelta(0))
    account.clock.advance(1800)
    account.cloud.interrupt(late, timedelta(0))
    lines = {one.instance: one for one in account.cloud.bill()}
    assert (lines[early].instance_micro, lines[early].credited) == (0, True) and lines[early].disk_micro > 0
    assert (lines[late].instance_micro, lines[late].credited) == (400_000, False)


def test_a_reserved_instance_pays_for_as_many_machines_as_were_reserved(account: Account) -> None:
    now = account.clock.now()
    account.cloud.catalogue.own_reserved("g5.xlarge", 1, now - timedelta(days=9), now + timedelta(days=9))
    for _ in range(2):
        account.launch()
    account.clock.advance(3600)
    assert [line.instance_micro for line in account.cloud.bill()] == [0, 1_006_000]


def test_cost_explorer_shows_the_bill_by_day_and_by_the_tags_that_are_activated(account: Account) -> None:
    ce, start = account.client("ce"), account.clock.now().date()
    ident = account.launch(TagSpecifications=tagged(machine="m1"))
    account.launch()
    account.clock.advance(timedelta(hours=24))
    account.ec2.terminate_instances(InstanceIds=[ident])

    def groups() -> list[dict[str, int]]:
        answer = ce.get_cost_and_usage(
            TimePeriod={"Start": f"{start}", "End": f"{start + timedelta(days=2)}"}, Granularity="DAILY",
            Metrics=["UnblendedCost"], GroupBy=[{"Type": "TAG", "Key": "frugald:machine"}],
        )  # fmt: skip
        return [
            {one["Keys"][0]: round(float(one["Metrics"]["UnblendedCost"]["Amount"]) * 1e6) for one in day["Groups"]}
            for day in answer["ResultsByTime"]
        ]

    assert [set(day) for day in groups()] == [{"frugald:machine$"}] * 2
    status = [{"TagKey": "frugald:machine", "Status": "Active"}]
    assert ce.update_cost_allocation_tags_status(CostAllocationTagsStatus=status)["Errors"] == []
    billed = next(line.micro for line in account.cloud.bill() if line.instance == ident)
    assert abs(sum(day["frugald:machine$m1"] for day in groups()) - billed) <= 2
    with refused("ValidationException"):
        ce.get_cost_and_usage(TimePeriod={"Start": "x", "End": "y"}, Granularity="DAILY", Metrics=["UnblendedCost"])


# ---------------------------------------------------------------- policies


def test_a_policy_lets_only_tagged_machines_be_made_and_ended(account: Account) -> None:
    policy = allow("ec2:Describe*")
    runs: Any = {"Null": {"aws:RequestTag/frugald:owner": "false"}}
    base = "arn:aws:ec2:*:123456789012:"
    made = [f"{base}instance/*", f"{base}volume/*"]
    other = [f"{base}{kind}/*" for kind in ("network-interface", "security-group", "subnet")]
    policy["Statement"] += [
        *allow("ec2:RunInstances", made, Condition=runs)["Statement"],
        *allow("ec2:RunInstances", [*other, "arn:aws:ec2:*::image/*"])["Statement"],
        *allow("ec2:CreateTags", made, Condition={"StringEquals": {"ec2:CreateAction": "RunInstances"}})["Statement"],
        *allow("ec2:TerminateInstances", made, Condition={"StringEquals": {"aws:ResourceTag/frugald:owner": "me"}})[
            "Statement"
        ],
    ]
    daemon = account.client("ec2", key=account.cloud.key("daemon", policy))
    tags = [*tagged(owner="me"), *tagged("volume", owner="me")]
    ident = daemon.run_instances(**question(TagSpecifications=tags))["Instances"][0]["InstanceId"]
    with refused("UnauthorizedOperation", 403):
        daemon.run_instances(**question(TagSpecifications=tags[:1]))
    with refused("UnauthorizedOperation", 403):
        daemon.create_tags(Resources=[ident], Tags=[{"Key": "frugald:owner", "Value": "you"}])
    stranger = account.launch(TagSpecifications=tagged(owner="you"))
    with refused("UnauthorizedOperation", 403):
        daemon.terminate_instances(InstanceIds=[stranger])
    daemon.terminate_instances(InstanceIds=[ident])
    assert account.cloud.calls[-1].needs[0].action == "ec2:TerminateInstances"


def test_a_dry_run_says_whether_it_would_be_allowed_and_does_nothing(account: Account) -> None:
    with refused("DryRunOperation", 412):
        account.launch(DryRun=True)
    reader = account.client("ec2", key=account.cloud.key("reader", allow("ec2:Describe*")))
    with refused("UnauthorizedOperation", 403):
        reader.run_instances(**question(DryRun=True))
    assert account.cloud.ec2.instances == {}


def test_spot_needs_its_role_or_the_permission_to_make_it(account: Account) -> None:
    daemon = account.client("ec2", key=account.cloud.key("daemon", allow("ec2:*")))
    with refused("AuthFailure.ServiceLinkedRoleCreationNotPermitted", 403):
        daemon.run_instances(**question(InstanceMarketOptions=spot()))
    account.launch(InstanceMarketOptions=spot())
    daemon.run_instances(**question(InstanceMarketOptions=spot()))


def test_passing_a_role_on_needs_a_permission_of_its_own(account: Account) -> None:
    account.role(MACHINE, allow("s3:GetObject"), "ec2.amazonaws.com")
    account.profile()
    profile = {"IamInstanceProfile": {"Name": MACHINE}}
    with refused("UnauthorizedOperation", 403):
        account.client("ec2", key=account.cloud.key("a", allow("ec2:*"))).run_instances(**question(**profile))
    passes = {"StringEquals": {"iam:PassedToService": "ec2.amazonaws.com"}}
    policy = allow("ec2:*")
    policy["Statement"] += allow("iam:PassRole", f"arn:aws:iam::123456789012:role/{MACHINE}", Condition=passes)[
        "Statement"
    ]
    account.client("ec2", key=account.cloud.key("b", policy)).run_instances(**question(**profile))


def test_a_role_taken_on_may_do_what_both_policies_allow_until_it_expires(account: Account) -> None:
    s3 = account.client("s3")
    s3.create_bucket(Bucket="some-bucket")
    objects = "arn:aws:s3:::some-bucket"
    policy = allow(["s3:GetObject", "s3:PutObject"], f"{objects}/*")
    policy["Statement"] += allow("s3:ListBucket", objects, Condition={"StringLike": {"s3:prefix": "jobs/*"}})[
        "Statement"
    ]
    arn = account.role("frugald-job", policy)["Arn"]
    session = allow("s3:*", [f"{objects}/jobs/j1/*", objects])
    asked = {"RoleArn": arn, "RoleSessionName": "m1", "Policy": json.dumps(session), "DurationSeconds": 43200}
    given = account.client("sts").assume_role(**asked)["Credentials"]
    job = account.client("s3", key=account.cloud.keys[given["AccessKeyId"]])
    job.put_object(Bucket="some-bucket", Key="jobs/j1/a", Body=b"a")
    assert job.list_objects_v2(Bucket="some-bucket", Prefix="jobs/j1/")["KeyCount"] == 1
    for denied in (
        lambda: job.put_object(Bucket="some-bucket", Key="jobs/j2/a", Body=b"a"),
        lambda: job.delete_object(Bucket="some-bucket", Key="jobs/j1/a"),
        lambda: job.list_objects_v2(Bucket="some-bucket", Prefix="other/"),
    ):
        with refused("AccessDenied", 403):
            denied()
    account.clock.advance(timedelta(hours=12))
    with refused("ExpiredToken"):
        job.get_object(Bucket="some-bucket", Key="jobs/j1/a")


def test_roles_are_taken_on_only_by_whom_they_trust_and_not_for_too_long(account: Account) -> None:
    arn = account.role("frugald-job", allow("s3:*"))["Arn"]
    account.role("for-machines", allow("s3:*"), "ec2.amazonaws.com")
    sts = account.client("sts")
    with refused("AccessDenied", 403):
        sts.assume_role(RoleArn=arn.replace("frugald-job", "for-machines"), RoleSessionName="m1")
    with refused("AccessDenied", 403):
        account.client("sts", key=account.cloud.key("a", allow("ec2:*"))).assume_role(RoleArn=arn, RoleSessionName="m1")
    with refused("ValidationError"):
        sts.assume_role(RoleArn=arn, RoleSessionName="m1", DurationSeconds=43201)
    given = sts.assume_role(RoleArn=arn, RoleSessionName="m1")["Credentials"]
    chained = account.client("sts", key=account.cloud.keys[given["AccessKeyId"]])
    assert chained.get_caller_identity()["Arn"].endswith(":assumed-role/frugald-job/m1")


# ---------------------------------------------------------------- guests


@pytest.fixture
def hosting(tmp_path: Path) -> Iterator[Account]:
    with AwsCloud(guests=tmp_path, minute=timedelta(seconds=1)) as cloud:
        yield Account(cloud, FakeClock(datetime(2026, 1, 1, tzinfo=UTC)))
    assert not any(running_marked(ident) for ident in cloud.ec2.instances)


def running_marked(ident: str) -> list[Any]:
    from tests.clouds.guests import running

    return running(ident)


def test_a_guest_runs_its_user_data_and_finds_its_cloud_but_not_this_project(hosting: Account, tmp_path: Path) -> None:
    script = (
        "#!/bin/bash\necho $AWS_REGION $HOME\npython3 -c 'import sys, numpy; print(numpy.__name__)'\n"
        "python3 -c 'import config' 2>&1 | tail -1\n"
        'T=$(python3 -c \'import os,urllib.request as u; e=os.environ["AWS_EC2_METADATA_SERVICE_ENDPOINT"]; '
        't=u.urlopen(u.Request(e+"/latest/api/token",method="PUT",headers={"X-aws-ec2-metadata-token-ttl-seconds":"9"})).read().decode(); '
        'print(u.urlopen(u.Request(e+"/latest/meta-data/instance-id",headers={"X-aws-ec2-metadata-token":t})).read().decode())\')\n'
        'echo "I am $T"\n'
    )
    ident = hosting.launch(UserData=script)
    guests = hosting.cloud.guests
    assert guests is not None
    eventually(lambda: (tmp_path / ident / "console.log").exists() and "I am" in guests.console(ident))
    lines = guests.console(ident).splitlines()
    assert lines == [
        f"us-east-1 {tmp_path / ident}/home",
        "numpy",
        "ModuleNotFoundError: No module named 'config'",
        f"I am {ident}",
    ]
    assert hosting.shown(ident)["State"]["Name"] == "running"


def test_shutdown_ends_the_machine_at_its_time_or_stops_it_as_was_chosen(hosting: Account) -> None:
    ends = hosting.launch(
        UserData="#!/bin/sh\nshutdown -h +1\nexec sleep 60\n", InstanceInitiatedShutdownBehavior="terminate"
    )
    stops = hosting.launch(UserData="#!/bin/sh\nshutdown -h now\n")
    stays = hosting.launch(
        UserData="#!/bin/sh\nshutdown -h +1; shutdown -c\n", InstanceInitiatedShutdownBehavior="terminate"
    )
    eventually(lambda: hosting.shown(ends)["State"]["Name"] == "terminated")
    assert hosting.shown(ends)["StateReason"]["Code"] == "Client.InstanceInitiatedShutdown"
    assert hosting.shown(stops)["State"]["Name"] == "stopped" and hosting.shown(stays)["State"]["Name"] == "running"
    eventually(lambda: not running_marked(ends))


def test_nothing_of_a_guest_outlives_its_machine(hosting: Account) -> None:
    stubborn = "trap '' TERM; echo up; while :; do sleep 1; done"
    ident = hosting.launch(
        UserData=f'#!/bin/bash\nsystemd-run --unit=x bash -c "{stubborn}"\nsetsid env -i /bin/sleep 70 &\n'
    )
    eventually(lambda: len(running_marked(ident)) >= 3)
    hosting.ec2.terminate_instances(InstanceIds=[ident])
    eventually(lambda: not running_marked(ident))


def test_a_guest_reaches_its_bucket_with_the_keys_of_its_machine(hosting: Account) -> None:
    s3 = hosting.client("s3")
    s3.create_bucket(Bucket="some-bucket")
    s3.put_object(Bucket="some-bucket", Key="agents/one", Body=b"the agent")
    hosting.role(MACHINE, allow("s3:GetObject", "arn:aws:s3:::some-bucket/agents/*"), "ec2.amazonaws.com")
    hosting.profile()
    get = "boto3.client('s3').get_object(Bucket='some-bucket', Key='agents/one')['Body'].read()"
    script = f'#!/bin/bash\npython3 -c "import boto3; print({get})"\n'
    ident = hosting.launch(UserData=script, IamInstanceProfile={"Name": MACHINE})
    eventually(lambda: "the agent" in said(hosting, ident), 20)


def said(account: Account, ident: str) -> str:
    guests = account.cloud.guests
    assert guests is not None
    return guests.console(ident) if (guests.folder / ident / "console.log").exists() else ""
