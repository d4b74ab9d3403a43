"""Consuming and settling as pika sees them: get, qos, ack, nack, requeue, priorities, cancel."""

import os
from collections import Counter
from functools import partial

import pytest
from tests.conformance.pika_steps import (
    Inbox,
    channel_closed,
    connection_closed,
    depth,
    drain,
    publish_all,
    pump,
    settle,
)

FRAME_PAYLOAD_MAX = 131_072 - 8


@pytest.fixture
def queue(channel, name):
    """A transient queue."""
    queue = name("queue")
    channel.queue_declare(queue)
    return queue


@pytest.fixture
def ten(channel, queue):
    """A queue with the messages 0 to 9."""
    publish_all(channel, queue, [b"%d" % number for number in range(10)])
    return queue


def test_get_tells_how_many_are_left(channel, ten):
    method, _, body = channel.basic_get(ten)
    assert (method.delivery_tag, method.message_count, body) == (1, 9, b"0")
    assert (method.exchange, method.routing_key, method.redelivered) == ("", ten, False)
    channel.queue_purge(ten)
    assert channel.basic_get(ten) == (None, None, None)


def test_get_from_a_missing_queue(channel, name):
    missing = name()
    with channel_closed(404, f"NOT_FOUND - no queue '{missing}' in vhost '/'"):
        channel.basic_get(missing)


def test_prefetch_limits_what_is_unacked(channel, ten):
    channel.basic_qos(prefetch_count=3)
    inbox = Inbox(channel, ten)
    assert inbox.wait_for(3) == [b"0", b"1", b"2"]
    settle(channel)
    assert len(inbox.bodies) == 3
    channel.basic_ack(inbox.deliveries[1].delivery_tag)
    assert inbox.wait_for(4)[3] == b"3"
    settle(channel)
    assert len(inbox.bodies) == 4
    channel.basic_ack(inbox.deliveries[3].delivery_tag, multiple=True)
    assert inbox.wait_for(7)[4:] == [b"4", b"5", b"6"]
    settle(channel)
    assert len(inbox.bodies) == 7


def test_prefetch_is_for_each_consumer(channel, ten, name):
    other = name("other")
    channel.queue_declare(other)
    publish_all(channel, other, [b"a", b"b", b"c"])
    channel.basic_qos(prefetch_count=2)
    first, second = Inbox(channel, ten), Inbox(channel, other)
    first.wait_for(2)
    second.wait_for(2)
    settle(channel)
    assert (first.bodies, second.bodies) == ([b"0", b"1"], [b"a", b"b"])


def test_global_prefetch_is_for_the_whole_channel(channel, ten, name):
    other = name("other")
    channel.queue_declare(other)
    publish_all(channel, other, [b"a", b"b", b"c"])
    channel.basic_qos(prefetch_count=3, global_qos=True)
    first = Inbox(channel, ten)
    first.wait_for(3)
    second = Inbox(channel, other)
    settle(channel)
    assert (len(first.bodies), len(second.bodies)) == (3, 0)
    channel.basic_ack(0, multiple=True)
    pump(channel.connection, lambda: len(first.bodies) + len(second.bodies) == 6)
    settle(channel)
    assert len(first.bodies) + len(second.bodies) == 6


def test_queues_take_turns_under_a_global_prefetch(channel, name):
    channel.basic_qos(prefetch_count=1, global_qos=True)
    taken = []
    for label in "abc":
        queue = name(label)
        channel.queue_declare(queue)
        publish_all(channel, queue, [label.encode()] * 100)

        def take(channel, method, _properties, body):
            taken.append(body)
            channel.basic_ack(method.delivery_tag)

        channel.basic_consume(queue, take)
    pump(channel.connection, lambda: len(taken) >= 90)
    # In turn here, by chance in RabbitMQ.
    assert min(Counter(taken[:90])[label] for label in (b"a", b"b", b"c")) >= 10


def test_consumers_of_one_queue_take_turns_under_a_global_prefetch(channel, ten):
    publish_all(channel, ten, [b"more"] * 20)
    channel.basic_qos(prefetch_count=10, global_qos=True)
    first = Inbox(channel, ten)
    first.wait_for(10)
    second = Inbox(channel, ten)
    settle(channel)
    assert second.bodies == []

    def arrived(count: int) -> bool:
        return len(first.bodies) + len(second.bodies) == count

    for at, delivery in enumerate(first.deliveries[:10], 11):
        channel.basic_ack(delivery.delivery_tag)
        pump(channel.connection, partial(arrived, at))
    assert (len(first.bodies), len(second.bodies)) == (15, 5)


