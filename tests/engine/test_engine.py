"""The engine: a new one, and when a turn is worth it."""

from __future__ import annotations

from tests.engine.frames import publish
from tests.engine.session_fake import make_engine

from leporid.engine.connection.connections import MESSAGE_BYTES_MAX


def test_a_new_engine():
    engine = make_engine()
    assert (engine.logs.generation, engine.logs.synced) == (1, 0)
    assert (engine.logs.dirty, engine.logs.awaited, engine.busy) == (False, False, False)
    assert engine.next_due_ms == 0
    assert engine.connections.message_bytes_max == MESSAGE_BYTES_MAX
    assert engine.begin_sync() is None
    assert "generation=1" in repr(engine)
    engine.run()


def test_busy_says_that_a_turn_is_worth_it(engine, queue, peer):
    peer.feed(publish(1, "q"))
    assert not engine.busy
    peer.channel.consume(queue, "c", True, 0, 0)
    assert engine.busy
    engine.run()
    assert not engine.busy
    peer.feed(publish(1, "q"))
    assert engine.busy
