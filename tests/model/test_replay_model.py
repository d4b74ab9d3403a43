"""What a crash may take, and what it must not: the log against a list of facts.

The machine publishes, settles, commits and deletes queues on tiny segments, syncs at random
moments, and crashes: of the generation that is being written, any number of bytes is on disk, and
any number of the deletions after it. What replay finds must then be what the facts allow:

- a message of a synced generation is there, unless it was settled;
- a message whose settling is synced is gone;
- what belongs to a later generation than the one being written never happened;
- in between either may be, but a transaction happened as a whole or not at all.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
)
from tests.engine import frames
from tests.engine.disk_fake import Disk, recover
from tests.engine.session_fake import Peer, make_engine
from tests.engine.slices import ended

from leporid.engine.engine import Engine
from leporid.engine.queue.queue import Queue

SEGMENT_BYTES = 2048
PLAIN, TX = 1, 2
NAMES = ["a", "b", "t"]  # t is not durable
YES, MAYBE, NO = "yes", "maybe", "no"
TARGETS = ["a", "a", "b", "t", "a+b", "a+t", "a+b+t"]
SIZES = [0, 10, 10, 100, 100, 400, 400, 1500, 3000]


@dataclass(eq=False)
class Entry:
    """One message in one queue."""

    number: int
    generation: int
    persistent: bool
    delivered: bool = False
    settled: int | None = None  # the generation in which it was


@dataclass(eq=False)
class Transaction:
    generation: int
    published: list[tuple[str, Entry]] = field(default_factory=list)
    settled: list[tuple[str, Entry]] = field(default_factory=list)


def body_of(number: int, size: int) -> bytes:
    return b"%d;" % number + b"." * size


def number_in(body: bytes) -> int:
    return int(body.partition(b";")[0])


class ReplayMachine(RuleBasedStateMachine):
    """One broker and its crashes."""

    @initialize(seed=st.integers(0, 3))
    def begin(self, seed: int) -> None:
        self.numbers = 0
        self.next_id = 1
        self.power_failed = False  # then something may be damaged that was never synced
        self.ids: dict[str, int] = {}
        self.entries: dict[str, list[Entry]] = {name: [] for name in NAMES}
        self.deleted: list[tuple[int, dict[str, int], dict[str, list[Entry]]]] = []
        self.queues: dict[str, Queue] = {}
        self.disk = Disk()
        engine = make_engine(durable_segment_bytes=SEGMENT_BYTES, transient_segment_bytes=4096)
        self.disk.attach(engine)
        for name in "ab":
            self.ids[name] = self.next_id
            self.next_id += 1
        self.open(engine)

    def open(self, engine: Engine) -> None:
        """An engine that has replayed, or needs not."""
        self.engine = engine
        for name, number in self.ids.items():
            if name not in self.queues:
                self.queues[name] = engine.queue(number, name, True)
        self.queues["t"] = engine.queue(0, "t", False)
        self.peer = Peer(engine, channels=(PLAIN, TX))
        self.fan = engine.route_cache("fan", self.routed, True)
        self.peer.session.caches["fan"] = self.fan
        self.peer.channels[TX].select_tx()
        self.tags: dict[int, dict[int, tuple[str, Entry]]] = {PLAIN: {}, TX: {}}
        self.transactions: list[Transaction] = []

    def routed(self, key: str, raw: bytes | None) -> list[Queue]:
        return [self.queues[name] for name in key.split("+")]

    def ready(self, name: str) -> list[Entry]:
        unacked = {entry for tags in self.tags.values() for _, entry in tags.values()}
        return [
            entry for entry in self.entries[name] if entry.settled is None and entry not in unacked
        ]

    # ------------------------------------------------------------- what clients do

    def send(
        self, channel: int, targets: str, persistent: bool, size: int
    ) -> list[tuple[str, Entry]]:
        self.numbers += 1
        raw = frames.PERSISTENT if persistent else frames.NO_PROPERTIES
        body = body_of(self.numbers, size)
        self.peer.feed(frames.publish(channel, targets, body, raw=raw, exchange="fan"))
        names = targets.split("+")
        durable = persistent and names != ["t"]
        return [
            (name, Entry(self.numbers, self.engine.logs.generation, durable and name != "t"))
            for name in names
        ]

    def publish(self, targets: str, persistent: bool, size: int) -> None:
        for name, entry in self.send(PLAIN, targets, persistent, size):
            self.entries[name].append(entry)

    def get(self, channel: int, name: str, no_ack: bool) -> None:
        ready = self.ready(name)
        got = self.peer.get(self.queues[name], no_ack, channel)
        if got is None:
            assert not ready
            return
        assert number_in(got.body) == ready[0].number
        assert got.redelivered == ready[0].delivered
        ready[0].delivered = True
        if no_ack:
            ready[0].settled = self.engine.logs.generation
        else:
            self.tags[channel][got.tag] = name, ready[0]

    def settle(self, tag: int, how: str, multiple: bool) -> None:
        if how == "ack":
            self.peer.feed(frames.ack(PLAIN, tag, multiple))
        else:
            self.peer.feed(frames.nack(PLAIN, tag, multiple, how == "requeue"))
        for each in [one for one in self.tags[PLAIN] if one == tag or (multiple and one < tag)]:
            _, entry = self.tags[PLAIN].pop(each)
            if how != "requeue":
                entry.settled = self.engine.logs.generation

    @rule(
        seed=st.integers(0, 2**32),
        steps=st.sampled_from([300, 100, 30, 5]),
        mode=st.sampled_from(["grow", "shrink", "archive"]),
    )
    def work(self, seed: int, steps: int, mode: str) -> None:
        self.busy(seed, steps, mode)

    @rule(
        seed=st.integers(0, 2**32),
        steps=st.sampled_from([300, 600]),
        mode=st.sampled_from(["grow", "shrink"]),
    )
    def work_for_longer(self, seed: int, steps: int, mode: str) -> None:
        self.busy(seed, steps, mode)

    def busy(self, seed: int, steps: int, mode: str) -> None:
        """What clients do all day, with a sync now and then.

        Queue b is an archive: it is seldom read, so that old segments stay.
        """
        random = Random(seed)
        weights = [4, 8, 6, 1, 3] if mode == "shrink" else [9, 3, 6, 1, 3]
        targets = "b" if mode == "archive" else TARGETS
        for _ in range(steps):
            (what,) = random.choices(["publish", "get", "settle", "run", "sync"], weights)
            if what == "publish":
                persistent = random.random() < 0.9
                to = random.choice(targets if len(self.entries["b"]) < 150 else "at")
                self.publish(to, persistent, random.choice(SIZES))
            elif what == "get":
                name = random.choice("aaaaaat" if len(self.entries["b"]) < 150 else "ab")
                self.get(PLAIN, name, random.random() < 0.3)
            elif what == "settle" and self.tags[PLAIN]:
                how = random.choice(["ack", "ack", "ack", "drop", "requeue"])
                tags = sorted(self.tags[PLAIN])
                self.settle(random.choice(tags), how, len(tags) < 10 and random.random() < 0.2)
            elif what == "run":
                self.peer.events()
            elif what == "sync":
                self.engine.clock.now_ms += random.choice([0, 100])
                if self.disk.job is not None or (
                    self.disk.begin(self.engine) and random.random() < 0.7
                ):
                    self.disk.complete(self.engine)
                self.forget_what_is_synced()

    @rule(name=st.sampled_from(NAMES), delete=st.sampled_from([False, False, True]))
    def empty(self, name: str, delete: bool) -> None:
        """Purge a queue; now and then delete it and declare it again."""
        if delete and name != "t" and not self.deleted:
            self.delete_and_declare_again(name)
            return
        ready = self.ready(name)
        assert ended(self.queues[name].purging()) == len(ready)
        for entry in ready:
            entry.settled = self.engine.logs.generation

    @rule(
        publishes=st.lists(
            st.tuples(st.sampled_from(TARGETS), st.booleans(), st.sampled_from(SIZES)),
            max_size=4,
        ),
        gets=st.lists(st.sampled_from(NAMES), max_size=4),
        commit=st.sampled_from([True, True, False]),
    )
    def transaction(
        self, publishes: list[tuple[str, bool, int]], gets: list[str], commit: bool
    ) -> None:
        sent = [self.send(TX, *each) for each in publishes]
        for name in gets:
            self.get(TX, name, False)
        taken = dict(self.tags[TX])
        for tag in taken:
            self.peer.feed(frames.ack(TX, tag))
        channel = self.peer.channels[TX]
        if not commit:
            channel.rollback()
            return
        generation = channel.commit()
        work = Transaction(self.engine.logs.generation)
        work.published = [pair for message in sent for pair in message]
        work.settled = list(taken.values())
        self.tags[TX].clear()
        for name, entry in work.published:
            self.entries[name].append(entry)
        for _, entry in work.settled:
            entry.settled = self.engine.logs.generation
        if any(entry.persistent for _, entry in work.published + work.settled):
            assert generation == self.engine.logs.generation
        self.transactions.append(work)

    def delete_and_declare_again(self, name: str) -> None:
        ready = len(self.ready(name))
        self.deleted.append(
            (
                self.engine.logs.note_change(),
                dict(self.ids),
                {each: list(entries) for each, entries in self.entries.items()},
            )
        )
        for tags in self.tags.values():
            for tag in [one for one, (where, _) in tags.items() if where == name]:
                del tags[tag]
        ended(self.peer.channels[PLAIN].recovering())
        ended(self.peer.channels[TX].recovering())
        self.tags = {PLAIN: {}, TX: {}}
        assert self.queues[name].retire() >= ready
        self.entries[name] = []
        self.ids[name] = self.next_id
        self.next_id += 1
        self.queues[name] = self.engine.queue(self.ids[name], name, True)
        self.fan.forget()

    # ------------------------------------------------------------- what the server does

    @rule(later_ms=st.sampled_from([0, 100]))
    def sync(self, later_ms: int) -> None:
        """Half a sync: the beginning or the end."""
        self.engine.clock.now_ms += later_ms
        if self.disk.job is None:
            self.disk.begin(self.engine)
        else:
            self.disk.complete(self.engine)
            self.forget_what_is_synced()

    def forget_what_is_synced(self) -> None:
        synced = self.engine.logs.synced
        for name, entries in self.entries.items():
            self.entries[name] = [e for e in entries if e.settled is None or e.settled > synced]
        self.deleted = [each for each in self.deleted if each[0] > synced]
        self.transactions = [each for each in self.transactions if each.generation > synced]

    @invariant()
    def counts_are_the_models(self) -> None:
        if not hasattr(self, "engine"):
            return
        for name in NAMES:
            queue = self.queues[name]
            assert queue.ready_count == len(self.ready(name))
            assert queue.unacked_count == sum(
                where == name for tags in self.tags.values() for where, _ in tags.values()
            )

    # ------------------------------------------------------------- ends

    @rule(
        share=st.sampled_from([0.0, 0.2, 0.5, 0.7, 0.9, 0.97, 1.0, 1.0]),
        short=st.integers(0, 3),
        dropped=st.integers(0, 3),
        again=st.booleans(),
        work=st.sampled_from(["none", "publish", "settle", "both"]),
        power=st.sampled_from([None, None, 0.05, 0.3]),
    )
    def crash(
        self,
        share: float,
        short: int,
        dropped: int,
        again: bool,
        work: str,
        power: float | None,
    ) -> None:
        """Of the write under way a beginning is on disk, or, without power, any part."""
        syncing = work != "none"
        if syncing:
            publishes = [("a+b", True, 100), ("a", True, 10)]
            self.transaction(
                publishes if work != "settle" else [],
                ["b", "a", "b"] if work != "publish" else [],
                True,
            )
        if syncing and self.disk.job is None:
            self.disk.begin(self.engine)
        synced, flying = self.engine.logs.synced, 0
        written = total = 0
        if self.disk.job is not None:
            flying = self.disk.job[0]
            total = sum(len(data) for *_, data in self.disk.job[1])
            written = max(0, int(total * share) - short * 32)
        lost = None
        if power is not None:
            self.power_failed = True
            random = Random(self.numbers)
            lost = lambda: random.random() < power  # noqa: E731 - it has no name elsewhere
        left = self.disk.crashed(written, dropped, lost)
        if flying and written >= total and lost is None:
            synced = flying
        for generation, ids, entries in reversed(self.deleted):
            if generation > max(flying, synced):  # never recorded
                self.ids, self.entries = ids, entries
        found = self.look_into(left.copy())
        for name in self.ids:
            self.check_queue(name, [number for number, _ in found[name]], synced, flying)
            delivered = {entry.number for entry in self.entries[name] if entry.delivered}
            assert all(flag or number not in delivered for number, flag in found[name])
        self.check_transactions(found, flying if flying > synced else 0)
        if again:
            # The start was interrupted, too.
            engine = self.restart(left)
            left.begin(engine)
            left = left.crashed(int(share * 200))
            numbers = {name: [number for number, _ in pairs] for name, pairs in found.items()}
            found = self.look_into(left.copy())
            for name in self.ids:
                assert [number for number, _ in found[name]] == numbers[name]
        self.go_on_with(left, found)

    @rule()
    def stop_in_order(self) -> None:
        if self.disk.job is not None:
            self.disk.complete(self.engine)
        self.peer.connection.lost()
        self.tags = {PLAIN: {}, TX: {}}
        self.engine.run()
        self.engine.mark_clean()
        self.disk.sync(self.engine)
        kept = {
            name: [e for e in self.entries[name] if e.settled is None and e.persistent]
            for name in self.ids
        }
        found = self.look_into(self.disk.copy())
        for name in self.ids:
            assert [number for number, _ in found[name]] == [e.number for e in kept[name]]
            assert [flag for _, flag in found[name]] == [e.delivered for e in kept[name]]
        self.go_on_with(self.disk, found)

    def look_into(self, disk: Disk) -> dict[str, list[tuple[int, bool]]]:
        """(number, redelivered) of each message of each durable queue after a restart."""
        queues: dict[str, Queue] = {}

        def declare(engine: Engine) -> None:
            for name, number in self.ids.items():
                queues[name] = engine.queue(number, name, True)

        engine, reports, _ = recover(disk, declare, durable_segment_bytes=SEGMENT_BYTES)
        assert self.power_failed or not any(report.damaged for report in reports)
        peer = Peer(engine)
        found: dict[str, list[tuple[int, bool]]] = {}
        for name, queue in queues.items():
            count = queue.ready_count
            found[name] = []
            while (got := peer.get(queue)) is not None:
                found[name].append((number_in(got.body), got.redelivered))
            assert len(found[name]) == count
        return found

    def check_queue(self, name: str, found: list[int], synced: int, flying: int) -> None:
        def happened(generation: int | None) -> str:
            if generation is None or generation > max(synced, flying):
                return NO
            return YES if generation <= synced else MAYBE

        known = [entry for entry in self.entries[name] if entry.persistent]
        order = [entry.number for entry in known]
        assert found == [number for number in order if number in set(found)], "order"
        for entry in known:
            published, settled = happened(entry.generation), happened(entry.settled)
            if published == YES and settled == NO:
                assert entry.number in found, f"{entry} was lost from {name}"
            if published == NO or settled == YES:
                assert entry.number not in found, f"{entry} came back to {name}"

    def check_transactions(self, found: dict[str, list[tuple[int, bool]]], flying: int) -> None:
        for work in self.transactions:
            if work.generation != flying:
                continue
            there = {name: {number for number, _ in pairs} for name, pairs in found.items()}
            outcomes = set()
            for name, entry in work.published:
                if entry.persistent and entry in self.entries[name]:
                    if entry.number in there[name]:
                        outcomes.add(True)
                    elif entry.settled is None or entry.settled > flying:
                        outcomes.add(False)
            for name, entry in work.settled:
                if entry.persistent and entry.generation < flying and entry in self.entries[name]:
                    outcomes.add(entry.number not in there[name])
            assert len(outcomes) <= 1, "half a transaction"

    def go_on_with(self, disk: Disk, found: dict[str, list[tuple[int, bool]]]) -> None:
        """The next life begins with what was found."""
        engine = self.restart(disk)
        self.disk = disk
        disk.job = None
        disk.sync(engine)  # the server does, before it lets clients in
        self.deleted = []
        self.entries = {
            name: [Entry(number, 0, True, flag) for number, flag in found.get(name, [])]
            for name in NAMES
        }
        self.open(engine)

    def restart(self, disk: Disk) -> Engine:
        self.queues = {}

        def declare(engine: Engine) -> None:
            for name, number in self.ids.items():
                self.queues[name] = engine.queue(number, name, True)

        engine, _, _ = recover(
            disk,
            declare,
            seed=self.numbers,
            durable_segment_bytes=SEGMENT_BYTES,
            transient_segment_bytes=4096,
        )
        return engine


class TestReplay(ReplayMachine.TestCase):  # type: ignore[misc, valid-type]
    settings = settings(max_examples=8, stateful_step_count=20)


@pytest.mark.slow
class TestReplayForLonger(ReplayMachine.TestCase):  # type: ignore[misc, valid-type]
    settings = settings(max_examples=60, stateful_step_count=50)
