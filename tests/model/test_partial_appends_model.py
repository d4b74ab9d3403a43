"""Messages to several streams and many queues, stored in slices: what is confirmed is everywhere,
once.

Two clients publish with confirms, a third one in transactions, through an exchange whose streams
come and go. The clock cuts after a record or two; clients go, messages are synced, and the broker
crashes in between.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule
from tests.engine.disk_fake import Disk, Files, recover
from tests.engine.frames import PERSISTENT, Confirm, publish
from tests.engine.session_fake import Peer, make_engine
from tests.engine.slices import cut_often, turns

from leporid.engine.engine import Engine
from leporid.engine.queue.queue import Queue
from leporid.engine.stream.replay import StreamReplay
from leporid.engine.stream.stream import Stream

SIDES = [0, 1]
IN_TX = 2
EVERYBODY = [*SIDES, IN_TX]
QUEUE = 1000
STREAMS = 5
# As many that a small message has several records for them.
QUEUES = range(QUEUE, QUEUE + 300)


class PartialAppendsMachine(RuleBasedStateMachine):
    """Drives the engine, and notes what it promises.

    Attributes:
        sent: how many messages each client has sent in all.
        open: what a client has sent and was not confirmed, by delivery tag: the number, and the
            streams that there were.
        promised: (client, number, streams): confirmed, or committed.
    """

    @initialize(units=st.sampled_from([1, 1, 2]))
    def begin(self, units: int) -> None:
        self.units = units
        self.disk = Disk()
        self.streams: dict[int, Stream] = {}
        self.ids = list(range(1, STREAMS + 1))
        self.sent = [0, 0, 0]
        self.promised: list[tuple[int, int, frozenset[int]]] = []
        engine = make_engine(durable_segment_bytes=4096)
        self.disk.attach(engine)
        self.declare(engine)
        self.open_on(engine)

    def declare(self, engine: Engine) -> None:
        self.queues: list[Queue] = [engine.queue(each, f"q{each}", True) for each in QUEUES]
        self.streams = {number: engine.stream(number, f"s{number}") for number in self.ids}

    def open_on(self, engine: Engine) -> None:
        self.engine = engine
        self.fan = engine.route_cache(
            "fan", lambda _key, _raw: [*self.streams.values(), *self.queues], True
        )
        self.peers: list[Peer] = [self.connect(client) for client in EVERYBODY]
        cut_often(engine, self.units)

    def connect(self, client: int) -> Peer:
        peer = Peer(self.engine, {queue.name: queue for queue in self.queues})
        peer.session.caches["fan"] = self.fan
        if client == IN_TX:
            peer.channel.select_tx()
            self.in_tx: list[tuple[int, frozenset[int]]] = []
        else:
            peer.channel.select_confirm()
            if not hasattr(self, "open"):
                self.open: list[dict[int, tuple[int, frozenset[int]]]] = [{}, {}]
                self.tags = [0, 0]
            self.open[client], self.tags[client] = {}, 0
        return peer

    # ------------------------------------------------------------- what clients see

    def read(self) -> None:
        for side in SIDES:
            for event in self.peers[side].events(run=False):
                assert isinstance(event, Confirm)
                assert not event.refused
                for tag in sorted(self.open[side]):
                    if tag == event.tag or (event.multiple and tag < event.tag):
                        self.promised.append((side, *self.open[side].pop(tag)))

    def message(self, client: int, size: int) -> bytes:
        self.sent[client] += 1
        body = b"%d %d " % (client, self.sent[client]) + bytes(size)
        return publish(1, "k", body, exchange="fan", raw=PERSISTENT)

    # ------------------------------------------------------------- rules

    @rule(
        side=st.sampled_from(SIDES),
        count=st.sampled_from([1, 1, 3]),
        size=st.sampled_from([0, 9000]),
    )
    def publish(self, side: int, count: int, size: int) -> None:
        if not self.peers[side].connection.reading:
            return
        data = []
        for _ in range(count):
            data.append(self.message(side, size))
            self.tags[side] += 1
            self.open[side][self.tags[side]] = (self.sent[side], frozenset(self.streams))
        self.peers[side].feed(*data)

    @rule(count=st.sampled_from([1, 3]), size=st.sampled_from([0, 9000]))
    def publish_in_tx(self, count: int, size: int) -> None:
        peer = self.peers[IN_TX]
        if not peer.connection.reading:
            return
        for _ in range(count):
            data = self.message(IN_TX, size)
            self.in_tx.append((self.sent[IN_TX], frozenset(self.streams)))
            peer.feed(data)

    @rule()
    def commit(self) -> None:
        """As the control plane does: in steps, and no input meanwhile."""
        peer, there = self.peers[IN_TX], frozenset(self.streams)
        if not peer.connection.reading:
            return
        kept, self.in_tx = self.in_tx, []

        def committing() -> Iterator[None]:
            while not peer.channel.closed and peer.channel.append_to_streams():
                yield
            if peer.channel.closed:
                return
            generation = peer.channel.commit()
            while generation > self.engine.logs.synced:
                yield
            self.promised += [(IN_TX, number, streams & there) for number, streams in kept]

        peer.connection.begin_work()
        self.engine.jobs.start(committing(), lambda _: peer.connection.end_work())

    @rule(client=st.sampled_from(EVERYBODY))
    def lose(self, client: int) -> None:
        self.read()
        self.peers[client].connection.lost()
        self.peers[client] = self.connect(client)

    @rule(data=st.data())
    def delete(self, data: st.DataObject) -> None:
        if self.streams:
            number = data.draw(st.sampled_from(sorted(self.streams)))
            self.streams.pop(number).retire()
            self.fan.forget()

    @rule()
    def declare_one(self) -> None:
        number = self.ids[-1] + 1
        self.ids.append(number)
        self.streams[number] = self.engine.stream(number, f"s{number}")
        self.fan.forget()

    @rule(count=st.sampled_from([1, 2, 10]))
    def turn(self, count: int) -> None:
        for _ in range(count):
            self.engine.run()
            self.read()

    @rule()
    def sync(self) -> None:
        self.disk.sync(self.engine)
        self.turn(1)

    @rule()
    def crash(self) -> None:
        """All that is not on disk is gone, and everybody connects again."""
        self.read()
        self.ids = [*sorted(self.streams), self.ids[-1] + 1]
        streams = list(self.streams)
        self.disk = self.disk.copy()
        engine, _, _ = recover(self.disk, self.declare, durable_segment_bytes=4096)
        for number, stream in self.streams.items():
            replay = StreamReplay(stream)
            for segment, file in sorted(self.disk.streams.get(number, Files()).items()):
                replay.segment(segment, file)
            replay.finish(False)
        assert set(streams) <= set(self.streams)
        self.open_on(engine)

    @rule()
    def rest(self) -> None:
        """Until nothing is left to do: everything promised is where it should be, once."""
        for _ in range(3):
            for _ in turns(self.engine):
                self.disk.sync(self.engine)
                self.read()
            self.disk.sync(self.engine)
        self.engine.run()
        self.read()
        assert self.open == [{}, {}]
        for peer in self.peers:
            assert peer.session.defects == []
            assert peer.faults == []
            assert peer.connection.reading
        for number, stream in self.streams.items():
            found = self.read_stream(stream)
            for client in EVERYBODY:
                numbers = [each for one, each in found if one == client]
                assert numbers == sorted(set(numbers))
                wanted = {
                    each
                    for one, each, streams in self.promised
                    if one == client and number in streams
                }
                assert wanted <= set(numbers)

    def read_stream(self, stream: Stream) -> list[tuple[int, int]]:
        reader = Peer(self.engine)
        reader.channel.consume_stream(stream, "r", 0, 0)
        found = []
        for _ in turns(self.engine):
            found += reader.deliveries()
        found += reader.deliveries()
        reader.connection.lost()
        # What it has not settled would keep the engine, where the garbage collector does not look.
        for _ in turns(self.engine):
            pass
        return [tuple(map(int, each.body.split()[:2])) for each in found]  # type: ignore[misc]

    def teardown(self) -> None:
        """The queues have all that was promised, in order, too."""
        if not hasattr(self, "peers"):
            return
        self.rest()
        for queue in [*self.queues[::30], self.queues[-1]]:
            bodies = [tuple(map(int, each.split()[:2])) for each in self.peers[0].drain(queue)]
            for client in EVERYBODY:
                numbers = [each for one, each in bodies if one == client]
                assert numbers == sorted(set(numbers))
                assert {each for one, each, _ in self.promised if one == client} <= set(numbers)


class TestPartialAppends(PartialAppendsMachine.TestCase):  # type: ignore[misc, valid-type]
    settings = settings(max_examples=10, stateful_step_count=30)


@pytest.mark.slow
class TestPartialAppendsForLonger(PartialAppendsMachine.TestCase):  # type: ignore[misc, valid-type]
    settings = settings(max_examples=150, stateful_step_count=50)
