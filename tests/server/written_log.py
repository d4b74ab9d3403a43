"""A log in real files, written and read by the engine, with neither network nor sync thread.

One `Run` is one life of a broker on a data directory: it recovers what is there, takes messages as
frames, syncs when it is told to, and ends with `crash` or `stop`.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from leporid.amqp.constants import FRAME_BODY, FRAME_HEADER, FRAME_METHOD
from leporid.amqp.frames import frame, method_frame
from leporid.amqp.methods import BasicAck, BasicPublish, Method
from leporid.engine.engine import Engine
from leporid.server.recovery import Recovered, replay
from leporid.server.stream_recovery import StreamRecovery
from leporid.storage.segments import SegmentFiles
from leporid.storage.streams import StreamLogs

if TYPE_CHECKING:
    from leporid.engine.connection.connection import Connection
    from leporid.engine.routing.route_cache import RouteCache

# Small enough that a few messages fill one, and that a test reads all of it in no time.
SEGMENT_BYTES = 16 * 1024
PERSISTENT = b"\x10\x00\x02"  # delivery_mode 2 and nothing else
# Higher than that of any queue in a test.
NEXT_QUEUE_ID = 100
WALL_MS = 1_700_000_000_000


class Message(NamedTuple):
    tag: int
    redelivered: bool
    body: bytes


class Session:
    """What the engine asks the control plane: the default exchange, and nothing else."""

    def __init__(self, source: RouteCache) -> None:
        self._source = source

    def route_cache(self, exchange: str, /) -> RouteCache:
        assert exchange == ""
        return self._source

    def check_of_keys(self, exchange: str, /) -> None:
        return None

    def on_greeting(self) -> None:
        pass

    def on_stranger(self, header: bytes, /) -> None:
        raise AssertionError(header)

    def on_lost(self) -> None:
        pass

    def on_blocked(self) -> None:
        raise AssertionError("there is no alarm")

    def on_method(self, channel: int, payload: bytes, /) -> None:
        raise AssertionError(payload)

    def on_fault(self, channel: int, fault: Exception, /) -> None:
        raise fault

    def on_defect(self, error: Exception, /) -> None:
        raise error

    def on_content(self, channel: int, kind: int, /) -> None:
        raise AssertionError(kind)

    def copies(
        self, source: RouteCache, exchange: str, keys: list[str], properties: bytes, /
    ) -> Sequence[object]:
        raise AssertionError(keys)

    def reply_address(self, channel: int, /) -> str:
        raise AssertionError(channel)


class Run:
    """One life of a broker.

    Args:
        directory: of the data.
        queues: durable ones, with ids from 1 on; a message goes to those that its key names,
            joined by commas.
        segment_bytes: size of a segment file.
        streams: have the ids that follow, and their messages the same keys.
        unmade: ids of queues that the definitions have, and that could not be made.
    """

    def __init__(
        self,
        directory: Path,
        queues: Sequence[str] = ("q",),
        *,
        segment_bytes: int = SEGMENT_BYTES,
        seed: int = 7,
        files: SegmentFiles | None = None,
        streams: Sequence[str] = (),
        unmade: Sequence[int] = (),
    ) -> None:
        self.files = files or SegmentFiles(directory / "log")
        self.engine = Engine(seed, durable_segment_bytes=segment_bytes)
        self.engine.clock.now_ms = 1_000
        self.engine.clock.wall_ms = WALL_MS
        self.engine.logs.map_segment = self.files.map
        self.queues = {
            name: self.engine.queue(number, name, True) for number, name in enumerate(queues, 1)
        }
        self.logs = StreamLogs(directory / "streams", open_max=2)
        self.engine.streams.map_segment = self.logs.map
        self.streams = {
            name: self.engine.stream(number, name)
            for number, name in enumerate(streams, len(queues) + 1)
        }
        for stream in self.streams.values():
            stream.set_retention(segment_bytes=segment_bytes)
        recovery = StreamRecovery(
            self.logs,
            self.streams.values(),
            defined={*self.engine.streams.by_id, *unmade},
            next_queue_id=NEXT_QUEUE_ID,
        )
        self.found: Recovered = replay(self.engine, self.files, beside=recovery)
        self.sync()
        source = self.engine.route_cache("", self._resolve, True)
        self.connection: Connection = self.engine.connection(Session(source))
        self.connection.output.frame_max = 128 * 1024
        self.connection.feed(b"AMQP\x00\x00\x09\x01")
        self.connection.open_channel(1)
        self.transactions = self.connection.open_channel(2)
        self.transactions.select_tx()

    def _resolve(self, key: str, properties: bytes | None) -> Sequence[object]:
        there: dict[str, object] = {**self.queues, **self.streams}
        return [there[name] for name in key.split(",")]

    def _method(self, channel: int, method: Method) -> None:
        self.connection.feed(method_frame(channel, method))

    # ------------------------------------------------------------- clients

    def publish(
        self, *bodies: bytes, key: str = "q", channel: int = 1, properties: bytes = PERSISTENT
    ) -> None:
        for body in bodies:
            self._method(channel, BasicPublish(exchange="", routing_key=key))
            head = struct.pack(">HHQ", 60, 0, len(body)) + properties
            self.connection.feed(frame(FRAME_HEADER, channel, head))
            for at in range(0, len(body), 4096):
                self.connection.feed(frame(FRAME_BODY, channel, body[at : at + 4096]))

    def commit(self, *bodies: bytes, key: str = "q") -> None:
        """One transaction with these messages."""
        self.publish(*bodies, key=key, channel=2)
        self.transactions.commit()

    def messages(self, queue: str = "q") -> list[Message]:
        """Take everything that is ready; it stays unsettled."""
        self._output()
        found = []
        channel = self.connection.channels[1]
        while channel.get(self.queues[queue], False):
            found.append(read_message(self._output()))
        return found

    def bodies(self, queue: str = "q") -> list[bytes]:
        return [message.body for message in self.messages(queue)]

    def ack(self, message: Message) -> None:
        self._method(1, BasicAck(delivery_tag=message.tag))

    def read(self, stream: str = "s") -> dict[int, bytes]:
        """Every message of a stream that may be read, by its offset."""
        source = self.engine.route_cache("", self._resolve, True)
        connection = self.engine.connection(Session(source))
        connection.output.frame_max = 128 * 1024
        connection.feed(b"AMQP\x00\x00\x09\x01")
        channel = connection.open_channel(1)
        channel.consume_stream(self.streams[stream], "r", 60_000, self.streams[stream].first)
        found: dict[int, bytes] = {}
        while True:
            self.engine.run()
            view = connection.output.outgoing()
            if view is None:
                break
            output = bytes(view)
            del view
            connection.sent(len(output))
            found |= read_deliveries(output)
        connection.lost()
        return found

    def _output(self) -> bytes:
        view = self.connection.output.outgoing()
        output = bytes(view) if view is not None else b""
        del view
        self.connection.sent(len(output))
        return output

    # ------------------------------------------------------------- disk

    def sync(self) -> None:
        """Sync, with time passing, until nothing is owed to the disk."""
        for _ in range(50):
            self.engine.clock.now_ms += 1_000
            self.engine.run()
            work = self.engine.begin_sync()
            if work is None:
                return
            generation, writes, drops, streams = work
            self.files.write(writes)
            self.logs.store(streams, wait=False, beside=self.files)
            self.files.sync(wait=False)
            for number in sorted(drops):
                self.files.drop(number, wait=False)
            for stream, _, gone in streams:
                if gone is None:
                    self.logs.delete(stream)
                for number in gone or ():
                    self.logs.drop(stream, number, wait=False)
            self.engine.end_sync(generation, writes, streams)
        raise AssertionError("the log finds no rest")

    def crash(self) -> None:
        """What was not synced is lost."""
        self.connection.lost()  # what it has not settled would keep the engine in memory
        self.files.close()
        self.logs.close()

    def stop(self) -> None:
        """An orderly shutdown."""
        self.connection.lost()
        self.engine.mark_clean()
        self.sync()
        self.files.close()
        self.logs.close()


def read_deliveries(output: bytes) -> dict[int, bytes]:
    """The bodies of some basic.deliver by their x-stream-offset."""
    found: dict[int, bytes] = {}
    at = offset = 0
    while at < len(output):
        kind, _, size = struct.unpack_from(">BHI", output, at)
        payload = output[at + 7 : at + 7 + size]
        if kind == FRAME_HEADER:
            _, _, after = payload.partition(b"x-stream-offsetl")
            offset = int.from_bytes(after[:8], "big")
            found[offset] = b""
        elif kind == FRAME_BODY:
            found[offset] += payload
        at += size + 8
    return found


def read_message(output: bytes) -> Message:
    """One basic.get-ok with its content."""
    tag = redelivered = 0
    body = b""
    at = 0
    while at < len(output):
        kind, _, size = struct.unpack_from(">BHI", output, at)
        if kind == FRAME_METHOD:
            tag, redelivered = struct.unpack_from(">QB", output, at + 11)
        elif kind == FRAME_BODY:
            body += output[at + 7 : at + 7 + size]
        at += size + 8
    return Message(tag, bool(redelivered), body)
