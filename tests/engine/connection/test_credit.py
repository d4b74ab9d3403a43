"""Credit that several consumers share, a group's or a channel's, and whose turn it is.

Also what becomes of the unsettled deliveries of a consumer that leaves.
"""

from __future__ import annotations

import sys
from collections import Counter

import pytest
from tests.engine import frames
from tests.engine.frames import ack, nack, properties, publish
from tests.engine.session_fake import Peer, make_engine
from tests.engine.stream_world import World, numbered, offset_of

from leporid.engine.connection.channel import Channel
from leporid.engine.connection.consumer import Consumer
from leporid.engine.connection.credit import Credit
from leporid.engine.connection.stream_consumer import StreamConsumer
from leporid.engine.queue.queue import Queue
from leporid.engine.selectors.selector import Selector
from leporid.engine.selectors.tags import Tags
from leporid.engine.stream.choice import Choice
from leporid.engine.stream.stream import Stream
from leporid.filters.compiler import program


class Several:
    """Readers of three streams with one credit, on one channel."""

    def __init__(self, limit: int, *counts: int) -> None:
        self.world = World()
        engine = self.world.engine
        self.streams: list[Stream] = [
            self.world.stream,
            engine.stream(8, "t"),
            engine.stream(9, "u"),
        ]
        names: dict[str, Queue] = {stream.name: stream for stream in self.streams}
        self.publisher = Peer(engine, names)
        self.peer = Peer(engine, names, channels=(1,))
        self.channel: Channel = self.peer.channels[1]
        self.credit: Credit = self.channel.credit(limit)
        for stream, count in zip(self.streams, counts, strict=False):
            self.send(stream, count)
        self.readers = [self.read(stream) for stream in self.streams]

    def read(self, stream: Stream, offset: int = 0) -> StreamConsumer:
        return self.channel.consume_stream(stream, stream.name, 0, offset, None, self.credit)

    def send(self, stream: Stream, count: int) -> None:
        for body in numbered(count):
            self.publisher.feed(publish(1, stream.name, stream.name.encode() + body, raw=DURABLE))
        self.world.sync()

    def came(self) -> list[bytes]:
        return self.peer.bodies()

    def turn(self) -> bytes | None:
        """The only message that came, which is then acknowledged."""
        for _ in range(5):  # a search may end in a later turn
            bodies = self.came()
            if bodies:
                break
        else:
            return None
        (body,) = bodies
        self.peer.feed(ack(1, 0, multiple=True))
        return body


DURABLE = b"\x10\x00\x02"


def test_all_of_them_have_so_much_unsettled_and_no_more():
    several = Several(4, 3, 3, 3)
    assert several.came() == [b"s0", b"s1", b"s2", b"t0"]
    assert repr(several.credit) == "<Credit used=4 limit=4 waiting_queues=2>"
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
    assert several.credit.used == 2
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
    several.world.engine.run()
    assert [offset_of(event.raw) for event in several.peer.deliveries()] == [1, 2]


class Limited:
    """Consumers of queues on one channel that has a limit; messages come from another peer."""

    def __init__(self, limit: int, queues: int = 1) -> None:
        self.engine = make_engine()
        self.queues = [self.engine.queue(0, f"q{number}", False) for number in range(queues)]
        self.publisher = Peer(self.engine, {queue.name: queue for queue in self.queues})
        self.peer = Peer(self.engine)
        self.channel = self.peer.channel
        self.channel.prefetch_global = limit

    def send(self, queue: int, count: int = 1) -> None:
        self.publisher.feed(publish(1, f"q{queue}", b"x") * count)
        self.engine.run()

    def consume(self, queue: int, tag: str, *, no_ack: bool = False, priority: int = 0) -> Consumer:
        return self.channel.consume(self.queues[queue], tag, no_ack, priority, 0)

    def takers(self) -> str:
        return "".join(each.consumer for each in self.peer.deliveries())

    def ack(self, tag: int = 0) -> str:
        """Everything, or one; returns who takes next."""
        self.peer.feed(ack(1, tag, multiple=not tag))
        return self.takers()

    def asked(self) -> int:
        assert self.channel.global_credit is not None
        return self.channel.global_credit.asked


