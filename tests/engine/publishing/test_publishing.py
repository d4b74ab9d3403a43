"""Publishing and republishing; tests of delays and verdict queues have more of the latter."""

from __future__ import annotations

import pytest
from tests.engine.frames import PERSISTENT, Delivery, properties, publish
from tests.engine.verdict_world import World

from leporid.engine.publishing.publishing import SIZE_LIMITS

NONE = properties()


@pytest.mark.parametrize("queues", [["q"], ["q", "other"]])
def test_the_end_of_the_entry_is_in_one_transaction_with_what_is_stored(queues):
    world = World(exchange=True)
    world.beyond = queues
    world.send(b"1")
    world.sync()
    world.judge()
    world.engine.run()
    assert world.disk.begin(world.engine)
    assert world.disk.job is not None
    total = sum(len(data) for *_, data in world.disk.job[1])
    disk = world.disk
    for written in range(0, total + 1, 8):
        world.restart(disk.crashed(written))
        counts = {world.waiting(), 1 - world.q.ready_count}
        assert len(counts) == 1, written


def test_a_stream_has_it_before_the_entry_ends():
    world = World()
    stream = world.engine.stream(7, "s")
    verdict_queue = world.engine.verdict_queue(8, "to s", stream)
    world.engine.publish([verdict_queue], "f", "k", PERSISTENT, b"1")
    world.sync()
    assert verdict_queue.batch(1, 1) is not None
    verdict_queue.judged(b"\1")
    assert verdict_queue.ready_count + verdict_queue.unacked_count == 0
    assert stream.next_offset == 1
    world.sync()
    world.sync()
    world.disk.sync(world.engine)


def test_messages_of_the_brokers_own(engine, disk, queue, peer):
    durable = engine.queue(1, "d", True)
    raw = properties(delivery_mode=2, message_id="m")
    engine.publish([queue, durable], "exchange", "a.key", raw, b"body")
    engine.publish([], "exchange", "a.key", raw, b"nobody's")
    assert engine.logs.dirty
    peer.channel.consume(queue, "c", True, 0, 0)
    assert peer.events() == [Delivery(1, "exchange", "a.key", raw, b"body", 1, "c", 1, False)]
    assert durable.ready_count == 1
    with pytest.raises(ValueError, match="properties"):
        engine.publish([queue], "", "k", b"\x80", b"")


def test_messages_of_clients_are_counted_by_size(engine, queue, peer):
    for size in (0, 100, 101, 1000, 1001, 10_000, 10_001, 100_001):
        peer.feed(publish(1, "q", bytes(size)))
    peer.feed(publish(1, "nowhere", b"x"))
    engine.publish([queue], "", "q", NONE, b"the broker's own")
    assert engine.publishing.received_sizes == (3, 2, 2, 1, 1, 0, 0, 0, 0)
    assert engine.publishing.received == 9
    assert engine.publishing.received_body_bytes == 2202 + 20_001 + 100_001 + 1
    assert len(engine.publishing.received_sizes) == len(SIZE_LIMITS) + 1
    assert peer.channel.published == 9


def test_a_message_is_received_also_when_no_queue_takes_it(engine, queue, peer):
    queue.set_limits(max_length=1, overflow="reject-publish")
    peer.channel.select_confirm()
    peer.feed(publish(1, "q", b"x") * 3)
    peer.feed(publish(2, "q", b"x"))
    engine.run()
    assert (engine.publishing.received, engine.queues.published) == (4, 1)
    assert engine.queues.routed == 4, "also what a full queue refused, as in RabbitMQ"
    assert engine.queues.received_confirm == 3
    assert (engine.queues.confirmed, engine.queues.nacked) == (1, 2)


def test_what_is_routed_counts_once_for_each_queue(engine, queue, peer):
    queues = [queue, engine.queue(0, "other", False)]
    routes = engine.route_cache("x", lambda *_: queues, True)
    peer.session.caches["x"] = routes
    peer.feed(publish(1, "k", b"", exchange="x") * 3)
    assert (engine.queues.published, engine.queues.routed) == (3, 6)
    assert (routes.published, routes.routed) == (3, 6)
    peer.feed(publish(1, "nowhere", b""))
    assert engine.queues.routed == 6
    peer.channel.select_tx()
    peer.feed(publish(1, "k", b"", exchange="x"))
    assert (engine.queues.routed, routes.routed, routes.published) == (8, 8, 4)
    peer.channel.commit()
    assert (engine.queues.routed, routes.published) == (8, 4)
