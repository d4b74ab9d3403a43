"""Streams of messages with tags, on a disk, and readers that want some of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from tests.engine.frames import ack, publish
from tests.engine.session_fake import Peer
from tests.engine.stream_world import World, offset_of

from leporid.amqp.properties import Properties, encode_properties
from leporid.amqp.tables import Value
from leporid.engine.connection.stream_consumer import StreamConsumer
from leporid.engine.selectors.tags import Tags
from leporid.engine.stream.choice import Choice


def raw_of(headers: dict[str, Value] | None) -> bytes:
    """Encoded properties of a persistent message."""
    return encode_properties(Properties(headers=headers or None, delivery_mode=2))


def of_tags(*tags: bytes) -> Choice:
    """What `x-filter-tags` asks for."""
    return Choice(Tags(tags), [tags])


@dataclass
class Wanting:
    """A connection with one reader of a stream; its deliveries are settled as they come."""

    world: World
    choice: Choice | None
    offset: int = 0
    prefetch: int = 1000
    got: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.peer = Peer(self.world.engine, {"s": self.world.stream})
        self.reader: StreamConsumer = self.peer.channel.consume_stream(
            self.world.stream, "r", self.prefetch, self.offset, self.choice
        )

    def turn(self) -> int:
        """One turn; returns how many deliveries it brought."""
        found = [offset_of(event.raw) for event in self.peer.deliveries()]
        self.got += found
        if found:
            self.peer.feed(ack(1, 0, multiple=True))
        return len(found)

    def turns(self) -> int:
        """As many turns as it takes; returns how many."""
        count = 1
        while self.turn() or self.world.engine.busy:
            count += 1
        return count


def send(world: World, tables: Iterable[dict[str, Value] | None], size: int = 0) -> None:
    """Publish messages with these headers."""
    for headers in tables:
        world.peer.feed(publish(1, "s", bytes(size), raw=raw_of(headers)))
