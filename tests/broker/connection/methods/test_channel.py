"""channel.open, close and flow, and access.request."""

from __future__ import annotations

import pytest
from tests.broker.peer import World

from leporid.amqp.methods import (
    AccessRequest,
    AccessRequestOk,
    BasicQos,
    ChannelClose,
    ChannelCloseOk,
    ChannelFlow,
    ChannelFlowOk,
    ChannelOpen,
    ChannelOpenOk,
)


@pytest.fixture
def world() -> World:
    return World()


def test_opening_twice_and_not_at_all(world: World):
    assert world.peer().refused(ChannelOpen()) == "CHANNEL_ERROR - second 'channel.open' seen"
    text = world.peer().refused(BasicQos(), 2)
    assert text == "CHANNEL_ERROR - expected 'channel.open'"


def test_closing_a_channel_and_opening_it_again(world: World):
    peer = world.peer()
    assert peer.call(ChannelClose(200, "bye")) == ChannelCloseOk()
    assert peer.connection.channels == {}
    assert peer.call(ChannelOpen()) == ChannelOpenOk()


def test_flow_and_tickets(world: World):
    peer = world.peer()
    assert peer.call(ChannelFlow(active=True)) == ChannelFlowOk(active=True)
    assert peer.call(AccessRequest()) == AccessRequestOk(1)
    assert peer.refused(ChannelFlow(active=False)) == "NOT_IMPLEMENTED - active=false"
