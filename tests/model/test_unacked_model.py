"""Unsettled deliveries of one channel, by tag: against a dict.

Tags that are unknown (never given, settled before, zero) close the channel with 406; what was
unsettled is then ready again. In a transaction settling waits for commit, and rollback takes it
back.
"""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from tests.engine import frames
from tests.engine.session_fake import CHANNEL_CLOSE_OK, Peer, make_engine
from tests.engine.slices import ended

HOW = ["ack", "drop", "requeue"]


class UnackedMachine(RuleBasedStateMachine):
    """A queue, a channel that gets and consumes from it, and the tags that it was given."""

    @initialize(transactional=st.booleans(), stock=st.sampled_from([40, 700]))
    def begin(self, transactional: bool, stock: int) -> None:
        self.engine = make_engine()
        self.queue = self.engine.queue(0, "q", False)
        self.peer = Peer(self.engine, {"q": self.queue}, channels=(1, 2))
        for number in range(stock):
            self.peer.feed(frames.publish(2, "q", b"%d" % number))
        self.transactional = transactional
        self.ready = set(range(stock))
        self.reset()

    def reset(self) -> None:
        """What a new channel begins with."""
        self.unacked: dict[int, int] = {}  # message by tag
        self.settled: dict[int, tuple[int, str]] = {}  # in the transaction, by tag
        self.last = 0
        if self.transactional:
            self.peer.channels[1].select_tx()

    # ------------------------------------------------------------- deliveries

    @rule(count=st.sampled_from([1, 3, 20, 100]))
    def get(self, count: int) -> None:
        for _ in range(count):
            got = self.peer.get(self.queue, no_ack=False)
            if got is None:
                assert not self.ready
                return
            self.delivered(got.tag, got.body)

    @rule(count=st.sampled_from([1, 5, 50, 300]))
    def consume(self, count: int) -> None:
        consumer = self.peer.channels[1].consume(self.queue, "c", False, 0, count)
        for delivery in self.peer.deliveries():
            self.delivered(delivery.tag, delivery.body)
        self.peer.channels[1].cancel(consumer)

    def delivered(self, tag: int, body: bytes) -> None:
        assert tag == self.last + 1
        assert int(body) == min(self.ready)
        self.last = tag
        self.ready.remove(int(body))
        self.unacked[tag] = int(body)

    # ------------------------------------------------------------- settling

    def send(self, tag: int, multiple: bool, how: str) -> None:
        if how == "ack":
            self.peer.feed(frames.ack(1, tag, multiple))
        elif multiple:
            self.peer.feed(frames.nack(1, tag, multiple, how == "requeue"))
        else:
            self.peer.feed(frames.reject(1, tag, how == "requeue"))

    @rule(data=st.data(), multiple=st.booleans(), how=st.sampled_from(HOW))
    def settle(self, data: st.DataObject, multiple: bool, how: str) -> None:
        """A tag that is known more often than not."""
        any_tag = st.one_of(st.integers(0, self.last + 2), st.just(2**64 - 1))
        known = st.sampled_from(sorted(self.unacked)) if self.unacked else any_tag
        tag = data.draw(st.one_of(known, known, any_tag))
        self.send(tag, multiple, how)
        if tag not in self.unacked and not (multiple and tag == 0):
            self.refused(tag)
            return
        assert not self.peer.faults
        tags = [tag]
        if multiple:
            tags = [each for each in sorted(self.unacked) if tag in (0, each) or each < tag]
        for each in tags:
            self.note(each, how)

    @rule(step=st.integers(2, 5), how=st.sampled_from(HOW), upwards=st.booleans())
    def settle_some(self, step: int, how: str, upwards: bool) -> None:
        """Every so many, which leaves holes."""
        for tag in sorted((tag for tag in self.unacked if tag % step), reverse=not upwards):
            self.send(tag, False, how)
            self.note(tag, how)
        assert not self.peer.faults

    def note(self, tag: int, how: str) -> None:
        message = self.unacked.pop(tag)
        if self.transactional:
            self.settled[tag] = message, how
        elif how == "requeue":
            self.ready.add(message)

    def refused(self, tag: int) -> None:
        ((channel, fault),) = self.peer.session.faults
        assert (channel, fault.code) == (1, 406)
        assert fault.text == f"PRECONDITION_FAILED - unknown delivery tag {tag}"
        assert fault.class_id == frames.BASIC
        self.peer.session.faults.clear()
        self.ready.update(self.unacked.values())
        self.ready.update(message for message, _ in self.settled.values())
        self.peer.feed(frames.frame(frames.METHOD, 1, CHANNEL_CLOSE_OK))
        self.peer.channels[1] = self.peer.connection.open_channel(1)
        self.reset()

    @rule()
    def recover(self) -> None:
        ended(self.peer.channels[1].recovering())
        self.ready.update(self.unacked.values())
        self.unacked.clear()

    @rule()
    def commit(self) -> None:
        if self.transactional:
            assert self.peer.channels[1].commit() == 0
            self.ready.update(message for message, how in self.settled.values() if how == "requeue")
            self.settled.clear()

    @rule()
    def roll_back(self) -> None:
        if self.transactional:
            self.peer.channels[1].rollback()
            self.unacked.update({tag: message for tag, (message, _) in self.settled.items()})
            self.settled.clear()

    # ------------------------------------------------------------- invariants

    @invariant()
    def counts_are_the_models(self) -> None:
        if not hasattr(self, "queue"):
            return
        unsettled = len(self.unacked) + len(self.settled)
        assert self.queue.ready_count == len(self.ready)
        assert self.queue.unacked_count == unsettled
        assert self.peer.channels[1].unacked_count == unsettled

    def teardown(self) -> None:
        """Whatever was not settled is there again when the channel is gone."""
        if not hasattr(self, "queue"):
            return
        self.ready.update(self.unacked.values())
        self.ready.update(message for message, _ in self.settled.values())
        self.peer.connection.close_channel(1)
        found = []
        while (got := self.peer.get(self.queue, channel=2)) is not None:
            found.append(int(got.body))
        assert found == sorted(self.ready)


class TestUnacked(UnackedMachine.TestCase):  # type: ignore[misc, valid-type]
    settings = settings(max_examples=12, stateful_step_count=15)


@pytest.mark.slow
class TestUnackedForLonger(UnackedMachine.TestCase):  # type: ignore[misc, valid-type]
    settings = settings(max_examples=150, stateful_step_count=40)
