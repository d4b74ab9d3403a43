# ruff: noqa: PYI021 - what a name is for should be seen where it is looked up
"""Types of connection.pyx."""

from collections.abc import Sequence
from typing import Final, Protocol

from leporid.amqp.errors import Fault
from leporid.engine.connection.channel import Channel
from leporid.engine.connection.connections import Connections
from leporid.engine.connection.output import Output
from leporid.engine.routing.route_cache import RouteCache

PROTOCOL_HEADERS: Final[tuple[bytes, ...]]
OWN_HEADER: Final[bytes]
SNIPPET_BYTES: Final[int]

class _Session(Protocol):
    """What the engine calls of the control plane.

    Types cannot say here that what it returns is the engine's; the engine looks.
    """

    def on_greeting(self) -> None: ...
    def on_stranger(self, header: bytes, /) -> None: ...
    def on_method(self, channel: int, payload: bytes, /) -> None: ...
    def on_fault(self, channel: int, fault: Fault, /) -> None: ...
    def on_defect(self, error: Exception, /) -> None: ...
    def on_content(self, channel: int, kind: int, /) -> None: ...
    def on_lost(self) -> None: ...
    def route_cache(self, exchange: str, /) -> object: ...
    def copies(
        self, routes: RouteCache, exchange: str, keys: list[str], properties: bytes, /
    ) -> Sequence[object]: ...
    def reply_address(self, channel: int, /) -> str: ...

class Connection:
    """One peer: the server reads into `read_view`, says `received`, sends `output`, says `sent`."""

    session: _Session
    user_id: bytes
    """What the property user_id must be; empty: anything."""
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

    def sent(self, count: int) -> None:
        """The first `count` bytes of the output have left."""

    def __init__(self, connections: Connections, session: _Session | None = None) -> None: ...
    @property
    def output(self) -> Output: ...
    @property
    def channels(self) -> dict[int, Channel]: ...
    @property
    def closing(self) -> bool:
        """connection.close was sent or came."""

    @property
    def awaits_eof(self) -> bool:
        """connection.close was answered: only a further one is heard until the peer is gone."""

    @property
    def finished(self) -> bool:
        """To be closed when the output is sent."""

    @property
    def is_lost(self) -> bool:
        """The socket is gone."""

    def send(self, channel: int, method: bytes) -> None:
        """One method frame; `method` is its payload."""

    def send_content(self, channel: int, method: bytes, properties: bytes, body: bytes) -> None:
        """A method with content."""

    def send_heartbeat(self) -> None: ...
    def hold(self, generation: int) -> None:
        """Keep answers back and handle no input until that generation is synced."""

    def open_channel(self, number: int) -> Channel: ...
    def close_channel(self, number: int) -> None: ...
    def refuse_channel(self, number: int) -> None:
        """channel.close was sent: nothing else counts until the peer's close-ok."""

    def shut(self) -> None:
        """connection.close was sent or came."""

    def await_eof(self) -> None:
        """Both sides have closed the connection; closing the socket is the peer's part."""

    def finish(self) -> None:
        """Nothing more is heard; the socket is closed when the output is sent."""

    def lost(self) -> None:
        """The socket is gone."""

def snippet(payload: bytes) -> str:
    """The first bytes of a frame, worded as RabbitMQ does."""

def undecodable(arguments: bytes) -> str:
    """Arguments that do not parse, worded as RabbitMQ does."""
