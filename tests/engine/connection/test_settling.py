"""Many deliveries that are settled or returned at once: each turn does some, others go on.

A clock that ends a slice with every second reading decides where work is cut.
"""

from __future__ import annotations

import pytest
from tests.engine import frames
from tests.engine.frames import ack, nack, publish
from tests.engine.session_fake import Peer
from tests.engine.slices import SOME, cut_often, steps_of, turns
from tests.engine.stream_world import World

MANY = 2000

SETTLES = {
    "ack": ack(1, 0, multiple=True),
    "nack": nack(1, 0, multiple=True, requeue=False),
    "requeue": nack(1, 0, multiple=True),
}


@pytest.fixture
def other(engine, queue):
    """Another connection."""
    return Peer(engine, {"q": queue})


def deliver(queue, peer, count: int = MANY) -> None:
    """Have so many deliveries unsettled, of messages that say their number."""
    for number in range(count):
        peer.feed(publish(2, "q", b"%d" % number))
    consumer = peer.channel.consume(queue, "c", False, 0, 0)
    while queue.ready_count:
        peer.deliveries()
    peer.channel.cancel(consumer)
    peer.take()


def bodies(numbers: range) -> list[bytes]:
    return [b"%d" % number for number in numbers]


@pytest.mark.parametrize("how", SETTLES)
def test_a_settle_of_many_is_done_in_slices(engine, queue, peer, how, dead_letters):
    deliver(queue, peer)
    cut_often(engine)
    peer.feed(SETTLES[how])
    assert queue.unacked_count > MANY - SOME
    steps = [-step for step in steps_of(engine, lambda: peer.channel.unacked_count)]
    assert len(steps) > MANY // SOME
    assert max(steps) < SOME
    assert (peer.channel.unacked_count, queue.unacked_count) == (0, 0)
    assert peer.drain(queue) == (bodies(range(MANY)) if how == "requeue" else [])
    assert dead_letters.bodies == (bodies(range(MANY)) if how == "nack" else [])


def test_a_few_are_settled_at_once(engine, queue, peer):
    deliver(queue, peer, 100)
    cut_often(engine)
    peer.feed(ack(1, 0, multiple=True))
    assert queue.unacked_count == 0


@pytest.mark.parametrize("how", SETTLES)
def test_others_go_on_and_what_follows_waits(engine, queue, peer, other, how):
    deliver(queue, peer)
    other.queues["r"] = rest = engine.queue(0, "r", False)
    peer.queues["r"] = rest
    cut_often(engine)
    peer.feed(SETTLES[how] + publish(1, "r", b"mine"))
    assert not peer.connection.reading
    other.feed(publish(1, "r", b"other"))
    assert queue.unacked_count > MANY - SOME
    for _ in turns(engine):
        assert rest.ready_count < 2 or not peer.channel.unacked_count
    assert peer.connection.reading
    assert other.drain(rest) == [b"other", b"mine"]


def test_only_deliveries_up_to_the_tag_are_settled(engine, queue, peer):
    deliver(queue, peer)
    peer.feed(ack(1, 700))
    cut_often(engine)
    peer.feed(ack(1, 1500, multiple=True))
    for _ in turns(engine):
        pass
    assert queue.unacked_count == 500
    peer.feed(ack(1, 1500))
    assert peer.faults == [(1, 406)]


def test_what_is_delivered_meanwhile_is_not_settled(engine, queue, peer, other):
    deliver(queue, peer)
    peer.channel.consume(queue, "d", False, 0, 0)
    cut_often(engine)
    peer.feed(ack(1, 0, multiple=True))
    other.feed(publish(1, "q", b"new"))
    found = []
    for _ in turns(engine):
        found += [each.body for each in peer.events(run=False)]
    assert found == [b"new"]
    assert (queue.unacked_count, peer.channel.unacked_count) == (1, 1)


