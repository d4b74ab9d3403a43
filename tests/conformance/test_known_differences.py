"""What this broker does differently from RabbitMQ on purpose: one test for each.

The reasons stand in docs/known-differences.md; where a difference needs a killed broker, its test
is in tests/crash/test_restart.py. Other brokers are not asked.
"""

import struct

import kombu
import pytest
from pika import BasicProperties
from pika.exceptions import ChannelClosedByBroker, ConnectionClosedByBroker, UnroutableError
from tests.conformance.marks import differs
from tests.conformance.pika_steps import (
    REPLY_TO,
    Inbox,
    RawProperties,
    channel_closed,
    drain,
    headers_only,
    publish_all,
    pump,
    settle,
)

pytestmark = differs


def nested(depth):
    """Make headers of a table in a table in a table."""
    table = b""
    for _ in range(depth):
        table = b"\x01kF" + struct.pack(">I", len(table)) + table
    return b"\x20\x00" + struct.pack(">I", len(table)) + table


MALFORMED_CONTENT = {
    "not a number": headers_only([("n", b"d", struct.pack(">Q", 0x7FF8000000000001))]),
    "infinite": headers_only([("n", b"d", struct.pack(">d", float("inf")))]),
    "unknown type": headers_only([("n", b"Q", b"")]),
    "short table": b"\x20\x00\x00\x00\x00\x04\x01aF\x00",
    "unknown property": b"\x00\x02",
    "33 tables deep": nested(33),
}


def test_messages_expire_anywhere_in_the_queue(channel, name):
    """RabbitMQ: not before they reach the head of the queue."""
    queue, dead = name("queue"), name("dead")
    channel.queue_declare(dead)
    channel.queue_declare(
        queue, arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": dead}
    )
    channel.basic_publish("", queue, b"head", BasicProperties(expiration="3600000"))
    channel.basic_publish("", queue, b"behind it", BasicProperties(expiration="20"))
    assert Inbox(channel, dead).wait_for(1) == [b"behind it"]
    assert drain(channel, queue) == [b"head"]


@pytest.mark.parametrize("raw", MALFORMED_CONTENT.values(), ids=MALFORMED_CONTENT.keys())
def test_malformed_properties_are_a_syntax_error(connection, name, raw):
    """RabbitMQ: 541 INTERNAL_ERROR, or nothing for what it ignores."""
    channel = connection.channel()
    # Past the blocking layer, so that the answer comes to the next method.
    channel._impl.basic_publish("", name(), b"", RawProperties(raw))
    with pytest.raises(ConnectionClosedByBroker, match="SYNTAX_ERROR") as caught:
        settle(channel)
    assert caught.value.reply_code == 502


def test_arguments_are_limited_and_headers_are_not(connect, name):
    """RabbitMQ: there may be as many as fit into a frame."""
    queue = name()
    connection = connect()
    channel = connection.channel()
    channel.queue_declare(queue, arguments={f"a{at}": at for at in range(256)})
    headers = {f"h{at}": at for at in range(5000)}
    channel.basic_publish("", queue, b"", BasicProperties(headers=headers))
    _, properties, _ = channel.basic_get(queue, auto_ack=True)
    assert properties.headers == headers
    with pytest.raises(ConnectionClosedByBroker, match="more values than the limit of 256") as end:
        channel.queue_bind(queue, "amq.headers", arguments={f"a{at}": at for at in range(257)})
    assert end.value.reply_code == 502


def test_mandatory_reply_is_returned_only_if_it_does_not_arrive(channel, connect, name):
    """RabbitMQ: always, although it delivers it."""
    queue = name()
    channel.queue_declare(queue)
    client = connect().channel()
    replies = Inbox(client, REPLY_TO, auto_ack=True)
    client.basic_publish("", queue, b"", BasicProperties(reply_to=REPLY_TO))
    settle(client)
    address = channel.basic_get(queue, auto_ack=True)[1].reply_to
    channel.basic_publish("", address, b"answer", mandatory=True)
    assert replies.wait_for(1) == [b"answer"]
    client.close()
    with pytest.raises(UnroutableError):
        channel.basic_publish("", address, b"too late", mandatory=True)


def test_kombu_gets_the_prefetch_limit_that_it_means(broker_url, channel, name):
    """Its `global = false` is for the whole channel, also for consumers that are there already."""
    queue = name()
    channel.queue_declare(queue)
    publish_all(channel, queue, [b"%d" % number for number in range(10)])
    got: list = []
    with kombu.Connection(broker_url) as connection:
        assert connection.qos_semantics_matches_spec
        low_level = connection.default_channel
        low_level.basic_qos(0, 2, False)
        low_level.basic_consume(queue, callback=got.append)
        while len(got) < 2:
            connection.drain_events(timeout=10)
        low_level.basic_qos(0, 5, False)
        while len(got) < 5:
            connection.drain_events(timeout=10)
        low_level.queue_declare(queue, passive=True)
        assert len(got) == 5


