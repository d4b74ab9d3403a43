"""AMQP 0-9-1 frames for the engine's tests, built and read with nothing but `struct`.

It shares no code with what it tests: an error in `leporid.amqp` cannot hide itself here.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import NamedTuple

HEADER = b"AMQP\x00\x00\x09\x01"
METHOD, CONTENT_HEADER, BODY, HEARTBEAT = 1, 2, 3, 8
NO_PROPERTIES = b"\x00\x00"
PERSISTENT = b"\x10\x00\x02"
BASIC, CHANNEL, CONNECTION = 60, 20, 10
HEAD, IDS, CONTENT, DELIVERED = map(struct.Struct, (">BHI", ">HH", ">HHQ", ">QBB"))


# ------------------------------------------------------------------ building


def frame(kind: int, channel: int, payload: bytes, end: bytes = b"\xce") -> bytes:
    return struct.pack(">BHI", kind, channel, len(payload)) + payload + end


def short(text: str | bytes) -> bytes:
    raw = text if isinstance(text, bytes) else text.encode()
    return bytes((len(raw),)) + raw


def method(channel: int, class_id: int, method_id: int, arguments: bytes = b"") -> bytes:
    return frame(METHOD, channel, struct.pack(">HH", class_id, method_id) + arguments)


def table(**fields: bytes) -> bytes:
    """A field table; each value is its type letter and its bytes."""
    content = b"".join(short(name) + value for name, value in fields.items())
    return struct.pack(">I", len(content)) + content


def longstr(text: str | bytes) -> bytes:
    raw = text if isinstance(text, bytes) else text.encode()
    return b"S" + struct.pack(">I", len(raw)) + raw


def array(*values: bytes) -> bytes:
    content = b"".join(values)
    return b"A" + struct.pack(">I", len(content)) + content


def properties(
    *,
    headers: bytes | None = None,
    delivery_mode: int | None = None,
    priority: int | None = None,
    reply_to: str | bytes | None = None,
    expiration: str | bytes | None = None,
    message_id: str | bytes | None = None,
    timestamp: int | None = None,
    user_id: str | bytes | None = None,
) -> bytes:
    """Flags and values in the order of AMQP 0-9-1 4.2.6.1; `headers` is a `table()`."""
    values: list[tuple[int, bytes | None]] = [
        (13, headers),
        (12, None if delivery_mode is None else bytes((delivery_mode,))),
        (11, None if priority is None else bytes((priority,))),
        (9, None if reply_to is None else short(reply_to)),
        (8, None if expiration is None else short(expiration)),
        (7, None if message_id is None else short(message_id)),
        (6, None if timestamp is None else struct.pack(">Q", timestamp)),
        (4, None if user_id is None else short(user_id)),
    ]
    flags = sum(1 << bit for bit, value in values if value is not None)
    return struct.pack(">H", flags) + b"".join(value for _, value in values if value is not None)


def basic_publish(
    channel: int,
    key: str | bytes,
    *,
    exchange: str | bytes = "",
    mandatory: bool = False,
    immediate: bool = False,
) -> bytes:
    """The method frame alone."""
    arguments = b"\x00\x00" + short(exchange) + short(key)
    return method(channel, BASIC, 40, arguments + bytes((mandatory | immediate << 1,)))


def content_header(
    channel: int, size: int, raw: bytes = NO_PROPERTIES, *, class_id: int = BASIC, weight: int = 0
) -> bytes:
    return frame(CONTENT_HEADER, channel, struct.pack(">HHQ", class_id, weight, size) + raw)


def bodies(channel: int, body: bytes, step: int | None = None) -> bytes:
    step = step or len(body) or 1
    return b"".join(frame(BODY, channel, body[at : at + step]) for at in range(0, len(body), step))


def publish(
    channel: int,
    key: str | bytes,
    body: bytes = b"",
    *,
    raw: bytes = NO_PROPERTIES,
    exchange: str | bytes = "",
    mandatory: bool = False,
    immediate: bool = False,
    step: int | None = None,
) -> bytes:
    """A whole message: method, header, and body frames of at most `step` bytes."""
    return (
        basic_publish(channel, key, exchange=exchange, mandatory=mandatory, immediate=immediate)
        + content_header(channel, len(body), raw)
        + bodies(channel, body, step)
    )


def ack(channel: int, tag: int, multiple: bool = False) -> bytes:
    return method(channel, BASIC, 80, struct.pack(">QB", tag, multiple))


def reject(channel: int, tag: int, requeue: bool = True) -> bytes:
    return method(channel, BASIC, 90, struct.pack(">QB", tag, requeue))


def nack(channel: int, tag: int, multiple: bool = False, requeue: bool = True) -> bytes:
    return method(channel, BASIC, 120, struct.pack(">QB", tag, multiple | requeue << 1))


# ------------------------------------------------------------------ reading


class Frame(NamedTuple):
    kind: int
    channel: int
    payload: bytes

    @property
    def ids(self) -> tuple[int, int]:
        class_id, method_id = IDS.unpack_from(self.payload)
        return class_id, method_id


def frames_of(data: bytes) -> list[Frame]:
    """Every frame; the bytes must end with one."""
    found = []
    at, whole = 0, len(data)
    while at < whole:
        kind, channel, size = HEAD.unpack_from(data, at)
        end = at + 7 + size
        assert end < whole, "the last frame is cut off"
        assert data[end] == 0xCE, "a frame without its end"
        found.append(Frame(kind, channel, data[at + 7 : end]))
        at = end + 1
    return found


@dataclass(frozen=True)
class Message:
    """A delivery, a message got, or one returned."""

    channel: int
    exchange: str
    key: str
    raw: bytes
    body: bytes
    frames: int  # of its body


@dataclass(frozen=True)
class Delivery(Message):
    consumer: str
    tag: int
    redelivered: bool


@dataclass(frozen=True)
class Got(Message):
    tag: int
    redelivered: bool
    left: int


@dataclass(frozen=True)
class Returned(Message):
    code: int
    text: str


@dataclass(frozen=True)
class Confirm:
    """basic.ack, or basic.nack, to a publisher."""

    channel: int
    tag: int
    multiple: bool
    refused: bool = False


@dataclass(frozen=True)
class Method:
    """Any other method."""

    channel: int
    class_id: int
    method_id: int
    arguments: bytes


Event = Delivery | Got | Returned | Confirm | Method
CONTENT_METHODS = {(BASIC, 50), (BASIC, 60), (BASIC, 71)}


class Cursor:
    """Reads the arguments of a method."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def take(self, form: str) -> int:
        (value,) = struct.unpack_from(">" + form, self.data, self.at)
        self.at += struct.calcsize(">" + form)
        assert isinstance(value, int)
        return value

    def short(self) -> str:
        size = self.take("B")
        self.at += size
        return self.data[self.at - size : self.at].decode("utf-8", "surrogateescape")

    def end(self) -> None:
        assert self.at == len(self.data), "bytes after the arguments"


