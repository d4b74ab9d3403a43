"""HTTP: the two pages, and how the server begins and ends."""

import asyncio
import signal
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress

import httpx
import pytest
from starlette.requests import Request
from starlette.responses import Response
from tests.server.test_metrics import metrics

from leporid.management.admission import LOOK
from leporid.management.paths import CostedRoute
from leporid.server import http as module
from leporid.server.addresses import bind
from leporid.server.http import HttpServer, application, metrics_application
from leporid.server.metrics_pages import Scrapes, totals_route

TOTALS = [totals_route(Scrapes(metrics()))]
Connect = Callable[[], Awaitable[tuple[asyncio.StreamReader, asyncio.StreamWriter]]]


@pytest.fixture
def troubles() -> list[str]:
    return []


@pytest.fixture
async def server(troubles: list[str]) -> AsyncIterator[HttpServer]:
    server = HttpServer(application(TOTALS, lambda: troubles), bind(["127.0.0.1"], 0))
    await server.start()
    yield server
    await server.stop()


@pytest.fixture
async def client(server: HttpServer) -> AsyncIterator[httpx.AsyncClient]:
    host, port = server.address
    async with httpx.AsyncClient(
        base_url=f"http://{host}:{port}", trust_env=False, verify=False
    ) as client:
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


async def test_the_port_for_metrics_has_nothing_else():
    transport = httpx.ASGITransport(metrics_application(TOTALS))
    async with httpx.AsyncClient(transport=transport, base_url="http://x", verify=False) as client:
        assert (await client.get("/metrics")).status_code == 200
        answer = await client.get("/health")
        assert (answer.status_code, answer.text.splitlines()[1:]) == (404, ["/metrics"])


async def test_other_pages_and_methods(client: httpx.AsyncClient):
    answer = await client.get("/api/none")
    assert answer.status_code == 404
    assert answer.json() == {"error": "Object Not Found", "reason": "Not Found"}
    answer = await client.get("/none")
    assert answer.status_code == 404
    assert answer.text.splitlines()[1:] == ["/health", "/metrics"]
    assert (await client.post("/health")).status_code == 405


async def test_what_is_not_there_names_what_is():
    async def answer(_: Request) -> Response:
        return Response()

    routes = [CostedRoute("/api/x/{one}", answer, verb, LOOK) for verb in ("GET", "PUT")]
    app = application(TOTALS, list, routes)
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://x", verify=False) as client:
        text = (await client.get("/none")).text
        refused = await client.delete("/api/x/y")
        asked = await client.options("/api/x/y")
        assert (await client.options("/api/none")).status_code == 404
    assert text.splitlines()[1:] == ["/health", "/metrics", "/api/x/{one}"]
    assert (refused.status_code, refused.headers["allow"]) == (405, "GET, HEAD, OPTIONS, PUT")
    assert refused.json() == {
        "error": "method_not_allowed",
        "reason": "this path takes GET, HEAD, OPTIONS, PUT",
    }
    assert (asked.status_code, asked.headers["allow"], asked.content) == (
        200,
        "GET, HEAD, OPTIONS, PUT",
        b"",
    )


async def test_a_redirect_does_not_lead_to_the_host_that_was_named(client: httpx.AsyncClient):
    answer = await client.get("/metrics/?a=1", headers={"Host": "evil.example"})
    assert (answer.status_code, answer.headers["location"]) == (307, "/metrics?a=1")
    for path in ("/nothing/", "/metrics//"):
        assert (await client.get(path, headers={"Host": "evil.example"})).status_code == 404


async def test_what_is_not_http_gets_400(connect: Connect):
    reader, writer = await connect()
    writer.write(b"AMQP\0\0\x09\x01\r\n\r\n")
    assert (await reader.read()).startswith(b"HTTP/1.1 400 ")


async def test_endless_headers_are_cut_off(connect: Connect):
    reader, writer = await connect()
    writer.write(b"GET /health HTTP/1.1\r\nx: " + b"x" * (module.HEADER_BYTES_MAX + 1000))
    assert (await reader.read()).startswith(b"HTTP/1.1 431 ")


async def test_signals_are_left_alone(server: HttpServer):
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL


async def test_stop_closes_everything_soon_whatever_peers_do(troubles: list[str]):
    sockets = bind(["127.0.0.1", "127.0.0.2"], 0)
    server = HttpServer(application(TOTALS, lambda: troubles), sockets)
    await server.start()
    silent, silent_writer = await asyncio.open_connection(*server.address)
    half, half_writer = await asyncio.open_connection(*server.address)
    half_writer.write(b"GET /hea")
    second = ("127.0.0.2", server.address[1])
    async with httpx.AsyncClient(trust_env=False, verify=False) as client:
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
    routes = [CostedRoute("/wait", wait, "GET", LOOK)]
    sockets = bind(["127.0.0.1"], 0)
    server = HttpServer(application(TOTALS, list, routes), sockets)
    await server.start()
    reader, writer = await asyncio.open_connection(*server.address)
    writer.write(b"GET /wait HTTP/1.1\r\nhost: localhost\r\n\r\n")
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
    await HttpServer(application(TOTALS, tuple), sockets).stop()
    assert sockets[0].fileno() == -1


async def test_a_start_that_fails_says_why():
    sockets = bind(["127.0.0.1"], 0)
    server = HttpServer(application(TOTALS, tuple), sockets)
    sockets[0].close()
    with pytest.raises(OSError, match="Bad file descriptor"):
        await server.start()
