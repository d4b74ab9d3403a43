"""Whatever a member does with its messages, and whenever the broker is killed: none is lost."""

from __future__ import annotations

from collections import defaultdict

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests.engine.frames import Delivery, ack, nack, reject
from tests.engine.group_world import GroupWorld, facts

LIMIT, MIN_MS, MAX_MS = 2, 1000, 1500
some = st.runner().flatmap(
    lambda machine: st.lists(st.sampled_from(sorted(machine.holding)), min_size=1, unique=True)
)


class Retrying(RuleBasedStateMachine):
    """One member at a time; what a message is, its body says."""

    @initialize()
    def begin(self) -> None:
        self.world = GroupWorld(limit=LIMIT, min_ms=MIN_MS, max_ms=MAX_MS, prefetch=5)
        self.sent = 0
        self.holding: dict[int, Delivery] = {}
        self.settled: set[bytes] = set()
        # When each came back, by the wall's clock.
        self.returns: defaultdict[bytes, list[int]] = defaultdict(list)

    def receive(self) -> None:
        for delivery in self.world.came():
            body, offset, count, redelivered = facts(delivery)
            assert int(body) == offset
            assert count <= min(LIMIT, len(self.returns[body]))
            assert redelivered == (count > 0)
            if count:
                # A message that the next member reads anew may come back while its copy waits.
                waited = self.world.engine.clock.wall_ms - self.returns[body][count - 1]
                assert waited >= min(MIN_MS * count, MAX_MS)
            self.holding[delivery.tag] = delivery

    @rule(count=st.integers(1, 4))
    def publish(self, count: int) -> None:
        self.world.send(*(b"%d" % (self.sent + at) for at in range(count)))
        self.sent += count
        self.receive()

    @precondition(lambda self: self.holding)
    @rule(tags=some)
    def acknowledge(self, tags: list[int]) -> None:
        for tag in tags:
            self.settled.add(self.holding.pop(tag).body)
            self.world.peer.feed(ack(1, tag))
        self.receive()

    @precondition(lambda self: self.holding)
    @rule(tags=some, how=st.sampled_from([nack, reject]))
    def give_back(self, tags: list[int], how) -> None:
        for tag in tags:
            body = self.holding.pop(tag).body
            self.returns[body].append(self.world.engine.clock.wall_ms)
            self.world.peer.feed(how(1, tag))
        self.receive()

    @precondition(lambda self: self.holding)
    @rule(tags=some)
    def give_up(self, tags: list[int]) -> None:
        for tag in tags:
            self.holding.pop(tag)
            self.world.peer.feed(reject(1, tag, requeue=False))
        self.receive()

    @rule(ms=st.sampled_from([1, 100, 900, 1000, 1500]))
    def wait(self, ms: int) -> None:
        self.world.wait(ms)
        self.receive()

    @rule()
    def sync(self) -> None:
        self.world.sync()
        self.world.store()
        self.receive()

    @rule()
    def replace_the_member(self) -> None:
        for delivery in self.holding.values():
            body, _, count, _ = facts(delivery)
            if count:  # the end of its channel counts for what was retried
                self.returns[body].append(self.world.engine.clock.wall_ms)
        self.holding.clear()
        self.world.leave()
        self.world.join()
        self.receive()

    @rule(returned_before=st.booleans())
    def crash(self, returned_before: bool) -> None:
        """Kill the broker, when it has just stored the offset of what came back."""
        if returned_before and self.holding:
            self.give_back(sorted(self.holding), nack)
        self.world.store()
        self.holding.clear()
        self.world.crash()
        self.receive()

    @invariant()
    def credit_is_not_exceeded(self) -> None:
        if hasattr(self, "world"):
            assert len(self.holding) <= self.world.prefetch

    def teardown(self) -> None:
        """A member that does its work gets everything that is left."""
        if not hasattr(self, "world"):
            return
        for _ in range(200):
            for tag in tuple(self.holding):
                self.settled.add(self.holding.pop(tag).body)
                self.world.peer.feed(ack(1, tag))
            self.wait(MAX_MS)
            if not self.holding and not self.world.retries.waiting:
                break
        self.sync()
        self.world.sync()
        self.world.store()
        assert self.world.stored == self.sent
        dead = {body for _, body in self.world.reasons}
        assert self.settled | dead >= {b"%d" % number for number in range(self.sent)}
        died = self.world.peer.drain(self.world.dead)
        assert set(died) >= dead - self.settled


Retrying.TestCase.settings = settings(max_examples=60, stateful_step_count=30)
TestRetrying = pytest.mark.slow(Retrying.TestCase)
