"""Consumers with filters: who gets what of a queue, and that nothing is looked at without need."""

from __future__ import annotations

import struct

import pytest
from tests.engine import frames
from tests.engine.session_fake import Peer
from tests.engine.slices import ended

from leporid.engine.connection.consumer import Consumer
from leporid.engine.engine import Engine
from leporid.engine.queue.queue import Queue
from leporid.engine.selectors.filter import Conjunction, Filter
from leporid.engine.selectors.selector import Selector
from leporid.engine.selectors.tags import Tags
from leporid.filters.compiler import program


def selector(text: str) -> Selector:
    return Selector(program(text).code)


def message(text: str, group: int = 0, priority: int = 0, expiration: str | None = None) -> bytes:
    """On channel 2, with a header g."""
    number = b"l" + struct.pack(">q", group)
    headers = frames.table(**{"x-tag": frames.longstr(f"t{group}"), "g": number})
    raw = frames.properties(headers=headers, priority=priority, expiration=expiration)
    return frames.publish(2, "q", text.encode(), raw=raw)


def send(peer: Peer, *texts: str, priority: int = 0, expiration: str | None = None) -> None:
    """Each text's last character is its group."""
    for text in texts:
        peer.feed(message(text, int(text[-1]), priority, expiration))


def consume(
    peer: Peer,
    queue: Queue,
    tag: str,
    wanted: Filter | None,
    *,
    prefetch: int = 0,
    priority: int = 0,
    no_ack: bool = False,
) -> Consumer:
    return peer.channel.consume(queue, tag, no_ack, priority, prefetch, filter=wanted)


def taken(peer: Peer) -> list[tuple[str, str]]:
    """(consumer, body) of what came since."""
    return [(each.consumer, each.body.decode()) for each in peer.deliveries()]


# ------------------------------------------------------------------ who gets what


def test_what_nobody_wants_stays(queue, peer):
    send(peer, "a1", "b0", "c1", "d2")
    consume(peer, queue, "c", selector("g = 1"))
    assert taken(peer) == [("c", "a1"), ("c", "c1")]
    assert queue.ready_count == 2
    send(peer, "e2", "f1")
    assert taken(peer) == [("c", "f1")]
    assert peer.drain(queue) == [b"b0", b"d2", b"e2"]


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (Tags([b"t1", b"t3"]), ["a1", "d3"]),
        (selector("g > 1"), ["c2", "d3"]),
        (Conjunction(Tags([b"t1", b"t3"]), selector("g > 1")), ["d3"]),
        (Filter(), ["a1", "b0", "c2", "d3"]),
        (selector("routing_key = 'q' AND \"x-tag\" LIKE '%2'"), ["c2"]),
    ],
)
def test_every_kind_of_filter(queue, peer, wanted, expected):
    send(peer, "a1", "b0", "c2", "d3")
    consume(peer, queue, "c", wanted)
    assert [body for _, body in taken(peer)] == expected


def test_a_neighbour_without_a_filter_takes_turns(queue, peer):
    send(peer, "a0", "b0", "c1", "d0", "e1", "f1")
    consume(peer, queue, "f", selector("g = 1"))
    consume(peer, queue, "u", None)
    assert taken(peer) == [
        ("f", "c1"),
        ("u", "a0"),
        ("f", "e1"),
        ("u", "b0"),
        ("f", "f1"),
        ("u", "d0"),
    ]
    send(peer, "g1", "h1")
    assert sorted(taken(peer)) == [("f", "g1"), ("u", "h1")]


def test_equal_filters_are_one_and_their_consumers_take_turns(engine, queue, peer):
    for tag in "abc":
        consume(peer, queue, tag, selector("g  =  1" if tag == "b" else "g = 1"))
    send(peer, *["x1"] * 6, "y0")
    assert [tag for tag, _ in taken(peer)] == [*"abcabc"]
    assert engine.searches.filters.asked == 7


