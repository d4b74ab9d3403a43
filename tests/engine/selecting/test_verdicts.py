"""Batches as a filter's process reads them; that they are bounded is in the tests of who asks."""

from __future__ import annotations

from tests.engine.asking import Asking, bodies_of
from tests.engine.frames import PERSISTENT, properties, publish, table
from tests.engine.stream_world import World, numbered


def test_a_batch_has_names_properties_and_bodies_in_order():
    world = World()
    raw = properties(headers=table(n=b"l" + bytes(7) + b"\5"), delivery_mode=2)
    world.peer.feed(publish(1, "s", b"body", raw=raw) + publish(1, "s", b"", raw=PERSISTENT))
    world.sync()
    first, second = Asking(world).messages()
    assert (first.exchange, first.routing_key, first.body) == ("", "s", b"body")
    assert (first.headers, first.properties.delivery_mode) == ({"n": 5}, 2)
    assert (second.headers, second.body) == ({}, b"")


def test_a_batch_has_no_more_than_an_engine_keeps_at_hand():
    world = World()
    world.send(*numbered(1200))
    world.sync()
    asking = Asking(world)
    assert bodies_of(asking.messages(most=1_000_000)) == numbered(1000)
