"""Route caches: routes are remembered until something changes, and not without bound."""

from __future__ import annotations

import itertools
import sys
from collections import Counter
from typing import Any

import pytest
from tests.engine.frames import properties, publish, table
from tests.engine.session_fake import Peer


class Routes:
    """Answers for an exchange, and counts what it is asked."""

    def __init__(self, engine, peer, cacheable: bool = True, name: str = "x") -> None:
        self.asked: Counter[str] = Counter()
        self.raws: list[bytes | None] = []
        self.queues: dict[str, list] = {}
        self.peer = peer
        self.name = name
        self.cache = engine.route_cache(name, self.resolve, cacheable)
        peer.session.caches[name] = self.cache

    def resolve(self, key: str, raw: bytes | None) -> list:
        self.asked[key] += 1
        self.raws.append(raw)
        return self.queues.get(key, [])

    def send(self, *keys: str | bytes, raw: bytes = b"\x00\x00") -> None:
        for key in keys:
            self.peer.feed(publish(1, key, raw=raw, exchange=self.name))


@pytest.fixture
def routes(engine, peer):
    return Routes(engine, peer)


def test_each_key_is_asked_for_once(routes, queue):
    routes.queues = {"a": [queue], "ü": [queue]}
    routes.send("a", "b", "a", "ü", "", "b", "ü", "", "a")
    assert routes.asked == {"a": 1, "b": 1, "ü": 1, "": 1}
    assert queue.ready_count == 5
    assert set(routes.raws) == {None}


def test_forget_asks_for_everything_again(routes, queue):
    routes.send("a", "b")
    routes.queues = {"a": [queue]}
    routes.send("a")
    assert queue.ready_count == 0
    epoch = routes.cache.epoch
    routes.cache.forget()
    assert routes.cache.epoch > epoch
    routes.send("a", "b", "a")
    assert routes.asked == {"a": 2, "b": 2}
    assert queue.ready_count == 2


def test_one_key_may_be_forgotten(routes, queue):
    keys = [f"key {number}" for number in range(500)]
    routes.send(*keys, "last")
    routes.queues = {"last": [queue], "key 7": [queue]}
    routes.cache.forget_key("last")
    routes.cache.forget_key("key 7")
    routes.cache.forget_key("never seen")
    routes.send(*keys, "last", "last")
    assert routes.asked == {key: 2 if key in ("last", "key 7") else 1 for key in [*keys, "last"]}
    assert queue.ready_count == 3


def test_a_key_that_changes_all_the_time_costs_nothing(routes, queue):
    for turn in range(3000):
        routes.queues["q"] = [queue] if turn % 2 else []
        routes.cache.forget_key("q")
        routes.send("q", "q")
    assert routes.asked["q"] == 3000
    assert queue.ready_count == 3000


def test_keys_without_end(routes, queue):
    """Those past the bound are asked for again, and are right."""
    count = 33_000
    for number in range(count):
        routes.queues[f"{number}"] = [queue] if number % 3 == 0 else []
    for number in range(count):
        routes.send(f"{number}")
    for number in range(count - 50, count):
        routes.send(f"{number}", "5", "6")
    assert queue.ready_count == count // 3 + 50 + 16
    assert routes.asked["0"] == 1
    assert set(routes.asked.values()) <= {1, 2}


@pytest.mark.parametrize("changed", [True, False])
def test_many_routes_are_freed_in_several_turns(engine, routes, queue, changed: bool):
    """Publishers who never repeat a key fill a cache again and again; clearing it took 10 ms."""
    keys = [f"{number}" for number in range(5000)]
    routes.queues = {key: [queue] for key in keys}
    before = sys.getrefcount(queue)
    routes.send(*keys)
    routes.queues.clear()
    kept = sys.getrefcount(queue) - before + len(keys)
    engine.clock.monotonic_ns = itertools.count(0, 1_000_000).__next__
    if changed:
        routes.cache.forget()
    else:
        engine.cached_routes.bytes_max = 0
        routes.send("one more")
    assert engine.cached_routes.bytes < 1000
    seen = [sys.getrefcount(queue)]
    while engine.jobs.waiting:
        engine.run()
        seen.append(sys.getrefcount(queue))
    freed = list(map(int.__sub__, seen, seen[1:]))
    assert max(freed) < 1000 < sum(freed) <= kept


