import json
from collections.abc import Iterator
from datetime import timedelta
from hashlib import sha256
from pathlib import Path

import pytest

from runner.agent.shelf import Shelf, Staged
from runner.store import Missing, Store, StoreError, open_store
from runner.store.grants import Grant, Granted
from runner.store.s3 import BucketStore, bucket_store
from tests.fakes.clock import FakeClock
from tests.runner.store.bucket import NAME, Bucket, bucket
from tests.runner.store.contract import StoreContract


@pytest.fixture(scope="module")
def served() -> Iterator[Bucket]:
    with bucket() as made:
        yield made


@pytest.fixture
def cloud(served: Bucket, monkeypatch: pytest.MonkeyPatch) -> Bucket:
    served.empty()
    monkeypatch.setenv("AWS_ENDPOINT_URL", served.endpoint)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIADAEMON")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    return served


class TestBucketStore(StoreContract):
    @pytest.fixture
    def store(self, cloud: Bucket) -> Store:
        assert cloud.endpoint
        return open_store(f"s3://{NAME}")


@pytest.fixture
def store(cloud: Bucket) -> Store:
    assert cloud.endpoint
    return open_store(f"s3://{NAME}/some/prefix/")


def test_a_prefix_is_before_every_key_and_in_no_answer(store: Store, cloud: Bucket) -> None:
    store.put("jobs/7/x#1", b"1")
    cloud.client.put_object(Bucket=NAME, Key="some/other", Body=b"2")
    assert [info.key for info in store.list("")] == ["jobs/7/x#1"]
    assert store.get("jobs/7/x#1") == b"1"
    assert store.url == f"s3://{NAME}/some/prefix"
    found = cloud.client.list_objects_v2(Bucket=NAME)["Contents"]
    assert [f["Key"] for f in found] == ["some/other", "some/prefix/jobs/7/x%231"]


