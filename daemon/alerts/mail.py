"""Alerts by e-mail, through the standard library."""

import smtplib
import ssl
from collections.abc import Sequence
from contextlib import ExitStack
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
    message = _message(endpoint, bodies)
    with connect(where.scheme, where.hostname, where.port, private=endpoint.allow_private) as server:
        if where.username and endpoint.secret:
            server.login(unquote(where.username), endpoint.secret.get_secret_value())
        refused = server.send_message(message)
    return "250 taken" if not refused else f"refused for {', '.join(refused)}"


def connect(scheme: str, host: str, port: int | None, *, private: bool) -> smtplib.SMTP:
    """Open an encrypted connection; without encryption only to a server that is private. Raises ValueError, OSError."""
    if scheme == "smtps":
        return smtplib.SMTP_SSL(host, port or 465, timeout=_TIMEOUT_S, context=ssl.create_default_context())
    server = smtplib.SMTP(host, port or 587, timeout=_TIMEOUT_S)
    with ExitStack() as undo:
        undo.callback(server.close)
        _encrypt(server, host, private=private)
        undo.pop_all()
    return server


def _encrypt(server: smtplib.SMTP, host: str, *, private: bool) -> None:
    server.ehlo_or_helo_if_needed()
    if server.has_extn("starttls"):
        server.starttls(context=ssl.create_default_context())
    elif not private:
        raise ValueError(f"{host} offers no encryption: set `allow_private` for a server inside")


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
        parts += [
            body["text"],
            str(body.get("standing", "")),
            str(body["data"].get("command", "")),
            str(body["data"].get("log_tail", "")),
            "",
        ]
    message.set_content("\n".join(part for part in parts if part) + "\n")
    return message