def test_routes_of_many_caches_are_freed_in_several_turns(engine, peer, queue):
    """A binding that changes clears the caches of all exchanges that lead there."""
    keys = [f"{number}" for number in range(50)]
    caches = []
    before = sys.getrefcount(queue)
    for number in range(100):
        routes = Routes(engine, peer, name=f"x{number}")
        routes.queues = {key: [queue] for key in keys}
        routes.send(*keys)
        routes.queues.clear()
        caches.append(routes.cache)
    kept = sys.getrefcount(queue) - before
    engine.clock.monotonic_ns = itertools.count(0, 1_000_000).__next__
    for cache in caches:
        cache.forget()
    seen = [sys.getrefcount(queue)]
    while engine.jobs.waiting:
        engine.run()
        seen.append(sys.getrefcount(queue))
    freed = list(map(int.__sub__, seen, seen[1:]))
    assert max(freed) < 1000 < sum(freed) <= kept


def test_all_exchanges_together_keep_so_many_routes(engine, queue):
    """The cache that began to fill first is cleared for others."""
    engine.cached_routes.bytes_max = 20_000
    caches = []
    for _ in range(5):
        peer = Peer(engine)
        routes = Routes(engine, peer)
        routes.queues = {f"{key}": [queue] for key in range(15)}
        routes.send(*routes.queues, *routes.queues)
        assert set(routes.asked.values()) == {1}
        assert 0 < engine.cached_routes.bytes <= 20_000
        caches.append(routes)
    assert queue.ready_count == 5 * 30
    for again, routes in ((1, caches[4]), (2, caches[0])):
        routes.send("1", "0")
        assert routes.asked["0"] == again
    for routes in caches:
        routes.cache.forget()
    assert engine.cached_routes.bytes == 0


def test_routes_to_many_queues_take_more_of_it(engine, routes, queue):
    routes.queues = {"many": [queue] * 1000, "one": [queue]}
    routes.send("one")
    few = engine.cached_routes.bytes
    routes.send("many")
    assert engine.cached_routes.bytes > few + 8000


def test_one_exchange_alone_keeps_no_more(engine, routes, queue):
    engine.cached_routes.bytes_max = 20_000
    keys = [f"{number}" for number in range(1000)]
    routes.queues = {key: [queue] for key in keys}
    for key in keys:
        routes.send(key, key)
        assert engine.cached_routes.bytes <= 20_000
    assert queue.ready_count == 2000


def test_keys_that_differ_in_one_byte(routes, engine):
    queues = {bytes((65 + at,)) * 20: engine.queue(0, str(at), False) for at in range(20)}
    for key, queue in queues.items():
        routes.queues[key.decode()] = [queue]
    for _ in range(3):
        routes.send(*queues)
    assert [queue.ready_count for queue in queues.values()] == [3] * 20
    assert set(routes.asked.values()) == {1}


def test_where_headers_count_every_message_is_asked_for(engine, peer, queue):
    routes = Routes(engine, peer, cacheable=False)
    routes.queues = {"k": [queue]}
    raw = properties(headers=table(a=b"V"))
    routes.send("k", "k", raw=raw)
    routes.send("k")
    assert routes.raws == [raw, raw, b"\x00\x00"]
    assert queue.ready_count == 3


def test_an_exchange_may_begin_and_cease_to_look_at_headers(routes, queue):
    routes.queues = {"k": [queue]}
    routes.send("k", "k")
    routes.cache.cacheable = False
    routes.cache.forget()
    routes.send("k", "k")
    routes.cache.cacheable = True
    routes.cache.forget()
    routes.send("k", "k")
    assert routes.raws == [None, b"\x00\x00", b"\x00\x00", None]


