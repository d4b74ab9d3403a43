"""What `send_on` does for a message in a staging; tests of delays and stagings have the rest."""

from __future__ import annotations

import pytest
from tests.engine.frames import PERSISTENT
from tests.engine.staging_world import World


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
    staging = world.engine.verdict_queue(8, "to s", stream)
    world.engine.publish([staging], "f", "k", PERSISTENT, b"1")
    world.sync()
    assert staging.batch(1, 1) is not None
    staging.judged(b"\1")
    assert staging.ready_count + staging.unacked_count == 0
    assert stream.next_offset == 1
    world.sync()
    world.sync()
    world.disk.sync(world.engine)