def test_a_key_has_to_fit_behind_the_prefix(store: Store) -> None:
    room = 1024 - len("some/prefix/")
    store.put("k" * room, b"x")
    for key in ("k" * (room + 1), "%" * (room // 2)):
        with pytest.raises(StoreError, match=f"{room} are allowed, shorten it"):
            store.put(key, b"x")


def test_a_large_file_goes_in_parts(store: Store, cloud: Bucket, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x" * 20_000_000)
    store.put_file("ckpt", tmp_path / "file")
    assert cloud.count("PUT", "partNumber=") == 3
    assert cloud.count("POST", "uploads") == 1


def test_an_upload_that_fails_leaves_no_object_and_no_parts(store: Store, cloud: Bucket, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x" * 20_000_000)
    cloud.refuse = lambda _method, path: "403 AccessDenied" if "partNumber=2" in path else ""
    with pytest.raises(StoreError, match="may not do that"):
        store.put_file("ckpt", tmp_path / "file")
    assert store.head("ckpt") is None
    assert "Uploads" not in cloud.client.list_multipart_uploads(Bucket=NAME)


def test_a_file_that_has_not_changed_is_not_sent_again(store: Store, cloud: Bucket, tmp_path: Path) -> None:
    files = []
    for name, size in (("model.pt", 12_000_000), ("optimizer.pt", 1_000)):
        content = name.encode() * (size // len(name))
        (tmp_path / name).write_bytes(content)
        files.append(Staged(name, tmp_path / name, len(content), sha256(content).hexdigest()))
    shelf = Shelf(store, "7", 1, 2, FakeClock())
    shelf.put(1, files, 10.0, lambda: True)
    assert cloud.count("PUT", "model.pt") == 2
    cloud.asked.clear()
    (tmp_path / "optimizer.pt").write_bytes(b"new")
    files[1] = Staged("optimizer.pt", tmp_path / "optimizer.pt", 3, sha256(b"new").hexdigest())
    shelf.put(2, files, 20.0, lambda: True)
    assert [path.rpartition("/")[2] for method, path, _ in cloud.asked if method == "PUT"] == [
        "optimizer.pt?",
        "manifest.json?",
    ]


@pytest.mark.parametrize(
    ("refusal", "says"),
    [
        ("403 AccessDenied", "may not do that"),
        ("400 ExpiredToken", "have expired"),
        ("403 InvalidAccessKeyId", "doesn't know the access key"),
        ("403 SignatureDoesNotMatch", "secret key"),
        ("403 RequestTimeTooSkewed", "clock is wrong"),
        ("400 AuthorizationHeaderMalformed", "another region"),
        ("301 PermanentRedirect", "another region"),
        ("404 NoSuchBucket", "no such bucket"),
    ],
)
def test_a_refusal_says_what_to_do(store: Store, cloud: Bucket, refusal: str, says: str) -> None:
    cloud.refuse = lambda _method, _path: refusal
    for call in (lambda: store.put("k", b"x"), lambda: store.get("k"), lambda: list(store.list(""))):
        with pytest.raises(StoreError, match=says) as caught:
            call()
        assert not isinstance(caught.value, Missing)
        assert f"s3://{NAME}/some/prefix" in str(caught.value)


def test_what_is_missing_is_missing_also_where_s3_only_says_denied(store: Store, cloud: Bucket) -> None:
    """S3 hides a 404 from whoever may list some prefixes only; a machine may list its own."""
    store.put("jobs/7/there", b"x")
    cloud.refuse = lambda method, path: "403 AccessDenied" if "list-type" not in path and method != "PUT" else ""
    with pytest.raises(Missing):
        store.get("jobs/7/command.json")
    assert store.head("jobs/7/command.json") is None
    with pytest.raises(StoreError, match="may not do that"):
        store.get("jobs/7/there")


def test_a_bucket_that_is_not_there_says_so(cloud: Bucket) -> None:
    assert cloud.endpoint
    with pytest.raises(StoreError, match="no such bucket: make it with `aws s3 mb`"):
        open_store("s3://another-bucket").put("key", b"x")


@pytest.mark.parametrize(
    ("url", "options", "says"),
    [
        ("s3://", {}, "names no bucket"),
        ("s3://Bucket/x", {}, "names no bucket"),
        ("s3://bucket/a//b", {}, "is no key"),
        ("s3://bucket/../b", {}, "is no key"),
        ("s3://bucket/a*", {}, "shorten it"),
        ("s3://bucket/" + "p" * 65, {}, "shorten it"),
        ("s3://bucket/x", {"regoin": "eu"}, "remove regoin"),
        ("s3://bucket/x", {"endpoint": "localhost:9000"}, "must start with https://"),
        ("s3://bucket/x", {"profile": "nobody"}, "no AWS credentials were found"),
    ],
)
def test_a_url_that_opens_nothing_says_what_to_write(url: str, options: dict[str, str], says: str) -> None:
    with pytest.raises(StoreError, match=says):
        open_store(url, options)


@pytest.mark.parametrize(
    ("bucket_name", "options", "region"),
    [
        ("frugald-1-eu-west-1", {}, "eu-west-1"),
        ("frugald-1-us-gov-west-1", {}, "us-gov-west-1"),
        ("frugald-1-eu-west-1", {"region": "us-west-2"}, "us-west-2"),
        ("anything", {}, "us-east-1"),
    ],
)
def test_the_region_is_given_or_read_from_the_bucket_name(
    cloud: Bucket, bucket_name: str, options: dict[str, str], region: str
) -> None:
    assert cloud.endpoint
    assert bucket_store(bucket_name, options)._store.config["region"] == region  # type: ignore[attr-defined]


def test_china_has_an_endpoint_of_its_own(cloud: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    assert cloud.endpoint
    monkeypatch.delenv("AWS_ENDPOINT_URL")
    config = bucket_store("frugald-1-cn-north-1", {})._store.config  # type: ignore[attr-defined]
    assert config["endpoint_url_s3"] == "https://s3.cn-north-1.amazonaws.com.cn"


# ---------------------------------------------------------------------- grants


def grant(clock: FakeClock, key: str = "ASIAONE", hours: float = 12) -> Grant:
    return Grant(key, "secret", "token", clock.now() + timedelta(hours=hours))


class Machine:
    """The store as a machine opens it: its identity reads the grant, the grant opens the rest."""

    def __init__(self, cloud: Bucket) -> None:
        self.cloud = cloud
        self.clock = FakeClock()
        # obstore compares with the real clock, so the test's begins there.
        self.clock.advance(timedelta(days=365 * 40))
        self.store: BucketStore = bucket_store(f"{NAME}/p", {"grant": "keys/AROA:i-1/store.json"}, self.clock)

    def give(self, given: Grant) -> None:
        self.cloud.client.put_object(Bucket=NAME, Key="p/keys/AROA:i-1/store.json", Body=given.to_json())
        self.cloud.asked.clear()

    def signers(self, part: str) -> set[str]:
        return {key for _, path, key in self.cloud.asked if part in path}


@pytest.fixture
def machine(cloud: Bucket) -> Machine:
    return Machine(cloud)


def test_a_machine_waits_for_its_grant_and_then_uses_it_for_everything(machine: Machine) -> None:
    with pytest.raises(StoreError, match="no valid credentials yet") as caught:
        machine.store.put("jobs/7/x", b"1")
    assert not isinstance(caught.value, Missing)
    machine.give(grant(machine.clock))
    machine.store.put("jobs/7/x", b"1")
    assert machine.store.get("jobs/7/x") == b"1"
    assert machine.signers("/keys/") == {"AKIADAEMON"}  # here the environment stands for the instance profile
    assert machine.signers("/jobs/") == {"ASIAONE"}
    assert machine.cloud.count("GET", "/keys/") == 1


def test_a_grant_is_read_again_when_a_third_of_its_life_is_left() -> None:
    clock = FakeClock()
    box = [grant(clock, "ASIAONE", 12)]
    reads: list[int] = []

    def read() -> bytes:
        reads.append(1)
        return box[0].to_json()

    granted = Granted(read, clock)
    granted.renew()
    box[0] = grant(clock, "ASIATWO", 18)
    clock.advance(timedelta(hours=7.9))
    granted.renew()
    assert (granted.current().access_key_id, len(reads)) == ("ASIAONE", 1)
    clock.advance(timedelta(hours=0.2))
    granted.renew()
    assert (granted.current().access_key_id, len(reads)) == ("ASIATWO", 2)


def test_a_store_that_fails_at_renewal_costs_nothing_while_the_grant_lasts() -> None:
    clock = FakeClock()
    given = grant(clock)
    answers: list[bytes | StoreError] = [given.to_json()]

    def read() -> bytes:
        answer = answers[-1]
        if isinstance(answer, StoreError):
            raise answer
        return answer

    granted = Granted(read, clock)
    granted.renew()
    answers.append(StoreError("away"))
    clock.advance(timedelta(hours=9))
    granted.renew()
    assert granted.current() == given
    clock.advance(timedelta(hours=4))
    with pytest.raises(StoreError, match="no valid credentials"):
        granted.renew()


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"expires_at": "soon"}', '{"expires_at": 7}'])
def test_an_object_that_is_no_grant_is_a_store_error(text: str) -> None:
    with pytest.raises(StoreError, match="no valid credentials"):
        Granted(lambda: text.encode(), FakeClock()).renew()


def test_a_grant_shows_no_secret(machine: Machine) -> None:
    given = grant(machine.clock)
    assert "secret" not in repr(given)
    assert json.loads(given.to_json())["expires_at"].endswith("+00:00")
    assert Grant.from_json(given.to_json()) == given
