"""docs/aws.md shows the policies as they are, and they hold what the code asks of AWS: every call, and little else."""

import ast
import json
import re
from collections.abc import Callable, Iterator
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore import xform_name

from config.aws_settings import AwsSettings
from config.clock import SystemClock
from config.settings import Settings
from daemon.doctor import Verdict
from daemon.doctor.aws import examine
from daemon.setup import aws, aws_policies, run
from daemon.setup.aws_names import Names, names
from pricing.aws.bill import AwsBill
from pricing.aws.clients import Clients
from pricing.offer import Market
from pricing.sources.aws import AwsSource
from runner.bootstrap import user_data
from runner.provider import LaunchRequest
from runner.providers.aws import AwsCloud
from runner.providers.ec2.grants import AwsGrants
from runner.store import StoreError, open_store
from runner.store.grants import Grant
from tests.clouds.keys import ACCOUNT, Key
from tests.clouds.policy import Need, allows
from tests.daemon.aws_account import Account
from tests.pricing.offers import GIB, offer

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "aws.md").read_text()
SETTINGS = AwsSettings(queue="frugald", placement_scores=True)
NAMES = names(SETTINGS, ACCOUNT, "")
POLICIES: dict[str, Callable[[Names], dict[str, Any]]] = {
    "daemon": aws_policies.daemon_policy,
    "machine": aws_policies.machine_policy,
    "job": aws_policies.job_policy,
    "readonly": aws_policies.readonly_policy,
    "setup": aws_policies.setup_policy,
}
SERVICES = ("ce", "ec2", "events", "iam", "pricing", "s3", "savingsplans", "service-quotas", "sqs", "ssm", "sts")
# Files that call AWS, and the policy of whoever runs them.
CALLERS = {
    "daemon": [
        "pricing/aws",
        "pricing/sources/aws.py",
        "runner/providers/aws.py",
        "runner/providers/ec2",
        "daemon/doctor",
    ],
    "setup": ["daemon/setup"],
}
# Where an action isn't called as the operation is.
ACTIONS = {
    "s3:HeadBucket": "s3:ListBucket",
    "s3:ListObjectsV2": "s3:ListBucket",
    "s3:GetPublicAccessBlock": "s3:GetBucketPublicAccessBlock",
    "s3:PutPublicAccessBlock": "s3:PutBucketPublicAccessBlock",
    "s3:GetBucketEncryption": "s3:GetEncryptionConfiguration",
    "s3:PutBucketEncryption": "s3:PutEncryptionConfiguration",
    "s3:GetBucketLifecycleConfiguration": "s3:GetLifecycleConfiguration",
    "s3:PutBucketLifecycleConfiguration": "s3:PutLifecycleConfiguration",
}
# What needs another's permission besides its own.
WITH = {
    "ec2:RunInstances": {"ec2:CreateTags", "iam:PassRole"},
    "ec2:CreateSecurityGroup": {"ec2:CreateTags"},
    "iam:CreateRole": {"iam:TagRole"},
    "iam:CreateInstanceProfile": {"iam:TagInstanceProfile"},
    "iam:AddRoleToInstanceProfile": {"iam:PassRole"},
    "sqs:CreateQueue": {"sqs:TagQueue"},
    "events:PutRule": {"events:TagResource"},
}
STORE = {"s3:GetObject", "s3:PutObject", "s3:DeleteObject", "s3:ListBucket", "s3:AbortMultipartUpload"}  # by obstore


# ---------------------------------------------------------------- the page


@pytest.mark.parametrize("name", POLICIES)
def test_the_page_shows_each_policy_as_it_is(name: str) -> None:
    shown = re.search(rf"^### {name}\n.*?^```json\n(.*?)^```", PAGE, flags=re.DOTALL | re.MULTILINE)
    assert shown, name
    assert json.loads(shown[1]) == POLICIES[name](names(AwsSettings(queue="frugald"), ACCOUNT, ""))


@pytest.mark.parametrize("name", POLICIES)
@pytest.mark.parametrize("settings", [SETTINGS, AwsSettings(name="a" * 31, partition="aws-us-gov", queue="q" * 80)])
def test_each_policy_is_short_enough_for_iam(name: str, settings: AwsSettings) -> None:
    text = aws_policies.text(POLICIES[name](names(settings, ACCOUNT, f"s3://{'b' * 63}/{'p' * 64}")))
    assert len(text) <= 6144  # of a managed policy


