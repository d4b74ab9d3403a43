"""What the broker itself sends: when it is stored, told of and made a dead letter."""

from __future__ import annotations

import pytest
from tests.engine.frames import PERSISTENT, properties
from tests.engine.staging_world import World

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


@pytest.fixture
def full(engine):
    """A queue that makes dead letters of everything."""
    full = engine.queue(0, "full", False)
    full.set_limits(max_length=0, overflow="reject-publish-dlx")
    return full


@pytest.mark.parametrize("letters_to", [[], ["q"]])
def test_dead_letters_of_full_queues_do_not_tell_whether_a_message_came(
    engine, queue, full, letters_to
):
    queues = {"q": queue}
    full.dead_letters = lambda *_: engine.publish(
        [queues[n] for n in letters_to], "", "", NONE, b""
    )
    other = engine.queue(0, "other", False)
    assert not engine.publish([full], "", "k", NONE, b"1")
    assert engine.publish([full, other], "", "k", NONE, b"2")
    assert (other.ready_count, queue.ready_count) == (1, 2 * len(letters_to))


def test_full_queues_share_what_they_make_dead_letters_of(engine):
    found = []
    queues = [engine.queue(0, f"{number}", False) for number in range(3)]
    for each in queues:
        each.set_limits(max_length=0, overflow="reject-publish-dlx")
        each.dead_letters = lambda reason, exchange, key, raw, body: found.append(body)
    engine.publish(queues, "", "k", NONE, b"x" * 1000)
    assert found == [b"x" * 1000] * 3
    assert len({id(body) for body in found}) == 1
