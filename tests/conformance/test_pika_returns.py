"""Messages that come back as pika sees them: how often, after how long, and who took too long.

Quorum queues, and what is said of them, are RabbitMQ's; on other queues it knows none of this.
"""

import time
from itertools import pairwise

import pika
import pytest
from pika import BasicProperties
from pika.adapters.blocking_connection import BlockingConnection
from pika.exceptions import ChannelClosedByBroker
from tests.conformance.marks import differs
from tests.conformance.pika_steps import Inbox, channel_closed, depth, pump, settle

from leporid.testing import BrokerProcess

QUORUM = {"x-queue-type": "quorum"}
MINE = BasicProperties(headers={"mine": 1})


def counts_of(inbox):
    """How often each had come back; the first delivery does not say."""
    return [(each.headers or {}).get("x-delivery-count") for each in inbox.properties]


def counts_up_to(last):
    return [None, *range(1, last + 1)]


def return_all(channel, inbox, until):
    """Give back whatever comes, until something is true."""
    returned = 0

    def done():
        nonlocal returned
        for method in inbox.deliveries[returned:]:
            channel.basic_nack(method.delivery_tag, requeue=True)
            returned += 1
        return until()

    pump(channel.connection, done)


@pytest.fixture(params=["quorum", pytest.param("classic", marks=differs)])
def limited(request, channel, name):
    """Make a durable queue with a delivery limit, and its morgue; returns both names."""

    def make(limit):
        queue, morgue = name("limited"), name("morgue")
        channel.queue_declare(morgue, durable=True)
        arguments = {
            "x-queue-type": request.param,
            "x-delivery-limit": limit,
            "x-dead-letter-exchange": "",
            "x-dead-letter-routing-key": morgue,
        }
        channel.queue_declare(queue, durable=True, arguments=arguments)
        return queue, morgue

    return make


@pytest.mark.parametrize("limit", [0, 1, 3])
def test_a_message_that_always_comes_back_is_a_dead_letter(channel, limited, limit):
    queue, morgue = limited(limit)
    channel.basic_publish("", queue, b"poison", MINE)
    inbox, dead = Inbox(channel, queue), Inbox(channel, morgue, auto_ack=True)
    return_all(channel, inbox, lambda: bool(dead.bodies))
    assert dead.bodies == [b"poison"]
    assert counts_of(inbox) == counts_up_to(limit)
    assert [each.redelivered for each in inbox.deliveries] == [False] + [True] * limit
    assert all(each.headers["mine"] == 1 for each in inbox.properties)
    headers = dead.properties[0].headers
    (death,) = headers["x-death"]
    assert (death["reason"], death["queue"], death["count"]) == ("delivery_limit", queue, 1)
    assert headers["x-first-death-reason"] == "delivery_limit"


def test_the_end_of_a_channel_counts(connection, channel, limited):
    queue, morgue = limited(1)
    dead = Inbox(channel, morgue, auto_ack=True)
    channel.basic_publish("", queue, b"poison")
    for count in range(2):
        other = connection.channel()
        inbox = Inbox(other, queue)
        inbox.wait_for(1)
        assert counts_of(inbox) == [count or None]
        other.close()
    dead.wait_for(1)
    assert dead.bodies == [b"poison"]


def test_recover_counts(channel, limited):
    queue, _ = limited(100)
    channel.basic_publish("", queue, b"x")
    inbox = Inbox(channel, queue)
    for count in range(3):
        inbox.wait_for(count + 1)
        channel.basic_recover(requeue=True)
    inbox.wait_for(4)
    assert counts_of(inbox) == counts_up_to(3)


@pytest.mark.parametrize("written", [7, "seven", None])
def test_what_a_publisher_writes_there_stays_until_it_comes_back(channel, name, written):
    queue = name()
    channel.queue_declare(queue, durable=True, arguments=QUORUM)
    headers = {"x-delivery-count": written, "mine": 1}
    channel.basic_publish("", queue, b"x", BasicProperties(headers=headers))
    inbox = Inbox(channel, queue)
    inbox.wait_for(1)
    channel.basic_nack(inbox.deliveries[0].delivery_tag, requeue=True)
    inbox.wait_for(2)
    first, second = (each.headers for each in inbox.properties)
    assert (first, second) == (headers, {"x-delivery-count": 1, "mine": 1})


