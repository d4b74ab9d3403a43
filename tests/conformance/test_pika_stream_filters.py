"""Consumers of streams with a filter: by tag, by SQL, and as RabbitMQ 3.13 has it.

RabbitMQ 3.13 takes `x-stream-filter` as a string or an array, and `x-stream-match-unfiltered`; it
drops whole chunks and leaves it to the client to drop the rest
(https://www.rabbitmq.com/docs/3.13/streams#filtering). Here the rest does not come.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import AMQPError
from tests.conformance.marks import differs
from tests.conformance.pika_steps import Inbox, channel_closed, pump, settle

from leporid.testing import BrokerProcess

# RabbitMQ 3.10 filters no streams.
pytestmark = differs

STREAM = {"x-queue-type": "stream"}
COLOURS = ("red", "green", "blue", None)


def fill(channel: BlockingChannel, queue: str, count: int, first: int = 0) -> None:
    """Messages whose header n counts them; every fourth of each colour, or of none."""
    channel.confirm_delivery()
    for number in range(first, first + count):
        colour = COLOURS[number % 4]
        headers: dict[str, Any] = {"n": number}
        if colour is not None:
            headers["x-stream-filter-value" if number % 8 < 4 else "x-tag"] = colour
        channel.basic_publish(
            "", queue, b"%d" % number, pika.BasicProperties(delivery_mode=2, headers=headers)
        )


@pytest.fixture
def stream(channel: BlockingChannel, name: Any) -> str:
    """A stream of forty messages."""
    queue: str = name("stream")
    channel.queue_declare(queue, durable=True, arguments=STREAM)
    fill(channel, queue, 40)
    return queue


@pytest.fixture
def reader(connect: Any) -> BlockingChannel:
    """A channel to read with, that has a prefetch count."""
    channel: BlockingChannel = connect().channel()
    channel.basic_qos(prefetch_count=50)
    return channel


def inbox(channel: BlockingChannel, stream: str, **arguments: Any) -> Inbox:
    given = {name.replace("_", "-"): value for name, value in arguments.items()}
    return Inbox(channel, stream, arguments={"x-stream-offset": "first"} | given)


def numbers(found: Inbox, channel: BlockingChannel, stream: str) -> list[int]:
    """What comes, up to a message that every filter here lets pass."""
    headers = {"n": 9, "x-stream-filter-value": "red", "x-tag": "red"}
    channel.basic_publish("", stream, b"end", pika.BasicProperties(headers=headers))
    pump(found.channel.connection, lambda: b"end" in found.bodies)
    return [int(body) for body in found.bodies[:-1]]


@pytest.mark.parametrize(
    ("arguments", "passes"),
    [
        ({"x_filter_tags": "red"}, lambda n: n % 4 == 0),
        ({"x_filter_tags": "red || green"}, lambda n: n % 4 in (0, 1)),
        ({"x_filter_tags": "*"}, lambda n: True),
        ({"x_filter_sql": "n BETWEEN 5 AND 12"}, lambda n: 5 <= n <= 12),
        ({"x_filter_sql": "TAGS = 'red'", "x_filter_dialect": "rocketmq"}, lambda n: n % 4 == 0),
        ({"x_filter_tags": "red", "x_filter_sql": "n < 20"}, lambda n: n % 4 == 0 and n < 20),
        ({"x_stream_filter": "red"}, lambda n: n % 8 == 0),
        ({"x_stream_filter": ["red", "green"]}, lambda n: n % 8 in (0, 1)),
        (
            {"x_stream_filter": "red", "x_stream_match_unfiltered": True},
            lambda n: n % 8 in (0, 3, 4, 5, 6, 7),
        ),
    ],
)
def test_what_passes_comes_in_order_with_its_offset(channel, reader, stream, arguments, passes):
    found = inbox(reader, stream, **arguments)
    expected = [number for number in range(40) if passes(number)]
    assert numbers(found, channel, stream) == expected
    offsets = [properties.headers["x-stream-offset"] for properties in found.properties]
    assert offsets == [*expected, 40]


def test_each_consumer_has_a_filter_of_its_own(channel, reader, stream):
    one = inbox(reader, stream, x_filter_tags="red")
    other = inbox(reader, stream, x_filter_sql="n >= 38")
    everything = inbox(reader, stream)
    everything.wait_for(40)
    assert one.wait_for(10) == [b"%d" % number for number in range(0, 40, 4)]
    assert other.wait_for(2) == [b"38", b"39"]


def test_credit_counts_what_was_delivered(channel, connect, stream):
    reader = connect().channel()
    reader.basic_qos(prefetch_count=2)
    found = inbox(reader, stream, x_filter_tags="red")
    assert found.wait_for(2) == [b"0", b"4"]
    settle(reader)
    assert len(found.bodies) == 2
    reader.basic_ack(found.deliveries[-1].delivery_tag, multiple=True)
    assert found.wait_for(4)[2:] == [b"8", b"12"]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"x-filter-sql": "n >"}, "invalid arg 'x-filter-sql': character 4: "),
        ({"x-filter-tags": "a || *"}, "invalid arg 'x-filter-tags': character 6: "),
        ({"x-filter-tag": "a"}, "invalid arg 'x-filter-tag': there is none of that name"),
        (
            {"x-filter-dialect": "rocketmq"},
            "invalid arg 'x-filter-dialect': there is no x-filter-sql beside it",
        ),
    ],
)
def test_what_is_wrong_is_said_at_once(reader, stream, arguments, text):
    with pytest.raises(pika.exceptions.ChannelClosedByBroker) as caught:
        reader.basic_consume(stream, lambda *_: None, arguments=arguments)
    assert caught.value.reply_code == 406
    assert caught.value.reply_text.startswith(f"PRECONDITION_FAILED - {text}")


def test_a_value_that_is_no_text(reader, stream):
    text = (
        f"PRECONDITION_FAILED - invalid arg 'x-stream-filter' for queue '{stream}' in vhost '/': "
        "{unacceptable_type,signedint}"
    )
    with channel_closed(406, text):
        reader.basic_consume(stream, lambda *_: None, arguments={"x-stream-filter": 5})


def test_a_named_reader_has_read_what_it_did_not_want(channel, reader, stream):
    arguments = {"x_reader": "me", "x_filter_sql": "n = 20"}
    found = inbox(reader, stream, **arguments)
    assert found.wait_for(1) == [b"20"]
    reader.basic_ack(found.deliveries[0].delivery_tag)
    settle(reader)
    reader.basic_cancel(found.tag)
    # Without a filter it goes on behind what it looked at.
    fill(channel, stream, 1, first=40)
    again = Inbox(reader, stream, arguments={"x-reader": "me"})
    assert again.wait_for(1) == [b"40"]


@pytest.mark.slow
def test_tags_are_known_again_after_a_restart(own_broker: BrokerProcess):
    arguments = {"x-stream-offset": "first", "x-filter-tags": "rare"}
    for restart in (False, True):
        if restart:
            own_broker.kill()
            own_broker.start()
        connection = pika.BlockingConnection(pika.URLParameters(own_broker.url))
        channel = connection.channel()
        if not restart:
            channel.queue_declare("s", durable=True, arguments=STREAM)
            fill(channel, "s", 600)
            headers = {"x-tag": "rare"}
            channel.basic_publish("", "s", b"!", pika.BasicProperties(headers=headers))
        channel.basic_qos(prefetch_count=5)
        assert Inbox(channel, "s", arguments=arguments).wait_for(1) == [b"!"]
        with suppress(AMQPError):
            connection.close()
