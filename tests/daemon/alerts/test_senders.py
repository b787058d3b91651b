"""Each kind of endpoint against a real server on loopback that answers as its vendor documents."""

import base64
import gzip
import hmac
import json
import socket
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from hashlib import sha256
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import SecretStr
from standardwebhooks.webhooks import Webhook

from config.settings import AlertSettings
from daemon.alerts import send
from daemon.alerts.addresses import Forbidden, checked_address
from daemon.alerts.examples import examples
from daemon.alerts.mail import connect
from daemon.alerts.senders import retry_after
from daemon.demo.receiver import Receiver
from daemon.http import LARGEST_ANSWER, Reply, post

NOW = datetime(2026, 12, 1, 12, tzinfo=UTC)
SECRET = "whsec_" + base64.b64encode(b"k" * 32).decode()
BODY = {
    "id": "evt_1",
    "type": "job.held",
    "at": "2026-12-01T12:00:00.000+00:00",
    "text": "预算用完了",
    "data": {"command": "frugald budgets"},
}


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    receiver = Receiver({"hook": SECRET})
    receiver.start()
    yield receiver
    receiver.close()


def endpoint(
    receiver: Receiver, kind: str = "webhook", secret: str | None = SECRET, path: str = "hook"
) -> AlertSettings:
    return AlertSettings.model_validate(
        {"name": "x", "kind": kind, "url": receiver.url(path), "secret": secret, "allow_private": True}
    )


def answering(receiver: Receiver, status: int, body: str = "", **headers: str) -> None:
    receiver.answers.setdefault("hook", []).append((status, headers, body.encode()))


def test_a_webhook_arrives_signed(receiver: Receiver) -> None:
    now = datetime.now(UTC)  # noqa: TID251 - the package compares with the computer's own clock
    assert send(endpoint(receiver), [BODY], now).delivered
    (got,) = receiver.received
    assert got.valid
    assert got.json == BODY
    assert got.headers["webhook-id"] == "evt_1"


@pytest.mark.parametrize(
    ("status", "headers", "wait"),
    [
        (500, {}, None),
        (429, {"Retry-After": "120"}, timedelta(seconds=120)),
        (503, {"Retry-After": format_datetime(NOW + timedelta(minutes=5), usegmt=True)}, timedelta(minutes=5)),
        (503, {"Retry-After": "soon"}, None),
        (302, {"Location": "http://127.0.0.1:1/elsewhere"}, None),
    ],
)
def test_a_refusal_is_a_failure_and_says_when_to_come_back(
    receiver: Receiver, status: int, headers: dict[str, str], wait: timedelta | None
) -> None:
    answering(receiver, status, "no", **headers)
    outcome = send(endpoint(receiver), [BODY], NOW)
    assert (outcome.delivered, outcome.switch_off, outcome.retry_after) == (False, False, wait)
    assert str(status) in outcome.answer
    assert len(receiver.received) == 1


def test_410_switches_off(receiver: Receiver) -> None:
    answering(receiver, 410)
    assert send(endpoint(receiver), [BODY], NOW).switch_off


@pytest.mark.parametrize(
    ("kind", "good", "bad"),
    [
        ("dingtalk", '{"errcode":0,"errmsg":"ok"}', '{"errcode":310000,"errmsg":"sign not match"}'),
        (
            "feishu",
            '{"StatusCode":0,"StatusMessage":"success","code":0,"msg":"success"}',
            '{"code":19021,"msg":"sign match fail"}',
        ),
        ("wecom", '{"errcode":0,"errmsg":"ok"}', '{"errcode":45009,"errmsg":"api freq out of limit"}'),
        ("slack", "ok", "invalid_payload"),
    ],
)
def test_a_chat_that_says_no_with_200_did_not_take_the_message(
    receiver: Receiver, kind: str, good: str, bad: str
) -> None:
    for body, taken in ((good, True), (bad, False), ("<html>", False)):
        answering(receiver, 200, body)
        outcome = send(endpoint(receiver, kind, "SECabc"), [BODY, BODY], NOW)
        assert outcome.delivered is taken, body
    text = json.dumps(receiver.received[0].json, ensure_ascii=False)
    assert text.count("预算用完了") == 2
    assert "frugald budgets" in text


def test_dingtalk_is_signed_in_the_query(receiver: Receiver) -> None:
    answering(receiver, 200, '{"errcode":0}')
    send(endpoint(receiver, "dingtalk", "SECabc"), [BODY], NOW)
    query = parse_qs(urlsplit(receiver.received[0].path).query)
    signed = f"{query['timestamp'][0]}\nSECabc"
    assert query["sign"] == [base64.b64encode(hmac.digest(b"SECabc", signed.encode(), sha256)).decode()]


