"""The PROXY protocol, versions 1 and 2: who is really at the other end of a connection.

Responsible for reading the header that a proxy sends before anything else, and for which peers are
believed. Must not know what follows the header. Invariants: not one octet behind the header is read
here; a header has HEADER_BYTES_MAX octets at most, of which those of its addresses are kept.

Source: the specification in HAProxy's repository, doc/proxy-protocol.txt, sections 2.1 and 2.2.
"""

from __future__ import annotations

import ipaddress
import re
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from leporid.server.settings import many, refusal, setting

# Of version 1, with the end of the line (2.1).
LINE_BYTES_MAX: Final = 107
SIGNATURE: Final = b"\r\n\r\n\x00\r\nQUIT\n"
# Signature, version and command, family, and the length of what follows (2.2).
FIXED_BYTES: Final = 16
# With what version 2 says beside addresses, such as the names in a client's certificate.
HEADER_BYTES_MAX: Final = 4096
LOCAL: Final = 0
PROXY: Final = 1
TCP4: Final = 0x11
TCP6: Final = 0x21
# Two addresses and two ports.
ADDRESS_BYTES: Final = {TCP4: 12, TCP6: 36}
FAMILIES: Final = {b"TCP4": ipaddress.IPv4Address, b"TCP6": ipaddress.IPv6Address}

_PORT: Final = re.compile(rb"[0-9]{1,5}")

Network = ipaddress.IPv4Network | ipaddress.IPv6Network
Address = tuple[str, int]


class ProxyError(ConnectionError):
    """What came is no header of this protocol; the text says why, and nothing that was sent."""


class Proxied(NamedTuple):
    """The connection that a proxy has accepted: from whom, and where to."""

    source: Address
    destination: Address


def _network(path: str, value: Any) -> Network:
    try:
        return ipaddress.ip_network(value if isinstance(value, str) else "")
    except ValueError as error:
        allowed = f'must be a network such as "10.0.0.0/8" or an address such as "::1" ({error})'
        raise refusal(path, value, allowed) from None


@dataclass(frozen=True, slots=True)
class ProxyProtocol:
    """`[proxy_protocol]`: proxies that say whom they speak for."""

    trusted: tuple[Network, ...] = setting(
        many(_network),
        (),
        "networks of [proxies](#behind-a-proxy) that begin each connection, of AMQP and of "
        "HTTP, with a header of the PROXY protocol. A connection from there without one is closed; "
        "from elsewhere, one with a header is",
        rabbitmq="`proxy_protocol`, which trusts everybody",
    )


class TrustedProxies:
    """Whose headers are believed."""

    def __init__(self, networks: Sequence[Network]) -> None:
        self._networks = tuple(networks)

    def __contains__(self, host: object) -> bool:
        """Say whether a peer's address is that of a proxy."""
        if not self._networks or not isinstance(host, str):
            return False
        try:
            address = ipaddress.ip_address(host.partition("%")[0])
        except ValueError:
            return False
        mapped = getattr(address, "ipv4_mapped", None)
        return any((mapped or address) in network for network in self._networks)


class Header:
    """One header, given as it comes in.

    Attributes:
        done: whether it is there as a whole.
        proxied: what it says; None: nothing about a client, as the proxy speaks for itself or does
            not know.
    """

    def __init__(self) -> None:
        self.done = False
        self.proxied: Proxied | None = None
        self._kept = b""
        # Of version 2: octets that are still to come, without those that are kept.
        self._left = -1

    def take(self, data: bytes) -> int:
        """Take what belongs to it; returns how many octets that is, at least one.

        Args:
            data: what comes next, at least one octet.

        Raises:
            ProxyError: it is no header.
        """
        start = (self._kept + data)[: len(SIGNATURE)]
        if SIGNATURE.startswith(start):
            return self._take_binary(data)
        return self._take_line(data)

    def _take_line(self, data: bytes) -> int:
        whole = self._kept + data[: LINE_BYTES_MAX - len(self._kept)]
        if not b"PROXY "[: len(whole)] == whole[:6]:
            raise ProxyError("it sent no header of the PROXY protocol")
        end = whole.find(b"\r\n")
        if end < 0:
            if len(whole) >= LINE_BYTES_MAX:
                raise ProxyError(f"the header has no end within {LINE_BYTES_MAX} octets")
            taken = len(whole) - len(self._kept)
            self._kept = whole
            return taken
        taken = end + 2 - len(self._kept)
        self._kept = b""
        self.done = True
        self.proxied = _of_line(whole[:end])
        return taken

    def _take_binary(self, data: bytes) -> int:
        taken = 0
        if self._left < 0:
            taken = min(FIXED_BYTES - len(self._kept), len(data))
            self._kept += data[:taken]
            if len(self._kept) < FIXED_BYTES:
                return taken
            self._left = _length(self._kept)
        wanted = FIXED_BYTES + max(ADDRESS_BYTES.values())
        rest = data[taken : taken + self._left]
        self._left -= len(rest)
        self._kept = (self._kept + rest)[:wanted]
        if not self._left:
            self.done = True
            self.proxied = _of_binary(self._kept)
            self._kept = b""
        return taken + len(rest)


