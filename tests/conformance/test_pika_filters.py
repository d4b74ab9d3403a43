"""Filters wherever they stand: bindings, consumers of queues and of streams choose alike.

RabbitMQ keeps these arguments of a consumer of a queue, and takes no notice of them.
"""

from __future__ import annotations

from contextlib import suppress
from random import Random
from typing import Any

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import AMQPError, ChannelClosedByBroker
from tests.conformance.marks import differs
from tests.conformance.pika_steps import Inbox, depth, drain, pump, settle

from leporid.testing import BrokerProcess

pytestmark = differs

ORIGINS = ("JFK", "LGA", "EWR", None)
# Each lets the last message pass, by which a test knows that no other comes.
FILTERS: list[dict[str, Any]] = [
    {"x-filter-tags": "late || last"},
    {"x-filter-tags": "*"},
    {"x-filter-sql": "dep_delay > 60 AND origin = 'JFK' OR last = TRUE"},
    {"x-filter-sql": "dep_delay BETWEEN -5 AND 5 OR origin IN ('LGA', 'EWR') OR last"},
    {"x-filter-sql": "origin IS NULL OR origin LIKE '_F%' OR last"},
    {"x-filter-sql": "p.priority > 5 AND NOT (dep_delay < 100) OR last"},
    {"x-filter-sql": "TAGS = 'late' OR TAGS = 'last'", "x-filter-dialect": "rocketmq"},
    {"x-filter-sql": "dep_delay > 30 OR last", "x-filter-dialect": "rocketmq"},
    {"x-filter-sql": "carrier / 2 * 2 = carrier OR last", "x-filter-tags": "late || last"},
]


def flights(count: int) -> list[tuple[bytes, pika.BasicProperties]]:
    """Messages of all kinds, some of which have a header of a wrong type, or none."""
    random = Random(5)
    found = []
    for number in range(count):
        headers: dict[str, Any] = {"dep_delay": random.choice([random.randrange(-9, 200), "none"])}
        origin = random.choice(ORIGINS)
        if origin is not None:
            headers["origin"] = origin
        if random.random() < 0.7:
            headers["x-tag"] = random.choice(["late", "early", "on time"])
        if random.random() < 0.8:
            headers["carrier"] = random.randrange(20)
        priority = random.choice([None, 0, 6, 9])
        properties = pika.BasicProperties(delivery_mode=2, headers=headers, priority=priority)
        found.append((b"%d" % number, properties))
    last = {"last": True, "x-tag": "last", "carrier": 0}
    found.append((b"last", pika.BasicProperties(delivery_mode=2, headers=last)))
    return found


def flight(channel: BlockingChannel, queue: str, origin: str, text: bytes) -> None:
    channel.basic_publish("", queue, text, pika.BasicProperties(headers={"origin": origin}))


def consume(channel: BlockingChannel, queue: str, sql: str, **options: Any) -> Inbox:
    return Inbox(channel, queue, arguments={"x-filter-sql": sql}, **options)


@pytest.mark.parametrize("arguments", FILTERS, ids=lambda each: " ".join(each.values()))
def test_wherever_a_filter_stands_the_same_messages_come(channel, connect, name, arguments):
    exchange, queue, stream, bound = (
        name("exchange"),
        name("queue"),
        name("stream"),
        name("bound"),
    )
    channel.exchange_declare(exchange, "fanout")
    channel.queue_declare(queue, durable=True)
    channel.queue_declare(stream, durable=True, arguments={"x-queue-type": "stream"})
    for each in (queue, stream):
        channel.queue_bind(each, exchange)
    channel.queue_declare(bound)
    channel.queue_bind(bound, exchange, arguments=arguments)
    channel.confirm_delivery()
    sent = flights(300)
    for body, properties in sent:
        channel.basic_publish(exchange, "", body, properties)
    reader = connect().channel()
    reader.basic_qos(prefetch_count=1000)
    inboxes = [
        Inbox(reader, queue, arguments=arguments),
        Inbox(reader, stream, arguments={"x-stream-offset": "first"} | arguments),
    ]
    pump(reader.connection, lambda: all(b"last" in each.bodies for each in inboxes))
    from_queue, from_stream = (each.bodies for each in inboxes)
    assert from_queue == from_stream
    assert drain(channel, bound) == from_queue
    assert 1 < len(from_queue) <= len(sent)
    # What did not match is there, and is all that is there.
    kept = set(drain(channel, queue))
    assert kept.isdisjoint(from_queue)
    assert kept.union(from_queue) == {body for body, _ in sent}


