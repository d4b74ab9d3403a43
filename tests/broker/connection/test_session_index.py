"""Connections by user and by virtual host: each is counted from its beginning to its end, once."""

from __future__ import annotations

import pytest
from tests.broker.peer import Peer, World, user

from leporid.amqp.methods import (
    BasicConsume,
    ChannelClose,
    ChannelOpen,
    ConnectionClose,
    ConnectionOpen,
    ConnectionTuneOk,
    QueueDeclare,
)
from leporid.broker.access.permissions import Permissions


@pytest.fixture
def world() -> World:
    return World(user("ann", ".*", ".*", ".*"))


def counts(world: World) -> tuple[int, int, int, int]:
    """Of ann's connections and channels, of connections to "/", and of all channels."""
    index = world.broker.session_index
    return (
        index.count_of_user("ann"),
        index.channels_of_user("ann"),
        index.count_of_vhost("/"),
        index.channel_count,
    )


def test_counts(world: World):
    ann = world.peer(user="ann", password="ann")
    other = world.peer()
    assert counts(world) == (1, 1, 2, 2)
    ann.call(ChannelOpen(), 2)
    assert counts(world) == (1, 2, 2, 3)
    ann.say(ChannelClose(200, "", 0, 0), 1)
    assert counts(world) == (1, 1, 2, 2)
    ann.refused(QueueDeclare(queue="amq.mine"), 2)  # a channel that we close
    assert counts(world) == (1, 0, 2, 1)
    ann.say(ConnectionClose(200, "", 0, 0), 0)
    assert counts(world) == (0, 0, 1, 1)
    other.session.on_lost()
    assert counts(world) == (0, 0, 0, 0)
    assert not vars(world.broker.session_index)["_of_users"]


def test_who_is_in_the_handshake_is_a_users_and_not_counted(world: World):
    peer = Peer(world.broker)
    peer.session.on_greeting()
    assert world.broker.session_index.of_user("ann") == ()
    peer.start_ok("ann", "ann")
    assert world.broker.session_index.of_user("ann") == (peer.session,)
    assert counts(world) == (0, 0, 0, 0)
    peer.session.on_lost()
    assert world.broker.session_index.of_user("ann") == ()


def test_a_change_in_the_handshake_counts(world: World):
    peer = Peer(world.broker)
    peer.session.on_greeting()
    peer.start_ok("ann", "ann")
    world.broker.users.forbid("ann", "/")
    peer.say(ConnectionTuneOk(channel_max=2047, frame_max=131072, heartbeat=30), 0)
    answer = peer.call(ConnectionOpen(virtual_host="/"), 0)
    assert isinstance(answer, ConnectionClose)
    assert answer.reply_text == "NOT_ALLOWED - access to vhost '/' refused for user 'ann'"


def test_only_connections_of_the_user_are_asked_again(world: World):
    ann, other = world.peer(user="ann", password="ann"), world.peer()
    world.broker.users.permit("ann", "/", Permissions.of())
    assert ann.connection.channels[1].forgotten == 1
    assert other.connection.channels[1].forgotten == 0


def test_many_connections_are_told_in_steps(world: World):
    peers = [world.peer(user="ann", password="ann") for _ in range(5)]
    for peer in peers:
        peer.call(QueueDeclare(queue="q"))
        peer.call(BasicConsume(queue="q", consumer_tag="c"))
    world.cut_everywhere()
    world.broker.users.permit("ann", "/", Permissions.of())
    assert sum(peer.connection.channels[1].forgotten for peer in peers) < 5
    for _ in range(100):
        world.turn()
    assert [peer.connection.channels[1].forgotten for peer in peers] == [1] * 5
    assert list(world.broker.vhosts["/"].queue("q").subscriptions) == []
