"""Streams as pika sees them, first written against RabbitMQ 3.10.8."""

import time
from contextlib import suppress
from datetime import UTC, datetime, timedelta

import httpx
import pika
import pytest
from pika import BasicProperties
from pika.exceptions import AMQPError, ConnectionClosedByBroker
from tests.conformance.marks import differs
from tests.conformance.pika_steps import (
    Inbox,
    channel_closed,
    connection_closed,
    depth,
    publish_all,
    pump,
    settle,
)

from leporid.testing import BrokerProcess

STREAM = {"x-queue-type": "stream"}


@pytest.fixture
def stream(channel, name):
    """A stream of five messages."""
    queue = name("stream")
    channel.queue_declare(queue, durable=True, arguments=STREAM)
    publish_all(channel, queue, [b"m%d" % number for number in range(5)])
    return queue


@pytest.fixture
def reader(connect):
    """A channel to read with, that has a prefetch count."""
    channel = connect().channel()
    channel.basic_qos(prefetch_count=50)
    return channel


def inbox(channel, stream, offset=None, **arguments):
    if offset is not None:
        arguments["x-stream-offset"] = offset
    return Inbox(channel, stream, arguments=arguments)


def title(queue):
    return f"queue '{queue}' in vhost '/'"


# ---------------------------------------------------------------------- reading


@pytest.mark.parametrize("offset", ["first", 0, -1, "1h", datetime.fromtimestamp(0, UTC)])
def test_every_reader_gets_everything_from_the_beginning(reader, stream, offset):
    for _ in range(2):
        found = inbox(reader, stream, offset)
        assert found.wait_for(5) == [b"m0", b"m1", b"m2", b"m3", b"m4"]
        assert not any(delivery.redelivered for delivery in found.deliveries)


def test_each_delivery_says_its_offset(reader, stream):
    found = inbox(reader, stream, 2)
    assert found.wait_for(3) == [b"m2", b"m3", b"m4"]
    offsets = [properties.headers["x-stream-offset"] for properties in found.properties]
    assert offsets == [2, 3, 4]
    # As a 64-bit number.
    assert {type(offset).__name__ for offset in offsets} == {"long"}


@pytest.mark.parametrize("offset", [None, "next", 5, "future"])
def test_what_comes_next(channel, reader, stream, offset):
    if offset == "future":
        offset = datetime.now(UTC) + timedelta(days=1)
    found = inbox(reader, stream, offset)
    settle(reader)
    channel.basic_publish("", stream, b"new")
    assert found.wait_for(1) == [b"new"]


def test_the_last_message_is_in_what_last_gives(reader, stream):
    found = inbox(reader, stream, "last")
    pump(reader.connection, lambda: b"m4" in found.bodies)


def test_an_offset_that_is_not_there_yet_is_waited_for(channel, reader, stream):
    found = inbox(reader, stream, 7)
    settle(reader)
    publish_all(channel, stream, [b"m5", b"m6", b"m7"])
    assert found.wait_for(1) == [b"m7"]


@pytest.mark.slow
def test_a_time_begins_with_what_came_then_or_later(channel, reader, stream):
    # Timestamps are whole seconds.
    second = datetime.fromtimestamp(int(time.time()) + 1, UTC)
    pump(channel.connection, lambda: datetime.now(UTC) > second)
    channel.basic_publish("", stream, b"later")
    assert inbox(reader, stream, second).wait_for(1) == [b"later"]


def test_acks_are_credit(reader, stream):
    reader.basic_qos(prefetch_count=2)
    found = inbox(reader, stream, "first")
    found.wait_for(2)
    settle(reader)
    assert len(found.bodies) == 2
    reader.basic_ack(found.deliveries[1].delivery_tag, multiple=True)
    assert found.wait_for(4) == [b"m0", b"m1", b"m2", b"m3"]


def test_properties_stay_and_the_offset_joins_the_headers(channel, reader, name):
    queue = name("stream")
    channel.queue_declare(queue, durable=True, arguments=STREAM)
    channel.basic_publish(
        "",
        queue,
        b"a",
        BasicProperties(
            content_type="t",
            headers={"x-stream-offset": "mine", "k": 1},
            delivery_mode=1,
            priority=9,
            expiration="1",
            message_id="i",
            timestamp=1234,
        ),
    )
    channel.basic_publish("", queue, b"b")
    found = inbox(reader, queue, "first")
    # What has a time to live is there for good, too.
    assert found.wait_for(2) == [b"a", b"b"]
    first, second = found.properties
    assert first.headers == {"k": 1, "x-stream-offset": 0}
    assert (first.content_type, first.expiration, first.priority) == ("t", "1", 9)
    assert (first.message_id, first.timestamp) == ("i", 1234)
    assert second.headers == {"x-stream-offset": 1}


