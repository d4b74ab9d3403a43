"""Large bodies in outputs: what is sent is what a copy would have been, and it costs no copy."""

from __future__ import annotations

import struct
from collections.abc import Callable
from random import Random

import pytest
from tests.engine import frames
from tests.engine.frames import NO_PROPERTIES, PERSISTENT, Delivery, publish
from tests.engine.session_fake import Peer, make_engine
from tests.engine.slices import ended
from tests.engine.stream_world import STREAM, World, offset_of

from leporid.engine.engine import Engine
from leporid.engine.queue.queue import Queue

KIB = 1024
# Longer bodies are not copied.
COPIED_MAX = 128 * KIB
# What is encoded at a time.
OUTBOX_BYTES = 128 * KIB
OUTPUT_HIGH_BYTES = 192 * KIB
OUTPUT_STOP_BYTES = KIB * KIB
STEP = 100_000


def random_body(size: int, seed: int = 1) -> bytes:
    """Bytes of which no part is like another."""
    return Random(seed).randbytes(size)


def large(key: str, body: bytes, *, raw: bytes = NO_PROPERTIES, mandatory: bool = False) -> bytes:
    return publish(1, key, body, raw=raw, mandatory=mandatory, step=STEP)


# ------------------------------------------------------------- every way to be sent


def in_memory(engine: Engine) -> int:
    """Bytes of both logs that are no mapping of a file."""
    return engine.logs.transient.bytes + sum(
        segment.capacity for segment in engine.logs.segments if not segment.mapped
    )