def test_a_retired_cache_is_not_used(routes, engine, peer, queue):
    routes.queues = {"k": [queue]}
    routes.send("k")
    routes.cache.retire()
    assert routes.cache.retired
    other = Routes(engine, peer)
    other.send("k")
    assert other.asked == {"k": 1}
    assert queue.ready_count == 1
    del peer.session.caches["x"]
    other.cache.retire()
    other.send("k")
    assert peer.faults == [(1, 404)]


def test_a_key_that_is_no_text_is_a_fault_of_the_channel(routes, peer):
    routes.send(b"\xff")
    assert peer.faults == [(1, 406)]
    assert not routes.asked


def test_channels_of_one_connection_may_use_many_exchanges(engine, peer, queue):
    one, two = Routes(engine, peer), Routes(engine, peer)
    peer.session.caches.update(one=one.cache, two=two.cache)
    one.queues = {"k": [queue]}
    for _ in range(3):
        for channel in (1, 2):
            for exchange in ("one", "two"):
                peer.feed(publish(channel, "k", exchange=exchange))
    assert queue.ready_count == 6
    assert one.asked == two.asked == {"k": 1}


# -------------------------------------------------------------- keys that meet the same bindings


class Binding:
    """Is only looked at for being the same one."""


@pytest.fixture
def meeting(routes):
    """Keys that begin with the same letter meet the same bindings; others meet none."""
    routes.met = {"a": [Binding()], "b": [Binding(), Binding()], "": []}
    routes.leads = {"a": [], "b": [], "": []}
    routes.followed = Counter()

    def follow(met: list[Binding]) -> Any:
        letter = next((each for each, bindings in routes.met.items() if bindings == met), "")
        routes.followed[letter] += 1
        return routes.leads[letter]

    routes.cache.met_by = lambda key: routes.met.get(key[:1], [])
    routes.cache.queues_met = follow
    return routes


def test_the_same_bindings_are_followed_once_and_nobody_is_asked(meeting, queue):
    meeting.leads |= {"a": [queue], "b": [queue]}
    for number in range(100):
        meeting.send(f"a{number}", f"b{number}", f"c{number}", f"a{number}")
    assert meeting.followed == {"a": 1, "b": 1, "": 1}
    assert not meeting.asked
    assert queue.ready_count == 300


def test_what_changes_is_followed_again(meeting, queue, engine):
    meeting.leads["a"] = [queue]
    meeting.send("a0", "a1")
    other = engine.queue(1, "other", False)
    meeting.leads["a"] = [other]
    meeting.cache.forget_key("b")  # whatever changes, changes the epoch
    meeting.send("a2", "a4", "a0")
    assert (queue.ready_count, other.ready_count) == (3, 2)
    assert meeting.followed == {"a": 2}
    meeting.cache.forget()
    meeting.leads["a"] = [queue]
    meeting.send("a3", "a5", "a0")
    assert (queue.ready_count, other.ready_count) == (6, 2)


def test_a_binding_at_the_address_of_one_that_went_is_another_one(meeting, queue):
    meeting.leads["a"] = [queue]
    meeting.send("a0")
    meeting.leads["a"] = []
    addresses = {id(meeting.met["a"][0])}
    for number in range(1, 100):
        meeting.met["a"] = [Binding()]
        assert id(meeting.met["a"][0]) not in addresses, "those that are known are kept"
        addresses.add(id(meeting.met["a"][0]))
        meeting.send(f"a{number}")
    assert queue.ready_count == 1
    assert meeting.followed == {"a": 100}


def test_where_bindings_do_not_say_all_each_key_is_asked_for(meeting, queue):
    meeting.leads["a"] = None
    meeting.queues = {f"a{number}": [queue] for number in range(10)}
    meeting.send(*meeting.queues, *meeting.queues)
    assert meeting.asked == dict.fromkeys(meeting.queues, 1)
    assert queue.ready_count == 20


