"""HTTPS: with curl, openssl and httpx against a broker, and what strangers may do to it."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import gc
import json
import shutil
import socket
import ssl
import subprocess
import weakref
from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx
import pytest
from tests.server.certificates import (
    NAME,
    PATIENCE_S,
    Files,
    client_context,
    configured,
    make_files,
    running,
    until,
)

from leporid.limits.refusals import Refusals
from leporid.server import http_connections, stream_transport
from leporid.server.addresses import bind
from leporid.server.http import HttpServer, application
from leporid.server.http_connections import Connections
from leporid.server.stream_transport import Rounds, StreamTransport
from leporid.server.tls import Certificates, Tls, stream_over
from leporid.testing.process import BrokerProcess

pytestmark = pytest.mark.slow

OTHER_NAME = "other.example.org"
HEALTH = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"


@pytest.fixture(scope="module")
def broker(files: Files, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    other = files.issue(OTHER_NAME, "other")
    names = f'names."{OTHER_NAME}" = {{certificate="{other.certificate}", key="{other.key}"}}'
    config = configured(files.issue(NAME, "server"), names)
    config = f'metrics_https_port = 0\nhttp.hosts = ["{NAME}"]\n{config}'
    with running(tmp_path_factory.mktemp("https"), config) as started:
        yield started


def curl(
    broker: BrokerProcess, files: Files, path: str, *options: str, name: str = NAME
) -> subprocess.CompletedProcess[bytes]:
    if shutil.which("curl") is None:
        pytest.skip("there is no curl")
    port = broker.https_port
    return subprocess.run(
        [
            *("curl", "--silent", "--show-error", "--noproxy", "*", "--cacert", files.trusted),
            *("--connect-to", f"{name}:{port}:127.0.0.1:{port}", *options),
            f"https://{name}:{port}{path}",
        ],
        capture_output=True,
        timeout=PATIENCE_S,
        check=False,
    )


@pytest.mark.parametrize("version", ["1.2", "1.3"])
def test_curl_asks_as_without_tls(broker, files, version):
    options = ("--tlsv" + version, "--tls-max", version)
    assert json.loads(curl(broker, files, "/health", *options).stdout) == {"status": "ok"}


def test_guest_asks_by_an_address_of_this_machine(broker, files):
    found = curl(broker, files, "/api/whoami", "-u", "guest:guest")
    assert json.loads(found.stdout)["error"] == "not_authorized"
    with https(broker, files) as client:
        assert client.get("/api/whoami").json()["name"] == "guest"


def _any_name(files: Files) -> ssl.SSLContext:
    context = client_context(files)
    context.check_hostname = False
    return context


@contextlib.contextmanager
def https(broker: BrokerProcess, files: Files, **options: Any) -> Iterator[httpx.Client]:
    with httpx.Client(
        base_url=f"https://localhost:{broker.https_port}",
        auth=("guest", "guest"),
        verify=_any_name(files),
        trust_env=False,
        timeout=PATIENCE_S,
        **options,
    ) as client:
        yield client


def test_large_answers_and_bodies(broker, files):
    with https(broker, files) as client:
        body = {
            "properties": {},
            "routing_key": "large",
            "payload": "x" * 700_000,
            "payload_encoding": "string",
        }
        client.put("/api/queues/%2F/large", json={}).raise_for_status()
        for _ in range(5):
            client.post("/api/exchanges/%2F/amq.default/publish", json=body).raise_for_status()
        question = {"count": 5, "ackmode": "ack_requeue_false", "encoding": "auto"}
        found = client.post("/api/queues/%2F/large/get", json=question).json()
        assert [each["payload"] for each in found] == [body["payload"]] * 5
        client.delete("/api/queues/%2F/large").raise_for_status()


def test_a_page_of_the_same_place_may_ask(broker, files):
    port = broker.https_port
    with https(broker, files) as client:
        own = {"origin": f"https://localhost:{port}"}
        assert client.get("/api/whoami", headers=own).status_code == 200
        other = {"origin": "https://elsewhere.example"}
        assert client.get("/api/whoami", headers=other).status_code == 403


def test_metrics_over_tls(broker, files):
    url = f"https://localhost:{broker.metrics_https_port}/metrics"
    answer = httpx.get(url, verify=_any_name(files), trust_env=False)
    assert "rabbitmq_connections_opened_total" in answer.text


def test_the_port_is_listed(broker, files):
    with https(broker, files) as client:
        checks = client.get("/api/health/checks/protocol-listener/https")
        assert checks.status_code == 200, checks.text
        listeners = client.get("/api/overview").json()["listeners"]
    (found,) = (each for each in listeners if each["protocol"] == "https")
    assert found["port"] == broker.https_port


def test_the_certificate_is_that_of_the_name(broker, files):
    for name in (NAME, OTHER_NAME):
        found = curl(broker, files, "/health", "-v", name=name)
        assert f"CN={name}".encode() in found.stderr


def test_a_client_sees_what_is_wrong_with_a_certificate(broker, files):
    assert curl(broker, files, "/health", name="third.example.org").returncode == 60
    elsewhere = files.folder / "elsewhere"
    elsewhere.mkdir()
    stranger = make_files(elsewhere)
    assert curl(broker, stranger, "/health").returncode == 60


def test_openssl_may_not_renegotiate_and_speaks_no_old_version(broker, files):
    if shutil.which("openssl") is None:
        pytest.skip("there is no openssl")

    def ask(*options: str, said: bytes = b"") -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            [
                *("openssl", "s_client", "-connect", f"127.0.0.1:{broker.https_port}"),
                *("-CAfile", files.trusted, "-servername", NAME, *options),
            ],
            input=said,
            capture_output=True,
            timeout=PATIENCE_S,
            check=False,
        )

    assert b"no renegotiation" in ask("-tls1_2", said=b"R\n").stderr
    assert b"alert protocol version" in ask("-tls1_1", "-cipher", "DEFAULT@SECLEVEL=0").stderr
    assert b"Verify return code: 0 (ok)" in ask("-tls1_3").stdout


def test_plain_bytes_are_refused_alone(broker, files):
    with https(broker, files) as client:
        client.get("/health").raise_for_status()
        for said in (HEALTH, b"AMQP\0\0\x09\x01", bytes(100)):
            with socket.create_connection(("127.0.0.1", broker.https_port), PATIENCE_S) as plain:
                plain.sendall(said)
                with contextlib.suppress(ConnectionResetError):
                    found = plain.recv(100)
                    assert not found or found[0] == 21  # an alert
        client.get("/health").raise_for_status()
    until(lambda: "no TLS: a plain HTTP client" in broker.log_path.read_text())


@pytest.mark.parametrize("required", [True, False])
def test_clients_show_certificates(files, tmp_path, required):
    word = "required" if required else "optional"
    config = configured(
        files.issue(NAME, "mutual"),
        f'client_ca = "{files.trusted}"',
        f'http_client_certificates = "{word}"',
    )
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    good = files.issue("client", "client")
    bad = [files.issue("client", "expired", days=-1), make_files(elsewhere).issue("client", "c")]
    with running(tmp_path, config) as broker:

        def ask(own: Any = None) -> int:
            context = _any_name(files)
            if own is not None:
                context.load_cert_chain(own.certificate, own.key)
            url = f"https://localhost:{broker.https_port}/health"
            return httpx.get(url, verify=context, trust_env=False).status_code

        assert ask(good) == 200
        for each in bad:
            with pytest.raises(httpx.TransportError):
                ask(each)
        if required:
            with pytest.raises(httpx.TransportError):
                ask()
        else:
            assert ask() == 200
        until(lambda: "was refused: certificate has expired" in broker.log_path.read_text())


# ------------------------------------------------------------------ one server


@pytest.fixture
async def server(files: Files) -> AsyncIterator[HttpServer]:
    pair = files.issue(NAME, "one")
    certificates = Certificates(Tls(pair.certificate, pair.key))
    app = application([], list)
    made = HttpServer(
        app,
        (),
        Connections(Refusals()),
        tls_sockets=bind(["127.0.0.1"], 0),
        certificates=certificates,
    )
    await made.start()
    yield made
    await made.stop()


async def answer_of(server: HttpServer, files: Files) -> bytes:
    reader, writer = await asyncio.open_connection(
        *server.address, ssl=client_context(files), server_hostname=NAME
    )
    writer.write(HEALTH)
    line = await reader.readline()
    writer.close()
    return line


async def test_half_handshakes_keep_nobody_out(server, files):
    half = b"\x16\x03\x01\x02\x00\x01"
    writers = []
    for _ in range(http_connections.CONNECTIONS_MAX + 20):
        _, writer = await asyncio.open_connection(*server.address)
        writer.write(half)
        writers.append(writer)
    assert b" 200 " in await answer_of(server, files)
    for writer in writers:
        writer.transport.abort()


async def test_a_handshake_that_does_not_end_is_ended(server, files, monkeypatch):
    monkeypatch.setattr(http_connections, "HEAD_SECONDS", 0.2)
    reader, writer = await asyncio.open_connection(*server.address)
    for octet in b"\x16\x03\x01":
        writer.write(bytes([octet]))
    assert await reader.read() == b""
    writer.close()


class Endless:
    """A stream that always has one octet more, and counts who reads."""

    has_more = True
    unsent = b""

    def __init__(self) -> None:
        self.plain, self._other = socket.socketpair()
        self.plain.setblocking(False)
        self.reads = 0

    def fileno(self) -> int:
        return self.plain.fileno()

    def recv_into(self, view: memoryview) -> int:
        self.reads += 1
        view[0] = 1
        return 1

    def close(self) -> None:
        self.plain.close()
        self._other.close()


async def test_all_transports_share_the_time_of_a_round():
    """Whoever sends without end is read a bounded time in each round, and in turns."""
    now = 0.0

    def monotonic() -> float:
        nonlocal now
        now += stream_transport.ROUND_SECONDS / 4
        return now

    rounds = Rounds(monotonic)
    streams = [Endless() for _ in range(10)]
    transports = []
    for stream in streams:
        endless: Any = stream
        transports.append(StreamTransport(endless, asyncio.Protocol(), rounds, ("127.0.0.1", 1)))
        transports[-1].start()
    before = 0
    for _ in range(20):
        await asyncio.sleep(0)
        done = sum(stream.reads for stream in streams)
        assert done - before <= 4
        before = done
    reads = [stream.reads for stream in streams]
    assert min(reads) >= max(reads) - 1 > 0
    for transport in transports:
        transport.abort()
    for stream in streams:
        stream.close()


async def test_a_protocol_that_fails_ends_its_connection_alone(caplog):
    class Failing(asyncio.Protocol):
        lost = False

        def data_received(self, _data: bytes) -> None:
            raise RuntimeError

        def connection_lost(self, _error: Exception | None) -> None:
            self.lost = True

    protocol = Failing()
    stream: Any = Endless()
    StreamTransport(stream, protocol, Rounds(), ("127.0.0.1", 1)).start()
    while not protocol.lost:
        await asyncio.sleep(0)
    assert "defect in an HTTP connection of 127.0.0.1:1" in caplog.text


async def test_a_peer_that_is_gone_is_no_error_of_who_answers_it():
    class Gone(Endless):
        def send(self, view: memoryview) -> int:
            part = view[:1]  # which the traceback keeps
            raise ConnectionResetError(len(part))

    class Told(asyncio.Protocol):
        lost: Exception | None = None

        def connection_lost(self, error: Exception | None) -> None:
            self.lost = error

    protocol = Told()
    stream: Any = Gone()
    transport = StreamTransport(stream, protocol, Rounds(), ("127.0.0.1", 1))
    transport.write(b"an answer")
    while protocol.lost is None:
        await asyncio.sleep(0)
    assert isinstance(protocol.lost, ConnectionResetError)


async def test_a_handshake_that_did_not_end_leaves_nothing_behind(files):
    """Without a full collection: nobody waits for one."""
    pair = files.issue(NAME, "freed")
    context = Certificates(Tls(pair.certificate, pair.key)).http_context

    class Keeping(asyncio.Protocol):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            self.transport = transport

    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    stream, proxy, tls = stream_over(ours, context, proxied=True)
    assert stream is not None
    assert proxy is not None
    assert tls is not None
    transport = StreamTransport(stream, Keeping(), Rounds(), ("127.0.0.1", 1), context)
    proxy.on_header = functools.partial(print, transport)
    tls.on_established = functools.partial(print, tls, transport)
    transport.start()
    freed = weakref.ref(transport)
    gc.disable()
    try:
        transport.abort()
        del transport, stream, proxy, tls
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert freed() is None
    finally:
        gc.enable()
        theirs.close()
