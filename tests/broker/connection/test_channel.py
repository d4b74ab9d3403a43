"""Consumers end with their channel, wherever the end comes from."""

from __future__ import annotations

import pytest
from tests.broker.peer import Peer, World

from leporid.amqp.errors import NotFound
from leporid.amqp.methods import BasicCancel, BasicConsume, ChannelOpen, QueueDeclare
from leporid.broker.connection.channel import ChannelState


@pytest.fixture
def peer() -> Peer:
    peer = World().peer()
    for name in ("a", "b"):
        peer.call(QueueDeclare(queue=name, auto_delete=name == "b"))
    return peer


def channel_of(peer: Peer) -> ChannelState:
    return peer.session.channels[1]


def test_the_last_declared_queue(peer: Peer):
    channel = channel_of(peer)
    assert channel.queue_name("") == "b"
    assert channel.queue_name("x") == "x"
    peer.call(ChannelOpen(), 2)
    with pytest.raises(NotFound, match="no previously declared queue"):
        peer.session.channels[2].queue_name("")


def test_the_end_of_a_channel_takes_its_consumers_off_their_queues(peer: Peer):
    channel = channel_of(peer)
    for name in ("a", "b"):
        peer.call(BasicConsume(queue=name, consumer_tag=name))
    steps = channel.end()
    next(steps)
    assert channel.engine.muted  # type: ignore[attr-defined]
    for _ in steps:
        pass
    assert channel.engine.consumers == []  # type: ignore[attr-defined]
    assert not channel.subscriptions
    vhost = peer.session.vhost
    assert not vhost.queue("a").subscriptions
    assert vhost.find_queue("b") is None
    assert peer.sent(BasicCancel) == []


def test_losing_a_consumer(peer: Peer):
    peer.call(BasicConsume(queue="a", consumer_tag="t"))
    channel = channel_of(peer)
    queue = peer.session.vhost.queue("a")
    channel.lose(*queue.subscriptions)
    assert (len(queue.subscriptions), len(channel.subscriptions)) == (0, 0)
    assert channel.is_taken("t")
    peer.session.broker.cancels.run(0)
    assert not channel.is_taken("t")
    assert peer.sent(BasicCancel) == [BasicCancel("t", no_wait=True)]


def test_replies_stop_once(peer: Peer):
    channel = channel_of(peer)
    channel.await_replies("t")
    assert channel.replies is not None
    name = channel.replies.queue.name
    assert peer.session.vhost.awaits_replies(name)
    channel.stop_replies()
    channel.stop_replies()
    assert not peer.session.vhost.awaits_replies(name)


def test_repr_tells_the_state(peer: Peer):
    peer.call(BasicConsume(queue="a"))
    assert repr(channel_of(peer)) == "<ChannelState 1 consumers=1>"
