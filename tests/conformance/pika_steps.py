"""Small steps that the pika tests share. All waiting is for an event, with a time-out."""

import struct
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from pika import BasicProperties
from pika.adapters.blocking_connection import BlockingChannel, BlockingConnection
from pika.exceptions import ChannelClosedByBroker, ConnectionClosedByBroker

SECONDS = 15.0

REPLY_TO = "amq.rabbitmq.reply-to"


def pump(
    connection: BlockingConnection, until: Callable[[], bool], seconds: float = SECONDS
) -> None:
    """Let the client work until something is true."""
    deadline = time.monotonic() + seconds
    while not until():
        left = deadline - time.monotonic()
        assert left > 0, "what the test waits for did not happen"
        # Not every event ends this call: heartbeats, for one, do not.
        connection.process_data_events(time_limit=min(left, 0.25))


def settle(channel: BlockingChannel) -> None:
    """Make a round trip: what the broker sent on this channel before has been handled after it."""
    channel.exchange_declare("amq.direct", passive=True)
    channel.connection.process_data_events(time_limit=0)


def drain(channel: BlockingChannel, queue: str) -> list[bytes]:
    """Take all ready messages out of a queue."""
    bodies: list[bytes] = []
    while True:
        method, _, body = channel.basic_get(queue, auto_ack=True)
        if method is None:
            return bodies
        bodies.append(body)


def depth(channel: BlockingChannel, queue: str) -> int:
    """Return the number of ready messages."""
    return int(channel.queue_declare(queue, passive=True).method.message_count)


def publish_all(channel: BlockingChannel, queue: str, bodies: list[bytes]) -> None:
    """Publish to one queue through the default exchange."""
    for body in bodies:
        channel.basic_publish("", queue, body)


class Inbox:
    """Everything that one consumer got, in order."""

    def __init__(self, channel: BlockingChannel, queue: str, **options: Any) -> None:
        self.channel = channel
        self.deliveries: list[Any] = []
        self.properties: list[Any] = []
        self.bodies: list[bytes] = []
        self.tag = channel.basic_consume(queue, self._take, **options)

    def _take(self, _channel: Any, method: Any, properties: Any, body: bytes) -> None:
        self.deliveries.append(method)
        self.properties.append(properties)
        self.bodies.append(body)

    def wait_for(self, count: int) -> list[bytes]:
        """Wait for that many deliveries in all, then return the bodies."""
        pump(self.channel.connection, lambda: len(self.bodies) >= count)
        return self.bodies


@contextmanager
def channel_closed(code: int, text: str) -> Iterator[None]:
    """Expect that the broker closes the channel, and only the channel."""
    with pytest.raises(ChannelClosedByBroker) as caught:
        yield
    assert (caught.value.reply_code, caught.value.reply_text) == (code, text)


@contextmanager
def connection_closed(code: int, text: str) -> Iterator[None]:
    """Expect that the broker closes the connection."""
    with pytest.raises(ConnectionClosedByBroker) as caught:
        yield
    assert (caught.value.reply_code, caught.value.reply_text) == (code, text)


class RawProperties(BasicProperties):
    """Properties that are sent exactly as given: flags and values."""

    def __init__(self, raw: bytes) -> None:
        super().__init__()
        self.raw = raw

    def encode(self) -> list[bytes]:
        """Give pika the octets that it would have made."""
        return [self.raw]


def headers_only(fields: Iterable[tuple[str, bytes, bytes]]) -> bytes:
    """Make properties of nothing but headers, each given as name, type letter and value."""
    entries = b"".join(
        bytes([len(name)]) + name.encode() + letter + value for name, letter, value in fields
    )
    return b"\x20\x00" + struct.pack(">I", len(entries)) + entries
