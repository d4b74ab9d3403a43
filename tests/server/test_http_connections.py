"""HTTP connections: peers that mean no good, and those that must be answered in spite of them."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import ExitStack, suppress
from typing import Any

import h11
import pytest
from h11._readers import ChunkedReader
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from tests.server.test_http import TOTALS

from leporid.limits.refusals import Refusals
from leporid.management.admission import LOOK, Admission
from leporid.management.paths import CostedRoute, RawRoute
from leporid.server import http_connections as module
from leporid.server import listening
from leporid.server.addresses import bind
from leporid.server.http import HEADER_BYTES_MAX, HttpServer, application
from leporid.server.http_connections import Acceptor, Connections

ADDRESSES = ["127.0.0.1", "127.0.0.2", "127.0.0.3"]
PROBE = b"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n"
Handler = Callable[[Request], Awaitable[Response]]


class Client:
    """Raw connections to a server."""

    def __init__(self, server: HttpServer) -> None:
        self.server = server
        self.open: list[asyncio.StreamWriter] = []

    async def connect(
        self, sends: bytes = b"", address: str = ADDRESSES[0]
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_connection(
            *self.server.address, local_addr=(address, 0)
        )
        self.open.append(writer)
        writer.write(sends)
        await writer.drain()
        return reader, writer

    async def health(self, address: str = ADDRESSES[0]) -> bytes:
        reader, _ = await self.connect(PROBE, address)
        return await heard(reader)


async def heard(reader: asyncio.StreamReader) -> bytes:
    """Return the first line of an answer; nothing if the connection is closed."""
    async with asyncio.timeout(30):
        try:
            return await reader.readline()
        except ConnectionResetError:
            return b""


def is_open(reader: asyncio.StreamReader) -> bool:
    return not reader.at_eof() and reader.exception() is None


@pytest.fixture
def refusals() -> Refusals:
    return Refusals()


@pytest.fixture
async def serve(
    refusals: Refusals,
) -> AsyncIterator[Callable[[list[CostedRoute]], Awaitable[Client]]]:
    clients: list[Client] = []

    async def serve(routes: list[CostedRoute]) -> Client:
        app = application(TOTALS, list, routes)
        server = HttpServer(app, bind([ADDRESSES[0]], 0), Connections(refusals))
        await server.start()
        clients.append(Client(server))
        return clients[-1]

    yield serve
    for client in clients:
        for writer in client.open:
            writer.transport.abort()
        await client.server.stop()


@pytest.fixture
async def client(serve: Callable[[list[CostedRoute]], Awaitable[Client]]) -> Client:
    return await serve([])


def segments_received(writer: asyncio.StreamWriter) -> int:
    """Return how many TCP segments with data a client has received: `tcpi_data_segs_in`."""
    client = writer.get_extra_info("socket")
    (segments,) = struct.unpack_from(
        "I", client.getsockopt(socket.SOL_TCP, socket.TCP_INFO, 256), 152
    )
    return int(segments)


async def test_a_short_answer_is_one_segment(
    serve: Callable[[list[CostedRoute]], Awaitable[Client]],
):
    """Its head and its body would wake the client twice."""
    bodies = {"empty": b"", "short": b"x" * 1000, "long": b"x" * (module.JOINED_BYTES_MAX + 1)}

    async def body(request: Request) -> Response:
        return Response(bodies[request.path_params["name"]])

    client = await serve([CostedRoute("/{name}", body, verb, LOOK) for verb in ("GET", "HEAD")])
    segments = {}
    for name, expected in bodies.items():
        for method in (b"GET", b"HEAD"):
            reader, writer = await client.connect(
                b"%b /%b HTTP/1.1\r\nhost: localhost\r\n\r\n" % (method, name.encode())
            )
            head = await reader.readuntil(b"\r\n\r\n")
            assert b"content-length: %d\r\n" % len(expected) in head
            if method == b"GET":
                assert await reader.readexactly(len(expected)) == expected
            segments[method, name] = segments_received(writer)
    assert segments.pop((b"GET", "long")) > 1
    assert set(segments.values()) == {1}


class Served(asyncio.Protocol):
    """Notes the addresses of those who are served."""

    def __init__(self, addresses: list[str]) -> None:
        self.addresses = addresses

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.addresses.append(transport.get_extra_info("peername")[0])


def is_closed(peer: socket.socket) -> bool:
    peer.setblocking(False)
    try:
        return not peer.recv(1)
    except BlockingIOError:
        return False
    except ConnectionResetError:
        return True


@pytest.fixture
async def accepting() -> AsyncIterator[
    tuple[Acceptor, Callable[[str], socket.socket], list[str], list[bool]]
]:
    """One who accepts, how to connect from an address, and who was served and dropped."""
    served: list[str] = []
    dropped: list[bool] = []
    listening = bind([ADDRESSES[0]], 0)
    acceptor = Acceptor(listening, lambda: Served(served), lambda: dropped.append(True))
    with ExitStack() as stack:

        def connect(address: str) -> socket.socket:
            found = socket.create_connection(
                listening[0].getsockname(), source_address=(address, 0)
            )
            return stack.enter_context(found)

        yield acceptor, connect, served, dropped
        acceptor.stop()


async def test_who_connects_without_end_keeps_no_other_address_waiting(
    accepting: Any, monkeypatch: pytest.MonkeyPatch
):
    """/health took 0.9 s behind a thousand connections of one address."""
    monkeypatch.setattr(module, "ACCEPTED_MAX", 50)
    acceptor, connect, served, dropped = accepting
    acceptor.start()
    peers = [connect(ADDRESSES[1]) for _ in range(300)]
    last = connect(ADDRESSES[0])
    while len(served) + len(dropped) < 301:
        await asyncio.sleep(0)
    assert served.index(ADDRESSES[0]) < 150
    assert len(dropped) > 100
    assert sum(map(is_closed, peers)) == len(dropped)
    assert not is_closed(last)


async def test_of_many_addresses_who_came_last_makes_room(
    accepting: Any, monkeypatch: pytest.MonkeyPatch
):
    # So that the order in which they come is that in which they are accepted.
    monkeypatch.setattr(listening, "SO_ATTACH_REUSEPORT_CBPF", -1)
    monkeypatch.setattr(module, "ACCEPTED_MAX", 50)
    acceptor, connect, served, dropped = accepting
    acceptor.start()
    peers = [connect(f"127.0.1.{number}") for number in range(1, 201)]
    while len(served) + len(dropped) < 200:
        await asyncio.sleep(0)
    assert dropped
    assert not any(map(is_closed, peers[:40]))


async def test_who_a_proxy_speaks_for_is_not_dropped_for_its_others(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(module, "ACCEPTED_MAX", 50)
    dropped: list[bool] = []
    listening = bind([ADDRESSES[0]], 0)
    acceptor = Acceptor(
        listening, lambda: Served([]), lambda: dropped.append(True), proxies=[ADDRESSES[1]]
    )
    acceptor.start()
    with ExitStack() as stack:
        there, proxy = listening[0].getsockname(), (ADDRESSES[1], 0)
        peers = [
            stack.enter_context(socket.create_connection(there, source_address=proxy))
            for _ in range(100)
        ]
        while not dropped:
            await asyncio.sleep(0)
        assert not is_closed(peers[0])
    acceptor.stop()


async def test_one_who_cannot_be_served_keeps_nobody_from_it(
    accepting: Any, monkeypatch: pytest.MonkeyPatch
):
    acceptor, connect, served, _ = accepting
    join, failures = acceptor._join, [OSError(), MemoryError()]

    def fails(*arguments: Any, **options: Any) -> bool:
        if failures:
            raise failures.pop()
        return bool(join(*arguments, **options))

    monkeypatch.setattr(acceptor, "_join", fails)
    asyncio.get_running_loop().set_exception_handler(lambda _, facts: None)
    acceptor.start()
    peers = [connect(ADDRESSES[1]) for _ in range(5)]
    while len(served) < 3:
        await asyncio.sleep(0)
    assert [is_closed(peer) for peer in peers] == [True, True, False, False, False]


async def test_who_waits_when_the_server_stops_is_closed(accepting: Any):
    acceptor, connect, served, _ = accepting
    acceptor.start()
    peers = [connect(ADDRESSES[1]) for _ in range(50)]
    while not served:
        await asyncio.sleep(0)
    acceptor.stop()
    for _ in range(50):
        await asyncio.sleep(0)
    assert len(served) < 10
    assert sum(map(is_closed, peers)) == 50 - len(served)


async def test_half_sent_requests_do_not_keep_health_from_being_answered(
    client: Client, refusals: Refusals
):
    for number in range(module.CONNECTIONS_MAX + 50):
        await client.connect(PROBE[:-4] if number % 2 else b"")
    assert (await client.health()).startswith(b"HTTP/1.1 200 ")
    assert refusals.by_kind["http_connections"] == 51


async def test_who_has_waited_longest_goes_first(client: Client, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "CONNECTIONS_MAX", 3)
    first, writer = await client.connect(PROBE)
    assert (await heard(first)).startswith(b"HTTP/1.1 200 ")
    second, _ = await client.connect(b"GET /hea")
    # Its request is answered, so it waits for the next one only since then.
    while await first.readline() != b"\r\n":
        pass
    await first.readexactly(len(b'{"status":"ok"}'))
    writer.write(PROBE)
    assert (await heard(first)).startswith(b"HTTP/1.1 200 ")
    third, _ = await client.connect()
    assert (await client.health()).startswith(b"HTTP/1.1 200 ")
    assert await heard(second) == b""
    assert is_open(first)
    assert is_open(third)


async def test_the_address_with_most_makes_room(client: Client, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "CONNECTIONS_MAX", 3)
    lone, _ = await client.connect(address=ADDRESSES[1])
    many, _ = await client.connect()
    await client.connect()
    assert (await client.health(ADDRESSES[2])).startswith(b"HTTP/1.1 200 ")
    assert await heard(many) == b""
    assert is_open(lone)


async def test_a_request_under_way_is_never_closed_for_others(
    serve: Callable[[list[CostedRoute]], Awaitable[Client]], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(module, "CONNECTIONS_MAX", 3)
    begun, answer = asyncio.Event(), asyncio.Event()

    async def wait(_: Request) -> Response:
        begun.set()
        await answer.wait()
        return Response(b"done")

    client = await serve([RawRoute("/wait", wait, "GET", LOOK, Admission(Refusals()))])
    reader, _ = await client.connect(b"GET /wait HTTP/1.1\r\nhost: localhost\r\n\r\n")
    await begun.wait()
    for _ in range(5):
        await client.connect(b"GET /hea")
    assert (await client.health()).startswith(b"HTTP/1.1 200 ")
    answer.set()
    assert (await heard(reader)).startswith(b"HTTP/1.1 200 ")


async def test_who_does_not_send_a_whole_head_is_dropped(
    client: Client, monkeypatch: pytest.MonkeyPatch
):
    # The time of the first request is long: it is answered, however busy this machine is.
    answered, writer = await client.connect(PROBE)
    assert (await heard(answered)).startswith(b"HTTP/1.1 200 ")
    await answered.readuntil(b'{"status":"ok"}')
    with monkeypatch.context() as soon:
        soon.setattr(module, "HEAD_SECONDS", 0.05)
        silent, _ = await client.connect()
        dripping, _ = await client.connect(b"GET /health HTTP/1.1\r\n")
        # A request answered buys time, but only once.
        writer.write(PROBE + b"G")
        assert (await heard(answered)).startswith(b"HTTP/1.1 200 ")
        for reader in (silent, dripping, answered):
            async with asyncio.timeout(5):
                with suppress(ConnectionResetError):
                    await reader.read()
    assert (await client.health()).startswith(b"HTTP/1.1 200 ")


class FakeTransport:
    def __init__(self) -> None:
        self.paused = False

    def pause_reading(self) -> None:
        self.paused = True

    def resume_reading(self) -> None:
        self.paused = False

    def is_closing(self) -> bool:
        return False


class FakeConnection:
    """Takes a millisecond to read anything."""

    def __init__(self, clock: list[float], log: list[bytes], address: str = "") -> None:
        self.clock = clock
        self.log = log
        self.address = address
        self.transport = FakeTransport()
        self.flow = type("Flow", (), {"read_paused": False})

    def read(self, data: bytes) -> None:
        self.log.append(data)
        self.clock[0] += 0.001


async def test_a_round_reads_for_a_bounded_time_and_the_next_one_the_rest():
    clock = [0.0]
    log: list[bytes] = []
    connections = Connections(Refusals(), lambda: clock[0])
    made: list[Any] = [FakeConnection(clock, log) for _ in range(4)]
    for number, each in enumerate(made):
        connections.received(each, b"%d" % number)
    assert log == [b"0"]
    assert [each.transport.paused for each in made] == [False, True, True, True]
    for done in (2, 3, 4):
        await asyncio.sleep(0)
        assert log == [b"%d" % number for number in range(done)]
    assert not any(each.transport.paused for each in made)
    await asyncio.sleep(0)
    connections.received(made[0], b"again")
    assert log[-1] == b"again"


async def test_who_sends_most_keeps_no_other_address_waiting():
    clock = [0.0]
    log: list[bytes] = []
    connections = Connections(Refusals(), lambda: clock[0])
    made: list[Any] = [FakeConnection(clock, log, "many") for _ in range(5)]
    for number, each in enumerate(made):
        connections.received(each, b"%d" % number)
    other: Any = FakeConnection(clock, log, "few")
    connections.received(other, b"few")
    while len(log) < 6:
        await asyncio.sleep(0)
    assert log == [b"0", b"1", b"few", b"2", b"3", b"4"]


def slow(handler: Handler) -> list[CostedRoute]:
    """A route, by two verbs."""
    return [CostedRoute("/slow", handler, verb, LOOK) for verb in ("GET", "POST")]


async def test_others_are_read_between_the_pieces_of_a_body(
    serve: Callable[[list[CostedRoute]], Awaitable[Client]], monkeypatch: pytest.MonkeyPatch
):
    turns: list[int] = []
    handle = module.PatientProtocol.handle_events

    def counted(connection: module.PatientProtocol) -> None:
        handle(connection)
        turns.append(module.EVENTS_A_TURN - connection.conn.events_left)

    async def count(request: Request) -> Response:
        return Response(b"%d" % len(await request.body()))

    monkeypatch.setattr(module.PatientProtocol, "handle_events", counted)
    client = await serve(slow(count))
    head = b"POST /slow HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n"
    reader, _ = await client.connect((head + b"1\r\nx\r\n" * 5000 + b"0\r\n\r\n") * 2)
    for _ in range(2):
        async with asyncio.timeout(30):
            answer = await reader.readuntil(b"5000")
        assert answer.lstrip().startswith(b"HTTP/1.1 200 ")
    assert sum(turns) >= 10_000
    assert len(turns) >= 10_000 / module.EVENTS_A_TURN


def asking(query: bytes = b"", headers: bytes = b"") -> bytes:
    return PROBE.replace(b"/health", b"/health" + query).replace(b"\r\n\r\n", b"\r\n" + headers) + (
        b"\r\n"
    )


# How a client of HTTP/2 begins that knows without asking that it is spoken (RFC 9113, 3.4).
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes((0, 0, 0, 4, 0, 0, 0, 0, 0))


def long_head(more: int = 0) -> bytes:
    """As long as may be without the end of its last line, and so many bytes more."""
    room = HEADER_BYTES_MAX + more - len(asking(headers=b"a: \r\n")) + len(b"\r\n\r\n")
    return asking(headers=b"a: " + b"b" * room + b"\r\n")


@pytest.mark.parametrize(
    ("limit", "value", "status", "most", "more"),
    [
        (
            "http_headers",
            module.HEADERS_MAX,
            431,
            asking(headers=b"a:\r\n" * (module.HEADERS_MAX - 1)),
            asking(headers=b"a:\r\n" * module.HEADERS_MAX),
        ),
        (
            "http_query_parameters",
            module.PARAMETERS_MAX,
            414,
            asking(b"?" + b"&".join([b"a"] * module.PARAMETERS_MAX)),
            asking(b"?" + b"&".join([b"a"] * (module.PARAMETERS_MAX + 1))),
        ),
        ("http_head_bytes", HEADER_BYTES_MAX, 431, long_head(), long_head(2)),
        (
            "http_head_bytes",
            HEADER_BYTES_MAX,
            414,
            long_head(),
            asking(b"?" + b"a" * HEADER_BYTES_MAX),
        ),
        ("http_version", "1.1", 505, asking(), PREFACE),
        ("http_version", "1.1", 505, asking(), asking().replace(b"HTTP/1.1", b"HTTP/3.0")),
    ],
)
@pytest.mark.parametrize("piece_bytes", [10**6, 7])
async def test_a_head_that_is_beyond_a_limit_is_not_parsed(
    client: Client,
    refusals: Refusals,
    monkeypatch: pytest.MonkeyPatch,
    limit: str,
    value: int | str,
    status: int,
    most: bytes,
    more: bytes,
    piece_bytes: int,
):
    parsed = []
    of_h11 = h11.Connection._extract_next_receive_event

    def extract(parser: h11.Connection) -> object:
        parsed.append(len(parser.trailing_data[0]))
        return of_h11(parser)

    monkeypatch.setattr(h11.Connection, "_extract_next_receive_event", extract)
    assert (await client.health()).startswith(b"HTTP/1.1 200 ")

    async def answer(sent: bytes) -> bytes:
        reader, writer = await client.connect()
        with suppress(ConnectionResetError):  # it may be answered before the whole of it has come
            for at in range(0, len(sent), piece_bytes):
                writer.write(sent[at : at + piece_bytes])
                await writer.drain()
        async with asyncio.timeout(30):
            status = await reader.readline()
            return status if b"200" in status else status + await reader.read()

    assert (await answer(most)).startswith(b"HTTP/1.1 200 ")
    assert refusals.by_kind[limit] == 0
    parsed.clear()
    refused = await answer(more)
    assert refused.startswith(b"HTTP/1.1 %d " % status)
    assert f"{limit}: {value}".encode() in refused
    assert refusals.by_kind[limit] == 1
    assert len(more) not in parsed
    assert (await client.health()).startswith(b"HTTP/1.1 200 ")


CHUNKED = b"POST /health HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"


@pytest.mark.parametrize(
    "chunks",
    [b"", b"3\r\n0\r\n\r\n", b"1\r\na\r\n2;b=c\r\nde\r\n", b"2\r\n0\n\r\n6;0\r\n\n00\n\r\n\r\n"],
)
@pytest.mark.parametrize("piece_bytes", [10**6, 7, 3, 1])
async def test_what_follows_a_body_in_chunks_is_counted_as_a_head_is(
    client: Client,
    refusals: Refusals,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    chunks: bytes,
    piece_bytes: int,
):
    parsed = []
    of_h11 = ChunkedReader.__call__

    def read(reader: ChunkedReader, buffer: Any) -> object:
        event = of_h11(reader, buffer)
        if isinstance(event, h11.EndOfMessage):
            parsed.append(len(event.headers))
        return event

    monkeypatch.setattr(ChunkedReader, "__call__", read)

    async def answers(trailers: int) -> bytes:
        sent = CHUNKED + chunks + b"000;x\r\n" + b"a:\r\n" * trailers + b"\r\n" + PROBE
        reader, writer = await client.connect()
        with suppress(ConnectionResetError):
            for at in range(0, len(sent), piece_bytes):
                writer.write(sent[at : at + piece_bytes])
                await writer.drain()
        got = b""
        with suppress(ConnectionResetError):
            async with asyncio.timeout(30):
                # The second answer has a body, and no other request follows.
                while b" 200 " not in got or not got.endswith(b"}"):
                    piece = await reader.read(65536)
                    if not piece:
                        break
                    got += piece
        writer.close()
        return got

    got = await answers(module.HEADERS_MAX)
    assert got.startswith(b"HTTP/1.1 405 ")
    assert b"HTTP/1.1 200 " in got
    assert set(parsed) == {module.HEADERS_MAX}
    assert refusals.by_kind["http_headers"] == 0
    assert b"HTTP/1.1 200 " not in await answers(module.HEADERS_MAX + 1)
    assert set(parsed) == {module.HEADERS_MAX}
    assert refusals.by_kind["http_headers"] == 1
    # Whoever was asked first may answer after the refusal.
    await asyncio.sleep(0)
    assert "Exception" not in caplog.text


async def test_a_bad_chunk_after_the_answer_ends_the_connection_without_a_word(
    client: Client, caplog: pytest.LogCaptureFixture
):
    reader, writer = await client.connect()
    writer.write(CHUNKED)
    async with asyncio.timeout(30):
        assert (await reader.readline()).startswith(b"HTTP/1.1 405 ")
        writer.write(b"no chunk\r\n")
        assert b"HTTP/1.1" not in await reader.read()
    writer.close()
    assert not caplog.records


@pytest.fixture
def look(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Has the server look after its peers, as it does each PATIENCE_SECONDS; by itself it never is.

    Of DOWNLOAD_SECONDS there are four looks.
    """
    monkeypatch.setattr(module, "PATIENCE_SECONDS", 3600)
    monkeypatch.setattr(module, "DOWNLOAD_SECONDS", 4 * 3600)
    monkeypatch.setattr(module, "UPLOAD_BYTES_MIN", 10)
    made: list[module.PatientProtocol] = []
    begin = module.PatientProtocol.connection_made

    def connection_made(connection: module.PatientProtocol, transport: asyncio.Transport) -> None:
        begin(connection, transport)
        made.append(connection)

    monkeypatch.setattr(module.PatientProtocol, "connection_made", connection_made)

    def look() -> None:
        for each in made:
            if not each.transport.is_closing() and each._watch is not None:
                each._watch.cancel()
                each._look()

    return look


