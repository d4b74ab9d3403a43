"""Work in slices, in any order: every message is somewhere, once, whatever happens meanwhile.

Two connections publish, consume and settle with `multiple`, return all, and go; the queue is purged
and deleted. The clock cuts all of it after a few messages, and other steps come in between. The
model knows what each client has seen and settled; of a purge it knows how many went and which
messages it may not have taken.
"""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule
from tests.engine import frames
from tests.engine.session_fake import Peer, make_engine
from tests.engine.slices import cut_often, turns

from leporid.engine.connection.consumer import Consumer

SIDES = [0, 1]
HELD_MS = 20


class SlicedWorkMachine(RuleBasedStateMachine):
    """Drives the engine, and notes what it says.

    Attributes:
        first: the first message of the queue as it is now.
        sent: how many messages there were.
        settled: were acknowledged or dropped.
        unsettled: what each client has: messages by tag.
        safe_from: no purge takes this message or a later one.
        purged: how many went by purges of the queue as it is now.
    """

    @initialize(units=st.sampled_from([1, 1, 2, 3]), held=st.booleans(), durable=st.booleans())
    def begin(self, units: int, held: bool, durable: bool) -> None:
        self.engine = make_engine(transient_segment_bytes=4096)
        self.held, self.durable, self.ids = held, durable, 0
        self.sent = self.purges = 0
        self.settled: set[int] = set()
        self.unsettled: list[dict[int, int]] = [{}, {}]
        self.consumers: list[list[Consumer]] = [[], []]
        self.make_queue()
        self.peers = [Peer(self.engine, {"q": self.queue}) for _ in SIDES]
        cut_often(self.engine, units)

    def make_queue(self) -> None:
        self.ids += self.durable
        self.queue = self.engine.queue(self.ids, "q", self.durable)
        if self.held:
            self.queue.set_retries("all", HELD_MS, HELD_MS)
        self.first = self.safe_from = self.sent
        self.purged = 0

    # ------------------------------------------------------------- what clients see

    def read(self) -> None:
        for side in SIDES:
            for event in self.peers[side].events(run=False):
                assert isinstance(event, frames.Delivery)
                number = int(event.body)
                assert number not in self.settled
                assert all(number not in each.values() for each in self.unsettled)
                self.unsettled[side][event.tag] = number

    def idle(self, side: int) -> bool:
        return self.peers[side].connection.reading

    # ------------------------------------------------------------- rules

    @rule(side=st.sampled_from(SIDES), count=st.sampled_from([1, 10, 100]))
    def publish(self, side: int, count: int) -> None:
        if self.idle(side):
            raw = frames.PERSISTENT if self.durable else frames.NO_PROPERTIES
            for _ in range(count):
                self.engine.publish([self.queue], "", "q", raw, b"%d" % self.sent)
                self.sent += 1

    @rule(side=st.sampled_from(SIDES), prefetch=st.sampled_from([0, 0, 1, 3, 20]))
    def consume(self, side: int, prefetch: int) -> None:
        channel = self.peers[side].channels[1]
        tag = f"c{len(self.consumers[side])}"
        self.consumers[side].append(channel.consume(self.queue, tag, False, 0, prefetch))

    @rule(side=st.sampled_from(SIDES))
    def cancel(self, side: int) -> None:
        for consumer in self.consumers[side]:
            self.peers[side].channels[1].cancel(consumer)
        self.consumers[side] = []

    @precondition(lambda self: any(self.unsettled))
    @rule(
        data=st.data(),
        how=st.sampled_from(["ack", "nack", "requeue", "requeue"]),
        everything=st.booleans(),
    )
    def settle(self, data: st.DataObject, how: str, everything: bool) -> None:
        self.engine.run()  # so that there is time to begin with the frame before a channel ends
        self.read()
        side = data.draw(st.sampled_from([each for each in SIDES if self.unsettled[each]]))
        if not self.idle(side):
            return
        tags = sorted(self.unsettled[side])
        last = tags[-1] if everything else data.draw(st.sampled_from(tags))
        numbers = {self.unsettled[side].pop(tag) for tag in tags if tag <= last}
        if how == "ack":
            self.peers[side].feed(frames.ack(1, last, multiple=True))
        else:
            self.peers[side].feed(frames.nack(1, last, multiple=True, requeue=how == "requeue"))
        if how != "requeue":
            self.settled |= numbers

    @rule(side=st.sampled_from(SIDES))
    def recover(self, side: int) -> None:
        self.read()
        if self.idle(side):
            peer = self.peers[side]
            self.unsettled[side].clear()
            peer.connection.begin_work()
            self.engine.jobs.start(
                peer.channels[1].recovering(), lambda _: peer.connection.end_work()
            )

    @rule(side=st.sampled_from(SIDES), lost=st.booleans())
    def end(self, side: int, lost: bool) -> None:
        """The connection or its channel ends, whatever it was doing."""
        self.read()
        peer = self.peers[side]
        self.unsettled[side].clear()
        self.consumers[side] = []
        if lost:
            peer.connection.lost()
            self.peers[side] = Peer(self.engine, {"q": self.queue})
        else:
            peer.connection.close_channel(1)
            peer.channels[1] = peer.connection.open_channel(1)

    @rule()
    def purge(self) -> None:
        self.safe_from = self.sent
        self.purges += 1
        queue = self.queue

        def done(count: int) -> None:
            self.purges -= 1
            if queue is self.queue:
                self.purged += count

        self.engine.jobs.start(queue.purging(), done)

    @rule()
    def delete(self) -> None:
        self.read()
        for side in SIDES:
            self.cancel(side)
        self.queue.retire()
        self.settled |= set(range(self.first, self.sent))
        for side in SIDES:  # its deliveries can still be settled, which does nothing
            self.peers[side].take()
        self.make_queue()

    @rule(count=st.sampled_from([1, 1, 3, 10]))
    def turn(self, count: int) -> None:
        for _ in range(count):
            self.engine.run()
            self.read()

    @rule()
    def rest(self) -> None:
        """Until nothing is left to do: all counts are as they should be."""
        for _ in turns(self.engine):
            self.read()
        self.engine.clock.now_ms += HELD_MS
        for _ in turns(self.engine):
            self.read()
        assert self.purges == 0
        for side in SIDES:
            assert self.peers[side].faults == []
            assert self.peers[side].session.defects == []
            assert self.idle(side)
            assert self.peers[side].channels[1].unacked_count == len(self.unsettled[side])
        here = range(self.first, self.sent)
        unsettled = [number for each in self.unsettled for number in each.values()]
        assert self.queue.unacked_count == sum(number in here for number in unsettled)
        gone = sum(number in self.settled for number in here)
        assert self.queue.held_count == 0
        assert self.queue.ready_count == (len(here) - gone - self.purged - self.queue.unacked_count)
        assert self.live() == self.queue.ready_count + self.queue.unacked_count

    def live(self) -> int:
        log = self.engine.logs.durable if self.durable else self.engine.logs.transient
        segments = [segment for segment in log.segments if segment is not None]
        # The shares that entries have of the bytes are those of the entries that there are.
        assert all((segment.live_bytes > 0) == (segment.live > 0) for segment in segments)
        assert all(segment.live_bytes <= segment.total_bytes for segment in segments)
        return sum(segment.live for segment in segments)

    def teardown(self) -> None:
        """Everybody goes: the rest is in the queue, in order."""
        if not hasattr(self, "peers"):
            return
        self.rest()
        for side in SIDES:
            self.end(side, lost=True)
        self.rest()
        found = [int(body) for body in self.peers[0].drain(self.queue)]
        assert found == sorted(set(found))
        left = set(range(self.first, self.sent)) - self.settled
        assert set(found) <= left
        assert {number for number in left if number >= self.safe_from} <= set(found)
        assert len(left) - len(found) == self.purged


class TestSlicedWork(SlicedWorkMachine.TestCase):  # type: ignore[misc, valid-type]
    settings = settings(max_examples=8, stateful_step_count=30)


@pytest.mark.slow
class TestSlicedWorkForLonger(SlicedWorkMachine.TestCase):  # type: ignore[misc, valid-type]
    settings = settings(max_examples=300, stateful_step_count=50)
