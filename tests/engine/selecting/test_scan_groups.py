"""Filters that look through a queue together, and those that have found enough."""

from __future__ import annotations

import struct

import pytest
from tests.engine import frames
from tests.engine.allocations import allocated_bytes
from tests.engine.judge import Judge
from tests.engine.session_fake import Peer
from tests.engine.slices import cut_often, ended, steps_of

from leporid.engine.engine import Engine
from leporid.engine.queue.queue import Queue
from leporid.engine.selectors.filter import ClassFilter, Filter
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


# ------------------------------------------------------------------ one message, many filters


# A filter that fails on it has looked at all of it.
LONG = frames.properties(headers=frames.table(h=frames.longstr("ab" * 20_000)))
FILTERS = 60


def patterns(count: int) -> list[Selector]:
    """Filters that take long for such a message; it passes the last one only."""
    return [selector(f"h LIKE '%a%{at}'") for at in range(count - 1)] + [selector("h LIKE '%a%b'")]


def evaluated(engine: Engine) -> int:
    return engine.searches.filters.evaluated


@pytest.fixture
def many(engine, queue, peer):
    """Consumers with different filters, in a queue of which each step is cut."""
    for at, wanted in enumerate(patterns(FILTERS)):
        peer.channel.consume(queue, f"c{at}", False, 0, 1, filter=wanted)
    engine.run()
    cut_often(engine)
    return peer


def send(engine: Engine, queue: Queue, *bodies: bytes, raw: bytes = LONG) -> None:
    for body in bodies:
        engine.publish([queue], "", "q", raw, body)


def came(peer: Peer) -> list[tuple[str, bytes]]:
    return [(each.consumer, each.body) for each in delivered(peer)]


def delivered(peer: Peer) -> list[frames.Delivery]:
    return [each for each in peer.events(run=False) if isinstance(each, frames.Delivery)]


def test_one_message_takes_many_turns_if_its_filters_take_long(engine, queue, many):
    send(engine, queue, b"long")
    steps = steps_of(engine, lambda: evaluated(engine))
    assert sum(steps) == FILTERS
    assert max(steps) <= FILTERS // 4
    assert came(many) == [(f"c{FILTERS - 1}", b"long")]


def test_what_comes_after_it_waits_for_its_turn(engine, queue, many):
    send(engine, queue, b"first", b"second")
    many.channel.consume(queue, "all", False, 0, 0, filter=selector("h IS NOT NULL"))
    settle_down(engine)
    assert [body for _, body in came(many)] == [b"first", b"second"]


@pytest.mark.parametrize("turns", [1, 2, 3, 5])
def test_a_message_that_another_takes_meanwhile_is_nobodys(engine, queue, many, turns):
    send(engine, queue, b"long")
    for _ in range(turns):
        engine.run()
    plain = Peer(engine)
    plain.channel.consume(queue, "plain", False, 0, 1)
    settle_down(engine)
    assert came(many) == []
    assert came(plain) == [("plain", b"long")]
    assert evaluated(engine) < FILTERS
    # It comes back, and those that were not asked are; then it is the filter's.
    plain.connection.close_channel(1)
    settle_down(engine)
    assert came(many) == [(f"c{FILTERS - 1}", b"long")]


@pytest.mark.parametrize("how", ["purged", "expired", "got"])
def test_a_message_that_is_gone_meanwhile_is_looked_at_no_more(engine, queue, many, how):
    raw = frames.properties(headers=frames.table(h=frames.longstr("ab" * 20_000)), expiration="5")
    send(engine, queue, b"long", raw=raw)
    engine.run()
    if how == "purged":
        ended(queue.purging())
    elif how == "expired":
        engine.clock.now_ms += 10
    else:
        assert Peer(engine).get(queue, True) is not None
    before = evaluated(engine)
    settle_down(engine)
    assert evaluated(engine) - before <= FILTERS // 4
    send(engine, queue, b"next")
    settle_down(engine)
    assert came(many) == [(f"c{FILTERS - 1}", b"next")]


def test_who_comes_and_who_goes_while_filters_are_asked(engine, queue, peer):
    real = [
        peer.channel.consume(queue, f"c{at}", False, 0, 1, filter=wanted)
        for at, wanted in enumerate(patterns(FILTERS))
    ]
    engine.run()
    cut_often(engine)
    send(engine, queue, b"long")
    engine.run()
    peer.channel.cancel(real[-1])
    peer.channel.cancel(real[0])
    # One takes a number that was given up, and is asked about the message, too.
    peer.channel.consume(queue, "new", False, 0, 1, filter=selector("h LIKE '%b%ab'"))
    settle_down(engine)
    assert came(peer) == [("new", b"long")]


def test_a_requeued_message_takes_many_turns_and_goes_to_who_waits_most(engine, queue, many):
    send(engine, queue, b"first", b"second")
    settle_down(engine)
    assert came(many) == [(f"c{FILTERS - 1}", b"first")]
    before = evaluated(engine)
    many.feed(frames.nack(1, 1, False, True))
    steps = steps_of(engine, lambda: evaluated(engine))
    assert max(steps) <= FILTERS // 4
    assert evaluated(engine) - before == FILTERS
    assert came(many) == [(f"c{FILTERS - 1}", b"first")]


def test_a_message_that_is_requeued_for_ever_does_not_keep_a_filter_waiting(engine, queue, many):
    """Someone without a filter gives it back each turn; what was asked about it stays."""
    send(engine, queue, b"long")
    settle_down(engine)
    assert came(many) == [(f"c{FILTERS - 1}", b"long")]
    many.feed(frames.nack(1, 1, False, True))
    plain = Peer(engine)
    plain.channel.consume(queue, "plain", False, 0, 1)
    for _ in range(10 * FILTERS):
        engine.run()
        for each in delivered(plain):
            plain.feed(frames.nack(1, each.tag, False, True))
        if came(many):
            break
    else:
        pytest.fail("it never had its turn")


def test_a_message_for_now_or_never_is_there_until_all_filters_were_asked(engine, queue, many):
    raw = frames.properties(headers=frames.table(h=frames.longstr("ab" * 20_000)), expiration="0")
    send(engine, queue, b"long", raw=raw)
    settle_down(engine)
    assert came(many) == [(f"c{FILTERS - 1}", b"long")]


@pytest.mark.parametrize("name", [None, "class"])
def test_what_has_expired_is_not_delivered_if_there_was_no_time_to_drop_it(engine, queue, name):
    peer = Peer(engine, {"q": queue})
    judge = Judge(engine)
    judge.renew("class", lambda _: True)
    wanted: Filter = selector("g = 0")
    peer.channel.consume(
        queue, "c", False, 0, 1, filter=ClassFilter(name, wanted) if name else wanted
    )
    raw = frames.properties(headers=frames.table(g=b"l" + struct.pack(">q", 0)), expiration="5")
    send(engine, queue, *[b"%d" % at for at in range(50)], raw=raw)
    for _ in range(3):
        settle_down(engine)
        if judge.ask():
            judge.answer()
    assert [each.body for each in peer.deliveries()] == [b"0"]
    engine.clock.now_ms += 10
    cut_often(engine, 1)
    peer.feed(frames.ack(1, 1))
    settle_down(engine)
    assert came(peer) == []
    assert queue.ready_count == 0
