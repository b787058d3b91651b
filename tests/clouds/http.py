"""A web server on loopback, and a request exactly as it came over the wire: signatures cover its very bytes."""

import socket
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from io import BytesIO
from typing import Any
from urllib.parse import unquote

from werkzeug.serving import BaseWSGIServer, WSGIRequestHandler, make_server

App = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]
_REASONS = {200: "OK", 204: "No Content", 401: "Unauthorized", 403: "Forbidden", 404: "Not Found"}


@dataclass(frozen=True)
class Request:
    """`path` and `query` as they were sent, still encoded; names of `headers` in lower case."""

    method: str
    path: str
    query: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def pairs(self) -> list[tuple[str, str]]:
        """Return the decoded parts of the query. A plus stays a plus: signers write a space as %20."""
        split = (one.partition("=") for one in self.query.split("&") if one)
        return [(unquote(name), unquote(value)) for name, _, value in split]

    @property
    def form(self) -> dict[str, str]:
        """Return the fields of the body, or else of the query."""
        text = self.body.decode() or self.query
        split = (one.partition("=") for one in text.split("&") if one)
        return {unquote(name.replace("+", " ")): unquote(value.replace("+", " ")) for name, _, value in split}


def read(environ: dict[str, Any]) -> Request:
    """Take the whole request and put its body back for whoever reads it next."""
    body = _body(environ)
    environ["wsgi.input"] = BytesIO(body)
    path, _, query = str(environ["REQUEST_URI"]).partition("?")
    headers = {
        name.removeprefix("HTTP_").lower().replace("_", "-"): str(value)
        for name, value in environ.items()
        if name.startswith("HTTP_") or name in {"CONTENT_TYPE", "CONTENT_LENGTH"}
    }
    return Request(environ["REQUEST_METHOD"], path, query, headers, body)


def _body(environ: dict[str, Any]) -> bytes:
    if environ.get("wsgi.input_terminated"):
        body: bytes = environ["wsgi.input"].read()
        environ.pop("HTTP_TRANSFER_ENCODING", None)
        environ["CONTENT_LENGTH"] = str(len(body))
        return body
    taken: bytes = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
    return taken


def line(status: int) -> str:
    return f"{status} {_REASONS.get(status, 'Unknown')}"


def hang_up(environ: dict[str, Any]) -> Iterable[bytes]:
    """Close the connection without an answer."""
    wire: socket.socket = environ["werkzeug.socket"]
    wire.shutdown(socket.SHUT_RDWR)
    raise ConnectionAbortedError


class _Quiet(WSGIRequestHandler):
    protocol_version = "HTTP/1.1"

    def send_response(self, code: int, message: str | None = None) -> None:
        """Leave the date to the application: by default the server's own comes first."""
        self.send_response_only(code, message)

    def log(self, *_: Any) -> None:
        pass


class Server:
    """One web server on a port of its own, in threads of this process."""

    def __init__(self, app: App) -> None:
        self._served: BaseWSGIServer = make_server("127.0.0.1", 0, app, threaded=True, request_handler=_Quiet)
        self._thread = threading.Thread(target=self._served.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._served.server_port}"

    def stop(self) -> None:
        self._served.shutdown()
        self._thread.join()
        self._served.server_close()
