"""Queues as pika sees them: kinds, life times, deletion, and the ways to declare them wrongly."""

import pytest
from pika import BasicProperties
from pika.exceptions import ChannelClosedByBroker
from tests.conformance.pika_steps import (
    Inbox,
    channel_closed,
    depth,
    drain,
    publish_all,
    pump,
    settle,
)


def missing(queue):
    return channel_closed(404, f"NOT_FOUND - no queue '{queue}' in vhost '/'")


def locked(queue):
    return channel_closed(
        405,
        f"RESOURCE_LOCKED - cannot obtain exclusive access to locked queue '{queue}' in vhost '/'."
        " It could be originally declared on another connection or the exclusive property value"
        " does not match that of the original declaration.",
    )


def test_server_named_queue(channel):
    first = channel.queue_declare("", exclusive=True).method.queue
    second = channel.queue_declare("", exclusive=True).method.queue
    assert first.startswith("amq.gen-")
    assert second.startswith("amq.gen-")
    assert first != second
    channel.queue_declare(first, passive=True)


def test_empty_name_means_the_last_queue_declared_on_the_channel(channel, connection):
    queue = channel.queue_declare("", exclusive=True).method.queue
    publish_all(channel, queue, [b"1", b"2"])
    channel.queue_bind("", "amq.direct", queue)
    assert channel.basic_get("", auto_ack=True)[2] == b"1"
    assert channel.queue_purge("").method.message_count == 1
    other = connection.channel()
    with channel_closed(404, "NOT_FOUND - no previously declared queue"):
        other.queue_bind("", "amq.direct", "k")


def test_declare_counts_ready_messages_and_consumers(channel, name):
    queue = name()
    channel.queue_declare(queue)
    publish_all(channel, queue, [b"1", b"2", b"3"])
    channel.basic_qos(prefetch_count=1)
    Inbox(channel, queue).wait_for(1)
    answer = channel.queue_declare(queue).method
    assert (answer.message_count, answer.consumer_count) == (2, 1)


def test_passive_declare_of_a_missing_queue(channel, name):
    queue = name()
    with missing(queue):
        channel.queue_declare(queue, passive=True)


def test_passive_declare_ignores_the_properties(channel, name):
    queue = name()
    channel.queue_declare(queue, auto_delete=True)
    channel.queue_declare(queue, passive=True, durable=True, arguments={"x-max-length": 1})


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"durable": True}, "'durable'{for_it}: received 'true' but current is 'false'"),
        ({"auto_delete": True}, "'auto_delete'{for_it}: received 'true' but current is 'false'"),
        (
            {"arguments": {"x-max-length": 7}},
            (
                "'x-max-length'{for_it}: received the value '7' of type 'signedint' "
                "but current is none"
            ),
        ),
    ],
    ids=["durable", "auto-delete", "arguments"],
)
def test_redeclaring_differently(channel, name, change, text):
    queue = name()
    channel.queue_declare(queue)
    channel.queue_declare(queue)
    for_it = f" for queue '{queue}' in vhost '/'"
    with channel_closed(
        406, "PRECONDITION_FAILED - inequivalent arg " + text.format(for_it=for_it)
    ):
        channel.queue_declare(queue, **change)


def test_redeclaring_with_another_value(channel, name):
    queue = name()
    channel.queue_declare(queue, arguments={"x-max-length": 7})
    with channel_closed(
        406,
        f"PRECONDITION_FAILED - inequivalent arg 'x-max-length' for queue '{queue}' in vhost '/':"
        " received none but current is the value '7' of type 'signedint'",
    ):
        channel.queue_declare(queue)


def test_reserved_names(channel):
    with channel_closed(
        403, "ACCESS_REFUSED - queue name 'amq.mine' contains reserved prefix 'amq.*'"
    ):
        channel.queue_declare("amq.mine")


def test_exclusive_queue_is_locked_for_other_connections(channel, connect, name):
    queue = name()
    channel.queue_declare(queue, exclusive=True)
    channel.connection.channel().queue_declare(queue, exclusive=True)
    stranger = connect()
    for act in (
        lambda other: other.queue_declare(queue, exclusive=True),
        lambda other: other.queue_declare(queue, passive=True),
        lambda other: other.queue_bind(queue, "amq.direct", "k"),
        lambda other: other.queue_purge(queue),
        lambda other: other.queue_delete(queue),
        lambda other: other.basic_get(queue),
        lambda other: other.basic_consume(queue, print),
    ):
        with locked(queue):
            act(stranger.channel())
    assert stranger.is_open
    publisher = stranger.channel()
    publisher.confirm_delivery()
    publish_all(publisher, queue, [b"publishing is allowed"])
    assert depth(channel, queue) == 1


def test_exclusive_queue_goes_with_its_connection(channel, connect, name):
    queue = name()
    connection = connect()
    connection.channel().queue_declare(queue, exclusive=True)
    connection.close()
    with missing(queue):
        channel.queue_declare(queue, passive=True)


def test_queue_that_is_not_exclusive_outlives_its_connection(channel, connect, name):
    queue = name()
    connection = connect()
    other = connection.channel()
    other.confirm_delivery()
    other.queue_declare(queue)
    publish_all(other, queue, [b"1"])
    connection.close()
    assert drain(channel, queue) == [b"1"]


def test_auto_delete_queue_goes_with_its_last_consumer(channel, connection, name):
    queue = name()
    channel.queue_declare(queue, auto_delete=True)
    first = Inbox(channel, queue)
    other = connection.channel()
    Inbox(other, queue)
    channel.basic_cancel(first.tag)
    channel.queue_declare(queue, passive=True)
    other.close()
    with missing(queue):
        channel.queue_declare(queue, passive=True)


