"""AWS's signature, version 4, computed anew from what came over the wire and the secret of the key that it names.

Codes and statuses of refusals differ by service, as AWS's own do.
"""

import hashlib
import hmac
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from urllib.parse import quote

from tests.clouds.http import Request
from tests.clouds.keys import Key
from tests.clouds.wire import Refused

QUERY = {"ec2", "sts", "iam"}  # services that are asked by forms
_AUTHORIZATION = re.compile(
    r"AWS4-HMAC-SHA256 Credential=([^/]+)/(\d{8})/([^/]+)/([^/]+)/aws4_request, ?SignedHeaders=([^,]+), ?Signature=(\w+)"
)
_SKEW, _S3_SKEW = timedelta(minutes=5), timedelta(minutes=15)
_UNHASHED = {"UNSIGNED-PAYLOAD", "STREAMING-UNSIGNED-PAYLOAD-TRAILER"}


@dataclass(frozen=True)
class Signed:
    """What an Authorization header says."""

    key: str
    day: str
    region: str
    service: str
    headers: tuple[str, ...]
    signature: str


def signed(request: Request) -> Signed | None:
    """Read the header; None for a request that isn't signed."""
    found = _AUTHORIZATION.fullmatch(request.headers.get("authorization", ""))
    if found is None:
        return None
    key, day, region, service, headers, signature = found.groups()
    return Signed(key, day, region, service, tuple(headers.split(";")), signature)


def caller(request: Request, by: Signed, keys: Mapping[str, Key], now: datetime, clock: datetime) -> Key:
    """Return the key of whoever signed. `clock` is what AWS's clock shows, `now` the time that keys end by.

    Raises Refused.
    """
    key = keys.get(by.key)
    if key is None:
        raise _refused(by.service, "unknown")
    if key.token and request.headers.get("x-amz-security-token") != key.token:
        raise _refused(by.service, "token")
    stamp = request.headers.get("x-amz-date", "")
    _check_time(by, stamp, clock)
    if not hmac.compare_digest(_signature(request, by, key.secret, stamp), by.signature):
        raise _refused(by.service, "signature")
    _check_payload(request, by)
    if key.expires is not None and key.expires <= now:
        raise _refused(by.service, "expired")
    return key


def _check_time(by: Signed, stamp: str, clock: datetime) -> None:
    try:
        at = datetime.strptime(stamp, "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
    except ValueError:
        raise _refused(by.service, "signature") from None
    if not stamp.startswith(by.day):
        raise _refused(by.service, "signature")
    if abs(at - clock) > (_S3_SKEW if by.service == "s3" else _SKEW):
        raise _refused(by.service, "skew")


def _check_payload(request: Request, by: Signed) -> None:
    told = request.headers.get("x-amz-content-sha256", "UNSIGNED-PAYLOAD")
    if told in _UNHASHED or told.startswith("STREAMING-"):
        return
    if told != hashlib.sha256(request.body).hexdigest():
        code = "XAmzContentSHA256Mismatch" if by.service == "s3" else "SignatureDoesNotMatch"
        raise Refused(code, "The provided 'x-amz-content-sha256' header does not match what was computed.")


def _signature(request: Request, by: Signed, secret: str, stamp: str) -> str:
    scope = f"{by.day}/{by.region}/{by.service}/aws4_request"
    canonical = hashlib.sha256(_canonical(request, by).encode()).hexdigest()
    key = f"AWS4{secret}".encode()
    for part in (by.day, by.region, by.service, "aws4_request"):
        key = hmac.digest(key, part.encode(), "sha256")
    return hmac.digest(key, f"AWS4-HMAC-SHA256\n{stamp}\n{scope}\n{canonical}".encode(), "sha256").hex()


def _canonical(request: Request, by: Signed) -> str:
    # S3 takes the path as it was sent; every other service has it encoded once more.
    path = request.path if by.service == "s3" else quote(request.path, safe="/~")
    pairs = sorted((quote(name, safe="-_.~"), quote(value, safe="-_.~")) for name, value in request.pairs)
    headers = [f"{name}:{' '.join(request.headers.get(name, '').split())}" for name in by.headers]
    hashed = request.headers.get("x-amz-content-sha256") or hashlib.sha256(request.body).hexdigest()
    query = "&".join(f"{name}={value}" for name, value in pairs)
    return "\n".join([request.method, path or "/", query, *headers, "", ";".join(by.headers), hashed])


# ---------------------------------------------------------------- what AWS says

_TOLD = {
    "unknown": "The security token included in the request is invalid.",
    "token": "The security token included in the request is invalid.",
    "signature": "The request signature we calculated does not match the signature you provided.",
    "skew": "Signature expired: the request's time and AWS's differ by more than 5 minutes.",
    "expired": "The security token included in the request is expired",
}
_CODES: dict[str, dict[str, tuple[str, int]]] = {
    "ec2": {
        "unknown": ("AuthFailure", 401), "token": ("AuthFailure", 401), "signature": ("AuthFailure", 401),
        "skew": ("RequestExpired", 400), "expired": ("RequestExpired", 400),
    },
    "s3": {
        "unknown": ("InvalidAccessKeyId", 403), "token": ("InvalidToken", 400),
        "signature": ("SignatureDoesNotMatch", 403), "skew": ("RequestTimeTooSkewed", 403), "expired": ("ExpiredToken", 400),
    },
    "query": {
        "unknown": ("InvalidClientTokenId", 403), "token": ("InvalidClientTokenId", 403),
        "signature": ("SignatureDoesNotMatch", 403), "skew": ("SignatureDoesNotMatch", 403), "expired": ("ExpiredToken", 403),
    },
    "json": {
        "unknown": ("UnrecognizedClientException", 400), "token": ("UnrecognizedClientException", 400),
        "signature": ("InvalidSignatureException", 400), "skew": ("InvalidSignatureException", 400),
        "expired": ("ExpiredTokenException", 400),
    },
}  # fmt: skip


def _refused(service: str, why: str) -> Refused:
    kind = service if service in {"ec2", "s3"} else "query" if service in QUERY else "json"
    code, status = _CODES[kind][why]
    told = "AWS was not able to validate the provided access credentials" if code == "AuthFailure" else _TOLD[why]
    return Refused(code, told, status)
