"""A link: one peer's socket, joined to one connection of the data plane.

Responsible for reading and sending at most one turn's bytes at a time, for what the end of an
unread peer means, and for sending the last output before the socket is closed. It does not know
AMQP. It drives the socket itself instead of through a transport, because a transport reads as often
as it likes within one event (docs/decisions/0003). Invariant: the socket is read only while the
connection wants to read.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from typing import TYPE_CHECKING, Final

from leporid.server.tls import Stream, TlsSocket, reason_to_log

if TYPE_CHECKING:
    from leporid.broker.connection.session import ConnectionState
    from leporid.engine.connection.connection import Connection
    from leporid.limits.shares import Slot
    from leporid.server.hangups import Hangups
    from leporid.server.turns import Turns

logger = logging.getLogger(__name__)

# After our last byte a peer gets this long to read it and close, before the socket goes; closing
# at once would reset the connection when unread input is left, and our last words with it.
LINGER_S: Final = 3.0
DISCARD_BYTES: Final = 65536
# A peer that sends nothing more may still take what it asked for; one that takes nothing for so
# long, with output that waits for it, is gone.
HALF_OPEN_MS: Final = 1000
# Of large messages so much is sent at a time. Readers of them take turns: a quarter of a
# millisecond each.
SEND_BYTES: Final = 256 * 1024

# Not on every system.
USER_TIMEOUT: Final[int | None] = getattr(socket, "TCP_USER_TIMEOUT", None)


class Link:
    """One accepted socket.

    Args:
        sock: connected and non-blocking, plain, with TLS, or behind a proxy.

    Attributes:
        sock: the plain one.
        accepted_ms: the engine's time when it was made.
        listening_ms: since when the peer is read from, if it is; before, it could not be heard.
        unread_ms: since when it is not, if it is not.
        overdue: whether it had missed its heartbeats when the listener last looked.
        closing_ms: since when it is known to the listener as closing; None: it is not.
        slot: of its user, if connections are nearly used up; released when it is gone.
    """

    __slots__ = (
        "_closed",
        "_ended_ms",
        "_gone",
        "_hangups",
        "_linger",
        "_loop",
        "_reading",
        "_shut",
        "_stream",
        "_tls",
        "_turns",
        "_unacknowledged_ms",
        "_writing",
        "accepted_ms",
        "closing_ms",
        "connection",
        "listening_ms",
        "overdue",
        "session",
        "slot",
        "sock",
        "unread_ms",
    )

    def __init__(
        self,
        sock: socket.socket | Stream,
        connection: Connection,
        session: ConnectionState,
        turns: Turns,
    ) -> None:
        self._stream = sock
        self._tls = sock if isinstance(sock, TlsSocket) else None
        self.sock = sock if isinstance(sock, socket.socket) else sock.plain
        self.connection = connection
        self.session = session
        self.accepted_ms = turns.engine.clock.now_ms
        self.listening_ms = self.unread_ms = self.accepted_ms
        self.overdue = False
        self.slot: Slot | None = None
        self.closing_ms: int | None = None
        self._turns = turns
        self._loop = asyncio.get_running_loop()
        self._reading = False
        self._writing = False
        self._shut = False
        self._closed = False
        self._hangups: Hangups | None = None
        self._ended_ms: int | None = None
        self._gone = False
        self._unacknowledged_ms = 0
        self._linger: asyncio.TimerHandle | None = None
        turns.add(self)
        self.update_reading()

    def __repr__(self) -> str:
        return f"<Link {self.session.name} {self.connection!r}>"

    # ------------------------------------------------------------- reading

    def update_reading(self) -> None:
        """Read if the connection wants to, and only then."""
        wanted = self.connection.reading and not self._closed
        if wanted and not self._reading:
            self._turns.readiness.watch(self.sock, self._on_readable)
            self._look_at_tls()
            self.listening_ms = self._turns.engine.clock.now_ms
        elif not wanted and self._reading and not self._shut:
            self._turns.readiness.forget(self.sock)
            self.unread_ms = self._turns.engine.clock.now_ms
        else:
            return
        self._reading = wanted

    def _on_readable(self) -> None:
        connection = self.connection
        if not connection.reading:
            self.update_reading()
            return
        if not self._turns.engine.clock.has_slice(connection.party):
            self._put_off()
            return
        view = connection.read_view()
        try:
            count = self._stream.recv_into(view)
        except (BlockingIOError, InterruptedError):
            connection.received(0)
            # If that was the last look at the clock in this stage, only a turn begins the next.
            self._turns.wake()
            self._look_at_tls()
            return
        except OSError as error:
            why = reason_to_log(error)
            if why:
                logger.info("%s: %s", self.session.name, why, extra=self.session.log_extra)
            self.close()
            return
        if not count:
            self.close()
            return
        self._turns.set_clock()  # a time to live counts from now, not from the last turn
        connection.received(count)
        self._turns.wake()
        self._look_at_tls()

    def _put_off(self) -> None:
        """Its party has had its part of this round; only a turn begins the next."""
        self._turns.readiness.put_off(self.sock, self.connection.party)
        self._turns.wake()

    def _look_at_tls(self) -> None:
        """See what the operating system cannot know: what was decrypted, and what is to be sent."""
        tls = self._tls
        if tls is None or self._closed:
            return
        if tls.has_more:
            self._turns.readiness.again(self.sock)
        if tls.unsent:
            self._write_later()

    # ------------------------------------------------------------- sending

    def flush(self) -> int:
        """Send what there is, the rest when the socket takes more; read on if that is due.

        A peer whose output never ends is read all the same: among what it says are the settles
        and heartbeats without which it would be given up.

        Returns:
            How many bytes were sent.
        """
        sent = 0 if self._closed or self._writing else self._send()
        if self._closed:
            return sent
        if self.connection.closing:
            self._see_off()
        else:
            self.update_reading()
        return sent

    def _send(self) -> int:
        connection = self.connection
        left = SEND_BYTES
        while (view := connection.output.outgoing()) is not None:
            try:
                count = self._stream.send(view)
            except (BlockingIOError, InterruptedError):
                count = 0
            except OSError:
                self.close()
                break
            # TLS takes so much at a time; the socket may have room for more.
            full = len(view) - count if self._tls is None else self._tls.unsent or not count
            del view
            if count:
                connection.sent(count)
            left -= count
            if full or (left <= 0 and connection.output.pending_bytes):
                self._write_later()
                break
            if not connection.output.pending_bytes:
                break
        return SEND_BYTES - left

    def _write_later(self) -> None:
        """Go on when the socket has room."""
        if not self._writing:
            self._writing = True
            self._loop.add_writer(self.sock, self._on_writable)

    def _on_writable(self) -> None:
        self._loop.remove_writer(self.sock)
        self._writing = False
        if self._tls is not None:
            try:
                self._tls.flush()
            except OSError:
                self.close()
                return
            self._look_at_tls()
        # A thousand sockets may have room at one moment.
        self._turns.send_later(self)

    # ------------------------------------------------------------- a peer that is not read

    def watch_end(self, hangups: Hangups) -> None:
        """Notice the peer's end although it is not read."""
        if self._hangups is None and not self._closed:
            self._hangups = hangups
            hangups.watch(self.sock, self._on_end)

    def _on_end(self, gone: bool) -> None:
        self._turns.set_clock()
        if self._ended_ms is None:
            self._ended_ms = self._turns.engine.clock.now_ms
        self._gone = self._gone or gone
        self.heed_end()

    def heed_end(self) -> None:
        """Close if the peer has ended, and what it sent before will not be read soon.

        Nobody was promised anything of what was not read. While an alarm is on nobody knows when it
        would be, and what this connection keeps may be why.
        """
        connection = self.connection
        if self._ended_ms is None or connection.reading:
            return
        taken_ms = max(self._ended_ms, connection.output.last_sent_ms)
        deaf = connection.output.pending_bytes and (
            self._turns.engine.clock.now_ms - taken_ms >= HALF_OPEN_MS
        )
        if self._gone or self.session.blocked or deaf:
            logger.info(
                "%s: it ended while it was not read",
                self.session.name,
                extra=self.session.log_extra,
            )
            self.close()

    def limit_unacknowledged(self, limit_ms: int) -> None:
        """Have the operating system end it when the peer acknowledges nothing for so long.

        Args:
            limit_ms: of data that was sent; 0: the system's own limit, on Linux about 15 minutes.
        """
        if limit_ms != self._unacknowledged_ms and USER_TIMEOUT is not None and not self._closed:
            self._unacknowledged_ms = limit_ms
            self.sock.setsockopt(socket.IPPROTO_TCP, USER_TIMEOUT, limit_ms)

    # ------------------------------------------------------------- closing

    def _see_off(self) -> None:
        """The connection ends, or has ended: the socket goes when all is sent, or the peer goes."""
        if self.connection.finished and not self._writing:
            self._shut_down()
            return
        if self.connection.awaits_eof and not self._writing:
            self._turns.awaits_eof(self)
        self.update_reading()

    def _shut_down(self) -> None:
        """All is sent: say so, and wait a moment for the peer to close."""
        if self._shut:
            return
        self._shut = True
        try:
            self._stream.shutdown(socket.SHUT_WR)
        except OSError:
            self.close()
            return
        self._turns.readiness.watch(self.sock, self._discard)
        self._reading = True
        self._linger = self._loop.call_later(LINGER_S, self.close)

    def _discard(self) -> None:
        if not self._turns.engine.clock.has_slice(self.connection.party):
            self._put_off()
            return  # a thousand that end at once are seen off in several rounds
        try:
            if self.sock.recv(DISCARD_BYTES):
                return
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            pass
        self.close()

    def close(self) -> None:
        """The socket goes, with whatever was not sent; a second call does nothing."""
        if self._closed:
            return
        self._closed = True
        if self._linger is not None:
            self._linger.cancel()
            self._linger = None
        self._turns.remove(self)
        if self._hangups is not None:
            self._hangups.forget(self.sock)
        self._turns.readiness.forget(self.sock)
        self._loop.remove_writer(self.sock)
        self._reading = self._writing = False
        self._stream.close()
        self.connection.lost()
        self._turns.wake()
