"""The user data of a machine, run by the real bash in a folder, with a metadata server and a bucket on loopback."""

import io
import json
import os
import subprocess
import sys
import threading
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from runner.bootstrap import USER_DATA_LIMIT, build_bundle, user_data
from runner.provider import Denied, LaunchRequest
from runner.providers.ec2 import boot, first
from runner.providers.rack.metadata import serve
from tests.pricing.offers import GIB, offer
from tests.runner.providers.machines import CLOCK, until

ROLE = "/latest/meta-data/iam/security-credentials/"
KEYS = {"AccessKeyId": "ASIAME", "SecretAccessKey": "hush", "Token": "session"}
AGENT = """
import json, os, sys
with open("said.part", "w") as file:
    json.dump({"argv": sys.argv, "options": os.environ["FRUGALD_STORE_OPTIONS"], "path": sys.path}, file)
os.rename("said.part", "said.json")
"""


def zipped(code: str) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as bundle:
        bundle.writestr("__main__.py", code)
    return file.getvalue()


def request(
    guard: timedelta = timedelta(hours=1), bundle: bytes = b"", store: str = "s3://bucket/here"
) -> LaunchRequest:
    told = user_data(store, "m-1", "agents/x.pyz", sha256(bundle).hexdigest())
    tags = {"frugald:owner": "me", "frugald:machine": "m-1"}
    return LaunchRequest(
        token="t", offer=offer(), bid_micro=None, disk=GIB, user_data=told, tags=tags, guard=guard,
    )  # fmt: skip


@dataclass
class Host:
    """What a machine meets when it boots. Its `shutdown` only writes down what it was told."""

    folder: Path
    objects: dict[str, bytes] = field(default_factory=dict)
    signatures: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        host = self

        class Bucket(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                host.signatures.append(self.headers.get("Authorization", ""))
                body = host.objects.get(self.path)
                self.send_response(200 if body is not None else 404)
                self.send_header("Content-Length", str(len(body or b"")))
                self.end_headers()
                self.wfile.write(body or b"")

            def log_message(self, *_: Any) -> None:
                pass

        self.bucket = ThreadingHTTPServer(("127.0.0.1", 0), Bucket)
        threading.Thread(target=self.bucket.serve_forever, daemon=True).start()
        answers = {
            "/latest/meta-data/instance-id": "i-1",
            ROLE: "frugald-machine",
            f"{ROLE}frugald-machine": json.dumps(KEYS),
        }
        self.metadata = serve(CLOCK, answers.get)
        self.tools = self.folder / "tools"
        self.tools.mkdir()
        self._tool("shutdown", f'echo "$@" >>{self.folder}/shutdowns')
        self._tool("systemd-run", "exit 1")
        self._tool("python3", f'exec {sys.executable} "$@"')

    def _tool(self, name: str, line: str) -> None:
        path = self.tools / name
        path.write_text(f"#!/bin/bash\n{line}\n")
        path.chmod(0o755)

    @property
    def shutdowns(self) -> list[str]:
        path = self.folder / "shutdowns"
        return path.read_text().splitlines() if path.exists() else []

    def boots(self, script: str) -> None:
        """Run the script to its end; the guest timer goes on until it has run out."""
        path = self.folder / "user-data"
        path.write_text(script)
        environment = {
            "PATH": f"{self.tools}:/usr/bin:/bin", "FRUGALD_DISK": str(self.folder / "disk"), "FRUGALD_FIRST_WAIT_S": "0",
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{self.bucket.server_address[1]}",
            "AWS_EC2_METADATA_SERVICE_ENDPOINT": self.metadata,
        }  # fmt: skip
        subprocess.run(["/bin/bash", str(path)], env=environment, check=False, timeout=60, capture_output=True)

    @property
    def console(self) -> str:
        return (self.folder / "disk/console.log").read_text()


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Host]:
    host = Host(tmp_path)
    yield host
    host.bucket.shutdown()
    host.bucket.server_close()


def script(**changes: Any) -> str:
    return boot.user_data(request(**changes), "us-east-1", "AROAME")


def test_the_timer_is_the_first_thing_that_a_machine_sets() -> None:
    assert script().splitlines()[:2] == ["#!/bin/bash", "shutdown -h +60"]
    assert script(guard=timedelta(seconds=61)).splitlines()[1] == "shutdown -h +2"


def test_equal_launches_boot_equally_and_stay_small() -> None:
    assert script() == script()
    assert len(script().encode()) < USER_DATA_LIMIT / 1.5
    with pytest.raises(Denied, match="16384"):
        script(store="s3://bucket/" + "x" * 12_000)