def test_feishu_is_signed_in_the_body(receiver: Receiver) -> None:
    answering(receiver, 200, '{"code":0}')
    send(endpoint(receiver, "feishu", "abc"), [BODY], NOW)
    body = receiver.received[0].json
    assert body["sign"] == base64.b64encode(hmac.digest(f"{body['timestamp']}\nabc".encode(), b"", sha256)).decode()


def test_no_server_is_a_failure_and_no_exception() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    gone = AlertSettings(name="x", url=f"http://127.0.0.1:{port}/", secret=SecretStr(SECRET), allow_private=True)
    assert not send(gone, [BODY], NOW).delivered


@pytest.mark.parametrize(
    "url",
    [
        "https://127.0.0.1/",
        "https://10.1.2.3/",
        "https://192.168.0.1/",
        "https://169.254.169.254/latest",
        "https://100.100.100.200/",
        "https://100.64.0.1/",
        "https://[::1]/",
        "https://[fd00::1]/",
        "https://[::ffff:10.0.0.1]/",
        "https://[64:ff9b::a00:1]/",
        "https://localhost/",
        "https://0.0.0.0/",
        "http://93.184.216.34/",
        "ftp://93.184.216.34/",
        "https:///x",
    ],
)
def test_alerts_are_not_sent_inwards(url: str) -> None:
    with pytest.raises(Forbidden):
        checked_address(url, allow_private=False)


def test_a_public_address_is_called_as_it_was_checked() -> None:
    assert checked_address("https://93.184.216.34/x", allow_private=False) == "93.184.216.34"
    assert checked_address("http://127.0.0.1:8080/x", allow_private=True) == "127.0.0.1"


