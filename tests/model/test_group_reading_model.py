"""Whatever members of a group do: no message is with two of them, and none is passed over."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests.broker.at_once import declare_partitioned_stream
from tests.broker.engine_fake import FakeReader
from tests.broker.peer import Peer, World

from leporid.amqp.methods import BasicCancel, BasicConsume, BasicQos, ChannelClose, ChannelOpen
from leporid.amqp.tables import Value
from leporid.broker.group.handovers import HANDOVER_MS

PARTITIONS = 4
members_of = st.runner().flatmap(lambda machine: st.sampled_from(sorted(machine.peers)))


class Reading(RuleBasedStateMachine):
    """A broker over the fake engine, and clients that come, settle, cancel and go."""

    @initialize(cut=st.booleans())
    def begin(self, cut: bool) -> None:
        self.world = World()
        self.vhost = self.world.broker.vhosts["/"]
        declare_partitioned_stream(self.vhost, "s", PARTITIONS)
        self.peers: dict[int, Peer] = {}
        self.version = 0
        self.count = 0
        self.settled: list[set[int]] = [set() for _ in range(PARTITIONS)]
        self.everybody: list[Peer] = []
        if cut:
            self.world.cut_everywhere()

    def readers(self, peer: Peer) -> list[FakeReader]:
        channel = peer.connection.channels.get(1)
        return [] if channel is None else channel.readers

    @rule(partition=st.integers(0, PARTITIONS - 1), count=st.integers(1, 4))
    def publish(self, partition: int, count: int) -> None:
        for _ in range(count):
            self.world.stream(f"s-{partition}").push("m")

    @rule(prefetch=st.integers(1, 6), newer=st.sampled_from([False, False, False, True]))
    def join(self, prefetch: int, newer: bool) -> None:
        self.version += newer
        peer = self.world.peer()
        peer.call(BasicQos(prefetch_count=prefetch))
        arguments: dict[str, Value] = {
            "x-group": "g",
            "x-stream-offset": "first",
            "x-group-version": self.version,
        }
        peer.call(BasicConsume(queue="s", consumer_tag="t", arguments=arguments))
        self.count += 1
        self.peers[self.count] = peer
        self.everybody.append(peer)

    @precondition(lambda self: self.peers)
    @rule(number=members_of)
    def cancel(self, number: int) -> None:
        self.peers[number].call(BasicCancel("t"))

    @precondition(lambda self: self.peers)
    @rule(number=members_of, in_order=st.booleans())
    def go(self, number: int, in_order: bool) -> None:
        peer = self.peers.pop(number)
        if in_order:
            peer.say(ChannelClose(200, "", 0, 0))
            if not self.world.engine.jobs.waiting:
                peer.call(ChannelOpen())
        else:
            peer.session.on_lost()

    @precondition(lambda self: self.peers)
    @rule(number=members_of, count=st.integers(1, 5), data=st.data())
    def ack(self, number: int, count: int, data: st.DataObject) -> None:
        holding = [reader for reader in self.readers(self.peers[number]) if reader.unacked]
        if holding:
            self.settle(data.draw(st.sampled_from(holding)), count)

    def settle(self, reader: FakeReader, count: int) -> None:
        partition = int(reader.queue.name.removeprefix("s-"))
        self.settled[partition].update(reader.unacked[:count])
        reader.ack(count)

    @rule(later_ms=st.sampled_from([0, 1, 200, HANDOVER_MS]))
    def turn(self, later_ms: int) -> None:
        self.world.engine.clock.now_ms += later_ms
        self.world.broker.handovers.run(self.world.engine.clock.now_ms)

    @rule(count=st.integers(1, 4))
    def work(self, count: int) -> None:
        """Jobs go on for some steps."""
        for _ in range(count):
            self.world.turn()

    @rule()
    def second(self) -> None:
        self.world.broker.save_reader_offsets()
        self.world.broker.look_at_groups()

    @invariant()
    def no_partition_is_with_two(self) -> None:
        for partition in range(PARTITIONS):
            stream = self.world.stream(f"s-{partition}")
            busy = [
                reader
                for peer in self.everybody
                for reader in self.readers(peer)
                if reader.queue is stream and (reader in stream.consumers or reader.unacked)
            ]
            assert len(busy) <= 1

    @invariant()
    def what_is_committed_was_settled(self) -> None:
        for partition in range(PARTITIONS):
            queue = self.vhost.queue(f"s-{partition}")
            committed = queue.reader_offsets.get("g", -1)
            assert self.settled[partition].issuperset(range(committed + 1))

    @invariant()
    def nobody_has_more_than_its_prefetch_count(self) -> None:
        for peer in self.peers.values():
            for reader in self.readers(peer):
                assert reader.credit is None or reader.credit.left >= 0

    def teardown(self) -> None:
        """One that does its work gets everything that is left."""
        if not hasattr(self, "world"):
            return
        for number in tuple(self.peers):
            self.go(number, False)
        self.join(3, False)
        (peer,) = self.peers.values()
        for _ in range(500):
            self.turn(HANDOVER_MS)
            self.world.turn()
            for reader in self.readers(peer):
                self.settle(reader, len(reader.unacked))
        self.second()
        self.work(4)
        assert not self.world.engine.jobs.waiting
        for partition in range(PARTITIONS):
            end = self.world.stream(f"s-{partition}").end
            assert self.settled[partition] == set(range(end))


Reading.TestCase.settings = settings(max_examples=50, stateful_step_count=40)
TestReading = pytest.mark.slow(Reading.TestCase)
