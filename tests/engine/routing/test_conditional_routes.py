"""Routes with filters, as publishers to the engine meet them."""

from __future__ import annotations

from typing import Any

import pytest
from tests.engine.frames import publish
from tests.engine.session_fake import Peer

from leporid.amqp.properties import Properties, encode_properties
from leporid.amqp.tables import Value
from leporid.engine.engine import Engine
from leporid.engine.routing.conditional_routes import ConditionalRoute
from leporid.engine.selectors.filter import Filter
from leporid.engine.selectors.selector import Selector
from leporid.filters.compiler import program


def selector(text: str) -> Selector:
    return Selector(program(text).code)


class World:
    """An exchange whose one route is made of filters, and two queues."""

    def __init__(self, engine: Engine, peer: Peer) -> None:
        self.engine, self.peer = engine, peer
        self.a, self.b, self.c = (engine.queue(0, name, False) for name in "abc")
        self.asked = 0
        self.always: list[object] = []
        self.filtered: list[tuple[Filter, object]] = []
        self.cache = engine.route_cache("x", self.resolve, True)
        peer.session.caches["x"] = self.cache

    def resolve(self, key: str, raw: bytes | None) -> ConditionalRoute:
        assert raw is None
        self.asked += 1
        return self.engine.conditional_route(self.always, self.filtered)

    def goes(self, key: str = "k", **headers: Value) -> str:
        raw = encode_properties(Properties(headers=headers))
        self.peer.feed(publish(1, key, b"m", raw=raw, exchange="x"))
        queues = self.a, self.b, self.c
        return "".join(queue.name * len(self.peer.drain(queue)) for queue in queues)


@pytest.fixture
def world(engine, peer) -> World:
    return World(engine, peer)


def test_each_message_is_asked_for_and_each_key_once(world):
    world.filtered = [(selector("n > 1"), world.a), (selector("n > 2"), world.b)]
    assert [world.goes(n=n) for n in (1, 2, 3, 2, 1)] == ["", "a", "ab", "a", ""]
    assert world.goes("other", n=3) == "ab"
    assert world.asked == 2


def test_a_queue_of_every_message_beside_others(world):
    world.always = [world.c]
    world.filtered = [(selector("n > 1"), world.a), (selector("n > 2"), world.b)]
    assert [world.goes(n=n) for n in (1, 2, 3)] == ["c", "ac", "abc"]


def test_a_queue_with_several_filters_is_in_a_route_once(world):
    world.filtered = [(selector(f"n > {n}"), world.a) for n in range(5)]
    world.filtered += [(selector("n = 3"), world.b)]
    assert [world.goes(n=n) for n in (0, 1, 3, 9, 3)] == ["", "a", "ab", "a", "ab"]


def test_filters_know_names(world):
    world.filtered = [(selector("exchange = 'x' AND routing_key = 'é'"), world.a)]
    assert world.goes("é") == "a"
    assert world.goes("e") == ""
    assert world.goes("") == ""


def test_what_was_asked_is_counted(world):
    world.filtered = [(selector("n > 1"), world.a), (selector("m = 'x'"), world.b)]
    world.goes(n=2)
    world.goes(n="text", m="x")
    engine = world.engine
    assert (engine.publishing.filters.asked, engine.publishing.filters.evaluated) == (4, 3)
    assert (engine.publishing.filters.matched, engine.publishing.filters.type_errors) == (2, 1)
    engine.publishing.filters.note(5, 5, 2, 1)
    assert (engine.publishing.filters.asked, engine.publishing.filters.evaluated) == (9, 8)
    assert (engine.publishing.filters.matched, engine.publishing.filters.type_errors) == (4, 2)


def test_a_route_that_is_forgotten_is_made_again(world):
    world.filtered = [(selector("n > 1"), world.a)]
    assert world.goes(n=2) == "a"
    world.filtered = [(selector("n > 1"), world.b)]
    assert world.goes(n=2) == "a"
    world.cache.forget_key("k")
    assert world.goes(n=2) == "b"
    world.filtered = []
    world.cache.forget()
    assert world.goes(n=2) == ""


