"""Alerts by e-mail, through the standard library."""

import smtplib
import ssl
from collections.abc import Sequence
from datetime import datetime
from email.message import EmailMessage
from email.utils import format_datetime
from typing import Any
from urllib.parse import unquote, urlsplit

from config.settings import AlertSettings
from daemon.alerts.addresses import address_of

_TIMEOUT_S = 15.0


def send_mail(endpoint: AlertSettings, bodies: Sequence[dict[str, Any]]) -> str:
    """Send one mail with all messages; returns the server's answer.

    Raises Forbidden for a server inside, ValueError for wrong settings, OSError (SMTPException is one) for everything else.
    """
    where = urlsplit(endpoint.url)
    if where.scheme not in {"smtp", "smtps"} or not where.hostname:
        raise ValueError(f"{endpoint.url} is no mail server: write smtp://host:port or smtps://user@host:port")
    address_of(where.hostname, where.port or 0, allow_private=endpoint.allow_private)
    with _connect(where.scheme, where.hostname, where.port, private=endpoint.allow_private) as server:
        if where.username and endpoint.secret:
            server.login(unquote(where.username), endpoint.secret.get_secret_value())
        refused = server.send_message(_message(endpoint, bodies))
    return "250 taken" if not refused else f"refused for {', '.join(refused)}"


def _connect(scheme: str, host: str, port: int | None, *, private: bool) -> smtplib.SMTP:
    if scheme == "smtps":
        return smtplib.SMTP_SSL(host, port or 465, timeout=_TIMEOUT_S, context=ssl.create_default_context())
    server = smtplib.SMTP(host, port or 587, timeout=_TIMEOUT_S)
    if server.has_extn("starttls") or (server.ehlo()[0] == 250 and server.has_extn("starttls")):
        server.starttls(context=ssl.create_default_context())
    elif not private:
        server.close()
        raise ValueError(f"{host} offers no encryption: set `allow_private` for a server inside")
    return server


def _message(endpoint: AlertSettings, bodies: Sequence[dict[str, Any]]) -> EmailMessage:
    message = EmailMessage()
    message["From"] = endpoint.sender
    message["To"] = ", ".join(endpoint.to)
    more = f" and {len(bodies) - 1} more" if len(bodies) > 1 else ""
    message["Subject"] = " ".join(f"[frugald] {bodies[0]['text']}{more}".split())[:200]
    message["Date"] = format_datetime(datetime.fromisoformat(bodies[0]["at"]))
    message["Message-ID"] = f"<{bodies[0]['id']}@frugald>"
    parts = []
    for body in bodies:
        parts += [body["text"], str(body["data"].get("command", "")), str(body["data"].get("log_tail", "")), ""]
    message.set_content("\n".join(part for part in parts if part) + "\n")
    return message
