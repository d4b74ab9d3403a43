"""The PROXY protocol: its headers by themselves, and brokers behind a relay that sends them."""

from __future__ import annotations

import contextlib
import ipaddress
import socket
import ssl
import struct
import threading
from collections.abc import Iterator
from typing import Any

import httpx
import pika
import pytest
from hypothesis import given
from hypothesis import strategies as st
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

from leporid.server.config import load
from leporid.server.proxy_protocol import (
    HEADER_BYTES_MAX,
    LINE_BYTES_MAX,
    SIGNATURE,
    Header,
    Proxied,
    ProxiedSocket,
    ProxyError,
    TrustedProxies,
)
from leporid.server.settings import ConfigError
from leporid.testing.process import BrokerProcess

pytestmark = pytest.mark.slow

V4 = Proxied(("192.0.2.7", 40000), ("198.51.100.1", 5672))
V6 = Proxied(("2001:db8::7", 40000), ("2001:db8::1", 5672))
LINE = b"PROXY TCP4 192.0.2.7 198.51.100.1 40000 5672\r\n"


def binary(command: int, family: int, rest: bytes, *, version: int = 2) -> bytes:
    return SIGNATURE + bytes([version << 4 | command, family]) + struct.pack(">H", len(rest)) + rest


def addresses(family: int, proxied: Proxied) -> bytes:
    hosts = [socket.inet_pton(family, each[0]) for each in proxied]
    return b"".join(hosts) + struct.pack(">HH", *(each[1] for each in proxied))


BINARY = binary(1, 0x11, addresses(socket.AF_INET, V4))
TLVS = b"\x01\x00\x02h2" + b"\xea\x03\xe8" + bytes(1000)
HEADERS: list[tuple[bytes, Proxied | None]] = [
    (LINE, V4),
    (b"PROXY TCP6 2001:db8::7 2001:DB8::1 40000 5672\r\n", V6),
    (b"PROXY UNKNOWN\r\n", None),
    (b"PROXY UNKNOWN ffff:f...f:ffff 65535 65535\r\n", None),
    (BINARY, V4),
    (binary(1, 0x21, addresses(socket.AF_INET6, V6)), V6),
    (binary(1, 0x21, addresses(socket.AF_INET6, V6) + TLVS), V6),
    (binary(0, 0, b""), None),
    (binary(0, 0x11, addresses(socket.AF_INET, V4)), None),
    (binary(1, 0, TLVS), None),
    (binary(1, 0x12, addresses(socket.AF_INET, V4)), None),
    (binary(1, 0x31, bytes(216)), None),
]


@pytest.mark.parametrize("size", [1, 7, 10_000])
@pytest.mark.parametrize(("sent", "said"), HEADERS)
def test_a_header_is_taken_and_nothing_behind_it(sent, said, size):
    header = Header()
    data = sent + b"AMQP\0\0\x09\x01"
    at = 0
    while not header.done:
        taken = header.take(data[at : at + size])
        assert 0 < taken <= size
        at += taken
    assert at == len(sent)
    assert header.proxied == said


@pytest.mark.parametrize(
    ("sent", "why"),
    [
        (b"AMQP\0\0\x09\x01", "no header"),
        (b"PROXX", "no header"),
        (b"\x16\x03\x01", "no header"),
        (b"PROXY " + b"x" * LINE_BYTES_MAX, "no end within 107"),
        (b"PROXY TCP4 192.0.2.7 198.51.100.1 40000\r\n", "not of the form"),
        (b"PROXY UDP4 192.0.2.7 198.51.100.1 40000 1\r\n", "not of the form"),
        (b"PROXY TCP4 192.0.2.256 198.51.100.1 40000 1\r\n", "invalid address"),
        (b"PROXY TCP4 ::1 ::1 40000 1\r\n", "invalid address"),
        (b"PROXY TCP4 192.0.2.\xb2 198.51.100.1 40000 1\r\n", "invalid address"),
        (b"PROXY TCP4 192.0.2.7 198.51.100.1 65536 1\r\n", "invalid port"),
        (b"PROXY TCP4 192.0.2.7 198.51.100.1 -1 1\r\n", "invalid port"),
        (SIGNATURE[:-1] + b"X", "no header"),
        (binary(1, 0x11, addresses(socket.AF_INET, V4), version=1), "nobody knows"),
        (binary(2, 0x11, addresses(socket.AF_INET, V4)), "nobody knows"),
        (binary(1, 0x11, bytes(11)), "too short"),
        (binary(1, 0x21, bytes(35)), "too short"),
        (binary(1, 0x11, bytes(HEADER_BYTES_MAX)), "4112 octets; at most 4096"),
    ],
)
@pytest.mark.parametrize("size", [1, 10_000])
def test_what_is_no_header_is_refused(sent, why, size):
    header = Header()

    def take() -> None:
        for at in range(0, len(sent), size):
            header.take(sent[at : at + size])

    with pytest.raises(ProxyError, match=why):
        take()


