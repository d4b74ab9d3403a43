"""The AMQP port: accepts peers, and ends those that are silent or too slow to introduce themselves.

Responsible for what needs a clock and belongs to no single frame: the handshake's deadline,
heartbeats, and the time a refused peer gets. It does not know AMQP's methods. Invariant: before
connection.open a peer has HANDSHAKE seconds, whatever it sends.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable, Sequence
from typing import Final

from leporid.broker.broker import Broker
from leporid.broker.connection.session import ConnectionState
from leporid.server.addresses import host_and_port, is_loopback
from leporid.server.link import Link
from leporid.server.turns import Turns

logger = logging.getLogger(__name__)

BACKLOG: Final = 1024
ACCEPTS_PER_TURN: Final = 64
TICK_S: Final = 0.5
# From connection.close of either side until the peer has closed the socket; a shorter heartbeat
# makes it shorter. As in RabbitMQ, but that it gives 3 s after a frame error.
CLOSE_MS_MAX: Final = 30_000
# Out of file descriptors: accepting again at once would spin.
ACCEPT_PAUSE_S: Final = 0.2


class Listener:
    """Listening sockets and the links made from them.

    Args:
        sockets: bound, non-blocking.
        handshake_ms: from accept to connection.open.
        connections_max: links at a time; beyond it a peer is closed at once.
    """

    def __init__(
        self,
        sockets: Sequence[socket.socket],
        broker: Broker,
        turns: Turns,
        *,
        handshake_ms: int,
        connections_max: int,
    ) -> None:
        self._sockets = sockets
        self._broker = broker
        self._turns = turns
        self._handshake_ms = handshake_ms
        self._connections_max = connections_max
        self._loop = asyncio.get_running_loop()
        self._ticker = self._loop.call_later(TICK_S, self._tick)

    def start(self) -> None:
        """Accept peers from now on."""
        for sock in self._sockets:
            sock.listen(BACKLOG)
            self._watch(sock)

    def _watch(self, sock: socket.socket) -> None:
        if sock.fileno() >= 0:
            self._loop.add_reader(sock, self._accept, sock)

    def stop(self) -> None:
        """Accept no more; links stay."""
        for sock in self._sockets:
            if sock.fileno() >= 0:
                self._loop.remove_reader(sock)
                sock.close()
        self._ticker.cancel()

    def _accept(self, sock: socket.socket) -> None:
        self._turns.set_clock()
        for _ in range(ACCEPTS_PER_TURN):
            try:
                peer, address = sock.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                logger.error("cannot accept a connection: %s", error)
                self._loop.remove_reader(sock)
                self._loop.call_later(ACCEPT_PAUSE_S, self._watch, sock)
                return
            if not self._turns.has_room(self._connections_max):
                logger.warning(
                    "connection from %s refused: limits.connections_max, or the limit of "
                    "descriptors, allows %d",
                    address[0],
                    self._connections_max,
                )
                peer.close()
                continue
            peer.setblocking(False)
            peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection = self._turns.engine.connection()
            session = ConnectionState(
                self._broker,
                connection,
                peer_is_loopback=is_loopback(address[0]),
                name=host_and_port(address),
            )
            connection.session = session
            Link(peer, connection, session, self._turns)

    # ------------------------------------------------------------- clocks

    def _tick(self) -> None:
        self._ticker = self._loop.call_later(TICK_S, self._tick)
        self.look()

    def look(self) -> None:
        """See to it that every link keeps its times."""
        self._turns.set_clock()
        now = self._turns.engine.clock.now_ms
        for link in list(self._turns.links.values()):
            self._look_at(link, now)
        self._turns.wake()

    def _look_at(self, link: Link, now: int) -> None:
        session, connection = link.session, link.connection
        if not session.opened and now - link.accepted_ms > self._handshake_ms:
            self._end(link, "the handshake took too long")
            return
        interval = session.heartbeat_s * 1000
        if connection.closing:
            # Without heartbeats: the peer has gone before the second could be missed.
            if link.closing_ms is None:
                link.closing_ms = now
            elif now - link.closing_ms >= min(interval or CLOSE_MS_MAX, CLOSE_MS_MAX):
                self._end_closed(link)
            return
        if not session.opened or not interval:
            return
        # While we do not read, we cannot hear.
        heard = max(connection.last_received_ms, link.listening_ms)
        overdue = connection.reading and now - heard > 2 * interval
        if overdue and link.overdue:
            self._end(link, f"missed heartbeats: nothing came for {now - heard} ms")
            return
        # The first time, it may be we who were late, and what it sent waits to be read.
        link.overdue = overdue
        if (
            now - connection.output.last_sent_ms >= interval / 2
            and not connection.output.pending_bytes
        ):
            connection.send_heartbeat()

    def _end_closed(self, link: Link) -> None:
        if link.connection.awaits_eof and not link.connection.output.pending_bytes:
            link.close()
        else:
            self._end(link, "it did not answer connection.close, or not read our last words")

    def _end(self, link: Link, why: str) -> None:
        logger.warning("connection %s closed: %s", link.session.name, why)
        link.close()


def on_thread(turns: Turns) -> Callable[[Callable[[], None], Callable[[], None]], None]:
    """An `offload` for the broker: what may block runs in a thread, what follows on the loop."""
    loop = asyncio.get_running_loop()

    def offload(work: Callable[[], None], done: Callable[[], None]) -> None:
        def finish(_: object) -> None:
            done()
            turns.wake()

        loop.run_in_executor(None, work).add_done_callback(finish)

    return offload
