"""Consumer timeouts: deliveries that nobody settles in time."""

from __future__ import annotations

import gc

import pytest
from tests.engine.allocations import allocated_bytes
from tests.engine.frames import ack, nack, publish, reject
from tests.engine.session_fake import Peer
from tests.engine.slices import SOME, cut_often, steps_of, turns
from tests.engine.stream_world import World

TEXT = (
    "PRECONDITION_FAILED - delivery acknowledgement on channel 1 timed out. Timeout value used: "
    "{} ms. This timeout value can be configured, see consumers doc guide to learn more"
)


def deliver(engine, peer, later_ms: int = 0) -> list[tuple[int, bytes]]:
    """What is delivered that much later: tags and bodies."""
    engine.clock.now_ms += later_ms
    return [(each.tag, each.body) for each in peer.deliveries()]


def send(peer, *texts: str) -> None:
    for text in texts:
        peer.feed(publish(2, "q", text.encode()))


@pytest.fixture
def reader(engine, queue):
    """Another connection, which times out."""
    return Peer(engine, {"q": queue})


# ------------------------------------------------------------------ the channel is closed


def test_an_overdue_delivery_closes_its_channel(engine, queue, peer, reader):
    engine.connections.consumer_timeout_ms = 1000
    reader.channel.consume(queue, "c", False, 0, 0)
    send(peer, "a", "b")
    assert len(deliver(engine, reader)) == 2
    reader.feed(ack(1, 1))
    deliver(engine, reader, 999)
    assert reader.faults == []
    deliver(engine, reader, 1)
    assert reader.faults == [(1, 406)]
    assert reader.session.faults[0][1].text == TEXT.format(1000)
    assert engine.queues.timed_out == 1
    got = peer.get(queue)
    assert (got.body, got.redelivered) == (b"b", True)
    assert engine.next_due_ms == 0


@pytest.mark.parametrize("before", [0, 10**9])
def test_another_default_holds_for_deliveries_that_are_there(engine, queue, peer, reader, before):
    engine.connections.consumer_timeout_ms = before
    reader.channel.consume(queue, "c", False, 0, 0)
    send(peer, "a")
    deliver(engine, reader)
    deliver(engine, reader, 5000)
    engine.connections.set_consumer_timeout(6000)
    deliver(engine, reader)
    deliver(engine, reader, 999)
    assert reader.faults == []
    deliver(engine, reader, 1)
    assert reader.faults == [(1, 406)]


def test_the_time_of_each_delivery_begins_when_it_is_sent(engine, queue, peer, reader):
    engine.connections.consumer_timeout_ms = 1000
    reader.channel.consume(queue, "c", False, 0, 0)
    deliver(engine, reader, 1500)
    send(peer, "a")
    deliver(engine, reader)
    assert engine.next_due_ms <= engine.clock.now_ms + 1000
    deliver(engine, reader, 600)
    send(peer, "b")
    assert deliver(engine, reader) == [(2, b"b")]
    reader.feed(ack(1, 1))
    deliver(engine, reader, 500)  # "a" would be overdue
    assert reader.faults == []
    assert engine.next_due_ms == engine.clock.now_ms + 500
    deliver(engine, reader, 499)
    assert reader.faults == []
    deliver(engine, reader, 1)
    assert reader.faults == [(1, 406)]


def test_a_consumer_that_keeps_up_is_never_closed(engine, queue, peer, reader):
    engine.connections.consumer_timeout_ms = 100
    reader.channel.consume(queue, "c", False, 0, 0)
    for _ in range(50):
        send(peer, "x")
        ((tag, _),) = deliver(engine, reader)
        deliver(engine, reader, 99)
        reader.feed(ack(1, tag))
    assert reader.faults == []


def test_no_timeout_at_all(engine, queue, peer, reader):
    reader.channel.consume(queue, "c", False, 0, 0)
    send(peer, "x")
    deliver(engine, reader, 10**12)
    assert reader.faults == []
    assert engine.next_due_ms == 0


def test_automatic_acknowledgement_knows_none(engine, queue, peer, reader):
    engine.connections.consumer_timeout_ms = 100
    reader.channel.consume(queue, "c", True, 0, 0)
    send(peer, "x")
    deliver(engine, reader)
    deliver(engine, reader, 1000)
    assert reader.faults == []


def test_messages_that_were_fetched_count_too(engine, queue, peer, reader):
    engine.connections.consumer_timeout_ms = 100
    send(peer, "a", "b")
    reader.get(queue, no_ack=True)
    assert engine.next_due_ms == 0
    reader.get(queue, no_ack=False)
    assert engine.next_due_ms == engine.clock.now_ms + 100
    deliver(engine, reader, 100)
    assert reader.faults == [(1, 406)]
    assert queue.ready_count == 1


