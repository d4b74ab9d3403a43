"""Confirms: each publish once, in order, and not before what it says is on disk.

Two channels publish what lasts and what does not, to queues that are there, gone or full, while
syncs begin and end. The model keeps, for each publish, the generation that it waits for.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from tests.engine import frames
from tests.engine.disk_fake import Disk
from tests.engine.session_fake import Peer, make_engine
from tests.engine.slices import ended

CHANNELS = [1, 2]


@dataclass
class Publisher:
    """What one channel waits for.

    Attributes:
        waiting: (number, generation, refused) of what is not confirmed, oldest first.
    """

    waiting: list[tuple[int, int, bool]] = field(default_factory=list)
    published: int = 0

    def due(self, synced: int) -> list[tuple[int, bool]]:
        """(number, refused) of what may be confirmed now: up to the first that must wait."""
        found = []
        for number, generation, refused in self.waiting:
            if generation > synced:
                break
            found.append((number, refused))
        return found


class ConfirmsMachine(RuleBasedStateMachine):
    @initialize(together=st.booleans())
    def begin(self, together: bool) -> None:
        self.engine = make_engine(durable_segment_bytes=4096)
        self.disk = Disk()
        self.disk.attach(self.engine)
        self.queues = {
            "durable": self.engine.queue(1, "durable", True),
            "transient": self.engine.queue(0, "transient", False),
            "full": self.engine.queue(2, "full", True),
        }
        self.queues["full"].set_limits(max_length=0, overflow="reject-publish")
        one = Peer(self.engine, self.queues, channels=CHANNELS)
        self.peers = [one, one] if together else [one, Peer(self.engine, self.queues)]
        self.numbers = [1, 2] if together else [1, 1]  # of the channels
        self.publishers = [Publisher(), Publisher()]
        for at in (0, 1):
            self.peers[at].channels[self.numbers[at]].select_confirm()
        self.unread: list[frames.Confirm] = []

    @rule(
        at=st.sampled_from([0, 1]),
        key=st.sampled_from(["durable", "durable", "transient", "full", "gone"]),
        persistent=st.booleans(),
        count=st.sampled_from([1, 1, 2, 7]),
        size=st.sampled_from([0, 100, 2000]),
    )
    def publish(self, at: int, key: str, persistent: bool, count: int, size: int) -> None:
        publisher = self.publishers[at]
        raw = frames.PERSISTENT if persistent else frames.NO_PROPERTIES
        for _ in range(count):
            publisher.published += 1
            lasts = persistent and key in ("durable", "full")
            generation = self.engine.logs.generation if lasts else 0
            publisher.waiting.append((publisher.published, generation, key == "full"))
            message = frames.publish(self.numbers[at], key, bytes(size), raw=raw)
            self.peers[at].feed(message)

    @rule()
    def begin_sync(self) -> None:
        if self.disk.job is None:
            generation = self.engine.logs.generation
            if self.disk.begin(self.engine):
                assert self.engine.logs.generation == generation + 1

    @rule()
    def end_sync(self) -> None:
        if self.disk.job is not None:
            self.disk.complete(self.engine)

    @rule(name=st.sampled_from(["durable", "transient"]))
    def purge(self, name: str) -> None:
        """What becomes of a message afterwards does not matter to its publisher."""
        ended(self.queues[name].purging())

    @rule()
    def turn(self) -> None:
        self.engine.run()
        for at in (0, 1):
            found = [
                event
                for event in self.peers[at].events(run=False)
                if isinstance(event, frames.Confirm)
            ]
            self.unread += found if self.peers[0] is self.peers[1] else []
            if self.peers[0] is not self.peers[1]:
                self.compare(at, found)
        if self.peers[0] is self.peers[1]:
            for at in (0, 1):
                self.compare(at, [each for each in self.unread if each.channel == at + 1])
            self.unread = []

    def compare(self, at: int, found: list[frames.Confirm]) -> None:
        publisher = self.publishers[at]
        due = publisher.due(self.engine.logs.synced)
        told: list[tuple[int, bool]] = []
        last = publisher.published - len(publisher.waiting)
        for confirm in found:
            assert confirm.channel == self.numbers[at]
            assert confirm.tag > last
            assert confirm.multiple or confirm.tag == last + 1
            told += [(number, confirm.refused) for number in range(last + 1, confirm.tag + 1)]
            last = confirm.tag
        assert told == due
        changes = sum(one[1] != two[1] for one, two in pairwise(due))
        refused = sum(flag for _, flag in due)
        assert len(found) <= 1 + changes + refused, "confirms are not put together"
        del publisher.waiting[: len(due)]

    @invariant()
    def whoever_waits_is_heard(self) -> None:
        if not hasattr(self, "engine"):
            return
        flying = self.disk.job[0] if self.disk.job is not None else 0
        newest = max(
            (each[1] for publisher in self.publishers for each in publisher.waiting), default=0
        )
        if newest > max(self.engine.logs.synced, flying):
            awaited = self.engine.logs.awaited
            assert awaited

    def teardown(self) -> None:
        """With the disk done, nobody waits for anything."""
        if not hasattr(self, "engine"):
            return
        self.end_sync()
        self.disk.sync(self.engine)
        self.turn()
        assert not any(publisher.waiting for publisher in self.publishers)
        queues, published = self.engine.queues, sum(each.published for each in self.publishers)
        assert queues.confirmed + queues.nacked == queues.received_confirm == published


class TestConfirms(ConfirmsMachine.TestCase):  # type: ignore[misc, valid-type]
    settings = settings(max_examples=8, stateful_step_count=25)


@pytest.mark.slow
class TestConfirmsForLonger(ConfirmsMachine.TestCase):  # type: ignore[misc, valid-type]
    settings = settings(max_examples=300, stateful_step_count=50)