def delivery_of(first: Frame, raw: bytes, body: bytes, parts: int) -> Delivery:
    """The delivery of that method; without a cursor, as tests read hundreds of thousands."""
    data = first.payload
    at = 5 + data[4]
    tag, redelivered, size = DELIVERED.unpack_from(data, at)
    key = at + 10 + size
    assert key + 1 + data[key] == len(data), "bytes after the arguments"
    return Delivery(
        first.channel,
        data[at + 10 : key].decode("utf-8", "surrogateescape"),
        data[key + 1 :].decode("utf-8", "surrogateescape"),
        raw,
        body,
        parts,
        data[5:at].decode("utf-8", "surrogateescape"),
        tag,
        bool(redelivered),
    )


def message_of(first: Frame, head: Frame, parts: list[bytes]) -> Delivery | Got | Returned:
    """The message that a method, a header and pieces of a body are."""
    channel, raw = first.channel, head.payload[12:]
    body = parts[0] if len(parts) == 1 else b"".join(parts)
    ids = first.ids
    if ids == (BASIC, 60):
        return delivery_of(first, raw, body, len(parts))
    cursor = Cursor(first.payload[4:])
    if ids == (BASIC, 71):
        tag, redelivered = cursor.take("Q"), cursor.take("B")
        names = cursor.short(), cursor.short()
        left = cursor.take("I")
        cursor.end()
        return Got(channel, *names, raw, body, len(parts), tag, bool(redelivered), left)
    code, text = cursor.take("H"), cursor.short()
    names = cursor.short(), cursor.short()
    cursor.end()
    return Returned(channel, *names, raw, body, len(parts), code, text)


def events_of(data: bytes, frame_max: int = 131072) -> list[Event]:
    """What a peer understands; asserts that every content is whole and every frame in size."""
    events: list[Event] = []
    frames = frames_of(data)
    at = 0
    while at < len(frames):
        first = frames[at]
        at += 1
        assert first.kind == METHOD, f"a frame of kind {first.kind} outside of a content"
        ids = first.ids
        if ids in CONTENT_METHODS:
            head = frames[at]
            at += 1
            assert (head.kind, head.channel) == (CONTENT_HEADER, first.channel)
            class_id, weight, size = CONTENT.unpack_from(head.payload)
            assert (class_id, weight) == (BASIC, 0)
            parts = []
            while size:
                part = frames[at]
                at += 1
                assert (part.kind, part.channel) == (BODY, first.channel)
                assert 0 < len(part.payload) <= frame_max - 8
                parts.append(part.payload)
                size -= len(part.payload)
            events.append(message_of(first, head, parts))
        elif ids in {(BASIC, 80), (BASIC, 120)}:
            tag, multiple = struct.unpack(">QB", first.payload[4:])
            refused = ids == (BASIC, 120)
            events.append(Confirm(first.channel, tag, bool(multiple & 1), refused))
        else:
            events.append(Method(first.channel, *ids, first.payload[4:]))
    return events
