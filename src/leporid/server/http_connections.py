"""HTTP connections: how many there are, whose, and how long each may do nothing.

Responsible for accepting peers, for closing some to make room for others, and for reading what they
send a bounded time in each round of the loop. Must not know routes, users or the broker.

Invariants: there are at most CONNECTIONS_MAX, and at most ACCEPTED_MAX peers wait to become one,
by address in turn. A peer has HEAD_SECONDS for the head of a request, and while it owes us that, or
reads the answer of a probe, its connection is the first to be closed when there are too many: the
one that has waited longest, of the address that has most of these. So there is always room for one
more; that of a request that was admitted is never closed for another. A peer that owes us the rest
of its request has PATIENCE_SECONDS for the next UPLOAD_BYTES_MIN of it, and one that does not read
our answer has DOWNLOAD_SECONDS for the next piece.
"""

from __future__ import annotations

import asyncio
import functools
import http
import logging
import math
import re
import socket
import sys
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Collection, Container, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import h11
from h11._readers import ChunkedReader
from uvicorn.protocols.http.h11_impl import H11Protocol

from leporid.limits.refusals import Refusals
from leporid.limits.shares import address_key
from leporid.management.hosts import PROXIED
from leporid.management.paths import VISIT
from leporid.server.listening import Address, ListeningSockets
from leporid.server.proxy_protocol import Proxied
from leporid.server.stream_transport import Rounds, StreamTransport
from leporid.server.tls import Certificates, stream_over

logger = logging.getLogger(__name__)

# Prometheus, a load balancer and a few people: tens. A hundred thousand would be the AMQP clients'
# file descriptors. More than the requests that may be under way (management.admission).
CONNECTIONS_MAX = 256
# For the head of a request, from when the connection was made or the last answer was sent; uvicorn
# itself closes what is idle for five seconds after an answer.
HEAD_SECONDS = 10
# What is left after that sends its request's body drop by drop; or it waits for an answer that we
# are making, which is our own time.
PATIENCE_SECONDS = 30
# Of a request's body in that time; who sends less would hold what the body is kept in.
UPLOAD_BYTES_MIN = 64 * 1024
# Records are read as fast as the reader works on them, which may stop for a while; it resumes where
# it was if that was too long.
DOWNLOAD_SECONDS = 300
# To begin to serve one costs 0.1 ms, and its request several times that.
BEGINS_A_ROUND: Final = 2
# Accepted, and not served yet.
ACCEPTED_MAX: Final = CONNECTIONS_MAX
# Of a round, for what peers have sent; a request costs a tenth of that.
INPUT_SECONDS: Final = 0.001
# Of what one connection has sent, so much is looked at before others have their turn: heads, pieces
# of bodies, ends. A body in chunks of one byte is 40,000 pieces in what is received at once.
EVENTS_A_TURN: Final = 16
# Of the head of a request, which anybody may send: 4,000 short headers took 12 ms to parse, and
# as many parameters 18 ms each time. Browsers send twenty headers, and proxies add a few. Of what
# follows a body in chunks, too: 15,500 of these took 60 ms.
HEADERS_MAX: Final = 128
# Of the query string. Nothing here takes as many, but for names of families and virtual hosts of
# whose metrics there are pages.
PARAMETERS_MAX: Final = 256

HEADERS: Final = "http_headers"
PARAMETERS: Final = "http_query_parameters"
HEAD_BYTES: Final = "http_head_bytes"
VERSION: Final = "http_version"
"""The kinds of refusal for heads that have more."""
EVICTED: Final = "http_connections"
"""The kind of refusal for a connection that was closed to make room."""

# Of a body that goes out with its head, as a copy.
JOINED_BYTES_MAX: Final = 64 * 1024

_END_OF_HEAD: Final = re.compile(rb"\n\r?\n")
# A later minor version is answered as 1.1 (RFC 9110, 2.5).
_LATER_VERSION: Final = re.compile(rb" HTTP/[2-9]\.[0-9]\s*\Z")


