"""Our signatures are those that the `standardwebhooks` package accepts."""

import base64
from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from standardwebhooks.webhooks import Webhook, WebhookVerificationError

from daemon.alerts import signing

OLD, NEW = ("whsec_" + base64.b64encode(bytes([n]) * 32).decode() for n in (1, 2))


def now() -> datetime:
    return datetime.now(UTC)  # noqa: TID251 - the package compares with the computer's own clock


@settings(deadline=None)
@given(st.binary(max_size=2000), st.text("abc_123", min_size=1, max_size=40))
def test_the_package_accepts_every_body(body: bytes, message: str) -> None:
    text = b'{"x": "' + base64.b64encode(body) + b'"}'
    Webhook(NEW).verify(text, signing.headers(message, now(), text, [NEW]))


def test_while_secrets_change_both_are_accepted() -> None:
    headers = signing.headers("evt_1", now(), b"{}", [NEW, OLD])
    Webhook(NEW).verify(b"{}", headers)
    Webhook(OLD).verify(b"{}", headers)


def test_another_body_or_secret_is_refused() -> None:
    headers = signing.headers("evt_1", now(), b"{}", [NEW])
    with pytest.raises(WebhookVerificationError):
        Webhook(NEW).verify(b'{"a": 1}', headers)
    with pytest.raises(WebhookVerificationError):
        Webhook(OLD).verify(b"{}", headers)


@pytest.mark.parametrize("secret", ["whsec_???", "whsec_" + base64.b64encode(b"short").decode(), ""])
def test_a_bad_secret_is_told(secret: str) -> None:
    with pytest.raises(ValueError, match="secret"):
        signing.key(secret)
