"""Both logs: sync generations, and what makes one dirty."""

from __future__ import annotations

from tests.engine.frames import PERSISTENT, publish


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
