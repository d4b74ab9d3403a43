"""How objects name each other in RabbitMQ's JSON: a connection, a channel.

Responsible for these few members alone. Must not know routes. Invariant: a name here is the one
under which the object's own route finds it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from leporid.broker.connection.channel import ChannelState
    from leporid.broker.connection.session import ConnectionState


def connection_details(session: ConnectionState) -> dict[str, Any]:
    """Name a connection."""
    ends = session.endpoints
    return {
        "name": session.full_name,
        "peer_host": None if ends is None else ends.peer_host,
        "peer_port": None if ends is None else ends.peer_port,
    }


def channel_name(channel: ChannelState) -> str:
    """Return what a channel is called."""
    return f"{channel.session.full_name} ({channel.number})"


def channel_details(channel: ChannelState, node: str) -> dict[str, Any]:
    """Name a channel."""
    session = channel.session
    ends = session.endpoints
    return {
        "name": channel_name(channel),
        "number": channel.number,
        "user": session.user.name,
        "connection_name": session.full_name,
        "peer_host": None if ends is None else ends.peer_host,
        "peer_port": None if ends is None else ends.peer_port,
        "node": node,
    }
