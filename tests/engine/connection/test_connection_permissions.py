"""What a channel remembers of its last exchange: which keys it may use, and for how long."""

from __future__ import annotations

import pytest
from tests.engine.frames import NO_PROPERTIES, array, longstr, properties, publish, table
from tests.engine.session_fake import Peer, make_engine

from leporid.amqp.errors import AccessRefused


class World:
    """One exchange that leads to one queue, and a client."""

    def __init__(self) -> None:
        self.engine = make_engine()
        self.queue = self.engine.queue(0, "q", False)
        self.peer = Peer(self.engine, {"q": self.queue})
        self.session = self.peer.session
        self.session.caches["x"] = self.engine.route_cache("x", lambda key, raw: [self.queue], True)
        self.checked: list[str] = []

    def check(self, key: str) -> None:
        self.checked.append(key)
        if key.startswith("no"):
            raise AccessRefused(f"topic '{key}'")

    def publish(self, key: str, raw: bytes = NO_PROPERTIES) -> None:
        self.peer.feed(publish(1, key, b"body", exchange="x", raw=raw))


@pytest.fixture
def world() -> World:
    return World()


def test_without_a_check_every_key_may_be_used(world: World):
    for _ in range(3):
        world.publish("no")
    assert world.queue.ready_count == 3
    assert world.session.asked == ["x"]


def test_every_key_is_checked(world: World):
    world.session.checks["x"] = world.check
    world.publish("yes")
    world.publish("yes")
    assert world.checked == ["yes", "yes"]
    assert world.session.asked == ["x"]
    world.publish("no")
    assert world.peer.faults == [(1, 403)]
    assert world.queue.ready_count == 2


@pytest.mark.parametrize("header", ["CC", "BCC"])
def test_keys_of_copies_are_checked_too(world: World, header: str):
    world.session.checks["x"] = world.check
    headers = table(**{header: array(longstr("yes.2"), longstr("no.3"))})
    world.publish("yes.1", raw=properties(headers=headers))
    assert world.checked == ["yes.1", "yes.2", "no.3"]
    assert world.queue.ready_count == 0
    assert world.peer.faults == [(1, 403)]


def test_what_was_allowed_is_asked_again_when_it_is_forgotten(world: World):
    world.publish("no")
    world.session.checks["x"] = world.check
    world.publish("no")
    assert (world.queue.ready_count, world.session.asked) == (2, ["x"])
    world.peer.channel.forget_exchange()
    world.publish("no")
    assert world.session.asked == ["x", "x"]
    assert world.queue.ready_count == 2
    assert world.peer.faults == [(1, 403)]
