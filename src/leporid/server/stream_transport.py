"""An asyncio transport over a stream of our own: TLS, or a socket behind a proxy.

Responsible for giving asyncio's protocols what such a stream reads, and for sending what they
write. Must not know what is spoken. It stands in the place of the loop's own transport because that
one decrypts all that it has received in one go: 256 KiB of new keys (RFC 8446 4.6.3), which take
22 octets and 30 microseconds each, would keep the loop for a third of a second.

Invariants: all transports together read for ROUND_SECONDS in one round of the loop, and one read
more at most; what is written and not sent has no bound but that the protocol is told to pause.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
import time
from collections.abc import Callable
from typing import Any, Final

from leporid.limits.log_lines import caused_by
from leporid.limits.shares import address_key
from leporid.server.addresses import host_and_port
from leporid.server.tls import SENT_BYTES, Stream, reason_to_log

logger = logging.getLogger(__name__)

# Of a round, for decrypting what peers have sent.
ROUND_SECONDS: Final = 0.001
READ_BYTES: Final = 64 * 1024
# Sent at a time before others have their turn.
SEND_BYTES: Final = 256 * 1024
# Not sent yet: above the first the protocol pauses, below the second it goes on. As asyncio's.
HIGH_WATER_BYTES: Final = 64 * 1024
LOW_WATER_BYTES: Final = 16 * 1024
# Who is told of a connection that has ended.
NOBODY: Final = asyncio.Protocol()


class Rounds:
    """Lets transports read in turns.

    Args:
        monotonic: seconds.

    Attributes:
        view: what they read into.
    """

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self.view = memoryview(bytearray(READ_BYTES))
        self._monotonic = monotonic
        self._waiting: dict[StreamTransport, None] = {}
        self._loop = asyncio.get_running_loop()

    def __repr__(self) -> str:
        return f"<Rounds waiting={len(self._waiting)}>"

    def add(self, transport: StreamTransport) -> None:
        """Have a transport read once, when it is its turn."""
        if not self._waiting:
            self._loop.call_soon(self._run)
        self._waiting[transport] = None

    def remove(self, transport: StreamTransport) -> None:
        """It reads no more for now."""
        self._waiting.pop(transport, None)

    def _run(self) -> None:
        until = self._monotonic() + ROUND_SECONDS
        waiting, self._waiting = self._waiting, {}
        while waiting:
            transport = next(iter(waiting))
            del waiting[transport]
            transport.read()
            if self._monotonic() >= until:
                break
        # Those who wait longer come first.
        for transport in self._waiting:
            waiting.setdefault(transport)
        if waiting and not self._waiting:
            self._loop.call_soon(self._run)
        self._waiting = waiting


class StreamTransport(asyncio.Transport):
    """A connected stream as a transport; it reads from `start` on.

    Args:
        stream: non-blocking.
        protocol: told of everything.
        rounds: whose turn it is.
        address: of the peer.
    """

    def __init__(
        self,
        stream: Stream,
        protocol: asyncio.Protocol,
        rounds: Rounds,
        address: tuple[str, int],
        context: ssl.SSLContext | None = None,
    ) -> None:
        super().__init__()
        self._facts = {"peername": address, "sslcontext": context, "sockname": _own(stream)}
        self._stream = stream
        self._protocol: asyncio.BaseProtocol = protocol
        self._rounds = rounds
        self._address = address
        self._loop = asyncio.get_running_loop()
        self._buffer = bytearray()
        self._reads = self._writes = False
        self._paused_protocol = self._closing = self._closed = False

    def __repr__(self) -> str:
        return f"<StreamTransport {host_and_port(self._address)} {self._stream!r}>"

    def start(self) -> None:
        """Tell the protocol that it is connected, and read."""
        self._protocol.connection_made(self)
        self.resume_reading()

    def set_address(self, address: tuple[str, int]) -> None:
        """The peer is another one than it seemed."""
        self._address = address
        self._facts["peername"] = address

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """Return a fact; `socket` is none of them, as its address may be a proxy's."""
        return self._facts.get(name, default)

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        """Have another protocol told."""
        self._protocol = protocol

    def get_protocol(self) -> asyncio.BaseProtocol:
        """Return who is told."""
        return self._protocol

    def is_closing(self) -> bool:
        """Whether it is closed, or will be when all is sent."""
        return self._closing

    # ------------------------------------------------------------- reading

    def is_reading(self) -> bool:
        """Whether it reads."""
        return self._reads

    def pause_reading(self) -> None:
        """Read no more for now."""
        if self._reads:
            self._reads = False
            self._loop.remove_reader(self._stream.fileno())
            self._rounds.remove(self)

    def resume_reading(self) -> None:
        """Read again."""
        if not self._reads and not self._closing:
            self._reads = True
            self._loop.add_reader(self._stream.fileno(), self._rounds.add, self)
            if self._stream.has_more:
                self._rounds.add(self)

    def read(self) -> None:
        """Read once, and tell the protocol; `Rounds` calls it."""
        if not self._reads:
            return
        view = self._rounds.view
        try:
            count = self._stream.recv_into(view)
        except (BlockingIOError, InterruptedError):
            self._go_on()
            return
        except OSError as error:
            self._log(error)
            self._end(error)
            return
        if not count:
            if not self._asyncio_protocol.eof_received():
                self.close()
            return
        try:
            self._asyncio_protocol.data_received(bytes(view[:count]))
        except Exception as error:
            # As in asyncio: a defect ends this connection, and no other.
            logger.exception("defect in an HTTP connection of %s", host_and_port(self._address))
            self._end(error)
            return
        self._go_on()

    @property
    def _asyncio_protocol(self) -> asyncio.Protocol:
        assert isinstance(self._protocol, asyncio.Protocol)
        return self._protocol

    def _go_on(self) -> None:
        """See what the operating system cannot know: what was received, and what TLS answers."""
        if self._reads and self._stream.has_more:
            self._rounds.add(self)
        if self._stream.unsent and not self._closed:
            self._write_later()

    def _log(self, error: OSError) -> None:
        why = reason_to_log(error)
        if why:
            key = address_key(self._address[0])
            name = host_and_port(self._address)
            logger.info("%s: %s", name, why, extra=caused_by(name, f"address {key}"))

    # ------------------------------------------------------------- writing

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Send something, or keep it until there is room."""
        if self._closing:
            return
        self._buffer += data
        if not self._writes:
            self._send()
        if len(self._buffer) > HIGH_WATER_BYTES and not self._paused_protocol:
            self._paused_protocol = True
            self._protocol.pause_writing()

    def writelines(self, list_of_data: Any) -> None:
        """Send several pieces."""
        self.write(b"".join(list_of_data))

    def can_write_eof(self) -> bool:
        """TLS cannot end one direction alone."""
        return False

    def get_write_buffer_size(self) -> int:
        """How many octets were written and not sent."""
        return len(self._buffer) + len(self._stream.unsent)

    def _send(self) -> None:
        """Send as much as there is room for, and no more than others can wait for."""
        sent = 0
        try:
            while sent < len(self._buffer) and sent < SEND_BYTES:
                # A copy, as the traceback of an error would keep what it could not send, and
                # nothing could be taken out of the buffer then.
                sent += self._stream.send(bytes(memoryview(self._buffer)[sent : sent + SENT_BYTES]))
        except (BlockingIOError, InterruptedError):
            pass
        except OSError as error:
            self._end(error)
            return
        del self._buffer[:sent]
        if self._buffer or self._stream.unsent:
            self._write_later()

    def _write_later(self) -> None:
        if not self._writes:
            self._writes = True
            self._loop.add_writer(self._stream.fileno(), self._on_writable)

    def _on_writable(self) -> None:
        self._loop.remove_writer(self._stream.fileno())
        self._writes = False
        try:
            self._stream.flush()
        except OSError as error:
            self._end(error)
            return
        self._send()
        if self._closed:
            return
        if self._paused_protocol and len(self._buffer) < LOW_WATER_BYTES:
            self._paused_protocol = False
            self._protocol.resume_writing()
        if self._closing and not self._writes:
            self._end(None)

    # ------------------------------------------------------------- closing

    def close(self) -> None:
        """Close when all is sent."""
        if self._closing:
            return
        self.pause_reading()
        self._closing = True
        if not self._writes:
            self._end(None)

    def abort(self) -> None:
        """Close now."""
        self._end(None, in_order=False)

    def _end(self, error: Exception | None, *, in_order: bool = True) -> None:
        if self._closed:
            return
        self.pause_reading()
        self._closing = self._closed = True
        self._rounds.remove(self)
        if self._writes:
            self._loop.remove_writer(self._stream.fileno())
            self._writes = False
        if in_order and error is None:
            try:
                self._stream.shutdown(socket.SHUT_WR)
            except OSError:
                pass  # the peer is gone
        self._buffer.clear()
        self._stream.close()
        self._loop.call_soon(self._lost, error)

    def _lost(self, error: Exception | None) -> None:
        """Tell the protocol, and forget it: only a full collection would free the two of them."""
        protocol, self._protocol = self._protocol, NOBODY
        protocol.connection_lost(error)


def _own(stream: Stream) -> Any:
    try:
        return stream.plain.getsockname()
    except OSError:
        return None