def test_a_higher_priority_has_what_it_wants_and_a_lower_the_rest(queue, peer):
    consume(peer, queue, "low", None, priority=-1)
    consume(peer, queue, "high", selector("g = 1"), priority=5, prefetch=2)
    consume(peer, queue, "other", selector("g < 2"), priority=1, prefetch=1)
    send(peer, "a0", "b1", "c1", "d1", "e0", "f1")
    assert taken(peer) == [
        ("high", "b1"),
        ("high", "c1"),
        ("other", "a0"),
        ("low", "d1"),
        ("low", "e0"),
        ("low", "f1"),
    ]


def test_of_one_filter_the_consumer_of_the_highest_priority_that_can(queue, peer):
    consume(peer, queue, "low", selector("g = 1"), prefetch=1)
    consume(peer, queue, "high", selector("g = 1"), prefetch=1, priority=1)
    send(peer, "a1", "b1", "c1")
    assert taken(peer) == [("high", "a1"), ("low", "b1")]
    peer.feed(frames.ack(1, 2), frames.ack(1, 1))
    send(peer, "d1", "e1")
    assert taken(peer) == [("high", "c1"), ("low", "d1")]


def test_priorities_of_messages(queue, peer):
    queue.set_priorities(5)
    consumer = consume(peer, queue, "c", selector("g = 1"), prefetch=1)
    for priority, text in ((0, "a1"), (3, "b1"), (3, "c0"), (9, "d1"), (4, "e1")):
        send(peer, text, priority=priority)
    found = taken(peer)
    for tag in range(1, 4):
        send(peer, "z1")
        peer.feed(frames.ack(1, tag))
        found += taken(peer)
    assert [body for _, body in found] == ["d1", "e1", "b1", "a1"]
    peer.channel.cancel(consumer)
    assert peer.drain(queue) == [b"c0", b"z1", b"z1", b"z1"]


def test_what_was_found_waits_for_what_is_of_higher_priority(queue, peer):
    queue.set_priorities(5)
    consume(peer, queue, "c", selector("g < 2"), prefetch=1)
    other = consume(peer, queue, "other", selector("g = 9"))
    send(peer, "a1", "b1")
    assert taken(peer) == [("c", "a1")]
    peer.channel.cancel(other)
    send(peer, "c1", priority=5)
    peer.feed(frames.ack(1, 1))
    assert taken(peer) == [("c", "c1")]


def test_a_single_active_consumer_has_what_it_wants_and_nobody_the_rest(queue, peer):
    queue.set_single_active_consumer(True)
    first = consume(peer, queue, "a", selector("g = 1"))
    consume(peer, queue, "b", None)
    send(peer, "m0", "n1", "o0")
    assert taken(peer) == [("a", "n1")]
    peer.channel.cancel(first)
    assert taken(peer) == [("b", "m0"), ("b", "o0")]


# ------------------------------------------------------------------ what comes back


def test_what_comes_back_is_first_again(queue, peer):
    consume(peer, queue, "c", selector("g = 1"), prefetch=2)
    send(peer, "a1", "b0", "c1", "d1")
    assert taken(peer) == [("c", "a1"), ("c", "c1")]
    peer.feed(frames.nack(1, 1))
    assert [(each.body, each.redelivered) for each in peer.deliveries()] == [(b"a1", True)]
    peer.feed(frames.ack(1, 2))
    assert taken(peer) == [("c", "d1")]


def test_what_another_gives_back_is_found(queue, peer):
    send(peer, "a1", "b1")
    peer.get(queue, no_ack=False, channel=2)
    peer.get(queue, no_ack=False, channel=2)
    consume(peer, queue, "c", selector("g = 1"))
    assert taken(peer) == []
    peer.feed(frames.nack(2, 2))
    assert taken(peer) == [("c", "b1")]
    peer.feed(frames.nack(2, 1))
    assert taken(peer) == [("c", "a1")]


def test_what_a_filter_gave_back_stands_where_it_stood_for_those_without(queue, peer):
    send(peer, "a0", "b1", "c0", "d1")
    consumer = consume(peer, queue, "c", selector("g = 1"))
    assert len(taken(peer)) == 2
    peer.channel.cancel(consumer)
    peer.feed(frames.nack(1, 0, multiple=True))
    assert peer.drain(queue) == [b"a0", b"b1", b"c0", b"d1"]


