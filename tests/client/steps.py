"""What tests of the client do to what they hold."""

from __future__ import annotations

from leporid.client import Channel, Connection, Delivery, Queue
from leporid.client.link import ChannelLink, Link


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