def test_auto_delete_queue_without_consumers_stays(channel, connect, name):
    queue = name()
    connection = connect()
    connection.channel().queue_declare(queue, auto_delete=True)
    connection.close()
    assert channel.basic_get(queue) == (None, None, None)
    channel.queue_declare(queue, passive=True)


def test_purge_removes_ready_messages_only(channel, name):
    queue = name()
    channel.queue_declare(queue)
    publish_all(channel, queue, [b"1", b"2", b"3"])
    held, _, _ = channel.basic_get(queue)
    assert channel.queue_purge(queue).method.message_count == 2
    assert channel.queue_purge(queue).method.message_count == 0
    channel.basic_nack(held.delivery_tag)
    assert drain(channel, queue) == [b"1"]


def test_purge_of_a_missing_queue(channel, name):
    queue = name()
    with missing(queue):
        channel.queue_purge(queue)


def test_delete_counts_ready_messages(channel, name):
    queue = name()
    channel.queue_declare(queue)
    publish_all(channel, queue, [b"1", b"2"])
    assert channel.queue_delete(queue).method.message_count == 2
    assert channel.queue_delete(queue).method.message_count == 0
    with missing(queue):
        channel.queue_declare(queue, passive=True)


def test_delete_if_empty(channel, connection, name):
    queue = name()
    channel.queue_declare(queue)
    publish_all(channel, queue, [b"1"])
    with channel_closed(406, f"PRECONDITION_FAILED - queue '{queue}' in vhost '/' not empty"):
        channel.queue_delete(queue, if_empty=True)
    other = connection.channel()
    other.queue_purge(queue)
    assert other.queue_delete(queue, if_empty=True).method.message_count == 0


def test_delete_if_unused(channel, connection, name):
    queue = name()
    channel.queue_declare(queue)
    inbox = Inbox(channel, queue)
    other = connection.channel()
    with channel_closed(406, f"PRECONDITION_FAILED - queue '{queue}' in vhost '/' in use"):
        other.queue_delete(queue, if_unused=True)
    channel.basic_cancel(inbox.tag)
    channel.queue_delete(queue, if_unused=True)


def test_deleting_a_queue_removes_its_bindings(channel, name):
    queue = name()
    channel.queue_declare(queue)
    channel.queue_bind(queue, "amq.direct", queue)
    channel.queue_delete(queue)
    channel.queue_declare(queue)
    channel.basic_publish("amq.direct", queue, b"no longer bound")
    assert depth(channel, queue) == 0


def test_consumers_are_told_when_their_queue_is_deleted(channel, connect, name):
    queue = name()
    channel.queue_declare(queue)
    inbox = Inbox(channel, queue)
    cancelled: list = []
    channel.add_on_cancel_callback(cancelled.append)
    connect().channel().queue_delete(queue)
    pump(channel.connection, lambda: bool(cancelled))
    assert cancelled[0].method.consumer_tag == inbox.tag
    assert channel.is_open


def test_bindings_come_and_go_between_publishes(channel, name):
    queue = name()
    channel.queue_declare(queue)
    inbox = Inbox(channel, queue, auto_ack=True)
    for turn in range(20):
        channel.queue_bind(queue, "amq.topic", f"{queue}.{turn}.#")
        channel.basic_publish("amq.topic", f"{queue}.{turn}.x", b"%d" % turn)
        channel.queue_unbind(queue, "amq.topic", f"{queue}.{turn}.#")
        channel.basic_publish("amq.topic", f"{queue}.{turn}.x", b"lost")
    assert inbox.wait_for(20) == [b"%d" % turn for turn in range(20)]
    settle(channel)
    assert len(inbox.bodies) == 20


@pytest.mark.parametrize("size", [1, 254, 255])
def test_names_of_any_length_and_script(channel, size):
    queue = ("ü" * size).encode()[: size - size % 2 or 1].decode(errors="ignore") or "q"
    channel.queue_declare(queue, exclusive=True)
    channel.basic_publish("", queue, b"1")
    assert drain(channel, queue) == [b"1"]


def test_arguments_nobody_knows_are_kept(channel, name):
    queue = name()
    channel.queue_declare(queue, arguments={"x-made-up": "value", "another": [1, {"a": None}]})
    channel.queue_declare(queue, arguments={"x-made-up": "other"})


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"x-max-length": -1}, "invalid arg 'x-max-length' for queue '{queue}' in vhost '/': "),
        ({"x-expires": 0}, "invalid arg 'x-expires' for queue '{queue}' in vhost '/': "),
        ({"x-message-ttl": "1"}, "invalid arg 'x-message-ttl' for queue '{queue}' in vhost '/': "),
    ],
    ids=["x-max-length", "x-expires", "x-message-ttl"],
)
def test_invalid_arguments(channel, name, arguments, text):
    queue = name()
    with pytest.raises(ChannelClosedByBroker) as caught:
        channel.queue_declare(queue, arguments=arguments)
    assert caught.value.reply_code == 406
    assert text.format(queue=queue) in caught.value.reply_text


def test_priority_queue_delivers_high_priorities_first(channel, name):
    queue = name()
    channel.queue_declare(queue, arguments={"x-max-priority": 5})
    for body, priority in [(b"a", 1), (b"b", 5), (b"c", None), (b"d", 9), (b"e", 1), (b"f", 0)]:
        channel.basic_publish("", queue, body, BasicProperties(priority=priority))
    assert drain(channel, queue) == [b"b", b"d", b"a", b"e", b"c", b"f"]
