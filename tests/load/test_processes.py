import socket
import ssl
import struct
from collections.abc import Iterator
from typing import Any

import pytest

from leporid.amqp.methods import BasicDeliver, ConnectionClose
from leporid.load.amqp import Client, Refused, frame, method
from leporid.load.processes import (
    RECEIVE_BYTES,
    Load,
    LoadFailed,
    Publisher,
    Receiver,
    delivery_size,
)

QUEUES = ("q",)


class Loopback(Client):
    """A client whose broker is the test: `peer` is the other end of its socket."""

    def __init__(self) -> None:
        self.sock, self.peer = socket.socketpair()
        self.peer.settimeout(5)
        self.inbox = bytearray()
        self.frame_bytes_max = 4096

    def request(self, ids: tuple[int, int], arguments: bytes) -> bytes:
        return b""


class Stingy:
    """A socket that takes so much at a time."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self.room = 0

    def send(self, data: bytes) -> int:
        if not self.room:
            raise ssl.SSLWantWriteError
        return self._sock.send(data[: self.room])

    def __getattr__(self, name: str) -> Any:
        return getattr(self._sock, name)


@pytest.fixture
def client() -> Iterator[Loopback]:
    client = Loopback()
    yield client
    client.sock.close()
    client.peer.close()


def delivery(tag: int, body: bytes = b"x" * 10) -> bytes:
    head = BasicDeliver(consumer_tag="c", delivery_tag=tag, exchange="", routing_key="q")
    data = frame(1, 1, head.encode())
    data += frame(2, 1, struct.pack(">HHQH", 60, 0, len(body), 0))
    return data + b"".join(frame(3, 1, body[at : at + 4]) for at in range(0, len(body), 4))


def confirm(tag: int, *, multiple: bool, nack: bool = False) -> bytes:
    return method(1, (60, 120 if nack else 80), struct.pack(">QB", tag, multiple))


# ------------------------------------------------------------------ receiving


def test_delivery_size_needs_the_whole_delivery():
    data = delivery(1)
    for length in range(len(data)):
        assert delivery_size(memoryview(data[:length])) == 0
    assert delivery_size(memoryview(data)) == len(data)
    assert delivery_size(memoryview(data + b"\x01\x00")) == len(data)


@pytest.mark.parametrize("step", [1, 7, 60, 61, 1000])
def test_deliveries_are_counted_however_they_arrive(client: Loopback, step: int):
    receiver = Receiver(client, "q")
    data = b"".join(delivery(tag) for tag in range(1, 11))
    for at in range(0, len(data), step):
        client.peer.sendall(data[at : at + step])
        receiver.receive()
        assert receiver.delivered == min(at + step, len(data)) // len(delivery(1))
    assert receiver.delivered == 10


def test_what_came_with_consume_ok_counts(client: Loopback):
    client.inbox += delivery(1) + delivery(2)[:5]
    receiver = Receiver(client, "q")
    assert receiver.delivered == 1
    client.peer.sendall(delivery(2)[5:])
    receiver.receive()
    assert receiver.delivered == 2


def damaged() -> Iterator[tuple[str, bytes]]:
    good = [delivery(tag) for tag in (1, 2, 3)]
    yield "lost", good[0] + good[2]
    yield "twice", good[0] + good[0]
    yield "other size", good[0] + delivery(2, b"x" * 9) + good[2]
    yield "shifted", good[0] + b"\x08" + good[1]
    yield "no end", good[0] + good[1][:-1] + b"\0"


@pytest.mark.parametrize("data", [pytest.param(data, id=name) for name, data in damaged()])
def test_anything_but_the_next_delivery_stops_the_run(client: Loopback, data: bytes):
    receiver = Receiver(client, "q")
    client.peer.sendall(data + delivery(4)[: len(delivery(4)) - 1])
    with pytest.raises(LoadFailed, match="deliveries of"):
        receiver.receive()


def test_acknowledges_when_enough_came(client: Loopback):
    receiver = Receiver(client, "q", ack_every=3)
    client.peer.sendall(delivery(1) + delivery(2))
    receiver.receive()
    client.peer.sendall(delivery(3) + delivery(4))
    receiver.receive()
    assert client.peer.recv(1000) == confirm(4, multiple=True)


def test_what_the_socket_does_not_take_of_an_acknowledgement_follows(client: Loopback):
    sock = Stingy(client.sock)
    client.sock = sock  # type: ignore[assignment]
    receiver = Receiver(client, "q", ack_every=1)
    sent = b""
    for tag, room in ((1, 0), (2, 5), (3, 100), (4, 100)):
        sock.room = room
        client.peer.sendall(delivery(tag))
        receiver.receive()
    receiver.acknowledge()
    while len(sent) < 2 * len(confirm(1, multiple=True)):
        sent += client.peer.recv(1000)
    # The first was begun, so it is ended; the next one stands for all that came since.
    assert sent == confirm(1, multiple=True) + confirm(4, multiple=True)


def test_a_delivery_may_be_larger_than_what_is_read_at_once(client: Loopback):
    receiver = Receiver(client, "q", ack_every=1)
    data = delivery(1, bytes(200_000)) + delivery(2, bytes(200_000))
    assert len(data) > 4 * RECEIVE_BYTES
    for at in range(0, len(data), 50_000):
        client.peer.sendall(data[at : at + 50_000])
        receiver.receive()
    while receiver.delivered < 2:
        receiver.receive()
    assert client.peer.recv(1000) == confirm(1, multiple=True) + confirm(2, multiple=True)


def test_receiver_notices_the_end(client: Loopback):
    receiver = Receiver(client, "q")
    client.peer.close()
    with pytest.raises(LoadFailed, match="closed a receiver"):
        receiver.receive()


# ------------------------------------------------------------------ publishing


def test_window_bounds_what_is_unconfirmed(client: Loopback):
    publisher = Publisher(client, Load(queues=QUEUES, confirm_window=10), QUEUES)
    assert publisher.block_messages == 5
    publisher.send()
    assert (publisher.published, publisher.wants_to_send) == (10, False)
    client.peer.sendall(confirm(4, multiple=True))
    publisher.receive()
    assert (publisher.confirmed, publisher.wants_to_send) == (4, False)
    client.peer.sendall(confirm(5, multiple=False))
    publisher.receive()
    assert (publisher.confirmed, publisher.wants_to_send) == (5, True)


def test_confirms_count_once_in_any_order(client: Loopback):
    publisher = Publisher(client, Load(queues=QUEUES, confirm_window=100), QUEUES)
    for data, confirmed in [
        (confirm(3, multiple=False), 1),
        (confirm(1, multiple=False), 2),
        (confirm(5, multiple=False), 3),
        (confirm(2, multiple=True), 4),
        (confirm(2, multiple=True), 4),
        (confirm(9, multiple=True), 9),
        (confirm(12, multiple=False) + confirm(10, multiple=False)[:9], 10),
        (confirm(10, multiple=False)[9:], 11),
        (confirm(11, multiple=False), 12),
    ]:
        client.peer.sendall(data)
        publisher.receive()
        assert publisher.confirmed == confirmed


def test_a_refused_message_is_noticed(client: Loopback):
    publisher = Publisher(client, Load(queues=QUEUES, confirm_window=10), QUEUES)
    client.peer.sendall(confirm(1, multiple=False, nack=True))
    publisher.receive()
    assert publisher.refused == 1


def test_a_close_stops_the_run_and_says_why(client: Loopback):
    publisher = Publisher(client, Load(queues=QUEUES), QUEUES)
    close = ConnectionClose(reply_code=320, reply_text="shutdown")
    client.peer.sendall(frame(1, 0, close.encode()))
    with pytest.raises(Refused, match="320 shutdown"):
        publisher.receive()


@pytest.mark.parametrize("messages_max", [1, 7, 100, 1000])
def test_a_load_that_ends_sends_exactly_so_many(client: Loopback, messages_max: int):
    publisher = Publisher(client, Load(queues=QUEUES, messages_max=messages_max), QUEUES)
    received = 0
    while publisher.wants_to_send:
        publisher.send()
        received += len(client.peer.recv(1 << 20))
    client.peer.setblocking(False)
    one = len(publisher.blocks[0]) // publisher.block_messages
    while received < messages_max * one:
        received += len(client.peer.recv(1 << 20))
    assert received == messages_max * one
    assert publisher.published == messages_max


def test_blocks_go_once_through_all_keys(client: Loopback):
    keys = [f"key.{number:04d}" for number in range(1000)]
    publisher = Publisher(client, Load(queues=QUEUES), keys)
    data = b"".join(publisher.blocks)
    assert all(data.count(key.encode()) in (1, 2) for key in keys)
