"""Publishing as pika sees it: confirms, returns, transactions, properties, direct reply-to."""

import struct
import time
from datetime import UTC, datetime
from decimal import Decimal

import pika.frame
import pytest
from pika import BasicProperties
from pika.exceptions import NackError, UnroutableError
from tests.conformance.pika_steps import (
    REPLY_TO,
    Inbox,
    RawProperties,
    channel_closed,
    connection_closed,
    depth,
    drain,
    headers_only,
    publish_all,
    pump,
    settle,
)

# Every type of field that RabbitMQ reads, as (name, letter, value).
FIELDS = [
    ("true", b"t", b"\x01"),
    ("truthy", b"t", b"\x07"),
    ("int8", b"b", b"\x80"),
    ("uint8", b"B", b"\xff"),
    ("int16", b"s", b"\x80\x00"),
    ("uint16", b"u", b"\xff\xff"),
    ("int32", b"I", b"\x80\x00\x00\x00"),
    ("uint32", b"i", b"\xff\xff\xff\xff"),
    ("int64", b"l", b"\x80" + b"\x00" * 7),
    ("also int64", b"L", b"\xff" * 8),
    ("float", b"f", struct.pack(">f", 1.5)),
    ("double", b"d", struct.pack(">d", -0.1)),
    ("decimal", b"D", b"\x02\x00\x00\x30\x39"),
    ("text", b"S", b"\x00\x00\x00\x03\xe2\x82\xac"),
    ("not text", b"S", b"\x00\x00\x00\x02\xff\xfe"),
    ("bytes", b"x", b"\x00\x00\x00\x02\x00\xff"),
    ("time", b"T", b"\x00\x00\x00\x00\x80\x00\x00\x00"),
    ("nothing", b"V", b""),
    ("array", b"A", b"\x00\x00\x00\x0b" + b"V" + b"t\x00" + b"S\x00\x00\x00\x03abc"),
    ("empty array", b"A", b"\x00\x00\x00\x00"),
    ("table", b"F", b"\x00\x00\x00\x0a\x01k" + b"F\x00\x00\x00\x03\x01vV"),
    ("empty table", b"F", b"\x00\x00\x00\x00"),
    ("", b"b", b"\x01"),
    ("same", b"b", b"\x01"),
    ("same", b"b", b"\x02"),
]


@pytest.fixture
def header_frames(monkeypatch):
    """Collect the properties of every content header that pika receives, undecoded."""
    seen: list[bytes] = []
    decode = pika.frame.decode_frame

    def decode_and_keep(data):
        size, frame = decode(data)
        if isinstance(frame, pika.frame.Header):
            # 7 octets of frame header, then class, weight and body size; 1 octet of frame end.
            seen.append(bytes(data[7 + 12 : size - 1]))
        return size, frame

    monkeypatch.setattr(pika.frame, "decode_frame", decode_and_keep)
    return seen


@pytest.fixture
def queue(channel, name):
    """A transient queue."""
    queue = name("queue")
    channel.queue_declare(queue)
    return queue


def label(fields):
    return fields[0][0] if len(fields) == 1 else "all"


@pytest.mark.parametrize("fields", [[each] for each in FIELDS] + [FIELDS], ids=label)
def test_headers_are_kept_byte_for_byte(channel, queue, header_frames, fields):
    raw = headers_only(fields)
    channel.basic_publish("", queue, b"", RawProperties(raw))
    channel.basic_get(queue)
    assert header_frames == [raw]
    channel.basic_nack(0, multiple=True)
    Inbox(channel, queue).wait_for(1)
    assert header_frames == [raw, raw]


def test_headers_survive_every_exchange_type(channel, queue, header_frames):
    raw = headers_only(FIELDS)
    for exchange in ("amq.direct", "amq.fanout", "amq.topic", "amq.headers"):
        channel.queue_bind(queue, exchange, queue, {"int8": -128})
        channel.basic_publish(exchange, queue, b"", RawProperties(raw))
        channel.queue_unbind(queue, exchange, queue, {"int8": -128})
        channel.basic_get(queue)
    assert header_frames == [raw] * 4


