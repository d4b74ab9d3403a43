"""How much is unconfirmed, and what is written again after a connection was lost."""

import asyncio

import pytest
from tests.client.fake_server import Peer, serving
from tests.client.steps import give_up, link_of

from leporid.amqp.methods import (
    BasicAck,
    BasicPublish,
    ChannelFlow,
    ChannelFlowOk,
    ConnectionBlocked,
    ConnectionUnblocked,
    decode,
)
from leporid.client import Backoff, connect
from leporid.client.events import Event, Resent

pytestmark = pytest.mark.slow

SOON = Backoff(first_s=0.01, longest_s=0.05)
BODY = bytes(3000)


async def publishes_before_flow(peer: Peer) -> int:
    """How many publishes come before the answer to a channel.flow, and so without a confirm."""
    peer.send(ChannelFlow(True))
    count = 0
    while True:
        kind, _, payload = await peer.receive()
        if kind == 1:
            method = decode(payload)
            if method == ChannelFlowOk(True):
                return count
            count += isinstance(method, BasicPublish)


@pytest.mark.parametrize("how", ["publish", "publish_many"])
async def test_only_so_many_bytes_are_unconfirmed_at_a_time(how):
    most: list[int] = []

    async def script(peer: Peer):
        await peer.log_in()
        await peer.open_channel()
        # The first one says that there are some.
        assert isinstance(await peer.method(), BasicPublish)
        came, confirmed = 1, 0
        while confirmed < 20:
            came += await publishes_before_flow(peer)
            most.append(came - confirmed)
            confirmed = came
            peer.send(BasicAck(confirmed, True))
        await peer.reader.read()

    async with serving(script) as url:
        # The fourth message passes the limit, and is the last one.
        connection = await connect(url, unconfirmed_bytes_max=10_000)
        channel = await connection.channel()
        exchange = channel.default_exchange
        async with asyncio.timeout(10):
            if how == "publish":
                await asyncio.gather(*(exchange.publish(BODY, "q") for _ in range(20)))
            else:
                assert await exchange.publish_many([BODY] * 20, "q") == 20
        assert max(most) == 4
        give_up(connection)
        await connection.close()


async def test_what_is_unconfirmed_is_written_again_in_pieces_before_anything_new():
    """Also when the broker blocks in the middle of it: calls go on meanwhile."""
    connections: list[Peer] = []
    bodies: list[bytes] = []
    count, size = 40, 100_000
    blocked, resumed = asyncio.Event(), asyncio.Event()

    async def script(peer: Peer):
        connections.append(peer)
        await peer.log_in()
        await peer.open_channel()
        if len(connections) == 1:
            for _ in range(count):
                assert isinstance(await peer.method(), BasicPublish)
            peer.writer.close()
            return
        peer.send(ConnectionBlocked("no memory"), 0)
        blocked.set()
        await resumed.wait()
        peer.send(ConnectionUnblocked(), 0)
        body = b""
        while len(bodies) <= count:
            kind, _, payload = await peer.receive()
            body += payload if kind == 3 else b""
            if len(body) == size or body == b"new":
                bodies.append(body[:2])
                body = b""
                peer.send(BasicAck(len(bodies), False))
        await peer.reader.read()

    events: list[Event] = []
    async with serving(script) as url:
        connection = await connect(url, backoff=SOON, on_event=events.append)
        channel = await connection.channel()
        exchange = channel.default_exchange
        async with asyncio.timeout(20), asyncio.TaskGroup() as tasks:
            for number in range(count):
                tasks.create_task(exchange.publish(b"%02d" % number * (size // 2), "q"))
            await blocked.wait()
            while not connection.is_open:
                await asyncio.sleep(0.001)
            tasks.create_task(exchange.publish(b"new", "q"))
            for _ in range(20):
                await asyncio.sleep(0)
                # Never all bodies at a time.
                assert len(link_of(connection).codec.output) < 2 * size
            resumed.set()
        assert bodies == [*(b"%02d" % number for number in range(count)), b"ne"]
        assert [each.count for each in events if isinstance(each, Resent)] == [count]
        give_up(connection)
        await connection.close()