def test_what_nobody_wants_stays_for_others(channel, connect, name):
    queue = name("queue")
    channel.queue_declare(queue)
    for number in range(30):
        flight(channel, queue, ("JFK", "LGA", "EWR")[number % 3], b"%d" % number)
    reader = connect().channel()
    jfk = consume(reader, queue, "origin = 'JFK'", auto_ack=True)
    lga = consume(reader, queue, "origin = 'LGA'", auto_ack=True)
    assert jfk.wait_for(10) == [b"%d" % number for number in range(0, 30, 3)]
    assert lga.wait_for(10) == [b"%d" % number for number in range(1, 30, 3)]
    assert drain(channel, queue) == [b"%d" % number for number in range(2, 30, 3)]


def test_what_one_gives_back_goes_to_another_that_wants_it(channel, connect, name):
    queue = name("queue")
    channel.queue_declare(queue)
    first, second = connect().channel(), connect().channel()
    one = consume(first, queue, "origin = 'JFK'")
    flight(channel, queue, "LGA", b"lga")
    flight(channel, queue, "JFK", b"jfk")
    assert one.wait_for(1) == [b"jfk"]
    other = consume(second, queue, "origin <> 'LGA'")
    settle(second)
    assert other.bodies == []
    first.connection.close()
    assert other.wait_for(1) == [b"jfk"]
    assert other.deliveries[0].redelivered
    assert depth(channel, queue) == 1


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        ({"x-filter-sql": "origin = = 'JFK'"}, 406, "invalid arg 'x-filter-sql': character 10: "),
        ({"x-filter-sql": 5}, 406, "invalid arg 'x-filter-sql': it must be a string"),
        ({"x-filter-dialect": "jms"}, 406, "there is no x-filter-sql beside it"),
        ({"x-filter-tag": "late"}, 406, "invalid arg 'x-filter-tag': there is none of that name"),
    ],
)
def test_what_is_no_filter_closes_the_channel(channel, connect, name, arguments, code, text):
    queue = name("queue")
    channel.queue_declare(queue)
    reader = connect().channel()
    with pytest.raises(ChannelClosedByBroker) as caught:
        Inbox(reader, queue, arguments=arguments)
    assert caught.value.reply_code == code
    assert text in caught.value.reply_text
    assert channel.queue_declare(queue, passive=True).method.consumer_count == 0


def test_on_a_quorum_queue(channel, connect, name):
    queue = name("queue")
    channel.queue_declare(queue, durable=True, arguments={"x-queue-type": "quorum"})
    flight(channel, queue, "LGA", b"lga")
    flight(channel, queue, "JFK", b"jfk")
    inbox = consume(connect().channel(), queue, "origin = 'JFK'")
    assert inbox.wait_for(1) == [b"jfk"]


def open_to(broker: BrokerProcess) -> pika.BlockingConnection:
    return pika.BlockingConnection(pika.URLParameters(broker.url))


def test_a_durable_queue_is_filtered_after_a_restart(own_broker: BrokerProcess):
    channel = open_to(own_broker).channel()
    channel.confirm_delivery()
    channel.queue_declare("q", durable=True)
    for number in range(20):
        headers = {"g": number % 2}
        channel.basic_publish(
            "", "q", b"%d" % number, pika.BasicProperties(delivery_mode=2, headers=headers)
        )
    held = consume(channel, "q", "g = 1")
    assert len(held.wait_for(10)) == 10
    own_broker.kill()
    with suppress(AMQPError):
        channel.connection.close()
    own_broker.start()
    connection = open_to(own_broker)
    channel = connection.channel()
    again = consume(channel, "q", "g = 1")
    assert again.wait_for(10) == held.bodies
    assert depth(channel, "q") == 10
    connection.close()
