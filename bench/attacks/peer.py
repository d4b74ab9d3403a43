"""The attacker's connection: whole blocks of frames at once, whatever comes back.

Responsible for encoding what attacks send in bulk, and for sending it without ever waiting for
ever. It does not know what is measured. Invariant: a method of `Peer` ends within its patience,
also when the broker reads nothing, closes the connection, or dies.
"""

from __future__ import annotations

import select
import struct
import time
from collections import Counter
from collections.abc import Callable, Mapping

from bench.attacks.target import ATTACKER_ADDRESS

from leporid.load.amqp import (
    BASIC_CONSUME,
    BASIC_PUBLISH,
    BASIC_QOS,
    CHANNEL,
    CHANNEL_CLOSE,
    CHANNEL_OPEN,
    CONNECTION_CLOSE,
    EXCHANGE_DECLARE,
    FRAME_BODY,
    FRAME_HEAD,
    FRAME_HEADER,
    FRAME_METHOD,
    FRAME_OVERHEAD,
    QUEUE_BIND,
    QUEUE_DECLARE,
    Client,
    Ids,
    Refused,
    close_reason,
    frame,
    method,
    short,
    table,
)

EXCHANGE_BIND: Ids = (40, 30)
QUEUE_PURGE: Ids = (50, 30)
QUEUE_DELETE: Ids = (50, 40)
BASIC_CANCEL: Ids = (60, 30)
BASIC_DELIVER: Ids = (60, 60)
BASIC_GET: Ids = (60, 70)
BASIC_RECOVER: Ids = (60, 110)
TX_SELECT: Ids = (90, 10)
TX_COMMIT: Ids = (90, 20)
TX_ROLLBACK: Ids = (90, 30)

RECEIVE_BYTES = 262144
# A broker that reads nothing for so long has stopped to.
STUCK_SECONDS = 10.0
# Flags of a content header: which properties are there.
HEADERS, EXPIRATION = 0x2000, 0x0100
NO_WAIT = 1
Fields = Mapping[str, object]
Encoded = Mapping[str, object] | bytes


# ------------------------------------------------------------------ encoding


def _table(fields: Encoded | None) -> bytes:
    return fields if isinstance(fields, bytes) else table(fields or {})


def queue_declare(
    name: str, arguments: Encoded | None = None, *, flags: str = "", channel: int = CHANNEL
) -> bytes:
    """queue.declare without an answer; `flags` are d(urable), e(xclusive), a(uto-delete)."""
    bits = ("d" in flags) << 1 | ("e" in flags) << 2 | ("a" in flags) << 3 | NO_WAIT << 4
    payload = b"\0\0" + short(name) + bytes((bits,)) + _table(arguments)
    return method(channel, QUEUE_DECLARE, payload)


def exchange_declare(
    name: str, kind: str, arguments: Encoded | None = None, *, channel: int = CHANNEL
) -> bytes:
    """exchange.declare of a transient exchange, without an answer."""
    payload = b"\0\0" + short(name) + short(kind) + bytes((NO_WAIT << 4,)) + _table(arguments)
    return method(channel, EXCHANGE_DECLARE, payload)


def queue_bind(queue: str, exchange: str, key: str = "", arguments: Encoded | None = None) -> bytes:
    """queue.bind without an answer."""
    names = b"\0\0" + short(queue) + short(exchange) + short(key)
    return method(CHANNEL, QUEUE_BIND, names + bytes((NO_WAIT,)) + _table(arguments))


def exchange_bind(
    destination: str, source: str, key: str = "", arguments: Encoded | None = None
) -> bytes:
    """exchange.bind without an answer."""
    names = b"\0\0" + short(destination) + short(source) + short(key)
    return method(CHANNEL, EXCHANGE_BIND, names + bytes((NO_WAIT,)) + _table(arguments))


def consume(
    queue: str, tag: str, arguments: Encoded | None = None, *, no_ack: bool = False
) -> bytes:
    """basic.consume without an answer."""
    bits = no_ack << 1 | NO_WAIT << 3
    payload = b"\0\0" + short(queue) + short(tag) + bytes((bits,)) + _table(arguments)
    return method(CHANNEL, BASIC_CONSUME, payload)


def publish_method(exchange: str, key: str, channel: int = CHANNEL) -> bytes:
    """basic.publish itself."""
    return method(channel, BASIC_PUBLISH, b"\0\0" + short(exchange) + short(key) + b"\0")


def content_header(
    body_bytes: int,
    *,
    headers: Encoded | None = None,
    expiration_ms: int | None = None,
    channel: int = CHANNEL,
) -> bytes:
    """The frame that announces a body."""
    flags = (HEADERS if headers is not None else 0) | (EXPIRATION if expiration_ms else 0)
    payload = struct.pack(">HHQH", BASIC_PUBLISH[0], 0, body_bytes, flags)
    if headers is not None:
        payload += _table(headers)
    if expiration_ms:
        payload += short(str(expiration_ms))
    return frame(FRAME_HEADER, channel, payload)


def body_frames(body: bytes, frame_bytes_max: int, channel: int = CHANNEL) -> bytes:
    """The frames of a body."""
    step = frame_bytes_max - FRAME_OVERHEAD
    parts = (body[at : at + step] for at in range(0, len(body), step))
    return b"".join(frame(FRAME_BODY, channel, part) for part in parts)


