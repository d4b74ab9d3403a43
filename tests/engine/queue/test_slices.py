"""Queues with much to do at once: each turn does some of it, and in the end all is as it should be.

A clock that ends a slice with every second reading decides where work is cut.
"""

from __future__ import annotations

from collections import Counter

import pytest
from tests.engine import frames
from tests.engine.session_fake import Peer
from tests.engine.slices import SOME, cut_often, steps_of, turns

MANY = 2000


def fill(engine, queue, count=MANY, **properties):
    raw = frames.properties(**properties)
    for number in range(count):
        engine.publish([queue], "", "q", raw, b"%d" % number)


def numbers(found):
    return [int(each.body) for each in found if isinstance(each, frames.Delivery)]


def test_a_long_queue_is_delivered_in_slices(engine, queue, peer):
    fill(engine, queue)
    peer.channel.consume(queue, "c", True, 0, 0)
    cut_often(engine)
    found = []
    for _ in turns(engine):
        new = numbers(peer.events(run=False))
        assert len(new) < SOME
        found += new
    assert found == list(range(MANY))


def test_large_messages_cost_more_of_a_slice(engine, queue, peer):
    body = b"x" * 40_000
    peers = [Peer(engine) for _ in range(100)]
    for each in peers:
        each.channel.consume(queue, "c", True, 0, 0)
    for _ in range(100):
        engine.publish([queue], "", "q", frames.NO_PROPERTIES, body)
    cut_often(engine)
    assert max(steps_of(engine, lambda: queue.delivered)) < SOME // 10
    assert queue.ready_count == 0


def test_many_queues_take_turns(engine, peer):
    queues = [engine.queue(0, f"{number}", False) for number in range(MANY)]
    for queue in queues:
        peer.channel.consume(queue, queue.name, True, 0, 0)
        fill(engine, queue, 1)
    cut_often(engine)
    served = []
    for _ in turns(engine):
        served.append([each.consumer for each in peer.events(run=False)])
    assert max(len(each) for each in served) < SOME
    assert [int(tag) for each in served for tag in each] == list(range(MANY))


def test_a_long_queue_does_not_keep_a_short_one_waiting(engine, queue, peer):
    peer.channel.consume(queue, "c", True, 0, 0)
    short = engine.queue(0, "short", False)
    other = Peer(engine)
    other.channel.consume(short, "c", True, 0, 0)
    fill(engine, queue, 5000)
    cut_often(engine)
    fill(engine, short, 3)
    engine.run()
    engine.run()
    assert short.ready_count == 0
    assert queue.ready_count > 4000


def test_a_tighter_limit_is_enforced_in_slices(engine, queue, peer):
    fill(engine, queue)
    queue.set_limits(max_length=1)
    cut_often(engine)
    assert -min(steps_of(engine, lambda: queue.ready_count)) < SOME
    assert peer.drain(queue) == [b"%d" % (MANY - 1)]


def test_a_limit_holds_though_there_is_no_time_to_deliver(engine, queue, peer):
    """What is over it goes first."""
    queue.set_limits(max_length=100)
    peer.channel.consume(queue, "c", True, 0, 0)
    cut_often(engine)
    for _ in range(30):
        fill(engine, queue, 50)
        engine.run()
        peer.take()
    assert queue.ready_count < 200


def test_what_expires_at_one_moment_goes_in_slices(engine, queue, peer):
    fill(engine, queue, expiration="5")
    fill(engine, queue, 1)
    engine.clock.now_ms += 6
    cut_often(engine)
    steps = steps_of(engine, lambda: engine.queues.expired)
    assert max(steps) < SOME
    assert sum(steps) == MANY
    assert queue.ready_count == 1


@pytest.mark.parametrize("lanes", [0, 3])
def test_what_has_expired_is_nobodys_though_it_is_still_there(engine, queue, peer, lanes):
    if lanes:
        queue.set_priorities(lanes)
    fill(engine, queue, expiration="5", priority=1)
    fill(engine, queue, 1)
    engine.clock.now_ms += 6
    cut_often(engine)
    peer.channel.consume(queue, "c", True, 0, 0)
    engine.run()
    assert queue.ready_count > MANY - SOME
    assert numbers(peer.events(run=False)) == [0]
    for _ in turns(engine):
        assert peer.events(run=False) == []
    assert (queue.ready_count, engine.queues.expired) == (0, MANY)


def test_what_was_settled_before_it_expires_costs_nothing(engine, queue, peer):
    fill(engine, queue, 10_000, expiration="5")
    for _ in range(10_000):
        peer.get(queue)
    engine.clock.now_ms += 6
    cut_often(engine)
    engine.run()
    assert not engine.busy


def test_what_was_held_comes_back_in_slices(engine, queue, peer):
    queue.set_retries("all", 100, 100)
    consumer = peer.channel.consume(queue, "c", False, 0, 0)
    fill(engine, queue)
    while queue.ready_count:
        peer.deliveries()
    peer.channel.cancel(consumer)
    peer.channel.recover()
    assert queue.held_count == MANY
    engine.clock.now_ms += 100
    cut_often(engine)
    assert max(steps_of(engine, lambda: queue.ready_count)) < SOME
    assert numbers_of(peer.drain(queue)) == list(range(MANY))


def numbers_of(bodies):
    return [int(body) for body in bodies]


def test_what_is_for_now_or_never(engine, queue, peer):
    """A time to live of 0: who can take it, gets it, even if that takes several turns."""
    peer.channel.consume(queue, "c", False, 0, 1000)
    fill(engine, queue, expiration="0")
    cut_often(engine)
    found = []
    for _ in turns(engine):
        found += numbers(peer.events(run=False))
    assert found == list(range(1000))
    assert (queue.ready_count, queue.unacked_count, engine.queues.expired) == (0, 1000, 1000)
    peer.feed(frames.nack(1, 1))
    engine.run()
    assert (queue.ready_count, queue.unacked_count, engine.queues.expired) == (0, 999, 1001)


def test_those_who_wait_for_their_channels_limit_are_served_in_slices(engine, peer):
    queues = [engine.queue(0, f"{number}", False) for number in range(500)]
    peer.channel.prefetch_global = 1
    for queue in queues:
        peer.channel.consume(queue, queue.name, False, 0, 0)
        fill(engine, queue, 3)
    assert len(peer.deliveries()) == 1
    peer.channel.prefetch_global = 1400
    cut_often(engine)
    found: Counter[str] = Counter()
    for _ in turns(engine):
        new = [each.consumer for each in peer.events(run=False)]
        assert len(new) < 2 * SOME
        found.update(new)
    assert sum(found.values()) == 1399
    assert min(found.values()) >= 2


@pytest.mark.parametrize("limit", [0, 10_000])
def test_a_limit_that_ends_frees_those_who_wait_in_slices(engine, queue, peer, limit):
    peer.channel.prefetch_global = 1
    for number in range(1000):
        peer.channel.consume(queue, f"{number}", False, 0, 1)
    fill(engine, queue, 1)
    assert len(peer.deliveries()) == 1
    fill(engine, queue, MANY)
    cut_often(engine)
    peer.channel.prefetch_global = limit
    assert max(steps_of(engine, lambda: queue.delivered)) < 2 * SOME
    assert (queue.unacked_count, queue.ready_count) == (1000, MANY - 999)
