"""How hidden queues that send by time share a turn, and their timers."""

from __future__ import annotations

import pytest
from tests.engine.delay_world import World, delayed
from tests.engine.frames import PERSISTENT


@pytest.fixture
def world(engine, disk):
    return World(engine, disk)


def test_much_that_waits_leaves_in_several_turns(world):
    world.q.set_limits(max_length=1, overflow="reject-publish")
    for _ in range(2500):
        world.engine.publish([world.q], "", "q", PERSISTENT, b"x")
    world.q.set_limits()
    turns = []
    while world.q.backlog_count:
        world.engine.run()
        turns.append(world.q.ready_count)
    assert turns == [1001, 2001, 2500]


def test_delays_and_backlogs_share_a_turn(world):
    world.q.set_limits(max_length=1, overflow="reject-publish")
    for _ in range(1001):
        world.engine.publish([world.q], "", "q", PERSISTENT, b"x")
    other = world.engine.queue(5, "other", True)
    world.caches["d"].make_delays()
    for _ in range(1000):
        world.engine.publish([world.store()], "d", "nowhere", delayed(5), b"x")
    world.engine.clock.now_ms += 6
    world.q.set_limits()
    world.engine.run()
    assert (world.q.ready_count, world.store().fired, other.ready_count) == (501, 500, 0)


def test_what_is_sent_before_its_alarm_leaves_the_next_one_in_force(world):
    """A wake came first: the alarm rang while the queue stood in line already."""
    world.q.set_limits(max_length=1, overflow="reject-publish")
    for body in (b"a", b"b"):
        world.engine.publish([world.q], "", "q", PERSISTENT, body)
    world.peer.get(world.q)
    world.engine.publish([world.q], "", "q", PERSISTENT, b"c")
    for _ in range(2):
        world.sleep(5000)
        assert world.peer.get(world.q) is not None
