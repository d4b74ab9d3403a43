"""HTTP: the two pages, and peers that mean no good."""

import asyncio
import signal
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress

import httpx
import pytest
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route
from tests.server.test_metrics import Counted

from leporid.server import http as module
from leporid.server.addresses import bind
from leporid.server.http import HttpServer, application

Connect = Callable[[], Awaitable[tuple[asyncio.StreamReader, asyncio.StreamWriter]]]


@pytest.fixture
def troubles() -> list[str]:
    return []


@pytest.fixture
async def server(troubles: list[str]) -> AsyncIterator[HttpServer]:
    server = HttpServer(application(Counted, lambda: troubles), bind(["127.0.0.1"], 0))
    await server.start()
    yield server
    await server.stop()


@pytest.fixture
async def client(server: HttpServer) -> AsyncIterator[httpx.AsyncClient]:
    host, port = server.address
    async with httpx.AsyncClient(base_url=f"http://{host}:{port}", trust_env=False) as client:
        yield client


@pytest.fixture
async def connect(server: HttpServer) -> AsyncIterator[Connect]:
    writers: list[asyncio.StreamWriter] = []

    async def connect() -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_connection(*server.address)
        writers.append(writer)
        return reader, writer

    yield connect
    for writer in writers:
        writer.transport.abort()


async def test_health(client: httpx.AsyncClient, troubles: list[str]):
    answer = await client.get("/health")
    assert (answer.status_code, answer.json()) == (200, {"status": "ok"})
    troubles += ["draining", "memory alarm"]
    answer = await client.get("/health")
    assert answer.status_code == 503
    assert answer.json() == {"status": "unavailable", "reasons": ["draining", "memory alarm"]}
    troubles.clear()
    assert (await client.get("/health")).status_code == 200


async def test_metrics(client: httpx.AsyncClient):
    answer = await client.get("/metrics")
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert "rabbitmq_queue_messages_ready 50.0\n" in answer.text
    assert "server" not in answer.headers


async def test_other_pages_and_methods(client: httpx.AsyncClient):
    answer = await client.get("/api/overview")
    assert answer.status_code == 404
    assert answer.text.splitlines()[1:] == ["/health", "/metrics"]
    assert (await client.post("/health")).status_code == 405


async def test_a_page_that_is_not_there_names_those_that_are():
    async def answer(_: Request) -> Response:
        return Response()

    routes = [Route("/api/x/{one}", answer, methods=[verb]) for verb in ("GET", "PUT")]
    app = application(Counted, list, routes)
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://x") as client:
        text = (await client.get("/api/overview")).text
    assert text.splitlines()[1:] == ["/health", "/metrics", "/api/x/{one}"]


async def test_what_is_not_http_gets_400(connect: Connect):
    reader, writer = await connect()
    writer.write(b"AMQP\0\0\x09\x01\r\n\r\n")
    assert (await reader.read()).startswith(b"HTTP/1.1 400 ")


async def test_endless_headers_are_cut_off(connect: Connect):
    reader, writer = await connect()
    writer.write(b"GET /health HTTP/1.1\r\nx: " + b"x" * (module.HEADER_BYTES_MAX + 1000))
    assert (await reader.read()).startswith(b"HTTP/1.1 400 ")


