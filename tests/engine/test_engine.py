"""The engine: turns, generations, counters, messages of the broker's own."""

from __future__ import annotations

from tests.engine.frames import PERSISTENT, ack, nack, publish
from tests.engine.session_fake import Peer

from leporid.engine.connection.connections import MESSAGE_BYTES_MAX
from leporid.engine.engine import Engine


def test_a_new_plane():
    engine = Engine(5)
    assert (engine.logs.generation, engine.logs.synced) == (1, 0)
    assert (engine.logs.dirty, engine.logs.awaited, engine.busy) == (False, False, False)
    assert engine.next_due_ms == 0
    assert engine.connections.message_bytes_max == MESSAGE_BYTES_MAX
    assert engine.begin_sync() is None
    assert "generation=1" in repr(engine)
    engine.run()


def test_generations(engine, disk):
    assert engine.logs.note_change() == 1
    assert engine.logs.dirty
    assert disk.begin(engine)
    assert (engine.logs.generation, engine.logs.synced, engine.logs.dirty) == (2, 0, False)
    assert engine.logs.note_change() == 2
    disk.complete(engine)
    assert (engine.logs.generation, engine.logs.synced, engine.logs.dirty) == (2, 1, True)
    assert disk.sync(engine)
    assert not disk.sync(engine)
    assert engine.logs.synced == 2


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


def test_busy_says_that_a_turn_is_worth_it(engine, queue, peer):
    peer.feed(publish(1, "q"))
    assert not engine.busy
    peer.channel.consume(queue, "c", True, 0, 0)
    assert engine.busy
    engine.run()
    assert not engine.busy
    peer.feed(publish(1, "q"))
    assert engine.busy


def test_a_turn_touches_those_who_get_something(engine, queue, peer):
    reader, idle = Peer(engine), Peer(engine)
    engine.connections.take_touched()
    reader.channel.consume(queue, "c", True, 0, 0)
    peer.feed(publish(1, "q"))
    engine.run()
    assert engine.connections.take_touched() == [reader.connection]
    assert idle.connection.output.pending_bytes == 0


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


def test_a_mark_of_an_orderly_end_is_to_be_synced(engine, disk):
    engine.mark_clean()
    assert engine.logs.dirty
    assert disk.sync(engine)
    assert len(disk.files) == 1


def test_what_lasts_makes_the_generation_dirty(engine, peer):
    peer.queues["d"] = engine.queue(1, "d", True)
    peer.feed(publish(1, "d", b"x"))
    assert not engine.logs.dirty
    peer.feed(publish(1, "d", b"x", raw=PERSISTENT))
    assert engine.logs.dirty
    assert not engine.logs.awaited
