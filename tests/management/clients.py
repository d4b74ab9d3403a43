"""AMQP clients of the world behind the HTTP routes, on the real engine."""

from __future__ import annotations

from typing import Any

from tests.broker.peer import Peer
from tests.engine.frames import HEADER
from tests.management.conftest import World

from leporid.amqp.methods import BasicConsume, ChannelOpen, QueueDeclare
from leporid.broker.connection.session import ConnectionState
from leporid.broker.connection.transport import Endpoints

PORT = 5672


class Client(Peer):
    """A client of the real engine, whose answers are not looked at."""

    def __init__(self, world: World, *, port: int = 0) -> None:
        engine = world.engine.connection()
        self.session = ConnectionState(
            world.broker, engine, peer_is_loopback=True, name="10.0.0.1:4"
        )
        if port:
            self.session.endpoints = Endpoints("10.0.0.1", port, "10.0.0.2", PORT)
        engine.session = self.session
        self.connection_engine = engine

        engine.feed(HEADER)

    def say_bytes(self, payload: bytes, channel: int = 1) -> list[object]:  # type: ignore[override]
        self.session.on_method(channel, payload)
        return []


def connected(world: World, port: int, **properties: Any) -> Client:
    """A client with a channel, whose name is `10.0.0.1:{port} -> 10.0.0.2:5672`."""
    client = Client(world, port=port)
    client.handshake()
    client.session.client_properties = properties
    client.say(ChannelOpen())
    return client


def consuming(world: World, port: int, queue: str, tag: str = "t", **options: Any) -> Client:
    """The same, with a queue that it declares and consumes from."""
    client = connected(world, port)
    client.say(QueueDeclare(queue=queue))
    client.say(BasicConsume(queue=queue, consumer_tag=tag, **options))
    return client
