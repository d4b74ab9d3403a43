"""Links, against servers that do what no broker should."""

import asyncio
import socket
import struct
from typing import Any

import pytest
from tests.client.fake_server import Peer, serving
from tests.client.steps import got, link_of

from leporid.amqp.constants import PROTOCOL_HEADER
from leporid.amqp.frames import frame, method_frame
from leporid.amqp.methods import (
    BasicAck,
    BasicConsumeOk,
    BasicDeliver,
    BasicGetOk,
    BasicQosOk,
    ChannelClose,
    ChannelCloseOk,
    ChannelOpenOk,
    ConnectionClose,
    ConnectionOpenOk,
    ConnectionStart,
    ConnectionTune,
    QueueDeclareOk,
)
from leporid.client import (
    Backoff,
    ClientError,
    ConnectionLost,
    LocalProtocolError,
    RemoteProtocolError,
    ResourceLocked,
    ServerClosed,
    connect,
)
from leporid.client.link import Link

pytestmark = pytest.mark.slow

QUICK: dict[str, Any] = {"robust": False, "connect_timeout_s": 0.5, "answer_timeout_s": 0.5}
START = ConnectionStart(server_properties={"product": "Fake", "version": "1"})


async def forever():
    await asyncio.Event().wait()


# What is sent after each step of the log-in instead of what is due; b"" closes.
GARBAGE = {
    "nothing": None,
    "closed": b"",
    "garbage": b"HTTP/1.1 400 Bad Request\r\n\r\n",
    "another version": b"AMQP\0\1\0\0",
    "half a frame": method_frame(0, START)[:20],
    "no end": method_frame(0, START)[:-1] + b"\0",
    "too large": struct.pack(">BHI", 1, 0, 1 << 31),
    "unknown method": frame(1, 0, b"\0\x0a\xff\xff"),
    "cut short": frame(1, 0, b"\0\x0a\0\x0a\0"),
    "empty method": frame(1, 0, b""),
    "wrong method": method_frame(0, QueueDeclareOk()),
    "content on channel 0": frame(2, 0, bytes(14)),
    "unknown channel": method_frame(7, ChannelOpenOk()),
    "close": method_frame(0, ConnectionClose(541, "INTERNAL_ERROR")),
}


@pytest.mark.parametrize("step", range(4))
@pytest.mark.parametrize("kind", GARBAGE)
async def test_a_broken_log_in_raises_in_time_and_leaves_nothing_open(step, kind):
    ended = asyncio.Event()

    async def script(peer: Peer):
        async def steps():
            yield
            assert await peer.reader.readexactly(8) == PROTOCOL_HEADER
            peer.send(START, 0)
            yield
            await peer.method()
            peer.send(ConnectionTune(10, 8192, 0), 0)
            yield
            await peer.method()
            await peer.method()
            peer.send(ConnectionOpenOk(), 0)
            yield

        async for number in _numbered(steps()):
            if number == step:
                break
        sent = GARBAGE[kind]
        if sent == b"":
            return
        if sent is not None:
            peer.writer.write(sent)
        # The client hangs up.
        while await peer.reader.read(1000):
            pass
        ended.set()

    async with serving(script) as url:
        loop = asyncio.get_running_loop()
        start = loop.time()
        if step == 3:
            connection = await connect(url, **QUICK)
            with pytest.raises(ClientError):
                await connection.channel()
            await connection.close()
        else:
            with pytest.raises(ClientError) as caught:
                await connect(url, **QUICK)
            assert str(caught.value)
        assert loop.time() - start < 5
        if kind != "closed":
            await asyncio.wait_for(ended.wait(), 5)


async def _numbered(steps):
    number = 0
    async for _ in steps:
        yield number
        number += 1


async def drained(consumer):
    return [message async for message in consumer]


