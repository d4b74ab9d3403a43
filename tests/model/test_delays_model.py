"""Delayed messages against a list of what waits: nothing lost, none early, each once, in order.

The machine publishes with delays of both kinds, lets time pass, cancels, syncs, crashes and
restarts. What the list says is synced must survive a crash; what came since the last sync may.
"""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from tests.engine.delay_world import World, delayed
from tests.engine.disk_fake import Disk
from tests.engine.session_fake import make_engine

STEP_MS = 1  # what is added so that nothing is early


@dataclass
class Waiting:
    """One message of the list."""

    number: int
    exchange: str
    due_ms: int
    synced: bool = False
    cancelled: bool = False
    came: bool = False


class DelayMachine(RuleBasedStateMachine):
    """One broker, its clock and its crashes."""

    @initialize()
    def begin(self) -> None:
        engine = make_engine(durable_segment_bytes=4096)
        disk = Disk()
        disk.attach(engine)
        self.world = World(engine, disk)
        self.messages: list[Waiting] = []
        for cache in self.world.caches.values():
            assert cache.make_delays is not None
            cache.make_delays()

    @rule(delay=st.integers(1, 60), exchange=st.sampled_from("dp"), absolute=st.booleans())
    def publish(self, delay: int, exchange: str, absolute: bool) -> None:
        number = len(self.messages)
        due_ms = self.world.wall_ms + delay
        by_moment = absolute or exchange == "p"
        raw = self.world.at(due_ms) if by_moment else delayed(delay)
        self.world.send(b"%d" % number, raw, exchange)
        self.messages.append(Waiting(number, exchange, due_ms))

    @rule(ms=st.integers(1, 80))
    def time_passes(self, ms: int) -> None:
        self.world.sleep(ms)
        self.take()

    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        for exchange in "dp":
            store = self.world.store(exchange)
            numbers = store.upcoming(100)
            if not numbers:
                continue
            seq = data.draw(st.sampled_from(numbers))
            _, body = store.content(seq)
            assert store.cancel(seq)
            self.messages[int(body)].cancelled = True

    @rule()
    def sync(self) -> None:
        self.world.disk.sync(self.world.engine)
        for message in self.messages:
            message.synced = True

    @rule(off_ms=st.integers(0, 70), share=st.floats(0, 1))
    def crash(self, off_ms: int, share: float) -> None:
        """In the middle of a write, of which some part is on disk."""
        unsynced = [each for each in self.messages if not each.synced]
        safe = [each for each in self.messages if each.synced]
        writing = self.world.disk.begin(self.world.engine)
        total = 0
        if writing:
            assert self.world.disk.job is not None
            total = sum(len(data) for *_, data in self.world.disk.job[1])
        self.world.restart(self.world.disk.crashed(int(total * share)), off_ms)
        there = {
            int(self.world.store(exchange).content(seq)[1]): exchange
            for exchange in "dp"
            for seq in self.world.store(exchange).upcoming(1000)
        }
        for message in unsynced:
            # What was not on disk may be gone, and then never comes.
            if message.number not in there and not message.came and not message.cancelled:
                message.cancelled = True
        for message in safe:
            assert message.came or message.cancelled or message.number in there
        for message in self.messages:
            # A cancel, or a delivery, that was not on disk may not have happened.
            if message.number in there:
                message.came = message.cancelled = False
        self.world.came()  # what was in the queue at the crash was counted when it came there
        for message in self.messages:
            message.synced = message.number in there or message.came or message.cancelled

    def take(self) -> None:
        """What came: each once, none early, in the order of moments."""
        now_ms = self.world.wall_ms
        came = [int(body) for body in self.world.came()]
        due = []
        for number in came:
            message = self.messages[number]
            assert not message.came, f"{number} came twice"
            assert not message.cancelled, f"{number} was cancelled"
            assert message.due_ms < now_ms, f"{number} is early"
            message.came = True
            due.append((message.exchange, message.due_ms, number))
        for exchange in "dp":
            mine = [each for each in due if each[0] == exchange]
            assert mine == sorted(mine), "not in the order of moments, then of arrival"
        for message in self.messages:
            late = message.due_ms + STEP_MS <= now_ms - STEP_MS
            assert message.came or message.cancelled or not late, f"{message} is lost"

    @invariant()
    def the_counts_agree(self) -> None:
        for exchange in "dp":
            waiting = [
                each
                for each in self.messages
                if each.exchange == exchange and not each.came and not each.cancelled
            ]
            assert self.world.waiting(exchange) == len(waiting)


DelayMachine.TestCase.settings = settings(max_examples=60, stateful_step_count=40)
TestDelays = pytest.mark.slow(DelayMachine.TestCase)