@pytest.mark.parametrize("mode", [0, 3])
def test_a_delivery_mode_that_is_neither_is_taken(channel, name, mode):
    """RabbitMQ: 406 `invalid message: {delivery_mode_unknown,0}`; since 3.13 as here."""
    queue = name()
    channel.queue_declare(queue)
    channel.confirm_delivery()
    channel.basic_publish("", queue, b"kept", BasicProperties(delivery_mode=mode))
    _, properties, body = channel.basic_get(queue, auto_ack=True)
    assert (properties.delivery_mode, body) == (mode, b"kept")


def test_strict_keys(channel, name):
    """An argument that RabbitMQ does not know."""
    exchange = name()
    channel.exchange_declare(exchange, "topic", arguments={"x-strict-keys": True})
    channel.basic_publish(exchange, "good.key_1", b"")
    with channel_closed(
        406,
        "PRECONDITION_FAILED - x-strict-keys allows only letters, digits, underscores and dots:"
        " 'bad-key'",
    ):
        channel.basic_publish(exchange, "bad-key", b"")


@pytest.mark.parametrize("pattern", ["#.#", "#.*", "*.#", "a*", "a.#b", "ü"])
def test_strict_patterns(channel, name, pattern):
    exchange, queue = name("exchange"), name("queue")
    channel.exchange_declare(exchange, "topic", arguments={"x-strict-keys": True})
    channel.queue_declare(queue)
    for good in ("#", "*.*", "a.#", "#.a.#", "a.*.b"):
        channel.queue_bind(queue, exchange, good)
    with pytest.raises(ChannelClosedByBroker, match="x-strict-keys allows") as caught:
        channel.queue_bind(queue, exchange, pattern)
    assert caught.value.reply_code == 406


def test_product(connection):
    assert connection._impl.server_properties["product"] == "Leporid"


def test_replies_wait_for_the_commit_of_their_transaction(channel, connect, name):
    requests = name("requests")
    channel.queue_declare(requests)
    replies = Inbox(channel, REPLY_TO, auto_ack=True)
    asks = BasicProperties(reply_to=REPLY_TO)
    channel.basic_publish("", requests, b"question", asks)
    server = connect().channel()
    server.tx_select()
    _, request, _ = server.basic_get(requests, auto_ack=True)
    server.basic_publish("", request.reply_to, b"forgotten")
    server.tx_rollback()
    server.basic_publish("", request.reply_to, b"answer")
    settle(server)
    settle(channel)
    assert replies.bodies == []
    server.tx_commit()
    assert replies.wait_for(1) == [b"answer"]


def test_settles_of_a_transaction_make_room_for_its_messages(channel, connect, name):
    """RabbitMQ offers them to consumers before the settles: one that expires at once is gone."""
    queue = name("queue")
    channel.queue_declare(queue)
    taker = connect().channel()
    taker.tx_select()
    taker.basic_qos(prefetch_count=1)
    inbox = Inbox(taker, queue)
    channel.basic_publish("", queue, b"first")
    assert inbox.wait_for(1) == [b"first"]
    taker.basic_publish("", queue, b"second", BasicProperties(expiration="0"))
    taker.basic_ack(1)
    taker.tx_commit()
    assert inbox.wait_for(2) == [b"first", b"second"]


def test_letters_of_several_consumers_come_in_the_order_of_their_deliveries(channel, name):
    queue, dead = name("queue"), name("dead")
    channel.queue_declare(dead)
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": dead}
    channel.queue_declare(queue, arguments=arguments)
    inboxes = [Inbox(channel, queue, consumer_tag=tag) for tag in ("z", "a")]
    numbers = [b"1", b"2", b"3", b"4"]
    publish_all(channel, queue, numbers)
    pump(channel.connection, lambda: sum(len(inbox.bodies) for inbox in inboxes) == len(numbers))
    assert all(len(inbox.bodies) == 2 for inbox in inboxes)
    channel.basic_nack(0, multiple=True, requeue=False)
    settle(channel)
    assert drain(channel, dead) == numbers


def test_what_a_commit_gives_back_stands_before_what_it_publishes(connect, name):
    """RabbitMQ offers consumers what is published first."""
    queue, channel = name(), connect().channel()
    channel.queue_declare(queue)
    inbox = Inbox(channel, queue)
    channel.basic_publish("", queue, b"older")
    assert inbox.wait_for(1) == [b"older"]
    channel.tx_select()
    channel.basic_nack(inbox.deliveries[0].delivery_tag, requeue=True)
    channel.basic_publish("", queue, b"newer")
    channel.tx_commit()
    assert inbox.wait_for(3) == [b"older", b"older", b"newer"]


def test_after_one_ack_for_several_consumers_they_take_turns(connect, name):
    """RabbitMQ gives each consumer in turn all that it has credit for."""
    queue, channel = name(), connect().channel()
    channel.queue_declare(queue)
    publish_all(channel, queue, [b"%d" % number for number in range(6)])
    channel.basic_qos(prefetch_count=2)
    inboxes = [Inbox(channel, queue) for _ in range(2)]
    pump(channel.connection, lambda: sum(len(inbox.bodies) for inbox in inboxes) == 4)
    channel.basic_ack(0, multiple=True)
    pump(channel.connection, lambda: sum(len(inbox.bodies) for inbox in inboxes) == 6)
    assert [len(inbox.bodies) for inbox in inboxes] == [3, 3]


