"""The instance-metadata server of one machine, in the form of AWS's IMDSv2: a token first, then the questions.

    PUT /latest/api/token                       with X-aws-ec2-metadata-token-ttl-seconds
    GET /latest/meta-data/instance-id           with X-aws-ec2-metadata-token
    GET /latest/meta-data/spot/instance-action  404 until the notice, then {"action": "terminate", "time": "...Z"}
"""

import json
import secrets
from collections.abc import Callable
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, HTTPServer

from config.clock import Clock

_LONGEST_TOKEN_S = 21_600


class MetadataServer(HTTPServer):
    """Answers one request per `handle_request`; `answers` gives the text for a path, or None for a 404."""

    def __init__(self, clock: Clock, answers: Callable[[str], str | None], poll_s: float) -> None:
        """Listen on a free port of 127.0.0.1; `handle_request` returns after `poll_s` without a request."""
        super().__init__(("127.0.0.1", 0), _Request)
        self.timeout = poll_s
        self.answers = answers
        self.clock = clock
        self.tokens: dict[str, float] = {}  # token -> monotonic second at which it ends

    @property
    def url(self) -> str:
        """Return where it listens."""
        return f"http://127.0.0.1:{self.server_port}"

    def new_token(self, lasts_s: int) -> str:
        """Return a new token, and forget those that ended."""
        now = self.clock.monotonic()
        self.tokens = {token: end for token, end in self.tokens.items() if end > now}
        token = secrets.token_urlsafe(24)
        self.tokens[token] = now + lasts_s
        return token

    def knows(self, token: str) -> bool:
        """Say whether a token is still good."""
        return self.tokens.get(token, 0.0) > self.clock.monotonic()


class _Request(BaseHTTPRequestHandler):
    server: MetadataServer
    timeout = 0.5  # a client that stalls may not keep the host from its timers

    def do_PUT(self) -> None:
        lasts = self.headers.get("X-aws-ec2-metadata-token-ttl-seconds", "")
        if self.path != "/latest/api/token":
            self._answer(404, "")
        elif not (lasts.isascii() and lasts.isdigit() and 1 <= int(lasts) <= _LONGEST_TOKEN_S):
            self._answer(400, f"X-aws-ec2-metadata-token-ttl-seconds must be 1 to {_LONGEST_TOKEN_S}")
        else:
            self._answer(200, self.server.new_token(int(lasts)))

    def do_GET(self) -> None:
        if not self.server.knows(self.headers.get("X-aws-ec2-metadata-token", "")):
            self._answer(401, "PUT /latest/api/token first")
            return
        text = self.server.answers(self.path)
        self._answer(404 if text is None else 200, text or "")

    def _answer(self, status: int, text: str) -> None:
        body = text.encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - http.server's own name
        """Say nothing: agents ask every second or so."""


def action(at: datetime) -> str:
    """Return the text of a notice that the machine will be taken away at `at`."""
    return json.dumps({"action": "terminate", "time": at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")})
