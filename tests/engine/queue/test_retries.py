"""Retries: messages that are held before they are ready again, and what becomes of them then."""

from __future__ import annotations

import pytest
from tests.engine.allocations import allocated_bytes
from tests.engine.frames import PERSISTENT, Delivery, ack, nack, properties, publish, reject
from tests.engine.restarts import Broker
from tests.engine.slices import ended


def deliver(engine, peer, later_ms: int = 0) -> list[tuple[int, bytes]]:
    """What is delivered that much later: tags and bodies."""
    engine.clock.now_ms += later_ms
    return [(each.tag, each.body) for each in peer.deliveries()]


@pytest.fixture
def held(queue, peer):
    """A consumer of q, whose messages are held 100 ms for each return, 250 at most."""
    queue.set_retries("all", 100, 250)
    peer.channel.consume(queue, "c", False, 0, 0)
    return queue


def test_each_return_holds_a_message_for_longer(engine, held, peer):
    peer.feed(publish(2, "q", b"x"))
    assert deliver(engine, peer) == [(1, b"x")]
    for tag, delay_ms in enumerate((100, 200, 250, 250), 1):
        peer.feed(nack(1, tag))
        assert engine.next_due_ms == engine.clock.now_ms + delay_ms
        assert (held.ready_count, held.unacked_count, held.held_count) == (0, 0, 1)
        assert deliver(engine, peer, delay_ms - 1) == []
        assert deliver(engine, peer, 1) == [(tag + 1, b"x")]
    peer.feed(ack(1, 5))
    assert (held.ready_count, held.unacked_count, held.held_count) == (0, 0, 0)


def test_what_is_held_keeps_nobody_waiting_and_comes_back_to_its_place(engine, queue, peer):
    queue.set_retries("all", 100, 100)
    for text in (b"a", b"b", b"c"):
        peer.feed(publish(2, "q", text))
    assert peer.get(queue, no_ack=False).body == b"a"
    peer.feed(nack(1, 1))
    assert peer.get(queue).body == b"b"
    engine.clock.now_ms += 100
    assert peer.drain(queue) == [b"a", b"c"]


@pytest.mark.parametrize(
    ("kind", "rejected", "nacked", "recovered", "closed"),
    [
        ("disabled", 0, 0, 0, 0),
        ("failed", 1, 0, 0, 1),
        ("returned", 0, 1, 1, 0),
        ("all", 1, 1, 1, 1),
    ],
)
def test_what_counts_as_failed(queue, peer, kind, rejected, nacked, recovered, closed):
    """RabbitMQ's meaning: basic.reject and the end of a channel failed, basic.nack did not."""
    queue.set_retries(kind, 100, 100)
    seen = []
    for number, come_back in enumerate(
        (
            lambda tag: peer.feed(reject(1, tag)),
            lambda tag: peer.feed(nack(1, tag)),
            lambda tag: ended(peer.channel.recovering()),
            lambda tag: peer.connection.close_channel(1),
        ),
        1,
    ):
        peer.feed(publish(2, "q"))
        assert peer.get(queue, no_ack=False)
        come_back(number)
        seen.append(queue.held_count)
        ended(queue.purging())
    assert seen == [rejected, nacked, recovered, closed]


def test_it_is_in_its_priority_again(engine, queue, peer):
    queue.set_priorities(2)
    queue.set_retries("all", 100, 100)
    for text, priority in ((b"a", 1), (b"b", 1), (b"low", 0)):
        peer.feed(publish(2, "q", text, raw=properties(priority=priority)))
    peer.get(queue, no_ack=False)
    peer.feed(nack(1, 1))
    engine.clock.now_ms += 100
    assert peer.drain(queue) == [b"a", b"b", b"low"]


def test_it_does_not_expire_before_it_is_ready_again(engine, queue, peer, dead_letters):
    queue.set_retries("all", 100, 100)
    peer.feed(publish(2, "q", b"x", raw=properties(expiration="30")))
    peer.get(queue, no_ack=False)
    peer.feed(nack(1, 1))
    engine.clock.now_ms += 99
    engine.run()
    assert (queue.held_count, dead_letters.found) == (1, [])
    engine.clock.now_ms += 1
    engine.run()
    assert (queue.held_count, dead_letters.bodies) == (0, [b"x"])
    assert dead_letters.found[0][0] == "expired"


def test_what_comes_back_late_dies_in_the_order_of_expiry(engine, queue, peer, dead_letters):
    queue.set_retries("all", 10, 10)
    raw = properties(expiration="5")
    for text in (b"a", b"b"):
        peer.feed(publish(2, "q", text, raw=raw))
    assert peer.get(queue, no_ack=False).body == b"a"
    peer.feed(nack(1, 1))
    engine.clock.now_ms += 20
    engine.run()
    assert dead_letters.bodies == [b"a", b"b"]