@given(st.binary(max_size=64), st.sampled_from([b"", b"PROXY ", SIGNATURE, BINARY[:14]]))
def test_whatever_comes_is_a_header_or_refused(data, beginning):
    header = Header()
    left, taken = beginning + data, 0
    with contextlib.suppress(ProxyError):
        while left and not header.done:
            count = header.take(left)
            assert 0 < count <= len(left)
            left = left[count:]
            taken += count
    assert taken <= HEADER_BYTES_MAX


def test_who_is_believed():
    proxies = TrustedProxies([ipaddress.ip_network("10.0.0.0/8"), ipaddress.ip_network("::1")])
    assert "10.1.2.3" in proxies
    assert "::ffff:10.1.2.3" in proxies
    assert "::1" in proxies
    for host in ("11.0.0.1", "::2", "fe80::1%eth0", "", "no address"):
        assert host not in proxies
    assert "10.1.2.3" not in TrustedProxies(())


def test_a_socket_reads_what_is_behind_the_header():
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    sock = ProxiedSocket(ours)
    said: list[Proxied | None] = []
    sock.on_header = said.append
    theirs.sendall(BINARY[:5])
    with pytest.raises(BlockingIOError):
        sock.recv(100)
    assert not said
    theirs.sendall(BINARY[5:] + b"AMQP")
    assert sock.recv(2) == b"AM"
    assert said == [V4]
    view = memoryview(bytearray(10))
    assert sock.recv_into(view) == 2
    sock.close()
    theirs.close()


@pytest.mark.parametrize("value", ['"10.0.0.1/8"', '"everybody"', "1"])
def test_a_network_that_is_none_is_refused(value, tmp_path):
    file = tmp_path / "leporid.toml"
    file.write_text(f"proxy_protocol.trusted = [{value}]\n")
    with pytest.raises(ConfigError, match=r"trusted\[0\] = .*must be a network such as"):
        load(file)


# ------------------------------------------------------------------ real brokers


