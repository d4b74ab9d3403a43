"""A queue with filtered consumers against a model: who gets what, in which order, what is left.

One connection with two channels, so that the order of all deliveries is seen; consumers with and
without filters, of several priorities and limits; messages with a time to live; in some runs
priorities, a maximal length, a delivery limit, retries that are held, a single active consumer. The
last word of some filters has a class, whose verdicts come at any time, or not at all. In some runs
the clock cuts what filters take long for: each that matches a text, as messages have one then.
"""

from __future__ import annotations

import struct

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, precondition, rule
from tests.engine import frames
from tests.engine.judge import Judge
from tests.engine.session_fake import Peer
from tests.engine.slices import cut_often, ended
from tests.model.filtered_consumers_model import (
    CLASSES,
    WANTS,
    FilteredConsumer,
    FilteredConsumersModel,
    FilteredEntry,
    filter_of,
)
from tests.model.queue_model import RETRY_MAX_MS, SIDES, ModelChannel
from tests.model.queue_world import QueueWorld

TURNS_MAX = 5000


# So many of work are not done here: filters read the clock for themselves.
UNITS = 2**30
SHORT, LONG = "abab", "ab" * 40_000


def headers(group: int, text: str) -> bytes:
    number = b"l" + struct.pack(">q", group)
    return frames.table(
        **{"x-tag": frames.longstr(f"t{group}"), "g": number, "h": frames.longstr(text)}
    )


