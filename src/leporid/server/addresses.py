"""Addresses: listening sockets, and what a peer's address says about it.

Responsible for turning configured addresses into bound sockets and for telling loopback peers
from others. Must not know what is spoken on the sockets.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Sequence

# How often a port that is free on the first address is looked for again because it is taken on a
# later one. Only port 0 is tried again.
FREE_PORT_ATTEMPTS = 20


def bind(addresses: Sequence[str], port: int) -> list[socket.socket]:
    """Make one bound, not yet listening, non-blocking socket per address, all on the same port.

    Args:
        addresses: IP addresses. An IPv6 one means IPv6 only, so that "::" and "0.0.0.0" can
            stand beside each other.
        port: 0 for any port that is free on all of them.

    Raises:
        OSError: an address cannot be had; its text names address and port.
    """
    attempts = FREE_PORT_ATTEMPTS if port == 0 and len(addresses) > 1 else 1
    for attempt in range(1, attempts + 1):
        try:
            return _bind_all(addresses, port)
        except OSError:
            if attempt == attempts:
                raise
    return []


def is_loopback(host: str) -> bool:
    """Say whether a PEER's address is of this machine's loopback interface.

    Never ask it about the address that was listened on: that says nothing of where a peer is.
    An IPv4 address in IPv6 clothes counts as what it is.
    """
    try:
        # A link-local address carries its interface, fe80::1%eth0.
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return False
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        return address.ipv4_mapped.is_loopback
    return address.is_loopback


def host_and_port(address: tuple[str, int] | tuple[str, int, int, int]) -> str:
    """Write a socket's address as people and URLs do: 127.0.0.1:5672, [::1]:5672."""
    host, port = address[0], address[1]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _bind_all(addresses: Sequence[str], port: int) -> list[socket.socket]:
    bound: list[socket.socket] = []
    try:
        for address in addresses:
            bound.append(_bind_one(address, port))
            port = bound[-1].getsockname()[1]
    except OSError:
        for one in bound:
            one.close()
        raise
    return bound


def _bind_one(address: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_STREAM)
    try:
        bound.setblocking(False)
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        bound.bind((address, port))
    except OSError as error:
        bound.close()
        where = host_and_port((address, port))
        raise OSError(error.errno, f"cannot listen on {where}: {error.strerror}") from None
    return bound
