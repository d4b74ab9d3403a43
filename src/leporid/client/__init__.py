"""What runs beside applications: the client of AMQP, the ladder of delays, and clients for tools.

    async with connect("amqp://localhost") as connection, connection.channel() as channel:
        queue = await channel.queue("hello")
        await channel.default_exchange.publish(b"Hello", "hello")
        async for message in queue.consume():
            await message.ack()

The names below are loaded when they are asked for: tools of the command line need none of them.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from leporid.client.api import Browsed
    from leporid.client.channel import Channel
    from leporid.client.connection import Connection, connect
    from leporid.client.consumer import Consumer
    from leporid.client.delivery import Delivery
    from leporid.client.errors import (
        AccessRefused,
        ApiError,
        ClientError,
        ConnectFailed,
        ConnectionForced,
        ConnectionLost,
        ConsumerCancelled,
        LocalProtocolError,
        Nacked,
        NotFound,
        PreconditionFailed,
        PublishError,
        RemoteProtocolError,
        ResourceLocked,
        Returned,
        ServerClosed,
        Timeout,
    )
    from leporid.client.exchange import Exchange
    from leporid.client.message import Message
    from leporid.client.queue import Queue
    from leporid.client.rpc import Rpc, RpcError
    from leporid.client.scheduler import Scheduled, Scheduler
    from leporid.client.settings import Address, Backoff, Settings, Token
    from leporid.client.stream import Stream

_MODULES = {
    "api": ("Browsed",),
    "channel": ("Channel",),
    "connection": ("Connection", "connect"),
    "consumer": ("Consumer",),
    "delivery": ("Delivery",),
    "errors": (
        "AccessRefused",
        "ApiError",
        "ClientError",
        "ConnectFailed",
        "ConnectionForced",
        "ConnectionLost",
        "ConsumerCancelled",
        "LocalProtocolError",
        "Nacked",
        "NotFound",
        "PreconditionFailed",
        "PublishError",
        "RemoteProtocolError",
        "ResourceLocked",
        "Returned",
        "ServerClosed",
        "Timeout",
    ),
    "exchange": ("Exchange",),
    "message": ("Message",),
    "queue": ("Queue",),
    "rpc": ("Rpc", "RpcError"),
    "scheduler": ("Scheduled", "Scheduler"),
    "settings": ("Address", "Backoff", "Settings", "Token"),
    "stream": ("Stream",),
}
_PLACES = {name: module for module, names in _MODULES.items() for name in names}

__all__ = [
    "AccessRefused",
    "Address",
    "ApiError",
    "Backoff",
    "Browsed",
    "Channel",
    "ClientError",
    "ConnectFailed",
    "Connection",
    "ConnectionForced",
    "ConnectionLost",
    "Consumer",
    "ConsumerCancelled",
    "Delivery",
    "Exchange",
    "LocalProtocolError",
    "Message",
    "Nacked",
    "NotFound",
    "PreconditionFailed",
    "PublishError",
    "Queue",
    "RemoteProtocolError",
    "ResourceLocked",
    "Returned",
    "Rpc",
    "RpcError",
    "Scheduled",
    "Scheduler",
    "ServerClosed",
    "Settings",
    "Stream",
    "Timeout",
    "Token",
    "connect",
]


def __getattr__(name: str) -> object:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_PLACES[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