def test_what_takes_long_or_meets_very_many_is_asked_for_by_key(meeting, queue):
    meeting.queues = {f"a{number}": [queue] for number in range(10)}
    for met in (None, [Binding() for _ in range(1000)]):
        meeting.met["a"] = met
        meeting.cache.forget()
        meeting.asked.clear()
        meeting.send(*meeting.queues)
        assert meeting.asked == dict.fromkeys(meeting.queues, 1)
    assert queue.ready_count == 20


def test_keys_that_are_no_text_are_refused(meeting, peer):
    meeting.send("a0", b"a\xff")
    assert len(peer.session.faults) == 1


def test_the_memory_of_a_route_by_its_bindings_is_counted_once(meeting, engine, queue):
    def kept(*keys: str) -> int:
        meeting.cache.forget()
        meeting.send(*keys)
        return int(engine.cached_routes.bytes)

    meeting.queues = {f"{letter}{number}": [queue] for letter in "ab" for number in range(50)}
    meeting.leads |= {"a": [queue], "b": [queue]}
    meets, by_key = meeting.cache.met_by, {}
    many = list(meeting.queues)
    meeting.cache.met_by = None
    for keys in (("a0",), ("a0", "b0"), many):
        by_key[keys[0], len(keys)] = kept(*keys)
    meeting.cache.met_by = meets
    one = kept("a0") - by_key["a0", 1]
    assert one > 0
    assert kept("a0", "b0") - by_key["a0", 2] == 2 * one
    assert kept(*many) - by_key["a0", 100] == 2 * one
    # What was counted for an epoch that is over is not counted besides.
    meeting.cache.forget_key("unknown")
    meeting.send("a-new")
    assert engine.cached_routes.bytes < by_key["a0", 100] + 2 * one
    meeting.cache.forget()
    assert engine.cached_routes.bytes == 0


def test_routes_by_bindings_are_bounded(meeting, engine):
    bindings = [Binding() for _ in range(100)]
    pairs = [list(pair) for pair in itertools.permutations(bindings, 2)]
    meeting.cache.met_by = lambda key: pairs[int(key) % len(pairs)]
    most = 0
    for number in range(len(pairs)):
        meeting.send(f"{number}")
        most = max(most, engine.cached_routes.bytes)
    meeting.cache.forget()
    assert engine.cached_routes.bytes == 0
    assert most < 10_000_000


def test_a_full_cache_keeps_its_keys_until_many_others_were_used(meeting, engine, queue):
    meeting.leads |= {"a": [queue], "b": [queue]}
    meeting.send(*(f"a{number}" for number in range(32_768)))
    meeting.send("b0")
    full = engine.cached_routes.bytes
    for number in range(1, 131_071):
        meeting.send(f"b{number}")
    assert engine.cached_routes.bytes == full
    meeting.send("b-last")
    assert engine.cached_routes.bytes == 0
    assert queue.ready_count == 32_768 + 131_072
    assert meeting.followed == {"a": 1, "b": 1}
    meeting.send("b1", "b2")
    assert 0 < engine.cached_routes.bytes < full / 1000


def test_places_of_forgotten_keys_are_used_again(meeting, engine, queue):
    """A queue that comes and goes is forgotten by its key each time; the cache has room then."""
    meeting.leads |= {"a": [queue], "b": [queue]}
    for number in range(32_768):
        meeting.send(f"a{number}")
        meeting.cache.forget_key(f"a{number}")
    meeting.send("b0")
    kept = engine.cached_routes.bytes
    meeting.send("b1", "b2", "b3")
    assert engine.cached_routes.bytes > kept


def test_what_bindings_led_to_is_not_kept_when_a_key_is_forgotten(meeting, engine, queue):
    other = engine.queue(1, "other", False)
    before = sys.getrefcount(other)
    meeting.leads["a"] = [other]
    meeting.send("a")
    assert sys.getrefcount(other) > before
    meeting.leads["a"] = []
    meeting.send("b")  # the channel keeps the route of its last message
    meeting.cache.forget_key("a")
    assert sys.getrefcount(other) == before
