"""`frugald doctor aws` before and after setup, and with one thing wrong at a time."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from config.clock import SystemClock
from config.settings import Settings
from daemon.doctor import Finding, Verdict, worst
from daemon.doctor.aws import examine
from daemon.setup import aws, run
from daemon.setup.aws_names import names
from daemon.setup.aws_policies import daemon_policy
from pricing.aws.clients import Clients
from tests.clouds.images import parameters
from tests.clouds.keys import ACCOUNT as ID
from tests.daemon.aws_account import Account

BUCKET = f"frugald-{ID}-us-east-1"
BUDGET = {"scope": "all", "period": "month", "cap": "100 USD"}


@dataclass
class Off(SystemClock):
    """A clock that is wrong."""

    by: timedelta

    def now(self) -> datetime:
        return super().now() + self.by


@pytest.fixture(scope="module")
def server() -> Iterator[Account]:
    with Account() as made:
        yield made


@pytest.fixture
def cloud(server: Account, monkeypatch: pytest.MonkeyPatch) -> Account:
    server.reset()
    server.be(monkeypatch)
    return server


@pytest.fixture
def ready(cloud: Account) -> Account:
    """The account after setup, with quotas for every card."""
    given = settings().clouds.aws
    assert run.make(aws.steps(Clients(given), names(given, ID, "")), str, lambda: True).ok
    return cloud


def settings(**more: Any) -> Settings:
    given: dict[str, Any] = {
        "clouds": {"aws": {"enabled": True, "regions": ["us-east-1"], "queue": "frugald"}},
        "store": {"url": f"s3://{BUCKET}/store"},
        "budgets": [BUDGET],
    }
    given["clouds"]["aws"] |= more.pop("aws", {})
    return Settings.model_validate(given | more)


def look(given: Settings | None = None, off: timedelta = timedelta(0)) -> list[Finding]:
    given = given or settings()
    return examine(given, Clients(given.clouds.aws), Off(off))


def texts(findings: list[Finding], check: str, verdict: Verdict) -> list[str]:
    return [f"{one.found} -> {one.following}" for one in findings if (one.check, one.verdict) == (check, verdict)]


def images() -> str:
    return next(iter(parameters("us-east-1").values()))


def failed(findings: list[Finding]) -> set[str]:
    return {one.check for one in findings if one.verdict is Verdict.FAIL}


def test_before_setup_what_is_missing_fails_and_names_setup_as_the_next_step(cloud: Account) -> None:
    found = look()
    assert failed(found) == {"roles", "spot role", "bucket", "network", "notices"}
    for check in failed(found):
        assert "frugald setup aws" in texts(found, check, Verdict.FAIL)[0]


def test_after_setup_everything_is_well(ready: Account) -> None:
    found = look()
    assert [one for one in found if one.verdict is not Verdict.OK and one.check != "quota"] == []
    assert worst(found) is not Verdict.FAIL
    assert "machines may be rented, tagged and ended -> None" in texts(found, "permissions", Verdict.OK)


def test_doctor_leaves_nothing_behind(ready: Account) -> None:
    look()
    assert ready.client("s3").list_objects_v2(Bucket=BUCKET)["KeyCount"] == 0
    assert ready.client("ec2").describe_instances()["Reservations"] == []


def test_keys_that_aws_does_not_know_are_all_that_is_told_of(cloud: Account) -> None:
    cloud.keys.clear()
    found = look()
    assert failed(found) == {"credentials"}
    assert "aws sts get-caller-identity" in texts(found, "credentials", Verdict.FAIL)[0]


def test_without_credentials_it_says_where_to_put_them(cloud: Account, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    (said,) = texts(look(), "credentials", Verdict.FAIL)
    assert "clouds.aws.profile" in said


def test_short_lived_keys_that_nobody_renews_are_a_warning(ready: Account, monkeypatch: pytest.MonkeyPatch) -> None:
    given = ready.client("sts").assume_role(RoleArn=f"arn:aws:iam::{ID}:role/frugald-job", RoleSessionName="ann")
    for name, value in (
        ("ACCESS_KEY_ID", "AccessKeyId"),
        ("SECRET_ACCESS_KEY", "SecretAccessKey"),
        ("SESSION_TOKEN", "SessionToken"),
    ):
        monkeypatch.setenv(f"AWS_{name}", given["Credentials"][value])
    nobody, chained = texts(look(), "credentials", Verdict.WARN)
    assert "nobody renews" in nobody
    assert "one hour only" in chained


def test_the_root_user_is_nobody_to_run_with(cloud: Account, monkeypatch: pytest.MonkeyPatch) -> None:
    cloud.be(monkeypatch, arn=f"arn:aws:iam::{ID}:root")
    assert "root user" in texts(look(), "credentials", Verdict.FAIL)[0]


@pytest.mark.parametrize(
    ("off", "verdict"),
    [(timedelta(seconds=30), Verdict.OK), (timedelta(minutes=2), Verdict.WARN), (timedelta(minutes=-7), Verdict.FAIL)],
)
def test_a_wrong_clock_is_told_of_before_aws_refuses(cloud: Account, off: timedelta, verdict: Verdict) -> None:
    assert len(texts(look(off=off), "clock", verdict)) == 1


def test_a_clock_so_wrong_that_aws_refuses_is_still_named(cloud: Account) -> None:
    cloud.skew = timedelta(days=-1)
    assert "timedatectl" in texts(look(), "clock", Verdict.FAIL)[0]


@pytest.mark.parametrize(
    ("action", "named"),
    [
        ("RunInstances", "ec2:RunInstances"),
        ("DescribeSpotPriceHistory", "ec2:DescribeSpotPriceHistory"),
        ("DescribeReservedInstances", "ec2:DescribeReservedInstances"),
    ],
)
def test_a_missing_permission_names_the_action_and_the_policy(ready: Account, action: str, named: str) -> None:
    ready.fail(action, "UnauthorizedOperation", 403)
    said = " ".join(texts(look(), "permissions", Verdict.FAIL))
    assert named in said
    assert "frugald setup aws --print=daemon" in said


def test_a_denied_end_proves_something_only_where_a_machine_has_our_tag(ready: Account) -> None:
    ready.fail("TerminateInstances", "UnauthorizedOperation", 403)
    assert "can't be told" in texts(look(), "permissions", Verdict.WARN)[0]
    tags = [{"ResourceType": "instance", "Tags": [{"Key": "frugald:owner", "Value": "x"}]}]
    wanted = {"ImageId": images(), "InstanceType": "g5.xlarge", "TagSpecifications": tags}
    ready.client("ec2").run_instances(**wanted, MinCount=1, MaxCount=1)
    assert "ec2:TerminateInstances" in texts(look(), "permissions", Verdict.FAIL)[0]


def test_a_spot_role_that_is_gone_shows_in_a_dry_run_too(ready: Account, monkeypatch: pytest.MonkeyPatch) -> None:
    ready.client("iam").delete_role(RoleName="AWSServiceRoleForEC2Spot")
    ready.be(monkeypatch, daemon_policy(names(settings().clouds.aws, ID, settings().store.url)))
    said = texts(look(), "permissions", Verdict.FAIL)
    assert len(said) == 1
    assert "ServiceLinkedRole" in said[0] and "frugald setup aws" in said[0]


def test_a_quota_shows_its_machines_and_cards(cloud: Account) -> None:
    cloud.catalogue.quotas |= {"L-3819A6DF": 8.0, "L-417A185B": 96.0}
    shown = texts(look(), "quota", Verdict.OK)
    cards = "2 x g4dn.xlarge (T4), 2 x g5.xlarge (A10G), 2 x g6.xlarge (L4), 2 x g6e.xlarge (L40S)"
    assert f"G spot: 8 vCPUs = {cards} -> None" in shown
    assert "P on-demand: 96 vCPUs = 1 x p4d.24xlarge (8 A100-40) -> None" in shown


def test_a_quota_of_nothing_comes_with_the_request_as_a_command_and_as_text(cloud: Account) -> None:
    cloud.catalogue.quotas["L-3819A6DF"] = 0.0
    said = texts(look(), "quota", Verdict.WARN)[0]
    assert "G spot: 0 vCPUs" in said
    assert (
        "aws service-quotas request-service-quota-increase --service-code ec2 "
        "--quota-code L-3819A6DF --desired-value 8 --region us-east-1"
    ) in said
    assert '"Please raise' in said


def test_an_account_without_any_quota_fails(cloud: Account) -> None:
    cloud.catalogue.quotas = {}
    found = look()
    assert "quota" in failed(found)
    assert [said.partition(":")[0] for said in texts(found, "quota", Verdict.WARN)] == [
        "G on-demand", "G spot", "P on-demand", "P spot", "P5 spot"
    ]  # fmt: skip


def test_a_bucket_that_refuses_says_so(ready: Account) -> None:
    ready.client("s3").delete_bucket(Bucket=BUCKET)
    assert "frugald setup aws" in texts(look(), "bucket", Verdict.FAIL)[0]


def test_a_store_that_machines_cannot_reach_fails_and_names_the_right_one(ready: Account) -> None:
    found = look(settings(store={}))
    assert f's3://{BUCKET}/store"' in texts(found, "bucket", Verdict.FAIL)[0]


def test_open_ports_that_the_settings_do_not_name_are_told_of(ready: Account) -> None:
    ec2 = ready.client("ec2")
    named = {"GroupId": ec2.describe_security_groups(GroupNames=["frugald"])["SecurityGroups"][0]["GroupId"]}
    ec2.authorize_security_group_ingress(**named, IpProtocol="tcp", FromPort=22, ToPort=22, CidrIp="0.0.0.0/0")
    assert "1 to take away" in texts(look(), "network", Verdict.WARN)[0]


def test_a_zone_without_a_default_subnet_is_named(ready: Account) -> None:
    ec2 = ready.client("ec2")
    gone = ec2.describe_subnets(Filters=[{"Name": "availability-zone", "Values": ["us-east-1c"]}])["Subnets"][0]
    ec2.delete_subnet(SubnetId=gone["SubnetId"])
    assert "--availability-zone us-east-1c" in texts(look(), "network", Verdict.WARN)[0]


def test_an_image_that_nobody_has_fails(ready: Account) -> None:
    assert (
        "ami-00000000000000001"
        in texts(look(settings(aws={"image": "ami-00000000000000001"})), "image", Verdict.FAIL)[0]
    )


def test_a_region_that_does_not_answer_fails_alone(ready: Account) -> None:
    ready.fail("", "OptInRequired", 403, region="eu-west-1")
    found = look(settings(aws={"regions": ["us-east-1", "eu-west-1"]}))
    assert {one.region for one in found if one.verdict is Verdict.FAIL} == {"eu-west-1"}
    assert texts(found, "quota", Verdict.OK)


def test_no_monthly_cap_is_a_warning(ready: Account) -> None:
    assert "frugald budget set all/month" in texts(look(settings(budgets=[])), "settings", Verdict.WARN)[0]


def test_in_advise_mode_reading_is_enough(cloud: Account) -> None:
    for action in ("RunInstances", "TerminateInstances", "AssumeRole", "GetRole", "GetInstanceProfile"):
        cloud.fail(action, "AccessDenied", 403)
    assert failed(look(settings(mode="advise", aws={"queue": ""}))) == set()


def test_the_command_prints_findings_and_fails_when_one_does(
    cloud: Account, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from daemon.cli import main_group

    monkeypatch.chdir(tmp_path)
    shown = CliRunner().invoke(main_group, ["doctor", "aws"])
    assert shown.exit_code == 1
    assert "fail  spot role: AWSServiceRoleForEC2Spot isn't there" in shown.output
    value = json.loads(CliRunner().invoke(main_group, ["doctor", "aws", "--json"]).output)
    assert {"check", "region", "verdict", "found", "next"} == set(value["findings"][0])