async def test_an_answer_that_takes_us_long_is_waited_for(
    serve: Callable[[list[CostedRoute]], Awaitable[Client]], look: Callable[[], None]
):
    begun, thought = asyncio.Event(), asyncio.Event()

    async def think(_: Request) -> Response:
        begun.set()
        await thought.wait()
        return Response(b"done")

    client = await serve(slow(think))
    reader, _ = await client.connect(b"GET /slow HTTP/1.1\r\nhost: localhost\r\n\r\n")
    async with asyncio.timeout(30):
        await begun.wait()
        for _ in range(20):
            look()
        thought.set()
        assert (await reader.readuntil(b"done")).startswith(b"HTTP/1.1 200 ")


async def test_a_body_may_take_long_as_long_as_it_comes(
    serve: Callable[[list[CostedRoute]], Awaitable[Client]], look: Callable[[], None]
):
    came: asyncio.Queue[bytes] = asyncio.Queue()

    async def take(request: Request) -> Response:
        async for piece in request.stream():
            came.put_nowait(piece)
        return Response(b"done")

    client = await serve(slow(take))
    post = b"POST /slow HTTP/1.1\r\nhost: localhost\r\ncontent-length: 300\r\n\r\n"
    reader, writer = await client.connect(post)
    async with asyncio.timeout(30):
        for number in range(30):
            writer.write(b"x" * 10)
            assert await came.get() == b"x" * 10
            # What comes together with the head is not counted.
            if number:
                look()
        assert (await reader.readuntil(b"done")).startswith(b"HTTP/1.1 200 ")
        assert await came.get() == b""
        # The next one does not come.
        writer.write(post + b"x")
        assert await came.get() == b"x"
        look()
        assert is_open(reader)
        look()
        assert await heard(reader) == b""


async def test_who_does_not_read_an_answer_is_dropped_at_last(
    serve: Callable[[list[CostedRoute]], Awaitable[Client]], look: Callable[[], None]
):
    begun, ended = asyncio.Event(), asyncio.Event()
    pieces = 50

    async def large(_: Request) -> Response:
        begun.set()

        async def body() -> AsyncIterator[bytes]:
            for _ in range(pieces):
                yield b"x" * 1_000_000
            ended.set()

        return StreamingResponse(body())

    client = await serve(slow(large))
    reader, writer = await asyncio.open_connection(*client.server.address, limit=1000)
    client.open.append(writer)
    writer.write(b"GET /slow HTTP/1.1\r\nhost: localhost\r\n\r\n")
    async with asyncio.timeout(30):
        await begun.wait()
        while not ended.is_set():
            look()
            await asyncio.sleep(0.001)  # for what the sockets' buffers still take
    got = b""
    with suppress(ConnectionResetError):
        got = await reader.read()
    assert len(got) < pieces * 1_000_000