def test_a_connection_that_ends_for_a_fault_gets_no_delivery_any_more(connect, name):
    """In RabbitMQ what one of its channels gives back may come to the next one before that ends."""
    queue, connection = name(), connect()
    holding, waiting = connection.channel(), connection.channel()
    holding.queue_declare(queue)
    held = Inbox(holding, queue)
    late = Inbox(waiting, queue)
    publish_all(holding, queue, [b"held", b"late"])
    held.wait_for(1)
    late.wait_for(1)
    with pytest.raises(ConnectionClosedByBroker, match="invalid exchange type ''"):
        holding.exchange_declare(name("exchange"), "")
    # What has come in and was not handed to a callback.
    assert list(waiting._pending_events) == []
    channel = connect().channel()
    method, _, body = channel.basic_get(queue)
    assert (method.redelivered, body) == (True, b"held")


def test_a_channel_that_ends_for_a_fault_takes_no_message_any_more(connect, name):
    """In RabbitMQ its consumer is given the dead letter first, which is redelivered later."""
    dying, clock, dead, channel = name("dying"), name("clock"), name("dead"), connect().channel()
    channel.queue_declare(dead)
    letters = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": dead}
    channel.queue_declare(dying, arguments=letters)
    channel.queue_declare(clock, arguments=letters)
    held = Inbox(channel, dying)
    inbox = Inbox(channel, dead)
    channel.basic_publish("", dying, b"held", BasicProperties(expiration="10"))
    held.wait_for(1)
    # When this one has expired, the first will too, as soon as it is given back.
    channel.basic_publish("", clock, b"later", BasicProperties(expiration="20"))
    assert inbox.wait_for(1) == [b"later"]
    with channel_closed(404, "NOT_FOUND - no queue 'none' in vhost '/'"):
        channel.queue_declare("none", passive=True)
    assert list(channel._pending_events) == []
    redelivered: dict[bytes, bool] = {}
    channel = connect().channel()
    while len(redelivered) < 2:
        method, _, body = channel.basic_get(dead)
        if method:
            redelivered[body] = method.redelivered
    assert redelivered == {b"held": False, b"later": True}


def test_messages_that_were_asked_for_take_no_room_of_a_channel(channel, name):
    """RabbitMQ: those that are unacked when a channel gets its limit take room of it."""
    queue = name()
    channel.queue_declare(queue)
    publish_all(channel, queue, [b"asked for", b"delivered", b"waits"])
    assert channel.basic_get(queue)[2] == b"asked for"
    channel.basic_qos(prefetch_count=1, global_qos=True)
    inbox = Inbox(channel, queue)
    assert inbox.wait_for(1) == [b"delivered"]
    settle(channel)
    assert inbox.bodies == [b"delivered"]


@pytest.fixture
def prioritised(channel, name):
    """A queue with priorities, and one where its dead letters go."""
    queue, dead = name("queue"), name("dead")
    channel.queue_declare(dead)
    letters = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": dead}
    channel.queue_declare(queue, arguments={"x-max-priority": 3} | letters)
    return queue, dead


def test_letters_of_several_priorities_come_in_the_order_of_their_deliveries(channel, prioritised):
    """RabbitMQ: those of the highest priority first."""
    queue, dead = prioritised
    inbox = Inbox(channel, queue)
    for number, body in enumerate([b"low", b"high"]):
        channel.basic_publish("", queue, body, BasicProperties(priority=3 * number))
        inbox.wait_for(number + 1)
    channel.basic_nack(0, multiple=True, requeue=False)
    assert Inbox(channel, dead).wait_for(2) == [b"low", b"high"]


def test_of_a_commit_the_highest_priority_is_delivered_first(connect, prioritised):
    """RabbitMQ: what was published first, as consumers are offered each message by itself."""
    queue, _ = prioritised
    channel = connect().channel()
    inbox = Inbox(channel, queue)
    channel.tx_select()
    for number, body in enumerate([b"low", b"high"]):
        channel.basic_publish("", queue, body, BasicProperties(priority=3 * number))
    channel.tx_commit()
    assert inbox.wait_for(2) == [b"high", b"low"]


def test_a_letter_that_comes_back_to_its_queue_is_there_before_the_next_delivery(channel, name):
    """RabbitMQ: the next message is delivered before the letter comes."""
    queue = name()
    back = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": queue}
    channel.queue_declare(queue, arguments={"x-max-priority": 3} | back)
    channel.basic_publish("", queue, b"low")
    channel.basic_publish("", queue, b"high", BasicProperties(priority=3))
    channel.basic_qos(prefetch_count=1)
    inbox = Inbox(channel, queue)
    assert inbox.wait_for(1) == [b"high"]
    channel.basic_reject(inbox.deliveries[0].delivery_tag, requeue=False)
    assert inbox.wait_for(2) == [b"high", b"high"]
