"""What peers make over TLS, behind proxies and with tokens leaves no cycles either."""

from __future__ import annotations

import contextlib
import socket
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import httpx
import pika
import pytest
from tests.server.certificates import (
    NAME,
    Files,
    client_context,
    configured,
    make_files,
)
from tests.server.outside import Issuer, token
from tests.server.test_garbage import PROGRAM, Asked
from tests.server.test_proxy_protocol import BINARY

from leporid.testing.process import BrokerProcess

pytestmark = pytest.mark.slow

PROXY = "127.0.0.3"


@dataclass
class Surroundings:
    asked: Asked
    files: Files
    issuer: Issuer

    @property
    def ports(self) -> list[int]:
        broker = self.asked.broker
        return [broker.amqp_port, broker.amqps_port, broker.http_port, broker.https_port]

    def connect(self, password: str) -> pika.BlockingConnection:
        context = client_context(self.files)
        return pika.BlockingConnection(
            pika.ConnectionParameters(
                "127.0.0.1",
                self.asked.broker.amqps_port,
                credentials=pika.PlainCredentials("guest", password),
                ssl_options=pika.SSLOptions(context, NAME),
                connection_attempts=1,
            )
        )


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Surroundings]:
    folder = tmp_path_factory.mktemp("garbage")
    files, issuer = make_files(folder), Issuer()
    before, _, section = configured(files.issue(NAME, "server")).partition("[tls]")
    config = f"""
{before}
proxy_protocol.trusted = ["{PROXY}"]
auth.backends = ["oauth2", "internal"]
oauth2.resource_server_id = "mq"
oauth2.issuer = "{issuer.url}"
[tls]{section}
"""
    path = folder / "ask"
    command = [sys.executable, str(PROGRAM), str(path), "serve"]
    with BrokerProcess(folder / "data", config=config, command=command) as broker:
        asked = Asked(broker, path)
        # What is loaded soon after the start has been, once somebody was answered who needs it.
        kind = {"Content-Type": "application/vnd.apache.arrow.stream"}
        asked.http.post("/api/publish/%2F/amq.fanout", content=b"no table", headers=kind)
        yield Surroundings(asked, files, issuer)
        asked.http.close()
    issuer.close()


def said(port: int, data: bytes, source: str = "127.0.0.1") -> None:
    """Send something, and leave without waiting for an answer, in order or not."""
    with socket.create_connection(("127.0.0.1", port), source_address=(source, 0)) as sock:
        sock.sendall(data)
        with contextlib.suppress(OSError):  # it was closed before
            sock.shutdown(socket.SHUT_WR)
            while sock.recv(1000):
                pass


def handshakes(world: Surroundings) -> None:
    for port in world.ports:
        said(port, b"\x16\x03\x01\x02\x00\x01")
        said(port, b"GET / HTTP/1.1\r\n\r\n")
    world.connect("guest").close()
    context = client_context(world.files)
    context.check_hostname = False
    url = f"https://localhost:{world.asked.broker.https_port}/api/whoami"
    httpx.get(url, verify=context, auth=("guest", "guest"), trust_env=False).raise_for_status()


def proxies(world: Surroundings) -> None:
    for port in world.ports:
        for data in (BINARY, BINARY[:7], b"AMQP\0\0\x09\x01", BINARY + b"\x16\x03\x01\x02\x00\x01"):
            said(port, data, PROXY)
    said(world.asked.broker.http_port, BINARY + b"GET /health HTTP/1.0\r\n\r\n", PROXY)


def tokens(world: Surroundings) -> None:
    connection = world.connect(token(world.issuer))
    channel = connection.channel()
    channel.queue_declare("", exclusive=True)
    connection.update_secret(token(world.issuer, seconds=30), "renewed")
    connection.close()
    for bad in (token(world.issuer, aud="other"), "a.b.c", "wrong"):
        with pytest.raises(pika.exceptions.AMQPError):
            world.connect(bad)
    connection = world.connect(token(world.issuer))
    with pytest.raises(pika.exceptions.AMQPError):
        connection.update_secret("a.b.c", "renewed")


@pytest.mark.parametrize("use", [handshakes, proxies, tokens])
def test_what_peers_make_leaves_no_cycles(
    world: Surroundings, use: Callable[[Surroundings], None]
) -> None:
    use(world)  # what is made once only is made now
    world.asked.garbage()
    use(world)
    assert not world.asked.garbage()
