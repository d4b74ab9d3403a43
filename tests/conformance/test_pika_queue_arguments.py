"""Queue arguments as pika sees them: time to live, bounds, dead letters, priorities, one consumer.

Whoever waits for a message to die waits for it in the queue its dead letters go to, the morgue.
"""

import time
from calendar import timegm
from contextlib import suppress

import pika
import pytest
from pika import BasicProperties
from pika.adapters.blocking_connection import BlockingConnection
from pika.exceptions import AMQPError, NackError
from tests.conformance.marks import differs
from tests.conformance.pika_steps import (
    Inbox,
    channel_closed,
    depth,
    drain,
    publish_all,
    settle,
)

# For what must not expire while a test runs.
LONG_MS = 600_000


@pytest.fixture
def dying(channel, name):
    """Make a queue with a morgue; returns the names of both."""

    def make(arguments=None):
        queue, morgue = name("queue"), name("morgue")
        channel.queue_declare(morgue)
        channel.queue_declare(queue, arguments=letters_to(morgue) | (arguments or {}))
        return queue, morgue

    return make


@pytest.fixture
def revived(own_broker):
    """Kill the broker and start it again; returns a new confirming channel, at first too."""
    opened = []

    def revive(kill=True):
        if kill:
            own_broker.kill()
            own_broker.start()
        opened.append(BlockingConnection(pika.URLParameters(own_broker.url)))
        channel = opened[-1].channel()
        channel.confirm_delivery()
        return channel

    yield revive
    for connection in opened:
        with suppress(AMQPError):
            connection.close()