def test_giving_back_for_ever_leaves_nothing_behind(queue, peer):
    """Neither with who has it again and again, nor with one who wants it and cannot take."""
    consume(peer, queue, "full", selector("g < 2"), prefetch=1)
    send(peer, "a0", "b1")
    assert taken(peer) == [("full", "a0")]
    consume(peer, queue, "c", selector("g = 1"), prefetch=1)
    for tag in range(2, 6000):
        assert taken(peer) == [("c", "b1")]
        peer.feed(frames.nack(1, tag))
    assert queue.ready_count == 1


def test_held_messages_are_found_when_they_are_ready(engine, queue, peer):
    queue.set_retries("all", 10, 10)
    consume(peer, queue, "c", selector("g = 1"))
    send(peer, "a1")
    assert taken(peer) == [("c", "a1")]
    peer.feed(frames.nack(1, 1))
    assert taken(peer) == []
    engine.clock.now_ms += 10
    assert taken(peer) == [("c", "a1")]


# ------------------------------------------------------------------ what goes otherwise


def test_found_and_gone(engine, queue, peer, dead_letters):
    """What was found for a consumer without credit may expire, be dropped, be taken, be purged."""
    consume(peer, queue, "c", selector("g = 1"), prefetch=1)
    send(peer, "a1", "b1")
    send(peer, "c1", expiration="5")
    send(peer, "d1", "e1", "f1")
    assert taken(peer) == [("c", "a1")]
    engine.clock.now_ms += 5
    engine.run()
    queue.set_limits(max_length=3)
    engine.run()
    peer.get(queue, channel=2)
    assert dead_letters.bodies == [b"c1", b"b1"]
    peer.feed(frames.ack(1, 1))
    assert taken(peer) == [("c", "e1")]
    assert ended(queue.purging()) == 1
    send(peer, "g0", "h1")
    peer.feed(frames.ack(1, 2))
    assert taken(peer) == [("c", "h1")]


def test_now_or_never(engine, queue, peer):
    consume(peer, queue, "c", selector("g = 1"))
    send(peer, "a0", "b1", expiration="0")
    assert taken(peer) == [("c", "b1")]
    assert (queue.ready_count, engine.queues.expired) == (0, 1)


def test_a_full_queue_takes_what_somebody_wants_at_once(queue, peer):
    queue.set_limits(max_length=1, overflow="reject-publish")
    peer.channels[2].select_confirm()
    consume(peer, queue, "c", selector("g = 1"))
    send(peer, "a1", "b0", "c1", "d0")
    assert taken(peer) == [("c", "a1")]
    assert peer.drain(queue) == [b"b0"]


def test_a_lease_and_basic_get_are_not_filtered(queue, peer):
    consume(peer, queue, "c", selector("g = 1"), prefetch=1)
    send(peer, "a1", "b1", "c0")
    assert taken(peer) == [("c", "a1")]
    assert peer.drain(queue) == [b"b1", b"c0"]


def test_consumers_of_a_deleted_queue(engine, queue, peer):
    consumer = consume(peer, queue, "c", selector("g = 1"), prefetch=1)
    send(peer, "a1", "b1")
    assert taken(peer) == [("c", "a1")]
    peer.channel.cancel(consumer)
    assert queue.retire() == 1
    peer.feed(frames.ack(1, 1))
    engine.run()
    assert not engine.busy


# ------------------------------------------------------------------ what it costs


def test_each_filter_is_asked_once_about_each_message(engine, queue, peer):
    send(peer, *["a0", "b1"] * 50)
    consume(peer, queue, "one", selector("g = 1"), prefetch=1)
    consume(peer, queue, "two", selector("g > 1"))
    for tag in range(1, 51):
        assert taken(peer) == [("one", "b1")]
        peer.feed(frames.ack(1, tag))
    engine.run()
    assert engine.searches.filters.asked == 200
    assert engine.searches.filters.matched == 50
    send(peer, "c0")
    engine.run()
    assert engine.searches.filters.asked == 202


def test_nothing_is_looked_at_while_nobody_can_take(engine, queue, peer):
    consume(peer, queue, "c", selector("g = 1"), prefetch=1)
    send(peer, "a1")
    assert taken(peer) == [("c", "a1")]
    send(peer, *["b0"] * 100)
    engine.run()
    assert engine.searches.filters.asked == 1
    peer.feed(frames.ack(1, 1))
    engine.run()
    assert engine.searches.filters.asked == 101


