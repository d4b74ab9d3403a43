"""Publishes whose routes take longer than a slice of time: they wait, and nobody else does."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from itertools import count
from typing import Any

import pytest
from tests.engine.frames import (
    Returned,
    array,
    longstr,
    method,
    properties,
    publish,
    table,
)
from tests.engine.session_fake import Peer
from tests.engine.slices import cut_often, turns

from leporid.amqp.errors import PreconditionFailed
from leporid.amqp.properties import Properties, encode_properties
from leporid.engine.engine import Engine
from leporid.engine.publishing.interceptor import Interceptor
from leporid.engine.routing.route_cache import BY_MESSAGE
from leporid.engine.selectors.selector import Selector
from leporid.filters.compiler import program

MS = 1_000_000
STEPS = 20


class Slow:
    """An exchange whose routes are found in many steps, each of which ends a slice."""

    def __init__(self, engine: Any, *peers: Peer) -> None:
        self.engine = engine
        self.found: list[Any] = []
        self.by_message = False
        self.taken = self.ended = 0
        self.raws: list[bytes | None] = []
        self.cache = engine.route_cache("x", self.resolve, True)
        for peer in peers:
            peer.session.caches["x"] = self.cache
            peer.session.copies = self.copies  # type: ignore[assignment]
        engine.clock.monotonic_ns = count(0, MS).__next__

    def resolve(self, _key: str, raw: bytes | None) -> Generator[None, None, Any]:
        self.raws.append(raw)
        for _ in range(STEPS):
            self.taken += 1
            yield
        self.ended += 1
        if self.by_message and raw is None:
            return BY_MESSAGE
        return self.found

    def copies(self, _cache: object, _exchange: str, keys: list[str], raw: bytes) -> Iterator[None]:
        return self.resolve(" ".join(keys), raw)

    def run(self) -> int:
        """Run all turns that there is work for; returns how many."""
        turns = 0
        while self.engine.busy:
            self.engine.run()
            turns += 1
        return turns


@pytest.fixture
def slow(engine, peer, queue) -> Slow:
    made = Slow(engine, peer)
    made.found = [queue]
    return made


def test_a_route_is_found_in_many_turns(slow, peer, queue):
    peer.feed(publish(1, "k", b"m", exchange="x"))
    assert slow.taken < STEPS
    assert queue.ready_count == 0
    assert not peer.connection.reading
    assert slow.run() >= STEPS // 2
    assert peer.drain(queue) == [b"m"]
    assert peer.connection.reading
    peer.feed(publish(1, "k", b"n", exchange="x"))
    assert (peer.drain(queue), slow.ended) == ([b"n"], 1)


def test_what_comes_after_it_waits_and_others_do_not(engine, slow, peer, queue):
    other = Peer(engine, {"q": queue})
    peer.feed(publish(1, "k", b"first", exchange="x") + publish(2, "q", b"second"))
    other.feed(publish(1, "q", b"other"))
    slow.run()
    assert peer.drain(queue) == [b"other", b"first", b"second"]


def test_a_message_of_several_frames_waits_too(slow, peer, queue):
    peer.feed(publish(1, "k", b"12345", exchange="x", step=2), publish(1, "q", b"after"))
    slow.run()
    assert peer.drain(queue) == [b"12345", b"after"]


@pytest.mark.parametrize("step", [None, 2])
def test_a_channel_that_is_closed_meanwhile_publishes_nothing(slow, peer, queue, step):
    peer.feed(publish(1, "k", b"gone", exchange="x", step=step), publish(2, "q", b"m"))
    peer.session.on_fault(1, PreconditionFailed("no"))
    slow.run()
    assert peer.drain(queue) == [b"m"]


@pytest.mark.parametrize("step", [None, 2])
def test_a_connection_that_is_lost_meanwhile_publishes_nothing(slow, peer, queue, step):
    peer.feed(publish(1, "k", b"gone", exchange="x", step=step))
    peer.connection.lost()
    slow.run()
    assert queue.ready_count == 0


def test_a_fault_of_a_later_step_closes_the_channel(slow, peer, queue):
    def refuse(_key: str, _raw: object) -> Iterator[None]:
        yield
        yield
        raise PreconditionFailed("no")

    slow.resolve = refuse
    peer.session.caches["x"] = slow.engine.route_cache("x", refuse, True)
    peer.feed(publish(1, "k", b"m", exchange="x") + publish(2, "q", b"after"))
    slow.run()
    assert peer.faults == [(1, 406)]
    assert peer.drain(queue) == [b"after"]


def test_a_queue_that_is_deleted_meanwhile_is_not_in_the_route(slow, peer, queue):
    gone = slow.engine.queue(0, "gone", False)
    slow.found.append(gone)
    peer.feed(publish(1, "k", b"m", exchange="x"))
    gone.retire()
    slow.run()
    assert peer.drain(queue) == [b"m"]
    assert gone.ready_count == 0


def test_a_route_that_is_outdated_when_it_is_found_is_not_kept(slow, peer, queue):
    peer.feed(publish(1, "k", b"m", exchange="x"))
    slow.cache.forget()
    slow.run()
    peer.feed(publish(1, "k", b"m", exchange="x"))
    slow.run()
    assert (queue.ready_count, slow.ended) == (2, 2)
    peer.feed(publish(1, "k", b"m", exchange="x"))
    assert (queue.ready_count, slow.ended) == (3, 2)


def test_an_exchange_that_is_made_anew_meanwhile_is_asked_from_the_start(slow, peer, queue):
    peer.feed(publish(1, "k", b"m", exchange="x"))
    slow.cache.retire()
    peer.session.caches["x"] = slow.engine.route_cache("x", lambda key, raw: [queue, queue], True)
    slow.run()
    assert peer.drain(queue) == [b"m", b"m"]


def test_messages_that_are_asked_for_one_by_one(slow, peer, queue):
    slow.by_message = True
    raw = properties(headers=table(a=b"V"))
    peer.feed(publish(1, "k", b"1", raw=raw, exchange="x"), publish(1, "k", b"2", exchange="x"))
    slow.run()
    assert peer.drain(queue) == [b"1", b"2"]
    assert slow.raws == [None, raw, b"\0\0"]


def test_a_message_with_several_keys_waits_too(slow, peer, queue):
    raw = properties(headers=table(CC=array(longstr("l"))))
    peer.feed(publish(1, "k", b"m", raw=raw, exchange="x"))
    assert queue.ready_count == 0
    slow.run()
    assert (peer.drain(queue), slow.ended) == ([b"m"], 1)


def test_transactions_and_returns_are_as_without_cuts(slow, peer, queue):
    peer.channel.select_tx()
    slow.found = []
    peer.feed(publish(1, "k", b"back", exchange="x", mandatory=True))
    slow.run()
    assert not [event for event in peer.events() if isinstance(event, Returned)]
    peer.channel.commit()
    (returned,) = peer.events()
    assert isinstance(returned, Returned)


def test_a_message_is_stamped_once(slow, peer, queue):
    drawn = count(1)
    slow.engine.publishing.interceptor = Interceptor(
        timestamp="off",
        message_id="overwrite",
        random_bytes=lambda size: bytes(next(drawn) for _ in range(16)) * (size // 16),
    )
    slow.by_message = True
    ids = []
    peer.feed(publish(1, "k", b"m", exchange="x"))
    slow.run()
    got = peer.get(queue)
    assert got is not None
    ids = [raw for raw in slow.raws if raw is not None]
    assert ids == [got.raw]


def test_filters_over_a_long_header_wait_for_later_turns(engine, peer, queue):
    other, quick = Peer(engine, {"q": queue}), engine.queue(0, "quick", False)
    filters = [Selector(program(f"text LIKE '%x{at}%'").code) for at in range(40)]
    named = [engine.queue(0, str(at), False) for at in range(40)]
    slow = Slow(engine, peer, other)
    slow.cache = engine.route_cache(
        "x",
        lambda key, raw: engine.conditional_route([quick], list(zip(filters, named, strict=True))),
        True,
    )
    peer.session.caches["x"] = other.session.caches["x"] = slow.cache
    long = encode_properties(Properties(headers={"text": "x" * 100_000 + "x7 x8"}))
    short = encode_properties(Properties(headers={"text": "x9"}))
    peer.feed(publish(1, "k", b"long", raw=long, exchange="x"))
    assert quick.ready_count == 0
    other.feed(publish(1, "k", b"short", raw=short, exchange="x"))
    for _ in range(3):
        engine.run()
    assert (quick.ready_count, named[9].ready_count) == (1, 1)
    named[8].retire()
    assert slow.run() > 12
    assert peer.drain(quick) == [b"short", b"long"]
    assert [each.ready_count for each in named] == [int(at in (7, 9)) for at in range(40)]
    counts = engine.publishing.filters
    assert (counts.asked, counts.evaluated, counts.matched) == (80, 80, 3)


def test_filters_that_decide_wait_for_later_turns(engine, peer, queue):
    filters = [Selector(program(f"text LIKE '%x{at}%'").code) for at in range(40)]
    asked: list[bytes] = []

    def resolve(_key: str, raw: bytes | None) -> Any:
        if raw is None:
            return engine.filter_outcomes(filters)
        asked.append(raw)
        return [queue]

    Slow(engine, peer)
    peer.session.caches["x"] = engine.route_cache("x", resolve, True)
    long = encode_properties(Properties(headers={"text": "x" * 100_000 + "x7 x8"}))
    for _ in range(2):
        peer.feed(publish(1, "k", b"m", raw=long, exchange="x"))
        assert queue.ready_count == 0
        while engine.busy:
            engine.run()
        assert peer.drain(queue) == [b"m"]
    assert asked == [long]


def test_a_method_after_it_waits(slow, peer, queue):
    peer.feed(publish(1, "k", b"m", exchange="x") + method(2, 50, 10))
    assert peer.session.methods == []
    slow.run()
    assert [channel for channel, _ in peer.session.methods] == [2]


# ------------------------------------------------------------------ room in the queues


class Wide:
    """A route to so many queues that they do not get room for an entry in one slice."""

    def __init__(self, engine: Engine, peer: Peer) -> None:
        self.engine = engine
        self.queues = [engine.queue(0, f"w{number}", False) for number in range(1000)]
        self.cache = engine.route_cache("w", lambda key, raw: self.queues, True)
        peer.session.caches["w"] = self.cache
        cut_often(engine)

    @property
    def counts(self) -> set[int]:
        return {queue.ready_count for queue in self.queues}


@pytest.fixture
def wide(engine, peer) -> Wide:
    return Wide(engine, peer)


def test_many_queues_get_room_in_many_turns(wide, engine, peer, queue):
    other = Peer(engine, {"q": queue})
    long = []
    for number in range(600):
        peer.feed(publish(1, "k", b"m", exchange="w"))
        other.feed(publish(1, "q", b"other"))
        waiting = wide.counts == {number}
        if sum(1 for _ in turns(engine)) > 3:
            assert waiting
            long.append(number)
        assert wide.counts == {number + 1}
        assert peer.drain(queue) == [b"other"]
    # A block of an index has 256 entries, and all queues are at the end of one at the same time.
    assert len(long) == 3


def test_what_is_deleted_while_others_get_room_gets_nothing(wide, engine, peer):
    peer.feed(publish(1, "k", b"m", exchange="w"))
    gone, wide.queues = wide.queues[::2], wide.queues[1::2]
    for queue in gone:
        queue.retire()
    wide.cache.forget()
    for _ in turns(engine):
        pass
    assert wide.counts == {1}
    assert {queue.ready_count for queue in gone} == {0}
    peer.feed(publish(1, "k", b"m", exchange="w"))
    assert wide.counts == {2}


def test_what_is_bound_while_others_get_room_gets_the_next_message(wide, engine, peer, queue):
    peer.feed(publish(1, "k", b"m", exchange="w"))
    wide.queues.append(queue)
    wide.cache.forget()
    for _ in turns(engine):
        pass
    peer.feed(publish(1, "k", b"next", exchange="w"))
    for _ in turns(engine):
        pass
    assert peer.drain(queue) == [b"next"]


def test_a_message_with_copies_waits_for_room_once(wide, engine, peer, queue):
    peer.session.routed = lambda key: wide.queues
    copies = properties(headers=table(CC=array(longstr("c"))))
    peer.feed(publish(1, "k", b"m", exchange="w", raw=copies), publish(1, "q", b"after"))
    for _ in turns(engine):
        pass
    assert wide.counts == {1}
    assert peer.drain(queue) == [b"after"]
