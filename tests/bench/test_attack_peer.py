import socket
import struct
import threading

import pytest
from bench.attacks import peer as peer_module
from bench.attacks.peer import (
    Peer,
    consume,
    exchange_bind,
    exchange_declare,
    publish,
    queue_bind,
    queue_declare,
)

from leporid.amqp.methods import (
    BasicConsume,
    BasicPublish,
    ConnectionClose,
    ExchangeBind,
    ExchangeDeclare,
    QueueBind,
    QueueDeclare,
    decode,
)
from leporid.amqp.properties import decode_properties
from leporid.load.amqp import FRAME_HEAD, frame, method, short


def payload_of(data: bytes) -> bytes:
    _, _, size = FRAME_HEAD.unpack_from(data)
    assert len(data) == size + 8
    return data[7:-1]


def test_definitions_are_what_the_protocol_says():
    assert decode(payload_of(queue_declare("q", flags="de"))) == QueueDeclare(
        queue="q", durable=True, exclusive=True, no_wait=True, arguments={}
    )
    assert decode(payload_of(queue_declare("q", flags="a"))) == QueueDeclare(
        queue="q", auto_delete=True, no_wait=True, arguments={}
    )
    assert decode(payload_of(exchange_declare("x", "topic"))) == ExchangeDeclare(
        exchange="x", type="topic", no_wait=True, arguments={}
    )
    assert decode(payload_of(queue_bind("q", "x", "k"))) == QueueBind(
        queue="q", exchange="x", routing_key="k", no_wait=True, arguments={}
    )
    assert decode(payload_of(exchange_bind("to", "from", "k"))) == ExchangeBind(
        destination="to", source="from", routing_key="k", no_wait=True, arguments={}
    )
    assert decode(payload_of(consume("q", "c", no_ack=True))) == BasicConsume(
        queue="q", consumer_tag="c", no_ack=True, no_wait=True, arguments={}
    )


def test_a_message_is_what_the_protocol_says():
    data = publish("x", "k", b"abcdef", headers={"a": 1}, expiration_ms=77, frame_bytes_max=12)
    frames = []
    while data:
        kind, _, size = FRAME_HEAD.unpack_from(data)
        frames.append((kind, data[7 : 7 + size]))
        data = data[8 + size :]
    assert decode(frames[0][1]) == BasicPublish(exchange="x", routing_key="k")
    properties = decode_properties(frames[1][1][12:])
    assert properties.expiration == "77"
    assert properties.headers == {"a": 1}
    assert [body for _, body in frames[2:]] == [b"abcd", b"ef"]


@pytest.fixture
def pair(monkeypatch: pytest.MonkeyPatch):
    """A peer whose handshake is over, and the broker's end of its connection."""
    ours, theirs = socket.socketpair()
    said: list[str] = []
    monkeypatch.setattr("leporid.load.amqp.connect", lambda *_: ours)
    monkeypatch.setattr(socket.socket, "setsockopt", lambda *_: None)
    monkeypatch.setattr(Peer, "_log_in", lambda *_: None)
    with Peer("amqp://localhost", patience_seconds=10, note=said.append) as peer, theirs:
        yield peer, theirs, said


def test_more_than_a_socket_takes_is_sent_while_it_is_read(pair):
    peer, theirs, said = pair
    data = bytes(5_000_000)
    received: list[bytes] = []

    def read() -> None:
        while sum(len(one) for one in received) < len(data):
            received.append(theirs.recv(65536))

    reader = threading.Thread(target=read)
    reader.start()
    assert peer.push(data)
    reader.join()
    assert said == []


def test_a_broker_that_reads_nothing_is_given_up(pair, monkeypatch: pytest.MonkeyPatch):
    peer, _, said = pair
    monkeypatch.setattr(peer_module, "STUCK_SECONDS", 0.01)
    assert not peer.push(bytes(5_000_000))
    assert said == ["the broker no longer reads the attacker"]


def test_what_a_broker_says_when_it_closes_is_told(pair):
    peer, theirs, said = pair
    close = ConnectionClose(reply_code=506, reply_text="RESOURCE_ERROR - too many")
    theirs.sendall(method(1, (60, 21), short("c")) + frame(1, 0, close.encode()))
    peer.swallow(5)
    assert said == ["506 RESOURCE_ERROR - too many"]
    assert peer.gone
    assert peer.received[60, 21] == 1
    assert not peer.push(b"more")
    assert not peer.settle()


def test_a_connection_that_is_cut_is_told(pair):
    peer, theirs, said = pair
    theirs.close()
    peer.swallow(5)
    assert peer.gone
    assert said == ["the broker closed the attacker's connection"]


def test_settling_waits_until_the_broker_has_handled_what_came_before(pair):
    peer, theirs, _ = pair
    theirs.sendall(frame(1, 1, struct.pack(">HH", 60, 11)))
    assert peer.settle()
    assert theirs.recv(65536) == method(1, (60, 10), struct.pack(">IH?", 0, 0, False))