class ConsumersMachine(QueueWorld):
    """Drives the engine, and has the model judge it."""

    model: FilteredConsumersModel

    @initialize(
        max_priority=st.sampled_from([0, 0, 2]),
        max_length=st.sampled_from([None, None, None, 4]),
        limit=st.sampled_from([None, None, 1]),
        retries=st.sampled_from(["disabled", "disabled", "all"]),
        single=st.sampled_from([False, False, False, True]),
        blocks=st.sampled_from([0, 0, 250, 600]),
        work=st.sampled_from([None, None, None, 1, 100, 500]),
        cut=st.booleans(),
        crowd=st.lists(st.sampled_from([*WANTS, *CLASSES]), max_size=4),
        groups=st.lists(st.integers(0, 3), max_size=20),
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
        cut: bool,
        crowd: list[str],
        groups: list[int],
    ) -> None:
        hurried = work is not None or cut
        if hurried:
            max_length = None  # what goes, while somebody has still to see it, is not foreseen here
        self.set_up(max_priority, max_length, limit, retries)
        if work is not None:
            self.engine.searches.work = work
        self.hurried, self.cut, self.text = hurried, cut, LONG if cut else SHORT
        self.queue.set_single_active_consumer(single)
        self.judge = Judge(self.engine)
        self.peer = Peer(self.engine, {"q": self.queue}, channels=(1, 2, 3))
        self.model = FilteredConsumersModel(max_length, limit, retries, single, hurried)
        self.register("judge", {0, 1})
        self.register("other", {1, 3})
        self.begin_with(self.model, self.peer, 3, blocks)
        for number, wants in enumerate(crowd):
            self.consume(number % 2, False, 0, 2, wants, True)
        for at in range(0, len(groups), 5):
            self.publish(groups[at : at + 5], None, at % 3, True)

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
        if self.cut and ttl_ms is not None:
            ttl_ms += 1 - ttl_ms % 2
        for group in groups:
            self.numbers += 1
            raw = frames.properties(
                headers=headers(group, self.text),
                priority=priority,
                expiration=None if ttl_ms is None else str(ttl_ms),
            )
            expires_ms = None if ttl_ms is None else self.engine.clock.now_ms + ttl_ms
            entry = FilteredEntry(
                self.numbers, min(priority, self.max_priority), expires_ms, group=group
            )
            entry.zero_ttl = ttl_ms == 0
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
        wants=st.sampled_from([*WANTS, *CLASSES]),
        at_once=st.booleans(),
    )
    def consume(
        self, side: int, no_ack: bool, priority: int, prefetch: int, wants: str, at_once: bool
    ) -> None:
        if self.model.max_length is not None and wants in CLASSES:
            wants = CLASSES[wants][1]  # which of several turns drops what, depends on verdicts
        self.tags += 1
        tag = f"c{self.tags}"
        real = self.peer.channels[side + 1].consume(
            self.queue, tag, no_ack, priority, prefetch, filter=filter_of(wants)
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
        if multiple and how == "nack and requeue":
            self.observe()
            self.model.give_back(side, tags, how)
            assert not self.model.observed
        else:
            self.model.settle(side, tags, how)
        if not at_once:
            self.turn()

    @rule(side=st.sampled_from(SIDES))
    def recover(self, side: int) -> None:
        ended(self.peer.channels[side + 1].recovering())
        self.observe()
        self.model.recover(side)
        assert not self.model.observed

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
        if self.cut:
            # Nothing is due at this very moment: it may be delivered before the expiry, which is
            # cut, comes to it. Times to live are odd.
            ms += ms % 2
        self.engine.clock.now_ms += ms
        self.model.now_ms = self.engine.clock.now_ms
        self.turn()

    @rule()
    def turn(self) -> None:
        if self.cut:
            cut_often(self.engine, UNITS)
        self.engine.run()
        self.observe()
        for _ in range(TURNS_MAX):
            if not self.engine.busy:
                break
            self.engine.run()
            self.observe()  # a client reads, so that its output has room
        self.engine.clock.monotonic_ns = None
        self.engine.clock.over()  # nothing else is cut
        assert not self.engine.busy
        self.model.turn()
        assert not self.model.observed

    def observe(self) -> None:
        self.model.observed += [
            (each.channel - 1, each.consumer, int(each.body), each.redelivered, each.tag)
            for each in self.peer.events(run=False)
            if isinstance(each, frames.Delivery)
        ]

    # ------------------------------------------------------------- verdicts

    @rule(name=st.sampled_from(["judge", "other"]), passes=st.sets(st.integers(0, 3)))
    def register(self, name: str, passes: set[int]) -> None:
        """Another version of a filter class."""
        self.model.passes[name] = passes
        self.judge.renew(name, lambda message: message.headers["g"] in passes)

    @rule(
        most=st.sampled_from([1, 2, 5, 100]),
        how=st.sampled_from(["first", "last", "last", "not", "fail"]),
        at_once=st.booleans(),
    )
    def judge_some(self, most: int, how: str, at_once: bool) -> None:
        """Ask about some messages; a batch that is out comes back, or that class fails."""
        self.judge.ask(most)
        out = list(self.judge.out)
        if not out or how == "not":
            return
        if how == "fail":
            self.judge.fail(out[0])
        else:
            self.judge.answer(out[0 if how == "first" else -1])
        if not at_once:
            self.turn()

    @rule(
        steps=st.lists(
            st.sampled_from(
                ["publish", "ask", "ask", "answer", "answer", "ack", "requeue", "fail"]
            ),
            min_size=10,
            max_size=40,
        ),
        at_once=st.booleans(),
    )
    def work_goes_on(self, steps: list[str], at_once: bool) -> None:
        """Many of the steps that usually follow each other."""
        for at, step in enumerate(steps):
            if step == "publish":
                self.publish([at % 4, at % 3, at % 2], None, at % 3, at_once)
            elif step == "ask":
                self.judge.ask(1 + at % 5)
            elif step in ("answer", "fail") and self.judge.out:
                asker = list(self.judge.out)[at % len(self.judge.out)]
                self.judge.answer(asker) if step == "answer" else self.judge.fail(asker)
            elif step in ("ack", "requeue"):
                self.settle_one(at, step)
            if not at_once:
                self.turn()
        self.turn()

    def settle_one(self, at: int, how: str) -> None:
        side = at % 2
        tags = sorted(self.model.channels[side].unacked)
        if tags:
            tag = tags[at % len(tags)]
            self.peer.feed(
                frames.ack(side + 1, tag) if how == "ack" else frames.reject(side + 1, tag, True)
            )
            self.model.settle(side, [tag], how)

    @rule()
    def judge_everything(self) -> None:
        """Until nobody waits for a verdict."""
        self.turn()
        for _ in range(TURNS_MAX):
            if not self.judge.out and not self.judge.ask():
                self.turn()
                if not self.judge.ask():
                    break
            self.judge.answer()
            self.turn()
        assert not self.judge.out
        self.model.judged = True
        self.turn()
        self.model.judged = False

    def teardown(self) -> None:
        """Whoever leaves gives everything back, to its place."""
        if not hasattr(self, "model"):
            return
        for side in SIDES:
            self.close_channel(side)
        while self.judge.out:  # too late
            self.judge.answer()
        self.time_passes(RETRY_MAX_MS)
        self.counts_are_the_models()
        self.what_is_left_is_the_models()
        assert not self.judge.ask()


class TestFilteredConsumers(ConsumersMachine.TestCase):  # type: ignore[misc, valid-type]
    settings = settings(max_examples=8, stateful_step_count=30)


@pytest.mark.slow
class TestFilteredConsumersForLonger(ConsumersMachine.TestCase):  # type: ignore[misc, valid-type]
    settings = settings(max_examples=300, stateful_step_count=50)
