"""AWS's machines over its wire protocols, against the stand-in: real signatures, retries and pages."""

import re
from base64 import b64decode
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import timedelta

import pytest

from config.aws_settings import AwsSettings
from pricing.aws.clients import Clients
from runner.bootstrap import user_data
from runner.provider import LaunchRequest
from runner.providers.aws import AwsCloud
from tests.clouds.aws import AwsCloud as StandIn
from tests.clouds.faults import Fault
from tests.clouds.keys import Key
from tests.contracts.provider import CloudContract, CloudWorld
from tests.fakes.clock import FakeClock
from tests.pricing.offers import GIB, offer

SETTINGS = AwsSettings(regions=("us-east-1", "eu-west-1"))
OFFER = offer(type="g6.xlarge", family="G")
LAG = timedelta(seconds=5)


FAULTS = {
    "me": [], "somebody else": [], "late": [], "lossy": [Fault("RunInstances", lost=True)], "throttled": [Fault(code="throttled")],
    "sold out": [Fault("RunInstances", "InsufficientInstanceCapacity", 500)],
    "small quota": [Fault("RunInstances", "MaxSpotInstanceCountExceeded")],
}  # fmt: skip


@dataclass
class Account:
    """The stand-in with one key and one set of clients for each who asks; clients take long to make."""

    cloud: StandIn
    keys: dict[str, Key]
    clients: dict[str, Clients]

    def empty(self) -> FakeClock:
        """Begin anew, with what setup makes; the keys stay good."""
        self.cloud.clock = clock = FakeClock()
        self.cloud.reset()
        self.cloud.keys |= {key.id: key for key in self.keys.values()}
        prepare(self.clients["me"])
        for name, key in self.keys.items():
            self.cloud.faults.add(replace(fault, key=key.id) for fault in FAULTS[name])
        return clock


@pytest.fixture(scope="module")
def account() -> Iterator[Account]:
    with (
        StandIn(clock=FakeClock(), boots_in=timedelta(seconds=3), ends_in=timedelta(seconds=2)) as cloud,
        pytest.MonkeyPatch.context() as patch,
    ):
        account = Account(cloud, {}, {})
        for name in FAULTS:
            made = cloud.key(name)
            cloud.use(patch, *made)
            account.keys[name] = cloud.keys[made[0]]
            account.clients[name] = Clients(SETTINGS)
            account.clients[name].launch("us-east-1")  # takes the key from the environment
        yield account


def request(token: str) -> LaunchRequest:
    told = user_data("s3://frugald-1-us-east-1/here", token, "agents/x.pyz", "0" * 64)
    tags = {"frugald:owner": "me", "frugald:machine": token}
    return LaunchRequest(token, OFFER, None, 200 * GIB, told, tags, timedelta(hours=1))


@pytest.fixture
def world(account: Account) -> CloudWorld:
    clock, cloud = account.empty(), account.cloud

    def opened(name: str, owner: str = "me") -> AwsCloud:
        return AwsCloud(SETTINGS, account.clients[name], owner, clock, listing_lag=LAG)

    def until(condition: Callable[[], bool]) -> None:
        for _ in range(400):
            if condition():
                return
            clock.advance(0.5)
            switch_off(cloud)
        pytest.fail("not within 200 s")

    def interrupt(machine_id: str, notice: timedelta) -> None:
        cloud.interrupt(machine_id.rpartition("/")[2], timedelta(minutes=2) if notice else notice)

    return CloudWorld(
        provider=opened("me"), stranger=opened("somebody else", "somebody else"), request=request, until=until,
        now=clock.now, lossy=opened("lossy"), throttled=opened("throttled"), sold_out=opened("sold out"),
        small_quota=opened("small quota"), late=opened("late"), interrupt=interrupt,
    )  # fmt: skip


def switch_off(cloud: StandIn) -> None:
    """Do what the first line of a machine's user data does once its time has come."""
    for one in cloud.ec2.instances.values():
        minutes = re.search(rb"^shutdown -h \+(\d+)$", b64decode(one.asked["UserData"]), re.MULTILINE)
        assert minutes
        if one.alive(now := cloud.clock.now()) and now >= one.launched + timedelta(minutes=int(minutes[1])):
            one.power_off(now)


def prepare(clients: Clients) -> None:
    """Make what setup makes."""
    iam = clients.home("iam")
    iam.create_role(RoleName="frugald-machine", AssumeRolePolicyDocument="{}")
    iam.create_instance_profile(InstanceProfileName="frugald-machine")
    iam.add_role_to_instance_profile(InstanceProfileName="frugald-machine", RoleName="frugald-machine")
    for region in SETTINGS.regions:
        ec2 = clients.get("ec2", region)
        [vpc] = ec2.describe_vpcs(Filters=[{"Name": "is-default", "Values": ["true"]}])["Vpcs"]
        ec2.create_security_group(GroupName="frugald", Description="machines", VpcId=vpc["VpcId"])


class TestAwsCloudOnTheWire(CloudContract):
    @pytest.fixture
    def world(self, world: CloudWorld, account: Account, request: pytest.FixtureRequest) -> CloudWorld:
        if "missing_from_listings" in request.node.name:
            account.cloud.timing.visible_after = LAG
        return world
