"""Deduplication as the community's plugin has it, through restarts as it has not."""

from __future__ import annotations

import threading
from contextlib import suppress
from decimal import Decimal
from typing import Any

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import AMQPError, UnroutableError
from tests.conformance.marks import differs
from tests.conformance.pika_steps import channel_closed, drain, pump

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


# ------------------------------------------------------------------ exchanges


@pytest.fixture
def once(channel: BlockingChannel, name: Any) -> tuple[str, str]:
    """An exchange that remembers, and a queue behind it."""
    exchange, queue = name(), name()
    channel.exchange_declare(exchange, "x-message-deduplication", arguments={"x-cache-size": 3})
    channel.queue_declare(queue)
    channel.queue_bind(queue, exchange)
    channel.confirm_delivery()
    return exchange, queue


def test_what_came_before_does_not_come_again(channel: BlockingChannel, once: tuple[str, str]):
    exchange, queue = once
    for key in ("a", "a", 5, 5, None, None):
        send(channel, "any key", key, repr(key).encode(), exchange)
    assert drain(channel, queue) == [b"'a'", b"5", b"None", b"None"]
    send(channel, "", "a", b"gone from the queue, but known", exchange)
    assert drain(channel, queue) == []


def test_the_oldest_is_forgotten_first(channel: BlockingChannel, once: tuple[str, str]):
    exchange, queue = once
    for key in ("a", "b", "c", "d", "b", "a"):
        send(channel, "", key, key.encode(), exchange)
    assert drain(channel, queue) == [b"a", b"b", b"c", b"d", b"a"]


def test_a_message_may_say_for_how_long_it_is_remembered(
    channel: BlockingChannel, once: tuple[str, str]
):
    exchange, queue = once
    properties = pika.BasicProperties(headers={HEADER: "a", "x-cache-ttl": 200})
    channel.basic_publish(exchange, "", b"1", properties)
    channel.basic_publish(exchange, "", b"2", properties)
    again = threading.Event()
    channel.connection.call_later(0.4, again.set)
    pump(channel.connection, again.is_set)
    channel.basic_publish(exchange, "", b"3", properties)
    assert drain(channel, queue) == [b"1", b"3"]


def test_through_other_exchanges_and_to_the_alternate_one(
    channel: BlockingChannel, once: tuple[str, str], name: Any
):
    exchange, queue = once
    above, other = name(), name()
    channel.exchange_declare(above, "topic", arguments={"alternate-exchange": exchange})
    channel.queue_declare(other)
    channel.exchange_bind(exchange, above, "order.#")
    channel.queue_bind(other, above, "order.new")
    send(channel, "order.new", "a", b"1", above)
    send(channel, "order.new", "a", b"2", above)
    send(channel, "nothing for this key", "a", b"3", above)
    send(channel, "nothing for this key", "b", b"4", above)
    send(channel, "", "b", b"5", exchange)
    assert drain(channel, other) == [b"1", b"2"]
    assert drain(channel, queue) == [b"1", b"4"]


def test_duplicates_go_to_the_alternate_exchange(channel: BlockingChannel, name: Any):
    exchange, alternate, queue, duplicates = name(), name(), name(), name()
    channel.exchange_declare(alternate, "fanout")
    channel.exchange_declare(
        exchange,
        "x-message-deduplication",
        arguments={"x-cache-size": 3, "alternate-exchange": alternate},
    )
    for one, source in ((queue, exchange), (duplicates, alternate)):
        channel.queue_declare(one)
        channel.queue_bind(one, source)
    for body in (b"1", b"2"):
        send(channel, "", "a", body, exchange)
    assert (drain(channel, queue), drain(channel, duplicates)) == ([b"1"], [b"2"])


def test_what_nobody_takes_may_come_again(channel: BlockingChannel, once: tuple[str, str]):
    exchange, queue = once
    channel.queue_unbind(queue, exchange)
    with pytest.raises(UnroutableError):
        send(channel, "", "a", b"1", exchange)
    channel.queue_bind(queue, exchange)
    send(channel, "", "a", b"2", exchange)
    assert drain(channel, queue) == [b"2"]


def test_a_transaction_is_compared_when_it_is_committed(
    connection: Any, channel: BlockingChannel, once: tuple[str, str]
):
    exchange, queue = once
    tx = connection.channel()
    tx.tx_select()
    for body in (b"1", b"2"):
        send(tx, "", "a", body, exchange)
    send(tx, "", "b", b"3", exchange)
    send(channel, "", "b", b"first", exchange)
    tx.tx_commit()
    assert drain(channel, queue) == [b"first", b"1"]


def test_a_size_is_needed(channel: BlockingChannel, name: Any):
    with channel_closed(
        406,
        "PRECONDITION_FAILED - Missing or invalid argument, 'x-cache-size' must be an integer "
        "greater than 0",
    ):
        channel.exchange_declare(name(), "x-message-deduplication")


# ------------------------------------------------------------------ crashes


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


@pytest.mark.slow
def test_a_crash_under_load_loses_no_message_and_lets_none_come_twice(own_broker: BrokerProcess):
    """A publisher that tries again whatever was not confirmed, through three times kill -9."""
    number, confirmed = 0, 0
    for round_ in range(4):
        killer = threading.Timer(0.3, own_broker.kill) if round_ < 3 else None
        with (
            suppress(AMQPError),
            pika.BlockingConnection(pika.URLParameters(own_broker.url)) as connection,
        ):
            channel = connection.channel()
            channel.exchange_declare(
                "once", "x-message-deduplication", durable=True, arguments={"x-cache-size": 100_000}
            )
            channel.queue_declare("all", durable=True)
            channel.queue_bind("all", "once")
            channel.confirm_delivery()
            number = max(0, confirmed - 200)  # much of it again: the first attempt is forgotten
            until = confirmed + 500
            if killer is not None:
                killer.start()
            while killer is not None or number < until:
                send(channel, "", f"k{number}", b"%d" % number, "once")
                number += 1
                confirmed = max(confirmed, number)
        if killer is not None:
            killer.join()
            own_broker.start()
    with pika.BlockingConnection(pika.URLParameters(own_broker.url)) as connection:
        bodies = [int(body) for body in drain(connection.channel(), "all")]
    assert len(bodies) == len(set(bodies))
    assert set(range(confirmed)) <= set(bodies)
