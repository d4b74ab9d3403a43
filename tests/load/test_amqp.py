import socket
import struct
import threading
from collections.abc import Callable

import pytest

from leporid.amqp.constants import FRAME_END
from leporid.amqp.methods import BasicAck, BasicPublish, ConnectionClose, decode
from leporid.amqp.properties import Properties, decode_properties
from leporid.amqp.tables import decode_table
from leporid.load.amqp import Client, Refused, ack, frame, message, table


def split(data: bytes) -> list[tuple[int, int, bytes]]:
    frames = []
    while data:
        kind, channel, size = struct.unpack_from(">BHI", data)
        assert data[7 + size] == FRAME_END
        frames.append((kind, channel, data[7 : 7 + size]))
        data = data[8 + size :]
    return frames


@pytest.mark.parametrize("persistent", [False, True])
@pytest.mark.parametrize("body_bytes", [0, 1, 100, 4088, 4089, 9000])
def test_message_is_what_the_protocol_says(body_bytes: int, persistent: bool):
    body = bytes(body_bytes)
    data = message("x", "a.b", body, persistent=persistent, frame_bytes_max=4096)
    method, header, *parts = split(data)
    assert decode(method[2]) == BasicPublish(exchange="x", routing_key="a.b")
    assert header[2][:12] == struct.pack(">HHQ", 60, 0, body_bytes)
    assert header[2][12:] == (b"\x10\x00\x02" if persistent else b"\0\0")
    assert [kind for kind, _, _ in parts] == [3] * len(parts)
    assert b"".join(part for _, _, part in parts) == body
    assert all(8 + len(part) <= 4096 for _, _, part in parts)


def test_a_message_may_have_headers():
    for persistent in (False, True):
        data = message(
            "", "k", b"", persistent=persistent, frame_bytes_max=4096, headers={"n": 5, "t": "x"}
        )
        _, header = split(data)
        found = decode_properties(header[2][12:])
        assert found == Properties(
            headers={"n": 5, "t": "x"}, delivery_mode=2 if persistent else None
        )


def test_ack_is_what_the_protocol_says():
    [(kind, channel, payload)] = split(ack(7, multiple=True))
    assert (kind, channel) == (1, 1)
    assert decode(payload) == BasicAck(delivery_tag=7, multiple=True)


def test_table_holds_what_was_put_into_it():
    fields: dict[str, bool | int | str] = {"yes": True, "many": 2**40, "text": "für"}
    encoded = table(fields)
    assert decode_table(encoded) == (fields, len(encoded))


@pytest.fixture
def refusing_broker() -> Callable[[str], str]:
    """Makes a peer that answers a greeting with connection.close; returns its URL."""

    def make(reason: str) -> str:
        listener = socket.create_server(("127.0.0.1", 0))

        def answer() -> None:
            with listener, listener.accept()[0] as peer:
                peer.recv(8)
                close = ConnectionClose(reply_code=403, reply_text=reason)
                peer.sendall(frame(1, 0, close.encode()))
                peer.recv(4096)

        threading.Thread(target=answer, daemon=True).start()
        return f"amqp://127.0.0.1:{listener.getsockname()[1]}"

    return make


def test_refusal_says_why(refusing_broker: Callable[[str], str]):
    with pytest.raises(Refused, match="403 no entry"):
        Client(refusing_broker("no entry"))


def test_other_protocols_are_refused():
    with pytest.raises(ValueError, match="not of the form amqp://"):
        Client("http://localhost")
