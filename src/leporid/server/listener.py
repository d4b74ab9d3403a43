"""The AMQP port: accepts peers, and ends those that are silent or too slow to introduce themselves.

Responsible for what needs a clock and belongs to no single frame: the handshake's deadline,
heartbeats, the time a refused peer gets, and how many peers there may be. It does not know AMQP's
methods. Invariant: before connection.open a peer has HANDSHAKE seconds, whatever it sends; before
its login it sends at most HANDSHAKE_BYTES_MAX, and keeps nobody else from connecting.
"""

from __future__ import annotations

import asyncio
import functools
import logging
import socket
from collections import deque
from collections.abc import Callable, Container, Iterator, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from typing import Final

from leporid.amqp.errors import NotAllowed
from leporid.broker.access.logins import HASHING_MAX, Offload
from leporid.broker.broker import Broker
from leporid.broker.connection.session import ConnectionState
from leporid.broker.connection.transport import Endpoints
from leporid.broker.connection.user_changes import look_at_user
from leporid.engine.bounds.jobs import Job
from leporid.limits.log_lines import caused_by
from leporid.limits.shares import NoSlot, Share, Slot, address_key
from leporid.server.addresses import host_and_port, is_loopback
from leporid.server.hangups import Hangups
from leporid.server.link import Link
from leporid.server.listening import Address, ListeningSockets
from leporid.server.proxy_protocol import Proxied
from leporid.server.tls import Certificates, TlsSocket, stream_over
from leporid.server.turns import Turns

logger = logging.getLogger(__name__)

TICK_S: Final = 0.5
# From connection.close of either side until the peer has closed the socket; a shorter heartbeat
# makes it shorter. As in RabbitMQ, but that it gives 3 s after a frame error.
CLOSE_MS_MAX: Final = 30_000
# Those who have connected and not logged in. Each may keep 16 KiB, the objects of a connection and
# most of a frame; ten thousand clients that come at once are never all in their handshakes.
HANDSHAKES_MAX: Final = 8192
# A handshake takes a few round trips. Nobody is closed before, for an address that has as many.
HANDSHAKE_MS_MIN: Final = 1000
# All that a peer may send before its login was accepted: three frames as large as they may be then.
HANDSHAKE_BYTES_MAX: Final = 3 * 8192
# The last part of all connections is shared by users, so that one who opens connections without end
# leaves some to others: one user alone gets half of it.
SHARED_PART: Final = 10
# As refusals name the limits.
CONNECTIONS: Final = "connections"
USER_CONNECTIONS: Final = "user_connections"
HANDSHAKES: Final = "handshakes"
# Heartbeats that an unread peer may leave unanswered, as far as that shows: it acknowledges nothing
# that was sent, or takes nothing of what waits for it. One more than when it can be heard.
UNREAD_HEARTBEATS: Final = 3
# A publisher that an alarm blocks is sent a heartbeat this often, or less often if there are more
# of them than so many for each tick. When its process ends, what it sent and nobody read keeps that
# from us: the end stands behind it, and its system waits to send it. It answers with a reset as
# soon as anything comes.
PROBE_MS: Final = 400
PROBES_A_TICK: Final = 200
# Who agreed on no heartbeats gets so many times fewer, as some libraries log each of them; but not
# in the middle of a message, since what there is of it is kept.
UNASKED_TIMES: Final = 10
# A connection without traffic is asked whether it is still there, by TCP itself: a peer whose
# machine has gone is missed after a minute although it agreed on no heartbeats. Options by their
# names in `socket`, of which not every system has all, with their values.
KEEPALIVE: Final = {"TCP_KEEPIDLE": 30, "TCP_KEEPINTVL": 10, "TCP_KEEPCNT": 3}