def test_queues_beside_a_stream_get_the_same(channel, reader, stream, name):
    classic, key = name("classic"), name("key")
    channel.queue_declare(classic)
    for queue in (stream, classic):
        channel.queue_bind(queue, "amq.topic", f"{key}.#")
    channel.basic_publish("amq.topic", f"{key}.x", b"both", mandatory=True)
    method, _, body = channel.basic_get(classic, auto_ack=True)
    assert (method.routing_key, body) == (f"{key}.x", b"both")
    found = inbox(reader, stream, 5)
    assert found.wait_for(1) == [b"both"]
    assert found.deliveries[0].routing_key == f"{key}.x"
    channel.queue_unbind(stream, "amq.topic", f"{key}.#")


def test_transactions(connect, reader, stream):
    publisher = connect().channel()
    publisher.tx_select()
    publisher.basic_publish("", stream, b"undone")
    publisher.tx_rollback()
    publish_all(publisher, stream, [b"t1", b"t2"])
    publisher.tx_commit()
    assert inbox(reader, stream, 5).wait_for(2) == [b"t1", b"t2"]


def test_a_reader_is_told_when_its_stream_goes(channel, reader, stream):
    cancelled = []
    reader.add_on_cancel_callback(lambda frame: cancelled.append(frame.method.consumer_tag))
    found = inbox(reader, stream, "first")
    found.wait_for(5)
    channel.queue_delete(stream)
    pump(reader.connection, lambda: bool(cancelled))
    assert cancelled == [found.tag]


# ---------------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("call", "what"),
    [
        (lambda channel, queue: channel.basic_get(queue), "basic.get"),
        (lambda channel, queue: channel.queue_purge(queue), "queue.purge"),
        (
            lambda channel, queue: channel.basic_consume(queue, print, auto_ack=True),
            "automatic acknowledgement",
        ),
    ],
    ids=["get", "purge", "no_ack"],
)
def test_what_a_stream_cannot_do_closes_the_connection(reader, stream, call, what):
    text = f"NOT_IMPLEMENTED - {what} not supported by stream queues {title(stream)}"
    with connection_closed(540, text):
        call(reader, stream)


@differs
@pytest.mark.parametrize("requeue", [True, False])
@pytest.mark.parametrize("method", ["basic_nack", "basic_reject"])
def test_what_is_refused_gives_credit(connect, stream, method, requeue):
    """RabbitMQ 4 does the same; 3 closes the connection with 540."""
    reader = connect().channel()
    reader.basic_qos(prefetch_count=1)
    found = Inbox(reader, stream, arguments={"x-stream-offset": "first"})
    for count in (1, 2, 3):
        assert found.wait_for(count) == [b"m0", b"m1", b"m2"][:count]
        getattr(reader, method)(found.deliveries[-1].delivery_tag, requeue=requeue)


def test_reading_needs_a_prefetch_count(channel, stream):
    with channel_closed(
        406, f"PRECONDITION_FAILED - consumer prefetch count is not set for '{title(stream)}'"
    ):
        channel.basic_consume(stream, print)


def test_a_prefetch_count_for_the_channel_is_refused(reader, stream):
    reader.basic_qos(prefetch_count=2, global_qos=True)
    reader.basic_qos(prefetch_count=2)
    inbox(reader, stream, "first").wait_for(2)
    reader.basic_qos(prefetch_count=2, global_qos=True)
    with connection_closed(540, f"NOT_IMPLEMENTED - {title(stream)} does not support global qos"):
        reader.basic_consume(stream, print)


@pytest.mark.parametrize("text", ["5", "1x", "7d"])
def test_an_offset_must_make_sense(reader, stream, text):
    with channel_closed(
        406,
        f"PRECONDITION_FAILED - invalid arg 'x-stream-offset' for {title(stream)}: "
        f'{{invalid_stream_offset_arg,{{longstr,<<"{text}">>}}}}',
    ):
        inbox(reader, stream, text)


