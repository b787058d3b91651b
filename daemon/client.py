"""Talk to the running daemon over its Unix socket."""

from pathlib import Path
from typing import Any

import httpx


class Unreachable(Exception):
    """No daemon answers on the socket."""


class Refused(Exception):
    """The daemon said no; `code` for programs, the message for people, `following` for what to do."""

    def __init__(self, status: int, code: str, message: str, following: str = "") -> None:
        super().__init__(message)
        self.status, self.code, self.following = status, code, following


class Client:
    """One connection to the daemon."""

    def __init__(self, socket: Path, timeout_s: float = 15.0) -> None:
        self._socket = socket
        transport = httpx.HTTPTransport(uds=str(socket))
        self._http = httpx.Client(transport=transport, base_url="http://frugald", timeout=timeout_s, trust_env=False)

    def get(self, path: str, **query: Any) -> Any:  # noqa: ANN401 - any JSON
        """Ask for something. Raises Unreachable, Refused."""
        return self._send("GET", path, params={k: v for k, v in query.items() if v is not None}).json()

    def post(self, path: str, body: dict[str, Any] | None = None) -> Any:  # noqa: ANN401
        """Tell the daemon something. Raises Unreachable, Refused."""
        return self._send("POST", path, json=body).json()

    def log(self, job: str, attempt: int, chunk: int) -> httpx.Response:
        """Return part of a job's log; the headers say where the next part begins. Raises Unreachable, Refused."""
        return self._send("GET", f"/jobs/{job}/log", params={"attempt": attempt, "chunk": chunk})

    def close(self) -> None:
        """Let the connection go."""
        self._http.close()

    def _send(self, method: str, path: str, **how: Any) -> httpx.Response:  # noqa: ANN401
        try:
            answer = self._http.request(method, path, **how)
        except httpx.TransportError as error:
            raise Unreachable(f"frugald is not running at {self._socket}") from error
        if answer.is_success:
            return answer
        raise _refused(answer)


def _refused(answer: httpx.Response) -> Refused:
    try:
        detail = answer.json().get("detail")
    except ValueError:
        detail = None
    if isinstance(detail, dict):
        return Refused(answer.status_code, detail.get("code", ""), detail.get("message", ""), detail.get("next", ""))
    return Refused(answer.status_code, "bad_request", str(detail or answer.text)[:500])
