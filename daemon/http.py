"""The one module that speaks HTTP outwards; another library would change this file only."""

from dataclasses import dataclass

import httpx

LARGEST_ANSWER = 64 * 1024
TIMEOUT_S = 15.0
_FILE_TIMEOUT_S = 60.0  # without a byte


class NoAnswer(Exception):
    """The other side could not be reached, or did not answer in time."""


@dataclass(frozen=True)
class Reply:
    """What came back: at most 64 KB of it."""

    status: int
    headers: dict[str, str]
    body: bytes


def post(url: str, body: bytes, headers: dict[str, str], *, address: str = "", timeout_s: float = TIMEOUT_S) -> Reply:
    """Send one POST, without redirects and proxies, to `address` where it is given in place of the URL's host name.

    The name stays in the Host header and in TLS, so that what was checked is what is called. Raises NoAnswer.
    """
    extensions = {}
    headers = {**headers, "Accept-Encoding": "identity"}
    try:
        target = httpx.URL(url)
        if address:
            headers["Host"] = target.netloc.decode("ascii")
            extensions = {"sni_hostname": target.host}
            target = target.copy_with(host=address)
        with (
            httpx.Client(timeout=timeout_s, trust_env=False, follow_redirects=False) as client,
            client.stream("POST", target, content=body, headers=headers, extensions=extensions) as answer,
        ):
            received = b""
            for part in answer.iter_raw():  # as sent: some kilobytes of gzip may be gigabytes
                received += part
                if len(received) >= LARGEST_ANSWER:
                    break
            return Reply(answer.status_code, dict(answer.headers), received[:LARGEST_ANSWER])
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise NoAnswer(str(error) or type(error).__name__) from error


def fetch_public(url: str) -> bytes:
    """Fetch a public file, whole. Raises OSError."""
    try:
        with httpx.Client(timeout=_FILE_TIMEOUT_S, follow_redirects=True) as client:
            return client.get(url).raise_for_status().content
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise OSError(str(error) or type(error).__name__) from error
