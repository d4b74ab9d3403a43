"""Publishing and republishing; tests of delays and verdict queues have more of the latter."""

from __future__ import annotations

import pytest
from tests.engine.frames import PERSISTENT, Delivery, properties
from tests.engine.verdict_world import World

NONE = properties()


@pytest.mark.parametrize("queues", [["q"], ["q", "other"]])
def test_the_end_of_the_entry_is_in_one_transaction_with_what_is_stored(queues):
    world = World(exchange=True)
    world.beyond = queues
    world.send(b"1")
    world.sync()
    world.judge()
    world.engine.run()
    assert world.disk.begin(world.engine)
    assert world.disk.job is not None
    total = sum(len(data) for *_, data in world.disk.job[1])
    disk = world.disk
    for written in range(0, total + 1, 8):
        world.restart(disk.crashed(written))
        counts = {world.waiting(), 1 - world.q.ready_count}
        assert len(counts) == 1, written


def test_a_stream_has_it_before_the_entry_ends():
    world = World()
    stream = world.engine.stream(7, "s")
    verdict_queue = world.engine.verdict_queue(8, "to s", stream)
    world.engine.publish([verdict_queue], "f", "k", PERSISTENT, b"1")
    world.sync()
    assert verdict_queue.batch(1, 1) is not None
    verdict_queue.judged(b"\1")
    assert verdict_queue.ready_count + verdict_queue.unacked_count == 0
    assert stream.next_offset == 1
    world.sync()
    world.sync()
    world.disk.sync(world.engine)


def test_messages_of_the_brokers_own(engine, disk, queue, peer):
    durable = engine.queue(1, "d", True)
    raw = properties(delivery_mode=2, message_id="m")
    engine.publish([queue, durable], "exchange", "a.key", raw, b"body")
    engine.publish([], "exchange", "a.key", raw, b"nobody's")
    assert engine.logs.dirty
    peer.channel.consume(queue, "c", True, 0, 0)
    assert peer.events() == [Delivery(1, "exchange", "a.key", raw, b"body", 1, "c", 1, False)]
    assert durable.ready_count == 1
    with pytest.raises(ValueError, match="properties"):
        engine.publish([queue], "", "k", b"\x80", b"")
