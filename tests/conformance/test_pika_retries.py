"""What applications build from queue arguments, and what hostile ones try.

The arguments one by one are in test_pika_queue_arguments.py. Nothing here waits for time to pass: a
message that must expire is waited for where it goes, its dead-letter queue.
"""

import contextlib

import pytest
from pika.exceptions import AMQPError, NackError
from tests.conformance.pika_steps import (
    Inbox,
    RawProperties,
    channel_closed,
    depth,
    drain,
    headers_only,
    publish_all,
    pump,
    settle,
)


@pytest.fixture
def graveyard(channel, name):
    """A queue, and the arguments that send the dead letters of another queue there."""
    queue = name("graveyard")
    channel.queue_declare(queue)
    return queue, {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": queue}


def test_other_queues_keep_what_one_refuses(channel, name):
    exchange, small, big = name("exchange"), name("small"), name("big")
    channel.exchange_declare(exchange, "fanout")
    channel.queue_declare(small, arguments={"x-max-length": 1, "x-overflow": "reject-publish"})
    channel.queue_declare(big)
    for queue in (small, big):
        channel.queue_bind(queue, exchange)
    channel.basic_publish(exchange, "", b"1")
    with pytest.raises(NackError):
        channel.basic_publish(exchange, "", b"2")
    assert (drain(channel, small), drain(channel, big)) == ([b"1"], [b"1", b"2"])


@pytest.mark.parametrize(
    "raw", [b"\x7f\xf8" + b"\0" * 6, b"\x7f\xf0" + b"\0" * 6], ids=["no number", "infinite"]
)
def test_headers_that_are_no_numbers_harm_nobody(channel, connect, name, graveyard, raw):
    """Whatever becomes of such a message, those behind it are not kept by it."""
    queue = name()
    dead, arguments = graveyard
    channel.queue_declare(queue, arguments={"x-message-ttl": 20, **arguments})
    stranger = connect().channel()
    stranger._impl.basic_publish("", queue, b"", RawProperties(headers_only([("n", b"d", raw)])))
    with contextlib.suppress(AMQPError):
        settle(stranger)
    publish_all(channel, queue, [b"next"])
    pump(channel.connection, lambda: depth(channel, queue) == 0)
    channel.basic_publish("", queue, b"last")
    pump(channel.connection, lambda: depth(channel, dead) >= 2)
    assert drain(channel, dead)[-2:] == [b"next", b"last"]


def test_retry_ladder(channel, name):
    """The usual way to retry later: reject, wait in a queue without consumers, come back."""
    work, later = name("work"), name("later")
    channel.queue_declare(
        work, arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": later}
    )
    channel.queue_declare(
        later,
        arguments={
            "x-message-ttl": 10,
            "x-dead-letter-exchange": "",
            "x-dead-letter-routing-key": work,
        },
    )
    publish_all(channel, work, [b"job"])
    inbox = Inbox(channel, work)
    for attempt in range(4):
        inbox.wait_for(attempt + 1)
        headers = inbox.properties[-1].headers or {}
        counts = {
            (death["queue"], death["reason"]): death["count"]
            for death in headers.get("x-death", [])
        }
        wanted = {(work, "rejected"): attempt, (later, "expired"): attempt} if attempt else {}
        assert counts == wanted
        channel.basic_nack(inbox.deliveries[-1].delivery_tag, requeue=False)


def test_unused_queue_expires(channel, name, graveyard):
    """When the queue expires its consumerless life is over; another queue's clock tells when."""
    queue, clock = name(), name("clock")
    dead, arguments = graveyard
    channel.queue_declare(clock, arguments={"x-message-ttl": 500, **arguments})
    channel.queue_declare(queue, arguments={"x-expires": 20})
    publish_all(channel, clock, [b"half a second is over"])
    Inbox(channel, dead).wait_for(1)
    with channel_closed(404, f"NOT_FOUND - no queue '{queue}' in vhost '/'"):
        channel.queue_declare(queue, passive=True)