def backlogged(limit: int, tags: str) -> Limited:
    """One consumer on each of several queues that have more than anybody takes."""
    world = Limited(limit, len(tags))
    for number, tag in enumerate(tags):
        world.send(number, 100)
        world.consume(number, tag)
    return world


def test_queues_take_turns_under_the_limit_of_their_channel():
    world = backlogged(1, "abc")
    assert world.takers() == "a"
    assert "".join(world.ack() for _ in range(9)) == "bcabcabca"
    assert repr(world.channel.global_credit) == "<ChannelCredit used=1 limit=1 waiting_queues=3>"


def test_slots_that_come_free_together_are_shared_out():
    world = backlogged(6, "abc")
    assert world.takers() == "aaaaaa"
    assert sorted(world.ack()) == list("aabbcc")
    assert sorted(world.ack()) == list("aabbcc")


def test_consumers_of_one_queue_take_turns_under_the_limit_of_their_channel():
    world = Limited(10)
    world.send(0, 100)
    world.consume(0, "a")
    assert world.takers() == "a" * 10
    world.consume(0, "b")
    assert world.takers() == ""
    assert Counter(world.ack()) == {"a": 5, "b": 5}
    assert "".join(world.ack(tag) for tag in range(11, 17)) in ("ababab", "bababa")


def test_a_queue_without_messages_passes_its_turn_on():
    world = Limited(1, 3)
    for number, tag in enumerate("abc"):
        world.consume(number, tag)
    world.send(0, 2)
    world.send(1)
    world.send(2, 3)
    assert world.takers() + "".join(world.ack() for _ in range(6)) == "abcacc"
    world.send(1)
    assert world.takers() == "b"


def test_the_highest_priority_of_a_queue_has_its_turns():
    world = Limited(2, 2)
    world.send(0, 100)
    world.send(1, 100)
    world.consume(0, "l", priority=-1)
    world.consume(0, "h", priority=3)
    world.consume(1, "o")
    assert world.takers() == "hh"
    assert Counter("".join(world.ack() for _ in range(6))) == {"h": 6, "o": 6}


def test_consumers_with_their_own_prefetch_used_up_let_others_take():
    world = Limited(2, 2)
    world.send(0, 100)
    world.send(1, 100)
    world.channel.consume(world.queues[0], "a", False, 0, 1)
    world.channel.consume(world.queues[1], "b", False, 0, 1)
    assert world.takers() == "ab"
    assert world.ack(2) == "b"
    assert world.ack(3) == "b"
    assert world.ack(1) == "a"


def test_no_ack_consumers_get_nothing_while_the_limit_is_used_up():
    world = Limited(1, 2)
    world.consume(1, "n", no_ack=True)
    world.send(0, 3)
    world.consume(0, "a")
    assert world.takers() == "a"
    world.send(1, 5)
    assert world.takers() == ""
    assert world.ack() == "na"
    assert world.ack() == "na"
    assert world.ack() == "nnn"  # nobody else wants to take
    world.send(1, 2)
    assert world.takers() == "nn"


def test_who_waited_takes_before_the_length_of_the_queue_is_enforced():
    """Also if another waited longer, for whom there is nothing."""
    world = Limited(1)
    world.queues[0].set_limits(max_length=2)
    nothing = Tags([b"nothing has it"])
    world.channel.consume(world.queues[0], "a", False, 0, 0, filter=Tags([b"t"]))
    world.channel.consume(world.queues[0], "b", False, 0, 0, filter=nothing)
    raw = properties(headers=frames.table(**{"x-tag": frames.longstr("t")}))
    world.publisher.feed(publish(1, "q0", b"1", raw=raw))
    assert world.takers() == "a"
    world.publisher.feed(publish(1, "q0", b"2", raw=raw))
    world.engine.run()
    world.peer.feed(nack(1, 1))
    world.publisher.feed(publish(1, "q0", b"3", raw=raw))
    assert [(each.body, each.redelivered) for each in world.peer.deliveries()] == [(b"1", True)]
    assert world.queues[0].ready_count == 2