def test_no_ack_consumers_get_nothing_while_a_global_prefetch_is_used_up(channel, ten, name):
    other = name("other")
    channel.queue_declare(other)
    publish_all(channel, other, [b"x"] * 50)
    channel.basic_qos(prefetch_count=10, global_qos=True)
    inbox = Inbox(channel, ten)
    inbox.wait_for(10)
    without = Inbox(channel, other, auto_ack=True)
    settle(channel)
    assert without.bodies == []
    channel.basic_ack(inbox.deliveries[0].delivery_tag)
    without.wait_for(50)


def test_no_ack_consumers_have_no_limit(channel, ten):
    channel.basic_qos(prefetch_count=1)
    inbox = Inbox(channel, ten, auto_ack=True)
    assert inbox.wait_for(10) == [b"%d" % number for number in range(10)]
    assert depth(channel, ten) == 0


def test_prefetch_size_is_not_implemented(channel):
    with connection_closed(540, "NOT_IMPLEMENTED - prefetch_size!=0 (1)"):
        channel.basic_qos(prefetch_size=1)


def test_requeued_messages_return_to_their_place(channel, ten):
    taken = [channel.basic_get(ten)[0].delivery_tag for _ in range(5)]
    for place in (3, 0, 2, 4, 1):
        channel.basic_nack(taken[place])
    assert drain(channel, ten) == [b"%d" % number for number in range(10)]


def test_nack_multiple(channel, ten):
    for _ in range(4):
        channel.basic_get(ten)
    channel.basic_ack(2)
    channel.basic_nack(3, multiple=True)
    method, _, body = channel.basic_get(ten, auto_ack=True)
    assert (body, method.redelivered) == (b"0", True)
    assert drain(channel, ten) == [b"2", *(b"%d" % number for number in range(4, 10))]
    channel.basic_nack(0, multiple=True)
    assert drain(channel, ten) == [b"3"]


def test_reject_without_requeue_drops(channel, ten):
    first = channel.basic_get(ten)[0]
    channel.basic_reject(first.delivery_tag, requeue=False)
    second = channel.basic_get(ten)[0]
    channel.basic_reject(second.delivery_tag, requeue=True)
    assert drain(channel, ten) == [b"%d" % number for number in range(1, 10)]


def test_redelivered_is_set_on_the_second_delivery_only(channel, ten):
    method, _, _ = channel.basic_get(ten)
    assert not method.redelivered
    channel.basic_nack(method.delivery_tag)
    flags = [channel.basic_get(ten)[0].redelivered for _ in range(3)]
    assert flags == [True, False, False]


def test_recover_requeues_everything_unacked(channel, ten):
    channel.basic_qos(prefetch_count=4)
    inbox = Inbox(channel, ten)
    inbox.wait_for(4)
    channel.basic_ack(2)
    assert inbox.wait_for(5)[4] == b"4"
    channel.basic_recover(requeue=True)
    assert inbox.wait_for(9)[5:] == [b"0", b"2", b"3", b"4"]
    assert [each.redelivered for each in inbox.deliveries[5:]] == [True] * 4


def test_recover_without_requeue_is_not_implemented(channel):
    with connection_closed(540, "NOT_IMPLEMENTED - requeue=false"):
        channel.basic_recover(requeue=False)


@pytest.mark.parametrize("act", ["basic_ack", "basic_nack", "basic_reject"])
def test_settling_an_unknown_tag(channel, queue, act):
    getattr(channel, act)(7)
    with channel_closed(406, "PRECONDITION_FAILED - unknown delivery tag 7"):
        settle(channel)


def test_settling_twice(channel, ten):
    channel.basic_get(ten)
    channel.basic_ack(1)
    channel.basic_ack(1)
    with channel_closed(406, "PRECONDITION_FAILED - unknown delivery tag 1"):
        settle(channel)


def test_settling_all_of_nothing_is_fine(channel):
    channel.basic_ack(0, multiple=True)
    settle(channel)


def test_tags_belong_to_their_channel(channel, connection, ten):
    channel.basic_get(ten)
    other = connection.channel()
    other.basic_ack(1)
    with channel_closed(406, "PRECONDITION_FAILED - unknown delivery tag 1"):
        settle(other)
    channel.basic_ack(1)
    settle(channel)


def test_closing_a_channel_requeues_in_order(channel, connection, ten):
    other = connection.channel()
    inbox = Inbox(other, ten)
    inbox.wait_for(10)
    other.basic_ack(inbox.deliveries[4].delivery_tag)
    other.close()
    assert drain(channel, ten) == [b"%d" % number for number in range(10) if number != 4]


def test_lost_connection_requeues(channel, connect, ten):
    doomed = connect()
    inbox = Inbox(doomed.channel(), ten)
    inbox.wait_for(10)
    waiting = Inbox(channel, ten)
    doomed.close()
    assert waiting.wait_for(10) == [b"%d" % number for number in range(10)]
    assert {each.redelivered for each in waiting.deliveries} == {True}


