"""No alert is sent inwards, however the address is written."""

import socket

import pytest
from hypothesis import given
from hypothesis import strategies as st

from config.settings import AlertSettings
from daemon.alerts.addresses import Forbidden, checked_address, is_inward
from daemon.alerts.senders import send
from tests.fakes.clock import START

METADATA = ("169.254.169.254", "100.100.100.200", "192.0.0.192", "fd00:ec2::254")


def resolving_to(monkeypatch: pytest.MonkeyPatch, *found: str) -> None:
    """Let every name have these addresses."""
    answer = [(socket.AF_INET6 if ":" in a else socket.AF_INET, socket.SOCK_STREAM, 6, "", (a, 443)) for a in found]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: answer)


@pytest.mark.parametrize("address", [
    *METADATA, "127.0.0.1", "127.8.8.8", "10.0.0.1", "172.16.0.1", "192.168.1.1", "0.0.0.0", "100.64.0.1", "100.127.255.255",
    "198.18.0.1", "224.0.0.1", "255.255.255.255", "::", "::1", "fe80::1", "fe80::1%eth0", "fd12::1", "fec0::1", "ff02::1",
    "::127.0.0.1", "64:ff9b:1::1",
])  # fmt: skip
def test_an_address_inside_is_known(address: str) -> None:
    assert is_inward(address)


@pytest.mark.parametrize(
    "address", ["8.8.8.8", "100.63.255.255", "100.128.0.1", "2606:4700::1111", "::ffff:8.8.8.8", "64:ff9b::808:808"]
)
def test_an_address_outside_is_known(address: str) -> None:
    assert not is_inward(address)


@given(st.ip_addresses(v=4))
def test_an_ipv6_address_that_carries_an_ipv4_address_is_as_far_inside_as_that(inner: object) -> None:
    number = int(inner)  # type: ignore[call-overload]
    for carrier in (f"::ffff:{inner}", f"64:ff9b::{inner}", f"2002:{number >> 16:x}:{number & 0xFFFF:x}::"):
        assert is_inward(carrier) == is_inward(str(inner)), carrier


@pytest.mark.parametrize("found", [("10.0.0.1",), ("93.184.216.34", "169.254.169.254"), ("2606:4700::1111", "::1")])
def test_a_name_with_any_address_inside_is_refused(monkeypatch: pytest.MonkeyPatch, found: tuple[str, ...]) -> None:
    resolving_to(monkeypatch, *found)
    with pytest.raises(Forbidden, match="allow_private"):
        checked_address("https://alerts.example.org/x", allow_private=False)
    assert checked_address("https://alerts.example.org/x", allow_private=True) == found[0]


@pytest.mark.parametrize("host", ["2130706433", "0x7f.1", "127.1", "localhost", "LOCALHOST.", "[::ffff:7f00:1]"])
def test_other_ways_to_write_this_computer_are_refused(host: str) -> None:
    with pytest.raises((Forbidden, OSError)):
        checked_address(f"https://{host}/x", allow_private=False)


@pytest.mark.parametrize(
    "url", ["https://[::1/", "https://x:99999/", "https://" + "a" * 70 + ".example/", "javascript:x", ""]
)
def test_a_broken_address_is_an_answer_and_no_exception(url: str) -> None:
    outcome = send(AlertSettings(name="x", kind="slack", url=url), [{"id": "1", "text": "x", "data": {}}], START)
    assert not outcome.delivered
    assert outcome.answer
