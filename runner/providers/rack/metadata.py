"""The instance-metadata server of one machine, in the form of AWS's IMDSv2: a token first, then the questions.

PUT /latest/api/token                       with X-aws-ec2-metadata-token-ttl-seconds
GET /latest/meta-data/instance-id           with X-aws-ec2-metadata-token
GET /latest/meta-data/spot/instance-action  404 until the notice, then {"action": "terminate", "time": "...Z"}
"""

import secrets
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler
from socketserver import ThreadingTCPServer

from config.clock import Clock

_LONGEST_TOKEN_S = 21_600


Answers = Callable[[str], str | None]  # the text for a path, None for a 404


def serve(clock: Clock, answers: Answers) -> str:
    """Answer on a free port of 127.0.0.1 until the process ends, in threads of its own; return the address."""
    server = MetadataServer(clock, answers)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{server.server_address[1]}"


class MetadataServer(ThreadingTCPServer):
    """The tokens given out, and where the answers come from."""

    daemon_threads = True

    def __init__(self, clock: Clock, answers: Answers) -> None:
        """Listen, but answer nothing yet. Not http.server's own class: that one asks a name server for our name."""
        super().__init__(("127.0.0.1", 0), _Request)
        self.answers = answers
        self.clock = clock
        self.tokens: dict[str, float] = {}  # token -> monotonic second at which it ends

    def new_token(self, lasts_s: int) -> str:
        """Return a new token, and forget those that ended."""
        now = self.clock.monotonic()
        self.tokens = {token: end for token, end in self.tokens.copy().items() if end > now}
        token = secrets.token_urlsafe(24)
        self.tokens[token] = now + lasts_s
        return token

    def knows(self, token: str) -> bool:
        """Say whether a token is still good."""
        return self.tokens.get(token, 0.0) > self.clock.monotonic()


class _Request(BaseHTTPRequestHandler):
    server: MetadataServer
    timeout = 5  # for a client that stalls

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