def test_cancelled_consumer_keeps_its_unacked_deliveries(channel, ten):
    channel.basic_qos(prefetch_count=2)
    inbox = Inbox(channel, ten)
    inbox.wait_for(2)
    channel.basic_cancel(inbox.tag)
    assert depth(channel, ten) == 8
    channel.basic_ack(1)
    channel.basic_nack(2)
    assert drain(channel, ten) == [b"%d" % number for number in range(1, 10)]


def test_consumers_of_one_priority_take_turns(channel, connection, queue):
    channels = [connection.channel() for _ in range(3)]
    inboxes = [Inbox(each, queue, auto_ack=True) for each in channels]
    publish_all(channel, queue, [b"%d" % number for number in range(9)])
    pump(connection, lambda: sum(len(each.bodies) for each in inboxes) == 9)
    assert [len(each.bodies) for each in inboxes] == [3, 3, 3]


def test_consumers_of_a_higher_priority_come_first(channel, connection, queue):
    low, high = connection.channel(), connection.channel()
    for each in (low, high):
        each.basic_qos(prefetch_count=2)
    last = Inbox(low, queue)
    first = Inbox(high, queue, arguments={"x-priority": 10})
    publish_all(channel, queue, [b"0", b"1", b"2"])
    pump(connection, lambda: len(first.bodies) + len(last.bodies) == 3)
    assert (first.bodies, last.bodies) == ([b"0", b"1"], [b"2"])
    high.basic_ack(0, multiple=True)
    publish_all(channel, queue, [b"3"])
    assert first.wait_for(3)[2] == b"3"


def test_consumer_priority_must_be_a_number(channel, queue):
    text = "invalid arg 'x-priority' for queue '%s' in vhost '/': \"expected integer, got longstr\""
    with channel_closed(406, "PRECONDITION_FAILED - " + text % queue):
        channel.basic_consume(queue, print, arguments={"x-priority": "high"})


def test_exclusive_consumer_keeps_others_out(channel, connection, queue):
    inbox = Inbox(channel, queue, exclusive=True)
    text = f"ACCESS_REFUSED - queue '{queue}' in vhost '/' in exclusive use"
    with channel_closed(403, text):
        connection.channel().basic_consume(queue, print)
    channel.basic_cancel(inbox.tag)
    other = connection.channel()
    Inbox(other, queue)
    with channel_closed(403, text):
        channel.basic_consume(queue, print, exclusive=True)


def test_consuming_from_a_missing_queue(channel, name):
    missing = name()
    with channel_closed(404, f"NOT_FOUND - no queue '{missing}' in vhost '/'"):
        channel.basic_consume(missing, print)


def test_server_made_consumer_tags(channel, queue):
    tags = [Inbox(channel, queue, consumer_tag="").tag for _ in range(3)]
    assert len(set(tags)) == 3


def test_consume_generator_and_inactivity(channel, ten):
    got = []
    for method, _, body in channel.consume(ten, inactivity_timeout=0.05):
        if method is None:
            break
        got.append(body)
        channel.basic_ack(method.delivery_tag)
    channel.cancel()
    assert got == [b"%d" % number for number in range(10)]
    assert depth(channel, ten) == 0


@pytest.mark.parametrize(
    "size",
    [
        0,
        1,
        FRAME_PAYLOAD_MAX - 1,
        FRAME_PAYLOAD_MAX,
        FRAME_PAYLOAD_MAX + 1,
        3 * FRAME_PAYLOAD_MAX,
        9_000_001,
    ],
)
def test_bodies_of_every_size_are_kept(channel, queue, size):
    body = os.urandom(size)
    channel.basic_publish("", queue, body)
    assert channel.basic_get(queue, auto_ack=True)[2] == body
    inbox = Inbox(channel, queue)
    channel.basic_publish("", queue, body)
    assert inbox.wait_for(1) == [body]


def test_big_bodies_through_small_frames(connect, queue):
    small = connect(frame_max=4096).channel()
    small.confirm_delivery()
    body = os.urandom(1_000_000)
    small.basic_publish("", queue, body)
    small.basic_publish("", queue, b"next")
    inbox = Inbox(small, queue)
    assert inbox.wait_for(2) == [body, b"next"]


def test_many_messages_arrive_in_order(connection, queue):
    sender, receiver = connection.channel(), connection.channel()
    bodies = [b"%d" % number for number in range(3000)]
    got = []

    def take(_channel, method, _properties, body):
        got.append(body)
        if method.delivery_tag % 50 == 0:
            receiver.basic_ack(method.delivery_tag, multiple=True)

    receiver.basic_qos(prefetch_count=100)
    receiver.basic_consume(queue, take)
    publish_all(sender, queue, bodies)
    pump(connection, lambda: len(got) == len(bodies))
    assert got == bodies