class MailServer(threading.Thread):
    """Takes one mail as RFC 5321 says, and keeps what came."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.server = socket.create_server(("127.0.0.1", 0))
        self.lines: list[str] = []

    def run(self) -> None:
        connection, _ = self.server.accept()
        with connection, connection.makefile("rwb") as stream:

            def say(text: str) -> None:
                stream.write(text.encode() + b"\r\n")
                stream.flush()

            say("220 here")
            data = False
            for raw in stream:
                line = raw.decode().rstrip("\r\n")
                self.lines.append(line)
                if data:
                    data = line != "."
                    if not data:
                        say("250 taken")
                elif line.upper() == "DATA":
                    data = True
                    say("354 go on")
                elif line.upper() == "QUIT":
                    say("221 bye")
                    break
                else:
                    say("250 yes")


def mail(port: int, **values: Any) -> AlertSettings:
    return AlertSettings.model_validate(
        {
            "name": "m",
            "kind": "email",
            "url": f"smtp://127.0.0.1:{port}",
            "to": ["a@example.org"],
            "sender": "f@example.org",
            **values,
        }
    )


def test_e_mail_is_taken_by_a_server() -> None:
    server = MailServer()
    server.start()
    outcome = send(mail(server.server.getsockname()[1], allow_private=True), [BODY, BODY], NOW)
    server.join(5)
    server.server.close()
    assert outcome.delivered, outcome.answer
    text = "\n".join(server.lines)
    assert "rcpt to:<a@example.org>" in text.lower()
    assert "Subject: " in text
    assert "Date: Tue, 01 Dec 2026 12:00:00 +0000" in text


def test_e_mail_without_encryption_is_not_sent_to_a_server_outside() -> None:
    server = MailServer()
    server.start()
    with pytest.raises(ValueError, match="encryption"):
        connect("smtp", "127.0.0.1", server.server.getsockname()[1], private=False)
    server.join(5)
    server.server.close()
    assert not any(line.upper().startswith("MAIL") for line in server.lines)


def test_a_mail_server_inside_is_not_called_unless_that_is_meant() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        outcome = send(mail(server.getsockname()[1]), [BODY], NOW)
        server.setblocking(False)
        with pytest.raises(BlockingIOError):
            server.accept()
    assert not outcome.delivered
    assert "allow_private" in outcome.answer


def text_of(receiver: Receiver) -> str:
    body = receiver.received[-1].json
    return str(
        body["text"]["content"]
        if "msgtype" in body
        else body["content"]["text"]
        if "msg_type" in body
        else body["text"]
    )


@pytest.mark.parametrize(
    ("kind", "most"), [("wecom", 2048), ("slack", 20_000), ("dingtalk", 20_000), ("feishu", 20_000)]
)
@pytest.mark.parametrize("count", [1, 10])
def test_a_chat_message_is_within_the_vendors_limit_and_leaves_none_out(
    receiver: Receiver, kind: str, most: int, count: int
) -> None:
    answering(receiver, 200)
    log = "训练\x1b[31m失败\n" * 3000 + "KeyError: 'lr'"
    bodies = [
        BODY | {"text": f"job-{n} " + "预算用完了" * 200, "data": {"command": f"frugald why j{n}", "log_tail": log}}
        for n in range(count)
    ]
    send(endpoint(receiver, kind, None), bodies, NOW)
    text = text_of(receiver)
    assert len(text.encode() if kind == "wecom" else receiver.received[-1].body) <= most
    assert "\x1b" not in text
    for n in range(count):
        assert f"[frugald] job-{n} " in text
        assert f"frugald why j{n}" in text


def test_a_failure_in_a_chat_ends_with_the_last_lines_of_the_log(receiver: Receiver) -> None:
    answering(receiver, 200, '{"errcode":0}')
    log = "\n".join(f"line {n}" for n in range(1000)) + "\nKeyError: 'lr'"
    send(endpoint(receiver, "wecom"), [BODY | {"data": {"log_tail": log}}], NOW)
    assert text_of(receiver).endswith("line 999\nKeyError: 'lr'")


@pytest.mark.parametrize("kind", ["slack", "feishu"])
def test_a_jobs_name_can_not_call_everybody(receiver: Receiver, kind: str) -> None:
    send(endpoint(receiver, kind, None), [BODY | {"text": '<!channel> <at user_id="all">all</at> a & b'}], NOW)
    text = text_of(receiver)
    assert "<!channel>" not in text or kind == "feishu"
    assert "<at" not in text


def test_what_was_spent_and_is_needed_stands_below_the_sentence(receiver: Receiver) -> None:
    body = examples()["job.interrupted"]
    send(endpoint(receiver, "slack", None), [body], NOW)
    assert text_of(receiver).splitlines()[1:] == ["$4.21 spent, about $6.90 still needed", "  frugald why jk4m9q2ab"]


def test_a_huge_answer_is_read_in_part_and_not_unpacked(receiver: Receiver) -> None:
    packed = gzip.compress(b"0" * 50_000_000)
    receiver.answers["hook"] = [(500, {}, b"x" * 3_000_000), (500, {"Content-Encoding": "gzip"}, packed)]
    for _ in range(2):
        reply = post(receiver.url("hook"), b"{}", {})
        assert (reply.status, len(reply.body) <= LARGEST_ANSWER) == (500, True)
    assert receiver.received[0].headers["accept-encoding"] == "identity"


def test_the_checked_address_is_called_under_the_name_that_was_asked_for(receiver: Receiver) -> None:
    port = urlsplit(receiver.url("hook")).port
    assert post(f"http://no-such-host.invalid:{port}/hook", b"{}", {}, address="127.0.0.1").status == 204
    assert receiver.received[0].headers["host"] == f"no-such-host.invalid:{port}"


def test_a_proxy_of_the_environment_is_not_used(receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    assert post(receiver.url("hook"), b"{}", {}).status == 204


def test_two_secrets_are_both_valid_while_they_change(receiver: Receiver) -> None:
    new = "whsec_" + base64.b64encode(b"n" * 32).decode()
    now = datetime.now(UTC)  # noqa: TID251 - the package compares with the computer's own clock
    rotating = endpoint(receiver).model_copy(update={"secret": SecretStr(new), "old_secret": SecretStr(SECRET)})
    assert send(rotating, [BODY], now).delivered
    (got,) = receiver.received
    assert got.valid, "a receiver that knows the old secret only"
    Webhook(new).verify(got.body, got.headers)


def test_a_bad_secret_is_an_answer_that_does_not_show_it(receiver: Receiver) -> None:
    outcome = send(endpoint(receiver, secret="whsec_c2hvcnQ="), [BODY], NOW)
    assert not outcome.delivered
    assert "openssl" in outcome.answer
    assert "c2hvcnQ" not in outcome.answer
    assert receiver.received == []


@given(st.text(max_size=30))
def test_no_retry_after_is_too_strange(value: str) -> None:
    found = retry_after(Reply(503, {"Retry-After": value}, b""), NOW)
    assert found is None or isinstance(found, timedelta)
