"""What a machine of AWS runs first. Its text travels in the user data, so it needs nothing but Python's own library.

It fetches the agent's bundle from S3 as the machine itself, checks the hash that the launch named, unpacks it, and
becomes the agent. `AWS_ENDPOINT_URL` and `AWS_EC2_METADATA_SERVICE_ENDPOINT` are honoured where they are set.
"""

import hashlib
import hmac
import io
import json
import os
import sys
import threading
import time
import urllib.parse
import urllib.request
import zipfile
from pathlib import Path

METADATA = "http://169.254.169.254"
EMPTY = hashlib.sha256(b"").hexdigest()
TRIES = 9
# The machine's role may not be known everywhere yet: 4 minutes in all.
FIRST_WAIT_S = float(os.environ.get("FRUGALD_FIRST_WAIT_S", "1"))
OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def ask(url: str, headers: dict[str, str], method: str = "GET") -> bytes:
    """Return the answer; never through a proxy. Raises OSError."""
    # The addresses are those of the cloud, or were set by whoever started this machine.
    request = urllib.request.Request(url, method=method, headers=headers)  # noqa: S310
    with OPENER.open(request, timeout=30) as answer:
        return bytes(answer.read())


def identity(metadata: str) -> tuple[str, dict[str, str]]:
    """Return the machine's id and its short-lived credentials, by IMDSv2."""
    lasts = {"X-aws-ec2-metadata-token-ttl-seconds": "600"}
    token = {"X-aws-ec2-metadata-token": ask(f"{metadata}/latest/api/token", lasts, "PUT").decode()}
    instance = ask(f"{metadata}/latest/meta-data/instance-id", token).decode()
    roles = f"{metadata}/latest/meta-data/iam/security-credentials/"
    role = ask(roles, token).decode().split()[0]
    return instance, json.loads(ask(roles + role, token))


def address(store: str, region: str, key: str) -> tuple[str, str, str]:
    """Return scheme, host and path of an object of `s3://bucket/prefix`."""
    bucket, _, prefix = store.removeprefix("s3://").rstrip("/").partition("/")
    path = "/" + urllib.parse.quote(f"{prefix}/{key}" if prefix else key)
    endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
    if endpoint:
        parts = urllib.parse.urlsplit(endpoint)
        return parts.scheme, parts.netloc, f"/{bucket}{path}"
    host = f"s3.{region}.amazonaws.com" + (".cn" if region.startswith("cn-") else "")
    return ("https", host, f"/{bucket}{path}") if "." in bucket else ("https", f"{bucket}.{host}", path)


def signed(host: str, path: str, region: str, keys: dict[str, str], moment: str) -> dict[str, str]:
    """Return the headers of a signed GET (Signature Version 4); `moment` is like 20260302T090000Z."""
    sent = {
        "host": host,
        "x-amz-content-sha256": EMPTY,
        "x-amz-date": moment,
        "x-amz-security-token": keys["Token"],
    }
    names = ";".join(sent)
    canonical = "\n".join(["GET", path, "", *(f"{name}:{value}" for name, value in sent.items()), "", names, EMPTY])
    scope = f"{moment[:8]}/{region}/s3/aws4_request"
    digest = hashlib.sha256(canonical.encode()).hexdigest()
    key = f"AWS4{keys['SecretAccessKey']}".encode()
    for part in scope.split("/"):
        key = hmac.digest(key, part.encode(), "sha256")
    mark = hmac.new(key, f"AWS4-HMAC-SHA256\n{moment}\n{scope}\n{digest}".encode(), "sha256").hexdigest()
    credential = f"{keys['AccessKeyId']}/{scope}"
    authorization = f"AWS4-HMAC-SHA256 Credential={credential}, SignedHeaders={names}, Signature={mark}"
    return {**sent, "Authorization": authorization}


def fetch(facts: dict[str, str], metadata: str) -> tuple[str, bytes]:
    """Return the machine's id and the checked bundle. Raises OSError, ValueError, KeyError, IndexError."""
    instance, keys = identity(metadata)
    scheme, host, path = address(facts["store"], facts["region"], facts["bundle_key"])
    moment = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    bundle = ask(f"{scheme}://{host}{path}", signed(host, path, facts["region"], keys, moment))
    digest = hashlib.sha256(bundle).hexdigest()
    if digest != facts["bundle_sha256"]:
        sys.exit(f"first: {facts['bundle_key']} has SHA-256 {digest}, the launch named {facts['bundle_sha256']}")
    return instance, bundle


def patiently(facts: dict[str, str], metadata: str) -> tuple[str, bytes]:
    """Return the same, tried for some minutes."""
    for attempt in range(TRIES):
        try:
            return fetch(facts, metadata)
        except (OSError, ValueError, KeyError, IndexError) as error:
            sys.stderr.write(f"first: no agent yet: {error!r}\n")
        threading.Event().wait(FIRST_WAIT_S * min(2**attempt, 60))
    sys.exit("first: the agent can't be fetched, the machine ends")


def main() -> None:
    """Become the agent; the facts are beside this file, and the folder is the machine's own."""
    if sys.version_info < (3, 11):  # noqa: UP036 - the image is not ours
        sys.exit(f"first: the agent needs Python 3.11, this image has {sys.version.split()[0]}: set another `image`")
    folder = Path(__file__).resolve().parent
    facts = json.loads((folder / "facts.json").read_text())
    metadata = (os.environ.get("AWS_EC2_METADATA_SERVICE_ENDPOINT") or METADATA).rstrip("/")
    instance, bundle = patiently(facts, metadata)
    agent = folder / "agent"
    # From the folder, not from the zip: the system can't load the store's library from inside one.
    zipfile.ZipFile(io.BytesIO(bundle)).extractall(agent)
    options = {"region": facts["region"], "grant": f"keys/{facts['role_id']}:{instance}/store.json"}
    os.environ["FRUGALD_STORE_OPTIONS"] = json.dumps(options)
    command = [sys.executable, "-P", str(agent), "--store", facts["store"], "--machine", facts["machine"]]
    command += ["--folder", str(folder), "--metadata", metadata]
    os.execv(sys.executable, command)  # noqa: S606 - a list that we built, no shell


if __name__ == "__main__":
    main()