def publish(
    exchange: str,
    key: str,
    body: bytes = b"",
    *,
    headers: Encoded | None = None,
    expiration_ms: int | None = None,
    frame_bytes_max: int = 131072,
) -> bytes:
    """A whole message on channel 1."""
    return (
        publish_method(exchange, key)
        + content_header(len(body), headers=headers, expiration_ms=expiration_ms)
        + body_frames(body, frame_bytes_max)
    )


# ------------------------------------------------------------------ the connection


class Peer(Client):
    """One connection of an attacker.

    Args:
        url: where to, and as whom.
        channels: how many are opened, from number 1.
        receive_bytes: of the kernel's receive buffer; 0: as the kernel likes.
        patience_seconds: for which a broker may read nothing, or owe an answer.
        note: told what the broker says when it closes something.
    """

    def __init__(
        self,
        url: str,
        *,
        channels: int = 1,
        receive_bytes: int = 0,
        patience_seconds: float = 60.0,
        note: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.received: Counter[Ids] = Counter()
        self.gone = False
        self._patience = patience_seconds
        self._note = note
        super().__init__(url, source=ATTACKER_ADDRESS, capabilities=(), receive_bytes=receive_bytes)
        self.sock.settimeout(patience_seconds)
        for channel in range(2, channels + 1):
            self.sock.sendall(method(channel, CHANNEL_OPEN, b"\0"))
            self.wait_for((CHANNEL_OPEN[0], CHANNEL_OPEN[1] + 1))

    def close(self) -> None:
        """Leave as a hostile peer does: without a word."""
        self.sock.close()

    def push(self, data: bytes | memoryview, *, reading: bool = True) -> bool:
        """Send all of it, reading what comes meanwhile.

        Args:
            data: frames, whole or not.
            reading: without it, nothing is read, whatever the broker sends.

        Returns:
            Whether all of it was sent; otherwise the connection is gone, or the broker has read
            nothing for STUCK_SECONDS.
        """
        left = memoryview(data)
        poll = select.poll()
        poll.register(self.sock, select.POLLOUT | (select.POLLIN if reading else 0))
        self.sock.settimeout(0)
        try:
            while left and not self.gone:
                ready = poll.poll(1000 * STUCK_SECONDS)
                if not ready:
                    self._note("the broker no longer reads the attacker")
                    return False
                if ready[0][1] & select.POLLIN:
                    self._read()
                if ready[0][1] & (select.POLLOUT | select.POLLERR | select.POLLHUP):
                    left = left[self._send_some(left) :]
        finally:
            self.sock.settimeout(self._patience)
        return not self.gone

    def offer(self, data: memoryview) -> memoryview:
        """Send what the broker takes now, and read what is there; returns what is left."""
        self.sock.settimeout(0)
        try:
            self._read()
            while data and not self.gone and (sent := self._send_some(data)):
                data = data[sent:]
        finally:
            self.sock.settimeout(self._patience)
        return data

    def _send_some(self, data: memoryview) -> int:
        try:
            return self.sock.send(data[:RECEIVE_BYTES])
        except BlockingIOError:
            return 0
        except OSError as error:
            self._leave(f"the broker cut the attacker's connection ({error.strerror})")
            return 0

    def _read(self) -> None:
        try:
            data = self.sock.recv(RECEIVE_BYTES)
        except BlockingIOError:
            return
        except OSError as error:
            self._leave(f"the broker cut the attacker's connection ({error.strerror})")
            return
        if not data:
            self._leave("the broker closed the attacker's connection")
            return
        self.inbox += data
        self._look_through()

    def _look_through(self) -> None:
        inbox = self.inbox
        at = 0
        while len(inbox) - at >= FRAME_OVERHEAD:
            kind, _, size = FRAME_HEAD.unpack_from(inbox, at)
            if len(inbox) - at < size + FRAME_OVERHEAD:
                break
            if kind == FRAME_METHOD:
                ids = struct.unpack_from(">HH", inbox, at + 7)
                self.received[ids] += 1
                if ids in (CONNECTION_CLOSE, CHANNEL_CLOSE):
                    self._note(close_reason(bytes(inbox[at + 7 : at + 7 + size])))
                    if ids == CONNECTION_CLOSE:
                        self.gone = True
            at += size + FRAME_OVERHEAD
        del inbox[:at]

    def _leave(self, why: str) -> None:
        if not self.gone:
            self._note(why)
        self.gone = True

    def settle(self) -> bool:
        """Wait until everything that was sent has been handled; False: the channel is no more."""
        return self.ask(BASIC_QOS, struct.pack(">IH?", 0, 0, False))

    def ask(self, ids: Ids, arguments: bytes = b"") -> bool:
        """Send a method and wait for its -ok; False: the broker refused it, or has gone.

        Also False if it has closed a channel before, since it may have been this one.
        """
        if self.gone or self.received[CHANNEL_CLOSE]:
            return False
        try:
            self.request(ids, arguments)
        except (Refused, OSError) as refusal:
            self._note(str(refusal))
            return False
        return True

    def swallow(self, seconds: float) -> None:
        """Read whatever comes, for so long."""
        deadline = time.monotonic() + seconds
        self.sock.settimeout(0)
        try:
            while not self.gone and (left := deadline - time.monotonic()) > 0:
                if select.select([self.sock], [], [], left)[0]:
                    self._read()
        finally:
            self.sock.settimeout(self._patience)
