"""Machines' credentials: made in time, renewed while a machine lives, and narrow."""

import json
import shutil
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path

import pytest

from daemon.grants import Grants
from daemon.states import JobState
from runner.provider import Denied, ProviderError, Throttled
from runner.store import StoreError
from runner.store.grants import Grant
from tests.daemon.house import House


class FakeKeys:
    """A cloud that hands out credentials, numbered."""

    def __init__(self, life: timedelta = timedelta(hours=12)) -> None:
        self.life = life
        self.asked: list[tuple[datetime, str, tuple[str, ...]]] = []
        self.broken: Exception | None = None

    def grant(self, provider_id: str, machine: str, jobs: Sequence[str], now: datetime) -> tuple[str, Grant]:
        self.asked.append((now, machine, tuple(jobs)))
        if self.broken:
            raise self.broken
        given = Grant(f"ASIA{len(self.asked)}", "secret", "token", now + self.life)
        return f"keys/AROA:{provider_id}/store.json", given


@pytest.fixture
def house(tmp_path: Path, template: Path) -> Iterator[House]:
    shutil.copy(template, tmp_path / "frugald.db")
    house = House(tmp_path)
    yield house
    house.crash()


def join(house: House, keys: FakeKeys) -> Grants:
    house.world.grants = {"fake": keys}
    grants = Grants(house.world)
    house.loops.append(grants)
    return grants


def given(house: House) -> list[Grant]:
    return [Grant.from_json(house.store.get(info.key)) for info in house.store.list("keys/")]


def test_a_machine_has_its_grant_in_the_tick_in_which_it_was_rented(house: House) -> None:
    keys = FakeKeys()
    join(house, keys)
    job = house.submit("train")
    house.run_until(job, JobState.STARTING)
    (machine,) = house.machines()
    assert keys.asked == [(house.clock.now(), machine.id, (job,))]
    assert [info.key for info in house.store.list("keys/")] == [f"keys/AROA:{machine.provider_id}/store.json"]
    assert [grant.access_key_id for grant in given(house)] == ["ASIA1"]


def test_a_grant_is_renewed_at_half_of_its_life_and_removed_with_its_machine(house: House) -> None:
    keys = FakeKeys(timedelta(hours=1))
    join(house, keys)
    job = house.submit("train", work_s=4 * 3600)
    house.run_until(job, JobState.RUNNING)
    house.run(2 * 3600)
    times = [at for at, _, _ in keys.asked]
    assert [round((b - a) / timedelta(minutes=1)) for a, b in pairwise(times)] == [30] * 4
    assert given(house)[0].expires_at - house.clock.now() >= timedelta(minutes=29)
    house.run_until(job, JobState.SUCCEEDED, within_s=4 * 3600)
    house.run(60)
    assert given(house) == []


def test_after_a_restart_every_machine_gets_a_new_grant(house: House) -> None:
    keys = FakeKeys()
    join(house, keys)
    job = house.submit("train", work_s=3600)
    house.run_until(job, JobState.RUNNING)
    house.crash()
    house.start()
    join(house, keys)
    house.run(30)
    assert [grant.access_key_id for grant in given(house)] == ["ASIA2"]
    assert len(keys.asked) == 2


@pytest.mark.parametrize("error", [Denied("no"), StoreError("away"), ProviderError("odd")])
def test_a_grant_that_fails_is_asked_for_again_and_told(house: House, error: Exception) -> None:
    keys = FakeKeys()
    grants = join(house, keys)
    told: list[tuple[str, Exception]] = []
    house.world.on_failure = lambda what, error: told.append((what, error))
    keys.broken = error
    job = house.submit("train", work_s=3600)
    house.run_until(job, JobState.STARTING)
    assert told[0] == ("grants of fake", error)
    keys.broken = None
    house.run(10)
    assert len(given(house)) == 1
    assert grants.run_once(house.clock.now()) == {"grants": 0, "removed": 0}


def test_a_throttled_cloud_is_left_alone_for_so_long_as_it_says(house: House) -> None:
    keys = FakeKeys()
    join(house, keys)
    house.world.on_failure = lambda _what, _error: None
    keys.broken = Throttled("slow down", timedelta(minutes=1))
    house.run_until(house.submit("train", work_s=3600), JobState.STARTING)
    house.run(50)
    assert len(keys.asked) == 1
    house.run(20)
    assert len(keys.asked) == 2


def test_a_cloud_that_hands_out_nothing_is_asked_nothing(house: House) -> None:
    grants = Grants(house.world)
    house.loops.append(grants)
    house.run_until(house.submit("train"), JobState.RUNNING)
    assert list(house.store.list("keys/")) == []


@pytest.mark.parametrize(("life", "codes"), [(timedelta(minutes=30), ["grant.short"]), (timedelta(minutes=40), [])])
def test_grants_that_a_lease_could_outlive_are_told_of_once(house: House, life: timedelta, codes: list[str]) -> None:
    join(house, FakeKeys(life))
    house.run_until(house.submit("train", work_s=7200), JobState.RUNNING)
    house.run(3600)
    assert house.codes("grant") == codes


# ---------------------------------------------------------------------- AWS

