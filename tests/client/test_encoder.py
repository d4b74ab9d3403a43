"""What the client writes, read back by `leporid.amqp`."""

import asyncio
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leporid.amqp.constants import FRAME_END
from leporid.amqp.methods import BasicAck, BasicPublish, decode
from leporid.amqp.properties import Properties, decode_properties, encode_properties
from leporid.client.codec import ChannelCodec, ConnectionCodec
from leporid.client.encoder import check_name
from leporid.client.encoder import encode_properties as encode
from leporid.client.errors import LocalProtocolError
from leporid.client.publishes import Batch, Unconfirmed

short = st.text(st.characters(codec="utf-8"), max_size=60)
texts = st.none() | short
properties = st.fixed_dictionaries(
    {
        "content_type": texts,
        "content_encoding": texts,
        "headers": st.none() | st.dictionaries(short, st.integers(-(2**63), 2**63 - 1) | short),
        "delivery_mode": st.none() | st.integers(0, 2),
        "priority": st.none() | st.integers(0, 255),
        "correlation_id": texts,
        "reply_to": texts,
        "expiration": texts,
        "message_id": texts,
        "timestamp": st.none() | st.integers(0, 2**64 - 1),
        "type": texts,
        "user_id": texts,
        "app_id": texts,
    }
)


class Loop:
    """Counts what is to be done at the end of the turn."""

    def __init__(self):
        self.calls = 0

    def call_soon(self, what):
        self.calls += 1


class Unasked:
    """What the codec needs of who owns channel 0."""

    def on_method(self, payload):
        """Heeds nothing."""


def frames_of(data):
    frames = []
    while data:
        kind, channel, size = struct.unpack_from(">BHI", data)
        assert data[7 + size] == FRAME_END
        frames.append((kind, channel, data[7 : 7 + size]))
        data = data[8 + size :]
    return frames


def connection_of(frame_bytes_max=4096) -> ConnectionCodec:
    loop: Any = Loop()
    return ConnectionCodec(Unasked(), loop, lambda: None, frame_bytes_max, 1 << 20)


def channel_of(frame_bytes_max=4096, *, confirms=True, number=3) -> ChannelCodec:
    channel = ChannelCodec(connection_of(frame_bytes_max), number, None)
    if confirms:
        channel.unconfirmed = Unconfirmed(b"id", 1000, 1 << 30, print)
    return channel


@given(properties)
def test_properties_are_those_of_amqp(given_properties):
    encoded = encode(**given_properties)
    assert encoded.raw() == encode_properties(Properties(**given_properties))
    assert repr(encoded) == f"<EncodedProperties of {len(encoded.raw())} bytes>"


@given(short, short, properties, st.binary(max_size=10_000), st.booleans())
def test_a_publish_is_one_of_amqp(exchange, key, given_properties, body, mandatory):
    channel = channel_of()
    channel.publish(exchange, key, encode(**given_properties), body, mandatory, Batch(1, 1 << 30))
    method, header, *parts = frames_of(channel.connection.output_bytes())
    assert [number for _, number, _ in (method, header, *parts)] == [3] * (2 + len(parts))
    assert decode(method[2]) == BasicPublish(exchange, key, mandatory, False)
    class_id, weight, size = struct.unpack_from(">HHQ", header[2])
    assert (header[0], class_id, weight, size) == (2, 60, 0, len(body))
    if given_properties["message_id"] is None:
        given_properties["message_id"] = "id-1"
    assert decode_properties(header[2][12:]) == Properties(**given_properties)
    assert b"".join(part for _, _, part in parts) == body
    assert all(kind == 3 and len(part) <= 4088 for kind, _, part in parts)


def test_message_ids_count():
    channel = channel_of()
    ids = []
    for _ in range(101):
        channel.publish("", "k", encode(), b"", True, Batch(1, 1 << 30))
        _, header = frames_of(channel.connection.output_bytes())
        ids.append(decode_properties(header[2][12:]).message_id)
    assert ids == [f"id-{number}" for number in range(1, 102)]


def test_without_confirms_nothing_is_added():
    channel = channel_of(confirms=False)
    channel.publish("", "k", encode(), b"", True, None)
    _, header = frames_of(channel.connection.output_bytes())
    assert decode_properties(header[2][12:]) == Properties()


def test_methods_and_heartbeats():
    connection = connection_of()
    loop: Any = connection.loop
    connection.write(BasicAck(7, True).encode())
    connection.write_heartbeat()
    connection.write_octets(b"AMQP")
    assert loop.calls == 1
    data = connection.output_bytes()
    assert data.endswith(b"AMQP")
    (kind, number, payload), beat = frames_of(data[:-4])
    assert (kind, number, decode(payload)) == (1, 0, BasicAck(7, True))
    assert beat == (8, 0, b"")
    assert (len(connection.output), connection.sent) == (0, len(data))


@pytest.mark.parametrize("name", [None, 5, b"octets", "x" * 256, "é" * 128, "\ud800"])
def test_what_is_no_short_string(name):
    with pytest.raises(LocalProtocolError, match="queue name"):
        check_name(name, "queue name")


def test_a_kind_of_text_is_text():
    class Kind(str):
        __slots__ = ()

    check_name(Kind("fine"), "queue name")
    channel = channel_of()
    channel.publish("", Kind("key"), encode(type=Kind("t")), b"", False, Batch(1, 1 << 30))
    method, header = frames_of(channel.connection.output_bytes())
    assert decode(method[2]) == BasicPublish("", "key")
    assert decode_properties(header[2][12:]).type == "t"


@pytest.mark.parametrize(
    "wrong",
    [
        {"content_type": 5},
        {"content_type": "x" * 256},
        {"headers": {"x": object()}},
        {"headers": 5},
        {"delivery_mode": 3},
        {"priority": -1},
        {"timestamp": 1 << 64},
        {"timestamp": "now"},
    ],
)
def test_what_has_no_encoding_is_told(wrong):
    with pytest.raises(LocalProtocolError, match=next(iter(wrong))):
        encode(**wrong)


def test_a_large_buffer_is_given_back():
    channel = channel_of(1 << 20)
    channel.publish("", "k", encode(), bytes(5_000_000), False, Batch(1, 1 << 30))
    assert len(channel.connection.output_bytes()) > 5_000_000
    channel.publish("", "k", encode(), b"x", False, Batch(1, 1 << 30))
    assert len(channel.connection.output_bytes()) < 100


async def test_publishes_of_a_batch_are_written_up_to_the_window():
    channel = channel_of()
    batch = Batch(10, 1 << 30)
    bodies = iter([b"%d" % number for number in range(25)])
    assert channel.publish_run(batch, bodies, "", "k", encode(), True, 100) is False
    assert (batch.in_flight, batch.published) == (10, 10)
    assert channel.publish_run(batch, bodies, "", "k", encode(), True, 100) is False
    assert batch.published == 10
    channel.connection.pause(True)
    waiting = batch.until(5, 1 << 30, asyncio.get_running_loop().create_future())
    assert not waiting.done()
