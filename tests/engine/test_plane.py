"""The plane: turns, generations, counters, messages of the broker's own."""

from __future__ import annotations

from tests.engine.frames import PERSISTENT, ack, nack, publish
from tests.engine.session_fake import Peer

from leporid.engine.plane import MESSAGE_BYTES_MAX, Plane


def test_a_new_plane():
    plane = Plane(5)
    assert (plane.generation, plane.synced) == (1, 0)
    assert (plane.dirty, plane.awaited, plane.busy) == (False, False, False)
    assert plane.next_due_ms == 0
    assert plane.message_bytes_max == MESSAGE_BYTES_MAX
    assert plane.begin_sync() is None
    assert "generation=1" in repr(plane)
    plane.run()


def test_generations(plane, disk):
    assert plane.note_change() == 1
    assert plane.dirty
    assert disk.begin(plane)
    assert (plane.generation, plane.synced, plane.dirty) == (2, 0, False)
    assert plane.note_change() == 2
    disk.complete(plane)
    assert (plane.generation, plane.synced, plane.dirty) == (2, 1, True)
    assert disk.sync(plane)
    assert not disk.sync(plane)
    assert plane.synced == 2


def test_counters(plane, queue, peer):
    peer.feed(publish(1, "q", b"x") * 6 + publish(1, "gone", b"", mandatory=True))
    peer.channel.consume(queue, "c", False, 0, 3)
    assert len(peer.deliveries()) == 3
    peer.feed(ack(1, 1) + nack(1, 2))
    assert len(peer.deliveries()) == 2
    peer.get(queue, no_ack=True, channel=2)
    assert plane.published == 6
    assert plane.delivered == 5
    assert plane.redelivered == 1
    assert plane.got == 1
    assert plane.acked == 1
    assert plane.requeued == 1
    assert (plane.returned, plane.unroutable) == (1, 1)
    assert plane.expired == 0
    assert plane.received_bytes == peer.connection.received_bytes > 0
    assert plane.sent_bytes > 0


def test_busy_says_that_a_turn_is_worth_it(plane, queue, peer):
    peer.feed(publish(1, "q"))
    assert not plane.busy
    peer.channel.consume(queue, "c", True, 0, 0)
    assert plane.busy
    plane.run()
    assert not plane.busy
    peer.feed(publish(1, "q"))
    assert plane.busy


def test_a_turn_touches_those_who_get_something(plane, queue, peer):
    reader, idle = Peer(plane), Peer(plane)
    plane.take_touched()
    reader.channel.consume(queue, "c", True, 0, 0)
    peer.feed(publish(1, "q"))
    plane.run()
    assert plane.take_touched() == [reader.connection]
    assert idle.connection.pending_bytes == 0


def test_many_queues_are_served_in_one_turn(plane, peer):
    queues = [plane.queue(0, f"{number}", False) for number in range(200)]
    for queue in queues:
        peer.queues[queue.name] = queue
        peer.channel.consume(queue, queue.name, True, 0, 0)
        peer.feed(publish(1, queue.name) * 3)
    assert len(peer.deliveries()) == 600
    assert not plane.busy


def test_ids_of_definitions_are_kept(plane):
    queue = plane.queue(123_456, "d", True)
    assert queue.id == 123_456
    assert queue.durable


def test_a_mark_of_an_orderly_end_is_to_be_synced(plane, disk):
    plane.mark_clean()
    assert plane.dirty
    assert disk.sync(plane)
    assert len(disk.files) == 1


def test_what_lasts_makes_the_generation_dirty(plane, peer):
    peer.queues["d"] = plane.queue(1, "d", True)
    peer.feed(publish(1, "d", b"x"))
    assert not plane.dirty
    peer.feed(publish(1, "d", b"x", raw=PERSISTENT))
    assert plane.dirty
    assert not plane.awaited
