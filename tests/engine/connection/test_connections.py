"""What all connections share: which of them the server must look at after a turn."""

from __future__ import annotations

from tests.engine.frames import frames_of, publish
from tests.engine.session_fake import Peer


def test_a_turn_touches_those_who_get_something(engine, queue, peer):
    reader, idle = Peer(engine), Peer(engine)
    engine.connections.take_touched()
    reader.channel.consume(queue, "c", True, 0, 0)
    peer.feed(publish(1, "q"))
    engine.run()
    assert engine.connections.take_touched() == [reader.connection]
    assert idle.connection.output.pending_bytes == 0


def test_touched_are_those_with_output_or_an_end(engine, peer):
    engine.connections.take_touched()
    assert engine.connections.take_touched() == []
    peer.connection.send(1, b"1234")
    peer.connection.send(1, b"5678")
    assert engine.connections.take_touched() == [peer.connection]
    assert engine.connections.take_touched() == []
    assert len(frames_of(peer.take())) == 2
    peer.connection.finish()
    assert engine.connections.take_touched() == [peer.connection]
