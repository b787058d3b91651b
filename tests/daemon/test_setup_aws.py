"""`frugald setup aws` on an account of its own: made once, looked at again, undone."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from config.aws_settings import AwsSettings
from config.load import check_config
from daemon.setup import aws, run
from daemon.setup.aws_names import COST_TAGS, names
from daemon.setup.steps import Line, State, Step, look
from pricing.aws.clients import Clients
from tests.clouds.keys import ACCOUNT as ID
from tests.daemon.aws_account import Account

REGIONS = ("us-east-1", "eu-west-1")
SETTINGS = AwsSettings(regions=REGIONS, open_to=("203.0.113.7", "2001:db8::/32"), queue="frugald")
BUCKET = f"frugald-{ID}-us-east-1"


@pytest.fixture(scope="module")
def server() -> Iterator[Account]:
    with Account() as made:
        yield made


@pytest.fixture
def cloud(server: Account, monkeypatch: pytest.MonkeyPatch) -> Account:
    server.reset()
    server.be(monkeypatch)
    return server


def made(settings: AwsSettings = SETTINGS, *, yes: bool = True, store: str = "") -> tuple[run.Outcome, str]:
    return _run(run.make, settings, store, yes=yes)


def undone(settings: AwsSettings = SETTINGS, *, yes: bool = True) -> tuple[run.Outcome, str]:
    return _run(run.undo, settings, "", yes=yes)


def plan_of(settings: AwsSettings, store: str = "") -> list[Step]:
    return aws.steps(Clients(settings), names(settings, ID, store))


def _run(act: Any, settings: AwsSettings, store: str, *, yes: bool) -> tuple[run.Outcome, str]:
    said: list[str] = []
    return act(plan_of(settings, store), said.append, lambda: yes), "\n".join(said)


def states(settings: AwsSettings = SETTINGS) -> dict[str, State]:
    return {_label(line): line.found.state for line in look(plan_of(settings))}


def _label(line: Line) -> str:
    return f"{line.step.kind} {line.step.region}".strip()


def ports(cloud: Account, region: str = "us-east-1") -> set[tuple[int, str]]:
    (group,) = cloud.client("ec2", region).describe_security_groups(
        Filters=[{"Name": "group-name", "Values": ["frugald"]}]
    )["SecurityGroups"]
    return {
        (permission["FromPort"], source.get("CidrIp") or source.get("CidrIpv6"))
        for permission in group["IpPermissions"]
        for source in [*permission.get("IpRanges", []), *permission.get("Ipv6Ranges", [])]
    }


def test_an_empty_account_gets_everything_and_a_second_run_finds_it_there(cloud: Account) -> None:
    outcome, said = made()
    assert outcome.ok, said
    assert "made 10 of 10" in said
    assert set(states().values()) == {State.THERE, State.SHARED}
    cloud.calls.clear()
    again, said = made(yes=False)
    assert again.ok and again.done == ()
    assert "everything is there" in said
    assert cloud.made() == []


def test_nothing_is_made_before_somebody_agrees(cloud: Account) -> None:
    outcome, said = made(yes=False)
    assert not outcome.ok
    assert f"make       bucket {BUCKET} in us-east-1" in said
    assert "Nothing of this costs anything by itself" in said
    assert set(states().values()) == {State.MISSING, State.SHARED}


def test_the_bucket_is_private_encrypted_and_drops_unfinished_uploads(cloud: Account) -> None:
    made()
    s3 = cloud.client("s3")
    assert all(s3.get_public_access_block(Bucket=BUCKET)["PublicAccessBlockConfiguration"].values())
    assert s3.get_bucket_encryption(Bucket=BUCKET)["ServerSideEncryptionConfiguration"]["Rules"]
    (rule,) = s3.get_bucket_lifecycle_configuration(Bucket=BUCKET)["Rules"]
    assert rule["AbortIncompleteMultipartUpload"] == {"DaysAfterInitiation": 7}
    s3.delete_bucket_lifecycle(Bucket=BUCKET)
    assert states()["bucket us-east-1"] is State.STALE
    made()
    assert states()["bucket us-east-1"] is State.THERE


def test_a_bucket_outside_us_east_1_lies_in_its_region(cloud: Account) -> None:
    settings = AwsSettings(regions=("eu-west-1",))
    assert made(settings)[0].ok
    where = cloud.client("s3").get_bucket_location(Bucket=f"frugald-{ID}-eu-west-1")
    assert where["LocationConstraint"] == "eu-west-1"


def test_a_bucket_of_your_own_is_used_and_left_as_it_is(cloud: Account) -> None:
    cloud.client("s3").create_bucket(Bucket="my-data")
    outcome, said = made(store="s3://my-data/frugald")
    assert outcome.ok
    assert "yours: left as it is" in said
    policy = cloud.client("iam").get_role_policy(RoleName="frugald-job", PolicyName="frugald-job")["PolicyDocument"]
    assert policy["Statement"][0]["Resource"] == ["arn:aws:s3:::my-data/frugald/*"]


def test_machines_are_those_of_ec2_and_the_job_role_lasts_twelve_hours(cloud: Account) -> None:
    made()
    iam = cloud.client("iam")
    machine = iam.get_instance_profile(InstanceProfileName="frugald-machine")["InstanceProfile"]["Roles"][0]
    assert machine["AssumeRolePolicyDocument"]["Statement"][0]["Principal"] == {"Service": "ec2.amazonaws.com"}
    assert iam.get_role(RoleName="frugald-job")["Role"]["MaxSessionDuration"] == 12 * 3600


def test_ports_are_open_to_the_networks_of_the_settings_only(cloud: Account) -> None:
    made()
    sources = ("203.0.113.7/32", "2001:db8::/32")
    assert (
        ports(cloud) == ports(cloud, "eu-west-1") == {(port, source) for port in (22, 8888, 6006) for source in sources}
    )
    closed = AwsSettings(regions=REGIONS, queue="frugald")
    assert states(closed)["security group us-east-1"] is State.STALE
    made(closed)
    assert ports(cloud) == set()


def test_a_rule_that_is_there_already_is_success(cloud: Account) -> None:
    made()
    cloud.fail("AuthorizeSecurityGroupIngress", "InvalidPermission.Duplicate")
    outcome, _ = made(AwsSettings(regions=REGIONS, open_to=("198.51.100.0/24",), queue="frugald"))
    assert outcome.ok


def test_a_spot_role_that_another_made_meanwhile_is_success(cloud: Account) -> None:
    made()
    spot = next(step for step in plan_of(SETTINGS) if "linked" in step.kind)
    spot.make()
    assert spot.look().state is State.SHARED


def test_notices_of_each_region_go_to_its_queue(cloud: Account) -> None:
    made()
    for region in REGIONS:
        (target,) = cloud.client("events", region).list_targets_by_rule(Rule="frugald")["Targets"]
        assert target["Arn"] == f"arn:aws:sqs:{region}:{ID}:frugald"
        pattern = json.loads(cloud.client("events", region).describe_rule(Name="frugald")["EventPattern"])
        assert "EC2 Spot Instance Interruption Warning" in pattern["detail-type"]


def test_without_a_queue_in_the_settings_there_is_none(cloud: Account) -> None:
    made(AwsSettings())
    assert "QueueUrls" not in cloud.client("sqs").list_queues()


def test_tags_are_activated_once_the_bill_knows_them(cloud: Account) -> None:
    outcome, said = made()
    assert outcome.ok
    assert "run setup once more then" in said
    cloud.cost_tags = dict.fromkeys(COST_TAGS, "Inactive")
    made()
    assert set(cloud.cost_tags.values()) == {"Active"}


def test_a_bill_that_may_not_be_changed_stops_nothing(cloud: Account) -> None:
    cloud.fail("ListCostAllocationTags", "AccessDeniedException")
    outcome, _ = made()
    assert outcome.ok
    assert states()["cost allocation tags"] is State.UNKNOWN


def test_foreign_things_of_the_same_name_stop_setup_and_are_named(cloud: Account) -> None:
    cloud.client("iam").create_role(RoleName="frugald-job", AssumeRolePolicyDocument='{"Version":"2012-10-17"}')
    outcome, said = made()
    assert not outcome.ok
    assert "in the way role frugald-job" in said
    assert "choose another `clouds.aws.name`" in said
    assert "nothing was made" in said
    assert cloud.client("s3").list_buckets()["Buckets"] == []


def test_undo_takes_away_all_that_is_ours_and_nothing_else(cloud: Account) -> None:
    made()
    outcome, said = undone()
    assert outcome.ok, said
    assert f"remove     bucket {BUCKET}" in said
    assert "leave      service-linked role" in said
    assert set(states().values()) == {State.MISSING, State.SHARED}
    assert cloud.client("s3").list_buckets()["Buckets"] == []
    nothing, said = undone()
    assert nothing.ok and "nothing here carries our tag" in said


def test_undo_leaves_foreign_things_of_the_same_name_and_names_them(cloud: Account) -> None:
    cloud.client("ec2").create_security_group(GroupName="frugald", Description="somebody else's")
    cloud.client("s3").create_bucket(Bucket=BUCKET)
    outcome, said = undone()
    assert outcome.ok and outcome.done == ()
    assert f"leave      bucket {BUCKET}" in said
    assert "leave      security group frugald in us-east-1" in said
    assert states()["bucket us-east-1"] is State.FOREIGN


def test_undo_keeps_a_bucket_with_results_and_says_how_to_empty_it(cloud: Account) -> None:
    made()
    cloud.client("s3").put_object(Bucket=BUCKET, Key="store/jobs/1", Body=b"result")
    outcome, said = undone()
    assert not outcome.ok
    assert f"aws s3 rm s3://{BUCKET} --recursive" in said
    assert states()["bucket us-east-1"] is State.THERE
    assert states()["role"] is State.MISSING


def test_two_installations_of_one_account_keep_apart(cloud: Account) -> None:
    other = AwsSettings(regions=REGIONS, name="lab")
    assert made()[0].ok and made(other)[0].ok
    assert undone(other)[0].ok
    assert set(states().values()) == {State.THERE, State.SHARED}


def test_a_network_that_is_none_is_named(cloud: Account) -> None:
    outcome, said = made(AwsSettings(open_to=("everyone",)))
    assert not outcome.ok
    assert "clouds.aws.open_to" in said and "everyone" in said


def test_a_step_that_is_denied_names_the_call_and_stops_no_other(cloud: Account) -> None:
    cloud.fail("CreateSecurityGroup", "UnauthorizedOperation", 403)
    outcome, said = made()
    assert not outcome.ok
    assert "AWS denies CreateSecurityGroup" in said
    assert states()["role"] is State.THERE


def test_in_china_every_name_is_of_that_partition(cloud: Account) -> None:
    settings = AwsSettings(regions=("cn-north-1",), partition="aws-cn", queue="frugald")
    found = names(settings, ID, "")
    documents = json.dumps([dict(step.documents) for step in plan_of(settings)])
    policies = json.dumps([policy(found) for policy in aws.POLICIES.values()])
    assert "arn:aws:" not in documents + policies
    assert "ec2.amazonaws.com.cn" in documents


@pytest.fixture
def cli(cloud: Account, tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    from daemon.cli import main_group

    monkeypatch.chdir(tmp_path)

    def call(*words: str, **options: Any) -> Result:
        return CliRunner().invoke(main_group, ["setup", "aws", *words], **options)

    return call


def test_the_command_asks_makes_and_says_what_to_do_next(cli: Any) -> None:
    refused = cli(input="n\n")
    assert refused.exit_code == 1
    done = cli("--yes")
    assert done.exit_code == 0, done.output
    assert f'url = "s3://{BUCKET}/store"' in done.output
    assert "[clouds.aws]" in done.output
    assert "frugald doctor aws" in done.output


def test_setup_runs_before_there_is_a_store_and_prints_settings_that_are_right(cli: Any, tmp_path: Path) -> None:
    file = tmp_path / "frugald.toml"
    file.write_text("[clouds.aws]\nenabled = true\n[clouds.sandbox]\nenabled = false\n")
    done = cli("--yes")
    assert done.exit_code == 0, done.output
    lines = done.output.partition("Put this into frugald.toml:")[2].partition("Then:")[0]
    file.write_text(lines)
    assert check_config(file, {}) == []


def test_print_makes_nothing_and_shows_every_policy(cli: Any, cloud: Account) -> None:
    shown = cli("--print")
    assert shown.exit_code == 0, shown.output
    assert '"ec2:RunInstances"' in shown.output
    assert "keys/${aws:userid}/*" in shown.output
    assert cloud.client("s3").list_buckets()["Buckets"] == []
    assert json.loads(cli("--print=daemon").output)["Version"] == "2012-10-17"


def test_print_needs_no_credentials(cli: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    shown = cli("--print")
    assert shown.exit_code == 0, shown.output
    assert "ACCOUNT stands for its id" in shown.output
    assert "arn:aws:iam::ACCOUNT:role/frugald-job" in shown.output


def test_programs_get_one_object(cli: Any) -> None:
    value = json.loads(cli("--yes", "--json").output)
    assert value["ok"]
    assert f"bucket {BUCKET} us-east-1" in value["done"]
    assert json.loads(cli("--undo", "--yes", "--json").output)["failed"] == {}
