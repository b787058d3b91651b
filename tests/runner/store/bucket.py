"""A bucket on loopback: moto behind a counter that can fail parts of uploads and refuse keys."""

import re
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import boto3
from moto.server import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import make_server

KEYS = {"aws_access_key_id": "AKIATEST", "aws_secret_access_key": "secret"}
NAME = "frugald-123456789012-us-east-1"


@dataclass
class Bucket:
    """What was asked of it, and the answers that a test puts in place of its own."""

    endpoint: str = ""
    asked: list[tuple[str, str, str]] = field(default_factory=list)  # method, path with query, access key
    refuse: Callable[[str, str], str] = lambda _method, _path: ""  # "403 AccessDenied" instead of the real answer

    @property
    def client(self) -> Any:
        return boto3.client("s3", endpoint_url=self.endpoint, region_name="us-east-1", **KEYS)

    def count(self, method: str, part: str = "") -> int:
        return len([path for asked, path, _ in self.asked if asked == method and part in path])

    def empty(self) -> None:
        self.refuse = lambda _method, _path: ""
        client = self.client
        for found in client.list_objects_v2(Bucket=NAME).get("Contents", []):
            client.delete_object(Bucket=NAME, Key=found["Key"])
        self.asked.clear()


@contextmanager
def bucket() -> Iterator[Bucket]:
    made = Bucket()
    moto = DomainDispatcherApplication(create_backend_app)

    def app(environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        method, path = environ["REQUEST_METHOD"], f"{environ['PATH_INFO']}?{environ.get('QUERY_STRING', '')}"
        signed = re.search(r"Credential=([^/]+)/", environ.get("HTTP_AUTHORIZATION", ""))
        made.asked.append((method, path, signed[1] if signed else ""))
        refusal = made.refuse(method, path)
        if not refusal:
            answer: Iterable[bytes] = moto(environ, start)
            return answer
        environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        status, code = refusal.split(" ")
        start(f"{status} {code}", [("Content-Type", "application/xml")])
        return [] if method == "HEAD" else [f"<Error><Code>{code}</Code><Message>no</Message></Error>".encode()]

    server = make_server("127.0.0.1", 0, app, threaded=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    made.endpoint = f"http://127.0.0.1:{server.server_port}"
    try:
        made.client.create_bucket(Bucket=NAME)
        yield made
    finally:
        server.shutdown()
        server.server_close()
