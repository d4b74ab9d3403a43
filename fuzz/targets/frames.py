"""Frames: a connection is fed bytes, and a broker must bear it.

An input is parts, with SEPARATOR between them, which a mutation rarely hits; so a part that grows
moves no other. A part begins with what it is (below) and the channel, whose highest bit says that
no turn follows.

    m  the payload of a method frame           h  that of a content header frame
    b  that of a body frame                    c  a whole content: properties, `|`, body
    f  the type of a frame and its payload     r  bytes as they are
    t  milliseconds that pass: 4 octets        s  the channel is the connection to go on with
    l  the connection is lost                  o  the peer begins to read, or stops
    a  the alarm begins, or ends               n  a connection that has not logged in

Refusals are methods that close a channel or connection; nothing else may come of any input. What
the broker sends must be whole frames; it must be empty when all connections are gone; and somebody
else must be served as before.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final

from fuzz.drawing import Drawing
from fuzz.methods_drawn import a_method, every_method, login
from fuzz.world import Defect, World, defects_raised
from tests.engine.frames import HEADER, events_of, frame, publish

from leporid.amqp.constants import FRAME_BODY, FRAME_HEADER, FRAME_METHOD
from leporid.amqp.methods import (
    BasicAck,
    BasicConsume,
    BasicGet,
    BasicNack,
    BasicPublish,
    BasicQos,
    ChannelClose,
    ChannelOpen,
    ConfirmSelect,
    ExchangeDeclare,
    Method,
    QueueBind,
    QueueDeclare,
    QueueDelete,
    TxCommit,
    TxSelect,
)
from leporid.amqp.properties import Properties, encode_properties
from leporid.amqp.tables import Value
from leporid.broker.connection.session import ConnectionState

SEPARATOR: Final = b"\xfe\xce"
PARTS_MAX: Final = 64
CHANNELS: Final = 4
NO_TURN: Final = 0x80
# What a peer says at most with one part; more is the business of `r`.
PASSED_MS_MAX: Final = 1 << 32


class Peer:
    """One connection to the world, and what it has sent us."""

    def __init__(self, world: World, *, logs_in: bool) -> None:
        self.world = world
        self.connection = world.engine.connection()
        self.connection.session = ConnectionState(
            world.broker, self.connection, peer_is_loopback=True, name="fuzz"
        )
        self.reads = True
        self.waiting = b""
        self.received = b""
        if logs_in:
            self.feed(login())

    def feed(self, data: bytes) -> None:
        """Let it read, as far as it wants to."""
        self.waiting += data
        while self.waiting and self.connection.reading:
            view = self.connection.read_view()
            count = min(len(view), len(self.waiting))
            view[:count] = self.waiting[:count]
            del view
            self.waiting = self.waiting[count:]
            self.connection.received(count)
        if len(self.waiting) > 1 << 20:
            self.waiting = b""  # nobody can see a difference: it does not read

    def flush(self) -> None:
        """Take what it sends, unless the peer does not read."""
        while self.reads and (view := self.connection.output.outgoing()) is not None:
            self.received += bytes(view)
            count = len(view)
            view.release()
            self.connection.sent(count)
        self.feed(b"")

    def check(self) -> None:
        """What was sent is whole frames, in an order that a client can follow."""
        sent = self.received
        if sent.startswith(b"AMQP"):
            sent = sent[8:]
        events_of(sent, 1 << 32)


class Bystander(Peer):
    """A client that minds its own business: it must be served whatever others do."""

    def __init__(self, world: World) -> None:
        super().__init__(world, logs_in=True)
        self.say(ChannelOpen())
        self.say(QueueDeclare(queue="bystander", exclusive=True))
        self.say(BasicConsume(queue="bystander", no_ack=True))
        world.turn(self.flush)

    def say(self, method: Method) -> None:
        """Send a method."""
        self.feed(frame(FRAME_METHOD, 1, method.encode()))

    def must_be_served(self) -> None:
        """Publish a message to itself, and get it."""
        self.received = b""
        self.feed(publish(1, "bystander", b"hello"))
        for _ in range(3):
            self.world.turn(self.flush)
        if b"hello" not in self.received and not self.world.broker.alarms:
            raise Defect(f"another connection is not served: {self.connection!r}")


class Session:
    """One input at work."""

    def __init__(self) -> None:
        self.world = World()
        self.bystander = Bystander(self.world)
        self.peers = [Peer(self.world, logs_in=True)]
        self.current = self.peers[0]

    def flush(self) -> None:
        """Have every peer read."""
        for peer in self.peers:
            peer.flush()
        self.bystander.flush()

    def do(self, part: bytes) -> None:
        """Do what a part says."""
        kind, channel, payload = part[:1], part[1] & ~NO_TURN, part[2:]
        if kind in _FRAME_TYPES:
            self.current.feed(frame(_FRAME_TYPES[kind], channel, payload))
        elif kind == b"c":
            self.current.feed(content(channel, payload))
        elif kind == b"f" and payload:
            self.current.feed(frame(payload[0], channel, payload[1:]))
        elif kind == b"r":
            self.current.feed(payload)
        elif kind == b"t":
            self.world.pass_ms(int.from_bytes(payload[:4], "big") % PASSED_MS_MAX)
            self.world.look_around()
        elif kind == b"s":
            self._switch(channel)
        elif kind == b"l":
            self.current.connection.lost()
        elif kind == b"o":
            self.current.reads = not self.current.reads
        elif kind == b"a":
            self.world.broker.set_alarm("memory", not self.world.broker.alarms)
        elif kind == b"n":
            self.peers.append(Peer(self.world, logs_in=False))
            self.current = self.peers[-1]
            self.current.feed(HEADER if channel else payload)
        if not part[1] & NO_TURN:
            self.world.turn(self.flush)

    def _switch(self, number: int) -> None:
        number %= 3
        while len(self.peers) <= number:
            self.peers.append(Peer(self.world, logs_in=True))
        self.current = self.peers[number]

    def end(self) -> None:
        """Look at what is left, then lose every connection."""
        for _ in range(2):
            self.world.turn(self.flush)
        if self.world.broker.alarms:
            self.world.broker.set_alarm("memory", False)
        for peer in self.peers:
            peer.check()
        self.bystander.must_be_served()
        for peer in [*self.peers, self.bystander]:
            peer.connection.lost()
        self.world.turn()
        if self.world.broker.sessions:
            raise Defect("a connection is gone, and its session is not")


_FRAME_TYPES: Final = {b"m": FRAME_METHOD, b"h": FRAME_HEADER, b"b": FRAME_BODY}


def content(channel: int, payload: bytes) -> bytes:
    """Frames of a content whose size is right: properties, `|`, body."""
    properties, _, body = payload.partition(b"|")
    head = struct.pack(">HHQ", 60, 0, len(body)) + properties
    return frame(FRAME_HEADER, channel, head) + (frame(FRAME_BODY, channel, body) if body else b"")


def one(data: bytes) -> None:
    """Feed an input."""
    with defects_raised():
        session = Session()
        for part in data.split(SEPARATOR)[:PARTS_MAX]:
            if len(part) >= 2:
                session.do(part)
        session.end()


# ------------------------------------------------------------------ seeds and mutations


def said(*methods: Method | tuple[Method, bytes, bytes], channel: int = 1) -> bytes:
    """An input: these methods, some with properties and body."""
    parts = []
    for each in methods:
        method, *rest = each if isinstance(each, tuple) else (each,)
        parts.append(b"m" + bytes((channel,)) + method.encode())
        if rest:
            parts.append(b"c" + bytes((channel,)) + b"|".join(rest))
    return SEPARATOR.join(parts)


_QUEUES: Final[tuple[dict[str, Value], ...]] = (
    {},
    {"x-max-priority": 5, "x-max-length": 1, "x-dead-letter-exchange": "amq.fanout"},
    {"x-message-ttl": 1, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "q"},
    {"x-queue-type": "stream"},
    {"x-queue-type": "quorum", "x-delivery-limit": 1},
    {"x-message-deduplication": True},
    {"x-single-active-consumer": True, "x-expires": 10},
)
_EXCHANGES: Final[tuple[tuple[str, dict[str, Value]], ...]] = (
    ("topic", {}),
    ("headers", {}),
    ("x-delayed-message", {"x-delayed-type": "direct"}),
    ("x-recent-history", {}),
    ("x-message-deduplication", {"x-cache-size": 3}),
    ("x-consistent-hash", {}),
    ("x-super-stream", {"partitions": 2}),
)


def seeds() -> Iterator[bytes]:
    """Every method by itself, and what clients usually say."""
    opened = ChannelOpen()
    persistent = encode_properties(Properties(delivery_mode=2))
    plain = encode_properties(Properties())
    headers: dict[str, Value] = {"x-delay": 5, "CC": ["q", "r"], "n": 7}
    headers["x-deduplication-header"] = "a"
    special = encode_properties(
        Properties(headers=headers, expiration="10", priority=3, reply_to="amq.rabbitmq.reply-to")
    )
    for method in every_method():
        yield said(opened, QueueDeclare(queue="q"), method)
    message = BasicPublish(routing_key="q"), special, b"body"
    for arguments in _QUEUES:
        durable = "x-queue-type" in arguments
        yield said(
            opened,
            QueueDeclare(queue="q", durable=durable, arguments=arguments),
            ConfirmSelect(),
            message,
            (BasicPublish(routing_key="q"), persistent, b""),
            BasicQos(prefetch_count=2),
            BasicConsume(queue="q", arguments={"x-stream-offset": "first"} if durable else {}),
            BasicNack(delivery_tag=1, requeue=True),
            BasicAck(delivery_tag=2, multiple=True),
            BasicGet(queue="q"),
            QueueDelete(queue="q"),
        )
    for kind, arguments in _EXCHANGES:
        yield (
            said(
                opened,
                ExchangeDeclare(exchange="e", type=kind, durable=True, arguments=arguments),
                QueueDeclare(queue="q"),
                QueueBind(queue="q", exchange="e", routing_key="1", arguments={"n": 7}),
                QueueBind(
                    queue="q", exchange="e", routing_key="a.*.#", arguments={"x-filter": "n > 5"}
                ),
                TxSelect(),
                (BasicPublish(exchange="e", routing_key="1"), special, b"a"),
                (BasicPublish(exchange="e", routing_key="a.b"), plain, b"b" * 5000),
                TxCommit(),
            )
            + SEPARATOR
            + SEPARATOR.join((b"t\0\0\0\x01\0", b"s\1", said(opened, BasicGet(queue="q"))))
        )
    yield SEPARATOR.join((said(opened), b"o\1", said(message, message), b"a\1", b"l\1", b"n\1"))
    yield said(opened, ChannelClose(200, "", 0, 0))


def mutate(data: bytes, drawing: Drawing) -> bytes:
    """Change an input by whole parts."""
    parts = data.split(SEPARATOR)
    at = drawing.below(len(parts) + 1)
    match drawing.below(5):
        case 0:
            parts[at:at] = [parts[drawing.below(len(parts))]]
        case 1:
            del parts[at : at + 1]
        case 2 if at < len(parts):
            parts[at], parts[-1] = parts[-1], parts[at]
        case 3:
            extra = bytes((drawing.below(8) + 1,)) * 4
            kind = drawing.one_of((b"t", b"s", b"l", b"o", b"a", b"n"))
            parts[at:at] = [kind + extra]
        case _:
            method = a_method(drawing)
            channel = bytes((1 + drawing.below(CHANNELS - 1) | NO_TURN * drawing.below(2),))
            made = [b"m" + channel + method.encode()]
            if isinstance(method, BasicPublish):
                made.append(b"c" + channel + drawing.properties() + b"|" + drawing.octets(64))
            parts[at:at] = made
    return SEPARATOR.join(parts)
