# ruff: noqa: PYI021 - what a name is for should be seen where it is looked up
"""Types of peer.pyx."""

from collections.abc import Sequence
from typing import Protocol

from leporid.amqp.errors import Fault
from leporid.engine.connection.channel import Channel
from leporid.engine.connection.outbox import Outbox
from leporid.engine.plane import Plane
from leporid.engine.routing.route_cache import RouteCache

class _Session(Protocol):
    """What the engine calls of the control plane.

    The control plane knows the engine's parts by protocols of its own (broker/dataplane.py), so
    types cannot say here that what it returns is the engine's; the engine looks.
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

class Peer(Outbox):
    """Channels and answers of one connection."""

    session: _Session
    user_id: bytes
    """What the property user_id must be; empty: anything."""

    def __init__(self, plane: Plane, session: _Session | None = None) -> None: ...
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

    def forget_permissions(self) -> None:
        """Ask the session again for every exchange that is published to."""

    def await_eof(self) -> None:
        """Both sides have closed the connection; closing the socket is the peer's part."""

    def finish(self) -> None:
        """Nothing more is heard; the socket is closed when the output is sent."""

    def lost(self) -> None:
        """The socket is gone."""
