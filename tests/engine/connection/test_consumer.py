"""A consumer: its credit, and a peer that does not read."""

from __future__ import annotations

import sys

from tests.engine.frames import (
    ack,
    publish,
)
from tests.engine.session_fake import Peer

OUTPUT_HIGH_BYTES = 192 * 1024


def fill(peer: Peer, count: int, size: int = 0) -> None:
    for number in range(count):
        peer.feed(publish(2, "q", b"%d" % number + bytes(size)))


def test_a_consumer_has_no_more_than_its_prefetch(queue, peer):
    fill(peer, 10)
    consumer = peer.channel.consume(queue, "c", False, 0, 3)
    assert len(peer.deliveries()) == 3
    peer.feed(ack(1, 2))
    assert [event.body for event in peer.deliveries()] == [b"3"]
    peer.feed(ack(1, 4, multiple=True))
    assert len(peer.deliveries()) == 3
    assert consumer.unacked_count == 3


def test_no_ack_knows_no_credit(queue, peer):
    peer.channel.prefetch_global = 1
    peer.channel.consume(queue, "c", True, 0, 1)
    fill(peer, 10)
    assert len(peer.deliveries()) == 10


def test_who_does_not_read_gets_no_more_than_fits(engine, queue, peer):
    reader = Peer(engine, {"q": queue})
    reader.channel.consume(queue, "c", True, 0, 0)
    fill(peer, 1000, 1000)
    engine.run()
    pending = reader.connection.output.pending_bytes
    assert OUTPUT_HIGH_BYTES < pending < OUTPUT_HIGH_BYTES + 5000
    left = queue.ready_count
    assert left > 700
    engine.run()
    assert queue.ready_count == left
    # A little is not enough to go on: what is sent at once should be worth it.
    reader.connection.sent(1000)
    engine.run()
    assert queue.ready_count == left
    seen = 1000
    while queue.ready_count:
        seen += len(reader.take())
        engine.run()
    assert engine.connections.sent_bytes == seen
    assert engine.queues.delivered == 1000


def test_consumers_that_ended_are_forgotten_although_their_peer_does_not_read(engine, queue, peer):
    """A peer may begin and end consumers without a word of ours, so without reading any."""
    reader = Peer(engine, {"q": queue})
    reader.channel.consume(queue, "reads nothing", True, 0, 0)
    fill(peer, 1000, 1000)
    engine.run()
    consumer = reader.channel.consume(queue, "too late", True, 0, 0)
    engine.run()
    reader.channel.cancel(consumer)
    engine.run()
    assert sys.getrefcount(consumer) == 2