def test_routes_with_and_without_filters_side_by_side(world):
    plain = world.engine.route_cache("plain", lambda key, raw: [world.c], True)
    world.peer.session.caches["plain"] = plain
    world.filtered = [(selector("n > 1"), world.a)]
    for _ in range(3):
        world.peer.feed(publish(1, "k", b"m", exchange="plain"))
        assert world.goes(n=2) == "ac"
        assert world.goes(n=1) == ""


# ------------------------------------------------------------------ deciding about more than queues


class Deciding(World):
    """An exchange whose routes are found out by which filters a message passes."""

    def __init__(self, engine: Engine, peer: Peer) -> None:
        super().__init__(engine, peer)
        self.filters = [selector("n > 1"), selector("n > 2"), selector("m = 'x'")]

    def resolve(self, key: str, raw: bytes | None) -> object:  # type: ignore[override]
        if raw is None:
            return self.engine.filter_outcomes(self.filters)
        self.asked += 1
        passed = [one.matches_message("x", key, raw) for one in self.filters]
        queues = self.a, self.b, self.c
        return [queue for queue, passes in zip(queues, passed, strict=True) if passes] or [self.c]


@pytest.fixture
def deciding(engine, peer) -> Deciding:
    return Deciding(engine, peer)


def test_messages_that_pass_the_same_filters_are_asked_about_once(deciding):
    numbers = (1, 2, 3, 4, 2, 1, 7)
    assert [deciding.goes(n=n) for n in numbers] == ["c", "a", "ab", "ab", "a", "c", "ab"]
    assert deciding.asked == 3
    assert deciding.goes(n=9, m="x") == deciding.goes(m="x", n=3) == "abc"
    assert deciding.asked == 4
    # Of another key nothing is known.
    assert deciding.goes("other", n=2) == "a"
    assert deciding.asked == 5
    assert [deciding.goes(key, n=3) for key in ("k", "other", "k")] == ["ab"] * 3
    assert deciding.asked == 6


def test_what_was_found_out_is_forgotten_with_the_route(deciding):
    assert [deciding.goes(n=2), deciding.goes(n=2)] == ["a", "a"]
    deciding.cache.forget_key("k")
    assert deciding.goes(n=2) == "a"
    deciding.cache.forget()
    assert deciding.goes(n=2) == "a"
    assert deciding.asked == 3
    deciding.cache.amend(lambda key: key == "k", deciding.filters[0], deciding.a, True)
    assert deciding.goes(n=2) == "a"
    assert deciding.asked == 4


def test_what_is_known_by_heart_is_counted_too(deciding):
    """Who finds it out asks, and counts, by itself."""
    deciding.goes(n=2)
    assert deciding.engine.publishing.filters.asked == 0
    deciding.goes(n=2)
    engine = deciding.engine
    assert (
        engine.publishing.filters.asked,
        engine.publishing.filters.evaluated,
        engine.publishing.filters.matched,
    ) == (3, 2, 1)
    assert deciding.cache.counters.asked == 3


@pytest.mark.slow
def test_outcomes_are_bounded(engine, peer):
    world = Deciding(engine, peer)
    world.filters = [selector(f"h{n} = 1") for n in range(20)]
    world.resolve = lambda key, raw: (  # type: ignore[method-assign]
        engine.filter_outcomes(world.filters) if raw is None else [world.a]
    )
    world.cache = engine.route_cache("x", world.resolve, True)
    peer.session.caches["x"] = world.cache
    epoch = world.cache.epoch
    for number in range(80_000):
        headers: dict[str, Any] = {f"h{bit}": number >> bit & 1 for bit in range(20)}
        assert world.goes(**headers) == "a"
    assert world.cache.epoch > epoch