boto3 = pytest.importorskip("boto3")


class FakeSts:
    def __init__(self, *, chained: bool = False) -> None:
        self.chained = chained
        self.asked: list[dict[str, object]] = []
        self.error = ""

    def get_caller_identity(self) -> dict[str, str]:
        return {"Account": "123456789012"}

    def assume_role(self, **asked: object) -> dict[str, object]:
        self.asked.append(asked)
        seconds = int(str(asked["DurationSeconds"]))
        if self.error:
            raise refusal(self.error, "no")
        if self.chained and seconds > 3600:
            raise refusal("ValidationError", "The requested DurationSeconds exceeds the 1 hour session limit for roles assumed by role chaining")  # fmt: skip
        ends = datetime.fromisoformat("2026-03-02T10:00:00+01:00") + timedelta(seconds=seconds)
        keys = {"AccessKeyId": "ASIA1", "SecretAccessKey": "s", "SessionToken": "t", "Expiration": ends}
        return {"Credentials": keys}


class FakeIam:
    def __init__(self) -> None:
        self.asked = 0

    def get_role(self, RoleName: str) -> dict[str, dict[str, str]]:  # noqa: N803 - boto3's name
        self.asked += 1
        assert RoleName == "frugald-machine"
        return {"Role": {"RoleId": "AROAX"}}


class FakeClients:
    def __init__(self, sts: FakeSts) -> None:
        self.sts, self.iam = sts, FakeIam()

    def get(self, service: str, region: str) -> FakeSts:
        assert (service, region) == ("sts", "us-east-1")
        return self.sts

    def home(self, service: str) -> FakeIam:
        assert service == "iam"
        return self.iam


def refusal(code: str, message: str) -> Exception:
    from botocore.exceptions import ClientError

    return ClientError({"Error": {"Code": code, "Message": message}}, "AssumeRole")


def aws(sts: FakeSts, url: str = "s3://frugald-1-us-east-1/p"):  # noqa: ANN201
    from config.aws_settings import AwsSettings
    from runner.providers.ec2.grants import AwsGrants

    return AwsGrants(FakeClients(sts), AwsSettings(), url)  # type: ignore[arg-type]


NOW = datetime.fromisoformat("2026-03-02T09:00:00+00:00")


def test_a_grant_of_aws_is_a_role_narrowed_to_one_machine_and_its_jobs() -> None:
    sts = FakeSts()
    keys = aws(sts)
    key, grant = keys.grant("us-east-1/i-0abc", "m7", ["j2", "j1"], NOW)
    assert key == "keys/AROAX:i-0abc/store.json"
    assert grant == Grant("ASIA1", "s", "t", NOW + timedelta(hours=12))
    (asked,) = sts.asked
    assert asked["RoleArn"] == "arn:aws:iam::123456789012:role/frugald-job"
    assert asked["RoleSessionName"] == "m7"
    write, read, listing = json.loads(str(asked["Policy"]))["Statement"]
    bucket = "arn:aws:s3:::frugald-1-us-east-1"
    assert write["Resource"] == [f"{bucket}/p/machines/m7/*", f"{bucket}/p/jobs/j1/*", f"{bucket}/p/jobs/j2/*"]
    assert "s3:DeleteObject" in write["Action"]
    assert (read["Action"], read["Resource"]) == ("s3:GetObject", f"{bucket}/p/agents/*")
    assert (listing["Action"], listing["Resource"]) == ("s3:ListBucket", bucket)
    assert listing["Condition"] == {
        "StringLike": {"s3:prefix": ["p/machines/m7/*", "p/jobs/j1/*", "p/jobs/j2/*", "p/agents/*"]}
    }
    keys.grant("us-east-1/i-0abd", "m8", ["j3"], NOW)
    assert keys._clients.iam.asked == 1


def test_a_daemon_with_a_role_of_its_own_gets_an_hour_and_asks_for_no_more() -> None:
    sts = FakeSts(chained=True)
    keys = aws(sts)
    for _ in range(2):
        assert keys.grant("us-east-1/i-0abc", "m7", ["j1"], NOW)[1].expires_at == NOW + timedelta(hours=1)
    assert [asked["DurationSeconds"] for asked in sts.asked] == [43200, 3600, 3600]


@pytest.mark.parametrize(
    ("code", "kind"), [("AccessDenied", Denied), ("Throttling", Throttled), ("Odd", ProviderError)]
)
def test_a_refusal_of_aws_is_one_that_the_daemon_knows(code: str, kind: type[ProviderError]) -> None:
    sts = FakeSts()
    sts.error = code
    with pytest.raises(ProviderError) as caught:
        aws(sts).grant("us-east-1/i-0abc", "m7", ["j1"], NOW)
    assert type(caught.value) is kind


def test_more_jobs_than_a_policy_holds_are_refused_before_aws_does() -> None:
    jobs = [f"j{number:08d}" for number in range(10)]
    sts = FakeSts()
    aws(sts).grant("us-east-1/i-0abc", "m7", jobs, NOW)
    with pytest.raises(ProviderError, match="too many jobs"):
        aws(sts).grant("us-east-1/i-0abc", "m7", jobs * 2 + ["x" * 900], NOW)