def test_all_properties(channel, queue):
    properties = BasicProperties(
        content_type="application/json",
        content_encoding="gzip",
        headers={
            "bool": True,
            "int": -5,
            "big": 2**40,
            "text": "ünï",
            "list": [1, "two", None, {"three": 3}],
            "dict": {"nested": {"deep": [False]}},
            "none": None,
            "decimal": Decimal("3.14"),
            "bytes": b"\x00\xff",
            "time": datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
        },
        delivery_mode=2,
        priority=7,
        correlation_id="correlation",
        reply_to="somewhere",
        expiration="60000",
        message_id="message",
        timestamp=1_700_000_000,
        type="type",
        user_id="guest",
        app_id="app",
        cluster_id="cluster",
    )
    channel.basic_publish("", queue, b"body", properties)
    _, got, _ = channel.basic_get(queue, auto_ack=True)
    sent = properties.__dict__ | {"headers": None}
    assert got.__dict__ | {"headers": None} == sent
    # Older releases of pika give times without a zone.
    got.headers["time"] = got.headers["time"].replace(tzinfo=UTC)
    assert got.headers == properties.headers


def test_no_properties_at_all(channel, queue, header_frames):
    channel.basic_publish("", queue, b"")
    channel.basic_get(queue)
    assert header_frames == [b"\x00\x00"]


def test_unroutable_mandatory_message_comes_back_whole(channel, name, header_frames):
    raw = headers_only(FIELDS)
    with pytest.raises(UnroutableError) as caught:
        channel.basic_publish("", name("nobody"), b"body", RawProperties(raw), mandatory=True)
    assert [each.body for each in caught.value.messages] == [b"body"]
    assert header_frames == [raw]


def test_unroutable_message_is_confirmed(channel, name):
    channel.basic_publish("", name("nobody"), b"")


def test_mandatory_return_without_confirms(connection, name):
    returned = []
    channel = connection.channel()
    channel.add_on_return_callback(lambda *each: returned.append(each))
    channel.basic_publish("", name("nobody"), b"body", mandatory=True)
    pump(connection, lambda: bool(returned))
    _, method, _, body = returned[0]
    assert (method.reply_code, method.reply_text, body) == (312, "NO_ROUTE", b"body")


def test_full_queue_rejects_publishes(channel, name):
    queue = name()
    channel.queue_declare(queue, arguments={"x-max-length": 1, "x-overflow": "reject-publish"})
    channel.basic_publish("", queue, b"fits")
    with pytest.raises(NackError):
        channel.basic_publish("", queue, b"does not")
    assert drain(channel, queue) == [b"fits"]


def test_wrong_user_id(channel, queue):
    with channel_closed(
        406,
        "PRECONDITION_FAILED - user_id property set to 'root' but authenticated user was 'guest'",
    ):
        channel.basic_publish("", queue, b"", BasicProperties(user_id="root"))


def test_invalid_expiration(channel, queue):
    with channel_closed(
        406,
        "PRECONDITION_FAILED - invalid expiration 'soon': no_integer",
    ):
        channel.basic_publish("", queue, b"", BasicProperties(expiration="soon"))


def test_transaction_publishes_on_commit(connection, queue):
    channel, reader = connection.channel(), connection.channel()
    channel.tx_select()
    publish_all(channel, queue, [b"1", b"2"])
    assert depth(reader, queue) == 0
    channel.tx_commit()
    assert depth(reader, queue) == 2
    publish_all(channel, queue, [b"3"])
    channel.tx_rollback()
    channel.tx_commit()
    assert drain(reader, queue) == [b"1", b"2"]


def test_transaction_covers_acks(connection, queue):
    channel, reader = connection.channel(), connection.channel()
    publish_all(reader, queue, [b"1", b"2"])
    channel.tx_select()
    first, _, _ = channel.basic_get(queue)
    channel.basic_ack(first.delivery_tag)
    channel.tx_rollback()
    channel.basic_ack(first.delivery_tag)
    channel.tx_commit()
    second, _, _ = channel.basic_get(queue)
    channel.basic_ack(second.delivery_tag)
    channel.close()
    assert drain(reader, queue) == [b"2"]


