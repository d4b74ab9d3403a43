"""kill -9 of the broker and of a filter's process, under load: what is confirmed is judged once."""

import contextlib
import os
import random
import signal
import time

import httpx
import pika
import pytest
from pika.exceptions import AMQPError
from tests.crash.conftest import foreign
from tests.crash.load import Consumer, Publisher, drain, number_of

from leporid.testing import BrokerProcess

pytestmark = pytest.mark.skipif(foreign, reason="another broker has no filter classes")

KILLS = 8
CONFIRMS_BETWEEN_KILLS = (300, 2500)
SECONDS = 60
ODD = """
import os, random
class Filter:
    def match(self, message):
        if random.random() < 0.0001:
            os._exit(3)
        if random.random() < 0.0001:
            os.fork()
        return int(message.body[:8]) % 2 == 1
"""


def client(broker: BrokerProcess) -> httpx.Client:
    url = f"http://127.0.0.1:{broker.http_port}/api"
    return httpx.Client(base_url=url, auth=("guest", "guest"), timeout=SECONDS)


def declare(broker: BrokerProcess) -> None:
    """An exchange with four ways through the class: queues, a stream, another exchange."""
    odd = {"x-filter-class": "odd"}
    with client(broker) as api:
        api.put("/filter-classes/odd", content=ODD).raise_for_status()
    with pika.BlockingConnection(pika.URLParameters(broker.url)) as connection:
        channel = connection.channel()
        for exchange in ("both", "beyond"):
            channel.exchange_declare(exchange, "fanout", durable=True)
        for queue in ("all", "kept", "worked", "through"):
            channel.queue_declare(queue, durable=True)
        channel.queue_declare("stream", durable=True, arguments={"x-queue-type": "stream"})
        channel.queue_bind("all", "both")
        for queue in ("kept", "worked", "stream"):
            channel.queue_bind(queue, "both", arguments=odd)
        channel.exchange_bind("beyond", "both", arguments=odd)
        channel.queue_bind("through", "beyond")


def kill_filter(broker: BrokerProcess) -> None:
    """End or stop the process of the class, wherever it is."""
    with client(broker) as api:
        pid = api.get("/filter-classes/odd").json()["pid"]
    with contextlib.suppress(ProcessLookupError):  # it ended by itself, and nobody has asked
        if pid:
            os.kill(pid, random.choice([signal.SIGKILL, signal.SIGSTOP]))


def wait_until_judged(broker: BrokerProcess) -> None:
    deadline = time.monotonic() + 2 * SECONDS
    with client(broker) as api:
        while api.get("/filter-classes/odd").json()["waiting"]:
            assert time.monotonic() < deadline
            time.sleep(0.05)


def missing_in(broker: BrokerProcess, stream: str, wanted: list[int]) -> set[int]:
    """Which messages are not in a stream; it must have no others."""
    missing, there = set(wanted), set(wanted)
    connection = pika.BlockingConnection(pika.URLParameters(broker.url))
    channel = connection.channel()
    channel.basic_qos(prefetch_count=500)
    begin = {"x-stream-offset": "first"}
    for method, _, body in channel.consume(stream, arguments=begin, inactivity_timeout=SECONDS):
        if method is None:
            break
        assert number_of(body) in there
        missing.discard(number_of(body))
        if not missing:
            break
        channel.basic_ack(method.delivery_tag)
    # It gives back what it has not shown, which streams refuse.
    with contextlib.suppress(AMQPError):
        connection.close()
    return missing


@pytest.mark.timeout(400)
def test_kills_neither_lose_nor_double_what_a_class_lets_pass(broker):
    choose = random.Random(5)
    declare(broker)
    confirmed: set[int] = set()
    worked: list[int] = []
    next_number = 0
    for _ in range(KILLS):
        publisher = Publisher(
            broker.url, "both", next_number, choose.randint(*CONFIRMS_BETWEEN_KILLS)
        )
        consumer = Consumer(broker.url, "worked")
        publisher.start()
        consumer.start()
        kill_filter(broker)
        on_time = publisher.on_target.wait(SECONDS)
        broker.kill()
        publisher.join(SECONDS)
        consumer.join(SECONDS)
        assert on_time, f"{len(publisher.confirmed)} confirms after {SECONDS} s"
        confirmed |= publisher.confirmed
        worked += consumer.numbers
        next_number = publisher.next_number
        broker.start()
    wait_until_judged(broker)
    everything = [number_of(body) for body in drain(broker.url, "all")]
    odd = [number for number in everything if number % 2]
    assert confirmed <= set(everything)
    for queue in ("kept", "through"):
        assert [number_of(body) for body in drain(broker.url, queue)] == odd
    worked += [number_of(body) for body in drain(broker.url, "worked")]
    assert set(worked) == set(odd)
    # A stream has a log of its own: what passed in the moment of a crash may be there twice.
    assert missing_in(broker, "stream", odd) == set()
    assert broker.stop() == 0, broker.log_tail()
