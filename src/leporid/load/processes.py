"""The load: publishers in one process, receivers in another, at almost no cost of their own.

Messages are encoded once, in blocks, and the blocks are sent over and over. Deliveries have one
size, so they are counted by bytes; each read's count is checked against the frame's boundaries
and against the delivery tag of the last whole delivery, so a lost, doubled or shifted one stops
the run. That way a fraction of a core saturates a fast broker, and what is left of the machine is
the broker's.

It does not know which broker it drives, nor what is measured. Invariant: a count says what has
happened completely: the last frame of a delivery was read, the confirm of a publish came.
"""

from __future__ import annotations

import multiprocessing
import selectors
import signal
import ssl
import struct
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from leporid.load import latencies
from leporid.load.amqp import (
    BASIC_ACK,
    BASIC_NACK,
    CHANNEL_CLOSE,
    CONNECTION_CLOSE,
    FRAME_BODY,
    FRAME_END,
    FRAME_HEAD,
    FRAME_HEADER,
    FRAME_METHOD,
    FRAME_OVERHEAD,
    Client,
    Refused,
    ack,
    close_reason,
    message,
)

BLOCK_BYTES = 64 * 1024
# Blocks are made until every key was used once, or this many.
BLOCKS_MAX = 512
# One connection may send so many blocks before the others have their turn.
BLOCKS_AT_ONCE = 4
RECEIVE_BYTES = 256 * 1024
CONFIRMS_BYTES = 64 * 1024
SELECT_SECONDS = 0.05
START_SECONDS = 60.0
STOP_SECONDS = 10.0
# A rate is kept in blocks of what is due in this time.
BURST_SECONDS = 0.001
REASON_BYTES = 400
# The delivery tag stands behind the frame's head, the method and the consumer tag "c".
TAG_AT = 7 + 4 + 2
TAG = struct.Struct(">Q")
STAMP = struct.Struct(">Q")
STAMP_BYTES = STAMP.size
CONTENT_BYTES_AT = 7 + 4


# What stands before the number in the headers, and has to be walked past.
FLIGHT: dict[str, int | str] = {"carrier": "UA", "origin": "JFK", "dest": "LAX", "dep_delay": 75}


class LoadFailed(Exception):
    """The load itself went wrong, so there is nothing to report about the broker."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What to send where, and how to take it.

    Attributes:
        keys: routing keys, all of one length; each message takes the next.
        queues: what the receivers consume from, in turn.
        confirm_window: publishes that may be unconfirmed; 0: without confirms.
        ack_every: acknowledge when so many deliveries or more are not; 0: automatic.
        messages_max: each publisher stops after so many; 0: never.
        offset: where the receivers of a stream begin.
        numbered: each message has headers as a flight has them, and its number among the keys.
        rate: messages a second of each producer, at most; 0: as fast as it can.
        stamped: the first message of each block says when it was sent, so that receivers know how
            long it took. A body then has `STAMP_BYTES` at least.
    """

    queues: tuple[str, ...]
    keys: tuple[str, ...] = ()
    exchange: str = ""
    body_bytes: int = 100
    persistent: bool = False
    confirm_window: int = 0
    producers: int = 1
    consumers: int = 1
    ack_every: int = 0
    prefetch: int = 0
    messages_max: int = 0
    offset: str | None = None
    numbered: bool = False
    rate: float = 0.0
    stamped: bool = False


@dataclass(frozen=True, slots=True)
class Counts:
    """What has happened so far."""

    at_seconds: float
    published: int
    confirmed: int
    delivered: int


# ------------------------------------------------------------------ publishing