# ---------------------------------------------------------------- the code


def operations() -> dict[str, set[str]]:
    """Return the IAM actions by the name of the method that needs one."""
    found: dict[str, set[str]] = {}
    session = boto3.Session(region_name="us-east-1", aws_access_key_id="x", aws_secret_access_key="x")
    for service in SERVICES:
        prefix = service.replace("-", "")
        for operation in session.client(service).meta.service_model.operation_names:
            action = f"{prefix}:{operation}"
            found.setdefault(xform_name(operation), set()).add(ACTIONS.get(action, action))
    return found


def methods(paths: list[str]) -> Iterator[str]:
    """Yield each attribute and each text of the files: methods are called, named in tables, and given to paginators."""
    for path in paths:
        files = [ROOT / path] if path.endswith(".py") else sorted((ROOT / path).rglob("*.py"))
        assert files
        for node in (node for file in files for node in ast.walk(ast.parse(file.read_text()))):
            if isinstance(node, ast.Attribute):
                yield node.attr
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield node.value


def asked(who: str) -> list[set[str]]:
    """Return what is asked for; several services have methods of the same name, and one of them is meant."""
    known = operations()
    found = [known[name] for name in set(methods(CALLERS[who])) if name in known]
    more = [{other} for actions in found for action in actions for other in WITH.get(action, ())]
    return [*found, *more, *({action} for action in (STORE if who == "daemon" else ()))]


def allowed(who: str) -> set[str]:
    return {action for statement in POLICIES[who](NAMES)["Statement"] for action in statement["Action"]}


@pytest.mark.parametrize("who", CALLERS)
def test_a_policy_has_every_action_that_the_code_asks_for(who: str) -> None:
    assert [actions for actions in asked(who) if not actions & allowed(who)] == []


@pytest.mark.parametrize("who", CALLERS)
def test_a_policy_has_nothing_that_nobody_asks_for(who: str) -> None:
    assert sorted(allowed(who) - set().union(*asked(who))) == []


# ---------------------------------------------------------------- the stand-in, which enforces them


@pytest.fixture(scope="module")
def server() -> Iterator[Account]:
    with Account() as made:
        yield made


@pytest.fixture
def account(server: Account, monkeypatch: pytest.MonkeyPatch) -> Account:
    """An account that setup has been run in, with its own policy and no more."""
    server.reset()
    server.be(monkeypatch, aws_policies.setup_policy(NAMES))
    assert run.make(aws.steps(Clients(SETTINGS), NAMES), str, lambda: True).ok
    return server


def denied(account: Account) -> list[str]:
    return [call.action for call in account.calls if "Denied" in call.code or "Unauthorized" in call.code]


def settings(mode: str = "rent") -> Settings:
    given = {
        "clouds": {"aws": SETTINGS.model_dump() | {"enabled": True}},
        "store": {"url": NAMES.store_url},
        "mode": mode,
    }
    return Settings.model_validate(given)


def request(market: Market, token: str) -> LaunchRequest:
    told = user_data(NAMES.store_url, token, "agents/x.pyz", "0" * 64)
    tags = {"frugald:owner": "me", "frugald:machine": token}
    wanted = offer(type="g6.xlarge", family="G", market=market)
    return LaunchRequest(token, wanted, None, 200 * GIB, told, tags, timedelta(hours=1))


def test_setup_can_be_repeated_and_undone_with_its_own_policy(account: Account) -> None:
    steps = aws.steps(Clients(SETTINGS), NAMES)
    assert run.make(steps, str, lambda: True).done == ()
    assert run.undo(steps, str, lambda: True).ok
    assert denied(account) == []


def test_the_daemon_rents_looks_and_ends_with_its_own_policy(account: Account, monkeypatch: pytest.MonkeyPatch) -> None:
    account.be(monkeypatch, aws_policies.daemon_policy(NAMES))
    cloud = AwsCloud(SETTINGS, Clients(SETTINGS), "me", SystemClock())
    for market in (Market.SPOT, Market.ON_DEMAND):
        machine = cloud.launch(request(market, f"m-{market}"))
        assert cloud.find(f"m-{market}") is not None
        assert cloud.notices() == []
        cloud.terminate(machine.id)
    assert denied(account) == []