def _of_line(line: bytes) -> Proxied | None:
    words = line.split(b" ")
    if words[1:2] == [b"UNKNOWN"]:
        return None  # what follows is to be ignored
    if len(words) != 6 or words[1] not in FAMILIES:
        raise ProxyError("the header is not of the form PROXY TCP4 source destination port port")
    family = FAMILIES[words[1]]
    try:
        source, destination = (str(family(word.decode("ascii"))) for word in words[2:4])
        ports = [int(word) for word in words[4:] if _PORT.fullmatch(word)]
    except ValueError:
        raise ProxyError("invalid address in the header") from None
    if len(ports) != 2 or max(ports) > 65535:
        raise ProxyError("invalid port in the header")
    return Proxied((source, ports[0]), (destination, ports[1]))


def _length(fixed: bytes) -> int:
    """Check the part of version 2 that has always the same length; return what follows."""
    if fixed[12] >> 4 != 2 or fixed[12] & 15 not in (LOCAL, PROXY):
        raise ProxyError("the header has a version or a command that nobody knows")
    length = int.from_bytes(fixed[14:16])
    if FIXED_BYTES + length > HEADER_BYTES_MAX:
        raise ProxyError(
            f"the header has {FIXED_BYTES + length} octets; at most {HEADER_BYTES_MAX} may be"
        )
    return length


def _of_binary(header: bytes) -> Proxied | None:
    command, family = header[12] & 15, header[13]
    if command == LOCAL or family not in ADDRESS_BYTES:
        return None  # the proxy itself; a local socket, UDP
    addresses = header[FIXED_BYTES : FIXED_BYTES + ADDRESS_BYTES[family]]
    if len(addresses) < ADDRESS_BYTES[family]:
        raise ProxyError("the header is too short for its addresses")
    size = (len(addresses) - 4) // 2
    hosts = [str(ipaddress.ip_address(addresses[at : at + size])) for at in (0, size)]
    ports = [int.from_bytes(addresses[at : at + 2]) for at in (2 * size, 2 * size + 2)]
    return Proxied((hosts[0], ports[0]), (hosts[1], ports[1]))


class ProxiedSocket:
    """A connected, non-blocking socket whose peer is a proxy that is believed.

    Attributes:
        plain: the socket.
        on_header: called once when the header is there, before anything behind it is read.
        has_more: whether something can be read of which the operating system does not tell: never.
        unsent: what the operating system had no room for: nothing.
    """

    __slots__ = ("_header", "on_header", "plain")
    has_more: Final = False
    unsent: Final = b""

    def __init__(self, plain: socket.socket) -> None:
        self.plain = plain
        self._header: Header | None = Header()
        self.on_header: Callable[[Proxied | None], None] | None = None

    def __repr__(self) -> str:
        return f"<ProxiedSocket {self.plain.fileno()}>"

    def fileno(self) -> int:
        """The descriptor; -1: it is closed."""
        return self.plain.fileno()

    def recv(self, count: int) -> bytes:
        """Read what is behind the header.

        Raises:
            BlockingIOError: nothing of it has come.
            ProxyError: there is no header.
            OSError: the peer is gone.
        """
        self._read_header()
        return self.plain.recv(count)

    def recv_into(self, view: memoryview) -> int:
        """Likewise."""
        self._read_header()
        return self.plain.recv_into(view)

    def send(self, view: memoryview | bytes) -> int:
        """Send something."""
        return self.plain.send(view)

    def flush(self) -> None:
        """Nothing is kept here."""

    def shutdown(self, how: int) -> None:
        """Shut it."""
        self.plain.shutdown(how)

    def close(self) -> None:
        """Close it; nobody is told of a header any more."""
        self.on_header = None
        self.plain.close()

    def _read_header(self) -> None:
        header = self._header
        if header is None:
            return
        while not header.done:
            data = self.plain.recv(HEADER_BYTES_MAX, socket.MSG_PEEK)
            if not data:
                raise ProxyError("it ended before its header of the PROXY protocol did")
            self.plain.recv(header.take(data))
        self._header = None
        call, self.on_header = self.on_header, None
        if call is not None:
            call(header.proxied)