def test_it_counts_against_the_limits_of_its_queue(engine, queue, peer, dead_letters):
    queue.set_retries("all", 100, 100)
    queue.set_limits(max_length=2)
    for text in (b"a", b"b"):
        peer.feed(publish(2, "q", text))
    peer.get(queue, no_ack=False)
    peer.feed(nack(1, 1))
    peer.feed(publish(2, "q", b"c"))
    engine.run()
    assert dead_letters.bodies == [b"b"]
    assert (queue.ready_count, queue.held_count) == (1, 1)
    queue.set_limits(max_bytes=0)
    engine.run()
    assert (queue.ready_count, queue.held_count) == (0, 1)
    engine.clock.now_ms += 100
    engine.run()
    assert dead_letters.bodies == [b"b", b"c", b"a"]


def test_what_is_over_the_limit_goes_when_a_message_is_held(queue, peer):
    queue.set_limits(max_length=1)
    queue.set_retries("all", 100, 100)
    peer.feed(publish(2, "q", b"a"))
    assert peer.get(queue, no_ack=False).body == b"a"
    peer.feed(publish(2, "q", b"b"))
    peer.events()
    peer.feed(nack(1, 1))
    assert (queue.ready_count, queue.held_count) == (0, 1)


def test_a_queue_full_of_held_messages_refuses_others(engine, queue, peer):
    queue.set_retries("all", 100, 100)
    queue.set_limits(max_length=1, overflow="reject-publish")
    peer.channels[2].select_confirm()
    peer.feed(publish(2, "q", b"a"))
    peer.get(queue, no_ack=False)
    peer.feed(nack(1, 1) + publish(2, "q", b"b"))
    (refused,) = [event for event in peer.events() if getattr(event, "refused", False)]
    assert refused.tag == 2
    engine.clock.now_ms += 100
    engine.run()
    assert peer.drain(queue) == [b"a"]


def test_purge_takes_what_is_held(engine, queue, peer):
    queue.set_retries("all", 100, 100)
    peer.feed(publish(2, "q") * 2)
    peer.get(queue, no_ack=False)
    peer.feed(nack(1, 1))
    assert ended(queue.purging()) == 2
    assert (queue.held_count, engine.queues.timed_out) == (0, 0)
    engine.clock.now_ms += 100
    engine.run()
    assert queue.ready_count == 0


def test_a_queue_that_is_deleted_takes_it_along(engine, queue, peer):
    queue.set_retries("all", 100, 100)
    peer.feed(publish(2, "q"))
    peer.get(queue, no_ack=False)
    peer.feed(nack(1, 1))
    assert queue.retire() == 1
    engine.clock.now_ms += 100
    engine.run()
    assert engine.next_due_ms == 0


def test_too_many_returns_end_it(engine, queue, peer, dead_letters):
    queue.set_retries("all", 100, 100)
    queue.set_delivery_limit(1, True)
    peer.feed(publish(2, "q", b"x"))
    for tag in (1, 2):
        peer.get(queue, no_ack=False)
        peer.feed(nack(1, tag))
        engine.clock.now_ms += 100
        engine.run()
    assert [each[0] for each in dead_letters.found] == ["delivery_limit"]
    assert (queue.held_count, queue.ready_count, queue.unacked_count) == (0, 0, 0)


def test_timers_of_what_was_purged_are_forgotten(engine, queue, peer):
    queue.set_retries("all", 10**9, 10**9)

    def once() -> None:
        peer.feed(publish(2, "q") * 100)
        for _ in range(100):
            peer.channel.get(queue, False)
        peer.feed(nack(1, 0, multiple=True))
        ended(queue.purging())
        peer.take()
        engine.run()

    once()
    before = allocated_bytes()
    for _ in range(300):
        once()
    assert allocated_bytes() - before < 200_000


def test_after_a_restart_it_is_ready_at_once():
    broker = Broker()
    broker.queues["q"].set_retries("all", 10_000, 10_000)
    broker.send("q", b"x", PERSISTENT)
    broker.peer.channel.consume(broker.queues["q"], "c", False, 0, 0)
    (delivery,) = [each for each in broker.peer.events() if isinstance(each, Delivery)]
    broker.peer.feed(nack(1, delivery.tag))
    assert broker.queues["q"].held_count == 1
    broker.stop()
    assert broker.queues["q"].held_count == 0
    assert broker.bodies() == [b"x"]