class Relay:
    """A proxy: it sends a header, and then what the client and the broker say."""

    def __init__(self, port: int, header: bytes) -> None:
        self._port = port
        self._header = header
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._open: list[socket.socket] = [self._listener]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                broker = socket.create_connection(("127.0.0.1", self._port))
                broker.sendall(self._header)
                self._open += [client, broker]
                for source, target in ((client, broker), (broker, client)):
                    threading.Thread(target=self._pump, args=(source, target), daemon=True).start()

    @staticmethod
    def _pump(source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                target.sendall(data)
        with contextlib.suppress(OSError):
            target.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        for one in self._open:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()


@contextlib.contextmanager
def relay(port: int, header: bytes) -> Iterator[int]:
    made = Relay(port, header)
    yield made.port
    made.close()


CONFIG = """
proxy_protocol.trusted = ["127.0.0.1"]
limits.handshake_seconds = 3
[users.till]
password = "till"
tags = ["administrator"]
permissions."/" = {configure = ".*", write = ".*", read = ".*"}
[users.guest]
password = "guest"
tags = ["management"]
permissions."/" = {configure = ".*", write = ".*", read = ".*"}
"""


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    return make_files(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def broker(files: Files, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    tls = configured(files.issue(NAME, "server"))
    before, _, section = tls.partition("[tls]")
    config = f"{before}{CONFIG}[tls]{section}"
    with running(tmp_path_factory.mktemp("proxied"), config) as started:
        yield started


def connect(port: int, user: str = "till", **options: Any) -> pika.BlockingConnection:
    return pika.BlockingConnection(
        pika.ConnectionParameters(
            "127.0.0.1",
            port,
            credentials=pika.PlainCredentials(user, user),
            connection_attempts=1,
            socket_timeout=PATIENCE_S,
            **options,
        )
    )


def listed(broker: BrokerProcess) -> list[dict[str, Any]]:
    transport = httpx.HTTPTransport(local_address="127.0.0.2")
    with httpx.Client(transport=transport, auth=("till", "till"), trust_env=False) as client:
        answer = client.get(f"http://127.0.0.1:{broker.http_port}/api/connections")
    assert answer.status_code == 200, answer.text
    found: list[dict[str, Any]] = answer.json()
    return found


@pytest.mark.parametrize("header", [LINE, BINARY, BINARY[:16]], ids=["v1", "v2", "in pieces"])
def test_a_connection_has_the_address_of_the_client(broker, header):
    with relay(broker.amqp_port, header) as port:
        if header == BINARY[:16]:
            with socket.create_connection(("127.0.0.1", port), PATIENCE_S) as sock:
                for octet in BINARY[16:] + b"AMQP\0\0\x09\x01":
                    sock.sendall(bytes([octet]))
                assert sock.recv(7)[:1] == b"\x01"
            return
        connection = connect(port)
        (found,) = listed(broker)
        assert (found["peer_host"], found["peer_port"]) == V4.source
        assert found["name"] == "192.0.2.7:40000 -> 198.51.100.1:5672"
        connection.close()


def test_tls_begins_behind_the_header(broker, files):
    options = pika.SSLOptions(client_context(files), NAME)
    with relay(broker.amqps_port, BINARY) as port:
        connection = connect(port, ssl_options=options)
        (found,) = listed(broker)
        assert found["peer_host"] == "192.0.2.7"
        assert found["ssl"] is True
        connection.close()


@pytest.mark.parametrize("header", [LINE, binary(0, 0, b""), b"PROXY UNKNOWN\r\n", BINARY])
def test_nobody_behind_a_proxy_is_of_this_machine(broker, header):
    loopback = LINE.replace(b"192.0.2.7", b"127.0.0.1") if header == LINE else header
    with relay(broker.amqp_port, loopback) as port:
        with pytest.raises(pika.exceptions.ProbableAuthenticationError):
            connect(port, "guest")
        connect(port).close()
    until(lambda: "user 'guest' - can only connect via localhost" in broker.log_path.read_text())


def test_who_is_trusted_and_sends_no_header_is_closed(broker, files):
    with pytest.raises(pika.exceptions.AMQPError):
        connect(broker.amqp_port)
    with pytest.raises((ssl.SSLError, OSError, pika.exceptions.AMQPError)):
        connect(broker.amqps_port, ssl_options=pika.SSLOptions(client_context(files), NAME))
    with pytest.raises(httpx.TransportError):
        httpx.get(f"http://127.0.0.1:{broker.http_port}/health", trust_env=False)
    text = broker.log_path.read_text()
    assert text.count("it sent no header of the PROXY protocol") >= 3


def test_who_is_not_trusted_and_sends_one_is_closed(broker):
    for port, said in (
        (broker.amqp_port, b"AMQP\0\0\x09\x01"),
        (broker.http_port, b"HTTP/1.1 400"),
    ):
        address = ("127.0.0.2", 0)
        with socket.create_connection(
            ("127.0.0.1", port), PATIENCE_S, source_address=address
        ) as sock:
            sock.sendall(LINE + b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert sock.recv(12)[: len(said)] == said
    until(lambda: "is not in proxy_protocol.trusted" in broker.log_path.read_text())


def test_a_header_that_does_not_come_is_not_waited_for(broker):
    with socket.create_connection(("127.0.0.1", broker.amqp_port), PATIENCE_S) as sock:
        sock.sendall(BINARY[:-1])
        assert sock.recv(100) == b""


@pytest.mark.parametrize("encrypted", [False, True])
def test_http_behind_a_proxy(broker, files, encrypted):
    port = broker.https_port if encrypted else broker.http_port
    scheme = "https" if encrypted else "http"
    with relay(port, BINARY) as relayed:
        verify: Any = client_context(files)
        verify.check_hostname = False
        url = f"{scheme}://localhost:{relayed}/api/"
        with httpx.Client(auth=("till", "till"), trust_env=False, verify=verify) as client:
            assert client.get(url + "whoami").json()["name"] == "till"
            client.put(url + "vhosts/behind").raise_for_status()
            client.delete(url + "vhosts/behind").raise_for_status()
        guest = httpx.get(url + "whoami", auth=("guest", "guest"), trust_env=False, verify=verify)
        assert guest.status_code == 401
    until(lambda: "'till' from 192.0.2.7:40000" in broker.log_path.read_text())


@pytest.mark.parametrize("header", [LINE.replace(b"192.0.2.7", b"127.0.0.1"), binary(0, 0, b"")])
def test_nobody_behind_a_proxy_is_of_this_machine_over_http(broker, header):
    with relay(broker.http_port, header) as port:
        for user, status in (("guest", 401), ("till", 200)):
            url = f"http://localhost:{port}/api/whoami"
            assert httpx.get(url, auth=(user, user), trust_env=False).status_code == status