def test_who_has_seen_everything_costs_nothing(engine, queue, peer):
    send(peer, *["a0"] * 100)
    consume(peer, queue, "c", selector("g = 1"))
    engine.run()
    asked = engine.searches.filters.asked
    for _ in range(10):
        peer.get(queue, no_ack=False, channel=2)
        engine.run()
    assert engine.searches.filters.asked == asked
    assert not engine.busy


def test_type_errors_are_counted(engine, queue, peer):
    consume(peer, queue, "c", selector('"x-tag" > 5'))
    send(peer, "a0", "b0")
    assert taken(peer) == []
    assert engine.searches.filters.type_errors == 2


def fill(engine: Engine, queue: Queue, count: int) -> None:
    """Messages of group 0, without headers' bytes in the way."""
    raw = frames.properties(headers=frames.table(g=b"l" + struct.pack(">q", 0)))
    for _ in range(count):
        engine.publish([queue], "", "q", raw, b"")


def test_a_long_queue_is_looked_through_in_many_turns_and_others_go_on(engine, queue, peer):
    engine.searches.work = 5000
    fill(engine, queue, 2000)
    send(peer, "a1")
    consume(peer, queue, "c", selector("g = 1"))
    engine.run()
    assert 0 < engine.searches.filters.asked <= 100
    consume(peer, queue, "u", None, prefetch=1)
    assert [tag for tag, _ in taken(peer)] == ["u"]
    turns = 0
    while engine.busy:
        turns += 1
        engine.run()
    assert 10 < turns < 100
    assert taken(peer) == [("c", "a1")]


def test_who_comes_late_does_not_keep_others_waiting(engine, queue, peer):
    engine.searches.work = 5000
    consume(peer, queue, "early", selector("g = 1"))
    fill(engine, queue, 5000)
    while engine.busy:
        engine.run()
    consume(peer, queue, "late", selector("g = 2"))
    engine.run()
    assert engine.busy
    send(peer, "a1")
    assert taken(peer) == [("early", "a1")]
    assert engine.busy


def test_who_comes_late_goes_on_with_the_others(engine, queue, peer):
    fill(engine, queue, 300)
    consume(peer, queue, "a", selector("g = 1"))
    engine.run()
    consume(peer, queue, "b", selector("g = 2"))
    engine.run()
    assert engine.searches.filters.asked == 600
    send(peer, "x1", "y2")
    assert taken(peer) == [("a", "x1"), ("b", "y2")]
    assert engine.searches.filters.asked == 604


def test_who_waits_is_not_forgotten_when_others_have_caught_up(engine, queue, peer):
    fill(engine, queue, 300)
    consume(peer, queue, "a", selector("g = 1"))
    engine.run()
    late = [consume(peer, queue, f"l{group}", selector(f"g = {group}")) for group in (2, 3)]
    engine.run()
    for each in late:
        peer.channel.cancel(each)
    send(peer, "x1")
    assert taken(peer) == [("a", "x1")]


def test_a_crowd_that_gives_back_much_does_not_keep_a_turn(engine, queue, peer):
    engine.searches.work = 2500
    send(peer, *["a1"] * 500)
    other = Peer(engine)
    other.channel.consume(queue, "gone", False, 0, 0)
    engine.run()
    assert queue.ready_count == 0
    consume(peer, queue, "c", selector("g = 1"))
    other.connection.lost()
    engine.run()
    assert engine.busy
    while engine.busy:
        engine.run()
    assert queue.unacked_count == 500


def test_many_queues_share_a_turn(engine, peer):
    engine.searches.work = 50_000
    queues = [engine.queue(0, f"q{number}", False) for number in range(10)]
    for queue in queues:
        fill(engine, queue, 3000)
        consume(peer, queue, queue.name, selector("g = 1"))
    engine.run()
    before = engine.searches.filters.asked
    engine.run()
    assert 0 < engine.searches.filters.asked - before <= 1000
    while engine.busy:
        engine.run()
    assert engine.searches.filters.asked == 30_000