def test_open_transaction_is_dropped_with_its_channel(connection, queue):
    channel, reader = connection.channel(), connection.channel()
    channel.tx_select()
    publish_all(channel, queue, [b"1"])
    channel.close()
    assert depth(reader, queue) == 0


def test_mandatory_return_at_commit(connection, name):
    returned = []
    channel = connection.channel()
    channel.tx_select()
    channel.add_on_return_callback(lambda *each: returned.append(each))
    channel.basic_publish("", name("nobody"), b"1", mandatory=True)
    channel.tx_commit()
    pump(connection, lambda: len(returned) == 1)


@pytest.fixture
def full(channel, name):
    """A queue that is full with one message and refuses more; by overflow: its name and the
    queue of its dead letters."""

    def make(overflow, limit=1):
        queue, letters = name("queue"), name("queue")
        channel.queue_declare(letters)
        arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": letters}
        arguments |= {"x-max-length": limit, "x-overflow": overflow}
        channel.queue_declare(queue, arguments=arguments)
        publish_all(channel, queue, [b"there"])
        settle(channel)
        return queue, letters

    return make


PARTIAL = "PRECONDITION_FAILED - partial tx completion"


@pytest.mark.parametrize(
    ("overflow", "dead"), [("reject-publish", []), ("reject-publish-dlx", [b"second"])]
)
def test_commit_of_what_a_queue_refuses(connection, channel, queue, full, overflow, dead):
    """All that nobody refuses takes effect, the channel is closed, the connection stays."""
    refusing, letters = full(overflow)
    publish_all(channel, queue, [b"acked", b"kept", b"rejected"])
    writer = connection.channel()
    writer.tx_select()
    tags = [writer.basic_get(queue)[0].delivery_tag for _ in range(3)]
    publish_all(writer, queue, [b"first"])
    publish_all(writer, refusing, [b"second"])
    publish_all(writer, queue, [b"third"])
    writer.basic_ack(tags[0])
    writer.basic_reject(tags[2], requeue=False)
    with channel_closed(406, PARTIAL):
        writer.tx_commit()
    assert drain(channel, refusing) == [b"there"]
    assert drain(channel, queue) == [b"kept", b"first", b"third"]
    settle(channel)
    assert drain(channel, letters) == dead


def test_commit_of_more_than_a_queue_takes(connection, channel, full):
    """What the transaction itself brought fills the queue; what a consumer takes does not."""
    queue, _ = full("reject-publish", limit=2)
    writer = connection.channel()
    writer.tx_select()
    publish_all(writer, queue, [b"fits", b"does not"])
    with channel_closed(406, PARTIAL):
        writer.tx_commit()
    assert drain(channel, queue) == [b"there", b"fits"]
    inbox = Inbox(channel, queue, auto_ack=True)
    writer = connection.channel()
    writer.tx_select()
    numbers = [b"%d" % number for number in range(5)]
    publish_all(writer, queue, numbers)
    writer.tx_commit()
    assert inbox.wait_for(5) == numbers


def test_commit_of_acks_alone_when_a_queue_is_full(connection, channel, full):
    queue, _ = full("reject-publish")
    reader = connection.channel()
    reader.tx_select()
    tag = reader.basic_get(queue)[0].delivery_tag
    publish_all(channel, queue, [b"another"])
    settle(channel)
    reader.basic_ack(tag)
    reader.tx_commit()
    reader.close()
    assert drain(channel, queue) == [b"another"]


def test_commit_for_two_queues_one_of_which_refuses(connection, channel, name, full):
    exchange, open_queue = name("exchange"), name("queue")
    refusing, _ = full("reject-publish")
    channel.exchange_declare(exchange, "fanout")
    channel.queue_declare(open_queue)
    for queue in (open_queue, refusing):
        channel.queue_bind(queue, exchange)
    writer = connection.channel()
    writer.tx_select()
    writer.basic_publish(exchange, "", b"both", mandatory=True)
    with channel_closed(406, PARTIAL):
        writer.tx_commit()
    assert drain(channel, open_queue) == [b"both"]
    assert drain(channel, refusing) == [b"there"]


@pytest.mark.parametrize("act", ["tx_commit", "tx_rollback"])
def test_commit_and_rollback_need_a_transaction(connection, act):
    with channel_closed(406, "PRECONDITION_FAILED - channel is not transactional"):
        getattr(connection.channel(), act)()


