"""Cancels: who is told of the end of a consumer, and after what."""

from __future__ import annotations

import pytest
from tests.broker.peer import Peer, World

from leporid.amqp.methods import (
    BasicCancel,
    BasicCancelOk,
    BasicConsume,
    BasicConsumeOk,
    BasicQos,
    ChannelClose,
    ChannelOpen,
    QueueDeclare,
    QueueDelete,
)
from leporid.amqp.tables import Value
from leporid.broker.connection.cancels import SENT_MAX, WAIT_MS

TOLD = [BasicCancel("t", no_wait=True)]


@pytest.fixture
def world() -> World:
    return World()


def consumers(world: World, *, durable: bool) -> tuple[Peer, Peer]:
    """Two peers with a consumer each of the queue `q`; the first has another on channel 2."""
    peers = world.peer(), world.peer()
    peers[0].call(QueueDeclare(queue="q", durable=durable))
    peers[0].call(ChannelOpen(), 2)
    for peer, channel in ((peers[0], 1), (peers[0], 2), (peers[1], 1)):
        peer.call(BasicConsume(queue="q", consumer_tag="t"), channel)
    return peers


def delete(peer: Peer, queue: str = "q", *, no_wait: bool = False) -> list[str]:
    """Delete a queue; returns what happened at the peer."""
    before = len(peer.connection.events)
    peer.session.on_method(1, QueueDelete(queue=queue, no_wait=no_wait).encode())
    return peer.connection.events[before:]


def test_the_reply_comes_first(world: World):
    deleting, other = consumers(world, durable=False)
    assert delete(deleting) == ["queue.delete-ok"]
    assert other.sent(BasicCancel) == []
    assert world.broker.cancels.next_due_ms == 1
    world.broker.cancels.run(0)
    assert deleting.connection.events[-2:] == ["basic.cancel", "basic.cancel"]
    assert other.sent(BasicCancel) == TOLD
    assert world.broker.cancels.next_due_ms == 0


def test_who_waits_for_the_disk_is_waited_for(world: World):
    deleting, other = consumers(world, durable=True)
    world.engine.logs.generation = 2
    assert delete(deleting) == ["hold 2", "queue.delete-ok"]
    world.broker.cancels.run(world.engine.clock.now_ms)
    assert other.sent(BasicCancel) == deleting.sent(BasicCancel) == []
    assert repr(world.broker.cancels) == "<Cancels added=0 held=1 due=0>"
    world.engine.logs.synced = 2
    world.broker.cancels.run(world.engine.clock.now_ms)
    assert other.sent(BasicCancel) == TOLD
    assert deleting.sent(BasicCancel) == TOLD * 2


def test_a_disk_that_is_full_keeps_the_news_from_nobody(world: World):
    deleting, other = consumers(world, durable=True)
    world.engine.logs.generation = 2
    world.engine.clock.now_ms = 5000
    delete(deleting)
    deleting.session.on_lost()
    assert world.broker.cancels.next_due_ms == 5000 + WAIT_MS
    world.broker.cancels.run(5000 + WAIT_MS - 1)
    assert other.sent(BasicCancel) == []
    world.broker.cancels.run(5000 + WAIT_MS)
    assert other.sent(BasicCancel) == TOLD
    assert deleting.sent(BasicCancel) == []


def test_nobody_waits_where_there_is_no_reply(world: World):
    deleting, other = consumers(world, durable=True)
    world.engine.logs.generation = 2
    assert delete(deleting, no_wait=True) == []
    world.broker.cancels.run(world.engine.clock.now_ms)
    assert other.sent(BasicCancel) == TOLD


def test_the_tag_is_taken_until_the_client_knows(world: World):
    deleting, other = consumers(world, durable=False)
    deleting.call(QueueDeclare(queue="another"))
    delete(deleting)
    reuse = BasicConsume(queue="another", consumer_tag="t")
    assert "attempt to reuse consumer tag 't'" in deleting.refused(reuse)
    assert other.sent(BasicCancel) == TOLD
    assert other.call(reuse) == BasicConsumeOk("t")


def test_who_cancels_before_it_is_told_is_not_told(world: World):
    deleting, other = consumers(world, durable=False)
    delete(deleting)
    assert other.call(BasicCancel("t")) == BasicCancelOk("t")
    assert other.sent(BasicCancel) == []


def test_many_are_told_in_several_rounds(world: World):
    deleting, other = world.peer(), world.peer()
    deleting.call(QueueDeclare(queue="q"))
    count = 2 * SENT_MAX + 1
    for number in range(count):
        other.call(BasicConsume(queue="q", consumer_tag=f"t{number}"))
    delete(deleting)
    told = []
    for _ in range(3):
        assert world.broker.cancels.next_due_ms == 1
        world.broker.cancels.run(0)
        told.append(len(other.sent(BasicCancel)))
    assert told == [SENT_MAX, 2 * SENT_MAX, count]
    assert [each.consumer_tag for each in other.sent(BasicCancel)] == [
        f"t{number}" for number in range(count)
    ]
    assert world.broker.cancels.next_due_ms == 0


def test_a_channel_that_is_closed_meanwhile_is_not_told(world: World):
    deleting, other = consumers(world, durable=False)
    delete(deleting)
    other.session.on_method(1, ChannelClose(200, "").encode())
    other.session.on_method(1, ChannelOpen().encode())
    world.broker.cancels.run(0)
    assert other.sent(BasicCancel) == []


def join(peer: Peer, channel: int, version: int) -> list[str]:
    """Read the stream `s` in a group; returns what happened at the peer."""
    peer.call(BasicQos(prefetch_count=1), channel)
    before = len(peer.connection.events)
    arguments: dict[str, Value] = {"x-group": "g", "x-group-version": version}
    consume = BasicConsume(queue="s", consumer_tag="t", arguments=arguments)
    peer.session.on_method(channel, consume.encode())
    return peer.connection.events[before:]


def test_members_of_a_group_hear_of_its_end_after_who_ended_it(world: World):
    peer, deleting = world.peer(), world.peer()
    peer.call(QueueDeclare(queue="s", durable=True, arguments={"x-queue-type": "stream"}))
    peer.call(ChannelOpen(), 2)
    join(peer, 1, 0)
    assert join(peer, 2, 1) == ["hold 1", "basic.consume-ok"]
    world.broker.cancels.run(0)
    assert peer.connection.sent[-1] == (1, TOLD[0])
    world.engine.logs.generation = 2
    assert delete(deleting, "s") == ["hold 2", "queue.delete-ok"]
    world.broker.handovers.run(0)
    world.broker.cancels.run(0)
    assert peer.sent(BasicCancel) == TOLD
    world.engine.logs.synced = 2
    world.broker.cancels.run(0)
    assert peer.connection.sent[-1] == (2, TOLD[0])
