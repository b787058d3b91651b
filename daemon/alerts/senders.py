"""Send one message to one place, and read the answer: some chats say no with a status of 200."""

import base64
import hmac
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from hashlib import sha256
from typing import Any
from urllib.parse import quote_plus

from config.settings import AlertSettings
from daemon.alerts import signing
from daemon.alerts.addresses import Forbidden, checked_address
from daemon.alerts.mail import send_mail
from daemon.http import NoAnswer, Reply, post

DIGEST_KINDS = frozenset({"slack", "dingtalk", "feishu", "wecom", "email"})
"""Kinds that get several waiting messages as one, since they allow few a minute."""
PACE = {"dingtalk": timedelta(seconds=3), "wecom": timedelta(seconds=3), "feishu": timedelta(seconds=1), "slack": timedelta(seconds=1)}
"""The least time between two messages: 20 a minute for DingTalk and WeCom, 100 for Feishu, one a second for Slack."""
_JSON = {"Content-Type": "application/json; charset=utf-8", "User-Agent": "frugald"}
_LONGEST_CHAT = 3_500


@dataclass(frozen=True)
class Outcome:
    """What came of one try."""

    delivered: bool
    answer: str  # in short, for people
    retry_after: timedelta | None = None
    switch_off: bool = False


def send(endpoint: AlertSettings, bodies: Sequence[dict[str, Any]], now: datetime) -> Outcome:
    """Send `bodies` to `endpoint`; may block for some seconds, never raises for what the other side does."""
    try:
        if endpoint.kind == "email":
            return Outcome(delivered=True, answer=send_mail(endpoint, bodies))
        url, data, headers = _FORMS[endpoint.kind](endpoint, bodies, now)
        address = checked_address(url, allow_private=endpoint.allow_private)
        return _judge(endpoint.kind, post(url, data, headers, address=address), now)
    except (NoAnswer, Forbidden, OSError, ValueError) as error:
        return Outcome(delivered=False, answer=str(error)[:300] or type(error).__name__)


def _webhook(endpoint: AlertSettings, bodies: Sequence[dict[str, Any]], now: datetime) -> tuple[str, bytes, dict[str, str]]:
    body = json.dumps(bodies[0], ensure_ascii=False).encode()
    secrets = [s.get_secret_value() for s in (endpoint.secret, endpoint.old_secret) if s]
    return endpoint.url, body, _JSON | signing.headers(bodies[0]["id"], now, body, secrets)


def _slack(endpoint: AlertSettings, bodies: Sequence[dict[str, Any]], _now: datetime) -> tuple[str, bytes, dict[str, str]]:
    return endpoint.url, json.dumps({"text": _text(bodies)}).encode(), _JSON


def _dingtalk(endpoint: AlertSettings, bodies: Sequence[dict[str, Any]], now: datetime) -> tuple[str, bytes, dict[str, str]]:
    """`timestamp` and `sign` in the query: base64 of HMAC-SHA256 over "timestamp\\nsecret" (DingTalk, custom robot security)."""
    url = endpoint.url
    if endpoint.secret:
        stamp, secret = str(int(now.timestamp() * 1000)), endpoint.secret.get_secret_value()
        signed = hmac.digest(secret.encode(), f"{stamp}\n{secret}".encode(), sha256)
        url += f"{'&' if '?' in url else '?'}timestamp={stamp}&sign={quote_plus(base64.b64encode(signed))}"
    return url, json.dumps({"msgtype": "text", "text": {"content": _text(bodies)}}).encode(), _JSON


def _feishu(endpoint: AlertSettings, bodies: Sequence[dict[str, Any]], now: datetime) -> tuple[str, bytes, dict[str, str]]:
    """`timestamp` and `sign` in the body: HMAC-SHA256 of nothing with the key "timestamp\\nsecret" (Feishu, custom bot guide)."""
    message: dict[str, Any] = {"msg_type": "text", "content": {"text": _text(bodies)}}
    if endpoint.secret:
        stamp = str(int(now.timestamp()))
        key = f"{stamp}\n{endpoint.secret.get_secret_value()}".encode()
        message |= {"timestamp": stamp, "sign": base64.b64encode(hmac.digest(key, b"", sha256)).decode()}
    return endpoint.url, json.dumps(message).encode(), _JSON


def _wecom(endpoint: AlertSettings, bodies: Sequence[dict[str, Any]], _now: datetime) -> tuple[str, bytes, dict[str, str]]:
    text = _text(bodies).encode()[:2048].decode("utf-8", "ignore")  # WeCom's own limit for a text message
    return endpoint.url, json.dumps({"msgtype": "text", "text": {"content": text}}).encode(), _JSON


_FORMS: dict[str, Callable[[AlertSettings, Sequence[dict[str, Any]], datetime], tuple[str, bytes, dict[str, str]]]] = {
    "webhook": _webhook, "slack": _slack, "dingtalk": _dingtalk, "feishu": _feishu, "wecom": _wecom,
}


def _text(bodies: Sequence[dict[str, Any]]) -> str:
    lines = []
    for body in bodies:
        lines.append(f"[frugald] {body['text']}")
        if body["data"].get("command"):
            lines.append(f"  {body['data']['command']}")
        if body["data"].get("log_tail"):
            lines.append(str(body["data"]["log_tail"]))
    return "\n".join(lines)[:_LONGEST_CHAT]


def _judge(kind: str, reply: Reply, now: datetime) -> Outcome:
    shown = f"{reply.status} {reply.body[:200].decode('utf-8', 'replace')}".strip()
    if reply.status == 410:
        return Outcome(delivered=False, answer=shown, switch_off=True)
    if not 200 <= reply.status < 300:
        return Outcome(delivered=False, answer=shown, retry_after=_retry_after(reply, now))
    if kind == "webhook":
        return Outcome(delivered=True, answer=shown)
    return Outcome(delivered=_said_yes(kind, reply.body), answer=shown)


def _said_yes(kind: str, body: bytes) -> bool:
    """Say whether a chat took the message: DingTalk and WeCom answer `errcode`, Feishu `code` or `StatusCode`, Slack `ok`."""
    if kind == "slack":
        return body.strip() == b"ok"
    try:
        said = json.loads(body)
    except ValueError:
        return False
    names = ("code", "StatusCode") if kind == "feishu" else ("errcode",)
    codes = [said[name] for name in names if isinstance(said, dict) and name in said]
    return bool(codes) and all(code == 0 for code in codes)


def _retry_after(reply: Reply, now: datetime) -> timedelta | None:
    value = {k.lower(): v for k, v in reply.headers.items()}.get("retry-after", "").strip()
    if value.isdigit():
        return timedelta(seconds=min(int(value), 10**6))
    try:
        at = parsedate_to_datetime(value) if value else None
    except ValueError:
        return None
    return None if at is None else (at if at.tzinfo else at.replace(tzinfo=UTC)) - now