@pytest.mark.parametrize("size", [COPIED_MAX, COPIED_MAX + 1, 5 * OUTBOX_BYTES + 7])
@pytest.mark.parametrize("frame_max", [4096, 131072])
def test_a_body_of_any_size_is_delivered(engine, queue, size, frame_max):
    body = random_body(size)
    reader = Peer(engine, {"q": queue}, frame_max=frame_max)
    reader.channel.consume(queue, "c", True, 0, 0)
    Peer(engine, {"q": queue}).feed(large("q", body))
    (delivery,) = reader.deliveries()
    assert delivery.body == body
    assert delivery.frames == -(-size // (frame_max - 8))


def test_an_output_has_no_copy_of_a_large_body(engine, queue, peer):
    body = random_body(3_000_000)
    readers = [Peer(engine) for _ in range(5)]
    for reader in readers:
        peer.feed(large("q", body))
        assert reader.channel.get(queue, False)
        assert reader.connection.output.pending_bytes > len(body)
    assert engine.connections.output_bytes <= 5 * 256 * KIB
    for reader in readers:
        (event,) = reader.events()
        assert isinstance(event, frames.Got)
        assert event.body == body
    assert engine.connections.output_bytes == 0


@pytest.mark.parametrize("no_ack", [False, True])
@pytest.mark.parametrize("between", [0, 5])
def test_what_is_settled_before_it_is_sent_stays_as_it_was(no_ack, between):
    engine = make_engine(transient_segment_bytes=500_000)
    queue = engine.queue(0, "q", False)
    peer, reader = Peer(engine, {"q": queue}), Peer(engine)
    body = random_body(COPIED_MAX + 1000)
    peer.feed(large("q", body) + large("q", bytes(COPIED_MAX)) * between)
    assert reader.channel.get(queue, no_ack)
    ended(queue.purging())
    if not no_ack:
        reader.feed(frames.ack(1, 1))
    assert queue.unacked_count == 0
    # Its place in the log is free, and is used again.
    for _ in range(20):
        peer.feed(large("q", bytes(COPIED_MAX + 1000)))
        ended(queue.purging())
    (event,) = reader.events()
    assert isinstance(event, frames.Got)
    assert event.body == body


def test_a_settled_message_goes_when_the_last_who_is_sent_it_has_it(engine, queue, peer):
    body = random_body(2_000_000)
    queues = [queue, engine.queue(0, "q2", False)]
    peer.session.caches["both"] = engine.route_cache("both", lambda _key, _raw: queues, True)
    peer.feed(publish(1, "", body, exchange="both", step=STEP))
    readers = [Peer(engine), Peer(engine)]
    for reader, source in zip(readers, queues, strict=True):
        assert reader.channel.get(source, True)
    for reader in readers:
        assert in_memory(engine) <= 2 * 65536
        (event,) = reader.events()
        assert isinstance(event, frames.Got)
        assert event.body == body


def test_a_message_with_a_count_of_its_returns(engine, queue, peer):
    queue.set_delivery_limit(None, True)
    body = random_body(300_000)
    peer.feed(large("q", body))
    peer.channel.consume(queue, "c", False, 0, 1)
    (first,) = peer.deliveries()
    peer.feed(frames.nack(1, first.tag))
    (second,) = peer.deliveries()
    assert second.body == first.body == body
    assert b"x-delivery-count" in second.raw


def test_large_messages_of_a_transaction_that_nobody_takes_come_back(engine, peer):
    bodies = [random_body(200_000, seed) for seed in range(3)]
    peer.channel.select_tx()
    for body in bodies:
        peer.feed(large("nowhere", body, mandatory=True))
    peer.channel.commit()
    assert [event.body for event in peer.events() if isinstance(event, frames.Returned)] == bodies


def test_content_of_the_brokers_own(peer):
    body = random_body(500_000)
    method = struct.pack(">HH", 60, 50) + b"?"
    peer.connection.send_content(1, method, NO_PROPERTIES, body)
    assert peer.take() == (
        frames.frame(frames.METHOD, 1, method)
        + frames.content_header(1, len(body))
        + frames.bodies(1, body, 131072 - 8)
    )


# ------------------------------------------------------------- limits


def test_a_consumer_that_does_not_read_gets_one_large_message(engine, queue, peer):
    reader = Peer(engine)
    reader.channel.consume(queue, "c", True, 0, 0)
    peer.feed(large("q", bytes(300_000)) * 5)
    engine.run()
    assert queue.delivered == 1
    assert len(reader.deliveries()) == 1
    assert queue.delivered == 1
    assert len(reader.deliveries()) == 1
    assert queue.delivered == 2


def test_gets_wait_while_much_is_unread(engine, queue, peer):
    peer.feed(large("q", bytes(600_000)) * 3)
    peer.session.on[60, 70] = lambda _: peer.channel.get(queue, True)
    peer.feed(frames.method(1, frames.BASIC, 70, b"\0\0\1q\1") * 3)
    assert queue.ready_count == 1
    assert not peer.connection.reading
    assert len(peer.events()) == 2
    assert peer.connection.reading
    assert len(peer.events()) == 1


def test_what_a_burst_needed_is_given_back_although_something_is_always_unread(engine, peer):
    for _ in range(1000):
        peer.connection.send(1, bytes(1000))
    assert engine.connections.output_bytes >= 1_000_000
    for _ in range(100):
        peer.connection.send(1, bytes(1000))
        peer.connection.sent(min(50_000, peer.connection.output.pending_bytes - 100))
    assert peer.connection.output.pending_bytes > 0
    assert engine.connections.output_bytes <= 256 * KIB


# ------------------------------------------------------------- logs that change meanwhile


@pytest.fixture
def durable(engine, peer):
    peer.queues["d"] = queue = engine.queue(1, "d", True)
    return queue


def unread(engine: Engine, queue: Queue, body: bytes, *, no_ack: bool) -> Peer:
    """A peer with a message in its output of which it has read the first bytes."""
    reader = Peer(engine)
    assert reader.channel.get(queue, no_ack)
    reader.taken = b""  # type: ignore[attr-defined]
    for size in (10, 100_000):
        view = reader.connection.output.outgoing()
        assert view is not None
        part = bytes(view[:size])
        view.release()
        reader.taken += part  # type: ignore[attr-defined]
        reader.connection.sent(len(part))
    return reader


def rest_of(reader: Peer) -> bytes:
    """The body, of which some was read before."""
    (event,) = frames.events_of(reader.taken + reader.take())  # type: ignore[attr-defined]
    assert isinstance(event, frames.Got)
    return event.body


@pytest.mark.parametrize("no_ack", [False, True])
def test_a_segment_is_read_from_its_file_from_the_middle_of_a_body_on(
    engine, disk, durable, peer, no_ack
):
    body = random_body(400_000)
    peer.feed(large("d", body, raw=PERSISTENT))
    reader = unread(engine, durable, body, no_ack=no_ack)
    assert in_memory(engine) > len(body)
    disk.settle(engine)
    assert in_memory(engine) < len(body)
    assert rest_of(reader) == body


def test_a_file_may_be_deleted_before_its_message_is_sent(engine, disk, durable, peer):
    body = random_body(400_000)
    peer.feed(large("d", body, raw=PERSISTENT))
    disk.settle(engine)
    reader = unread(engine, durable, body, no_ack=True)
    peer.feed(large("d", bytes(10_000), raw=PERSISTENT) * 3)
    disk.settle(engine)
    assert 1 not in disk.files
    assert rest_of(reader) == body


def test_a_message_may_be_moved_to_another_segment_meanwhile(engine, disk, durable, peer):
    """Cleaning copies it there for the queue that still has it."""
    body = random_body(150_000)
    peer.feed(large("d", body, raw=PERSISTENT))
    for _ in range(400):
        peer.feed(publish(1, "d", bytes(3000), raw=PERSISTENT))
    reader = unread(engine, durable, body, no_ack=False)
    rest = Peer(engine)
    for _ in range(399):
        assert rest.channel.get(durable, True)
        rest.take()
    disk.settle(engine)
    assert rest_of(reader) == body
    reader.feed(frames.ack(1, 1))
    disk.settle(engine)
    assert len(disk.files) <= 6


@pytest.mark.parametrize("how", [lambda queue: ended(queue.purging()), Queue.retire])
def test_a_queue_may_be_purged_or_deleted_meanwhile(
    engine, disk, durable, peer, how: Callable[[Queue], object]
):
    body = random_body(400_000)
    peer.feed(large("d", body, raw=PERSISTENT))
    reader = unread(engine, durable, body, no_ack=False)
    how(durable)
    disk.settle(engine)
    assert rest_of(reader) == body


def test_compaction_of_transient_messages(engine, queue, peer):
    """Most of them are settled, so that what is left is copied together."""
    body = random_body(150_000)
    peer.feed(large("q", body))
    reader = unread(engine, queue, body, no_ack=False)
    rest = Peer(engine)
    for _ in range(3000):
        peer.feed(publish(1, "q", bytes(3000)))
    for number in range(3000):
        assert rest.channel.get(queue, number % 50 != 0)
        rest.take()
    for _ in range(30):
        engine.clock.now_ms += 1000
        engine.run()
    assert engine.logs.transient.bytes < 3_000_000
    assert rest_of(reader) == body


def test_a_lost_connection_lets_go_of_what_it_was_sent(engine, queue, peer):
    body = random_body(2_000_000)
    for _ in range(3):
        peer.feed(large("q", body))
        reader = Peer(engine)
        assert reader.channel.get(queue, True)
        reader.connection.lost()
        assert reader.connection.output.pending_bytes == 0
        assert in_memory(engine) <= 2 * 65536
    assert engine.connections.output_bytes == 0


# ------------------------------------------------------------- streams


def unread_stream(world: World) -> Peer:
    """A reader that has a message of a stream in its output, and has read some of it."""
    reader = Peer(world.engine)
    reader.channel.consume_stream(world.stream, "r", 100, 0)
    world.engine.run()
    view = reader.connection.output.outgoing()
    assert view is not None
    reader.taken = bytes(view[:20])  # type: ignore[attr-defined]
    view.release()
    reader.connection.sent(20)
    return reader


def deliveries_of(reader: Peer) -> list[Delivery]:
    events = frames.events_of(reader.taken + reader.take())  # type: ignore[attr-defined]
    return [event for event in events if isinstance(event, Delivery)]


def test_many_readers_of_a_large_message_of_a_stream():
    world, body = World(), random_body(3_000_000)
    world.peer.feed(large("s", body, raw=PERSISTENT))
    world.sync()
    readers = [unread_stream(world) for _ in range(11)]
    assert world.engine.connections.output_bytes <= 11 * 257 * KIB
    # The message is read from its file as soon as it is on disk.
    (segment,) = [each for each in world.stream.log.segments if each is not None]
    assert segment.mapped
    for reader in readers:
        (delivery,) = deliveries_of(reader)
        assert (offset_of(delivery.raw), delivery.body) == (0, body)


def test_retention_may_drop_what_is_being_sent():
    world = World(segment_bytes=400_000, max_bytes=1_000_000)
    bodies = [random_body(300_000, seed) for seed in range(12)]
    for body in bodies[:2]:
        world.peer.feed(large("s", body, raw=PERSISTENT))
    world.sync()
    reader = unread_stream(world)
    for body in bodies[2:]:
        world.peer.feed(large("s", body, raw=PERSISTENT))
        world.sync()
    world.sync()
    # Its reader is at offset 1, and that message is not the one that is being sent.
    assert world.stream.first == 1
    assert len(world.disk.streams[STREAM]) == 11
    assert [each.body for each in deliveries_of(reader)] == bodies[:1]


def test_a_stream_may_be_deleted_while_it_is_sent():
    world, body = World(), random_body(3_000_000)
    world.peer.feed(large("s", body, raw=PERSISTENT))
    world.sync()
    reader = unread_stream(world)
    reader.connection.close_channel(1)
    world.stream.retire()
    del world.stream, world.peer
    world.sync()
    assert world.disk.streams == {}
    (delivery,) = deliveries_of(reader)
    assert delivery.body == body
