"""A queue that is driven beside its model: how it is set up, and what both must agree about."""

from __future__ import annotations

from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from tests.engine import frames
from tests.engine.session_fake import Peer, make_engine
from tests.engine.slices import ended
from tests.model.queue_model import HELD, RETRY_MAX_MS, RETRY_MIN_MS, UNACKED, ModelQueue

from leporid.engine.engine import Engine
from leporid.engine.queue.queue import Queue


class QueueWorld(RuleBasedStateMachine):
    """One queue q.

    Attributes:
        dead_lettered: (reason, number) of what died.
        numbers: the body of the last message.
        tags: how many consumers there were.
    """

    engine: Engine
    queue: Queue
    model: ModelQueue

    def set_up(
        self, max_priority: int, max_length: int | None, limit: int | None, retries: str
    ) -> None:
        self.engine = make_engine(transient_segment_bytes=4096)
        self.queue = self.engine.queue(0, "q", False)
        self.max_priority = max_priority
        if max_priority:
            self.queue.set_priorities(max_priority)
        if max_length is not None:
            self.queue.set_limits(max_length=max_length)
        self.queue.set_delivery_limit(limit, True)
        self.queue.set_retries(retries, RETRY_MIN_MS, RETRY_MAX_MS)
        self.queue.set_consumer_timeout(0, True)
        self.dead_lettered: list[tuple[str, int]] = []
        self.numbers = self.tags = 0

    def begin_with(self, model: ModelQueue, peer: Peer, channel: int, blocks: int) -> None:
        """Nothing is in it, but so many messages were, so that numbers cross the index's blocks."""
        self.model = model
        model.now_ms = self.engine.clock.now_ms
        for _ in range(blocks):
            peer.feed(frames.publish(channel, "q"))
        ended(self.queue.purging())
        self.queue.dead_letters = lambda reason, _exchange, _key, _raw, body: (
            self.dead_lettered.append((reason, int(body)))
        )

    @rule()
    def purge(self) -> None:
        left = [each for each in self.model.entries if each.state == UNACKED]
        assert ended(self.queue.purging()) == len(self.model.entries) - len(left)
        self.model.entries = left

    @invariant()
    def counts_are_the_models(self) -> None:
        if not hasattr(self, "model"):
            return
        assert self.dead_lettered == self.model.dead_lettered
        ready = self.model.ready()
        held = sum(entry.state == HELD for entry in self.model.entries)
        assert self.queue.held_count == held
        assert self.queue.ready_count == len(ready)
        assert self.queue.ready_bytes == sum(len(str(entry.number)) for entry in ready)
        assert self.queue.unacked_count == len(self.model.entries) - len(ready) - held
        everybody = [each for channel in self.model.channels for each in channel.consumers]
        assert self.queue.consumer_count == len(everybody)
        for consumer in everybody:
            assert consumer.real.unacked_count == consumer.unacked

    def what_is_left_is_the_models(self) -> None:
        """The queue is emptied."""
        reader = Peer(self.engine, {"q": self.queue})
        assert [int(body) for body in reader.drain(self.queue)] == [
            entry.number for entry in self.model.ready()
        ]