@pytest.mark.parametrize(
    ("flags", "arguments", "text"),
    [
        ({"durable": False}, {}, "invalid property 'non-durable' for {}"),
        ({"exclusive": True}, {}, "invalid property 'exclusive-owner' for {}"),
        ({"auto_delete": True}, {}, "invalid property 'auto-delete' for {}"),
        ({}, {"x-max-age": "7d"}, "invalid arg 'x-max-age' for {}: invalid_max_age"),
        (
            {},
            {"x-max-age": 7},
            "invalid arg 'x-max-age' for {}: {{unacceptable_type,signedint}}",
        ),
        (
            {},
            {"x-message-ttl": 1},
            "invalid arg 'x-message-ttl' for {} of queue type rabbit_stream_queue",
        ),
        (
            {},
            {"x-stream-max-segment-size-bytes": 3_000_000_001},
            "Exceeded max value for x-stream-max-segment-size-bytes",
        ),
    ],
)
def test_declarations_that_are_refused(channel, name, flags, arguments, text):
    queue = name("stream")
    with channel_closed(406, "PRECONDITION_FAILED - " + text.format(title(queue))):
        channel.queue_declare(queue, **({"durable": True} | flags), arguments=STREAM | arguments)


def test_declared_again(channel, name):
    queue = name("stream")
    arguments = STREAM | {
        "x-max-age": "7D",
        "x-max-length-bytes": 1 << 30,
        "x-stream-max-segment-size-bytes": 1 << 20,
        "x-initial-cluster-size": 1,
        "x-queue-leader-locator": "client-local",
    }
    for _ in range(2):
        channel.queue_declare(queue, durable=True, arguments=arguments)
    with channel_closed(
        406,
        f"PRECONDITION_FAILED - inequivalent arg 'x-max-age' for {title(queue)}: "
        "received '168h' but current is '7D'",
    ):
        channel.queue_declare(queue, durable=True, arguments=arguments | {"x-max-age": "168h"})


# ---------------------------------------------------------------------- what RabbitMQ does not do


@differs
@pytest.mark.parametrize("value", ["First", "", "-1h", True])
def test_offsets_that_are_nonsense_close_only_the_channel(reader, stream, value):
    """RabbitMQ: 541 INTERNAL_ERROR, which closes the connection."""
    with pytest.raises(pika.exceptions.ChannelClosedByBroker, match="invalid_stream_offset_arg"):
        inbox(reader, stream, value)


@differs
def test_recover_is_not_implemented(reader, stream):
    """RabbitMQ: 541 INTERNAL_ERROR."""
    inbox(reader, stream, "first").wait_for(1)
    with pytest.raises(ConnectionClosedByBroker, match=r"basic\.recover not supported by stream"):
        reader.basic_recover(requeue=True)


@differs
def test_the_counts_are_true(channel, reader, stream):
    """RabbitMQ: of messages what there was some seconds ago, of consumers none ever."""
    inbox(reader, stream, "first")
    found = channel.queue_declare(stream, passive=True).method
    assert (found.message_count, found.consumer_count) == (5, 1)


@differs
def test_a_stream_in_use_is_not_deleted_unless_that_is_meant(channel, connect, reader, stream):
    """RabbitMQ: it is, whatever the flags say."""
    with channel_closed(406, f"PRECONDITION_FAILED - {title(stream)} not empty"):
        connect().channel().queue_delete(stream, if_empty=True)
    inbox(reader, stream, "first")
    with channel_closed(406, f"PRECONDITION_FAILED - {title(stream)} in use"):
        connect().channel().queue_delete(stream, if_unused=True)
    assert depth(channel, stream) == 5


@differs
def test_a_dead_letter_can_end_in_a_stream(channel, reader, name):
    """RabbitMQ: it is dropped."""
    queue, stream = name("queue"), name("stream")
    channel.queue_declare(stream, durable=True, arguments=STREAM)
    letters = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": stream}
    channel.queue_declare(queue, arguments=letters)
    channel.basic_publish("", queue, b"dead")
    method, _, _ = channel.basic_get(queue)
    channel.basic_reject(method.delivery_tag, requeue=False)
    found = inbox(reader, stream, "first")
    assert found.wait_for(1) == [b"dead"]
    assert found.properties[0].headers["x-first-death-queue"] == queue


@differs
def test_a_named_reader_goes_on_where_it_was(channel, connect, stream):
    """An argument that RabbitMQ does not know."""

    def read(count, **arguments):
        channel = connect().channel()
        channel.basic_qos(prefetch_count=2)
        found = inbox(channel, stream, **arguments, **{"x-reader": "r"})
        found.wait_for(count)
        return found

    found = read(2, offset=1)
    found.channel.basic_ack(found.deliveries[0].delivery_tag)
    # When pika closes a channel it refuses what came and was not handled: let nothing be left.
    found.wait_for(3)
    found.channel.connection.close()
    found = read(2)
    assert found.bodies == [b"m2", b"m3"]
    found.channel.basic_ack(found.deliveries[1].delivery_tag, multiple=True)
    found.wait_for(3)
    found.channel.close()
    assert read(1).bodies == [b"m4"]


