"""What all queues share: counters, turns, ids."""

from __future__ import annotations

from tests.engine.frames import ack, nack, publish


def test_counters(engine, queue, peer):
    peer.feed(publish(1, "q", b"x") * 6 + publish(1, "gone", b"", mandatory=True))
    peer.channel.consume(queue, "c", False, 0, 3)
    assert len(peer.deliveries()) == 3
    peer.feed(ack(1, 1) + nack(1, 2))
    assert len(peer.deliveries()) == 2
    peer.get(queue, no_ack=True, channel=2)
    assert engine.queues.published == 6
    assert engine.queues.delivered == 5
    assert engine.queues.redelivered == 1
    assert engine.queues.got == 1
    assert engine.queues.acked == 1
    assert engine.queues.requeued == 1
    assert (engine.queues.returned, engine.queues.unroutable) == (1, 1)
    assert engine.queues.expired == 0
    assert engine.connections.received_bytes == peer.connection.received_bytes > 0
    assert engine.connections.sent_bytes > 0


def test_many_queues_are_served_in_one_turn(engine, peer):
    queues = [engine.queue(0, f"{number}", False) for number in range(200)]
    for queue in queues:
        peer.queues[queue.name] = queue
        peer.channel.consume(queue, queue.name, True, 0, 0)
        peer.feed(publish(1, queue.name) * 3)
    assert len(peer.deliveries()) == 600
    assert not engine.busy


def test_ids_of_definitions_are_kept(engine):
    queue = engine.queue(123_456, "d", True)
    assert queue.id == 123_456
    assert queue.durable