def test_a_machine_becomes_the_agent_and_ends_with_it(host: Host) -> None:
    bundle = zipped(AGENT)
    host.objects["/bucket/here/agents/x.pyz"] = bundle
    host.boots(script(bundle=bundle, guard=timedelta(seconds=2)))
    disk = host.folder / "disk"
    said = json.loads((disk / "said.json").read_text())
    assert said["argv"] == [
        str(disk / "agent"), "--store", "s3://bucket/here", "--machine", "m-1", "--folder", str(disk),
        "--metadata", host.metadata,
    ]  # fmt: skip
    assert json.loads(said["options"]) == {"region": "us-east-1", "grant": "keys/AROAME:i-1/store.json"}
    assert said["path"][0] == str(disk / "agent")
    assert host.signatures[0].startswith("AWS4-HMAC-SHA256 Credential=ASIAME/")
    assert host.shutdowns[:2] == ["-h +1", "-h now"]
    until(lambda: host.shutdowns.count("-h now") == 2)  # that of the timer, which nothing of this has stopped


def test_the_real_agent_starts_from_its_unpacked_bundle(host: Host) -> None:
    bundle = build_bundle(native=True)
    host.objects["/bucket/here/agents/x.pyz"] = bundle
    told = script(bundle=bundle, guard=timedelta(seconds=2)).replace(
        '"--metadata", metadata]', '"--metadata", metadata, "-h"]'
    )
    host.boots(told)
    assert "usage: runner.agent" in host.console
    assert (host.folder / "disk/agent/native/obstore/_obstore.abi3.so").exists()
    until(lambda: host.shutdowns.count("-h now") == 2)


def test_a_bundle_with_another_hash_is_not_run_and_the_machine_ends(host: Host) -> None:
    host.objects["/bucket/here/agents/x.pyz"] = zipped(AGENT)
    host.boots(script(bundle=b"something else", guard=timedelta(seconds=1)))
    assert "the launch named" in host.console
    assert not (host.folder / "disk/agent").exists()
    until(lambda: host.shutdowns.count("-h now") == 2)


def test_a_machine_that_gets_no_agent_tries_for_a_while_and_ends(host: Host) -> None:
    host.boots(script(guard=timedelta(seconds=1)))
    assert host.console.count("no agent yet") == first.TRIES
    until(lambda: host.shutdowns.count("-h now") == 2)


def guarded(host: Host, seconds: int) -> "subprocess.Popen[bytes]":
    path = Path(boot.__file__).with_name("guard.sh")
    command = ["/bin/bash", str(path), str(host.folder), str(seconds)]
    return subprocess.Popen(command, env={"PATH": f"{host.tools}:/usr/bin:/bin"})


def test_a_lease_moves_the_timer_and_the_systems_own_stays_behind_it(host: Host) -> None:
    began = CLOCK.monotonic()
    with guarded(host, 2) as timer:
        (host.folder / "guard").write_text("4.500\n")
        until(lambda: timer.poll() is not None)
    assert 4.4 <= CLOCK.monotonic() - began < 15
    assert host.shutdowns == ["-h +2", "-h now"]


def test_a_lease_can_bring_the_end_nearer(host: Host) -> None:
    with guarded(host, 600) as timer:
        (host.folder / "guard").write_text("0\n")
        until(lambda: timer.poll() is not None)
    assert host.shutdowns[-1] == "-h now"


@pytest.mark.parametrize("text", ["", "soon\n", "nan\n", "-1.000\n", "$(touch hacked)\n", "1e9\n"])
def test_what_is_no_number_leaves_the_timer_alone(host: Host, text: str) -> None:
    with guarded(host, 1) as timer:
        (host.folder / "guard").write_text(text)
        until(lambda: timer.poll() is not None)
    assert host.shutdowns == ["-h now"]
    assert not (host.folder / "hacked").exists()


def test_the_signature_is_the_one_that_botocore_makes() -> None:
    url = "https://bucket.s3.eu-west-1.amazonaws.com/here/agents/x.pyz"
    known = AWSRequest("GET", url, headers={"X-Amz-Content-SHA256": first.EMPTY})
    S3SigV4Auth(Credentials("ASIAME", "hush", "session"), "s3", "eu-west-1").add_auth(known)
    moment = known.context["timestamp"]
    scheme, host, path = first.address("s3://bucket/here", "eu-west-1", "agents/x.pyz")
    assert f"{scheme}://{host}{path}" == url
    ours = first.signed(host, path, "eu-west-1", KEYS, moment)
    assert ours["Authorization"] == known.headers["Authorization"]


@pytest.mark.parametrize(
    ("store", "region", "url"),
    [
        ("s3://bucket", "us-east-1", "https://bucket.s3.us-east-1.amazonaws.com/k"),
        ("s3://my.bucket/p", "us-east-1", "https://s3.us-east-1.amazonaws.com/my.bucket/p/k"),
        ("s3://bucket/p", "cn-north-1", "https://bucket.s3.cn-north-1.amazonaws.com.cn/p/k"),
    ],
)
def test_every_bucket_has_its_address(monkeypatch: pytest.MonkeyPatch, store: str, region: str, url: str) -> None:
    for name in [name for name in os.environ if name.startswith("AWS_ENDPOINT_URL")]:
        monkeypatch.delenv(name)
    scheme, host, path = first.address(store, region, "k")
    assert f"{scheme}://{host}{path}" == url
