"""The client's codec: what a broker sends, and a program that settles what it was delivered.

An input is what a broker sends on a connection that has a channel with two consumers and publishes
that wait. Its first byte says how large the pieces are in which it arrives. The refusals
are `RemoteProtocolError` and, of methods and properties, a `Fault`. What the client writes must be
whole frames, and every publish is told at most once what became of it.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any, Final

from fuzz.drawing import Drawing
from fuzz.methods_drawn import a_method

from leporid.amqp.constants import FRAME_END
from leporid.amqp.errors import Fault
from leporid.amqp.frames import frame, method_frame
from leporid.amqp.methods import (
    BasicAck,
    BasicDeliver,
    BasicGetOk,
    BasicNack,
    BasicReturn,
    Method,
    decode,
)
from leporid.amqp.properties import Properties, encode_properties
from leporid.client.codec import ChannelCodec, ConnectionCodec
from leporid.client.delivery import Delivery, Inbox
from leporid.client.encoder import encode_properties as encoded
from leporid.client.errors import RemoteProtocolError
from leporid.client.publishes import Unconfirmed

CHANNEL: Final = 1
PUBLISHES: Final = 20
FRAME_BYTES_MAX: Final = 4096
MESSAGE_BYTES_MAX: Final = 1 << 20


class _World:
    """Who owns the codec: a program that looks at everything."""

    def __init__(self) -> None:
        self.got: list[Delivery] = []

    def call_soon(self, what: object) -> None:
        """The end of the turn comes when the input says so."""

    def create_future(self) -> Any:
        """Nobody waits here."""
        raise AssertionError

    def on_method(self, payload: bytes) -> None:
        """A method that the codec does not know."""
        decode(payload)

    def on_got(self, delivery: Delivery, ready: int) -> None:
        """The answer to basic.get."""
        self.got.append(delivery)

    def on_return(self, *returned: object) -> None:
        """A message that waits for no confirm."""

    def on_repeated(self, delivery: Delivery) -> None:
        """An ack that may have been lost."""

    def on_late_settle(self) -> None:
        """Settling what belongs to a lost connection."""

    def on_unwanted(self, delivery_tag: int, consumer_tag: str) -> None:
        """A consumer that there is not."""


class _Waiter:
    """What the codec needs of a future."""

    def __init__(self) -> None:
        self.told = 0

    def done(self) -> bool:
        return False

    def set_result(self, value: object) -> None:
        self.told += 1

    def set_exception(self, error: Exception) -> None:
        assert str(error)
        self.told += 1


def one(data: bytes) -> None:
    """Feed a client, and settle what comes of it."""
    world: Any = _World()
    connection = ConnectionCodec(world, world, lambda: None, FRAME_BYTES_MAX, MESSAGE_BYTES_MAX)
    channel = ChannelCodec(connection, CHANNEL, world)
    channel.unconfirmed = Unconfirmed(b"id", PUBLISHES, 1 << 30, lambda: None)
    inboxes = [Inbox(tag, tag == "c2", 5, world) for tag in ("c1", "c2")]
    for inbox in inboxes:
        channel.attach(inbox)
    waiters = [_Waiter() for _ in range(PUBLISHES)]
    for waiter in waiters:
        channel.publish("x", "k", encoded(), b"body", True, waiter)  # type: ignore[arg-type]
    try:
        size = max(1, data[0]) if data else 1
        for start in range(1, len(data), size):
            _feed(connection, data[start : start + size])
            _settle([*world.got, *_taken(inboxes)], start)
            world.got.clear()
            _check_frames(connection.output_bytes())
    except (RemoteProtocolError, Fault):
        pass
    assert all(waiter.told <= 1 for waiter in waiters)
    left = channel.unconfirmed.rewind()
    assert left == sum(not waiter.told for waiter in waiters)
    channel.end(RemoteProtocolError("the end"))
    for inbox in inboxes:
        inbox.lose()


def _feed(connection: ConnectionCodec, octets: bytes) -> None:
    buffer = connection.get_buffer()
    buffer[: len(octets)] = octets
    buffer.release()
    connection.buffer_updated(len(octets))


def _taken(inboxes: list[Inbox]) -> Iterator[Delivery]:
    for inbox in inboxes:
        while (delivery := inbox.pop()) is not None:
            yield delivery


def _settle(deliveries: list[Delivery], number: int) -> None:
    """Look at what came, and settle it in one of the ways."""
    for delivery in deliveries:
        assert len(delivery.body) <= MESSAGE_BYTES_MAX
        repr(delivery)
        try:
            _ = (delivery.headers, delivery.timestamp, delivery.tag, delivery.deaths)
        except RemoteProtocolError:
            pass
        if delivery.settled:
            continue
        match (number + delivery.delivery_tag) % 5:
            case 0:
                _ = delivery.nack()
            case 1:
                _ = delivery.ack(multiple=True)
            case 2:
                pass  # held for long
            case _:
                _ = delivery.ack()


def _check_frames(octets: bytes) -> None:
    while octets:
        kind, _, size = struct.unpack_from(">BHI", octets)
        assert kind in (1, 2, 3)
        assert octets[7 + size] == FRAME_END
        octets = octets[8 + size :]


# ------------------------------------------------------------------ seeds


def _content(method: Method, body: bytes, properties: bytes) -> bytes:
    head = struct.pack(">HHQ", 60, 0, len(body)) + properties
    parts = method_frame(CHANNEL, method) + frame(2, CHANNEL, head)
    for start in range(0, len(body), FRAME_BYTES_MAX - 8):
        parts += frame(3, CHANNEL, body[start : start + FRAME_BYTES_MAX - 8])
    return parts


def seeds() -> Iterator[bytes]:
    """Deliveries, confirms and returns, and every method."""
    drawing = Drawing(1)
    for count in range(40):
        parts = bytes((drawing.below(256),))
        for tag in range(1, count + 1):
            properties = drawing.properties() if tag % 3 else encode_properties(Properties())
            consumer = "c2" if tag % 4 == 0 else "c1"
            deliver = BasicDeliver(consumer, tag, tag % 5 == 0, "x", f"key.{tag % 2}")
            parts += _content(deliver, bytes(tag * 150), properties)
        yield parts
    named = encode_properties(Properties(message_id="id-3"))
    returned = _content(BasicReturn(312, "NO_ROUTE", "x", "k"), b"body", named)
    got = _content(BasicGetOk(1, False, "x", "k", 5), b"", named)
    yield b"\xff" + returned + method_frame(CHANNEL, BasicAck(5, True)) + got
    yield b"\x07" + method_frame(CHANNEL, BasicNack(0, True, False)) + frame(8, 0, b"")
    for _ in range(40):
        method = a_method(drawing)
        yield b"\xff" + method_frame(0, method) + method_frame(CHANNEL, method)
