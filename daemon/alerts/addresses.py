"""Keep alerts from being sent inwards: every address of a host is checked, and the checked one is called."""

import ipaddress
import socket
from urllib.parse import urlsplit

_WITH_IPV4 = (ipaddress.ip_network("64:ff9b::/96"), ipaddress.ip_network("::/96"))  # NAT64 (RFC 6052), IPv4-compatible
_INWARD = (
    ipaddress.ip_network("64:ff9b:1::/48"),  # NAT64 of a site's own (RFC 8215)
    ipaddress.ip_network("fec0::/10"),  # site-local, from before fd00::/8
    ipaddress.ip_network("192.0.0.0/24"),  # Oracle Cloud's metadata lies in it
)
"""Ranges that `is_global` lets through, at least in some versions of Python."""


class Forbidden(Exception):
    """The address is one that alerts must not go to."""


def checked_address(url: str, *, allow_private: bool) -> str:
    """Return the address to call for `url`. Raises Forbidden; OSError when the name can't be resolved."""
    parts = urlsplit(url)
    if parts.scheme not in {"https", "http"} or not parts.hostname:
        raise Forbidden(f"{url} is no web address")
    if parts.scheme != "https" and not allow_private:
        raise Forbidden(f"{url} is not https: set `allow_private` for a receiver inside")
    return address_of(
        parts.hostname, parts.port or (443 if parts.scheme == "https" else 80), allow_private=allow_private
    )


def address_of(host: str, port: int, *, allow_private: bool) -> str:
    """Return the first address of `host`, when none of them is inside. Raises Forbidden; OSError when it has none."""
    found = [str(info[4][0]) for info in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)]
    inward = [address for address in found if is_inward(address)]
    if inward and not allow_private:
        raise Forbidden(f"{host} is {inward[0]}, an address inside: set `allow_private` if that is meant")
    return found[0]


def is_inward(text: str) -> bool:
    """Say whether an address, or the IPv4 address that it carries, is none of the public Internet's."""
    address = ipaddress.ip_address(text.split("%", maxsplit=1)[0])
    carried = _carried(address) if isinstance(address, ipaddress.IPv6Address) else None
    if carried is not None:
        return is_inward(str(carried))
    return not address.is_global or address.is_multicast or any(address in network for network in _INWARD)


def _carried(address: ipaddress.IPv6Address) -> ipaddress.IPv4Address | None:
    if any(address in network for network in _WITH_IPV4):
        return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return address.ipv4_mapped or address.sixtofour
