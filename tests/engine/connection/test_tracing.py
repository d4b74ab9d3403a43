"""What the engine tells of a channel that is traced."""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest
from tests.engine.frames import Delivery, longstr, nack, properties, publish, table
from tests.engine.session_fake import Peer
from tests.engine.slices import MS

from leporid.engine.engine import Engine
from leporid.engine.queue.queue import Queue


class Trace:
    """Notes what it is told."""

    def __init__(self, room: bool = True) -> None:
        self.room = room
        self.sizes: list[int] = []
        self.told: list[tuple[Any, ...]] = []

    def admits(self, size: int) -> bool:
        self.sizes.append(size)
        return self.room

    def published(self, *what: Any) -> None:
        self.told.append(("published", *what))

    def delivered(self, *what: Any) -> None:
        self.told.append(("delivered", *what))


RAW = properties()
NAMES = b"\x00\x01q"


@pytest.fixture
def trace(peer: Peer) -> Trace:
    """That of channel 1."""
    peer.channel.trace = found = Trace()
    return found


def test_a_publish_and_each_delivery(engine: Engine, peer: Peer, queue: Queue, trace: Trace):
    engine.clock.wall_ms = 1000
    peer.channel.consume(queue, "c", False, 0, 0)
    peer.feed(publish(1, "q", b"x", raw=RAW))
    assert [each.body for each in peer.deliveries()] == [b"x"]
    engine.clock.wall_ms = 1500
    peer.feed(nack(1, 1))
    assert [each.redelivered for each in peer.deliveries()] == [True]
    assert trace.told == [
        ("published", 1000, NAMES, RAW, b"x", [], ["q"]),
        ("delivered", 1000, 1000, "q", NAMES, RAW, b"x", False),
        ("delivered", 1500, 1000, "q", NAMES, RAW, b"x", True),
    ]
    assert trace.sizes == [len(NAMES) + len(RAW) + 1] * 3


def test_what_is_got_and_gone_at_once(peer: Peer, queue: Queue, trace: Trace):
    peer.feed(publish(1, "q", b"x", raw=RAW))
    assert peer.get(queue, no_ack=True) is not None
    peer.channel.consume(queue, "c", True, 0, 0)
    peer.feed(publish(1, "q", b"y", raw=RAW))
    assert [type(each) for each in peer.events()] == [Delivery]
    assert [(each[0], each[-2]) for each in trace.told if each[0] == "delivered"] == [
        ("delivered", b"x"),
        ("delivered", b"y"),
    ]


def test_what_there_is_no_room_for_is_not_copied(peer: Peer, queue: Queue, trace: Trace):
    trace.room = False
    peer.feed(publish(1, "q", b"x"))
    assert peer.get(queue) is not None
    assert (len(trace.sizes), trace.told) == (2, [])


def test_another_channel_is_not_traced(engine: Engine, peer: Peer, queue: Queue, trace: Trace):
    other = Peer(engine, {"q": queue})
    other.feed(publish(1, "q", b"x"))
    assert other.get(queue) is not None
    assert trace.sizes == []


def test_an_unroutable_message_is_published_too(peer: Peer, trace: Trace):
    peer.feed(publish(1, "absent", b"x", raw=RAW))
    (told,) = trace.told
    assert told[2:] == (b"\x00\x06absent", RAW, b"x", [], [])


@pytest.mark.parametrize(("size", "told"), [(10, 12), (8192, 5)])
def test_a_turn_has_few_copies_of_large_properties(
    peer: Peer, queue: Queue, trace: Trace, engine: Engine, size: int, told: int
):
    raw = properties(headers=table(x=longstr(b"y" * size)))
    # Every fifth reading ends a slice.
    engine.clock.monotonic_ns = count(0, MS // 8).__next__
    peer.feed(publish(1, "q", b"x", raw=raw) * 12)
    assert len(trace.told) == told, "the others wait for the next turn"
