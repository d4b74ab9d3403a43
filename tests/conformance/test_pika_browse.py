"""A queue that was browsed over HTTP, as pika sees it: nothing has happened to it."""

from __future__ import annotations

import json
import urllib.request
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path

import pika
import pyarrow as pa
import pytest
from pika.adapters.blocking_connection import BlockingChannel
from tests.conformance.pika_steps import Inbox, publish_all

from leporid.testing import BrokerProcess, reserve_port

QUEUE = "api/queues/%2F/q"
BODIES = [b"%d" % number for number in range(50)]


class Http:
    def __init__(self, port: int) -> None:
        self.root = f"http://127.0.0.1:{port}/"

    def __call__(self, method: str, path: str) -> bytes:
        request = urllib.request.Request(self.root + path, method=method)
        request.add_header("Authorization", "Basic " + b64encode(b"guest:guest").decode())
        with urllib.request.urlopen(request, timeout=10) as answer:
            data: bytes = answer.read()
        return data

    def bodies(self, path: str, method: str = "GET") -> list[bytes]:
        table = pa.ipc.open_stream(self(method, path)).read_all()
        found: list[bytes] = table["body"].to_pylist()
        return found


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    # It comes back on its old ports.
    options = ["--http-port", str(reserve_port())]
    with BrokerProcess(tmp_path / "data", amqp_port=reserve_port(), options=options) as process:
        yield process


@pytest.fixture
def http(broker: BrokerProcess) -> Http:
    return Http(broker.http_port)


@pytest.fixture
def channel(broker: BrokerProcess) -> Iterator[BlockingChannel]:
    with pika.BlockingConnection(pika.URLParameters(broker.url)) as connection:
        channel = connection.channel()
        channel.queue_declare("q", durable=True)
        channel.confirm_delivery()
        publish_all(channel, "q", BODIES)
        yield channel


def counts(channel: BlockingChannel) -> tuple[int, int]:
    answer = channel.queue_declare("q", passive=True).method
    return answer.message_count, answer.consumer_count


def test_a_consumer_sees_an_untouched_queue_after_a_browse(channel: BlockingChannel, http: Http):
    assert http.bodies(QUEUE + "/messages") == BODIES
    assert http.bodies(QUEUE + "/messages?limit=3") == BODIES[:3]
    assert counts(channel) == (50, 0)
    inbox = Inbox(channel, "q")
    inbox.wait_for(50)
    assert inbox.bodies == BODIES
    assert not any(method.redelivered for method in inbox.deliveries)


def test_what_is_leased_is_delivered_to_nobody_until_it_is_released(
    channel: BlockingChannel, http: Http
):
    taken = json.loads(http("POST", QUEUE + "/leases?max=10&answer=json"))
    assert taken["messages"] == 10
    inbox = Inbox(channel, "q")
    inbox.wait_for(40)
    assert inbox.bodies == BODIES[10:]
    http("POST", f"{QUEUE}/leases/{taken['lease']}/release")
    inbox.wait_for(50)
    assert inbox.bodies[40:] == BODIES[:10]
    assert all(method.redelivered for method in inbox.deliveries[40:])


def test_after_a_crash_what_was_acknowledged_is_gone_and_what_was_leased_is_back(
    broker: BrokerProcess, http: Http
):
    with pika.BlockingConnection(pika.URLParameters(broker.url)) as connection:
        channel = connection.channel()
        channel.queue_declare("q", durable=True)
        channel.confirm_delivery()
        for body in BODIES:
            channel.basic_publish("", "q", body, pika.BasicProperties(delivery_mode=2))
    done = json.loads(http("POST", QUEUE + "/leases?max=10&answer=json"))
    assert done["messages"] == 10
    assert http.bodies(QUEUE + "/leases?max=10", "POST") == BODIES[10:20]
    http("DELETE", f"{QUEUE}/leases/{done['lease']}")
    broker.kill()
    broker.start()
    assert http.bodies(QUEUE + "/messages") == BODIES[10:]