class Publisher:
    """One connection that sends blocks of messages as fast as the broker reads."""

    def __init__(self, client: Client, load: Load, keys: Sequence[str]) -> None:
        self.client = client
        self.window: int = load.confirm_window
        if self.window:
            client.select_confirm()
        client.sock.setblocking(False)
        body = bytes(0 if load.stamped else at & 0xFF for at in range(load.body_bytes))
        frames = [
            message(
                load.exchange,
                key,
                body,
                persistent=load.persistent,
                frame_bytes_max=client.frame_bytes_max,
                headers=FLIGHT | {"number": number} if load.numbered else None,
            )
            for number, key in enumerate(keys)
        ]
        self.block_messages: int = max(1, BLOCK_BYTES // len(frames[0]))
        if self.window:
            # Two blocks fit into the window: one on its way while the other is confirmed.
            self.block_messages = max(1, min(self.block_messages, self.window // 2))
        self.rate: float = load.rate
        if self.rate:
            self.block_messages = max(1, min(self.block_messages, int(self.rate * BURST_SECONDS)))
        while load.messages_max % self.block_messages:
            self.block_messages -= 1
        self.messages_max: int = load.messages_max
        self.blocks: list[memoryview] = _blocks(frames, self.block_messages)
        self._stamp_at = body_at(self.blocks[0]) if load.stamped else 0
        self._began = time.monotonic()
        self._begun = 0  # messages of all blocks that were begun
        self._next_block = 0
        self._unsent = memoryview(b"")
        self._room = memoryview(bytearray(CONFIRMS_BYTES))
        # Confirms: every tag up to `_confirmed_upto`, and these beyond it.
        self._confirmed_upto = 0
        self._confirmed_beyond: set[int] = set()
        self.refused: int = 0

    @property
    def published(self) -> int:
        """Messages that were sent; those of a block once the whole block was."""
        return self._begun - self.block_messages if self._unsent else self._begun

    @property
    def confirmed(self) -> int:
        """Publishes that were confirmed, or all without confirms."""
        if not self.window:
            return self.published
        return self._confirmed_upto + len(self._confirmed_beyond)

    @property
    def wants_to_send(self) -> bool:
        """Whether there is something to send that the window allows."""
        if self._unsent:
            return True
        if self.messages_max and self._begun >= self.messages_max:
            return False
        if self.rate and self._begun > (time.monotonic() - self._began) * self.rate:
            return False
        return not self.window or self._begun - self.confirmed + self.block_messages <= self.window

    def send(self) -> None:
        """Send what the socket takes, within bounds."""
        for _ in range(BLOCKS_AT_ONCE):
            if not self._unsent:
                if not self.wants_to_send:
                    return
                self._unsent = self.blocks[self._next_block]
                if self._stamp_at:
                    self._unsent = memoryview(bytearray(self._unsent))
                    STAMP.pack_into(self._unsent, self._stamp_at, time.monotonic_ns())
                self._next_block = (self._next_block + 1) % len(self.blocks)
                self._begun += self.block_messages
            self._unsent = self._unsent[self.client.send_some(self._unsent) :]
            if self._unsent:
                return

    def start(self) -> None:
        """Begin now: what a rate allows is counted from here on."""
        self._began = time.monotonic()

    def receive(self) -> None:
        """Read confirms, and whatever else the broker says."""
        inbox = self.client.inbox
        count = self.client.receive_some(self._room)
        if count is None:
            return
        if not count:
            raise LoadFailed("the broker closed a publisher's connection")
        inbox += self._room[:count]
        at = 0
        while len(inbox) - at >= FRAME_OVERHEAD:
            kind, _, size = FRAME_HEAD.unpack_from(inbox, at)
            if len(inbox) - at < size + FRAME_OVERHEAD:
                break
            if kind == FRAME_METHOD:
                self._on_method(bytes(inbox[at + 7 : at + 7 + size]))
            at += size + FRAME_OVERHEAD
        del inbox[:at]

    def _on_method(self, payload: bytes) -> None:
        ids = struct.unpack_from(">HH", payload)
        if ids in (BASIC_ACK, BASIC_NACK):
            tag, bits = struct.unpack_from(">QB", payload, 4)
            if ids == BASIC_NACK:
                self.refused += 1
            self._on_confirm(tag, multiple=bool(bits & 1))
        elif ids in (CONNECTION_CLOSE, CHANNEL_CLOSE):
            raise Refused(close_reason(payload))

    def _on_confirm(self, tag: int, *, multiple: bool) -> None:
        beyond = self._confirmed_beyond
        if multiple:
            if tag > self._confirmed_upto:
                self._confirmed_upto = tag
                if beyond:
                    self._confirmed_beyond = beyond = {one for one in beyond if one > tag}
        else:
            beyond.add(tag)
        while self._confirmed_upto + 1 in beyond:
            self._confirmed_upto += 1
            beyond.remove(self._confirmed_upto)


def _blocks(frames: Sequence[bytes], block_messages: int) -> list[memoryview]:
    """Blocks that together go once through all messages, and then begin again."""
    blocks: list[memoryview] = []
    at = 0
    while at < len(frames) and len(blocks) < BLOCKS_MAX:
        part = [frames[(at + step) % len(frames)] for step in range(block_messages)]
        blocks.append(memoryview(b"".join(part)))
        at += block_messages
    return blocks


# ------------------------------------------------------------------ receiving


def _watch_due(selector: selectors.BaseSelector, watched: dict[Publisher, int]) -> None:
    """Watch the sockets of publishers to which their rate allows a block now."""
    for publisher, events in watched.items():
        if not events & selectors.EVENT_WRITE and publisher.wants_to_send:
            watched[publisher] = events | selectors.EVENT_WRITE
            selector.modify(publisher.client.sock, watched[publisher], publisher)


class Receiver:
    """One connection that counts deliveries of one size.

    Args:
        arguments: of its consumer.
        on_deliveries: called with the buffer and the number of whole deliveries at its start.
    """

    def __init__(
        self,
        client: Client,
        queue: str,
        *,
        ack_every: int = 0,
        prefetch: int = 0,
        offset: str | None = None,
        arguments: Mapping[str, str] | None = None,
        on_deliveries: Callable[[Receiver, memoryview, int], None] | None = None,
    ) -> None:
        self.client = client
        self.ack_every = ack_every
        client.consume(
            queue, no_ack=not ack_every, prefetch=prefetch, offset=offset, arguments=arguments
        )
        client.sock.setblocking(False)
        self.delivered: int = 0
        self.delivery_bytes: int = 0
        self._acked = 0
        self.unsent: bytes = b""  # an acknowledgement that the socket has not taken
        self._on_deliveries = on_deliveries
        self._buffer = memoryview(bytearray(RECEIVE_BYTES))
        self._kept = len(client.inbox)
        self._buffer[: self._kept] = client.inbox
        client.inbox.clear()
        if self._kept:
            self._count()

    def receive(self) -> None:
        """Read what is there, count it, acknowledge when it is time."""
        if self._kept == len(self._buffer):  # one delivery is larger
            buffer = memoryview(bytearray(2 * self._kept))
            buffer[: self._kept] = self._buffer
            self._buffer = buffer
        count = self.client.receive_some(self._buffer[self._kept :])
        if count is None:
            return
        if not count:
            raise LoadFailed("the broker closed a receiver's connection")
        self._kept += count
        self._count()

    def _count(self) -> None:
        size = self.delivery_bytes
        if not size:
            size = self.delivery_bytes = delivery_size(self._buffer[: self._kept])
            if not size:
                return
        whole = self._kept // size
        if not whole:
            return
        buffer = self._buffer
        last = (whole - 1) * size
        self.delivered += whole
        if (
            buffer[0] != FRAME_METHOD
            or buffer[last + size - 1] != FRAME_END[0]
            or TAG.unpack_from(buffer, last + TAG_AT)[0] != self.delivered
        ):
            raise LoadFailed(f"not {self.delivered} deliveries of {size} bytes each")
        if self._on_deliveries is not None:
            self._on_deliveries(self, buffer, whole)
        rest = self._kept - whole * size
        buffer[:rest] = buffer[whole * size : self._kept]
        self._kept = rest
        self.acknowledge()

    def acknowledge(self) -> None:
        """Acknowledge what has come, if it is time, as far as the socket takes it."""
        # What is left goes first: TLS takes nothing else.
        if not self.unsent and self.ack_every and self.delivered - self._acked >= self.ack_every:
            self.unsent = ack(self.delivered, multiple=True)
            self._acked = self.delivered
        if self.unsent:
            self.unsent = self.unsent[self.client.send_some(self.unsent) :]


def _receive(one: Publisher | Receiver) -> None:
    """Have it read all that a selector has told of."""
    one.receive()
    while one.client.unread:
        one.receive()


def body_at(data: memoryview) -> int:
    """Return where the body of the message begins whose frames stand at the start of `data`."""
    at: int = 0
    while data[at] != FRAME_BODY:
        at += FRAME_HEAD.unpack_from(data, at)[2] + FRAME_OVERHEAD
    return at + FRAME_HEAD.size


def delivery_size(data: memoryview) -> int:
    """Bytes of the delivery at the start of `data`: all its frames; 0 if they are not all there."""
    at: int = 0
    body_left = -1
    while len(data) - at >= FRAME_OVERHEAD:
        kind, _, size = FRAME_HEAD.unpack_from(data, at)
        if len(data) - at < size + FRAME_OVERHEAD:
            return 0
        if kind == FRAME_HEADER:
            (body_left,) = TAG.unpack_from(data, at + CONTENT_BYTES_AT)
        elif kind == FRAME_BODY:
            body_left -= size
        at += size + FRAME_OVERHEAD
        if body_left == 0:
            return at
    return 0


# ------------------------------------------------------------------ processes


class Running:
    """A load under way: entering it connects and starts, leaving it stops.

    Args:
        url: where the broker is.
        load: what to do; queues and exchange must be there.
        tls, tls_name: as of a `Client`.
    """

    def __init__(
        self, url: str, load: Load, *, tls: ssl.SSLContext | None = None, tls_name: str = ""
    ) -> None:
        self._url = url
        self._tls, self._tls_name = tls, tls_name
        self._load = load
        context = multiprocessing.get_context("fork")
        self._made = context.RawArray("q", 3)  # published, confirmed, refused
        self._taken = context.RawArray("q", 1)
        self._stopped = context.RawValue("b", 0)
        self._reason = context.RawArray("c", REASON_BYTES)
        self._latencies = context.RawArray("q", latencies.BUCKETS)
        roles: list[Callable[[], None]] = []
        if load.producers:
            roles.append(self._publish)
        if load.consumers:
            roles.append(self._consume)
        self._together = context.Barrier(len(roles) + 1)
        self._processes = [
            context.Process(target=self._play, args=(role,), daemon=True) for role in roles
        ]

    def __enter__(self) -> Self:
        for process in self._processes:
            process.start()
        try:
            self._together.wait(START_SECONDS)
        except threading.BrokenBarrierError:
            self._end()
            raise LoadFailed(self._why("the load did not start")) from None
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._end()

    def _end(self) -> None:
        self._stopped.value = 1
        for process in self._processes:
            process.join(STOP_SECONDS)
            if process.is_alive():
                process.kill()
                process.join()

    def counts(self) -> Counts:
        """What has happened so far.

        Raises:
            LoadFailed: one of the processes ended, or the broker refused messages.
        """
        if not all(process.is_alive() for process in self._processes):
            raise LoadFailed(self._why("a process of the load ended"))
        published, confirmed, refused = self._made
        if refused:
            raise LoadFailed(f"the broker refused {refused} messages (basic.nack)")
        return Counts(time.monotonic(), published, confirmed, self._taken[0])

    def latencies(self) -> Sequence[int]:
        """How many messages took how long, so far; `leporid.load.latencies` reads it."""
        return list(self._latencies)

    def _why(self, what: str) -> str:
        reason = self._reason.value.decode(errors="replace")
        return f"{what}: {reason}" if reason else f"{what}; the reason stands above"

    def wait(self, reached: Callable[[Counts], bool], seconds: float) -> Counts:
        """Wait until the counts are as wanted.

        Raises:
            LoadFailed: they were not in time.
        """
        deadline = time.monotonic() + seconds
        while not reached(counts := self.counts()):
            if time.monotonic() > deadline:
                raise LoadFailed(f"not there after {seconds} s: {counts}")
            time.sleep(0.002)
        return counts

    # -------------------------------------------------------------- in the processes

    def _play(self, role: Callable[[], None]) -> None:
        # Whoever presses Ctrl-C interrupts the process that started this one, which ends it.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        try:
            role()
        except (LoadFailed, Refused, OSError) as error:
            self._reason.value = str(error).encode()[: REASON_BYTES - 1]
            self._together.abort()  # whoever waits for us to start need not
            sys.exit(1)
        except threading.BrokenBarrierError:
            sys.exit(1)  # another process has given the reason, or who started us
        except BaseException:
            self._together.abort()
            raise

    def _connect(self) -> Client:
        return Client(self._url, tls=self._tls, tls_name=self._tls_name)

    def _publish(self) -> None:
        load = self._load
        keys = load.keys or load.queues
        publishers = [
            Publisher(self._connect(), load, keys[at :: load.producers] or keys)
            for at in range(load.producers)
        ]
        selector = selectors.DefaultSelector()
        watched = dict.fromkeys(publishers, selectors.EVENT_READ | selectors.EVENT_WRITE)
        for publisher, events in watched.items():
            selector.register(publisher.client.sock, events, publisher)
        self._together.wait(START_SECONDS)
        made = self._made
        for publisher in publishers:
            publisher.start()
        paused_seconds = BURST_SECONDS if load.rate else SELECT_SECONDS
        while not self._stopped.value:
            if load.rate:
                _watch_due(selector, watched)
            for ready, events in selector.select(paused_seconds):
                publisher = ready.data
                if events & selectors.EVENT_READ:
                    _receive(publisher)
                if events & selectors.EVENT_WRITE:
                    publisher.send()
                wanted = selectors.EVENT_READ
                if publisher.wants_to_send:
                    wanted |= selectors.EVENT_WRITE
                if wanted != watched[publisher]:
                    watched[publisher] = wanted
                    selector.modify(publisher.client.sock, wanted, publisher)
            made[0] = sum(one.published for one in publishers)
            made[1] = sum(one.confirmed for one in publishers)
            made[2] = sum(one.refused for one in publishers)
        for publisher in publishers:
            publisher.client.sock.close()

    def _consume(self) -> None:
        load = self._load
        receivers = [
            Receiver(
                self._connect(),
                load.queues[at % len(load.queues)],
                ack_every=load.ack_every,
                prefetch=load.prefetch,
                offset=load.offset,
                on_deliveries=self._note if load.stamped else None,
            )
            for at in range(max(load.consumers, len(load.queues)))
        ]
        selector = selectors.DefaultSelector()
        for receiver in receivers:
            selector.register(receiver.client.sock, selectors.EVENT_READ, receiver)
        self._together.wait(START_SECONDS)
        taken = self._taken
        while not self._stopped.value:
            found = selector.select(SELECT_SECONDS)
            for ready, _ in found:
                _receive(ready.data)
            for receiver in receivers:
                # The broker may wait for what its socket has not taken.
                if receiver.unsent:
                    receiver.acknowledge()
            taken[0] = sum(one.delivered for one in receivers)
        for receiver in receivers:
            receiver.client.sock.close()

    def _note(self, receiver: Receiver, buffer: memoryview, whole: int) -> None:
        """Count how long the stamped ones of these deliveries took."""
        now = time.monotonic_ns()
        size, before = receiver.delivery_bytes, body_at(buffer)
        each = struct.Struct(f">{before}xQ{size - before - STAMP_BYTES}x")
        for (stamp,) in each.iter_unpack(buffer[: whole * size]):
            if stamp:
                latencies.note(self._latencies, now - stamp)