def test_a_queue_says_it_for_its_consumers_and_a_consumer_for_itself(engine, queue, peer):
    engine.connections.consumer_timeout_ms = 1000
    queue.set_consumer_timeout(500, False)
    peers = [Peer(engine, {"q": queue}) for _ in range(3)]
    for other, timeout_ms in zip(peers, (None, 200, 0), strict=True):
        other.channel.consume(queue, "c", False, 0, 1, timeout_ms)
    send(peer, "a", "b", "c")
    engine.run()
    seen = []
    for _ in range(8):
        engine.clock.now_ms += 100
        engine.run()
        seen.append([bool(other.faults) for other in peers].count(True))
    # The second gives its message back at 200 ms, the first at 500; the last keeps its own.
    assert seen == [0, 1, 1, 1, 2, 2, 2, 2]
    assert peers[2].faults == []


def test_a_shorter_timeout_counts_at_once(engine, queue, peer, reader):
    """A policy may change while deliveries are out, also those of basic.get."""
    engine.connections.consumer_timeout_ms = 0
    reader.channel.consume(queue, "c", False, 0, 1)
    getter = Peer(engine, {"q": queue})
    send(peer, "a", "b")
    assert len(deliver(engine, reader)) == 1
    getter.get(queue, no_ack=False)
    engine.clock.now_ms += 300
    queue.set_consumer_timeout(1000, False)
    assert engine.busy
    engine.run()
    assert engine.next_due_ms == engine.clock.now_ms + 700
    queue.set_consumer_timeout(200, False)
    engine.run()
    assert (reader.faults, getter.faults) == ([(1, 406)], [(1, 406)])


def test_a_shorter_timeout_counts_behind_an_older_delivery_that_has_more_time(
    engine, queue, peer, reader
):
    reader.channel.consume(queue, "slow", False, 0, 1, 10_000)
    send(peer, "a")
    assert len(deliver(engine, reader)) == 1
    queue.set_consumer_timeout(None, False)  # all channels are looked at
    deliver(engine, reader)
    reader.channel.consume(queue, "fast", False, 0, 1, 100)
    send(peer, "b")
    assert len(deliver(engine, reader)) == 1
    deliver(engine, reader, 99)
    assert reader.faults == []
    deliver(engine, reader, 1)
    assert reader.faults == [(1, 406)]


def test_a_cancelled_consumer_still_has_its_time(engine, queue, peer, reader):
    consumer = reader.channel.consume(queue, "c", False, 0, 0, 200)
    send(peer, "x")
    deliver(engine, reader)
    reader.channel.cancel(consumer)
    deliver(engine, reader, 200)
    assert reader.faults == [(1, 406)]


def test_what_is_read_from_a_stream_has_all_the_time():
    world = World()
    engine = world.engine
    engine.connections.consumer_timeout_ms = 100
    world.send(b"x")
    world.sync()
    reader = Peer(engine)
    reader.channel.consume_stream(world.stream, "c", 10, 0)
    assert reader.bodies() == [b"x"]
    engine.clock.now_ms += 1000
    engine.run()
    assert reader.faults == []


def test_a_channel_that_is_gone_is_not_looked_at(engine, queue, peer, reader):
    engine.connections.consumer_timeout_ms = 100
    reader.channel.consume(queue, "c", False, 0, 0)
    send(peer, "x")
    deliver(engine, reader)
    reader.connection.lost()
    engine.clock.now_ms += 100
    engine.run()
    assert (engine.queues.timed_out, engine.next_due_ms) == (0, 0)


def test_channels_that_come_and_go_leave_nothing_behind(engine, queue, peer):
    engine.connections.consumer_timeout_ms = 10**9

    def once() -> None:
        for number in range(10, 60):
            peer.connection.open_channel(number).consume(queue, "c", False, 0, 0)
        for number in range(10, 60):
            peer.connection.close_channel(number)
        engine.run()

    for _ in range(30):
        once()
    before = allocated_bytes()
    for _ in range(300):
        once()
    assert allocated_bytes() - before < 200_000


def test_in_a_transaction_too(engine, queue, peer, reader):
    """What a transaction settled is settled as long as it may commit."""
    engine.connections.consumer_timeout_ms = 100
    reader.channel.select_tx()
    reader.channel.consume(queue, "c", False, 0, 0)
    send(peer, "a", "b")
    deliver(engine, reader)
    reader.feed(ack(1, 1))
    engine.clock.now_ms += 50
    reader.channel.rollback()
    deliver(engine, reader, 49)
    assert reader.faults == []
    deliver(engine, reader, 1)
    assert reader.faults == [(1, 406)]
    assert queue.ready_count == 2


