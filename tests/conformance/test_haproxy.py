"""A real HAProxy in front, which sends the header of the PROXY protocol's version 2."""

from __future__ import annotations

import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pika
import pytest

from leporid.testing import BrokerProcess, reserve_port

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("haproxy") is None, reason="haproxy is not installed"),
]

SECONDS = 30.0
# All of 127.0.0.0/8 is this machine: the proxy has an address of its own there.
PROXY, ELSEWHERE = "127.0.0.5", "127.0.0.2"
BROKER = f"""
proxy_protocol.trusted = ["{PROXY}"]
[users.till]
password = "till"
tags = ["administrator"]
permissions."/" = {{configure = ".*", write = ".*", read = ".*"}}
"""


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path / "data", config=BROKER) as broker:
        yield broker


@pytest.fixture
def proxy_port(broker: BrokerProcess, tmp_path: Path) -> Iterator[int]:
    """The port of a proxy for AMQP."""
    port = reserve_port()
    config = tmp_path / "haproxy.cfg"
    config.write_text(
        "defaults\n  mode tcp\n  timeout connect 5s\n  timeout client 60s\n  timeout server 60s\n"
        f"listen amqp\n  bind 127.0.0.1:{port}\n  source {PROXY}\n"
        f"  server broker 127.0.0.1:{broker.amqp_port} send-proxy-v2\n"
    )
    process = subprocess.Popen(["haproxy", "-db", "-f", str(config)], stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + SECONDS
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                break
            except ConnectionRefusedError:
                assert process.poll() is None, "haproxy ended"
                assert time.monotonic() < deadline
        yield port
    finally:
        process.kill()
        process.wait(SECONDS)


def test_a_client_behind_haproxy_has_its_own_address(broker: BrokerProcess, proxy_port: int):
    parameters = pika.ConnectionParameters(
        "127.0.0.1", proxy_port, credentials=pika.PlainCredentials("till", "till")
    )
    with pika.BlockingConnection(parameters) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        channel.queue_declare("proxied")
        channel.basic_publish("", "proxied", b"x" * 200_000, mandatory=True)
        assert channel.basic_get("proxied", auto_ack=True)[2] == b"x" * 200_000
        transport = httpx.HTTPTransport(local_address=ELSEWHERE)
        with httpx.Client(transport=transport, auth=("till", "till"), trust_env=False) as client:
            (found,) = client.get(f"http://127.0.0.1:{broker.http_port}/api/connections").json()
        assert found["peer_host"] == "127.0.0.1", "not the proxy's"
        assert (found["host"], found["port"]) == ("127.0.0.1", proxy_port)


def test_guest_is_of_this_machine_and_not_behind_a_proxy(proxy_port: int):
    with pytest.raises(pika.exceptions.ProbableAuthenticationError):
        pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", proxy_port))
