"""Routes with filters while bindings come and go, over the real engine."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest
from tests.broker.exchange.test_routing import Filtering, raw


@pytest.fixture
def here() -> Iterator[Filtering]:
    found = Filtering()
    yield found
    assert not found.peer.session.defects


@pytest.fixture(params=["direct", "topic", "fanout", "headers"])
def exchange(here, request) -> str:
    here.exchange("x", request.param)
    return "x"


class Counting:
    """An engine that notes which conditional routes are made."""

    def __init__(self, engine, made):
        self._engine = engine
        self._made = made

    def conditional_route(self, queues, filtered):
        self._made.append(len(filtered))
        return self._engine.conditional_route(queues, filtered)

    def note_filtered(self, *counts):
        self._engine.NOTE_FILTERED(*counts)


def test_a_route_is_made_once_for_many_keys(here):
    here.exchange("x", "topic")
    here.queues("a", "b")
    made: list[int] = []
    here.vhost.routing._engine = Counting(here.engine, made)
    here.filtered("x", "a", "#", sql="n = 1")
    here.filtered("x", "b", "#", sql="n > 0")
    for number in range(50):
        assert here.goes("x", raw(n=1), f"key{number}") == "ab"
    assert len(made) == 1
    here.unbind("x", "b", "#", sql="n > 0")
    assert here.goes("x", raw(n=1), "key1") == "a"
    assert len(made) == 1
    assert here.goes("x", raw(n=1), "another") == "a"
    assert len(made) == 2
    here.unbind("x", "a", "#", sql="n = 1")
    here.bind("x", "a", "#")
    del made[:]
    gc.collect()
    assert len(here.vhost.routing._forks) == 0


@pytest.mark.parametrize("key", ["#", "k", "k.#"])
def test_a_route_is_not_made_anew_for_each_binding_with_a_filter(here, key):
    """Else a thousand bindings would be looked at a thousand times while somebody publishes."""
    here.exchange("x", "topic")
    here.queues("a", "b")
    made: list[int] = []
    here.vhost.routing._engine = Counting(here.engine, made)
    for n in range(50):
        here.filtered("x", "ab"[n % 2], key, sql=f"n = {n}")
        assert here.goes("x", raw(n=n)) == "ab"[n % 2]
        assert here.goes("x", raw(n=n + 1)) == ""
    for n in range(49):
        here.unbind("x", "ab"[n % 2], key, sql=f"n = {n}")
        assert here.goes("x", raw(n=n)) == ""
        assert here.goes("x", raw(n=49)) == "b"
    assert made == [1]


def test_a_binding_that_some_keys_of_a_route_meet(here):
    here.exchange("x", "topic")
    here.queues("a", "b", "c")
    here.filtered("x", "a", "#", sql="n = 1")
    for key in ("k.one", "k.two", "three"):
        assert here.goes("x", raw(n=1), key) == "a"
    here.filtered("x", "b", "k.*", sql="n > 0")
    here.filtered("x", "c", "k.two", sql="n > 0")
    assert [here.goes("x", raw(n=1), key) for key in ("k.one", "k.two", "three")] == [
        "ab",
        "abc",
        "a",
    ]
    here.unbind("x", "b", "k.*", sql="n > 0")
    assert [here.goes("x", raw(n=1), key) for key in ("k.one", "k.two", "three")] == [
        "a",
        "ac",
        "a",
    ]


def test_filters_come_and_go_for_a_queue_that_has_others(here, exchange):
    here.queues("a")
    here.filtered("x", "a", sql="n = 1")
    assert here.goes("x", raw(n=1)) == "a"
    here.filtered("x", "a", sql="n > 0")
    here.filtered("x", "a", tags="late")
    assert [here.goes("x", raw("late", n=n)) for n in (1, 2, 0)] == ["a", "a", "a"]
    here.unbind("x", "a", tags="late")
    here.unbind("x", "a", sql="n = 1")
    assert [here.goes("x", raw("late", n=n)) for n in (1, 2, 0)] == ["a", "a", ""]
    here.bind("x", "a")
    here.filtered("x", "a", sql="n = 5")
    assert here.goes("x", raw(n=0)) == "a"
    here.unbind("x", "a", sql="n = 5")
    here.vhost.bindings.unbind(here.binding("x", "a"), None)
    assert [here.goes("x", raw(n=n)) for n in (1, 0)] == ["a", ""]


def test_more_keys_than_are_looked_at_one_by_one(here):
    here.exchange("x", "topic")
    here.queues("a", "b")
    here.filtered("x", "a", "#", sql="n = 1")
    for key in range(200):
        assert here.goes("x", raw(n=1), f"k{key}") == "a"
    here.filtered("x", "b", "k1*", sql="n = 1")
    here.filtered("x", "b", "k7", sql="n = 1")
    assert [here.goes("x", raw(n=1), key) for key in ("k7", "k8")] == ["ab", "a"]


def test_routes_with_many_filters_are_not_all_kept(here, monkeypatch):
    """Each key that leads to a queue of its own besides has a route with all filters."""
    monkeypatch.setattr("leporid.broker.exchange.routing.MEMBERS_MAX", 50)
    here.exchange("x", "topic")
    names = [chr(ord("a") + number) for number in range(20)]
    here.queues("z", *names)
    for n in range(10):
        here.filtered("x", "z", key="#", sql=f"n = {n}")
    for name in names:
        here.filtered("x", name, key=name)
    most = 0
    for name in names * 2:
        assert here.goes("x", raw(n=7), name) == f"{name}z"
        most = max(most, len(here.vhost.routing._forks))
    assert 1 < most <= 5
