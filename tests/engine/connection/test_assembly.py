"""A message whose frames do not arrive together; faults in their order: test_connection_faults."""

from __future__ import annotations

import tracemalloc

import pytest
from tests.engine import frames
from tests.engine.frames import (
    basic_publish,
    bodies,
    content_header,
    frame,
    method,
    publish,
)
from tests.engine.session_fake import CHANNEL_CLOSE_OK, Peer, make_engine


@pytest.mark.parametrize("size", [1, 3, 4087, 4088, 4089, 8176, 20_000, 300_000])
def test_bodies_of_many_frames(size):
    engine = make_engine()
    queue = engine.queue(0, "q", False)
    peer = Peer(engine, {"q": queue}, frame_max=4096)
    body = bytes(range(256)) * (size // 256 + 1)
    peer.feed(publish(1, "q", body[:size], step=4088))
    got = peer.get(queue)
    assert got is not None
    assert got.body == body[:size]
    assert got.frames == -(-size // 4088)


def test_a_half_sent_message_of_a_refused_channel_is_forgotten():
    engine = make_engine()
    queue = engine.queue(0, "q", False)
    peer = Peer(engine, {"q": queue})
    peer.feed(basic_publish(1, "q") + content_header(1, 10) + bodies(1, b"12345"))
    peer.connection.refuse_channel(1)
    peer.feed(bodies(1, b"67890") + frame(frames.METHOD, 1, CHANNEL_CLOSE_OK))
    assert queue.ready_count == 0
    assert peer.faults == []
    assert 1 not in peer.connection.channels


def test_the_content_of_a_servers_method_is_waited_for_and_not_kept(peer):
    """Such a peer never published, so it is not among those that wait when memory is short."""
    peer.feed(method(1, frames.BASIC, 50, b""), content_header(1, 64 * 2**20))
    tracemalloc.start()
    for _ in range(64):
        peer.feed(frame(frames.BODY, 1, bytes(100_000)))
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert held < 100_000
    assert not peer.session.methods
