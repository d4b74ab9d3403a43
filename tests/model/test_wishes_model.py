"""A queue with filtered consumers against a model: who gets what, in which order, what is left.

One connection with two channels, so that the order of all deliveries is seen; consumers with and
without filters, of several priorities and limits; messages with a time to live; in some runs
priorities, a maximal length, a delivery limit, retries that are held, a single active consumer.
"""

from __future__ import annotations

import struct

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)
from tests.engine import frames
from tests.engine.session_fake import Peer, make_plane
from tests.model.queue_model import (
    HELD,
    RETRY_MAX_MS,
    RETRY_MIN_MS,
    SIDES,
    UNACKED,
    ModelChannel,
)
from tests.model.wishes_model import (
    WANTS,
    FilteredConsumer,
    FilteredEntry,
    WishesModel,
)

TURNS_MAX = 5000


def headers(group: int) -> bytes:
    number = b"l" + struct.pack(">q", group)
    return frames.table(**{"x-tag": frames.longstr(f"t{group}"), "g": number})


class WishesMachine(RuleBasedStateMachine):
    """Drives the engine, and has the model judge it."""

    @initialize(
        max_priority=st.sampled_from([0, 0, 2]),
        max_length=st.sampled_from([None, None, None, 4]),
        limit=st.sampled_from([None, None, 1]),
        retries=st.sampled_from(["disabled", "disabled", "all"]),
        single=st.sampled_from([False, False, False, True]),
        blocks=st.sampled_from([0, 0, 250, 600]),
        work=st.sampled_from([None, None, None, 1, 100, 500]),
    )
    def begin(
        self,
        max_priority: int,
        max_length: int | None,
        limit: int | None,
        retries: str,
        single: bool,
        blocks: int,
        work: int | None,
    ) -> None:
        self.plane = make_plane(transient_segment_bytes=4096)
        self.hurried = work is not None
        if work is not None:
            self.plane.search_work = work
            max_length = None  # what goes, while somebody has still to see it, is not foreseen here
        self.queue = self.plane.queue(0, "q", False)
        self.max_priority = max_priority
        if max_priority:
            self.queue.set_priorities(max_priority)
        if max_length is not None:
            self.queue.set_limits(max_length=max_length)
        self.queue.set_delivery_limit(limit, True)
        self.queue.set_retries(retries, RETRY_MIN_MS, RETRY_MAX_MS)
        self.queue.set_consumer_timeout(0, True)
        self.queue.set_single_active_consumer(single)
        self.buried: list[tuple[str, int]] = []
        self.model = WishesModel(max_length, limit, retries, single, self.hurried)
        self.model.now_ms = self.plane.now_ms
        self.numbers = self.tags = 0
        self.peer = Peer(self.plane, {"q": self.queue}, channels=(1, 2, 3))
        for _ in range(blocks):  # so that numbers cross the blocks of the index
            self.peer.feed(frames.publish(3, "q"))
        self.queue.purge()
        self.queue.dead_letters = lambda reason, _exchange, _key, _raw, body: self.buried.append(
            (reason, int(body))
        )

    # ------------------------------------------------------------- rules

    @rule(
        groups=st.lists(st.integers(0, 3), min_size=1, max_size=9),
        ttl_ms=st.sampled_from([None, None, None, 5, 20, 0]),
        priority=st.integers(0, 3),
        at_once=st.booleans(),
    )
    def publish(self, groups: list[int], ttl_ms: int | None, priority: int, at_once: bool) -> None:
        if self.hurried and ttl_ms == 0:
            ttl_ms = None
        for group in groups:
            self.numbers += 1
            raw = frames.properties(
                headers=headers(group),
                priority=priority,
                expiration=None if ttl_ms is None else str(ttl_ms),
            )
            expires_ms = None if ttl_ms is None else self.plane.now_ms + ttl_ms
            entry = FilteredEntry(
                self.numbers, min(priority, self.max_priority), expires_ms, group=group
            )
            entry.momentary = ttl_ms == 0
            self.model.entries.append(entry)
            self.peer.feed(frames.publish(3, "q", b"%d" % self.numbers, raw=raw))
            if not at_once:
                self.turn()
        self.turn()

    @rule(
        side=st.sampled_from(SIDES),
        no_ack=st.sampled_from([False, False, False, True]),
        priority=st.sampled_from([0, 0, 1, -1]),
        prefetch=st.sampled_from([0, 1, 1, 2, 3]),
        wants=st.sampled_from(sorted(WANTS)),
        at_once=st.booleans(),
    )
    def consume(
        self, side: int, no_ack: bool, priority: int, prefetch: int, wants: str, at_once: bool
    ) -> None:
        self.tags += 1
        tag = f"c{self.tags}"
        real = self.peer.channels[side + 1].consume(
            self.queue, tag, no_ack, priority, prefetch, filter=WANTS[wants][0]()
        )
        self.model.attach(
            FilteredConsumer(side, tag, no_ack, priority, prefetch, real, wants=wants)
        )
        if not at_once:
            self.turn()

    @precondition(lambda self: self.model.everybody)
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        consumer = data.draw(st.sampled_from(self.model.everybody))
        self.peer.channels[consumer.side + 1].cancel(consumer.real)
        self.model.leave(consumer)

    @rule(side=st.sampled_from(SIDES), limit=st.sampled_from([0, 1, 2, 5]))
    def limit_channel(self, side: int, limit: int) -> None:
        self.peer.channels[side + 1].prefetch_global = limit
        self.model.channels[side].limit = limit

    @rule(side=st.sampled_from(SIDES), active=st.booleans())
    def flow(self, side: int, active: bool) -> None:
        self.peer.channels[side + 1].set_flow(active)
        self.model.channels[side].flowing = active

    @rule(side=st.sampled_from(SIDES), no_ack=st.booleans())
    def get(self, side: int, no_ack: bool) -> None:
        self.turn()
        got = self.peer.get(self.queue, no_ack, side + 1)
        ready = self.model.ready()
        if not ready:
            assert got is None
            return
        assert got is not None
        assert (int(got.body), got.redelivered) == (ready[0].number, ready[0].delivered)
        assert got.left == len(ready) - 1
        self.model.hand(side, ready[0], None, no_ack)

    @precondition(lambda self: any(each.unacked for each in self.model.channels))
    @rule(
        data=st.data(),
        how=st.sampled_from(["ack", "reject", "requeue", "nack and requeue"]),
        multiple=st.booleans(),
        at_once=st.booleans(),
    )
    def settle(self, data: st.DataObject, how: str, multiple: bool, at_once: bool) -> None:
        side = data.draw(st.sampled_from([at for at in SIDES if self.model.channels[at].unacked]))
        known = sorted(self.model.channels[side].unacked)
        tag = data.draw(st.sampled_from(known))
        multiple = multiple and how in ("ack", "nack and requeue")
        tags = [each for each in known if each <= tag] if multiple else [tag]
        self.peer.feed(
            {
                "ack": frames.ack(side + 1, tag, multiple),
                "reject": frames.reject(side + 1, tag, False),
                "requeue": frames.reject(side + 1, tag, True),
                "nack and requeue": frames.nack(side + 1, tag, multiple, True),
            }[how]
        )
        assert not self.peer.faults
        self.model.settle(side, tags, how)
        if not at_once:
            self.turn()

    @rule(side=st.sampled_from(SIDES))
    def recover(self, side: int) -> None:
        self.peer.channels[side + 1].recover()
        self.observe()
        self.model.recover(side)
        assert not self.model.observed

    @rule()
    def purge(self) -> None:
        left = [each for each in self.model.entries if each.state == UNACKED]
        assert self.queue.purge() == len(self.model.entries) - len(left)
        self.model.entries = left

    @rule(side=st.sampled_from(SIDES))
    def close_channel(self, side: int) -> None:
        """The channel ends and another is opened in its place."""
        channel = self.model.channels[side]
        self.peer.connection.close_channel(side + 1)
        for consumer in list(channel.consumers):
            self.model.leave(consumer)
        self.model.settle(side, sorted(channel.unacked), "close")
        self.model.channels[side] = ModelChannel()
        self.peer.channels[side + 1] = self.peer.connection.open_channel(side + 1)

    @rule(ms=st.sampled_from([1, 5, 20, 20, 30, 120]))
    def time_passes(self, ms: int) -> None:
        self.plane.now_ms += ms
        self.model.now_ms = self.plane.now_ms
        self.turn()

    @rule()
    def turn(self) -> None:
        self.plane.run()
        for _ in range(TURNS_MAX):
            if not self.plane.busy:
                break
            self.plane.run()
        assert not self.plane.busy
        self.observe()
        self.model.turn()
        assert not self.model.observed

    def observe(self) -> None:
        self.model.observed = [
            (each.channel - 1, each.consumer, int(each.body), each.redelivered, each.tag)
            for each in self.peer.events(run=False)
            if isinstance(each, frames.Delivery)
        ]

    # ------------------------------------------------------------- invariants

    @invariant()
    def counts_are_the_models(self) -> None:
        if not hasattr(self, "queue"):
            return
        assert self.buried == self.model.buried
        ready = self.model.ready()
        held = sum(entry.state == HELD for entry in self.model.entries)
        assert self.queue.held_count == held
        assert self.queue.ready_count == len(ready)
        assert self.queue.ready_bytes == sum(len(str(entry.number)) for entry in ready)
        assert self.queue.unacked_count == len(self.model.entries) - len(ready) - held
        assert self.queue.consumer_count == len(self.model.everybody)
        for consumer in self.model.everybody:
            assert consumer.real.unacked_count == consumer.unacked

    def teardown(self) -> None:
        """Whoever leaves gives everything back, to its place."""
        if not hasattr(self, "queue"):
            return
        for side in SIDES:
            self.close_channel(side)
        self.time_passes(RETRY_MAX_MS)
        self.counts_are_the_models()
        reader = Peer(self.plane, {"q": self.queue})
        assert [int(body) for body in reader.drain(self.queue)] == [
            entry.number for entry in self.model.ready()
        ]


class TestWishes(WishesMachine.TestCase):  # type: ignore[misc, valid-type]
    settings = settings(deadline=None, max_examples=8, stateful_step_count=30)


@pytest.mark.slow
class TestWishesForLonger(WishesMachine.TestCase):  # type: ignore[misc, valid-type]
    settings = settings(deadline=None, max_examples=300, stateful_step_count=50)