class Connections:
    """The connections that there are.

    Args:
        refusals: where those are counted that were closed to make room.
        monotonic: seconds.

    Attributes:
        most: fewer than usual, if descriptors are few.
    """

    def __init__(self, refusals: Refusals, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._refusals = refusals
        self.most = sys.maxsize
        for kind in (EVICTED, HEADERS, PARAMETERS, HEAD_BYTES, VERSION):
            refusals.expect(kind)
        self._monotonic = monotonic
        # By address, in the order in which they began to wait for a request.
        self._open: dict[Hashable, dict[PatientProtocol, None]] = {}
        self._count = 0
        # What was received and not read, in the lines of the peers' addresses, which take turns, as
        # some heads take milliseconds each. The next line is the first.
        self._input: OrderedDict[Hashable, deque[tuple[PatientProtocol, bytes]]] = OrderedDict()
        self._until = 0.0

    def __repr__(self) -> str:
        return f"<Connections {self._count} of {len(self._open)} addresses>"

    def room(self, usual: int) -> int:
        """Return how many there may be, or may wait, where so many usually may."""
        return min(usual, self.most)

    def add(self, connection: PatientProtocol) -> None:
        """A connection was made; another may be closed for it, or, at the worst, this one."""
        self._open.setdefault(connection.address, {})[connection] = None
        self._count += 1
        if self._count > self.room(CONNECTIONS_MAX):
            self._refusals.count(EVICTED)
            (self._longest_waiting() or connection).transport.abort()

    def remove(self, connection: PatientProtocol) -> None:
        """It was closed."""
        others = self._open.get(connection.address, {})
        if connection in others:
            self._count -= 1
            del others[connection]
            if not others:
                del self._open[connection.address]

    def waits(self, connection: PatientProtocol) -> None:
        """It was answered: it waits for its next request, behind all others of its address."""
        others = self._open.get(connection.address, {})
        if connection in others:
            del others[connection]
            others[connection] = None

    def refuse(self, limit: str) -> None:
        """A request was refused that has more than a limit allows."""
        self._refusals.count(limit)

    def dropped(self) -> None:
        """A peer was closed before it became a connection, to make room."""
        self._refusals.count(EVICTED)

    def _longest_waiting(self) -> PatientProtocol | None:
        """Return what goes first; its address has most of such. Looks at all of them."""
        waiting = [
            [each for each in some if not each.admitted and not each.transport.is_closing()]
            for some in self._open.values()
        ]
        most = max(waiting, key=len, default=[])
        return most[0] if most else None

    # ------------------------------------------------------------- what they send

    def received(self, connection: PatientProtocol, data: bytes) -> None:
        """Have something read now, or in a later round if this one has read for long enough."""
        self._begin_round()
        if self._input or self._monotonic() >= self._until:
            self._leave(connection, data)
        else:
            connection.read(data)

    def go_on(self, connection: PatientProtocol) -> None:
        """Have the rest of what was received read when the others have had their turn."""
        self._begin_round()
        self._leave(connection, b"")

    def _leave(self, connection: PatientProtocol, data: bytes) -> None:
        """Something is read in a later round."""
        connection.transport.pause_reading()
        connection.unread = True
        self._input.setdefault(connection.address, deque()).append((connection, data))

    def _begin_round(self) -> None:
        if not self._until:
            self._until = self._monotonic() + INPUT_SECONDS
            asyncio.get_running_loop().call_soon(self._next_round)

    def _next_round(self) -> None:
        if not self._input:
            self._until = 0.0
            return
        self._until = self._monotonic() + INPUT_SECONDS
        asyncio.get_running_loop().call_soon(self._next_round)
        while self._input:
            connection, data = self._take()
            if not connection.transport.is_closing():
                if not connection.flow.read_paused:
                    connection.transport.resume_reading()
                connection.unread = False
                connection.read(data)
            if self._monotonic() >= self._until:
                break

    def _take(self) -> tuple[PatientProtocol, bytes]:
        """Take what is next in the first line, which becomes the last."""
        address, line = self._input.popitem(last=False)
        found = line.popleft()
        if line:
            self._input[address] = line
        return found


def check_framing(request: h11.Request) -> None:
    """Refuse a request whose end somebody in front of the broker may see elsewhere.

    What follows would be a request of its own to one of the two (RFC 9112, 6.1 and 6.3). Several
    lengths that differ, and what is no length, h11 refuses.

    Raises:
        RemoteProtocolError: answered with 400, and the end of the connection.
    """
    names = {name for name, _ in request.headers}
    if b"transfer-encoding" not in names:
        return
    if b"content-length" in names:
        raise h11.RemoteProtocolError("Content-Length beside Transfer-Encoding")
    if request.http_version < b"1.1":
        raise h11.RemoteProtocolError("Transfer-Encoding in HTTP/1.0")


@dataclass(frozen=True, slots=True)
class Excess:
    """What a head has too much of.

    Attributes:
        status: what it is answered with: 414 for the first line, 431 for headers (RFC 6585, 5), 505
            for the version.
        limit: its name.
        text: a sentence with its name and value.
    """

    status: int
    limit: str
    text: str


_TOO_MANY_HEADERS: Final = Excess(
    431, HEADERS, f"The request has more headers than {HEADERS_MAX} ({HEADERS}: {HEADERS_MAX})."
)


def excess_in(head: bytes, bytes_max: int) -> Excess | None:
    """Say what a head, or as much of it as there is, has more of than it may; None: nothing.

    It is counted before anything is parsed, which is what costs.

    Args:
        head: the first line of a request and its headers.
        bytes_max: of these.
    """
    head = head.rstrip(b"\r\n")
    line = head.partition(b"\n")[0]
    if _LATER_VERSION.search(line):
        return Excess(
            505,
            VERSION,
            "HTTP/2 and later are not spoken here; the latest version is HTTP/1.1 "
            f"({VERSION}: 1.1).",
        )
    # Each of them stands behind the end of a line.
    if head.count(b"\n") > HEADERS_MAX:
        return _TOO_MANY_HEADERS
    if line.count(b"&") >= PARAMETERS_MAX:
        return Excess(
            414,
            PARAMETERS,
            f"The request has more query parameters than {PARAMETERS_MAX} "
            f"({PARAMETERS}: {PARAMETERS_MAX}).",
        )
    if len(head) > bytes_max:
        return Excess(
            414 if len(line) > bytes_max else 431,
            HEAD_BYTES,
            f"The head of the request has more than {bytes_max} bytes ({HEAD_BYTES}: {bytes_max}).",
        )
    return None


class _TooManyTrailers(h11.RemoteProtocolError):
    """More follows the last chunk of a body than HEADERS_MAX headers."""


class _BoundedChunks(ChunkedReader):
    """h11's reader of a body in chunks, which counts what follows the last one before it parses it.

    h11 calls it for each chunk, and again when the last one was read.
    """

    def __call__(self, buf: Any) -> Any:
        """Return the next event, None if it has not come as a whole; see h11."""
        if self._reading_trailer:
            # The end of line before the first one was read, and stands there for that of the last.
            trailers, *end = _END_OF_HEAD.split(b"\n" + bytes(buf), 1)
            if trailers.count(b"\n") - (not end) > HEADERS_MAX:
                raise _TooManyTrailers(_TOO_MANY_HEADERS.text)
        return super().__call__(buf)


class _Parser(h11.Connection):
    """h11's parser, which needs leave for each event.

    Args:
        head_bytes_max: of the head of a request.

    Attributes:
        events_left: how many it may still give before it says that it has none.
        excess: what the last head has too much of, which was refused for that.
    """

    events_left = 0
    excess: Excess | None = None
    _unsent_head = b""

    def __init__(self, head_bytes_max: int) -> None:
        super().__init__(h11.SERVER, head_bytes_max)
        self._head_bytes_max = head_bytes_max

    def send(self, event: h11.Event) -> Any:
        """Return what an event is on the wire; see h11.

        The head of a short answer waits for the body, which the handler has already: two packets
        would wake the client twice, and take a system call more.
        """
        data = super().send(event)
        if isinstance(event, h11.Response) and _is_short(event):
            self._unsent_head = data or b""
            return b""
        if self._unsent_head:
            data, self._unsent_head = self._unsent_head + (data or b""), b""
        return data

    def next_event(self) -> Any:
        """Return the next event; see h11."""
        if not self.events_left:
            return h11.NEED_DATA
        self.events_left -= 1
        if self.their_state is h11.IDLE:
            self._check_head()
        try:
            event = super().next_event()
        except h11.RemoteProtocolError as error:
            # h11 raises it from one of its methods, whose frame would keep it, and all of us.
            error.__traceback__ = None
            if isinstance(error, _TooManyTrailers):
                self.excess = _TOO_MANY_HEADERS
            raise
        if isinstance(event, h11.Request):
            check_framing(event)
            if isinstance(self._reader, ChunkedReader):
                self._reader = _BoundedChunks()
        return event

    def _check_head(self) -> None:
        """Look at what has come of the next head; raises RemoteProtocolError."""
        data, _ = self.trailing_data
        self.excess = excess_in(_END_OF_HEAD.split(data, 1)[0], self._head_bytes_max)
        if self.excess is not None:
            raise h11.RemoteProtocolError(self.excess.text)


def _is_short(response: h11.Response) -> bool:
    """Say whether an answer has one short body, and not pieces that come one after the other."""
    length = next((value for name, value in response.headers if name == b"content-length"), b"")
    return length != b"" and int(length) <= JOINED_BYTES_MAX


class PatientProtocol(H11Protocol):
    """uvicorn's HTTP/1.1 with a bound on connections, and on how long one may do nothing.

    Attributes:
        unread: whether something that came waits for its round, which is no idleness of the peer.
    """

    unread = False
    conn: _Parser
    opened: Connections
    address: Hashable = ""
    _head: asyncio.TimerHandle | None = None
    _watch: asyncio.TimerHandle | None = None
    _answered = 0
    _received_bytes = 0
    _taken = 0
    _idle_looks = 0
    _seen = (0, 0, 0)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        head_bytes_max = self.config.h11_max_incomplete_event_size
        assert head_bytes_max is not None
        self.conn = _Parser(head_bytes_max)

    @property
    def admitted(self) -> bool:
        """Whether a request is under way that has a share of what all requests have."""
        return self._is_answering and VISIT in self.scope

    @property
    def _is_answering(self) -> bool:
        return bool(self.cycle) and not self.cycle.response_complete

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """There is a peer: it has to send a request soon."""
        self.lost = asyncio.Event()
        # What waits for something else ends with the client: `request.state.gone`.
        self.app_state = {**self.app_state, "gone": self.lost}
        super().connection_made(transport)
        self.address = address_key(self.client[0] if self.client else "")
        self._watch = self.loop.call_later(PATIENCE_SECONDS, self._look)
        self._expect_head()
        self.opened.add(self)

    def has_proxy(self) -> None:
        """Its peer is a proxy, which is not asked whether it is of this machine."""
        self.app_state = {**self.app_state, PROXIED: True}

    def comes_from(self, client: tuple[str, int]) -> None:
        """The proxy has said who the client is."""
        self.opened.remove(self)
        self.client = client
        self.address = address_key(client[0])
        self.opened.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """It is gone."""
        for timer in (self._watch, self._head):
            if timer is not None:
                timer.cancel()
        self.lost.set()
        self.opened.remove(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Something came, which is read when this round has time for it."""
        self.opened.received(self, data)

    def read(self, data: bytes) -> None:
        """Read what was received, or go on with it; called by `Connections`."""
        if self.conn.their_state is h11.SEND_BODY:
            self._received_bytes += len(data)
        if data:
            super().data_received(data)
        else:
            self.handle_events()
        if self._head is not None and self._is_answering:
            self._head.cancel()
            self._head = None

    def handle_events(self) -> None:
        """Handle some of what was received; the rest when it is this connection's turn again."""
        self.conn.events_left = EVENTS_A_TURN
        super().handle_events()
        if not self.conn.events_left:
            self.opened.go_on(self)

    def send_400_response(self, msg: str) -> None:
        """Refuse what is no request, or has too much of something, which the answer names."""
        if (excess := self.conn.excess) is not None:
            self.opened.refuse(excess.limit)
        if self.cycle is not None:
            self.cycle.disconnected = True  # its answer would come behind the last word
        if self.conn.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
            self.transport.close()  # the answer was begun before the body has come
            return
        if excess is None:
            super().send_400_response(msg)
            return
        headers = [("content-type", "text/plain; charset=utf-8"), ("connection", "close")]
        response = h11.Response(
            status_code=excess.status,
            headers=headers,
            reason=http.HTTPStatus(excess.status).phrase.encode(),
        )
        for event in (response, h11.Data(data=excess.text.encode()), h11.EndOfMessage()):
            self.transport.write(self.conn.send(event))
        self.transport.close()

    def resume_writing(self) -> None:
        """The peer has taken what made us wait."""
        self._taken += 1
        super().resume_writing()

    def on_response_complete(self) -> None:
        """An answer was sent: the next request is due, which may have come already."""
        self._answered += 1
        self._expect_head()
        self.opened.waits(self)
        super().on_response_complete()
        if self._head is not None and self._is_answering:
            self._head.cancel()
            self._head = None

    def _expect_head(self) -> None:
        """From now on the peer has so long for the head of its next request."""
        if self._head is not None:
            self._head.cancel()
        self._head = self.loop.call_later(HEAD_SECONDS, self.transport.abort)

    def _look(self) -> None:
        """See whether anything went on since the last time, and whose turn it is."""
        seen = self._answered, self._received_bytes // UPLOAD_BYTES_MIN, self._taken
        idle = seen == self._seen and not self.unread
        self._idle_looks = self._idle_looks + 1 if idle else 0
        self._seen = seen
        if self._idle_looks * PATIENCE_SECONDS > self._patience_seconds():
            self.transport.abort()
            return
        self._watch = self.loop.call_later(PATIENCE_SECONDS, self._look)

    def _patience_seconds(self) -> float:
        """How long nothing may go on, as things are now."""
        requested = self.conn.their_state in (h11.DONE, h11.MUST_CLOSE)
        if not requested or not self._is_answering:
            return 0
        # We are making the answer, unless the peer does not take what is made.
        return DOWNLOAD_SECONDS if self.flow.write_paused else math.inf


@dataclass(frozen=True, slots=True)
class _Accepted:
    """A peer that has connected."""

    peer: socket.socket
    address: tuple[str, int]
    tls: bool


class Acceptor:
    """Accepts peers, and serves a few more in each round of the loop.

    Addresses take turns, so that one that connects without end keeps no other waiting. When
    ACCEPTED_MAX are not served yet, the one is closed that has waited longest of the address that
    has most of them; of addresses that have as many, that of the one whose turn is last. A peer
    that speaks TLS is a connection from when it is served: its handshake is part of what it owes us
    before its first request.

    Args:
        sockets: bound, not listening yet.
        make: makes the protocol of a connection.
        dropped: called for each that was closed before it was served.
        tls_sockets: those of them whose peers speak TLS.
        certificates: which these are shown.
        proxies: whose peers are who they say.
        room: see `Connections`.
    """

    def __init__(
        self,
        sockets: Sequence[socket.socket],
        make: Callable[[], asyncio.Protocol],
        dropped: Callable[[], None],
        *,
        tls_sockets: Collection[socket.socket] = (),
        certificates: Certificates | None = None,
        proxies: Container[str] = (),
        room: Callable[[int], int] = int,
    ) -> None:
        self._listening = ListeningSockets(sockets, self._put, "an HTTP connection")
        self._room = room
        self._proxies = proxies
        self._tls_sockets = tls_sockets
        self._certificates = certificates
        self._make = make
        self._dropped = dropped
        # In the lines of their addresses; the next line is the first.
        self._accepted: OrderedDict[Hashable, deque[_Accepted]] = OrderedDict()
        self._count = 0
        self._begins = False
        self._rounds = Rounds()
        self._loop = asyncio.get_running_loop()
        self._accepting: set[asyncio.Task[Any]] = set()

    def start(self) -> None:
        """Accept from now on; raises OSError if a socket cannot listen."""
        self._listening.start()

    def stop(self) -> None:
        """Accept no more, and refuse who tries."""
        self._listening.stop()
        for line in self._accepted.values():
            for each in line:
                each.peer.close()
        self._accepted.clear()
        self._count = 0

    def _put(self, peer: socket.socket, address: Address, bound: socket.socket) -> None:
        """Have a peer wait for its turn."""
        accepted = _Accepted(peer, address[:2], bound in self._tls_sockets)
        # For whom a proxy speaks is not known yet: each of its peers has a line.
        host = accepted.address[0]
        key = accepted.address if host in self._proxies else address_key(host)
        self._accepted.setdefault(key, deque()).append(accepted)
        self._count += 1
        if self._count > self._room(ACCEPTED_MAX):
            # Of lines as long as others, the one whose turn is last.
            longest = max(reversed(self._accepted), key=lambda key: len(self._accepted[key]))
            self._take(longest).peer.close()
            self._dropped()
        if not self._begins:
            self._begins = True
            self._loop.call_soon(self._begin_some)

    def _take(self, key: Hashable) -> _Accepted:
        """Take the first of a line, which becomes the last line."""
        line = self._accepted.pop(key)
        found = line.popleft()
        if line:
            self._accepted[key] = line
        self._count -= 1
        return found

    def _begin_some(self) -> None:
        """Begin to serve those whose turn it is in this round."""
        if not self._accepted:
            self._begins = False
            return
        self._loop.call_soon(self._begin_some)
        for _ in range(min(BEGINS_A_ROUND, self._count)):
            self._begin(self._take(next(iter(self._accepted))))

    def _begin(self, accepted: _Accepted) -> None:
        peer = accepted.peer
        try:
            peer.setblocking(False)
            peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            joined = self._join(peer, accepted.address, tls=accepted.tls)
        except OSError:
            peer.close()  # it is gone already
            return
        except Exception:
            peer.close()
            raise
        if not joined:
            task = self._loop.create_task(self._connect(peer))
            self._accepting.add(task)
            task.add_done_callback(self._accepting.discard)

    def _join(self, peer: socket.socket, address: tuple[str, int], *, tls: bool) -> bool:
        """Make a connection that the loop cannot read by itself; False if it can."""
        context = self._certificates.http_context if tls and self._certificates else None
        stream, proxy, _ = stream_over(peer, context, proxied=address[0] in self._proxies)
        if stream is None:
            return False
        protocol = self._make()
        transport = StreamTransport(stream, protocol, self._rounds, address, context)
        if proxy is not None and isinstance(protocol, PatientProtocol):
            protocol.has_proxy()
            proxy.on_header = functools.partial(_proxied, protocol, transport)
        transport.start()
        return True

    async def _connect(self, peer: socket.socket) -> None:
        try:
            await self._loop.connect_accepted_socket(self._make, peer)
        except OSError:
            peer.close()  # it is gone already


def _proxied(
    protocol: PatientProtocol, transport: StreamTransport, proxied: Proxied | None
) -> None:
    """A proxy says for whom it speaks."""
    if proxied is not None:
        transport.set_address(proxied.source)
        protocol.comes_from(proxied.source)
