"""A connection to a broker in the same process: no socket, two objects that hand bytes over.

`MemoryTransport` is what the client's protocol writes to, a transport of asyncio like any other.
`MemoryLink` is the broker's end, what `server.link` is for a socket. The two may belong to
different event loops in different threads: then each is called on its own loop only, and bytes go
from one to the other by `call_soon_threadsafe`.

It must not know AMQP, nor a clock. Invariants: bytes arrive in the order in which they were
written; of the broker's output at most one piece is on its way to the client, so a client that
does not read holds its deliveries back in the broker, as behind a socket.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from leporid.broker.connection.session import ConnectionState
    from leporid.engine.connection.connection import Connection

PIECE_BYTES: Final = 256 * 1024
"""Of the broker's output so much is handed over at a time, as it sends to a socket."""
HIGH_BYTES: Final = 1024 * 1024
"""With more input that the broker has not read, the client's protocol is told to pause."""
LOW_BYTES: Final = 256 * 1024

ROUNDS_S: Final = 1.0
"""How long a client's loop in another thread is waited for."""

HEARTBEAT: Final = bytes.fromhex("08000000000000ce")
"""A heartbeat as a client writes it, by itself (AMQP 0-9-1, 4.2.7)."""

Call = Callable[..., None]


def caller(loop: asyncio.AbstractEventLoop, here: asyncio.AbstractEventLoop) -> Call:
    """Return what has a function called on `loop`, for somebody on the loop `here`."""

    def call(function: Callable[..., object], *arguments: object) -> None:
        if loop is here:
            loop.call_soon(function, *arguments)
            return
        try:
            loop.call_soon_threadsafe(function, *arguments)
        except RuntimeError:
            # The other loop is closed: nobody is there to be told anything.
            return

    return call


async def rounds_of(loop: asyncio.AbstractEventLoop, count: int) -> None:
    """Return when a loop of another thread has gone round `count` times.

    One that has ended, or that does something else for ROUNDS_S, is not waited for: it may be the
    one whose thread waits for us.
    """
    here = asyncio.get_running_loop()
    passed = here.create_future()

    def done() -> None:
        if not passed.done():
            passed.set_result(None)

    def go_round(left: int) -> None:
        if left:
            loop.call_soon(go_round, left - 1)
        else:
            caller(here, loop)(done)

    caller(loop, here)(go_round, count)
    await asyncio.wait([passed], timeout=ROUNDS_S)


class MemoryLink:
    """The broker's end. Used on the broker's loop.

    Args:
        connection: the data plane's half.
        session: the control plane's half.
        wake: has the broker work, soon.
        forget: called once, when the link has ended.

    Attributes:
        unread: what the client wrote and the broker has not read.
    """

    def __init__(
        self,
        connection: Connection,
        session: ConnectionState,
        wake: Callable[[], None],
        forget: Callable[[Connection], None],
    ) -> None:
        self.connection = connection
        self.session = session
        self.unread = bytearray()
        self._wake = wake
        self._forget = forget
        self._to_client: Call = _nobody
        self._client: MemoryTransport | None = None
        self._client_loop: asyncio.AbstractEventLoop | None = None
        self._on_its_way = self._stalled = False
        self._told_to_pause = False
        self._closed = False

    def __repr__(self) -> str:
        return f"<MemoryLink {self.session.name} {self.connection!r}>"

    def join(
        self, client: MemoryTransport, loop: asyncio.AbstractEventLoop, to_client: Call
    ) -> None:
        """Say who the client's end is, on which loop, and how it is called."""
        self._client = client
        self._client_loop = loop
        self._to_client = to_client

    def look_at_client(self) -> None:
        """End the link if the client's loop is closed: nobody is there any more."""
        if self._client_loop is not None and self._client_loop.is_closed():
            self._finish()

    @property
    def other_loop(self) -> asyncio.AbstractEventLoop | None:
        """The client's loop, if it runs in another thread than the broker's; otherwise None."""
        loop = self._client_loop
        if loop is None or loop is asyncio.get_running_loop() or not loop.is_running():
            return None
        return loop

    @property
    def quiet(self) -> bool:
        """Whether nothing is under way in either direction."""
        coming = self._on_its_way and not self._stalled
        waiting = self.unread and self.connection.reading
        return self._closed or not (coming or waiting)

    # ------------------------------------------------------------- from the client

    def receive(self, data: bytes) -> None:
        """Bytes that the client wrote."""
        if self._closed:
            return
        if data == HEARTBEAT:
            # The broker's clock stands still, so it never finds that it is time for one.
            self.connection.send_heartbeat()
        self.unread += data
        if len(self.unread) > HIGH_BYTES and not self._told_to_pause:
            self._told_to_pause = True
            self._tell(MemoryTransport.pause)
        self._wake()

    def stalled(self) -> None:
        """What was on its way waits until the client reads again."""
        self._stalled = True

    def delivered(self) -> None:
        """The client has what was on its way."""
        self._on_its_way = self._stalled = False
        self.send()
        self._wake()

    def end(self) -> None:
        """The client has closed its end."""
        self._finish()

    # ------------------------------------------------------------- in a turn of the broker

    def read(self) -> None:
        """Hand the broker what was written, as much as it reads in one turn."""
        connection = self.connection
        if not self.unread or self._closed or not connection.reading:
            return
        view = connection.read_view()
        count = min(len(view), len(self.unread))
        view[:count] = self.unread[:count]
        del view, self.unread[:count]
        connection.received(count)
        if self._told_to_pause and len(self.unread) < LOW_BYTES:
            self._told_to_pause = False
            self._tell(MemoryTransport.resume)

    def send(self) -> None:
        """Hand the client the next piece of output, if it takes one."""
        connection = self.connection
        if self._closed or self._on_its_way:
            return
        if not connection.output.pending_bytes:
            if connection.finished or connection.awaits_eof:
                self.cut()
            return
        pieces: list[bytes] = []
        left = PIECE_BYTES
        while left > 0 and (view := connection.output.outgoing()) is not None:
            pieces.append(bytes(view[:left]))
            del view
            left -= len(pieces[-1])
            connection.sent(len(pieces[-1]))
        self._on_its_way = True
        self._tell(MemoryTransport.data_came, b"".join(pieces))

    def cut(self) -> None:
        """End the link from the broker's side; what was handed over before still arrives."""
        if not self._closed:
            self._tell(MemoryTransport.lost)
            self._finish()

    def _finish(self) -> None:
        if not self._closed:
            self._closed = True
            self.unread.clear()
            self.connection.lost()
            self._forget(self.connection)
            self._wake()

    def _tell(self, what: Callable[..., None], *arguments: object) -> None:
        self._to_client(what, self._client, *arguments)


