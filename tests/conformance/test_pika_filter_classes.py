"""Bindings that ask filter classes, as pika sees them, with real processes behind them."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import httpx
import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import AMQPError, ChannelClosedByBroker
from tests.conformance.marks import differs
from tests.conformance.pika_steps import drain
from tests.filterserver.asked import judging

from leporid.testing import BrokerProcess

pytestmark = differs

EVEN = judging("return message.headers['n'] % 2 == 0")
SECONDS = 20


class Broker:
    """A broker of its own, with its HTTP side."""

    def __init__(self, process: BrokerProcess) -> None:
        self.process = process
        self.channel = self.connect()

    def connect(self) -> BlockingChannel:
        self.connection = pika.BlockingConnection(pika.URLParameters(self.process.url))
        channel = self.connection.channel()
        channel.confirm_delivery()
        return channel

    def http(self, method: str, name: str, **more: Any) -> httpx.Response:
        url = f"http://127.0.0.1:{self.process.http_port}/api/filter-classes/{name}"
        return httpx.request(method, url, auth=("guest", "guest"), trust_env=False, **more)

    def register(self, name: str, source: bytes) -> None:
        answer = self.http("PUT", name, content=source)
        assert answer.status_code in (201, 204), answer.text

    def status(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = self.http("GET", name).json()
        return found

    def until(self, name: str, **expected: Any) -> dict[str, Any]:
        deadline = time.monotonic() + SECONDS
        while time.monotonic() < deadline:
            found = self.status(name)
            if expected.items() <= found.items():
                return found
            self.connection.sleep(0.02)
        raise AssertionError(f"never {expected}: {found}")

    def bound(self, queue: str, name: str) -> None:
        """A durable queue that gets what passes a class, of what is published to f."""
        self.channel.exchange_declare("f", "fanout", durable=True)
        self.channel.queue_declare(queue, durable=True)
        self.channel.queue_bind(queue, "f", "", {"x-filter-class": name})

    def send(self, *numbers: int) -> None:
        for number in numbers:
            properties = pika.BasicProperties(headers={"n": number}, delivery_mode=2)
            self.channel.basic_publish("f", "", b"%d" % number, properties, mandatory=True)


@pytest.fixture
def broker(own_broker: BrokerProcess) -> Iterator[Broker]:
    found = Broker(own_broker)
    yield found
    if found.connection.is_open:
        found.connection.close()


def evens(count: int) -> list[bytes]:
    return [b"%d" % number for number in range(0, count, 2)]


def test_a_queue_gets_what_passes_in_order(broker):
    broker.register("even", EVEN)
    broker.bound("q", "even")
    broker.send(*range(100))
    broker.until("even", judged=100, passed=50, waiting=0)
    assert drain(broker.channel, "q") == evens(100)


def test_an_unregistered_class_is_not_found(broker):
    with pytest.raises(ChannelClosedByBroker) as closed:
        broker.bound("q", "nobody")
    assert closed.value.reply_code == 404
    assert closed.value.reply_text == "NOT_FOUND - no filter class 'nobody' is registered"


def test_kill_9_of_the_filter_in_mid_stream_loses_and_reorders_nothing(broker):
    broker.register("even", EVEN)
    broker.bound("q", "even")
    for start in range(0, 600, 100):
        broker.send(*range(start, start + 100))
        pid = broker.status("even")["pid"]
        if pid:
            with suppress(ProcessLookupError):  # it is gone from the last time, and nobody asked
                os.kill(pid, 9)
    broker.until("even", waiting=0)
    assert drain(broker.channel, "q") == evens(600)
    assert broker.status("even")["failures"] > 0


def test_kill_9_of_the_broker_loses_and_reorders_nothing(broker):
    broker.register("even", EVEN)
    broker.bound("q", "even")
    broker.send(*range(200))
    broker.process.kill()
    with suppress(AMQPError):
        broker.connection.close()
    broker.process.start()
    broker.channel = broker.connect()
    broker.send(*range(200, 300))
    broker.until("even", waiting=0)
    assert drain(broker.channel, "q") == evens(300)


@pytest.mark.parametrize(
    "harm",
    [
        "import time; time.sleep(3600)",
        "while True: pass",
        "return len([b'x' * 10**7 for _ in range(10**6)]) > 0",
        "import os; os.abort()",
        "raise ValueError('no')",
        "return 'yes'",
    ],
)
def test_others_go_on_while_a_class_does_harm(broker, harm):
    broker.register("even", EVEN)
    broker.register("bad", judging(harm))
    broker.bound("q", "even")
    broker.bound("waits", "bad")
    broker.channel.queue_declare("plain")
    broker.channel.queue_bind("plain", "f")
    broker.send(*range(50))
    assert drain(broker.channel, "plain") == [b"%d" % number for number in range(50)]
    broker.until("even", judged=50, waiting=0)
    assert drain(broker.channel, "q") == evens(50)
    assert broker.status("bad")["waiting"] == 50
    # Nobody lost anything: a version that can answer has all of it.
    broker.register("bad", EVEN)
    broker.until("bad", waiting=0)
    assert drain(broker.channel, "waits") == evens(50)


def test_a_failure_is_told(broker):
    broker.register("bad", judging("return 1 / 0"))
    broker.bound("q", "bad")
    broker.send(1)
    found = broker.until("bad", state="waiting")
    assert "ZeroDivisionError" in found["error"]
    assert found["waiting"] == 1
