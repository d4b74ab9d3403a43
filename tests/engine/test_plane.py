"""The plane: turns, generations, counters, messages of the broker's own."""

from __future__ import annotations

import pytest
from tests.engine.frames import PERSISTENT, Delivery, ack, nack, properties, publish
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


def test_messages_of_the_brokers_own(plane, disk, queue, peer):
    durable = plane.queue(1, "d", True)
    raw = properties(delivery_mode=2, message_id="m")
    plane.publish([queue, durable], "exchange", "a.key", raw, b"body")
    plane.publish([], "exchange", "a.key", raw, b"nobody's")
    assert plane.dirty
    peer.channel.consume(queue, "c", True, 0, 0)
    assert peer.events() == [Delivery(1, "exchange", "a.key", raw, b"body", 1, "c", 1, False)]
    assert durable.ready_count == 1
    with pytest.raises(ValueError, match="properties"):
        plane.publish([queue], "", "k", b"\x80", b"")


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


def test_a_turn_that_delivers_what_a_dead_letter_made(plane, queue, peer):
    source = plane.queue(0, "source", False)
    peer.queues["source"] = source
    source.dead_letters = lambda reason, exchange, key, raw, body: plane.publish(
        [queue], exchange, key, raw, body
    )
    peer.channel.consume(queue, "c", True, 0, 0)
    peer.feed(publish(1, "source", b"x", raw=properties(expiration="5")))
    plane.run()
    plane.now_ms += 5
    got = peer.deliveries()
    while plane.busy:
        got += peer.deliveries()
    assert [each.body for each in got] == [b"x"]


def test_dead_letters_take_their_turns(plane, queue, peer):
    """What expired is nobody's at once, but a million dead letters are not one turn's."""
    buried = []
    queue.dead_letters = lambda reason, exchange, key, raw, body: buried.append(body)
    numbers = [b"%d" % number for number in range(1300)]
    for number in numbers:
        peer.feed(publish(1, "q", number, raw=properties(expiration="5")))
    plane.now_ms += 5
    plane.run()
    assert 0 < len(buried) < 700
    assert queue.ready_count == 0
    assert peer.get(queue) is None
    for _ in range(3):
        assert plane.busy == (len(buried) < 1300)
        plane.run()
    assert buried == numbers
    assert queue.unacked_count == 0
    assert not plane.busy


def test_what_waits_to_be_buried_may_go_with_its_queue(plane, queue, peer):
    buried = []
    queue.dead_letters = lambda reason, exchange, key, raw, body: buried.append(body)
    peer.feed(publish(1, "q", raw=properties(expiration="5")) * 1300)
    plane.now_ms += 5
    plane.run()
    queue.retire()
    count = len(buried)
    while plane.busy:
        plane.run()
    assert len(buried) == count


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
