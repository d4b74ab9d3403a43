"""What a channel remembers of its last exchange: which keys it may use, and for how long."""

from __future__ import annotations

import pytest
from tests.engine.frames import NO_PROPERTIES, array, longstr, properties, publish, table
from tests.engine.session_fake import Peer, make_engine

from leporid.amqp.errors import AccessRefused
from leporid.engine.routing.route_cache import RouteCache


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


# ---------------------------------------------------------------- rights that are not known yet


class Asking(World):
    """A session that has to ask for the right to publish, and for keys."""

    def __init__(self) -> None:
        super().__init__()
        self.unknown = {"x"}
        route_cache = self.session.route_cache

        def asking(exchange: str) -> RouteCache | None:
            if exchange in self.unknown:
                self.session.asked.append(exchange)
                self.peer.connection.begin_work()
                return None
            return route_cache(exchange)

        self.session.route_cache = asking  # type: ignore[method-assign,assignment]

    def check_later(self, key: str) -> bool:
        self.checked.append(key)
        if key in self.unknown:
            self.peer.connection.begin_work()
            return True
        return False

    def grant(self, *names: str) -> None:
        for name in names:
            self.unknown.discard(name)
            self.peer.connection.end_work()
        self.engine.run()


@pytest.mark.parametrize("size", [0, 5, 10_000])
def test_a_publish_waits_for_the_right(size: int):
    world = Asking()
    frames = publish(1, "k", b"m" * size, exchange="x", step=1000)
    world.peer.feed(frames)
    assert (world.queue.ready_count, world.peer.connection.reading) == (0, False)
    world.engine.run()
    assert world.session.asked == ["x"]
    world.grant("x")
    assert world.queue.ready_count == 1
    assert world.session.asked == ["x", "x"]
    assert world.peer.connection.reading
    world.peer.feed(frames)
    assert world.queue.ready_count == 2
    assert world.session.asked == ["x", "x"]


def test_nothing_of_a_message_is_kept_before_the_right_is_known():
    world = Asking()
    frames = publish(1, "k", b"m" * 10_000, exchange="x", step=1000)
    world.peer.feed(frames[:1000])
    assert world.peer.connection.content_count == 0
    world.session.caches.clear()  # it is refused
    world.grant("x")
    assert world.peer.connection.content_count == 0
    assert world.peer.faults == [(1, 404)]


def test_a_right_that_is_forgotten_before_a_message_is_whole_is_asked_for_again():
    world = Asking()
    frames = publish(1, "k", b"m" * 10_000, exchange="x", step=1000)
    world.unknown.clear()
    world.peer.feed(frames[:1000])
    assert world.peer.connection.content_count == 1
    world.unknown.add("x")
    world.peer.channel.forget_exchange()
    world.peer.feed(frames[1000:])
    assert world.queue.ready_count == 0
    world.grant("x")
    assert world.queue.ready_count == 1


def test_keys_are_waited_for_all_at_once():
    world = Asking()
    world.unknown = {"k", "c", "d"}
    world.session.checks["x"] = world.check_later  # type: ignore[assignment]
    world.session.routed = lambda key: [world.queue]  # type: ignore[method-assign]
    headers = table(CC=array(longstr("c"), longstr("known"), longstr("d")))
    world.publish("k", raw=properties(headers=headers))
    assert world.checked == ["k"]
    world.grant("k")
    assert world.checked == ["k", "k", "c", "known", "d"]
    world.grant("c", "d")
    assert world.queue.ready_count == 1
    assert world.peer.faults == []


def test_a_peer_that_goes_while_it_waits_leaves_nothing():
    world = Asking()
    world.publish("k")
    world.peer.connection.lost()
    world.grant("x")
    assert world.queue.ready_count == 0
    assert world.peer.connection.jobs == 0
