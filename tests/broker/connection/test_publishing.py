"""Who may publish where, copies, and the address for replies."""

from __future__ import annotations

import pytest
from tests.broker.peer import World, user

from leporid.amqp.errors import PreconditionFailed
from leporid.amqp.methods import ChannelClose, ExchangeDeclare, QueueDeclare


@pytest.fixture
def world() -> World:
    return World()


def test_publishing_needs_an_exchange_and_the_right_to_write(world: World):
    peer = world.peer()
    peer.connection.publish(1, "none", "k")
    assert peer.sent(ChannelClose) == [
        ChannelClose(404, "NOT_FOUND - no exchange 'none' in vhost '/'", 60, 40)
    ]


def test_internal_exchanges_take_no_publishes(world: World):
    peer = world.peer()
    peer.call(ExchangeDeclare(exchange="i", internal=True))
    peer.connection.publish(1, "i", "k")
    assert peer.sent(ChannelClose) == [
        ChannelClose(
            403, "ACCESS_REFUSED - cannot publish to internal exchange 'i' in vhost '/'", 60, 40
        )
    ]


def test_the_right_to_write_is_asked_for_before_the_exchange_is_looked_for():
    world = World(user("u", ".*", "^good$", ".*"))
    for exchange in ("none", "amq.topic", ""):
        peer = world.peer(user="u", password="u")
        peer.connection.publish(1, exchange, "k")
        (close,) = peer.sent(ChannelClose)
        assert (close.reply_code, close.class_id, close.method_id) == (403, 60, 40)
    peer = world.peer(user="u", password="u")
    peer.connection.publish(1, "good", "k")
    assert [close.reply_code for close in peer.sent(ChannelClose)] == [404]


def test_copies_reach_each_queue_once(world: World):
    peer = world.peer()
    for name in ("p", "q"):
        peer.call(QueueDeclare(queue=name))
    assert peer.connection.publish(1, "", "p", copies=["q", "p", "none"]) == 2
    assert world.queue("p").ready == world.queue("q").ready == ["m"]


def test_without_a_reply_consumer_there_is_no_address(world: World):
    peer = world.peer()
    with pytest.raises(PreconditionFailed, match="fast reply consumer does not exist") as raised:
        peer.session.reply_address(1)
    assert (raised.value.class_id, raised.value.method_id) == (60, 40)
    with pytest.raises(PreconditionFailed):
        peer.session.reply_address(9)
