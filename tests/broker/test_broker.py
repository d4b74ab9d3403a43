"""Virtual hosts, names, alarms and counts of a whole broker."""

from __future__ import annotations

import pytest
from tests.broker.at_once import drop_vhost
from tests.broker.peer import World
from tests.broker.recording import drops

from leporid.amqp.methods import ConnectionClose, QueueDeclare
from leporid.broker.broker import BrokerStatistics, run_now
from leporid.broker.stored import StoredQueue, StoredVhost
from leporid.durable import Drop, Put


@pytest.fixture
def world() -> World:
    return World()


def test_a_vhost_is_recorded_once(world: World):
    vhost = world.broker.add_vhost("new")
    assert world.broker.add_vhost("new") is vhost
    assert world.changes == [Put(StoredVhost("new"))]
    assert world.broker.recorded_generation == world.engine.logs.generation


def test_dropping_a_vhost_ends_its_connections_only(world: World):
    here, there = world.peer(), world.peer(vhost="other")
    there.call(QueueDeclare(queue="q", durable=True))
    there.call(QueueDeclare(queue="mine", exclusive=True))
    drop_vhost(world.broker, "other")
    assert there.sent(ConnectionClose) == [
        ConnectionClose(320, "CONNECTION_FORCED - vhost 'other' is deleted", 0, 0)
    ]
    assert here.sent(ConnectionClose) == []
    assert set(world.broker.vhosts) == {"/"}
    # In one piece, and before anything in it: a crash in between leaves nothing of it.
    assert world.changes[-1] == Drop(StoredVhost, ("other",))
    assert drops(world.changes, StoredQueue) == []


def test_names_are_long_and_not_used_twice(world: World):
    names = {world.broker.new_name("p-") for _ in range(3)}
    assert len(names) == 3
    assert all(len(name) == 2 + 22 for name in names)


def test_alarms_have_names(world: World):
    with pytest.raises(ValueError, match="no such alarm: heat"):
        world.broker.set_alarm("heat", True)


def test_work_done_at_once():
    done: list[int] = []
    run_now(lambda: done.append(1), lambda: done.append(2))
    assert done == [1, 2]


def test_statistics(world: World):
    peer = world.peer()
    peer.call(QueueDeclare(queue="q"))
    world.broker.set_alarm("memory", True)
    statistics = world.broker.statistics()
    assert isinstance(statistics, BrokerStatistics)
    assert (statistics.connection_count, statistics.channel_count) == (1, 1)
    assert statistics.alarms == ("memory",)
    assert [vhost.name for vhost in statistics.vhosts] == ["/", "other"]
    assert repr(world.broker) == "<Broker vhosts=2 sessions=1>"


def test_all_addresses_share_the_turns_of_one_user(world: World):
    here, there = (world.broker.party("address", name) for name in ("10.0.0.1", "10.0.0.2"))
    jo, ann = (world.broker.party("user", name) for name in ("jo", "ann"))
    assert len({here, there, jo, ann}) == 4
    assert here.group is there.group is not None
    assert jo.group is ann.group is None
    assert world.broker.party("address", "10.0.0.1") is here
