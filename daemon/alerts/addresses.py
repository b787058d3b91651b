"""Keep alerts from being sent inwards: every address of a host is checked, and the checked one is called."""

import ipaddress
import socket
from urllib.parse import urlsplit

_NAT64 = ipaddress.ip_network("64:ff9b::/96")
_SHARED = ipaddress.ip_network("100.64.0.0/10")  # carrier-grade NAT; Alibaba Cloud's metadata lies in it


class Forbidden(Exception):
    """The address is one that alerts must not go to."""


def checked_address(url: str, *, allow_private: bool) -> str:
    """Return the address to call for `url`. Raises Forbidden; OSError when the name can't be resolved."""
    parts = urlsplit(url)
    if parts.scheme not in {"https", "http"} or not parts.hostname:
        raise Forbidden(f"{url} is no web address")
    if parts.scheme != "https" and not allow_private:
        raise Forbidden(f"{url} is not https: set `allow_private` for a receiver inside")
    port = parts.port or (443 if parts.scheme == "https" else 80)
    found = [str(info[4][0]) for info in socket.getaddrinfo(parts.hostname, port, type=socket.SOCK_STREAM)]
    inward = [address for address in found if _is_inward(address)]
    if inward and not allow_private:
        raise Forbidden(f"{parts.hostname} is {inward[0]}, an address inside: set `allow_private` if that is meant")
    return found[0]


def _is_inward(text: str) -> bool:
    address = ipaddress.ip_address(text.split("%")[0])
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped:
            return _is_inward(str(address.ipv4_mapped))
        if address in _NAT64:
            return _is_inward(str(ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)))
    return not address.is_global or address.is_multicast or (isinstance(address, ipaddress.IPv4Address) and address in _SHARED)
