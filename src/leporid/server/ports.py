"""The ports of a broker: which there are, and the sockets that listen on them.

Responsible for binding what the configuration asks for, and for saying what is listened on. Must
not know what is spoken there. Invariant: all ports that were asked for are bound, or none is.
"""

from __future__ import annotations

import errno
import logging
import socket
from collections.abc import Callable, Container, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from leporid.server import addresses
from leporid.server.config import METRICS_PORT, Config
from leporid.server.proxy_protocol import TrustedProxies
from leporid.server.tls import Certificates

logger = logging.getLogger(__name__)

# What to do about what the operating system says when ports are bound.
REMEDIES: Final = {
    errno.EADDRINUSE: "; stop what listens there, or take another port (--amqp-port, --http-port, "
    "--metrics-port; amqps_port, https_port, metrics_https_port in the configuration)",
    errno.EADDRNOTAVAIL: "; --bind, or bind in the configuration, takes addresses of this machine",
}


class Sockets(NamedTuple):
    """The sockets of one protocol, without TLS and with it."""

    plain: Sequence[socket.socket] = ()
    tls: Sequence[socket.socket] = ()

    @property
    def used(self) -> bool:
        """Whether there is any."""
        return bool(self.plain or self.tls)


class Port(NamedTuple):
    """One socket that is listened on.

    Attributes:
        name: as in the line `ready`: amqp, amqps, http, https, metrics or metrics-https.
    """

    name: str
    host: str
    port: int
    tls: bool


@dataclass(frozen=True, slots=True)
class Ports:
    """All of them.

    Attributes:
        certificates: what clients that speak TLS are shown; None: nothing is encrypted.
        proxies: peers that say for whom they speak, and are believed.
    """

    amqp: Sockets
    http: Sockets
    metrics: Sockets
    certificates: Certificates | None = None
    proxies: Container[str] = ()

    def listening(self) -> Iterator[Port]:
        """Go through the sockets that are open."""
        for sockets, plain_name, tls_name in (
            (self.amqp, "amqp", "amqps"),
            (self.http, "http", "https"),
            (self.metrics, "metrics", "metrics-https"),
        ):
            for name, several in ((plain_name, sockets.plain), (tls_name, sockets.tls)):
                for one in several:
                    if one.fileno() >= 0:
                        host, port = one.getsockname()[:2]
                        yield Port(name, host, port, name == tls_name)

    def ready_line(self) -> str:
        """Say where the first socket of each port is, as `name=address`."""
        first: dict[str, str] = {}
        for each in self.listening():
            first.setdefault(each.name, addresses.host_and_port((each.host, each.port)))
        return " ".join(f"{name}={address}" for name, address in first.items())


def bind(config: Config) -> Ports:
    """Bind all ports.

    Raises:
        ConfigError: the certificate or its key cannot be used.
        OSError: a port cannot be had.
    """
    certificates = Certificates(config.tls) if config.tls.certificate else None
    bound: list[socket.socket] = []

    def take(port: int) -> list[socket.socket]:
        found = [] if port < 0 else addresses.bind(config.bind, port)
        bound.extend(found)
        return found

    def take_tls(port: int) -> list[socket.socket]:
        return take(port) if certificates is not None else []

    try:
        return Ports(
            amqp=Sockets(take(config.amqp_port), take_tls(config.amqps_port)),
            http=Sockets(take(config.http_port), take_tls(config.https_port)),
            metrics=Sockets(_metrics(config, take), take_tls(config.metrics_https_port)),
            certificates=certificates,
            proxies=TrustedProxies(config.proxy_protocol.trusted),
        )
    except OSError:
        for one in bound:
            one.close()
        raise


def _metrics(config: Config, take: Callable[[int], list[socket.socket]]) -> list[socket.socket]:
    """Bind the port for metrics alone, or leave it out if nobody asked for it and it is taken.

    So a second broker of one machine needs no more than other ports for AMQP and HTTP.
    """
    try:
        return take(config.metrics_port)
    except OSError as error:
        if error.errno != errno.EADDRINUSE or config.metrics_port != METRICS_PORT:
            raise
        logger.warning("%s; there is no port for metrics alone (metrics_port)", error.strerror)
        return []
