"""Filters that look through a queue together, and those that have found enough."""

from __future__ import annotations

import struct

import pytest
from tests.engine import frames
from tests.engine.allocations import allocated_bytes
from tests.engine.session_fake import Peer

from leporid.engine.engine import Engine
from leporid.engine.queue.queue import Queue
from leporid.engine.selectors.selector import Selector
from leporid.filters.compiler import program

FOUND_MAX = 65536


def selector(text: str) -> Selector:
    return Selector(program(text).code)


def fill(engine: Engine, queue: Queue, groups: list[int]) -> None:
    known = {
        group: frames.properties(headers=frames.table(g=b"l" + struct.pack(">q", group)))
        for group in set(groups)
    }
    for group in groups:
        engine.publish([queue], "", "q", known[group], b"%d" % group)


def settle_down(engine: Engine) -> None:
    while engine.busy:
        engine.run()


def test_who_does_not_take_keeps_no_more_in_mind_than_it_may(engine, queue, peer):
    """It is left behind when it has enough, and goes on by itself when it takes again."""
    slow = peer.channel.consume(queue, "slow", False, 0, 1, filter=selector("g = 0"))
    peer.channel.consume(queue, "none", False, 0, 0, filter=selector("g = 9"))
    fill(engine, queue, [0])
    settle_down(engine)
    assert [each.consumer for each in peer.deliveries()] == ["slow"]
    fill(engine, queue, [0] * (FOUND_MAX + 5000))
    settle_down(engine)
    assert engine.searches.filters.asked < 2 * (FOUND_MAX + 5000)
    fill(engine, queue, [9, 0])
    settle_down(engine)
    assert [each.body for each in peer.deliveries()] == [b"9"]
    # All of it is there when somebody takes it, each message once.
    peer.channel.cancel(slow)
    other = Peer(engine)
    other.channel.consume(queue, "eager", True, 0, 0, filter=selector("g = 0"))
    count = 0
    engine.run()
    while queue.ready_count:
        count += len(other.deliveries())
    assert count + len(other.deliveries()) == FOUND_MAX + 5001


def test_one_that_was_left_behind_goes_on_where_it_stood(engine, queue, peer):
    reader = Peer(engine)
    consumer = reader.channel.consume(queue, "slow", False, 0, 1, filter=selector("g = 0"))
    peer.channel.consume(queue, "none", False, 0, 0, filter=selector("g = 9"))
    fill(engine, queue, [0] * (FOUND_MAX + 3000))
    settle_down(engine)
    seen = 0
    while True:
        got = reader.deliveries()
        if not got:
            break
        seen += len(got)
        reader.feed(frames.ack(1, 0, multiple=True))
        if seen == 10:
            reader.channel.prefetch_global = 0
            reader.channel.cancel(consumer)
            reader.channel.consume(queue, "fast", False, 0, 0, filter=selector("g = 0"))
    assert seen == FOUND_MAX + 3000
    assert queue.ready_count == queue.unacked_count == 0


def test_what_was_found_is_not_kept_when_nobody_wants_it_any_more(engine, queue, peer):
    fill(engine, queue, [0] * 50_000)
    settle_down(engine)
    before = allocated_bytes()
    for _ in range(5):
        one = peer.channel.consume(queue, "one", False, 0, 1, filter=selector("g = 0"))
        two = peer.channel.consume(queue, "two", False, 0, 0, filter=selector("g = 9"))
        settle_down(engine)
        peer.channel.cancel(one)
        peer.channel.cancel(two)
        for each in peer.deliveries():
            peer.feed(frames.nack(1, each.tag))
    assert queue.ready_count == 50_000
    assert allocated_bytes() - before < 300_000
    assert [got.body for got in [peer.get(queue)] if got is not None] == [b"0"]


def test_heavy_filters_get_through_less_in_a_turn(engine, queue, peer):
    engine.searches.work = 50_000
    fill(engine, queue, [0] * 5000)
    light = peer.channel.consume(queue, "c", False, 0, 0, filter=selector("g = 1"))
    engine.run()
    by_one = engine.searches.filters.asked
    peer.channel.cancel(light)
    settle_down(engine)
    before = engine.searches.filters.asked
    heavy = " OR ".join(f"g = {number} + h" for number in range(1, 30))
    peer.channel.consume(queue, "c", False, 0, 0, filter=selector(heavy))
    engine.run()
    assert 0 < engine.searches.filters.asked - before < by_one / 5


@pytest.mark.slow
def test_what_comes_back_to_one_who_has_enough_is_looked_at_when_it_takes(engine, queue, peer):
    """Else each time that much came back, it would keep all of it in mind."""
    count = 3 * FOUND_MAX
    one = peer.channel.consume(queue, "slow", False, 0, 1, filter=selector("g = 0"))
    peer.channel.consume(queue, "none", False, 0, 0, filter=selector("g = 9"))
    other = Peer(engine, {"q": queue}, channels=(1,))
    other.channel.consume(queue, "eager", False, 0, 0)
    for at in range(0, count, 4096):
        fill(engine, queue, [0] * min(4096, count - at))
        while other.deliveries():
            settle_down(engine)
    assert queue.ready_count == 0
    before = allocated_bytes()
    other.connection.close_channel(1)
    settle_down(engine)
    assert queue.ready_count == count - 1
    known = allocated_bytes() - before - 16 * count  # what came back has its order, too
    assert known < 3 * 8 * FOUND_MAX
    peer.channel.cancel(one)
    reader = Peer(engine)
    reader.channel.consume(queue, "quick", True, 0, 0, filter=selector("g = 0"))
    seen = 0
    engine.run()
    while queue.ready_count:
        seen += len(reader.deliveries())
    assert seen + len(reader.deliveries()) == count - 1


@pytest.mark.slow
def test_many_filters_keep_no_more_in_mind_than_a_few(engine, queue, peer):
    fill(engine, queue, [0] * FOUND_MAX)
    settle_down(engine)
    before = allocated_bytes()
    for number in range(80):
        peer.channel.consume(
            queue, f"c{number}", False, 0, 1, filter=selector(f"g > -{number} - 1")
        )
    peer.channel.consume(queue, "none", False, 0, 0, filter=selector("g = 9"))
    settle_down(engine)
    assert engine.searches.filters.asked > 80 * FOUND_MAX // 8
    assert allocated_bytes() - before < 3 * 8 * 16 * FOUND_MAX // 2