class Listener:
    """Listening sockets and the links made from them.

    Args:
        sockets: bound, non-blocking.
        tls_sockets: the same, for peers that speak TLS.
        certificates: which these are shown.
        proxies: whose peers are who they say.
        handshake_ms: from accept to connection.open; may be changed.
        connections_max: links at a time; beyond it a peer is closed at once.
        handshakes_max: links at a time whose peers have not logged in; beyond it the oldest goes of
            the address that has most.
    """

    def __init__(
        self,
        sockets: Sequence[socket.socket],
        broker: Broker,
        turns: Turns,
        *,
        handshake_ms: int,
        connections_max: int,
        handshakes_max: int = HANDSHAKES_MAX,
        tls_sockets: Sequence[socket.socket] = (),
        certificates: Certificates | None = None,
        proxies: Container[str] = (),
    ) -> None:
        self._listening = ListeningSockets([*sockets, *tls_sockets], self._accepted, "a connection")
        self._tls_sockets = frozenset(tls_sockets)
        self._certificates = certificates
        self._proxies = proxies
        self._broker = broker
        self._turns = turns
        self.handshake_ms = handshake_ms
        self._connections_max = 0
        self._handshakes_max = handshakes_max
        self._last: Share | None = None
        # Of the last part, the oldest first; some may be released.
        self._last_slots: deque[Slot] = deque()
        self.set_connections_max(connections_max)
        self._ending_handshakes = False
        for kind in (CONNECTIONS, HANDSHAKES):
            broker.refusals.expect(kind)
        self._hangups = Hangups()
        self._probe_ms = PROBE_MS
        self._looking: Job | None = None
        self._loop = asyncio.get_running_loop()
        self._ticker = self._loop.call_later(TICK_S, self._tick)

    def set_connections_max(self, connections_max: int) -> None:
        """Have another number of links at a time; nobody is closed for a lower one.

        Who has what of the last part is counted from now on.
        """
        self._connections_max = connections_max
        self._last = None
        self._last_slots.clear()
        if connections_max >= SHARED_PART:
            share = connections_max // SHARED_PART
            self._last = Share(USER_CONNECTIONS, share, self._broker.refusals)

    def start(self) -> None:
        """Accept peers from now on."""
        self._listening.start()

    def stop(self) -> None:
        """Accept no more; links stay."""
        self._listening.stop()
        self._ticker.cancel()
        self._hangups.stop()

    def _accepted(self, peer: socket.socket, address: Address, bound: socket.socket) -> None:
        """Somebody has connected."""
        self._turns.set_clock()
        if not self._has_room(address[0]):
            peer.close()
            return
        peer.setblocking(False)
        peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        keep_alive(peer)
        self._join(peer, address, tls=bound in self._tls_sockets)

    def _join(self, peer: socket.socket, address: Address, *, tls: bool) -> None:
        connection = self._turns.engine.connection()
        connection.received_max = HANDSHAKE_BYTES_MAX
        key = address_key(address[0])
        proxied = address[0] in self._proxies
        session = ConnectionState(
            self._broker,
            connection,
            # Whoever is behind a proxy is not of this machine, whatever the proxy says.
            peer_is_loopback=is_loopback(address[0]) and not proxied,
            address=key,
            name=host_and_port(address),
        )
        session.endpoints = endpoints(peer, address, tls=tls)
        connection.session = session
        context = self._certificates.context if tls and self._certificates else None
        stream, proxy, encrypted = stream_over(peer, context, proxied=proxied)
        if encrypted is not None:
            encrypted.on_established = functools.partial(self._encrypted, session, encrypted)
        link = Link(stream or peer, connection, session, self._turns)
        if proxy is not None:
            proxy.on_header = functools.partial(self._proxied, link)
        self._turns.handshakes.add(link, key)
        session.entered = functools.partial(self._turns.handshakes.remove, link)
        session.admit = functools.partial(self._admit, link)

    def _encrypted(self, session: ConnectionState, stream: TlsSocket) -> None:
        """A TLS handshake has ended."""
        assert self._certificates is not None
        session.encryption = found = stream.encryption()
        if found.certificate is not None:
            session.certificate_user = self._certificates.login.user(found.certificate)

    def _proxied(self, link: Link, proxied: Proxied | None) -> None:
        """A proxy says for whom it speaks."""
        session, there = link.session, link.session.endpoints
        if proxied is None or there is None or link not in self._turns.handshakes:
            return
        key = address_key(proxied.source[0])
        session.move(key, host_and_port(proxied.source))
        session.endpoints = Endpoints(*proxied.source, *proxied.destination, there.tls)
        self._turns.handshakes.remove(link)
        self._turns.handshakes.add(link, key)

    # ------------------------------------------------------------- how many

    def _admit(self, link: Link) -> None:
        """Let a user open a connection, for which there may be no room beside those of others.

        Raises:
            NotAllowed: the user has more connections than are left.
        """
        if self._last is None:
            return
        over = self._turns.entered - (self._connections_max - self._last.slots)
        # Whoever left without a slot has left its place to one who has a slot.
        while self._last.used > max(0, over - 1):
            self._last_slots.popleft().release()
        if over <= 0:
            return
        if len(self._last_slots) >= 2 * self._last.slots:
            self._last_slots = deque(each for each in self._last_slots if each.count)
        name = link.session.user.name
        try:
            link.slot = self._last.take(name)
        except NoSlot:
            raise NotAllowed(
                f"connection refused for user '{name}': user connection limit is reached: "
                f"limits.connections_max, or the limit of descriptors, allows "
                f"{self._connections_max} for all, and what is left is for other users"
            ) from None
        self._last_slots.append(link.slot)

    def _has_room(self, host: str) -> bool:
        """Say whether one more peer may come; who has not logged in may have to go for it."""
        if not self._turns.has_room(self._connections_max):
            if self._end_a_handshake(host):
                return True
            logger.warning(
                "connection from %s refused: limits.connections_max, or the limit of "
                "descriptors, allows %d",
                host,
                self._connections_max,
                extra=caused_by(host, f"address {address_key(host)}"),
            )
            self._broker.refusals.count(CONNECTIONS)
            return False
        if len(self._turns.handshakes) < self._handshakes_max:
            self._ending_handshakes = False
            return True
        if self._end_a_handshake(host):
            return True
        self._broker.refusals.count(HANDSHAKES)
        return False

    def _end_a_handshake(self, host: str) -> bool:
        """Make room for a newcomer, at the cost of who has more room, or had long enough."""
        handshakes = self._turns.handshakes
        found = handshakes.oldest_of_most()
        if found is None:
            return False
        link, count = found
        age_ms = self._turns.engine.clock.now_ms - link.accepted_ms
        if count <= handshakes.count(address_key(host)) + 1 and age_ms < HANDSHAKE_MS_MIN:
            return False
        self._broker.refusals.count(HANDSHAKES)
        if not self._ending_handshakes:
            # Once until there is room: whoever connects may do so without end.
            self._ending_handshakes = True
            logger.warning(
                "connections that have not logged in are closed for others: %d of %d, the first "
                "from %s (at most %d may be without a login)",
                len(handshakes),
                len(self._turns.links),
                link.session.name,
                self._handshakes_max,
            )
        link.close()
        return True

    # ------------------------------------------------------------- clocks

    def _tick(self) -> None:
        self._ticker = self._loop.call_later(TICK_S, self._tick)
        if self._certificates is not None:
            self._certificates.reload()
        self.look()

    def look(self) -> None:
        """See to it that every link keeps its times; as a job, unless the last one goes on."""
        self._turns.set_clock()
        if self._looking is None or self._looking.ended:
            links = list(self._turns.links.values())
            self._looking = self._turns.engine.jobs.start(self._look_at_all(links))
        self._turns.wake()

    def _look_at_all(self, links: list[Link]) -> Iterator[None]:
        blocked = 0
        # Let go of one by one: of thousands that end meanwhile, this list is what keeps them, and
        # ten microseconds are needed to free one with TLS.
        links.reverse()
        while links:
            link = links.pop()
            if not link.connection.is_lost:
                blocked += link.session.blocked
                self._look_at(link, self._turns.engine.clock.now_ms)
            yield
        self._probe_ms = PROBE_MS * max(1, blocked // PROBES_A_TICK)

    def _look_at(self, link: Link, now: int) -> None:
        session, connection = link.session, link.connection
        if not connection.reading:
            link.watch_end(self._hangups)
            link.heed_end()
            if connection.is_lost:
                return
        if not session.opened and now - link.accepted_ms > self.handshake_ms:
            self._end(
                link,
                "the handshake took too long: the virtual host was not open after "
                f"{self.handshake_ms / 1000:g} s (limits.handshake_seconds)",
            )
            return
        interval = session.heartbeat_s * 1000
        if connection.closing:
            # Without heartbeats: the peer has gone before the second could be missed.
            if link.closing_ms is None:
                link.closing_ms = now
            elif now - link.closing_ms >= min(interval or CLOSE_MS_MAX, CLOSE_MS_MAX):
                self._end_closed(link)
            return
        if not session.opened:
            return
        look_at_user(session)
        if interval:
            why = missed(link, now, interval)
            if why and link.overdue:
                self._end(link, why)
                return
            # The first time, it may be we who were late, and what it sent waits to be read.
            link.overdue = bool(why)
            link.limit_unacknowledged(0 if connection.reading else UNREAD_HEARTBEATS * interval)
        silent_ms = self._silent_ms(link, interval)
        output = connection.output
        if silent_ms and now - output.last_sent_ms >= silent_ms and not output.pending_bytes:
            connection.send_heartbeat()

    def _silent_ms(self, link: Link, interval: int) -> int:
        """How long we may say nothing before a heartbeat is sent; 0: for ever."""
        silent_ms = interval // 2
        if not link.session.blocked:
            return silent_ms
        probe_ms = self._probe_ms
        if not interval and not link.connection.content_count:
            probe_ms *= UNASKED_TIMES
        return min(silent_ms or probe_ms, probe_ms)

    def _end_closed(self, link: Link) -> None:
        if link.connection.awaits_eof and not link.connection.output.pending_bytes:
            link.close()
        else:
            self._end(link, "it did not answer connection.close, or not read our last words")

    def _end(self, link: Link, why: str) -> None:
        logger.warning(
            "connection %s closed: %s", link.session.name, why, extra=link.session.log_extra
        )
        link.close()


def missed(link: Link, now: int, interval: int) -> str:
    """Say which heartbeats a peer has missed; nothing if it has not.

    Args:
        link: its connection is open.
        now: the engine's time.
        interval: of heartbeats, in milliseconds.
    """
    connection = link.connection
    if connection.reading:
        heard = max(connection.last_received_ms, link.listening_ms)
        if now - heard > 2 * interval:
            return f"missed heartbeats: nothing came for {now - heard} ms"
        return ""
    # While we do not read, we cannot hear; but what it takes shows that it is there.
    taken = max(connection.output.last_sent_ms, link.unread_ms)
    if connection.output.pending_bytes and now - taken > UNREAD_HEARTBEATS * interval:
        return f"missed heartbeats: it took nothing of its output for {now - taken} ms"
    return ""


def keep_alive(sock: socket.socket) -> None:
    """Have TCP ask a silent peer whether it is still there."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in KEEPALIVE.items():
        option = getattr(socket, name, None)
        if option is not None:
            sock.setsockopt(socket.IPPROTO_TCP, option, value)


def endpoints(sock: socket.socket, address: tuple[str, int], *, tls: bool) -> Endpoints | None:
    """Return both ends of a socket; None if it was reset before it could be asked."""
    try:
        own = sock.getsockname()
    except OSError:
        return None
    return Endpoints(address[0], address[1], own[0], own[1], tls)


def hashing_threads() -> ThreadPoolExecutor:
    """Make the threads that have passwords hashed.

    They are as nice as the broker's own: it waits for one that loses the processor while it has the
    interpreter's lock.
    """
    return ThreadPoolExecutor(HASHING_MAX, "passwords")


def on_thread(turns: Turns, pool: Executor) -> Offload:
    """An `offload` for the broker: what may block runs in a thread, what follows on the loop."""
    loop = asyncio.get_running_loop()

    def offload(work: Callable[[], None], done: Callable[[], None]) -> None:
        def finish(_: object) -> None:
            done()
            turns.wake()

        loop.run_in_executor(pool, work).add_done_callback(finish)

    return offload
