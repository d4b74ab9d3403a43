"""How large a frame may be, as clients that misread the limit need it.

`frame_max` counts the whole frame: 7 octets of head, the payload and 1 octet of end (AMQP 0-9-1
4.2.3). Some clients, AMQPStorm and rabbitpy among them, take it for the payload's limit. RabbitMQ
accepts such frames.
"""

import struct
import urllib.parse
from collections.abc import AsyncIterator, Callable

import pytest
import pytest_asyncio
from tests.conformance.marks import differs
from tests.server.client import Client

from leporid.amqp.constants import CLASS_BASIC, FRAME_BODY, FRAME_HEADER, FRAME_METHOD
from leporid.amqp.frames import frame, method_frame
from leporid.amqp.methods import (
    BasicConsume,
    BasicConsumeOk,
    BasicPublish,
    ConnectionClose,
    ConnectionStartOk,
    ConnectionTune,
    QueueDeclare,
    QueueDeclareOk,
)
from leporid.amqp.properties import Properties, encode_properties
from leporid.amqp.tables import Value

KINDS = {"method": FRAME_METHOD, "header": FRAME_HEADER, "body": FRAME_BODY}


def port_of(url: str) -> int:
    """Return the port of an AMQP URL."""
    port = urllib.parse.urlsplit(url).port
    assert port is not None
    return port


@pytest_asyncio.fixture
async def client(broker_url: str, name: Callable[[str], str]) -> AsyncIterator[Client]:
    """A peer that says what a test tells it to.

    Asking for `name` makes that fixture clean up after this connection is gone.
    """
    client = await Client.connect(port_of(broker_url))
    yield client
    client.close()


def declare(queue: str, size: int) -> bytes:
    """Return a queue.declare whose frame has a payload of that size."""

    def encoded(filler: int) -> bytes:
        arguments: dict[str, Value] = {"x-filler": "a" * filler}
        return QueueDeclare(queue=queue, exclusive=True, arguments=arguments).encode()

    return encoded(size - len(encoded(0)))


def header(size: int, body_size: int) -> bytes:
    """Return a content header whose frame has a payload of that size."""

    def encoded(filler: int) -> bytes:
        head = struct.pack(">HHQ", CLASS_BASIC, 0, body_size)
        return head + encode_properties(Properties(headers={"filler": "a" * filler}))

    return encoded(size - len(encoded(0)))


async def send(client: Client, queue: str, kind: str, size: int) -> bytes:
    """Declare a queue and publish to it; one frame has a payload of `size` bytes."""
    body = b"b" * (size if kind == "body" else 1)
    await client.write(
        frame(FRAME_METHOD, 1, declare(queue, size if kind == "method" else 100))
        + method_frame(1, BasicPublish(routing_key=queue))
        + frame(FRAME_HEADER, 1, header(size if kind == "header" else 100, len(body)))
        + frame(FRAME_BODY, 1, body)
    )
    return body


@pytest.mark.parametrize("frame_max", [4096, 131072])
@pytest.mark.parametrize("kind", KINDS)
async def test_a_payload_may_be_as_large_as_frame_max(
    client: Client, name: Callable[[str], str], frame_max: int, kind: str
):
    queue = name("frames")
    await client.log_in(frame_max=frame_max)
    body = await send(client, queue, kind, frame_max)
    await client.hear(QueueDeclareOk)
    await client.call(BasicConsume(queue=queue, no_ack=True), BasicConsumeOk)
    sizes = []
    received = b""
    while received != body:
        frame_kind, _, payload = await client.frame()
        if frame_kind == FRAME_BODY:
            received += payload
            sizes.append(len(payload))
    # The broker's own frames keep to the specification. A header cannot be split.
    assert sizes == ([frame_max - 8, 8] if kind == "body" else [1])


@pytest.mark.parametrize("frame_max", [4096, 131072])
@pytest.mark.parametrize("kind", KINDS)
async def test_one_octet_more_is_refused(
    client: Client, name: Callable[[str], str], frame_max: int, kind: str
):
    queue = name("frames")
    await client.log_in(frame_max=frame_max)
    await send(client, queue, kind, frame_max + 1)
    if kind != "method":
        await client.hear(QueueDeclareOk)
    close = await client.hear(ConnectionClose)
    found = f"{{frame_too_large,{frame_max + 1},{frame_max - 8}}}"
    assert close.reply_code == 501
    assert close.reply_text == f"FRAME_ERROR - type {KINDS[kind]}, all octets = <<>>: {found}"


async def log_in_with(client: Client, size: int) -> None:
    """Say a connection.start-ok whose frame has a payload of that size."""

    def encoded(filler: int) -> bytes:
        client_properties: dict[str, Value] = {"filler": "a" * filler}
        return ConnectionStartOk(client_properties, response=b"\0guest\0guest").encode()

    await client.greet()
    await client.write(frame(FRAME_METHOD, 0, encoded(size - len(encoded(0)))))


async def test_a_frame_before_tuning_may_have_4096_octets(client: Client):
    """That is the least that everybody must accept (AMQP 0-9-1 4.2.3)."""
    await log_in_with(client, 4096)
    await client.hear(ConnectionTune)


@differs
async def test_a_frame_before_tuning_may_have_8192_octets(client: Client, broker_url: str):
    await log_in_with(client, 8192)
    await client.hear(ConnectionTune)
    client.close()
    client = await Client.connect(port_of(broker_url))
    await client.greet()
    # The head alone: a socket that is closed while there is something to read is reset.
    await client.write(struct.pack(">BHI", FRAME_METHOD, 0, 8193))
    await client.ends()
    client.close()