def _nobody(*_: object) -> None:
    """Call nobody: there is no client's end yet."""


class MemoryTransport(asyncio.Transport):
    """The client's end. Used on the client's loop.

    Args:
        protocol: the client's.
        link: the broker's end.
        to_broker: calls something on the broker's loop.
        loop: the client's.
        name: of the connection.
    """

    def __init__(
        self,
        protocol: asyncio.BaseProtocol,
        link: MemoryLink,
        to_broker: Call,
        loop: asyncio.AbstractEventLoop,
        name: str,
    ) -> None:
        super().__init__({"peername": ("memory", 0), "sockname": ("memory", 0)})
        self._protocol = protocol
        self._link = link
        self._to_broker = to_broker
        self._loop = loop
        self._name = name
        self._closing = False
        self._lost = False
        self._reading = True
        self._kept: bytes | None = None

    def __repr__(self) -> str:
        state = "closed" if self._lost else "closing" if self._closing else "open"
        return f"<MemoryTransport {self._name} {state}>"

    # ------------------------------------------------------------- what protocols call

    def get_protocol(self) -> asyncio.BaseProtocol:
        """Return who is told of what comes."""
        return self._protocol

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        """Have another one told."""
        self._protocol = protocol

    def write(self, data: bytes | bytearray | memoryview[Any]) -> None:
        """Hand bytes over; they are copied."""
        if data and not self._closing:
            self._to_broker(self._link.receive, bytes(data))

    def writelines(self, list_of_data: Iterable[bytes | bytearray | memoryview[Any]]) -> None:
        """Hand all of them over."""
        self.write(b"".join(list_of_data))

    def write_eof(self) -> None:
        """As close: a broker has nothing to say to a client that says nothing."""
        self.close()

    def can_write_eof(self) -> bool:
        """Say that there is no half-closed connection."""
        return False

    def get_write_buffer_size(self) -> int:
        """Return 0: what is written has left."""
        return 0

    def get_write_buffer_limits(self) -> tuple[int, int]:
        """Return from which numbers of bytes the protocol is paused and resumed."""
        return LOW_BYTES, HIGH_BYTES

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Change nothing: the broker's end says when it has too much."""

    def is_reading(self) -> bool:
        """Say whether the protocol is told of what comes."""
        return self._reading and not self._closing

    def pause_reading(self) -> None:
        """Tell the protocol of nothing until `resume_reading`."""
        self._reading = False

    def resume_reading(self) -> None:
        """Tell the protocol again."""
        self._reading = True
        if self._kept is not None:
            kept, self._kept = self._kept, None
            self._loop.call_soon(self.data_came, kept)

    def is_closing(self) -> bool:
        """Say whether it is closed, or about to be."""
        return self._closing

    def close(self) -> None:
        """End it; what was written before still arrives."""
        self.abort()

    def abort(self) -> None:
        """End it."""
        if not self._closing:
            self._closing = True
            self._to_broker(self._link.end)
            self._loop.call_soon(self.lost)

    # ------------------------------------------------------------- what the broker's end calls

    def data_came(self, data: bytes) -> None:
        """Give the protocol a piece, and have the next one sent."""
        if self._closing:
            return
        if not self._reading:
            self._kept = data
            self._to_broker(self._link.stalled)
            return
        protocol = self._protocol
        if isinstance(protocol, asyncio.BufferedProtocol):
            rest = memoryview(data)
            while rest:
                with memoryview(protocol.get_buffer(len(rest))) as buffer:
                    count = min(len(buffer), len(rest))
                    buffer[:count] = rest[:count]
                protocol.buffer_updated(count)
                rest = rest[count:]
        else:
            assert isinstance(protocol, asyncio.Protocol)
            protocol.data_received(data)
        self._to_broker(self._link.delivered)

    def lost(self) -> None:
        """Tell the protocol that this was all."""
        if not self._lost:
            self._lost = self._closing = True
            self._protocol.connection_lost(None)

    def pause(self) -> None:
        """Tell the protocol that the broker has more than it can read now."""
        if not self._lost:
            self._protocol.pause_writing()

    def resume(self) -> None:
        """Tell the protocol that the broker takes more."""
        if not self._lost:
            self._protocol.resume_writing()
