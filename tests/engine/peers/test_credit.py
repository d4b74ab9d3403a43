"""Credit of several consumers of streams together, and taking back what one has not settled."""

from __future__ import annotations

from collections import Counter

import pytest
from tests.engine.frames import ack, nack, publish
from tests.engine.session_fake import Peer
from tests.engine.stream_world import World, numbered, offset_of

from leporid.engine.peers.channel import Channel
from leporid.engine.peers.credit import Credit
from leporid.engine.queues.queue import Queue
from leporid.engine.streams.reader import Reader
from leporid.engine.streams.stream import Stream


class Several:
    """Readers of three streams with one credit, on one channel."""

    def __init__(self, limit: int, *counts: int) -> None:
        self.world = World()
        plane = self.world.plane
        self.streams: list[Stream] = [self.world.stream, plane.stream(8, "t"), plane.stream(9, "u")]
        names: dict[str, Queue] = {stream.name: stream for stream in self.streams}
        self.publisher = Peer(plane, names)
        self.peer = Peer(plane, names, channels=(1,))
        self.channel: Channel = self.peer.channels[1]
        self.credit: Credit = self.channel.credit(limit)
        for stream, count in zip(self.streams, counts, strict=False):
            self.send(stream, count)
        self.readers = [self.read(stream) for stream in self.streams]

    def read(self, stream: Stream, offset: int = 0) -> Reader:
        return self.channel.consume_stream(stream, stream.name, 0, offset, None, self.credit)

    def send(self, stream: Stream, count: int) -> None:
        for body in numbered(count):
            self.publisher.feed(publish(1, stream.name, stream.name.encode() + body, raw=DURABLE))
        self.world.sync()

    def came(self) -> list[bytes]:
        return self.peer.bodies()


DURABLE = b"\x10\x00\x02"


def test_all_of_them_have_so_much_unsettled_and_no_more():
    several = Several(4, 3, 3, 3)
    assert several.came() == [b"s0", b"s1", b"s2", b"t0"]
    assert repr(several.credit) == "<Credit used=4 limit=4 takers=3>"
    several.peer.feed(ack(1, 2, multiple=True))
    assert len(several.came()) == 2
    assert several.credit.used == 4
    several.peer.feed(ack(1, 0, multiple=True))
    assert len(several.came()) == 3
    several.peer.feed(ack(1, 0, multiple=True))
    assert (several.came(), several.credit.used) == ([], 0)


def test_nobody_waits_for_ever():
    several = Several(1, 30, 30, 30)
    found: Counter[bytes] = Counter()
    for _ in range(30):
        (body,) = several.came()
        found[body[:1]] += 1
        several.peer.feed(ack(1, 0, multiple=True))
    assert found == {b"s": 10, b"t": 10, b"u": 10}


def test_credit_that_one_does_not_need_is_there_for_others():
    several = Several(2, 1, 5, 0)
    assert several.came() == [b"s0", b"t0"]
    several.peer.feed(ack(1, 0, multiple=True))
    assert several.came() == [b"t1", b"t2"]
    several.peer.feed(ack(1, 3))
    several.peer.feed(ack(1, 4))
    assert several.came() == [b"t3", b"t4"]
    several.send(several.streams[2], 1)
    assert several.came() == []
    several.peer.feed(ack(1, 5))
    assert several.came() == [b"u0"]


def test_what_a_cancelled_one_has_counts_until_it_is_settled():
    several = Several(2, 2, 2)
    assert several.came() == [b"s0", b"s1"]
    several.channel.cancel(several.readers[0])
    assert repr(several.credit) == "<Credit used=2 limit=2 takers=2>"
    assert several.came() == []
    several.peer.feed(ack(1, 1))
    assert several.came() == [b"t0"]
    several.peer.feed(ack(1, 2))
    assert several.came() == [b"t1"]


def test_what_is_taken_back_counts_no_more_and_may_be_settled_late():
    several = Several(3, 2, 2)
    assert several.came() == [b"s0", b"s1", b"t0"]
    first = several.readers[0]
    several.channel.cancel(first)
    several.channel.drop_unsettled(first)
    assert several.came() == [b"t1"]
    assert (several.channel.unacked_count, several.credit.used) == (2, 2)
    several.peer.feed(ack(1, 1), nack(1, 2))
    assert several.peer.session.faults == []
    again = several.read(several.streams[0])
    assert several.came() == [b"s0"]
    assert again.settled_offset == 0
    # Once is late, twice is wrong.
    several.peer.feed(ack(1, 2))
    ((_, fault),) = several.peer.session.faults
    assert fault.text == "PRECONDITION_FAILED - unknown delivery tag 2"


def test_settling_several_passes_over_what_was_taken_back():
    several = Several(5, 2, 2)
    assert len(several.came()) == 4
    several.channel.cancel(several.readers[1])
    several.channel.drop_unsettled(several.readers[1])
    several.peer.feed(ack(1, 4, multiple=True))
    assert several.peer.session.faults == []
    assert several.channel.unacked_count == 0
    assert several.readers[0].settled_offset == 2


@pytest.mark.parametrize("committed", [True, False])
def test_a_transaction_settles_when_it_is_committed(committed: bool):
    several = Several(2, 2)
    reader = several.readers[0]
    several.channel.select_tx()
    assert len(several.came()) == 2
    several.peer.feed(ack(1, 1))
    assert reader.settled_offset == 0
    if committed:
        several.channel.commit()
    else:
        several.channel.rollback()
    assert reader.settled_offset == (1 if committed else 0)


def test_what_a_transaction_was_to_settle_is_taken_back_too():
    several = Several(2, 2, 2)
    several.channel.select_tx()
    assert several.came() == [b"s0", b"s1"]
    several.peer.feed(ack(1, 1))
    several.channel.cancel(several.readers[0])
    several.channel.drop_unsettled(several.readers[0])
    assert several.came() == [b"t0", b"t1"]
    several.peer.feed(ack(1, 3))
    several.channel.commit()
    assert several.channel.unacked_count == 1
    assert several.credit.used == 1


def test_a_channel_that_closes_leaves_nothing_behind():
    several = Several(3, 3, 3)
    assert len(several.came()) == 3
    several.peer.connection.close_channel(1)
    assert several.credit.used == 0
    assert [stream.consumer_count for stream in several.streams] == [0, 0, 0]


def test_offsets_go_on_behind_a_gap_of_what_was_taken_back():
    several = Several(3, 3)
    several.came()
    several.peer.feed(ack(1, 1))
    first = several.readers[0]
    assert first.settled_offset == 1
    several.channel.cancel(first)
    several.channel.drop_unsettled(first)
    several.read(several.streams[0], 1)
    several.world.plane.run()
    assert [offset_of(event.raw) for event in several.peer.deliveries()] == [1, 2]