def test_the_daemon_ends_no_machine_without_the_tag(account: Account, monkeypatch: pytest.MonkeyPatch) -> None:
    account.be(monkeypatch, aws_policies.daemon_policy(NAMES))
    key = last(account)
    machine = f"arn:aws:ec2:us-east-1:{ACCOUNT}:instance/i-1"
    ours = {"aws:ResourceTag/frugald:owner": ["me"]}
    assert allows(key, Need("ec2:TerminateInstances", machine, ours))
    assert not allows(key, Need("ec2:TerminateInstances", machine))
    assert not allows(key, Need("ec2:RunInstances", machine))
    assert not allows(key, Need("iam:PassRole", f"arn:aws:iam::{ACCOUNT}:role/admin"))
    assert not allows(key, Need("s3:GetObject", "arn:aws:s3:::somebody-elses/x"))


def test_the_daemon_reads_prices_and_bill_with_its_own_policy_and_with_that_of_advise_mode(
    account: Account, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    now = SystemClock().now()
    for name, policy in (("daemon", aws_policies.daemon_policy), ("readonly", aws_policies.readonly_policy)):
        account.be(monkeypatch, policy(NAMES))
        clients = Clients(SETTINGS)
        source = AwsSource(SETTINGS, clients, tmp_path / name, "USD", {}, no_web)
        assert list(source.offers(now))
        assert list(source.quotas(now))
        assert AwsBill(clients, "me").days(date(2026, 1, 1), date(2026, 1, 2)) == []
    assert denied(account) == []


def test_doctor_is_content_with_the_daemons_policy_and_in_advise_mode_with_that_to_read(
    account: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    for mode, policy in (("rent", aws_policies.daemon_policy), ("advise", aws_policies.readonly_policy)):
        account.be(monkeypatch, policy(NAMES))
        given = settings(mode).model_copy(update={"clouds": settings().clouds})
        found = examine(given, Clients(SETTINGS), SystemClock())
        assert [one for one in found if one.verdict is Verdict.FAIL and one.check != "notices"] == []


def test_a_grant_opens_its_own_job_and_no_other(account: Account, monkeypatch: pytest.MonkeyPatch) -> None:
    account.be(monkeypatch, aws_policies.daemon_policy(NAMES))
    grants = AwsGrants(Clients(SETTINGS), SETTINGS, NAMES.store_url)
    key, grant = grants.grant("us-east-1/i-1", "m1", ["j1"], SystemClock().now())
    store = open_store(NAMES.store_url)
    store.put(key, grant.to_json())
    store.put("jobs/j2/secret", b"x")
    become(monkeypatch, grant)
    own = open_store(NAMES.store_url)
    own.put("jobs/j1/result", b"y")
    assert [one.key for one in own.list("jobs/j1/")] == ["jobs/j1/result"]
    with pytest.raises(StoreError):
        own.get("jobs/j2/secret")


def test_a_machine_reads_its_own_grant_and_the_agent_and_writes_nothing(
    account: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    account.be(monkeypatch, aws_policies.machine_policy(NAMES))
    me = last(account)
    s3 = account.client("s3")
    for key in ("agents/a.pyz", f"keys/{me.userid}/store.json", "keys/AROA:i-2/store.json"):
        s3.put_object(Bucket=NAMES.bucket, Key=NAMES.key(key), Body=b"x")
    store = open_store(NAMES.store_url)
    assert store.get("agents/a.pyz") == store.get(f"keys/{me.userid}/store.json") == b"x"
    for key in ("keys/AROA:i-2/store.json", "jobs/j1/x"):
        with pytest.raises(StoreError):
            store.get(key)
    with pytest.raises(StoreError):
        store.put("agents/a.pyz", b"mine")


def last(account: Account) -> Key:
    return next(reversed(account.keys.values()))


def become(monkeypatch: pytest.MonkeyPatch, grant: Grant) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", grant.access_key_id)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", grant.secret_access_key)
    monkeypatch.setenv("AWS_SESSION_TOKEN", grant.token)


def no_web(url: str) -> bytes:
    raise OSError(f"{url} is out of reach")
