# ruff: noqa: PYI021 - what a name is for should be seen where it is looked up
"""Types of connection.pyx."""

from typing import Final

from leporid.engine.connection.peer import Peer

PROTOCOL_HEADERS: Final[tuple[bytes, ...]]
OWN_HEADER: Final[bytes]
SNIPPET_BYTES: Final[int]

class Connection(Peer):
    """One peer. The server reads into `read_view`, says `received`, and sends `outgoing`."""

    last_received_ms: int
    """When something was last heard from the peer."""

    @property
    def greeted(self) -> bool:
        """The protocol header came."""

    @property
    def broken(self) -> bool:
        """Frames cannot be told apart any more."""

    @property
    def published(self) -> bool:
        """It has published at least once."""

    @property
    def received_bytes(self) -> int: ...
    @property
    def reading(self) -> bool:
        """Whether the server should read from this peer now."""

    def read_view(self) -> memoryview:
        """Where to read to; `received` must be called next."""

    def received(self, count: int) -> None:
        """`count` bytes were read to `read_view`."""

    def feed(self, data: bytes) -> None:
        """The same for bytes from anywhere, of any length."""

def snippet(payload: bytes) -> str:
    """The first bytes of a frame, worded as RabbitMQ does."""

def undecodable(arguments: bytes) -> str:
    """Arguments that do not parse, worded as RabbitMQ does."""
