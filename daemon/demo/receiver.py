"""A small webhook receiver on loopback that checks every signature with the `standardwebhooks` package."""

import json
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from standardwebhooks.webhooks import Webhook, WebhookVerificationError

_LARGEST = 1024 * 1024


@dataclass(frozen=True)
class Received:
    """One request as it came."""

    path: str
    headers: dict[str, str]
    body: bytes
    valid: bool

    @property
    def json(self) -> dict[str, Any]:
        """Return the body."""
        return dict(json.loads(self.body))


@dataclass
class Receiver:
    """Takes webhooks at `/NAME`, for each name in `secrets`; `answers[path]` are given first, in their order."""

    secrets: dict[str, str]
    received: list[Received] = field(default_factory=list)
    answers: dict[str, list[tuple[int, dict[str, str], bytes]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Open the port; requests are taken from `start` on."""
        self._arrived = threading.Condition()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                outer._take(self)

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.1,), name="receiver", daemon=True)

    def start(self) -> None:
        """Begin to take requests."""
        self._thread.start()

    def close(self) -> None:
        """Take no more."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def url(self, name: str) -> str:
        """Return where `name` is posted to."""
        return f"http://127.0.0.1:{self._server.server_address[1]}/{name}"

    def wait_for(self, count: int, seconds: float = 10) -> bool:
        """Wait until `count` requests have come; say whether they have."""
        with self._arrived:
            return self._arrived.wait_for(lambda: len(self.received) >= count, seconds)

    def _take(self, request: BaseHTTPRequestHandler) -> None:
        length = request.headers.get("Content-Length", "0")
        body = request.rfile.read(min(int(length), _LARGEST) if length.isdecimal() else 0)
        headers = {name.lower(): value for name, value in request.headers.items()}
        path = request.path.lstrip("/").split("?")[0]
        with self._arrived:
            self.received.append(Received(request.path, headers, body, self._is_valid(path, headers, body)))
            planned = self.answers.get(path, [])
            status, extra, answer = planned.pop(0) if planned else (204, {}, b"")
            self._arrived.notify_all()
        request.send_response(status)
        for name, value in extra.items():
            request.send_header(name, value)
        request.send_header("Content-Length", str(len(answer)))
        request.end_headers()
        request.wfile.write(answer)

    def _is_valid(self, path: str, headers: dict[str, str], body: bytes) -> bool:
        secret = self.secrets.get(path)
        if secret is None:
            return False
        try:
            Webhook(secret).verify(body, headers)
        except (WebhookVerificationError, ValueError):  # ValueError: a body or a header that is none
            return False
        return True
