"""Just enough of an AMQP 0-9-1 client for loads and for the command line: frames, one connection.

Responsible for encoding what a load sends, for asking a broker for queues, exchanges and bindings,
and for taking messages out of a queue and publishing them again as they were. It does not know
what is measured. Standard library only, so that a load can be driven from any machine with Python.
Invariant: a `Client` has one open channel, number 1, and whatever it has received and not used yet
lies in `inbox`.
"""

from __future__ import annotations

import socket
import ssl
import struct
import urllib.parse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self

CHANNEL = 1
FRAME_METHOD, FRAME_HEADER, FRAME_BODY = 1, 2, 3
FRAME_END = b"\xce"
FRAME_OVERHEAD = 8
FRAME_BYTES_MAX = 131072
FRAME_HEAD = struct.Struct(">BHI")
PROTOCOL_HEADER = b"AMQP\x00\x00\x09\x01"
# No broker needs longer for one answer, a declaration behind ten thousand bindings included.
ANSWER_SECONDS = 60.0
PORT, TLS_PORT = 5672, 5671
RECEIVE_BYTES = 65536
# What a socket that does not block raises when it takes or has nothing: without TLS, and with it.
WOULD_BLOCK = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)
# In Linux's in.h; Python's socket module has no name for it.
IP_BIND_ADDRESS_NO_PORT = 24

Ids = tuple[int, int]

CONNECTION_START_OK: Ids = (10, 11)
CONNECTION_TUNE: Ids = (10, 30)
CONNECTION_TUNE_OK: Ids = (10, 31)
CONNECTION_OPEN: Ids = (10, 40)
CONNECTION_CLOSE: Ids = (10, 50)
CHANNEL_OPEN: Ids = (20, 10)
CHANNEL_CLOSE: Ids = (20, 40)
EXCHANGE_DECLARE: Ids = (40, 10)
EXCHANGE_DELETE: Ids = (40, 20)
QUEUE_DECLARE: Ids = (50, 10)
QUEUE_BIND: Ids = (50, 20)
QUEUE_DELETE: Ids = (50, 40)
BASIC_QOS: Ids = (60, 10)
BASIC_CONSUME: Ids = (60, 20)
BASIC_PUBLISH: Ids = (60, 40)
BASIC_RETURN: Ids = (60, 50)
BASIC_GET: Ids = (60, 70)
BASIC_GET_OK: Ids = (60, 71)
BASIC_GET_EMPTY: Ids = (60, 72)
BASIC_ACK: Ids = (60, 80)
BASIC_NACK: Ids = (60, 120)
CONFIRM_SELECT: Ids = (85, 10)


# What stands in a content header before the properties: class, weight, length of the body.
HEADER_HEAD = struct.Struct(">HHQ")
MANDATORY = 1


@dataclass(frozen=True, slots=True)
class Got:
    """A message that a queue gave.

    Attributes:
        delivery_tag: to settle it by.
        redelivered: whether somebody had it before.
        properties: encoded, as they came.
    """

    delivery_tag: int
    redelivered: bool
    exchange: str
    routing_key: str
    properties: bytes
    body: bytes


class Refused(Exception):
    """The broker closed the channel or the connection, and said why."""


# ------------------------------------------------------------------ encoding


def short(text: str) -> bytes:
    """A short string."""
    raw = text.encode()
    return bytes((len(raw),)) + raw


def table(fields: Mapping[str, object]) -> bytes:
    """A field table of booleans, integers, texts and tables."""
    content = b""
    for name, value in fields.items():
        content += short(name)
        if isinstance(value, Mapping):
            content += b"F" + table(value)
        elif isinstance(value, bool):
            content += b"t" + bytes((value,))
        elif isinstance(value, int):
            content += b"l" + struct.pack(">q", value)
        else:
            raw = str(value).encode()
            content += b"S" + struct.pack(">I", len(raw)) + raw
    return struct.pack(">I", len(content)) + content


def frame(kind: int, channel: int, payload: bytes) -> bytes:
    """A frame."""
    return FRAME_HEAD.pack(kind, channel, len(payload)) + payload + FRAME_END


def method(channel: int, ids: Ids, arguments: bytes = b"") -> bytes:
    """A method frame."""
    return frame(FRAME_METHOD, channel, struct.pack(">HH", *ids) + arguments)


def ack(delivery_tag: int, *, multiple: bool) -> bytes:
    """The frame that acknowledges a delivery, or all up to it."""
    return method(CHANNEL, BASIC_ACK, struct.pack(">Q?", delivery_tag, multiple))