def test_credit_is_free_as_deliveries_are_settled(engine, queue, peer, other):
    for number in range(MANY + 1000):
        peer.feed(publish(2, "q", b"%d" % number))
    peer.channel.consume(queue, "c", False, 0, MANY)
    while queue.unacked_count < MANY:
        peer.deliveries()
    peer.take()
    cut_often(engine)
    peer.feed(ack(1, MANY, multiple=True))
    engine.run()
    found = peer.events(run=False)
    assert 0 < len(found) < 2 * SOME
    for _ in turns(engine):
        found += peer.events(run=False)
    assert [each.body for each in found] == bodies(range(MANY, MANY + 1000))
    assert queue.unacked_count == 1000


@pytest.mark.parametrize("how", [*SETTLES, "recover"])
@pytest.mark.parametrize("ending", ["lost", "closed"])
def test_a_channel_may_end_meanwhile(engine, queue, peer, how, ending, dead_letters):
    """What the client has settled is settled as it said, each once."""
    deliver(queue, peer)
    cut_often(engine)
    if how == "recover":
        engine.jobs.start(peer.channel.recovering())
    else:
        peer.feed(SETTLES[how])
    engine.run()
    assert peer.channel.unacked_count > MANY - 2 * SOME
    if ending == "lost":
        peer.connection.lost()
    else:
        peer.connection.close_channel(1)
    for _ in turns(engine):
        pass
    kept = [] if how in ("ack", "nack") else bodies(range(MANY))
    assert queue.unacked_count == 0
    assert Peer(engine).drain(queue) == kept
    assert dead_letters.bodies == (bodies(range(MANY)) if how == "nack" else [])
    assert engine.queues.acked == (MANY if how == "ack" else 0)
    assert engine.queues.requeued == len(kept)


def test_a_queue_may_be_deleted_meanwhile(engine, queue, peer):
    deliver(queue, peer)
    cut_often(engine)
    peer.feed(nack(1, 0, multiple=True))
    engine.run()
    queue.retire()
    for _ in turns(engine):
        pass
    assert (peer.channel.unacked_count, queue.unacked_count, queue.ready_count) == (0, 0, 0)
    assert peer.connection.reading


def test_recover_is_done_in_slices(engine, queue, peer):
    deliver(queue, peer)
    cut_often(engine)
    engine.jobs.start(peer.channel.recovering())
    assert queue.ready_count < SOME
    assert max(steps_of(engine, lambda: queue.ready_count)) < SOME
    assert peer.drain(queue) == bodies(range(MANY))


def test_recover_looks_for_streams_in_slices_and_returns_nothing_if_there_is_one():
    world = World()
    queue = world.engine.queue(0, "q", False)
    reader = Peer(world.engine, {"q": queue}, channels=(1, 2))
    deliver(queue, reader)
    world.send(b"a")
    world.sync()
    reader.channel.consume_stream(world.stream, "s", 10, 0)
    reader.deliveries()
    cut_often(world.engine)
    errors: list[Exception] = []
    world.engine.jobs.start(reader.channel.recovering(), None, errors.append)
    assert errors == []
    for _ in turns(world.engine):
        pass
    assert len(errors) == 1
    assert reader.channel.unacked_count == MANY + 1


def test_requeues_are_queue_by_queue_and_consumer_by_consumer(engine, peer):
    """As in RabbitMQ: dead letters tell the order in which each queue drops what is over."""
    dropped: list[bytes] = []
    for name in "ba":
        peer.queues[name] = each = engine.queue(0, name, False)
        each.dead_letters = lambda reason, exchange, key, raw, body: dropped.append(body)
        each.set_delivery_limit(0, True)
    for number in range(300):
        for name in "ba":
            peer.feed(publish(2, name, b"%s%d" % (name.encode(), number)))
    tagged = [peer.channel.consume(peer.queues[name], tag, False, 0, 0)
              for name, tag in (("b", "z"), ("b", "y"), ("a", "x"))]  # fmt: skip
    while any(peer.queues[name].ready_count for name in "ba"):
        peer.deliveries()
    for consumer in tagged:
        peer.channel.cancel(consumer)
    cut_often(engine)
    peer.feed(nack(1, 0, multiple=True))
    for _ in turns(engine):
        pass
    assert dropped[:300] == [b"a%d" % number for number in range(300)]
    assert dropped[300:450] == [b"b%d" % number for number in range(1, 300, 2)]
    assert dropped[450:] == [b"b%d" % number for number in range(0, 300, 2)]


