"""One queue against a list: order, redelivery, who gets what, what is left.

Two connections with a channel each, consumers of several priorities and limits, messages with a
time to live, pauses; in some runs priorities, a maximal length, a delivery limit, retries that are
held, and timeouts after which a message goes back alone. The model is `ModelQueue`: entries in a
list, the consumers of each priority in a list that turns, and dead letters in the order of death.
"""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, precondition, rule
from tests.engine import frames
from tests.engine.session_fake import Peer
from tests.engine.slices import ended
from tests.model.queue_model import (
    IMPATIENT,
    LOOK_EVERY_MS,
    RETRY_MAX_MS,
    SIDES,
    TIMEOUT_MS,
    Entry,
    ModelChannel,
    ModelConsumer,
    ModelQueue,
)
from tests.model.queue_world import QueueWorld


class QueueMachine(QueueWorld):
    """Drives the engine and the model with the same steps."""

    @initialize(
        max_priority=st.sampled_from([0, 0, 0, 2]),
        max_length=st.sampled_from([None, None, None, 3]),
        limit=st.sampled_from([None, None, 0, 2]),
        retries=st.sampled_from(["disabled", "disabled", "all", "failed", "returned"]),
        timeouts=st.booleans(),
        blocks=st.sampled_from([0, 0, 250, 600]),
    )
    def begin(
        self,
        max_priority: int,
        max_length: int | None,
        limit: int | None,
        retries: str,
        timeouts: bool,
        blocks: int,
    ) -> None:
        self.set_up(max_priority, max_length, limit, retries)
        self.timeouts = timeouts
        self.peers = [Peer(self.engine, {"q": self.queue}) for _ in SIDES]
        self.model = ModelQueue(max_length, limit, retries)
        self.begin_with(self.model, self.peers[0], 1, blocks)

    # ------------------------------------------------------------- rules

    @rule(
        count=st.sampled_from([1, 1, 2, 5, 9]),
        ttl_ms=st.sampled_from([None, None, None, 5, 20, 0]),
        priority=st.integers(0, 3),
    )
    def publish(self, count: int, ttl_ms: int | None, priority: int) -> None:
        raw = frames.properties(
            priority=priority, expiration=None if ttl_ms is None else str(ttl_ms)
        )
        for _ in range(count):
            self.numbers += 1
            expires_ms = None if ttl_ms is None else self.engine.clock.now_ms + ttl_ms
            entry = Entry(self.numbers, min(priority, self.max_priority), expires_ms)
            entry.zero_ttl = ttl_ms == 0
            self.model.entries.append(entry)
            self.peers[0].feed(frames.publish(1, "q", b"%d" % self.numbers, raw=raw))
        self.turn()

    @rule(
        side=st.sampled_from(SIDES),
        no_ack=st.sampled_from([False, False, False, True]),
        priority=st.sampled_from([0, 0, 1, -1]),
        prefetch=st.sampled_from([0, 1, 2, 3]),
    )
    def consume(self, side: int, no_ack: bool, priority: int, prefetch: int) -> None:
        self.tags += 1
        tag = f"c{self.tags}"
        timeout_ms = TIMEOUT_MS if self.timeouts and side == IMPATIENT else None
        real = self.peers[side].channel.consume(
            self.queue, tag, no_ack, priority, prefetch, timeout_ms
        )
        consumer = ModelConsumer(side, tag, no_ack, priority, prefetch, real)
        self.model.channels[side].consumers.append(consumer)
        self.model.enter(consumer)

    @precondition(lambda self: any(each.consumers for each in self.model.channels))
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        everybody = [each for channel in self.model.channels for each in channel.consumers]
        consumer = data.draw(st.sampled_from(everybody))
        self.peers[consumer.side].channel.cancel(consumer.real)
        self.model.leave(consumer)

    @rule(side=st.sampled_from(SIDES), limit=st.sampled_from([0, 1, 2, 5]))
    def limit_channel(self, side: int, limit: int) -> None:
        self.peers[side].channel.prefetch_global = limit
        self.model.limit(self.model.channels[side], limit)

    @rule(side=st.sampled_from(SIDES), no_ack=st.booleans())
    def get(self, side: int, no_ack: bool) -> None:
        self.turn()
        got = self.peers[side].get(self.queue, no_ack)
        ready = self.model.ready()
        if not ready or self.model.paused:
            assert got is None
            return
        assert got is not None
        assert (int(got.body), got.redelivered) == (ready[0].number, ready[0].delivered)
        assert got.left == len(ready) - 1
        self.model.hand(side, ready[0], None, no_ack)
        assert got.tag == self.model.channels[side].last_tag

    @precondition(lambda self: any(each.unacked for each in self.model.channels))
    @rule(
        data=st.data(),
        how=st.sampled_from(["ack", "reject", "nack", "requeue", "nack and requeue"]),
        multiple=st.booleans(),
        everything=st.booleans(),
    )
    def settle(self, data: st.DataObject, how: str, multiple: bool, everything: bool) -> None:
        side = data.draw(st.sampled_from([at for at in SIDES if self.model.channels[at].unacked]))
        known = sorted(self.model.channels[side].unacked)
        tag = data.draw(st.sampled_from(known))
        tags = [tag]
        if multiple and "reject" not in how and how != "requeue":
            tags = [each for each in known if each <= tag]
            if everything:
                tags, tag = known, 0
        else:
            multiple = False
        self.peers[side].feed(
            {
                "ack": frames.ack(1, tag, multiple),
                "reject": frames.reject(1, tag, False),
                "requeue": frames.reject(1, tag, True),
                "nack": frames.nack(1, tag, multiple, False),
                "nack and requeue": frames.nack(1, tag, multiple, True),
            }[how]
        )
        assert not self.peers[side].faults
        if multiple and how == "nack and requeue":
            self.compare(self.model.give_back(side, tags, how))
        else:
            self.model.settle(side, tags, how)

    @precondition(lambda self: any(each.unacked for each in self.model.channels))
    @rule(data=st.data(), failed=st.booleans(), later=st.sampled_from([[20], [20, 20], [1, 30]]))
    def give_back_and_wait(self, data: st.DataObject, failed: bool, later: list[int]) -> None:
        side = data.draw(st.sampled_from([at for at in SIDES if self.model.channels[at].unacked]))
        tag = min(self.model.channels[side].unacked)
        how = frames.reject if failed else frames.nack
        self.peers[side].feed(how(1, tag))
        self.model.settle(side, [tag], "requeue" if failed else "nack and requeue")
        for ms in later:
            self.time_passes(ms)
            self.counts_are_the_models()

    @rule(side=st.sampled_from(SIDES))
    def recover(self, side: int) -> None:
        ended(self.peers[side].channel.recovering())
        self.compare(self.model.recover(side))

    @rule(side=st.sampled_from(SIDES))
    def close_channel(self, side: int) -> None:
        """The channel ends and another is opened in its place."""
        peer, channel = self.peers[side], self.model.channels[side]
        peer.connection.close_channel(1)
        for consumer in list(channel.consumers):
            self.model.leave(consumer)
        self.model.settle(side, sorted(channel.unacked), "close")
        self.model.channels[side] = ModelChannel()
        peer.channels[1] = peer.connection.open_channel(1)

    @rule(paused=st.sampled_from([False, False, True]))
    def pause(self, paused: bool) -> None:
        """Nothing leaves to anybody, or it does again with the next turn."""
        self.queue.set_paused(paused)
        self.model.paused = paused

    @rule(ms=st.sampled_from([1, 5, 20, 20, 30, 120]))
    def time_passes(self, ms: int) -> None:
        """And there is a turn, in which what is overdue goes back first."""
        self.engine.clock.now_ms += max(ms, LOOK_EVERY_MS) if self.timeouts else ms
        self.model.now_ms = self.engine.clock.now_ms
        if self.timeouts:
            self.model.time_out()
        self.turn()

    @precondition(lambda self: self.timeouts)
    @rule(tag=st.integers(1, 20))
    def settle_late(self, tag: int) -> None:
        """What went back alone may still be settled, which does nothing, once."""
        late_acks = self.model.channels[IMPATIENT].late_acks
        if tag in late_acks:
            self.peers[IMPATIENT].feed(frames.ack(1, tag))
            late_acks.remove(tag)
            assert not self.peers[IMPATIENT].faults

    @rule()
    def turn(self) -> None:
        expected = self.model.turn()
        self.engine.run()
        self.compare(expected)
        assert not self.model.starving()

    def compare(self, expected: list[tuple[int, str, int, bool, int]]) -> None:
        """Both sides were told of these deliveries, in this order."""
        for side in SIDES:
            found = [
                (side, each.consumer, int(each.body), each.redelivered, each.tag)
                for each in self.peers[side].events(run=False)
                if isinstance(each, frames.Delivery)
            ]
            assert found == [each for each in expected if each[0] == side]

    # ------------------------------------------------------------- invariants

    @invariant()
    def channels_are_the_models(self) -> None:
        for side in SIDES if hasattr(self, "model") else ():
            unacked = self.model.channels[side].unacked
            assert self.peers[side].channel.unacked_count == len(unacked)

    def teardown(self) -> None:
        """Whoever leaves gives everything back, to its place."""
        if not hasattr(self, "model"):
            return
        self.pause(False)
        self.turn()
        for side, peer in enumerate(self.peers):
            channel = self.model.channels[side]
            for consumer in list(channel.consumers):
                self.model.leave(consumer)
            peer.connection.lost()
            self.model.settle(side, sorted(channel.unacked), "close")
        self.engine.clock.now_ms += RETRY_MAX_MS
        self.model.now_ms = self.engine.clock.now_ms
        self.turn()
        self.counts_are_the_models()
        self.what_is_left_is_the_models()


class TestQueue(QueueMachine.TestCase):  # type: ignore[misc, valid-type]
    settings = settings(max_examples=8, stateful_step_count=30)


@pytest.mark.slow
class TestQueueForLonger(QueueMachine.TestCase):  # type: ignore[misc, valid-type]
    settings = settings(max_examples=300, stateful_step_count=50)
