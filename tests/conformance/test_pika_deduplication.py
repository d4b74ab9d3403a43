"""Deduplication as the community's plugin has it, through restarts as it has not."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel
from tests.conformance.marks import differs
from tests.conformance.pika_steps import channel_closed, drain

from leporid.testing import BrokerProcess

# RabbitMQ has this with a plugin of the community only.
pytestmark = differs

HEADER = "x-deduplication-header"
ONCE = {"x-message-deduplication": True}


def send(channel: BlockingChannel, to: str, key: Any, body: bytes, exchange: str = "") -> None:
    headers = {} if key is None else {HEADER: key}
    channel.basic_publish(
        exchange, to, body, pika.BasicProperties(delivery_mode=2, headers=headers), mandatory=True
    )


@pytest.fixture
def jobs(channel: BlockingChannel, name: Any) -> str:
    queue: str = name()
    channel.queue_declare(queue, durable=True, arguments=ONCE)
    channel.confirm_delivery()
    return queue


@pytest.mark.parametrize("key", ["a", "", 5, 2**40, -1, True, None, Decimal("1.5"), [1], {"a": 1}])
def test_a_message_is_there_once_whatever_the_type_of_its_header(
    channel: BlockingChannel, jobs: str, key: Any
):
    for body in (b"1", b"2"):
        channel.basic_publish("", jobs, body, pika.BasicProperties(headers={HEADER: key}))
    assert drain(channel, jobs) == [b"1"]
    send(channel, jobs, key if key is not None else "n", b"3")
    assert drain(channel, jobs) == [b"3"]


def test_without_the_header_everything_is_there(channel: BlockingChannel, jobs: str):
    for body in (b"1", b"2"):
        send(channel, jobs, None, body)
    assert drain(channel, jobs) == [b"1", b"2"]


def test_unacknowledged_is_still_in_the_queue(channel: BlockingChannel, jobs: str):
    send(channel, jobs, "a", b"1")
    method, _, _ = channel.basic_get(jobs)
    send(channel, jobs, "a", b"2")
    channel.basic_nack(method.delivery_tag)
    send(channel, jobs, "a", b"3")
    method, _, body = channel.basic_get(jobs)
    assert body == b"1"
    channel.basic_ack(method.delivery_tag)
    send(channel, jobs, "a", b"4")
    assert drain(channel, jobs) == [b"4"]


def test_the_argument_is_true_or_false_and_compared(channel: BlockingChannel, name: Any):
    queue = name()
    channel.queue_declare(queue, arguments={"x-message-deduplication": False})
    for body in (b"1", b"2"):
        send(channel, queue, "a", body)
    assert drain(channel, queue) == [b"1", b"2"]
    with channel_closed(
        406,
        f"PRECONDITION_FAILED - inequivalent arg 'x-message-deduplication' for queue '{queue}' in "
        "vhost '/': received 'true' but current is 'false'",
    ):
        channel.queue_declare(queue, arguments=ONCE)


@pytest.mark.slow
def test_a_crash_forgets_no_message_and_no_header(own_broker: BrokerProcess):
    with pika.BlockingConnection(pika.URLParameters(own_broker.url)) as connection:
        channel = connection.channel()
        channel.queue_declare("jobs", durable=True, arguments=ONCE)
        channel.confirm_delivery()
        for number in range(50):
            send(channel, "jobs", f"k{number}", b"first %d" % number)
        channel.basic_qos(prefetch_count=10)
        for _ in range(10):
            method, _, _ = channel.basic_get("jobs")
            channel.basic_ack(method.delivery_tag)
        send(channel, "jobs", "last", b"last")  # after its confirm the acks are on disk, too
    own_broker.kill()
    own_broker.start()
    with pika.BlockingConnection(pika.URLParameters(own_broker.url)) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        for number in range(50):
            send(channel, "jobs", f"k{number}", b"second %d" % number)
        assert drain(channel, "jobs") == [
            *(b"first %d" % number for number in range(10, 50)),
            b"last",
            *(b"second %d" % number for number in range(10)),
        ]
