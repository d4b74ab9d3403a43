"""Several queues under the limit of one channel: who gets the next message.

What may be delivered is looked up anew each time, from the queues' lengths and what is unsettled.
Never is more out than the limit, nobody who could take waits at the end of a turn, and no queue
that could be served when a turn began is passed over: between two of its deliveries each other one
has one at most.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule
from tests.engine import frames
from tests.engine.session_fake import Peer, make_engine

from leporid.engine.connection.consumer import Consumer

QUEUES = 4


@dataclass(eq=False)
class ModelConsumer:
    queue: int
    prefetch: int
    no_ack: bool
    priority: int
    real: Consumer
    unacked: int = 0

    @property
    def has_room(self) -> bool:
        return self.no_ack or not self.prefetch or self.unacked < self.prefetch


class SharedCreditMachine(RuleBasedStateMachine):
    """Drives one channel; messages come by another connection."""

    @initialize(limit=st.sampled_from([1, 2, 4]))
    def begin(self, limit: int) -> None:
        self.engine = make_engine()
        self.queues = [self.engine.queue(0, f"q{number}", False) for number in range(QUEUES)]
        names = {queue.name: queue for queue in self.queues}
        self.publisher = Peer(self.engine, names)
        self.peer = Peer(self.engine, names)
        self.ready = [0] * QUEUES
        self.consumers: dict[str, ModelConsumer] = {}
        self.unacked: dict[int, tuple[int, ModelConsumer]] = {}
        self.limit, self.tags = limit, 0
        self.peer.channel.prefetch_global = limit
        # By queue that could have been served since: how often each other one was.
        self.since: dict[int, Counter[int]] = {}
        # Those that could have been served when the last turn ended.
        self.waited: set[int] = set()

    # ------------------------------------------------------------- rules

    @rule(queue=st.integers(0, QUEUES - 1), count=st.sampled_from([1, 1, 2, 5, 20]))
    def publish(self, queue: int, count: int) -> None:
        self.publisher.feed(frames.publish(1, f"q{queue}", b"x") * count)
        self.ready[queue] += count
        self.turn()

    @rule(
        queue=st.integers(0, QUEUES - 1),
        prefetch=st.sampled_from([0, 0, 1, 2]),
        no_ack=st.sampled_from([False, False, False, True]),
        priority=st.sampled_from([0, 0, 0, 1]),
    )
    def consume(self, queue: int, prefetch: int, no_ack: bool, priority: int) -> None:
        self.tags += 1
        tag = f"c{self.tags}"
        real = self.peer.channel.consume(self.queues[queue], tag, no_ack, priority, prefetch)
        self.consumers[tag] = ModelConsumer(queue, prefetch, no_ack, priority, real)
        self.turn()

    @precondition(lambda self: self.consumers)
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        tag = data.draw(st.sampled_from(sorted(self.consumers)))
        self.peer.channel.cancel(self.consumers.pop(tag).real)
        self.turn()

    @precondition(lambda self: self.unacked)
    @rule(data=st.data(), how=st.sampled_from(["ack", "ack", "ack", "requeue"]))
    def settle(self, data: st.DataObject, how: str) -> None:
        tag = data.draw(st.sampled_from(sorted(self.unacked)))
        self.peer.feed(frames.ack(1, tag) if how == "ack" else frames.reject(1, tag, True))
        self.settled(tag, requeued=how != "ack")
        self.turn()

    @rule(count=st.integers(1, 12))
    def work(self, count: int) -> None:
        """The oldest delivery is acknowledged, again and again."""
        for _ in range(count):
            if self.unacked:
                tag = min(self.unacked)
                self.peer.feed(frames.ack(1, tag))
                self.settled(tag)
                self.turn()

    @rule()
    def acknowledge_everything(self) -> None:
        self.peer.feed(frames.ack(1, 0, True))
        for tag in sorted(self.unacked):
            self.settled(tag)
        self.turn()

    @rule(limit=st.sampled_from([0, 1, 2, 3, 10]))
    def change_limit(self, limit: int) -> None:
        self.peer.channel.prefetch_global = self.limit = limit
        self.turn()

    # ------------------------------------------------------------- what must hold

    def settled(self, tag: int, *, requeued: bool = False) -> None:
        queue, consumer = self.unacked.pop(tag)
        consumer.unacked -= 1
        self.ready[queue] += requeued

    def candidates(self, queue: int) -> list[ModelConsumer]:
        """Who of a queue could take, but for the channel's limit."""
        if not self.ready[queue]:
            return []
        able = [each for each in self.consumers.values() if each.queue == queue and each.has_room]
        highest = max((each.priority for each in able), default=0)
        return [each for each in able if each.priority == highest]

    def turn(self) -> None:
        for delivery in self.peer.deliveries():
            consumer = self.consumers[delivery.consumer]
            assert not self.limit or len(self.unacked) < self.limit
            assert consumer in self.candidates(consumer.queue)
            self.note_turn(consumer.queue)
            self.ready[consumer.queue] -= 1
            if not consumer.no_ack:
                consumer.unacked += 1
                self.unacked[delivery.tag] = consumer.queue, consumer
        if not self.limit or len(self.unacked) < self.limit:
            assert not any(self.candidates(queue) for queue in range(QUEUES))
        for queue, found in enumerate(self.queues):
            assert found.ready_count == self.ready[queue]
        self.waited = {queue for queue in range(QUEUES) if self.candidates(queue)}

    def note_turn(self, served: int) -> None:
        self.waited.add(served)
        self.since = {
            queue: self.since.get(queue, Counter())
            for queue in self.waited
            if self.candidates(queue)
        }
        for queue, others in self.since.items():
            if queue == served:
                others.clear()
                continue
            others[served] += 1
            # Without a limit, queues know nothing of each other.
            assert not self.limit or others[served] <= ALLOWED, (queue, others)
        if not self.limit:
            self.since = {}


# The one whose turn it is, and one that took before it was known that others wait.
ALLOWED = 2


class TestSharedCredit(SharedCreditMachine.TestCase):  # type: ignore[misc, valid-type]
    settings = settings(max_examples=6, stateful_step_count=30)


@pytest.mark.slow
class TestSharedCreditForLonger(SharedCreditMachine.TestCase):  # type: ignore[misc, valid-type]
    settings = settings(max_examples=60, stateful_step_count=50)
