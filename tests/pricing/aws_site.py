"""The stand-in's catalogue behind a loopback port, for tests of prices alone: any signature is taken."""

import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from urllib.parse import parse_qsl

from werkzeug.serving import WSGIRequestHandler, make_server
from werkzeug.wrappers import Request, Response

from tests.clouds.aws_prices import Catalogue
from tests.clouds.call import Answer, Call
from tests.clouds.wire import Refused, ec2_answer, error

_SCOPE = re.compile(r"Credential=(?P<key>[^/]+)/\d+/(?P<region>[^/]+)/(?P<service>[^/]+)/")


@dataclass
class Site:
    """A catalogue, what runs in the account, and the cloud's clock; `fetched` are the public addresses asked for."""

    catalogue: Catalogue
    now: datetime
    running: dict[str, list[dict[str, Any]]] = field(default_factory=dict)  # by region
    public: dict[str, bytes] = field(default_factory=dict)
    fetched: list[str] = field(default_factory=list)
    denied: set[str] = field(default_factory=set)

    def fetch(self, url: str) -> bytes:
        """Stand in for the public web."""
        self.fetched.append(url)
        if url not in self.public:
            raise OSError(f"nothing lies at {url}")
        return self.public[url]

    def run(self, machine_type: str, zone: str, **more: Any) -> None:
        """Let a machine run, on demand unless it is said otherwise."""
        machine = {
            "InstanceType": machine_type,
            "Placement": {"AvailabilityZone": zone, "Tenancy": "default"},
            "PlatformDetails": "Linux/UNIX",
        }
        self.running.setdefault(zone[:-1], []).append(machine | more)

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Any:
        request = Request(environ)
        answer = self._answer(_decoded(request, self.now))
        return Response(answer.body, answer.status, content_type=answer.content_type)(environ, start_response)

    def _answer(self, call: Call) -> Answer:
        if call.action == "DescribeInstances":
            self.catalogue.asked.append(call.action)
            if call.action in self.denied:
                return error(call, Refused("UnauthorizedOperation", status=403))
            groups = [{"Instances": [machine]} for machine in self.running.get(call.region, ())]
            return ec2_answer(call.action, {"Reservations": groups})
        answer = self.catalogue.answer(call)
        return answer or error(call, Refused("InvalidAction", f"{call.service} has no {call.action} here"))


def _decoded(request: Request, now: datetime) -> Call:
    scope = _SCOPE.search(request.headers["Authorization"])
    assert scope
    body = request.get_data().decode()
    target = request.headers.get("X-Amz-Target")
    if scope["service"] == "ec2":
        params: dict[str, Any] = dict(parse_qsl(body, keep_blank_values=True))
        action = params["Action"]
    else:
        params = json.loads(body or "{}")
        action = target.rpartition(".")[2] if target else f"{request.method} {request.path}"
    return Call(scope["service"], scope["region"], action, params, scope["key"], now)


class _Quiet(WSGIRequestHandler):
    def log(self, *args: Any) -> None:
        pass


@dataclass
class Port:
    """A loopback port behind which one site after the other can stand: making clients takes longer than a test."""

    url: str = ""
    site: Site | None = None

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Any:
        assert self.site
        return self.site(environ, start_response)


@contextmanager
def open_port() -> Iterator[Port]:
    """Serve whatever site stands behind the port until the end of the block."""
    port = Port()
    server = make_server("127.0.0.1", 0, port, threaded=True, request_handler=_Quiet)
    port.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield port
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
