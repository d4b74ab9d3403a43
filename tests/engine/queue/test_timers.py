"""Timers: who is due, in any order, and none kept for what is gone."""

from __future__ import annotations

from random import Random

import pytest
from tests.engine.allocations import allocated_bytes
from tests.engine.frames import ack, nack, properties, publish
from tests.engine.session_fake import Peer
from tests.engine.slices import ended


def send(peer: Peer, ttl_ms: int, count: int = 1) -> None:
    peer.feed(publish(2, "q", b"%d" % ttl_ms, raw=properties(expiration=str(ttl_ms))) * count)


@pytest.mark.parametrize("seed", range(4))
def test_each_goes_when_it_is_due(engine, queue, peer, seed):
    times = [1 + Random(seed).randrange(500) for _ in range(300)]
    times = Random(seed).sample(range(1, 1000), 300) + times
    start = engine.clock.now_ms
    for each in times:
        send(peer, each)
    while times:
        due = min(times)
        assert engine.next_due_ms == start + due
        engine.clock.now_ms = start + due - 1
        engine.run()
        assert queue.ready_count == len(times)
        engine.clock.now_ms += 1
        engine.run()
        times = [each for each in times if each > due]
        assert queue.ready_count == len(times)
    assert engine.next_due_ms == 0


def test_what_is_due_together_dies_in_order_of_arrival(engine, queue, peer):
    dead_lettered = []
    queue.dead_letters = lambda reason, exchange, key, raw, body: dead_lettered.append(body)
    numbers = [b"%d" % number for number in range(100)]
    for number in numbers:
        peer.feed(publish(2, "q", number, raw=properties(expiration="5")))
    engine.clock.now_ms += 5
    engine.run()
    assert dead_lettered == numbers


@pytest.mark.memory
def test_when_all_were_due_their_timers_keep_no_memory(engine, queue):
    before = allocated_bytes()
    for number in range(20_000):
        raw = properties(expiration=str(1 + number))
        engine.publish([queue], "", "q", raw, b"")
    assert allocated_bytes() - before > 1_000_000
    engine.clock.now_ms += 20_000
    engine.run()
    assert queue.ready_count == engine.queues.timers.count == 0
    assert allocated_bytes() - before < 700_000


def test_timers_of_what_is_gone_are_forgotten_in_time(engine, queue, peer):
    """Otherwise a day's messages with a day to live would be remembered, though long settled."""
    peer.channel.consume(queue, "c", True, 0, 0)
    send(peer, 50_000)
    for _ in range(40):
        for ttl_ms in range(60_000, 60_100):  # none shares its timer with the one before
            send(peer, ttl_ms)
        assert len(peer.deliveries()) >= 100
    send(peer, 70_000)
    peer.deliveries()
    assert engine.next_due_ms in (0, engine.clock.now_ms + 60_000, engine.clock.now_ms + 70_000)


def test_pruning_keeps_those_that_will_ring(engine, queue, peer):
    send(peer, 500)
    send(peer, 900)
    assert peer.channel.get(queue, False)
    for _ in range(30):
        send(peer, 60_000, 100)
        engine.run()
        ended(queue.purging()) if queue.ready_count > 2000 else None
    left = queue.ready_count
    engine.clock.now_ms += 900
    engine.run()
    assert queue.ready_count <= left
    peer.feed(nack(1, 1))
    engine.run()
    engine.clock.now_ms += 60_000
    engine.run()
    assert (queue.ready_count, queue.unacked_count) == (0, 0)


def test_messages_that_share_a_timer_die_one_by_one(engine, queue, peer):
    """Those of a queue with a time to live do, whatever becomes of some of them."""
    queue.set_message_ttl(1000)
    peer.feed(b"".join(publish(2, "q", b"%d" % number) for number in range(1000)))
    queue.set_message_ttl(None)
    assert all(peer.channel.get(queue, False) for _ in range(1000))
    for tag in range(1, 301):
        peer.feed(ack(1, tag))
    consumer = peer.channel.consume(queue, "c", True, 0, 0)
    pair = b"".join(publish(2, "q", raw=properties(expiration=ttl)) for ttl in ("5000", "5001"))
    for _ in range(50):  # so many that timers of what is gone are looked for
        peer.feed(pair * 50)
        engine.run()
        peer.take()
    peer.channel.cancel(consumer)
    for tag in range(301, 801):
        peer.feed(nack(1, tag))
    engine.clock.now_ms += 999
    engine.run()
    assert (queue.ready_count, queue.unacked_count, engine.queues.expired) == (500, 200, 0)
    engine.clock.now_ms += 1
    engine.run()
    assert (queue.ready_count, queue.unacked_count, engine.queues.expired) == (0, 200, 500)
    for tag in range(801, 1001):
        peer.feed(nack(1, tag))
    engine.run()
    assert (queue.ready_count, queue.unacked_count, engine.queues.expired) == (0, 0, 700)


def test_a_message_that_goes_back_and_forth_has_one_timer(engine, queue, peer):
    send(peer, 1000)
    for tag in range(1, 3001):
        assert peer.channel.get(queue, False)
        peer.take()
        peer.feed(nack(1, tag))
    engine.clock.now_ms += 1000
    engine.run()
    assert (queue.ready_count, engine.queues.expired) == (0, 1)
    assert engine.next_due_ms == 0
