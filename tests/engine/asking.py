"""A connection with one reader of a stream that asks a filter class, and who judges for it."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from tests.engine.frames import ack
from tests.engine.session_fake import Peer
from tests.engine.stream_world import World, offset_of

from leporid.engine.connection.judged_stream_consumer import JudgedStreamConsumer
from leporid.engine.stream.choice import Choice
from leporid.filterserver import frames
from leporid.filterserver.message import Message, messages_of


def bodies_of(messages: Iterable[Message]) -> list[bytes]:
    return [each.body for each in messages]


class Asking:
    """One reader; what is delivered to it, it settles at once."""

    def __init__(
        self,
        world: World,
        choice: Choice | None = None,
        *,
        offset: int = 0,
        prefetch: int = 10_000,
        settles: bool = True,
    ) -> None:
        self.world = world
        self.settles = settles
        self.got: list[int] = []
        self.peer = Peer(world.engine, {"s": world.stream})
        reader = self.peer.channel.consume_stream(
            world.stream, "r", prefetch, offset, choice, filter_class="C"
        )
        assert isinstance(reader, JudgedStreamConsumer)
        self.reader = reader

    def turn(self) -> list[int]:
        """One turn; returns the offsets that it brought."""
        found = [offset_of(event.raw) for event in self.peer.deliveries()]
        self.got += found
        if found and self.settles:
            self.peer.feed(ack(1, 0, multiple=True))
        return found

    def rest(self) -> None:
        """As many turns as bring something."""
        while self.turn() or self.world.engine.busy:
            pass

    def messages(self, most: int = 1000, bytes_max: int = 2**20) -> list[Message]:
        """The next batch, as a filter sees it."""
        self.rest()
        batch = self.reader.batch(most, bytes_max)
        if batch is None:
            return []
        frame, count = batch
        kind, size = frames.HEAD.unpack_from(frame)
        assert (kind, size) == (frames.BATCH, len(frame) - frames.HEAD.size)
        found = list(messages_of(frame[frames.HEAD.size :]))
        assert len(found) == count
        return found

    def judge(self, passes: Callable[[bytes], bool], most: int = 1000) -> list[bytes]:
        """Judge one batch; returns what was in it."""
        bodies = bodies_of(self.messages(most))
        if bodies:
            self.reader.judged(bytes(passes(body) for body in bodies))
        return bodies

    def judge_all(self, passes: Callable[[bytes], bool], most: int = 1000) -> None:
        while self.judge(passes, most):
            pass
        self.rest()