def test_an_answer_after_a_settle_in_slices_says_that_it_lasts(engine, disk, peer):
    durable = peer.queues["d"] = engine.queue(1, "d", True)
    for _ in range(MANY):
        peer.feed(publish(2, "d", raw=frames.PERSISTENT))
    consumer = peer.channel.consume(durable, "c", False, 0, 0)
    while durable.ready_count:
        peer.deliveries()
    peer.channel.cancel(consumer)
    disk.sync(engine)
    cut_often(engine)
    asked: list[int] = []
    peer.session.on[frames.CHANNEL, 20] = asked.append
    peer.feed(ack(1, 0, multiple=True) + frames.method(1, frames.CHANNEL, 20, b"\1"))
    for _ in turns(engine):
        assert asked == []
    assert durable.unacked_count == 0
    disk.sync(engine)
    engine.run()
    assert asked == [1]


# ------------------------------------------------------------------ timeouts


def test_what_is_overdue_goes_back_in_slices(engine, queue, peer):
    queue.set_consumer_timeout(1000, True)
    deliver(queue, peer)
    engine.clock.now_ms += 1000
    cut_often(engine)
    steps = steps_of(engine, lambda: queue.ready_count)
    assert len(steps) > MANY // SOME
    assert max(steps) < SOME
    assert engine.queues.timed_out == MANY
    assert peer.drain(queue) == bodies(range(MANY))
    assert engine.next_due_ms == 0


def test_a_new_timeout_is_applied_in_slices(engine, queue, peer):
    """Each delivery is looked at, however many are not overdue."""
    deliver(queue, peer)
    queue.set_consumer_timeout(1000, True)
    cut_often(engine)
    seen = sum(1 for _ in turns(engine))
    assert seen > MANY // SOME
    assert engine.next_due_ms == engine.clock.now_ms + 1000
    engine.clock.now_ms += 1000
    for _ in turns(engine):
        pass
    assert queue.ready_count == MANY


def test_what_is_being_settled_is_not_overdue(engine, queue, peer):
    engine.connections.consumer_timeout_ms = 1000
    deliver(queue, peer)
    cut_often(engine)
    peer.feed(ack(1, 0, multiple=True))
    engine.clock.now_ms += 1000
    for _ in turns(engine):
        pass
    assert peer.faults == []
    assert queue.unacked_count == queue.ready_count == 0


def test_a_consumer_that_starts_during_a_check_has_its_timeout(engine, queue, peer, other):
    deliver(queue, peer)
    queue.set_consumer_timeout(50_000, True)
    cut_often(engine)
    engine.run()
    assert engine.busy
    peer.channel.consume(queue, "d", False, 0, 0, 100)
    for _ in turns(engine):
        pass
    engine.clock.monotonic_ns = None
    other.feed(publish(1, "q", b"new"))
    assert [each.body for each in peer.deliveries()] == [b"new"]
    engine.clock.now_ms += 120
    engine.run()
    assert engine.queues.timed_out == 1


# ------------------------------------------------------------------ closing


@pytest.mark.parametrize("gap", [1, 50])
def test_a_channel_with_many_deliveries_closes_in_slices(engine, queue, peer, gap):
    deliver(queue, peer)
    for tag in range(1, MANY + 1):
        if tag % gap:
            peer.feed(ack(1, tag))
    cut_often(engine)
    peer.connection.close_channel(1)
    assert queue.unacked_count > 0
    assert sum(1 for _ in turns(engine)) > MANY // SOME
    assert len(peer.drain(queue)) == MANY // gap