def test_confirms_and_transactions_do_not_mix(connection):
    channel = connection.channel()
    channel.tx_select()
    channel.tx_select()
    with channel_closed(406, "PRECONDITION_FAILED - cannot switch from tx to confirm mode"):
        channel.confirm_delivery()
    channel = connection.channel()
    channel.confirm_delivery()
    with channel_closed(406, "PRECONDITION_FAILED - cannot switch from confirm to tx mode"):
        channel.tx_select()


def test_direct_reply_to(connect, queue):
    client, server = connect().channel(), connect().channel()
    server.basic_consume(queue, lambda *request: requests.append(request))
    requests: list = []
    replies = Inbox(client, REPLY_TO, auto_ack=True)
    for number in range(3):
        client.basic_publish(
            "", queue, b"question", BasicProperties(reply_to=REPLY_TO, correlation_id=str(number))
        )
    pump(server.connection, lambda: len(requests) == 3)
    addresses = {request[2].reply_to for request in requests}
    assert len(addresses) == 1
    assert addresses.pop().startswith(REPLY_TO + ".")
    for _, method, properties, _ in reversed(requests):
        server.basic_publish(
            "",
            properties.reply_to,
            b"answer",
            BasicProperties(correlation_id=properties.correlation_id),
        )
        server.basic_ack(method.delivery_tag)
    replies.wait_for(3)
    assert [each.correlation_id for each in replies.properties] == ["2", "1", "0"]
    assert {each.routing_key for each in replies.deliveries} == {requests[0][2].reply_to}


def test_reply_address_can_be_asked_for_and_goes_with_its_channel(channel, connect, queue):
    client = connect().channel()
    client.basic_consume(REPLY_TO, print, auto_ack=True)
    client.basic_publish("", queue, b"", BasicProperties(reply_to=REPLY_TO))
    settle(client)
    _, properties, _ = channel.basic_get(queue, auto_ack=True)
    address = properties.reply_to
    channel.queue_declare(address, passive=True)
    client.close()
    channel.basic_publish("", address, b"too late")
    with channel_closed(404, f"NOT_FOUND - no queue '{address}' in vhost '/'"):
        channel.queue_declare(address, passive=True)


def test_reply_to_needs_a_consumer(channel, queue):
    with channel_closed(406, "PRECONDITION_FAILED - fast reply consumer does not exist"):
        channel.basic_publish("", queue, b"", BasicProperties(reply_to=REPLY_TO))


def test_reply_consumers_never_ack(connection):
    with channel_closed(406, "PRECONDITION_FAILED - reply consumer cannot acknowledge"):
        connection.channel().basic_consume(REPLY_TO, print)


def test_one_reply_consumer_for_each_channel(connection):
    channel = connection.channel()
    channel.basic_consume(REPLY_TO, print, auto_ack=True)
    with channel_closed(406, "PRECONDITION_FAILED - reply consumer already set"):
        channel.basic_consume(REPLY_TO, print, auto_ack=True)


def test_publishing_to_nonsense_reply_addresses_is_harmless(channel):
    for tail in (".", ".g1h2", ".." + "x" * 200, ".\N{SNOWMAN}"):
        channel.basic_publish("", REPLY_TO + tail, b"")


def test_immediate_is_not_implemented(connection, queue):
    channel = connection.channel()
    publish = pika.spec.Basic.Publish(exchange="", routing_key=queue, immediate=True)
    with connection_closed(540, "NOT_IMPLEMENTED - immediate=true"):
        channel._impl._send_method(publish, (BasicProperties(), b"body"))
        settle(channel)


def test_confirm_comes_only_when_durable_messages_are_stored(channel, name):
    """Pika's blocking publish waits for each confirm: one hundred of them, one after the other."""
    queue = name()
    channel.queue_declare(queue, durable=True)
    start = time.monotonic()
    for number in range(100):
        channel.basic_publish("", queue, b"%d" % number, BasicProperties(delivery_mode=2))
    assert time.monotonic() - start < 20
    assert drain(channel, queue) == [b"%d" % number for number in range(100)]
