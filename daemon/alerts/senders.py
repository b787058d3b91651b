"""Send one message to one place, and read the answer: some chats say no with a status of 200."""

import base64
import hmac
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from hashlib import sha256
from typing import Any
from urllib.parse import quote_plus

from config.settings import AlertSettings
from daemon.alerts import signing
from daemon.alerts.addresses import Forbidden, checked_address
from daemon.alerts.envelope import shortened
from daemon.alerts.mail import send_mail
from daemon.http import NoAnswer, Reply, post

DIGEST_KINDS = frozenset({"slack", "dingtalk", "feishu", "wecom", "email"})
"""Kinds that get several waiting messages as one, since they allow few a minute."""
PACE = {
    "dingtalk": timedelta(seconds=3),
    "wecom": timedelta(seconds=3),
    "feishu": timedelta(seconds=1),
    "slack": timedelta(seconds=1),
}
"""The least time between two messages: 20 a minute for DingTalk and WeCom, 100 for Feishu, one a second for Slack."""
_LEAST_LOG = 80  # bytes: less of a log says nothing
_JSON = {"Content-Type": "application/json; charset=utf-8", "User-Agent": "frugald"}
_LONGEST_CHAT = 8_000  # bytes; Feishu's and DingTalk's limit is 20 kB for all of the request
_LONGEST_WECOM = 2_048  # bytes, WeCom's own limit for a text message


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


def _webhook(
    endpoint: AlertSettings, bodies: Sequence[dict[str, Any]], now: datetime
) -> tuple[str, bytes, dict[str, str]]:
    body = _json(bodies[0])
    secrets = [s.get_secret_value() for s in (endpoint.secret, endpoint.old_secret) if s]
    return endpoint.url, body, _JSON | signing.headers(bodies[0]["id"], now, body, secrets)


def _slack(
    endpoint: AlertSettings, bodies: Sequence[dict[str, Any]], _now: datetime
) -> tuple[str, bytes, dict[str, str]]:
    """The three characters that Slack reads as its own are escaped: a job's name must not call everybody in the channel."""
    text = _text(bodies).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return endpoint.url, _json({"text": text}), _JSON


def _dingtalk(
    endpoint: AlertSettings, bodies: Sequence[dict[str, Any]], now: datetime
) -> tuple[str, bytes, dict[str, str]]:
    r"""`timestamp` and `sign` in the query: base64 of HMAC-SHA256 over "timestamp\nsecret" (DingTalk, custom robot security)."""
    url = endpoint.url
    if endpoint.secret:
        stamp, secret = str(int(now.timestamp() * 1000)), endpoint.secret.get_secret_value()
        signed = hmac.digest(secret.encode(), f"{stamp}\n{secret}".encode(), sha256)
        url += f"{'&' if '?' in url else '?'}timestamp={stamp}&sign={quote_plus(base64.b64encode(signed))}"
    return url, _json({"msgtype": "text", "text": {"content": _text(bodies)}}), _JSON


def _feishu(
    endpoint: AlertSettings, bodies: Sequence[dict[str, Any]], now: datetime
) -> tuple[str, bytes, dict[str, str]]:
    r"""`timestamp` and `sign` in the body: HMAC-SHA256 of nothing with the key "timestamp\nsecret" (Feishu, custom bot guide)."""
    text = _text(bodies).replace("<at", "< at")  # would call people
    message: dict[str, Any] = {"msg_type": "text", "content": {"text": text}}
    if endpoint.secret:
        stamp = str(int(now.timestamp()))
        key = f"{stamp}\n{endpoint.secret.get_secret_value()}".encode()
        message |= {"timestamp": stamp, "sign": base64.b64encode(hmac.digest(key, b"", sha256)).decode()}
    return endpoint.url, _json(message), _JSON


def _wecom(
    endpoint: AlertSettings, bodies: Sequence[dict[str, Any]], _now: datetime
) -> tuple[str, bytes, dict[str, str]]:
    return endpoint.url, _json({"msgtype": "text", "text": {"content": _text(bodies, _LONGEST_WECOM)}}), _JSON


_FORMS: dict[str, Callable[[AlertSettings, Sequence[dict[str, Any]], datetime], tuple[str, bytes, dict[str, str]]]] = {
    "webhook": _webhook,
    "slack": _slack,
    "dingtalk": _dingtalk,
    "feishu": _feishu,
    "wecom": _wecom,
}


def _json(value: Mapping[str, Any]) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode(
        "utf-8", "replace"
    )  # not escaped: a limit in bytes means the characters


def _text(bodies: Sequence[dict[str, Any]], most: int = _LONGEST_CHAT) -> str:
    """Return all messages as one text of at most `most` bytes, of which each has its share: none is left out."""
    return "\n".join(_part(body, most // len(bodies) - 1) for body in bodies)


def _part(body: Mapping[str, Any], most: int) -> str:
    standing, command = str(body.get("standing") or ""), str(body["data"].get("command") or "")
    after = f"\n{standing}" if standing else ""
    after += f"\n  {command}" if command and command not in body["text"] else ""
    text = shortened(_printable(f"[frugald] {body['text']}"), max(most - len(after.encode()), 0)) + after
    log = _printable(str(body["data"].get("log_tail") or ""))
    room = most - len(text.encode()) - 1
    return f"{text}\n{shortened(log, room, keep_end=True)}" if log and room > _LEAST_LOG else text


def _printable(text: str) -> str:
    return "".join(c for c in text.replace("\r", "\n") if c >= " " or c in "\n\t").encode("utf-8", "replace").decode()


def _judge(kind: str, reply: Reply, now: datetime) -> Outcome:
    shown = f"{reply.status} {reply.body[:200].decode('utf-8', 'replace')}".strip()
    if reply.status == 410:
        return Outcome(delivered=False, answer=shown, switch_off=True)
    if not 200 <= reply.status < 300:
        return Outcome(delivered=False, answer=shown, retry_after=retry_after(reply, now))
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


def retry_after(reply: Reply, now: datetime) -> timedelta | None:
    """Return how long a reply asks to wait, in seconds or up to a date (RFC 9110, 10.2.3); None when it doesn't."""
    value = {k.lower(): v for k, v in reply.headers.items()}.get("retry-after", "").strip()
    if value.isascii() and value.isdigit():
        return timedelta(seconds=min(int(value), 10**6))
    try:
        at = parsedate_to_datetime(value) if value else None
    except ValueError:
        return None
    return None if at is None else (at if at.tzinfo else at.replace(tzinfo=UTC)) - now