def test_replies_know_no_limit(engine, queue, peer):
    replies = engine.queue(0, "amq.rabbitmq.reply-to.x", False)
    requester = Peer(engine, {"r": replies}, channels=(1, 2))
    requester.channel.prefetch_global = 1
    peer.feed(publish(1, "q", b"x") * 2)
    requester.channel.consume(queue, "c", False, 0, 0)
    requester.channel.consume(replies, "r", True, 0, 0)
    requester.feed(publish(2, "r", b"answer") * 2)
    assert [each.consumer for each in requester.deliveries()] == ["c", "r", "r"]


def test_who_waits_goes_on_when_the_limit_is_raised_or_lifted():
    world = backlogged(1, "abc")
    world.takers()
    world.channel.prefetch_global = 3
    assert world.takers() == "bc"
    world.channel.prefetch_global = 0
    assert Counter(world.takers()) == {"a": 99, "b": 99, "c": 99}


def test_a_cancelled_consumer_waits_no_more():
    world = Limited(1)
    world.send(0, 10)
    consumers = [world.consume(0, tag) for tag in "abcd"]
    assert world.takers() == "a"
    world.channel.cancel(consumers[1])
    assert "".join(world.ack() for _ in range(4)) == "cdac"
    for at in (0, 2, 3):
        world.channel.cancel(consumers[at])
    assert world.ack() == ""
    assert repr(world.channel.global_credit) == "<ChannelCredit used=0 limit=1 waiting_queues=0>"
    assert [sys.getrefcount(each) for each in consumers] == [3, 3, 3, 3]
    world.consume(0, "e")
    assert world.takers() == "e"


def test_a_single_active_consumer_waits_and_is_followed_by_the_next():
    world = Limited(1, 2)
    world.queues[0].set_single_active_consumer(True)
    world.send(0, 10)
    world.send(1, 10)
    first = world.consume(0, "a")
    world.consume(0, "s")
    world.consume(1, "o")
    assert "".join([world.takers(), *(world.ack() for _ in range(4))]) == "aoaoa"
    world.channel.cancel(first)
    assert "".join(world.ack() for _ in range(4)) == "osos"


def test_consumers_with_filters_wait_without_keeping_others_from_their_turns():
    world = Limited(1, 2)
    wanted = properties(headers=frames.table(n=b"I\x00\x00\x00\x01"))
    world.send(0, 3)
    world.send(1, 4)
    chosen = Selector(program("n = 1", "jms").code)
    world.channel.consume(world.queues[0], "f", False, 0, 0, filter=chosen)
    world.consume(1, "o")
    assert "".join([world.takers(), world.ack()]) == "oo"
    world.publisher.feed(publish(1, "q0", b"x", raw=wanted) * 2)
    assert "".join(world.ack() for _ in range(4)) in ("fofo", "ofof")


def test_who_waits_when_the_peer_does_not_read_goes_on_after_it():
    world = backlogged(1, "ab")
    assert world.takers() == "a"
    big = world.engine.queue(0, "big", False)
    publisher = Peer(world.engine, {"big": big})
    publisher.feed(publish(1, "big", bytes(300_000), step=100_000))
    assert world.channel.get(big, True)
    world.peer.feed(ack(1, 1))
    world.engine.run()
    pending = world.peer.connection.output.pending_bytes
    assert [queue.ready_count for queue in world.queues] == [99, 100]
    world.peer.take()
    assert pending > 300_000
    assert world.takers() == "b"
    assert world.ack() == "a"


def waiting_for_output() -> tuple[Limited, list[Consumer]]:
    """Three consumers wait for credit; what the first gets is more output than may wait."""
    world = Limited(3, 4)
    world.send(0, 3)
    world.consume(0, "n")
    assert world.takers() == "nnn"
    world.publisher.feed(publish(1, "q1", bytes(300_000), step=100_000))
    world.send(2)
    world.send(3)
    consumers = [world.consume(number, tag) for number, tag in enumerate("abc", 1)]
    assert world.takers() == ""
    world.peer.feed(ack(1, 0, multiple=True))
    world.engine.run()
    assert world.peer.connection.output.pending_bytes > 300_000
    return world, consumers


def test_the_engine_is_busy_when_sent_output_leaves_room_for_who_waits_for_credit():
    world, _ = waiting_for_output()
    busy = [world.engine.busy]
    world.peer.take()
    busy.append(world.engine.busy)
    assert busy == [False, True]
    assert world.takers() == "bc"