DELIVER = method_frame(1, BasicDeliver("c1", 1, False, "", "k"))
HEADER = frame(2, 1, struct.pack(">HHQH", 60, 0, 4, 0))
BODY = frame(3, 1, b"body")
BROKEN_DELIVERIES = {
    "a method for content": DELIVER + DELIVER,
    "a body for a header": DELIVER + BODY,
    "a header for a method": HEADER,
    "a body for a method": BODY,
    "a body too long": DELIVER + HEADER + frame(3, 1, b"too long"),
    "another class": DELIVER + frame(2, 1, struct.pack(">HHQH", 50, 0, 4, 0)),
    "a header cut short": DELIVER + frame(2, 1, b"\0\x3c"),
    "a deliver cut short": frame(1, 1, b"\0\x3c\0\x3c\x05c"),
    "a deliver without names": frame(1, 1, b"\0\x3c\0\x3c\x02c1" + bytes(9)),
    "a get-ok that nobody asked for": method_frame(1, BasicGetOk(1, False, "", "k", 0))
    + HEADER
    + BODY,
    "a return cut short": frame(1, 1, b"\0\x3c\0\x32\x01"),
    "an unknown consumer": method_frame(1, BasicDeliver("other", 1, False, "", "k"))
    + HEADER
    + BODY,
    "a huge body": DELIVER + frame(2, 1, struct.pack(">HHQH", 60, 0, 1 << 40, 0)),
    "the same tag again": (DELIVER + HEADER + BODY) * 2,
    "a tag far away": method_frame(1, BasicDeliver("c1", 1 << 60, False, "", "k")) + HEADER + BODY,
    "a confirm of nothing": method_frame(1, BasicAck(5, False)),
    "a confirm cut short": frame(1, 1, b"\0\x3c\0\x50\0"),
    "an answer to nothing": method_frame(1, QueueDeclareOk("q", 0, 0)),
}


@pytest.mark.parametrize("split", [False, True], ids=["whole", "byte by byte"])
@pytest.mark.parametrize("kind", BROKEN_DELIVERIES)
async def test_a_broken_broker_ends_the_iteration(kind, split):
    async def script(peer: Peer):
        await peer.log_in()
        await peer.open_channel()
        await peer.method()
        peer.send(QueueDeclareOk("q", 0, 0))
        await peer.method()
        peer.send(BasicQosOk())
        await peer.method()
        peer.send(BasicConsumeOk("c1"))
        data = BROKEN_DELIVERIES[kind]
        for part in [data[n : n + 1] for n in range(len(data))] if split else [data]:
            peer.writer.write(part)
            await asyncio.sleep(0)
        await forever()

    async with serving(script) as url:
        connection = await connect(url, **QUICK)
        channel = await connection.channel()
        queue = await channel.queue("q")
        with pytest.raises(RemoteProtocolError):
            await asyncio.wait_for(drained(queue.consume()), 5)
        await connection.close()


async def test_a_table_bomb_in_the_properties_is_refused_when_it_is_looked_at():
    # Tables within tables, deeper than a decoder may go.
    bomb = b""
    for _ in range(200):
        inner = b"\x01xF" + struct.pack(">I", len(bomb)) + bomb
        bomb = inner
    raw = b"\x20\0" + struct.pack(">I", len(bomb)) + bomb

    async def script(peer: Peer):
        await peer.log_in()
        await peer.open_channel()
        await peer.method()
        peer.send(BasicGetOk(1, False, "", "k", 0))
        peer.writer.write(frame(2, 1, struct.pack(">HHQ", 60, 0, 4) + raw) + BODY)
        await forever()

    async with serving(script) as url:
        connection = await connect(url, **QUICK)
        channel = await connection.channel()
        from leporid.client.queue import Queue

        message = await got(Queue(channel, "q", None))
        assert message.body == b"body"
        with pytest.raises(RemoteProtocolError, match="nested deeper"):
            _ = message.headers
        await connection.close()