def test_get_says_the_count_too(channel, name):
    queue = name()
    channel.queue_declare(queue, durable=True, arguments=QUORUM)
    channel.basic_publish("", queue, b"x", BasicProperties(headers={"x-delivery-count": 7}))
    got = []

    def fetched():
        method, properties, _ = channel.basic_get(queue)
        if method is not None:
            got.append((properties.headers["x-delivery-count"], method.redelivered))
            channel.basic_nack(method.delivery_tag, requeue=True)
        return len(got) == 3

    pump(channel.connection, fetched)
    assert got == [(0, False), (1, True), (2, True)]


def test_a_count_is_not_kept_by_another_queue(channel, name):
    first, second = name("first"), name("second")
    channel.queue_declare(first, durable=True, arguments=QUORUM)
    channel.queue_declare(second, durable=True)
    channel.basic_publish("", first, b"x")
    inbox = Inbox(channel, first)
    inbox.wait_for(1)
    channel.basic_nack(inbox.deliveries[0].delivery_tag, requeue=True)
    inbox.wait_for(2)
    channel.basic_publish("", second, b"x", inbox.properties[1])
    _, properties, _ = channel.basic_get(second, auto_ack=True)
    # A publisher may write what it likes; a queue that does not count leaves it alone.
    assert properties.headers == {"x-delivery-count": 1}


@differs  # RabbitMQ 4 has the same limit, 3.10 none
def test_a_quorum_queue_gives_up_after_twenty_returns(channel, name):
    queue = name()
    channel.queue_declare(queue, durable=True, arguments=QUORUM)
    channel.basic_publish("", queue, b"x")
    inbox = Inbox(channel, queue)
    return_all(channel, inbox, lambda: len(inbox.bodies) == 21)
    settle(channel)
    assert counts_of(inbox) == counts_up_to(20)
    assert depth(channel, queue) == 0


# ------------------------------------------------------------------ what takes too long


def timed_out(channel, number, timeout_ms):
    """Expect that a channel is closed because a delivery was not settled in time."""
    text = (
        f"PRECONDITION_FAILED - delivery acknowledgement on channel {number} timed out. Timeout "
        f"value used: {timeout_ms} ms. This timeout value can be configured, see consumers doc "
        "guide to learn more"
    )
    closed = []
    channel._impl.add_on_close_callback(
        lambda _, why: closed.append((why.reply_code, why.reply_text))
    )
    pump(channel.connection, lambda: bool(closed))
    assert closed == [(406, text)]


@differs
@pytest.mark.parametrize("kind", ["classic", "quorum"])
def test_an_overdue_delivery_closes_its_channel(connection, channel, name, kind):
    queue = name()
    arguments = {"x-queue-type": kind, "x-consumer-timeout": 300}
    channel.queue_declare(queue, durable=True, arguments=arguments)
    channel.basic_publish("", queue, b"x")
    slow = connection.channel()
    inbox = Inbox(slow, queue)
    inbox.wait_for(1)
    began = time.monotonic()
    timed_out(slow, slow.channel_number, 300)
    assert 0.2 < time.monotonic() - began < 3
    method, _, body = channel.basic_get(queue)
    assert (method.redelivered, body) == (True, b"x")


@differs
def test_what_was_fetched_is_overdue_too(connection, channel, name):
    queue = name()
    channel.queue_declare(queue, arguments={"x-consumer-timeout": 100})
    channel.basic_publish("", queue, b"x")
    slow = connection.channel()
    assert slow.basic_get(queue)[2] == b"x"
    timed_out(slow, slow.channel_number, 100)