def letters_to(queue):
    return {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": queue}


def mortal(ttl_ms, **properties):
    return BasicProperties(expiration=str(ttl_ms), **properties)


def reject_next(channel, queue):
    method, _, _ = channel.basic_get(queue)
    channel.basic_reject(method.delivery_tag, requeue=False)


def reject_when_there(channel, queue):
    """Reject one message as soon as it comes; returns its properties."""
    inbox = Inbox(channel, queue)
    inbox.wait_for(1)
    channel.basic_reject(inbox.deliveries[0].delivery_tag, requeue=False)
    channel.basic_cancel(inbox.tag)
    return inbox.properties[0]


def deaths_in(properties):
    """The x-death header without the times, which must be those of this test."""
    deaths = [dict(death) for death in properties.headers["x-death"]]
    for death in deaths:
        assert abs(timegm(death.pop("time").utctimetuple()) - time.time()) < 60
    return deaths


def first_death(properties):
    parts = ("reason", "queue", "exchange")
    return tuple(properties.headers[f"x-first-death-{part}"] for part in parts)


# ---------------------------------------------------------------------- time to live


@pytest.mark.parametrize(
    ("queue_ms", "message_ms"),
    [(50, None), (None, 50), (50, LONG_MS), (LONG_MS, 50), (0, None), (None, 0), (0, LONG_MS)],
)
def test_messages_expire_after_the_shorter_time(channel, dying, queue_ms, message_ms):
    queue, morgue = dying({} if queue_ms is None else {"x-message-ttl": queue_ms})
    properties = BasicProperties() if message_ms is None else mortal(message_ms)
    channel.basic_publish("", queue, b"1", properties)
    assert Inbox(channel, morgue).wait_for(1) == [b"1"]
    assert depth(channel, queue) == 0


@pytest.mark.parametrize("arguments", [{}, {"x-message-ttl": 0}])
def test_time_to_live_of_zero_is_enough_for_a_waiting_consumer(channel, dying, arguments):
    queue, morgue = dying(arguments)
    channel.basic_qos(prefetch_count=1)
    inbox = Inbox(channel, queue)
    for body in (b"taken", b"too late"):
        channel.basic_publish("", queue, body, mortal(0))
    assert Inbox(channel, morgue, auto_ack=True).wait_for(1) == [b"too late"]
    assert inbox.wait_for(1) == [b"taken"]


@differs
def test_messages_expire_in_the_middle_of_a_queue(channel, dying):
    queue, morgue = dying({"x-message-ttl": LONG_MS})
    for body, ttl_ms in [(b"1", LONG_MS), (b"2", 80), (b"3", LONG_MS), (b"4", 20)]:
        channel.basic_publish("", queue, body, mortal(ttl_ms))
    assert Inbox(channel, morgue).wait_for(2) == [b"4", b"2"]
    assert depth(channel, queue) == 2
    assert drain(channel, queue) == [b"1", b"3"]


def test_a_message_that_is_held_expires_when_it_comes_back(channel, dying):
    queue, morgue = dying()
    dead = Inbox(channel, morgue)
    channel.basic_publish("", queue, b"held", mortal(1000))
    method, _, _ = channel.basic_get(queue)
    channel.basic_publish("", queue, b"clock", mortal(1000))
    assert dead.wait_for(1) == [b"clock"]
    channel.basic_nack(method.delivery_tag)
    assert dead.wait_for(2) == [b"clock", b"held"]
    assert depth(channel, queue) == 0


# ---------------------------------------------------------------------- bounds


@pytest.mark.parametrize(
    ("arguments", "kept"),
    [
        ({"x-max-length": 2}, [b"3333", b"4"]),
        ({"x-max-length": 0}, []),
        ({"x-max-length-bytes": 5}, [b"3333", b"4"]),
        ({"x-max-length-bytes": 4}, [b"4"]),
        ({"x-max-length": 3, "x-max-length-bytes": 7}, [b"22", b"3333", b"4"]),
    ],
)
def test_what_is_too_much_is_dropped_from_the_head(channel, dying, arguments, kept):
    queue, morgue = dying(arguments)
    bodies = [b"11111", b"22", b"3333", b"4"]
    publish_all(channel, queue, bodies)
    dropped = len(bodies) - len(kept)
    assert Inbox(channel, morgue).wait_for(dropped) == bodies[:dropped]
    assert drain(channel, queue) == kept


def test_what_is_held_does_not_count_until_it_comes_back(channel, dying):
    queue, morgue = dying({"x-max-length": 2})
    publish_all(channel, queue, [b"1"])
    method, _, _ = channel.basic_get(queue)
    publish_all(channel, queue, [b"2", b"3"])
    assert depth(channel, queue) == 2
    channel.basic_nack(method.delivery_tag)
    assert Inbox(channel, morgue).wait_for(1) == [b"1"]
    assert drain(channel, queue) == [b"2", b"3"]


@pytest.mark.parametrize("limit", [{"x-max-length": 2}, {"x-max-length-bytes": 2}])
@pytest.mark.parametrize("overflow", ["reject-publish", "reject-publish-dlx"])
def test_a_full_queue_refuses(channel, dying, name, limit, overflow):
    queue, morgue = dying(limit | {"x-overflow": overflow})
    other = name("other")
    channel.queue_declare(other)
    for each in (queue, other):
        channel.queue_bind(each, "amq.direct", queue)
    publish_all(channel, queue, [b"1", b"2"])
    for body in (b"3", b"4"):
        with pytest.raises(NackError):
            channel.basic_publish("amq.direct", queue, body)
    assert drain(channel, other) == [b"3", b"4"]
    dead = Inbox(channel, morgue, auto_ack=True)
    dropped = 2 if overflow == "reject-publish-dlx" else 0
    assert dead.wait_for(dropped) == [b"3", b"4"][:dropped]
    assert all(deaths_in(each)[0]["reason"] == "maxlen" for each in dead.properties)
    assert drain(channel, queue) == [b"1", b"2"]
    publish_all(channel, queue, [b"5"])
    assert drain(channel, queue) == [b"5"]
    assert len(dead.bodies) == dropped


def test_a_full_queue_refuses_dead_letters_too(channel, name):
    queue, morgue, audit = name("queue"), name("morgue"), name("audit")
    channel.queue_declare(queue, arguments={"x-dead-letter-exchange": "amq.direct"})
    bound = {"x-max-length": 1, "x-overflow": "reject-publish"}
    for each, arguments in [(morgue, bound), (audit, {})]:
        channel.queue_declare(each, arguments=arguments)
        channel.queue_bind(each, "amq.direct", queue)
    publish_all(channel, queue, [b"1", b"2"])
    for _ in range(2):
        reject_next(channel, queue)
    assert Inbox(channel, audit).wait_for(2) == [b"1", b"2"]
    assert drain(channel, morgue) == [b"1"]


# ---------------------------------------------------------------------- dead letters


@pytest.mark.parametrize("reason", ["rejected", "nacked", "expired", "maxlen"])
def test_a_dead_letter_says_how_it_died(channel, dying, reason):
    queue, morgue = dying({"x-max-length": 0} if reason == "maxlen" else {})
    channel.queue_bind(queue, "amq.topic", f"{queue}.#")
    ttl_ms = 20 if reason == "expired" else LONG_MS
    sent = mortal(ttl_ms, headers={"mine": "kept"}, message_id="id", delivery_mode=2)
    channel.basic_publish("amq.topic", f"{queue}.key", b"body", sent)
    if reason == "nacked":
        method, _, _ = channel.basic_get(queue)
        channel.basic_nack(method.delivery_tag, requeue=False)
        reason = "rejected"
    elif reason == "rejected":
        reject_next(channel, queue)
    inbox = Inbox(channel, morgue)
    assert inbox.wait_for(1) == [b"body"]
    (method,), (got,) = inbox.deliveries, inbox.properties
    assert (method.exchange, method.routing_key, method.redelivered) == ("", morgue, False)
    assert (got.expiration, got.message_id, got.delivery_mode) == (None, "id", 2)
    died = {"count": 1, "reason": reason, "queue": queue, "exchange": "amq.topic"}
    more = {"routing-keys": [f"{queue}.key"], "original-expiration": str(ttl_ms)}
    assert deaths_in(got) == [died | more]
    assert (*first_death(got), got.headers["mine"]) == (reason, queue, "amq.topic", "kept")


def test_deaths_are_counted_for_each_queue_and_reason(channel, name):
    work, wait = name("work"), name("wait")
    for queue, other, more in [(work, wait, {}), (wait, work, {"x-message-ttl": 10})]:
        channel.queue_declare(queue, arguments=letters_to(other) | more)
    publish_all(channel, work, [b"1"])
    assert reject_when_there(channel, work).headers is None
    for count in (1, 2, 3):
        got = reject_when_there(channel, work)
        deaths = [(each["queue"], each["reason"], each["count"]) for each in deaths_in(got)]
        assert deaths == [(wait, "expired", count), (work, "rejected", count)]
        assert "original-expiration" not in deaths_in(got)[0]
        assert first_death(got) == ("rejected", work, "")


def test_without_a_key_of_its_own_the_queue_keeps_the_keys(channel, name):
    queue, dlx = name("queue"), name("dlx")
    channel.exchange_declare(dlx, "topic")
    channel.queue_declare(queue, arguments={"x-dead-letter-exchange": dlx})
    morgues = [name("key"), name("copy")]
    for morgue, key in zip(morgues, (queue, "copied"), strict=True):
        channel.queue_declare(morgue)
        channel.queue_bind(morgue, dlx, key)
    channel.basic_publish("", queue, b"1", BasicProperties(headers={"CC": ["copied"]}))
    reject_next(channel, queue)
    for morgue in morgues:
        inbox = Inbox(channel, morgue)
        assert inbox.wait_for(1) == [b"1"]
        (method,), (got,) = inbox.deliveries, inbox.properties
        assert (method.exchange, method.routing_key) == (dlx, queue)
        assert deaths_in(got)[0]["routing-keys"] == [queue, "copied"]
        assert got.headers["CC"] == ["copied"]


def test_a_key_of_the_queue_replaces_all_keys(channel, dying, name):
    queue, morgue = dying()
    copied = name("copied")
    channel.queue_declare(copied)
    channel.basic_publish("", queue, b"1", BasicProperties(headers={"CC": [copied]}))
    assert drain(channel, copied) == [b"1"]
    reject_next(channel, queue)
    inbox = Inbox(channel, morgue)
    inbox.wait_for(1)
    assert deaths_in(inbox.properties[0])[0]["routing-keys"] == [queue, copied]
    assert "CC" not in inbox.properties[0].headers
    assert depth(channel, copied) == 0


@pytest.mark.parametrize("rejected", [False, True])
def test_a_circle_ends_unless_somebody_rejected(channel, name, rejected):
    first, second, audit, dlx = name("first"), name("second"), name("audit"), name("dlx")
    channel.exchange_declare(dlx, "fanout")
    ttl = {} if rejected else {"x-message-ttl": 10}
    channel.queue_declare(first, arguments=letters_to(second) | ttl)
    channel.queue_declare(second, arguments={"x-dead-letter-exchange": dlx, "x-message-ttl": 10})
    channel.queue_declare(audit)
    channel.queue_bind(first, dlx)
    channel.queue_bind(audit, dlx)
    publish_all(channel, first, [b"1"])
    if rejected:
        reject_next(channel, first)
        assert Inbox(channel, first).wait_for(1) == [b"1"]
    assert Inbox(channel, audit).wait_for(1) == [b"1"]
    assert drain(channel, first) == drain(channel, second) == []


@pytest.mark.parametrize(
    ("claimed", "expected"),
    [
        ([("q", None)], [("q", 1)]),
        ([("q", None), ("q", None)], [("q", 3)]),
        ([("q", 2), ("q", 5)], [("q", 3)]),
        ([("q", None), ("q", 7), ("q", 1)], [("q", 4)]),
        ([("q", None), ("p", 1)], [("q", 2), ("p", 1)]),
        ([("p", None)], [("q", 1), ("p", None)]),
        ([("p", None), ("q", None), ("p", None), ("q", None)], [("q", 3), ("p", 2)]),
        ([("p", 2), ("p", 4)], [("q", 1), ("p", 2)]),
        ("text", [("q", 1)]),
    ],
)
def test_deaths_that_a_publisher_claims_are_folded(channel, dying, claimed, expected):
    queue, morgue = dying()
    names = {"q": queue, "p": "another"}
    if not isinstance(claimed, str):
        claimed = [
            {"queue": names[each], "reason": "rejected"}
            | ({} if count is None else {"count": count})
            for each, count in claimed
        ]
    channel.basic_publish("", queue, b"x", BasicProperties(headers={"x-death": claimed}))
    settle(channel)
    reject_next(channel, queue)
    inbox = Inbox(channel, morgue, auto_ack=True)
    inbox.wait_for(1)
    found = inbox.properties[0].headers["x-death"]
    assert [(each["queue"], each.get("count")) for each in found] == [
        (names[each], count) for each, count in expected
    ]


def test_without_its_exchange_a_dead_letter_is_gone(channel, name):
    queue, morgue, dlx = name("queue"), name("morgue"), name("dlx")
    channel.queue_declare(queue, arguments={"x-dead-letter-exchange": dlx})
    channel.queue_declare(morgue)
    publish_all(channel, queue, [b"1", b"2"])
    reject_next(channel, queue)
    assert depth(channel, queue) == 1
    channel.exchange_declare(dlx, "fanout")
    channel.queue_bind(morgue, dlx)
    reject_next(channel, queue)
    assert Inbox(channel, morgue).wait_for(1) == [b"2"]


# ---------------------------------------------------------------------- priorities, one consumer


def test_high_priorities_leave_first_and_go_back_to_their_place(channel, name):
    queue = name()
    channel.queue_declare(queue, arguments={"x-max-priority": 5})
    sent = [(b"a", 1), (b"b", 5), (b"c", None), (b"d", 200), (b"e", 1), (b"f", 0), (b"g", 5)]
    for body, priority in sent:
        channel.basic_publish("", queue, body, BasicProperties(priority=priority))
    held = [channel.basic_get(queue) for _ in range(4)]
    assert [body for _, _, body in held] == [b"b", b"d", b"g", b"a"]
    assert held[1][1].priority == 200
    for at in (3, 1):
        channel.basic_nack(held[at][0].delivery_tag)
    assert drain(channel, queue) == [b"d", b"a", b"e", b"c", b"f"]


def test_high_priorities_are_the_first_to_be_dropped(channel, dying):
    queue, morgue = dying({"x-max-priority": 5, "x-max-length": 2})
    for body, priority in [(b"a", 1), (b"b", 3), (b"c", 2), (b"d", 0)]:
        channel.basic_publish("", queue, body, BasicProperties(priority=priority))
    assert Inbox(channel, morgue).wait_for(2) == [b"b", b"c"]
    assert drain(channel, queue) == [b"a", b"d"]


def test_one_consumer_at_a_time(connect, channel, name):
    queue = name()
    channel.queue_declare(queue, arguments={"x-single-active-consumer": True})
    first, third = connect(), connect()
    channels = [first.channel(), first.channel(), third.channel()]
    inboxes = [Inbox(each, queue) for each in channels]
    publish_all(channel, queue, [b"1", b"2"])
    assert inboxes[0].wait_for(2) == [b"1", b"2"]
    channels[0].basic_ack(inboxes[0].deliveries[0].delivery_tag)
    # Cancelled, it keeps what it has; with its connection it gives that back.
    channels[0].basic_cancel(inboxes[0].tag)
    publish_all(channel, queue, [b"3"])
    assert inboxes[1].wait_for(1) == [b"3"]
    first.close()
    assert inboxes[2].wait_for(2) == [b"2", b"3"]
    assert [each.redelivered for each in inboxes[2].deliveries] == [True, True]


# ---------------------------------------------------------------------- after a crash


@pytest.mark.slow
def test_priorities_survive_a_crash(revived):
    channel = revived(kill=False)
    arguments = {"x-max-priority": 3, "x-max-length": 4}
    channel.queue_declare("q", durable=True, arguments=arguments)
    for body, priority in [(b"a", 1), (b"b", 9), (b"c", None), (b"d", 3)]:
        channel.basic_publish("", "q", body, BasicProperties(priority=priority, delivery_mode=2))
    channel = revived()
    channel.queue_declare("q", durable=True, arguments=arguments)
    assert drain(channel, "q") == [b"b", b"d", b"a", b"c"]


@pytest.mark.slow
def test_time_to_live_goes_on_over_a_crash(revived):
    ttl_ms, began = 2500, time.monotonic()
    channel = revived(kill=False)
    channel.queue_declare("morgue", durable=True)
    ttl = {"x-message-ttl": ttl_ms}
    channel.queue_declare("q", durable=True, arguments=letters_to("morgue") | ttl)
    channel.basic_publish("", "q", b"old", BasicProperties(delivery_mode=2))
    channel.basic_publish("", "q", b"gone", mortal(1, delivery_mode=2))
    channel = revived()
    # Dies after the old one only if the time before and during the restart counts.
    passed_ms = (time.monotonic() - began) * 1000
    channel.basic_publish("", "q", b"new", mortal(max(1, int(ttl_ms - passed_ms / 2))))
    bodies = Inbox(channel, "morgue").wait_for(3)
    assert list(dict.fromkeys(bodies)) == [b"gone", b"old", b"new"]


@pytest.mark.slow
def test_a_dead_letter_is_not_lost_in_a_crash(revived):
    channel = revived(kill=False)
    channel.queue_declare("morgue", durable=True)
    channel.queue_declare("q", durable=True, arguments=letters_to("morgue"))
    bodies = {b"%d" % number for number in range(50)}
    for body in bodies:
        channel.basic_publish("", "q", body, BasicProperties(delivery_mode=2))
    for _ in range(25):
        reject_next(channel, "q")
    channel = revived()
    assert {*drain(channel, "q"), *drain(channel, "morgue")} == bodies


def test_get_from_a_quorum_queue_with_a_single_active_consumer(channel, name):
    queue = name()
    arguments = {"x-queue-type": "quorum", "x-single-active-consumer": True}
    channel.queue_declare(queue, durable=True, arguments=arguments)
    text = (
        f"RESOURCE_LOCKED - cannot obtain access to locked queue '{queue}' in vhost '/'. basic.get "
        "operations are not supported by quorum queues with single active consumer"
    )
    with channel_closed(405, text):
        channel.basic_get(queue)


@pytest.mark.parametrize("kind", ["classic", "quorum"])
def test_the_single_active_consumer_stays_whatever_the_priorities(connection, name, kind):
    """And what it leaves unsettled when it is cancelled is still its own."""
    queue = name()
    channels = [connection.channel() for _ in range(2)]
    arguments = {"x-queue-type": kind, "x-single-active-consumer": True}
    channels[0].queue_declare(queue, durable=True, arguments=arguments)
    first = Inbox(channels[0], queue)
    settle(channels[0])
    second = Inbox(channels[1], queue, arguments={"x-priority": 10})
    settle(channels[1])
    channels[0].basic_publish("", queue, b"1")
    first.wait_for(1)
    channels[0].basic_cancel(first.tag)
    channels[0].basic_publish("", queue, b"2")
    second.wait_for(1)
    channels[0].close()
    assert second.wait_for(2) == [b"2", b"1"]