# ------------------------------------------------------------------ the message alone goes back


@pytest.fixture
def requeueing(queue, reader):
    """A consumer of q whose overdue messages go back alone after 100 ms."""
    queue.set_consumer_timeout(100, True)
    return reader.channel.consume(queue, "c", False, 0, 1)


def test_an_overdue_message_goes_back_alone(engine, queue, peer, reader, requeueing):
    send(peer, "a")
    assert deliver(engine, reader) == [(1, b"a")]
    deliver(engine, reader, 99)
    assert queue.unacked_count == 1
    assert deliver(engine, reader, 1) == [(2, b"a")]
    assert (reader.faults, engine.queues.timed_out) == ([], 1)
    assert requeueing.unacked_count == 1
    reader.feed(ack(1, 2))
    assert (queue.ready_count, queue.unacked_count) == (0, 0)


@pytest.mark.parametrize("settle", [ack, nack, reject])
def test_settling_it_late_is_no_fault_but_only_once(
    engine, queue, peer, reader, requeueing, settle
):
    send(peer, "a")
    deliver(engine, reader)
    deliver(engine, reader, 100)
    reader.feed(settle(1, 1))
    assert reader.faults == []
    assert (queue.ready_count, queue.unacked_count) == (0, 1)
    reader.feed(settle(1, 1))
    assert reader.faults == [(1, 406)]


def test_it_counts_as_a_return(engine, queue, peer, reader, requeueing, dead_letters):
    queue.set_delivery_limit(1, True)
    send(peer, "a")
    deliver(engine, reader)
    assert deliver(engine, reader, 100) == [(2, b"a")]
    assert deliver(engine, reader, 100) == []
    assert [(each[0], each[-1]) for each in dead_letters.found] == [("delivery_limit", b"a")]


def test_others_on_the_channel_are_not_touched(engine, queue, peer, reader):
    queue.set_consumer_timeout(100, True)
    reader.channel.consume(queue, "slow", False, 0, 1, 1000)
    reader.channel.consume(queue, "fast", False, 0, 1)
    send(peer, "a", "b")
    assert deliver(engine, reader) == [(1, b"a"), (2, b"b")]
    assert deliver(engine, reader, 100) == [(3, b"b")]
    reader.feed(ack(1, 3) + ack(1, 1))
    assert reader.faults == []
    assert queue.unacked_count == 0


def test_a_consumer_says_itself_what_becomes_of_it(engine, queue, peer):
    queue.set_consumer_timeout(100, True)
    strict, lax = Peer(engine, {"q": queue}), Peer(engine, {"q": queue})
    strict.channel.consume(queue, "c", False, 0, 1, None, False)
    lax.channel.consume(queue, "c", False, 0, 1, None, None)
    send(peer, "a", "b")
    engine.run()
    engine.clock.now_ms += 100
    engine.run()
    assert (strict.faults, lax.faults) == ([(1, 406)], [])


@pytest.mark.parametrize("tag", [1, 2, 3])
def test_several_at_once_up_to_one_that_went_back(engine, queue, peer, reader, tag):
    queue.set_consumer_timeout(0, True)
    channel = reader.channel
    channel.consume(queue, "patient", False, 1, 1)
    channel.consume(queue, "hasty", False, 0, 1, 100)
    send(peer, "a", "b")
    assert deliver(engine, reader) == [(1, b"a"), (2, b"b")]
    assert deliver(engine, reader, 100) == [(3, b"b")]
    reader.feed(ack(1, tag, multiple=True))
    assert reader.faults == []
    assert channel.unacked_count == (0 if tag == 3 else 1)


def test_of_very_many_the_oldest_may_always_be_settled_late(engine, queue, peer, reader):
    queue.set_consumer_timeout(100, True)
    reader.channel.consume(queue, "c", False, 0, 100)
    peer.feed(publish(2, "q") * 100)
    for _ in range(60):
        deliver(engine, reader, 100)
    assert engine.queues.timed_out >= 5000
    reader.feed(ack(1, 1) + ack(1, 1) + ack(1, 900) + ack(1, 5000))
    assert reader.faults == []
    reader.feed(ack(1, 5000))
    assert reader.faults == [(1, 406)]


def test_in_a_transaction_it_goes_back_all_the_same(engine, queue, peer, reader):
    queue.set_consumer_timeout(100, True)
    reader.channel.select_tx()
    reader.channel.consume(queue, "c", False, 0, 1)
    send(peer, "a")
    deliver(engine, reader)
    assert deliver(engine, reader, 100) == [(2, b"a")]
    reader.feed(ack(1, 1) + ack(1, 2))
    reader.channel.commit()
    assert (reader.faults, queue.ready_count, queue.unacked_count) == ([], 0, 0)