def test_who_waits_for_credit_goes_on_when_the_one_that_waits_for_output_is_cancelled():
    world, consumers = waiting_for_output()
    world.channel.cancel(consumers[1])
    world.peer.take()
    assert world.takers() == "c"


def test_streams_take_turns_under_the_limit_of_their_channel():
    several = Several(1, 30, 30, 30)
    for reader in several.readers:
        several.channel.cancel(reader)
    several.peer.feed(ack(1, 0, multiple=True))
    several.came()
    several.channel.prefetch_global = 1
    for stream in several.streams:
        several.channel.consume_stream(stream, f"{stream.name} again", 0, 0)
    found: Counter[bytes] = Counter()
    for _ in range(30):
        (body,) = several.came()
        found[body[:1]] += 1
        several.peer.feed(ack(1, 0, multiple=True))
    assert found == {b"s": 10, b"t": 10, b"u": 10}


def test_who_waits_for_credit_keeps_its_place_when_output_leaves():
    several = Several(3)
    stream, other, _ = several.streams
    several.channel.cancel(several.readers[0])
    for tag in "abc":
        several.channel.consume_stream(stream, tag, 0, 0, None, several.credit)
    several.send(stream, 1)
    assert [delivery.consumer for delivery in several.peer.deliveries()] == ["a", "b", "c"]
    several.send(other, 9)
    # None of them has room for output; then all but the first have, and wait for credit.
    big = several.world.engine.queue(0, "big", False)
    several.world.engine.publish([big], "", "", properties(), bytes(300_000))
    several.channel.get(big, True)
    several.send(stream, 1)
    several.peer.connection.sent(150_000)
    for number in (2, 3):
        several.peer.feed(ack(1, number))
        several.world.engine.run()
    several.peer.take()
    came = []
    for number in (1, 5, 6, 7):
        several.peer.feed(ack(1, number))
        came += [delivery.consumer for delivery in several.peer.deliveries()]
    assert came == ["t", "c", "t", "a"]


def test_readers_with_a_filter_ask_for_credit_when_they_have_found_something():
    several = Several(1, 5, 5)
    for reader in several.readers:
        several.channel.cancel(reader)
    several.peer.feed(ack(1, 0, multiple=True))
    several.came()
    choice = Choice(Selector(program("n = 1", "jms").code))
    for stream in several.streams[:2]:
        several.channel.consume_stream(stream, stream.name, 0, 0, choice, several.credit)
    several.read(several.streams[1])
    assert [several.turn() for _ in range(5)] == [b"t0", b"t1", b"t2", b"t3", b"t4"]
    raw = properties(headers=frames.table(n=b"I\x00\x00\x00\x01"), delivery_mode=2)
    for _ in range(2):
        for name in "st":
            several.publisher.feed(publish(1, name, name.encode() + b"!", raw=raw))
    several.world.sync()
    found = Counter(several.turn() for _ in range(6))
    assert found == {b"s!": 2, b"t!": 4}
    assert several.turn() is None


@pytest.mark.slow
@pytest.mark.parametrize("case", ["a queue each, backlogged", "one queue, now and then a message"])
def test_a_delivery_costs_the_same_however_many_wait(case: str):
    def cost(consumers: int) -> float:
        """How often anybody is asked, for each delivery."""
        backlog = case.startswith("a queue each")
        world = Limited(1, consumers if backlog else 1)
        for number in range(consumers):
            if backlog:
                world.send(number, 2)
            world.consume(number if backlog else 0, "c")
        if not backlog:
            world.send(0, consumers + 1)  # each takes, and has to wait
            world.takers()
            for _ in range(consumers):
                assert world.ack() == "c"
            assert world.ack() == ""
        else:
            assert world.takers() == "c"
        before = world.asked()
        for _ in range(50):
            if not backlog:
                world.send(0, 2)
                assert world.takers() + world.ack() == "cc"
            assert world.ack() == ("c" if backlog else "")
        return (world.asked() - before) / 50

    few = cost(100)
    assert 0 < few < 20
    assert cost(10_000) == pytest.approx(few, abs=0.5)