@differs
def test_everybodys_timeout(tmp_path):
    config = tmp_path / "leporid.toml"
    config.write_text("consumer_timeout_ms = 200\n")
    with BrokerProcess(tmp_path / "data", options=["--config", str(config)]) as broker:
        connection = BlockingConnection(pika.URLParameters(broker.url))
        channel = connection.channel()
        channel.queue_declare("q")
        channel.basic_publish("", "q", b"x")
        Inbox(channel, "q").wait_for(1)
        timed_out(channel, 1, 200)
        connection.close()


@differs
def test_an_overdue_message_goes_back_alone(connection, channel, name):
    """The retry on time-out: the channel lives, and settling late is no mistake."""
    queue = name()
    channel.queue_declare(
        queue,
        arguments={"x-consumer-timeout": 100, "x-consumer-timeout-action": "requeue"},
    )
    channel.basic_qos(prefetch_count=1)
    channel.basic_publish("", queue, b"x")
    slow = Inbox(channel, queue, arguments={"x-priority": 1})
    slow.wait_for(2)
    channel.basic_ack(slow.deliveries[0].delivery_tag)
    channel.basic_ack(slow.deliveries[1].delivery_tag)
    settle(channel)
    assert [each.redelivered for each in slow.deliveries[:2]] == [False, True]
    assert depth(channel, queue) == 0
    with channel_closed(406, "PRECONDITION_FAILED - unknown delivery tag 1"):
        channel.basic_ack(slow.deliveries[0].delivery_tag)
        settle(channel)


@differs
@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"x-consumer-timeout": -1}, "'x-consumer-timeout' for {}: {{value_negative,-1}}"),
        (
            {"x-consumer-timeout-action": "wait"},
            "'x-consumer-timeout-action' for {}: invalid_consumer_timeout_action",
        ),
        (
            {"x-delayed-retry-type": "some"},
            "'x-delayed-retry-type' for {}: invalid_delayed_retry_type",
        ),
    ],
)
def test_bad_arguments(channel, name, arguments, text):
    queue = name()
    with pytest.raises(ChannelClosedByBroker) as caught:
        channel.queue_declare(queue, arguments=arguments)
    title = f"queue '{queue}' in vhost '/'"
    assert caught.value.reply_code == 406
    assert caught.value.reply_text == f"PRECONDITION_FAILED - invalid arg {text.format(title)}"


# ------------------------------------------------------------------ what waits before it is tried


@differs
@pytest.mark.parametrize("kind", ["classic", "quorum"])
def test_each_retry_waits_for_longer(channel, name, kind):
    queue = name()
    arguments = {
        "x-queue-type": kind,
        "x-delayed-retry-type": "all",
        "x-delayed-retry-min": 100,
        "x-delayed-retry-max": 200,
    }
    channel.queue_declare(queue, durable=True, arguments=arguments)
    channel.basic_publish("", queue, b"x")
    inbox = Inbox(channel, queue)
    came: list[float] = []

    def arrived():
        while len(came) < len(inbox.deliveries):
            came.append(time.monotonic())
            channel.basic_nack(inbox.deliveries[len(came) - 1].delivery_tag, requeue=True)
        return len(came) == 4

    pump(channel.connection, arrived)
    waited = [later - earlier for earlier, later in pairwise(came)]
    least = (0.09, 0.19, 0.19)
    assert all(each > wanted for each, wanted in zip(waited, least, strict=True)), waited
    assert counts_of(inbox) == counts_up_to(3)


@differs
def test_what_waits_to_be_tried_again_keeps_nobody_else_waiting(channel, name):
    queue = name()
    arguments = {"x-delayed-retry-type": "failed", "x-delayed-retry-min": 60_000}
    channel.queue_declare(queue, arguments=arguments)
    for body in (b"fails", b"works"):
        channel.basic_publish("", queue, body)
    method, _, body = channel.basic_get(queue)
    assert body == b"fails"
    channel.basic_reject(method.delivery_tag, requeue=True)
    method, _, body = channel.basic_get(queue)
    assert body == b"works"
    channel.basic_nack(method.delivery_tag, requeue=True)  # this is not a failure
    assert channel.basic_get(queue, auto_ack=True)[2] == b"works"
    assert depth(channel, queue) == 0
    assert channel.queue_purge(queue).method.message_count == 1