def test_a_few_overdue_among_very_many_that_are_not(engine, queue, peer, reader):
    """What has all the time must not be gone through again at every millisecond."""
    queue.set_consumer_timeout(0, True)
    reader.channel.consume(queue, "patient", False, 1, 20_000)
    reader.channel.consume(queue, "hasty", False, 0, 1, 100)
    for _ in range(200):
        peer.feed(publish(2, "q") * 101)
        deliver(engine, reader)
    assert reader.channel.unacked_count == 20_001
    deliver(engine, reader, 100)
    assert engine.queues.timed_out == 1
    assert reader.channel.unacked_count == 20_001
    assert engine.next_due_ms == engine.clock.now_ms + 100


def test_a_very_short_timeout_does_not_keep_the_broker_busy(engine, queue, reader):
    reader.channel.consume(queue, "c", False, 0, 0, 1)
    engine.clock.now_ms += 1
    engine.run()
    assert engine.next_due_ms == engine.clock.now_ms + 20


def test_very_many_consumers_of_a_channel_are_looked_at_in_slices(engine, queue, peer, reader):
    """The time of each may be another one. What is fetched meanwhile is overdue in time, too."""
    for number in range(2000):
        reader.channel.consume(queue, str(number), False, 0, 1, timeout_ms=1000 + number)
    send(peer, "a")
    assert len(deliver(engine, reader)) == 1
    cut_often(engine, units=1)
    engine.clock.now_ms += 999
    reader.feed(ack(1, 1))
    engine.clock.now_ms += 1
    looked = sum(1 for _ in turns(engine))
    assert looked > 2000 / SOME
    engine.clock.monotonic_ns = None
    send(peer, "b")
    assert len(deliver(engine, reader)) == 1
    deliver(engine, reader, 1000)
    deliver(engine, reader, 2000)
    assert reader.faults == [(1, 406)]


@pytest.mark.parametrize("no_ack", [True, False])
def test_who_consumes_while_very_many_others_are_looked_at_has_its_time(
    engine, queue, peer, reader, no_ack
):
    other = peer.queues["other"] = engine.queue(77, "other", False)
    for number in range(500):
        reader.channel.consume(queue, str(number), no_ack, 0, 1, timeout_ms=10**6)
    short = reader.channel.consume(other, "short", False, 0, 1, timeout_ms=1000)
    deliver(engine, reader)
    reader.channel.cancel(short)
    cut_often(engine, units=1)
    engine.clock.now_ms += 1000
    for _ in range(5):
        engine.run()
    assert engine.busy
    reader.channel.consume(other, "new", False, 0, 1, timeout_ms=1000)
    engine.clock.monotonic_ns = None
    engine.run()
    peer.feed(publish(2, "other", b"x"))
    assert len(deliver(engine, reader)) == 1
    for _ in range(3):
        deliver(engine, reader, 1000)
    assert reader.faults == [(1, 406)]


def test_timers_of_channels_that_are_gone_are_forgotten_in_slices(engine, queue):
    engine.connections.consumer_timeout_ms = 1000
    channels = range(1, 3001)
    peer = Peer(engine, {"q": queue}, channels=channels)
    for number in channels:
        peer.channels[number].consume(queue, "c", False, 0, 0)
        peer.feed(publish(number, "q", b""))
    peer.deliveries()
    timers = engine.connections.timeouts.timers
    assert timers.count == 3000
    for number in channels:
        peer.connection.close_channel(number)
    cut_often(engine)
    assert max(steps_of(engine, lambda: 3000 - timers.count)) < SOME
    assert timers.count == 0


def test_another_timeout_holds_for_very_many_channels_before_long(engine, queue):
    engine.connections.consumer_timeout_ms = 10**9
    channels = range(1, 2001)
    peer = Peer(engine, {"q": queue}, channels=channels)
    for number in channels:
        peer.channels[number].consume(queue, "c", False, 0, 0)
        peer.feed(publish(number, "q", b""))
    peer.deliveries()
    engine.clock.now_ms += 2000
    cut_often(engine)

    def checks() -> int:
        return sum(type(one).__name__ == "Check" for one in gc.get_objects())

    before = checks()
    engine.connections.set_consumer_timeout(1000)
    engine.connections.set_consumer_timeout(1001)
    engine.run()
    assert checks() - before <= SOME
    for _ in turns(engine):
        pass
    assert sorted(number for number, _ in peer.faults) == list(channels)
