"""Standard Webhooks signatures (https://www.standardwebhooks.com, 1.0.0): `v1,` and base64 of HMAC-SHA256."""

import base64
import binascii
import hmac
from collections.abc import Sequence
from datetime import datetime
from hashlib import sha256

PREFIX = "whsec_"


def headers(message_id: str, at: datetime, body: bytes, secrets: Sequence[str]) -> dict[str, str]:
    """Return the three headers of one try; with two secrets both signatures, so that receivers can change over."""
    stamp = str(int(at.timestamp()))
    signed = f"{message_id}.{stamp}.".encode() + body
    signatures = [base64.b64encode(hmac.digest(key(secret), signed, sha256)).decode() for secret in secrets]
    return {
        "webhook-id": message_id,
        "webhook-timestamp": stamp,
        "webhook-signature": " ".join(f"v1,{signature}" for signature in signatures),
    }


def key(secret: str) -> bytes:
    """Return the key of a `whsec_...` secret. Raises ValueError."""
    try:
        found = base64.b64decode(secret.removeprefix(PREFIX), validate=True)
    except binascii.Error as error:
        raise ValueError("a webhook secret is `whsec_` and base64 of at least 24 bytes") from error
    if len(found) < 24:
        raise ValueError("a webhook secret needs at least 24 bytes: `openssl rand -base64 32`")
    return found
