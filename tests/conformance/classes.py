"""A broker with filter classes, and its HTTP side."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pika
from pika.adapters.blocking_connection import BlockingChannel
from tests.filterserver.asked import judging

from leporid.testing import BrokerProcess

GUEST_REGISTERS = "filter_server.allow_guest = true\n"
"""Of the configuration: the tests have no other administrator."""

EVEN = judging("return message.headers['n'] % 2 == 0")
SECONDS = 20


def evens(count: int) -> list[bytes]:
    return [b"%d" % number for number in range(0, count, 2)]


class Broker:
    """A broker that no other test uses at this time, with its HTTP side."""

    def __init__(self, process: BrokerProcess) -> None:
        self.process = process
        self.channel = self.connect()

    def connect(self) -> BlockingChannel:
        self.connection = pika.BlockingConnection(pika.URLParameters(self.process.url))
        channel = self.connection.channel()
        channel.confirm_delivery()
        return channel

    def http(self, method: str, name: str = "", **more: Any) -> httpx.Response:
        url = f"http://127.0.0.1:{self.process.http_port}/api/filter-classes/{name}".rstrip("/")
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

    def send(self, *numbers: int, exchange: str = "f", key: str = "") -> None:
        for number in numbers:
            properties = pika.BasicProperties(headers={"n": number}, delivery_mode=2)
            self.channel.basic_publish(exchange, key, b"%d" % number, properties, mandatory=True)


@contextmanager
def lent(process: BrokerProcess, *queues: str) -> Iterator[Broker]:
    """A broker that other tests use before and after; these queues and all classes are deleted."""
    broker = Broker(process)
    yield broker
    if broker.connection.is_open:
        broker.connection.close()
    channel = broker.connect()
    for queue in queues:
        channel.queue_delete(queue)
    broker.connection.close()
    for filter_class in broker.http("GET").json():
        answer = broker.http("DELETE", filter_class["name"])
        assert answer.status_code == 204, answer.text