async def test_a_close_is_an_error_by_its_code():
    async def script(peer: Peer):
        await peer.log_in()
        await peer.open_channel()
        await peer.method()
        peer.send(ChannelClose(405, "RESOURCE_LOCKED - of another", 50, 10))
        assert await peer.method() == ChannelCloseOk()
        await peer.method()
        peer.send(ConnectionClose(599, "UNKNOWN - code", 0, 0), 0)
        await forever()

    async with serving(script) as url:
        connection = await connect(url, **QUICK)
        channel = await connection.channel()
        with pytest.raises(ResourceLocked) as caught:
            await channel.queue("q")
        error = caught.value
        assert (error.code, error.class_id, error.method_id) == (405, 50, 10)
        assert error.method == "queue.declare"
        assert "RESOURCE_LOCKED - of another" in error.text
        # Not robust: the channel stays closed, and says why.
        with pytest.raises(ResourceLocked):
            await channel.queue("q")
        with pytest.raises(ServerClosed) as unknown:
            await connection.channel()
        assert (type(unknown.value), unknown.value.code) == (ServerClosed, 599)
        await connection.close()


async def test_a_silent_broker_is_given_up():
    async def script(peer: Peer):
        await peer.log_in(ConnectionTune(10, 8192, 1))
        await forever()

    async with serving(script) as url:
        connection = await connect(url, robust=False, heartbeat_s=1)
        async with asyncio.timeout(10):
            while connection.is_open:
                await connection.changed()
        with pytest.raises(ConnectionLost, match=r"sent nothing for \d+\.\d s"):
            await connection.channel()
        await connection.close()


async def test_larger_frames_than_agreed_upon_are_refused_and_none_are_sent():
    sizes = []

    async def script(peer: Peer):
        await peer.log_in(ConnectionTune(10, 4096, 0))
        await peer.open_channel()
        got = 0
        await peer.receive()
        await peer.receive()
        while got < 10_000:
            _, _, payload = await peer.receive()
            sizes.append(len(payload) + 8)
            got += len(payload)
        peer.send(BasicAck(1, False))
        await peer.method()
        peer.writer.write(struct.pack(">BHI", 1, 1, 4089))
        await forever()

    async with serving(script) as url:
        connection = await connect(url, **QUICK)
        channel = await connection.channel()
        await channel.default_exchange.publish(bytes(10_000), "q")
        assert max(sizes) == 4096
        with pytest.raises(LocalProtocolError, match="one frame of 4096 bytes"):
            await channel.default_exchange.publish(b"", "q", headers={"x": "x" * 4096})
        with pytest.raises(RemoteProtocolError, match="4089 bytes, more than the 4088"):
            await channel.queue("q")
        await connection.close()


async def test_closing_that_is_given_up_leaves_no_socket():
    closed = asyncio.get_running_loop().create_future()

    async def script(peer: Peer):
        await peer.log_in()
        assert isinstance(await peer.method(), ConnectionClose)
        # No answer: only the end of the socket ends this.
        closed.set_result(await peer.reader.read())

    async with serving(script) as url:
        connection = await connect(url)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(connection.close(), 0.05)
        assert await asyncio.wait_for(closed, 5) == b""
        await connection.close()


async def test_a_broker_that_closes_and_reads_no_more_keeps_no_socket():
    """What is written to it cannot leave any more; close() does not leave that behind."""
    links: list[Link] = []

    async def script(peer: Peer):
        await peer.log_in()
        if links:
            return
        await peer.open_channel()
        peer.writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        peer.reader._transport.pause_reading()  # type: ignore[attr-defined]
        await full.wait()
        peer.send(ConnectionClose(320, "CONNECTION_FORCED", 0, 0), 0)
        await asyncio.Event().wait()

    full = asyncio.Event()
    async with serving(script) as url:
        connection = await connect(url, backoff=Backoff(30, 30))
        channel = await connection.channel(confirms=False)
        link = link_of(connection)
        await channel.default_exchange.publish(bytes(20_000_000), "q")
        full.set()
        while link.error is None:
            await asyncio.sleep(0.001)
        links.append(link)
        await asyncio.wait_for(connection.close(), 10)
        await asyncio.wait_for(link.ended(), 0.5)