def message(
    exchange: str,
    key: str,
    body: bytes,
    *,
    persistent: bool,
    frame_bytes_max: int,
    headers: Mapping[str, int | str] | None = None,
) -> bytes:
    """The frames of one basic.publish: method, content header, content body."""
    frames = [method(CHANNEL, BASIC_PUBLISH, b"\0\0" + short(exchange) + short(key) + b"\0")]
    # Flag 0x2000: headers are there; 0x1000: delivery-mode is, and 2 says persistent.
    properties = struct.pack(">H", (0x2000 if headers else 0) | (0x1000 if persistent else 0))
    properties += (table(headers) if headers else b"") + (b"\x02" if persistent else b"")
    header = struct.pack(">HHQ", BASIC_PUBLISH[0], 0, len(body)) + properties
    frames.append(frame(FRAME_HEADER, CHANNEL, header))
    step = frame_bytes_max - FRAME_OVERHEAD
    parts = (body[start : start + step] for start in range(0, len(body), step))
    return b"".join([*frames, *(frame(FRAME_BODY, CHANNEL, part) for part in parts)])


# ------------------------------------------------------------------ the connection


class Client:
    """A blocking connection.

    Args:
        url: `amqp://user:password@host:port/vhost`, each part but the host optional; `amqps://` is
            encrypted.
        source: the address to connect from, if not the one that the kernel chooses.
        capabilities: what the broker is told that this client understands.
        receive_bytes: of the kernel's buffer for what is not read yet; 0: as the kernel likes.
        tls: encrypts, and knows whom to trust; None: nothing is encrypted, or with `amqps` those
            are trusted whom the system trusts.
        tls_name: the host name that the broker's certificate must have, if not the URL's.
    """

    def __init__(
        self,
        url: str,
        *,
        source: str = "",
        capabilities: Sequence[str] = (),
        receive_bytes: int = 0,
        tls: ssl.SSLContext | None = None,
        tls_name: str = "",
    ) -> None:
        parts = urllib.parse.urlsplit(url)
        if parts.scheme not in ("amqp", "amqps"):
            raise ValueError(
                "the broker's address is not of the form amqp://USER:…@HOST:PORT/VHOST, or amqps://"
            )
        if parts.scheme == "amqps" and tls is None:
            tls = ssl.create_default_context()
        host = parts.hostname or "127.0.0.1"
        address = host, parts.port or (TLS_PORT if parts.scheme == "amqps" else PORT)
        self.inbox: bytearray = bytearray()
        self.frame_bytes_max: int = FRAME_BYTES_MAX
        # Without the first, a broker that refuses the login closes the socket and says nothing.
        self.capabilities: dict[str, bool] = dict.fromkeys(
            ("authentication_failure_close", *capabilities), True
        )
        self.sock: socket.socket = connect(address, source, receive_bytes)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            if tls is not None:
                self.sock = tls.wrap_socket(self.sock, server_hostname=tls_name or host)
            self._log_in(
                urllib.parse.unquote(parts.username or "guest"),
                urllib.parse.unquote(parts.password or "guest"),
                urllib.parse.unquote(parts.path[1:]) or "/",
            )
        except BaseException:
            self.sock.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _log_in(self, user: str, password: str, vhost: str) -> None:
        self.sock.sendall(PROTOCOL_HEADER)
        try:
            self.wait_for((10, 10))
        except Refused as error:
            raise Refused(f"{error}; is that a port of AMQP without TLS?") from None
        answer = f"\0{user}\0{password}".encode()
        properties = table({"product": "leporid bench", "capabilities": self.capabilities})
        self._send(
            0,
            CONNECTION_START_OK,
            properties + short("PLAIN") + struct.pack(">I", len(answer)) + answer + short("en_US"),
        )
        channels, frame_bytes, _ = struct.unpack_from(">HIH", self.wait_for(CONNECTION_TUNE), 4)
        self.frame_bytes_max = min(frame_bytes or FRAME_BYTES_MAX, FRAME_BYTES_MAX)
        # No heartbeats: a load that does not read for a while is no dead peer.
        tuned = struct.pack(">HIH", channels, self.frame_bytes_max, 0)
        self._send(0, CONNECTION_TUNE_OK, tuned)
        self._send(0, CONNECTION_OPEN, short(vhost) + b"\0\0")
        self.wait_for((10, 41))
        self.request(CHANNEL_OPEN, b"\0")

    def close(self) -> None:
        """Say goodbye, as far as the broker listens."""
        try:
            self._send(0, CONNECTION_CLOSE, struct.pack(">H", 200) + short("") + b"\0\0\0\0")
            self.wait_for((10, 51))
        except (OSError, Refused):
            pass
        self.sock.close()

    @property
    def unread(self) -> bool:
        """Whether something is decrypted and not received: no selector tells of it."""
        return isinstance(self.sock, ssl.SSLSocket) and self.sock.pending() > 0

    def send_some(self, data: bytes | memoryview) -> int:
        """Send what a socket that does not block takes now; return how many bytes."""
        try:
            return self.sock.send(data)
        except WOULD_BLOCK:
            return 0

    def receive_some(self, room: memoryview) -> int | None:
        """Receive what a socket that does not block has; return how many bytes, None: none yet."""
        try:
            return self.sock.recv_into(room)
        except WOULD_BLOCK:
            return None

    def _send(self, channel: int, ids: Ids, arguments: bytes) -> None:
        self.sock.sendall(method(channel, ids, arguments))

    def read_frame(self) -> tuple[int, bytes]:
        """The next frame's kind and payload."""
        inbox = self.inbox
        while True:
            if len(inbox) >= FRAME_OVERHEAD:
                kind, _, size = FRAME_HEAD.unpack_from(inbox)
                if len(inbox) >= size + FRAME_OVERHEAD:
                    payload = bytes(inbox[7 : 7 + size])
                    if inbox[7 + size] != FRAME_END[0]:
                        raise Refused("the broker's frames do not end where they say")
                    del inbox[: size + FRAME_OVERHEAD]
                    return kind, payload
            data = self.sock.recv(RECEIVE_BYTES)
            if not data:
                raise Refused("the broker closed the connection without a word")
            inbox += data

    def wait_for(self, ids: Ids) -> bytes:
        """Skip frames up to that method; return its payload.

        Raises:
            Refused: a close came instead.
        """
        while True:
            kind, payload = self.read_frame()
            if kind != FRAME_METHOD:
                continue
            found = struct.unpack_from(">HH", payload)
            if found == ids:
                return payload
            if found in (CONNECTION_CLOSE, CHANNEL_CLOSE):
                raise Refused(close_reason(payload))

    def request(self, ids: Ids, arguments: bytes) -> bytes:
        """Send a method and return the payload of its -ok."""
        self._send(CHANNEL, ids, arguments)
        return self.wait_for((ids[0], ids[1] + 1))

    # -------------------------------------------------------------- what a load needs

    def declare_exchange(self, name: str, kind: str) -> None:
        """Declare a transient exchange."""
        self.request(EXCHANGE_DECLARE, b"\0\0" + short(name) + short(kind) + b"\0" + table({}))

    def delete_exchange(self, name: str) -> None:
        """Delete an exchange."""
        self.request(EXCHANGE_DELETE, b"\0\0" + short(name) + b"\0")

    def declare_queue(
        self,
        name: str,
        *,
        durable: bool = False,
        passive: bool = False,
        kind: str = "classic",
        arguments: Mapping[str, int] | None = None,
    ) -> int:
        """Declare a queue; return how many messages it has ready."""
        bits = bytes((passive | durable << 1,))
        asked = table(
            {**({} if kind == "classic" else {"x-queue-type": kind}), **(arguments or {})}
        )
        payload = self.request(QUEUE_DECLARE, b"\0\0" + short(name) + bits + asked)
        ready: int = struct.unpack_from(">I", payload, 5 + payload[4])[0]
        return ready

    def delete_queue(self, name: str) -> None:
        """Delete a queue with what is in it."""
        self.request(QUEUE_DELETE, b"\0\0" + short(name) + b"\0")

    def bind(
        self,
        queue: str,
        exchange: str,
        keys: list[str],
        tables: Sequence[Mapping[str, int | str]] = ({},),
    ) -> None:
        """Bind a queue with many keys or arguments; only the last binding is waited for."""
        head = b"\0\0" + short(queue) + short(exchange)
        asked = [table(each) for each in tables]
        bindings = [(short(key), arguments) for key in keys for arguments in asked]
        for key, arguments in bindings[:-1]:
            self._send(CHANNEL, QUEUE_BIND, head + key + b"\1" + arguments)
        key, arguments = bindings[-1]
        self.request(QUEUE_BIND, head + key + b"\0" + arguments)

    def consume(
        self,
        queue: str,
        *,
        no_ack: bool,
        prefetch: int = 0,
        offset: str | None = None,
        arguments: Mapping[str, str] | None = None,
    ) -> None:
        """Start a consumer, of a stream at that offset; what is delivered already is in `inbox`."""
        if prefetch:
            self.request(BASIC_QOS, struct.pack(">IH?", 0, prefetch, False))
        bits = bytes((no_ack << 1,))
        given = {**({"x-stream-offset": offset} if offset else {}), **(arguments or {})}
        self.request(BASIC_CONSUME, b"\0\0" + short(queue) + short("c") + bits + table(given))

    def get(self, queue: str) -> Got | None:
        """Take the first message of a queue, which has to be acknowledged; None if there is none.

        Raises:
            Refused: there is no such queue, or this user may not read it.
        """
        self._send(CHANNEL, BASIC_GET, b"\0\0" + short(queue) + b"\0")
        while True:
            kind, payload = self.read_frame()
            found = struct.unpack_from(">HH", payload) if kind == FRAME_METHOD else ()
            if found == BASIC_GET_EMPTY:
                return None
            if found == BASIC_GET_OK:
                break
            if found in (CONNECTION_CLOSE, CHANNEL_CLOSE):
                raise Refused(close_reason(payload))
        tag, redelivered, size = struct.unpack_from(">Q?B", payload, 4)
        exchange = payload[14 : 14 + size]
        key = payload[15 + size : 15 + size + payload[14 + size]]
        properties, body = self._content()
        return Got(tag, redelivered, exchange.decode(), key.decode(), properties, body)

    def _content(self) -> tuple[bytes, bytes]:
        """Read the properties and the body that follow a method."""
        _, header = self.read_frame()
        length = HEADER_HEAD.unpack_from(header)[2]
        body = bytearray()
        while len(body) < length:
            body += self.read_frame()[1]
        return header[HEADER_HEAD.size :], bytes(body)

    def publish(self, exchange: str, key: str, properties: bytes, body: bytes) -> bool:
        """Publish a message and wait until it is confirmed; `select_confirm` came before.

        Returns:
            Whether it came into a queue.

        Raises:
            Refused: the broker does not take it.
        """
        flags = bytes((MANDATORY,))
        frames = [method(CHANNEL, BASIC_PUBLISH, b"\0\0" + short(exchange) + short(key) + flags)]
        head = HEADER_HEAD.pack(BASIC_PUBLISH[0], 0, len(body))
        frames.append(frame(FRAME_HEADER, CHANNEL, head + properties))
        step = self.frame_bytes_max - FRAME_OVERHEAD
        parts = (body[start : start + step] for start in range(0, len(body), step))
        self.sock.sendall(
            b"".join([*frames, *(frame(FRAME_BODY, CHANNEL, part) for part in parts)])
        )
        routed = True
        while True:
            kind, payload = self.read_frame()
            found = struct.unpack_from(">HH", payload) if kind == FRAME_METHOD else ()
            if found == BASIC_RETURN:
                routed = False
                self._content()
            elif found == BASIC_ACK:
                return routed
            elif found == BASIC_NACK:
                raise Refused("the broker refused the message (basic.nack): a queue is full")
            elif found in (CONNECTION_CLOSE, CHANNEL_CLOSE):
                raise Refused(close_reason(payload))

    def acknowledge(self, delivery_tag: int) -> None:
        """Acknowledge one delivery."""
        self.sock.sendall(ack(delivery_tag, multiple=False))

    def select_confirm(self) -> None:
        """Have publishes confirmed from now on."""
        self.request(CONFIRM_SELECT, b"\0")


def connect(address: tuple[str, int], source: str = "", receive_bytes: int = 0) -> socket.socket:
    """A connected socket, from that address and with that receive buffer if they are given."""
    sock = socket.socket()
    try:
        if receive_bytes:
            # Before connecting, since the window's scale is agreed upon then.
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        if source:
            # The port is chosen when connecting: each destination has all ports to itself.
            sock.setsockopt(socket.IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, 1)
            sock.bind((source, 0))
        sock.settimeout(ANSWER_SECONDS)
        sock.connect(address)
    except BaseException:
        sock.close()
        raise
    return sock


def close_reason(payload: bytes) -> str:
    """What a connection.close or channel.close says."""
    code, size = struct.unpack_from(">HB", payload, 4)
    return f"{code} {payload[7 : 7 + size].decode(errors='replace')}"
