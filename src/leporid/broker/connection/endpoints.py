"""Where a connection's socket leads from and to, and what RabbitMQ calls it after that.

Must not know sockets: the server fills these in. Invariant: the name tells any two connections of
one moment apart.
"""

from __future__ import annotations

from typing import NamedTuple


class Endpoints(NamedTuple):
    """Both ends of a connection's socket: the client's, and the one it has connected to."""

    peer_host: str
    peer_port: int
    host: str
    port: int
    tls: bool = False

    def __str__(self) -> str:
        """Return what RabbitMQ calls such a connection."""
        return f"{_host(self.peer_host)}:{self.peer_port} -> {_host(self.host)}:{self.port}"


def _host(host: str) -> str:
    return f"[{host}]" if ":" in host else host
