"""A control plane in a few lines, and a peer that talks to the engine through it.

`FakeSession` notes what the engine tells it and closes what a fault closes, as the real one does.
`Peer` is one connection: frames in, events out.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from tests.engine import frames

from leporid.amqp.errors import ChannelFault, Fault, FrameError, NotFound, PreconditionFailed
from leporid.engine.engine import Engine

if TYPE_CHECKING:
    from leporid.engine.connection.channel import Channel
    from leporid.engine.connection.connection import Connection
    from leporid.engine.queue.queue import Queue
    from leporid.engine.routing.route_cache import RouteCache

Resolve = Callable[[str, bytes | None], Sequence["Queue"]]
CHANNEL_CLOSE_OK = struct.pack(">HH", frames.CHANNEL, 41)


class FakeSession:
    """Notes calls, and answers from dictionaries.

    Attributes:
        methods: (channel, payload) of every method that was handed over.
        faults: (channel, fault).
        contents: (channel, kind) of content frames on channels that are not open.
        caches: exchanges by name.
        asked: exchanges that were asked for, in order.
        checks: what is asked about routing keys, by exchange.
        on: what to do with methods, by class and method id.
    """

    def __init__(self, connection: Connection, caches: dict[str, RouteCache]) -> None:
        self.connection = connection
        self.caches = caches
        self.methods: list[tuple[int, bytes]] = []
        self.faults: list[tuple[int, Fault]] = []
        self.contents: list[tuple[int, int]] = []
        self.asked: list[str] = []
        self.copied: list[tuple[str, list[str], bytes]] = []
        self.greetings = 0
        self.strangers: list[bytes] = []
        self.losses = self.blocks = 0
        self.defects: list[Exception] = []
        self.reply_name: str | None = None
        self.checks: dict[str, Callable[[str], None]] = {}
        self.on: dict[tuple[int, int], Callable[[int], None]] = {}

    def on_greeting(self) -> None:
        self.greetings += 1

    def on_stranger(self, header: bytes) -> None:
        self.strangers.append(header)

    def on_method(self, channel: int, payload: bytes) -> None:
        self.methods.append((channel, payload))
        class_id, method_id = struct.unpack_from(">HH", payload)
        if (class_id, method_id) in self.on:
            self.on[class_id, method_id](channel)
        elif (class_id, method_id) == (frames.CHANNEL, 10):
            if channel in self.connection.channels:
                self.on_fault(channel, ChannelFault("second 'channel.open' seen"))
            else:
                self.connection.open_channel(channel)
        elif class_id == frames.CHANNEL and method_id in (40, 41):
            self.connection.close_channel(channel)

    def on_fault(self, channel: int, fault: Fault) -> None:
        self.faults.append((channel, fault))
        if fault.closes_connection:
            self.connection.shut()
            if isinstance(fault, FrameError):
                self.connection.finish()
        else:
            self.connection.refuse_channel(channel)

    def on_defect(self, error: Exception) -> None:
        self.defects.append(error)
        self.connection.finish()

    def on_content(self, channel: int, kind: int) -> None:
        self.contents.append((channel, kind))

    def on_lost(self) -> None:
        self.losses += 1

    def on_blocked(self) -> None:
        self.blocks += 1

    def route_cache(self, exchange: str) -> RouteCache:
        self.asked.append(exchange)
        if exchange not in self.caches:
            raise NotFound(f"no exchange '{exchange}' in vhost '/'")
        return self.caches[exchange]

    def check_of_keys(self, exchange: str) -> Callable[[str], None] | None:
        return self.checks.get(exchange)

    def copies(
        self, cache: RouteCache, exchange: str, keys: list[str], raw: bytes
    ) -> Sequence[Queue]:
        self.copied.append((exchange, keys, raw))
        return list(dict.fromkeys(queue for key in keys for queue in self.routed(key)))

    def routed(self, key: str) -> Sequence[Queue]:
        """What `copies` finds for one key; tests replace it."""
        return ()

    def reply_address(self, channel: int) -> str:
        if self.reply_name is None:
            raise PreconditionFailed("fast reply consumer does not exist")
        return self.reply_name


class Peer:
    """One connection that has said hello, and its fake session.

    Args:
        queues: what the default exchange finds, by name.
    """

    def __init__(
        self,
        engine: Engine,
        queues: dict[str, Queue] | None = None,
        *,
        channels: Sequence[int] = (1,),
        frame_max: int = 131072,
        greet: bool = True,
    ) -> None:
        self.engine = engine
        self.queues = {} if queues is None else queues
        self.connection = engine.connection()
        default = engine.route_cache("", self.resolve, True)
        self.session = FakeSession(self.connection, {"": default})
        self.session.routed = lambda key: self.resolve(key, None)  # type: ignore[method-assign]
        self.connection.session = self.session
        if greet:
            self.connection.feed(frames.HEADER)
            self.connection.output.frame_max = frame_max
        self.channels = {number: self.connection.open_channel(number) for number in channels}

    @property
    def channel(self) -> Channel:
        return self.channels[1]

    @property
    def faults(self) -> list[tuple[int, int]]:
        """(channel, code) of every fault."""
        return [(channel, fault.code) for channel, fault in self.session.faults]

    def resolve(self, key: str, raw: bytes | None) -> Sequence[Queue]:
        return [self.queues[key]] if key in self.queues else []

    def feed(self, *parts: bytes) -> None:
        for part in parts:
            self.connection.feed(part)

    def take(self) -> bytes:
        """What the engine wants to send, as if it was sent."""
        taken = []
        while (view := self.connection.output.outgoing()) is not None:
            taken.append(bytes(view))
            view.release()
            self.connection.sent(len(taken[-1]))
        return b"".join(taken)

    def events(self, run: bool = True) -> list[frames.Event]:
        """A turn, and what the peer then reads."""
        if run:
            self.engine.run()
        return frames.events_of(self.take(), self.connection.output.frame_max)

    def deliveries(self) -> list[frames.Delivery]:
        return [event for event in self.events() if isinstance(event, frames.Delivery)]

    def bodies(self) -> list[bytes]:
        return [delivery.body for delivery in self.deliveries()]

    def get(self, queue: Queue, no_ack: bool = True, channel: int = 1) -> frames.Got | None:
        """basic.get by itself: what was pending before is thrown away."""
        self.take()
        if not self.channels[channel].get(queue, no_ack):
            return None
        (got,) = frames.events_of(self.take(), self.connection.output.frame_max)
        assert isinstance(got, frames.Got)
        return got

    def drain(self, queue: Queue) -> list[bytes]:
        """The bodies of all ready messages, which are then gone."""
        found = []
        while (got := self.get(queue)) is not None:
            found.append(got.body)
        return found


def make_engine(**options: int) -> Engine:
    """An engine whose clock shows some time."""
    engine = Engine(7, **options)
    while engine.busy:
        engine.run()  # memory that earlier engines of this process have left
    engine.clock.now_ms, engine.clock.wall_ms = 1_000, 1_700_000_000_000
    return engine
