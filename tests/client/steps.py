"""What tests of the client do to what they hold."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from leporid.amqp.methods import Method
from leporid.client import Channel, Connection, Delivery, Queue
from leporid.client.channel_link import ChannelLink
from leporid.client.link import Link


async def got(queue: Queue, *, no_ack: bool = False) -> Delivery:
    """A message of a queue that has one."""
    delivery = await queue.get(no_ack=no_ack)
    assert delivery is not None
    return delivery


def link_of(connection: Connection) -> Link:
    """The connection that a connection has now."""
    assert connection.live_link is not None
    return connection.live_link


def channel_link_of(channel: Channel) -> ChannelLink:
    """The channel that a channel has now."""
    assert channel._link is not None
    return channel._link


def give_up(connection: Connection) -> None:
    """End a connection to a server that will not answer."""
    from leporid.client import ConnectionLost

    link_of(connection).lose(ConnectionLost("enough"))


def cut(connection: Connection) -> None:
    """Lose the socket, as a network does."""
    transport = link_of(connection)._transport
    assert transport is not None
    transport.abort()


def lose_output(connection: Connection) -> None:
    """Have what is written from now on go nowhere."""
    setattr(link_of(connection)._transport, "write", lambda data: None)  # noqa: B010


def before_calls(
    monkeypatch: pytest.MonkeyPatch,
    channel: Channel,
    kind: type[Method],
    action: Callable[[], Coroutine[Any, Any, object]],
) -> list[asyncio.Task[object]]:
    """Begin something once, before a channel's next call of a method is sent; returns its task."""
    original = ChannelLink.call
    begun: list[asyncio.Task[object]] = []

    async def call(self: ChannelLink, method: Method, *kinds: type[Method], **options: Any) -> Any:
        if self._user is channel and isinstance(method, kind) and not begun:
            begun.append(asyncio.create_task(action()))
            await asyncio.sleep(0)
        return await original(self, method, *kinds, **options)

    monkeypatch.setattr(ChannelLink, "call", call)
    return begun
