# ruff: noqa: PYI021 - what a name is for should be seen where it is looked up
"""Types of connection.pyx."""

from collections.abc import Callable, Iterator, Sequence
from typing import Final, Protocol

from leporid.amqp.errors import Fault
from leporid.engine.bounds.accounts import Account
from leporid.engine.bounds.clock import Party
from leporid.engine.connection.channel import Channel
from leporid.engine.connection.connections import Connections
from leporid.engine.connection.output import Output
from leporid.engine.routing.route_cache import RouteCache

PROTOCOL_HEADERS: Final[tuple[bytes, ...]]
OWN_HEADER: Final[bytes]

class _Session(Protocol):
    """The control plane's side of a connection, as the engine calls it.

    The engine checks the types of what it returns.
    """

    def on_greeting(self) -> None: ...
    def on_stranger(self, header: bytes, /) -> None: ...
    def on_method(self, channel: int, payload: bytes, /) -> None: ...
    def on_fault(self, channel: int, fault: Fault, /) -> None: ...
    def on_defect(self, error: Exception, /) -> None: ...
    def on_content(self, channel: int, kind: int, /) -> None: ...
    def on_lost(self) -> None: ...
    def on_blocked(self) -> None: ...
    def route_cache(self, exchange: str, /) -> object: ...  # None: a right is not known yet
    def check_of_keys(self, exchange: str, /) -> Callable[[str], bool | None] | None: ...
    def copies(
        self, routes: RouteCache, exchange: str, keys: list[str], properties: bytes, /
    ) -> Sequence[object] | Iterator[object]: ...
    def reply_address(self, channel: int, /) -> str: ...

class Connection:
    """One peer; the server calls `read_view`, `received`, `output.outgoing` and `sent`."""

    session: _Session | None
    """None: the socket was closed, and everything released."""
    account: Account
    """What it makes the broker keep; set before the first channel is opened."""
    party: Party | None
    """Whose connection it is."""
    user_id: bytes
    """What the property user_id must be; empty: anything."""
    last_received_ms: int
    """When bytes were last received from the peer."""

    @property
    def greeted(self) -> bool:
        """The protocol header was received."""

    @property
    def broken(self) -> bool:
        """Framing was lost: all further input is ignored."""

    internal: bool
    """It is no client's: alarms do not block it."""

    @property
    def blocked(self) -> bool:
        """It wants to publish while an alarm is on; nothing behind that is handled."""

    def unblock(self) -> None:
        """No alarm is on any more; nothing happens if one is."""

    received_max: int
    """With more bytes than these received, the connection ends; 0: any number may come."""

    @property
    def received_bytes(self) -> int: ...
    @property
    def sent_bytes(self) -> int: ...
    @property
    def content_count(self) -> int:
        """Messages whose frames have not all come."""

    @property
    def content_bytes(self) -> int:
        """What is kept of them."""

    @property
    def reading(self) -> bool:
        """Whether the server should read from this peer now."""

    def read_view(self) -> memoryview:
        """Where to read to; `received` must be called next."""

    def received(self, count: int) -> None:
        """`count` bytes were read to `read_view`."""

    def feed(self, data: bytes) -> None:
        """Handle bytes of any length that were not read to `read_view`."""

    def sent(self, count: int) -> None:
        """The first `count` bytes of the output were sent."""

    def __init__(self, connections: Connections, session: _Session | None = None) -> None: ...
    @property
    def output(self) -> Output: ...
    @property
    def channels(self) -> dict[int, Channel]: ...
    @property
    def closing(self) -> bool:
        """connection.close was sent or received."""

    @property
    def awaits_eof(self) -> bool:
        """Both sides have closed the connection, and the peer is to close the socket."""

    @property
    def finished(self) -> bool:
        """To be closed when the output is sent."""

    @property
    def is_lost(self) -> bool:
        """The socket was closed."""

    def send(self, channel: int, method: bytes) -> None:
        """Send a method frame; `method` is its payload."""

    def send_content(self, channel: int, method: bytes, properties: bytes, body: bytes) -> None:
        """Send a method with content."""

    def send_heartbeat(self) -> None: ...
    def hold(self, generation: int) -> None:
        """Keep methods that are sent back, and handle no input, until a generation is synced."""

    def open_channel(self, number: int) -> Channel: ...
    def close_channel(self, number: int) -> None: ...
    def refuse_channel(self, number: int) -> None:
        """channel.close was sent: close the channel, and ignore its frames until close-ok."""

    def mute(self) -> None:
        """connection.close was sent or received: handle class 10 only, deliver nothing more."""

    def shut(self) -> None:
        """connection.close was sent or received: close all channels, too."""

    @property
    def jobs(self) -> int:
        """How many jobs that methods have caused are under way."""

    def begin_work(self) -> None:
        """Handle no input until `end_work`: a job that a method has caused is under way."""

    def end_work(self) -> None:
        """The job has ended."""

    def await_eof(self) -> None:
        """Both sides have closed the connection, and the peer is to close the socket."""

    def finish(self) -> None:
        """Ignore all input from now on; the socket is closed when the output is sent."""

    def lost(self) -> None:
        """The socket was closed."""