@differs
def test_streams_and_readers_survive_kill_9(own_broker, name):
    """Everything that was confirmed, and what a reader had acked when close-ok came."""
    parameters = pika.URLParameters(own_broker.url)
    connection = pika.BlockingConnection(parameters)
    channel = connection.channel()
    channel.confirm_delivery()
    channel.queue_declare("s", durable=True, arguments=STREAM)
    publish_all(channel, "s", [b"m%d" % number for number in range(100)])
    channel.basic_qos(prefetch_count=10)
    found = inbox(channel, "s", "first", **{"x-reader": "r"})
    channel.basic_ack(found.deliveries[found.wait_for(10).index(b"m9")].delivery_tag, multiple=True)
    found.wait_for(20)
    channel.close()
    own_broker.kill()
    with suppress(AMQPError):
        connection.close()
    own_broker.start()
    connection = pika.BlockingConnection(parameters)
    channel = connection.channel()
    channel.basic_qos(prefetch_count=200)
    assert channel.queue_declare("s", passive=True).method.message_count == 100
    found = inbox(channel, "s", **{"x-reader": "r"})
    assert found.wait_for(90) == [b"m%d" % number for number in range(10, 100)]
    connection.close()


@differs
def test_the_exchange_of_a_partitioned_stream(channel, reader, name):
    """RabbitMQ has it in its stream plugin."""
    exchange = name("partitioned")
    channel.exchange_declare(exchange, "x-super-stream", durable=True)
    streams = [name(f"{number}") for number in range(3)]
    for number, stream in enumerate(streams):
        channel.queue_declare(stream, durable=True, arguments=STREAM)
        channel.queue_bind(stream, exchange, str(number))
    for number in range(1, 11):
        channel.basic_publish(exchange, f"hello{number}", b"%d" % number, mandatory=True)
    # As RabbitMQ's stream client in Java chooses for these keys.
    expected = [[b"2", b"5", b"7", b"9"], [b"1", b"3", b"8"], [b"4", b"6", b"10"]]
    for stream, bodies in zip(streams, expected, strict=True):
        assert inbox(reader, stream, "first").wait_for(len(bodies)) == bodies
    with channel_closed(406, 'PRECONDITION_FAILED - The binding key must be an integer: <<"k">>'):
        channel.queue_bind(streams[0], exchange, "k")


# ---------------------------------------------------------------------- retention


@differs
def test_a_reader_that_reads_nothing_holds_a_stream_to_half_more_than_its_limit(tmp_path):
    arguments = STREAM | {"x-max-length-bytes": 100_000, "x-stream-max-segment-size-bytes": 10_000}
    with BrokerProcess(tmp_path / "data") as broker:
        api = f"http://guest:guest@127.0.0.1:{broker.http_port}"
        connection = pika.BlockingConnection(pika.URLParameters(broker.url))
        channel, reading = connection.channel(), connection.channel()
        channel.confirm_delivery()
        channel.queue_declare("s", durable=True, arguments=arguments)
        channel.basic_publish("", "s", b"m0")
        reading.basic_qos(prefetch_count=1)
        idle = inbox(reading, "s", "first", **{"x-reader": "idle"})
        assert idle.wait_for(1) == [b"m0"]
        first, largest, number = 0, 0, 0
        while not first:
            number += 1
            assert number < 500, "retention waits for the reader"
            channel.basic_publish("", "s", b"m%d" % number + bytes(1000))
            (partition,) = httpx.get(f"{api}/api/streams/%2F/s").json()["partitions"]
            first, largest = partition["first"], max(largest, partition["bytes"])
        assert 140_000 < largest <= 170_000
        assert partition["bytes"] <= 110_000

        reading.basic_ack(idle.deliveries[0].delivery_tag)
        assert idle.wait_for(2)[1] == b"m%d" % first + bytes(1000)
        headers = idle.properties[1].headers
        assert headers == {"x-stream-offset": first, "x-stream-skipped": first - 1}
        reading.basic_ack(idle.deliveries[1].delivery_tag)
        idle.wait_for(3)
        assert idle.properties[2].headers == {"x-stream-offset": first + 1}

        (idle_reader,) = httpx.get(f"{api}/api/streams/%2F/s/readers").json()["readers"]
        known = {"reader": "idle", "partition": 0, "offset": first, "next_offset": first + 1}
        assert (known | {"skipped_messages": first - 1, "user": "guest"}).items() <= (
            idle_reader.items()
        )
        metrics = httpx.get(f"{api}/metrics").text
        assert f"leporid_stream_reader_skipped_messages_total {first - 1}.0" in metrics
        said = f"reader 'idle' was skipped from offset 1 to {first}"
        assert broker.log_path.read_text().count(said) == 1
        connection.close()