async def test_a_flood_of_connections_takes_a_bounded_number(
    connect: Connect, client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(module, "CONNECTIONS_MAX", 3)
    for _ in range(3):
        await connect()
    with pytest.raises(httpx.TransportError):
        await client.get("/health")


async def test_who_sends_drop_by_drop_is_dropped(
    connect: Connect, client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(module, "PATIENCE_SECONDS", 0.05)
    silent, _ = await connect()
    dripping, writer = await connect()
    writer.write(b"GET /health HTTP/1.1\r\n")
    # A request answered buys time, but only once.
    answered, writer = await connect()
    writer.write(b"GET /health HTTP/1.1\r\nhost: x\r\n\r\nG")
    assert (await answered.readline()).startswith(b"HTTP/1.1 200 ")
    for reader in (silent, dripping, answered):
        async with asyncio.timeout(5):
            with suppress(ConnectionResetError):
                await reader.read()
    assert (await client.get("/health")).status_code == 200


async def slow_server(
    monkeypatch: pytest.MonkeyPatch, handler: Callable[[Request], Awaitable[Response]]
) -> HttpServer:
    """A server with one more route, that looks at its peers all the time."""
    monkeypatch.setattr(module, "PATIENCE_SECONDS", 0.05)
    monkeypatch.setattr(module, "DOWNLOAD_SECONDS", 0.2)
    monkeypatch.setattr(module, "UPLOAD_BYTES_MIN", 10)
    routes = [Route("/slow", handler, methods=["GET", "POST"])]
    server = HttpServer(application(Counted, list, routes), bind(["127.0.0.1"], 0))
    await server.start()
    return server


async def test_an_answer_that_takes_us_long_is_waited_for(monkeypatch: pytest.MonkeyPatch):
    async def think(_: Request) -> Response:
        await asyncio.sleep(0.5)  # several looks
        return Response(b"done")

    server = await slow_server(monkeypatch, think)
    async with httpx.AsyncClient(trust_env=False) as client:
        host, port = server.address
        assert (await client.get(f"http://{host}:{port}/slow")).text == "done"
    await server.stop()


async def test_a_body_may_take_long_as_long_as_it_comes(monkeypatch: pytest.MonkeyPatch):
    async def count(request: Request) -> Response:
        return Response(b"%d" % len(await request.body()))

    server = await slow_server(monkeypatch, count)
    reader, writer = await asyncio.open_connection(*server.address)
    writer.write(b"POST /slow HTTP/1.1\r\nhost: x\r\ncontent-length: 300\r\n\r\n")
    for _ in range(30):
        writer.write(b"x" * 10)
        await asyncio.sleep(0.01)
    assert (await reader.readline()).startswith(b"HTTP/1.1 200 ")
    # The next one does not come.
    writer.write(b"POST /slow HTTP/1.1\r\nhost: x\r\ncontent-length: 300\r\n\r\nx")
    async with asyncio.timeout(5):
        with suppress(ConnectionResetError):
            await reader.read()
    writer.transport.abort()
    await server.stop()


async def test_who_does_not_read_an_answer_is_dropped_at_last(monkeypatch: pytest.MonkeyPatch):
    ended = asyncio.Event()
    pieces = 50

    async def large(_: Request) -> Response:
        async def body() -> AsyncIterator[bytes]:
            for _ in range(pieces):
                yield b"x" * 1_000_000
            ended.set()

        return StreamingResponse(body())

    server = await slow_server(monkeypatch, large)
    reader, writer = await asyncio.open_connection(*server.address, limit=1000)
    writer.write(b"GET /slow HTTP/1.1\r\nhost: x\r\n\r\n")
    async with asyncio.timeout(10):
        await ended.wait()
    got = b""
    with suppress(ConnectionResetError):
        got = await reader.read()
    assert len(got) < pieces * 1_000_000
    writer.transport.abort()
    await server.stop()


async def test_signals_are_left_alone(server: HttpServer):
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL


async def test_stop_closes_everything_soon_whatever_peers_do(troubles: list[str]):
    sockets = bind(["127.0.0.1", "127.0.0.2"], 0)
    server = HttpServer(application(Counted, lambda: troubles), sockets)
    await server.start()
    silent, silent_writer = await asyncio.open_connection(*server.address)
    half, half_writer = await asyncio.open_connection(*server.address)
    half_writer.write(b"GET /hea")
    second = ("127.0.0.2", server.address[1])
    async with httpx.AsyncClient(trust_env=False) as client:
        assert (await client.get(f"http://{second[0]}:{second[1]}/health")).status_code == 200
    started = time.monotonic()
    await server.stop()
    assert time.monotonic() - started < module.STOP_SECONDS + 1
    assert await silent.read() == b""
    assert await half.read() == b""
    for address in (silent_writer.get_extra_info("peername"), second):
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection(*address)
    for writer in (silent_writer, half_writer):
        writer.close()


@pytest.mark.parametrize("answered", [True, False])
async def test_stop_waits_for_a_request_in_flight_but_not_for_ever(
    monkeypatch: pytest.MonkeyPatch, answered: bool
):
    begun, answer = asyncio.Event(), asyncio.Event()

    async def wait(_: Request) -> Response:
        begun.set()
        await answer.wait()
        return Response(b"done")

    monkeypatch.setattr(module, "STOP_SECONDS", 10 if answered else 0.01)
    routes = [Route("/wait", wait)]
    sockets = bind(["127.0.0.1"], 0)
    server = HttpServer(application(Counted, list, routes), sockets)
    await server.start()
    reader, writer = await asyncio.open_connection(*server.address)
    writer.write(b"GET /wait HTTP/1.1\r\nhost: x\r\n\r\n")
    await begun.wait()
    stopping = asyncio.create_task(server.stop())
    while sockets[0].fileno() >= 0:
        await asyncio.sleep(0)
    if answered:
        answer.set()
    got = b""
    with suppress(ConnectionResetError):
        got = await reader.read()
    assert got.endswith(b"done") is answered
    await stopping
    writer.close()


async def test_stop_before_start_closes_the_sockets():
    sockets = bind(["127.0.0.1"], 0)
    await HttpServer(application(Counted, tuple), sockets).stop()
    assert sockets[0].fileno() == -1


async def test_a_start_that_fails_says_why():
    sockets = bind(["127.0.0.1"], 0)
    server = HttpServer(application(Counted, tuple), sockets)
    sockets[0].close()
    with pytest.raises(OSError, match="Bad file descriptor"):
        await server.start()
