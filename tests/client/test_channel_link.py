"""Channels on one connection: answers, the end, and what comes for nobody."""

import asyncio
from typing import Any

import pytest
from tests.client.fake_server import Peer, serving
from tests.client.steps import give_up, link_of

from leporid.amqp.methods import (
    BasicAck,
    BasicCancel,
    BasicCancelOk,
    BasicConsumeOk,
    BasicDeliver,
    BasicNack,
    BasicPublish,
    BasicQosOk,
    BasicReturn,
    ChannelClose,
    ChannelCloseOk,
    ChannelFlow,
    ChannelFlowOk,
    ChannelOpenOk,
    ConfirmSelectOk,
    ConnectionBlocked,
    ConnectionUnblocked,
    QueueDeclareOk,
)
from leporid.client import Channel, NotFound, Queue, Timeout, connect
from leporid.client.events import Event

pytestmark = pytest.mark.slow

QUICK: dict[str, Any] = {"robust": False, "connect_timeout_s": 0.5, "answer_timeout_s": 0.5}


async def forever():
    await asyncio.Event().wait()


async def test_a_timeout_says_what_was_waited_for():
    async def script(peer: Peer):
        await peer.log_in()
        await peer.open_channel()
        await peer.method()
        await peer.method()
        # The answer to the first comes late, and is not taken for that of the second.
        peer.send(QueueDeclareOk("first", 1, 0))
        peer.send(QueueDeclareOk("second", 2, 0))
        await forever()

    async with serving(script) as url:
        connection = await connect(url, **QUICK | {"answer_timeout_s": 0.2})
        channel = await connection.channel()
        with pytest.raises(Timeout, match=r"queue\.declare-ok after queue\.declare on channel 1"):
            await channel.queue("first")
        second = await channel.queue("second")
        assert (second.name, second.message_count) == ("second", 2)
        give_up(connection)
        await connection.close()


async def test_a_close_that_crosses_ours():
    async def script(peer: Peer):
        await peer.log_in()
        await peer.open_channel()
        assert isinstance(await peer.method(), ChannelClose)
        peer.send(ChannelClose(406, "PRECONDITION_FAILED", 60, 80))
        assert await peer.method() == ChannelCloseOk()
        peer.send(ChannelCloseOk())
        await peer.open_channel()
        await forever()

    async with serving(script) as url:
        connection = await connect(url, **QUICK)
        channel = await connection.channel()
        await channel.close()
        await connection.channel()
        give_up(connection)
        await connection.close()


async def test_flow_and_blocked_hold_publishes_back():
    told: asyncio.Queue[str] = asyncio.Queue()
    seen_waiting = asyncio.Event()

    async def script(peer: Peer):
        await peer.log_in()
        await peer.open_channel()
        peer.send(ChannelFlow(False))
        assert await peer.method() == ChannelFlowOk(False)
        await told.put("held")
        await seen_waiting.wait()
        seen_waiting.clear()
        peer.send(ChannelFlow(True))
        assert await peer.method() == ChannelFlowOk(True)
        assert isinstance(await peer.method(), BasicPublish)
        peer.send(BasicAck(1, False))
        peer.send(ConnectionBlocked("low on memory"), 0)
        await told.put("blocked")
        await seen_waiting.wait()
        peer.send(ConnectionUnblocked(), 0)
        assert isinstance(await peer.method(), BasicPublish)
        peer.send(BasicAck(2, False))
        await forever()

    async def publish_when_let_go(channel: Channel, body: bytes):
        publishing = asyncio.create_task(channel.default_exchange.publish(body, "q"))
        async with asyncio.timeout(5):
            while not channel.publishing.gate:
                await asyncio.sleep(0)
            seen_waiting.set()
            await publishing

    async with serving(script) as url:
        connection = await connect(url, **QUICK)
        channel = await connection.channel()
        assert await told.get() == "held"
        await publish_when_let_go(channel, b"1")
        assert await told.get() == "blocked"
        while not connection.is_blocked:
            await asyncio.sleep(0)
        await publish_when_let_go(channel, b"2")
        give_up(connection)
        await connection.close()


async def test_a_return_that_no_publish_waits_for_is_told():
    from leporid.client.events import Unroutable

    seen: list[Event] = []

    async def script(peer: Peer):
        await peer.log_in()
        await peer.open_channel()
        peer.send(BasicReturn(312, "NO_ROUTE", "x", "k"))
        peer.content(b"body")
        await peer.method()
        peer.send(QueueDeclareOk("q", 0, 0))
        await forever()

    async with serving(script) as url:
        connection = await connect(url, **QUICK, on_event=seen.append)
        channel = await connection.channel()
        await channel.queue("q")
        assert Unroutable("x", "k", "NO_ROUTE") in seen
        give_up(connection)
        await connection.close()


async def test_opening_that_is_given_up_leaves_no_channel(url):
    async with connect(url) as connection:
        kept = await connection.channel()
        for _ in range(3):
            opening = asyncio.ensure_future(connection.channel().__aenter__())
            await asyncio.sleep(0)
            opening.cancel()
            await asyncio.wait([opening])
        queue = await kept.queue(exclusive=True)
        await queue.count()
        async with connection.channel():
            assert len(link_of(connection).channels) == 2


async def test_deliveries_behind_the_answer_to_a_cancel_go_back():
    nacked = asyncio.get_running_loop().create_future()

    async def script(peer: Peer):
        await peer.log_in()
        await peer.open_channel()
        await peer.method()
        peer.send(BasicQosOk())
        await peer.method()
        peer.send(BasicConsumeOk("c1"))
        assert isinstance(await peer.method(), BasicCancel)
        peer.send(BasicCancelOk("c1"))
        peer.send(BasicDeliver("c1", 1, False, "", "q"))
        peer.content(b"late")
        nacked.set_result(await peer.method())
        await peer.reader.read()

    async with serving(script) as url:
        connection = await connect(url, **QUICK)
        channel = await connection.channel()
        async with Queue(channel, "q", None).consume():
            pass
        assert await asyncio.wait_for(nacked, 5) == BasicNack(1, False, True)
        give_up(connection)
        await connection.close()


async def test_what_comes_behind_the_close_of_a_channel_is_for_nobody():
    async def script(peer: Peer):
        await peer.log_in()
        await peer.open_channel()
        await peer.method()
        peer.send(ChannelClose(404, "NOT_FOUND", 50, 10))
        await peer.method()
        peer.send(BasicDeliver("c1", 1, False, "", "q"))
        peer.content(b"late")
        # Its number is not used again so soon.
        _, number, _ = await peer.receive()
        assert number == 2
        peer.send(ChannelOpenOk(), 2)
        await peer.method()
        peer.send(ConfirmSelectOk(), 2)
        await peer.method()
        peer.send(QueueDeclareOk("q", 0, 0), 2)
        await peer.reader.read()

    async with serving(script) as url:
        connection = await connect(url)
        channel = await connection.channel()
        with pytest.raises(NotFound):
            await channel.queue("gone")
        assert (await asyncio.wait_for(channel.queue("q"), 5)).name == "q"
        give_up(connection)
        await connection.close()


async def test_opening_a_channel_that_is_given_up_waits_for_nothing():
    async def script(peer: Peer):
        await peer.log_in()
        _, number, _ = await peer.receive()
        peer.send(ChannelOpenOk(), number)
        # confirm.select and channel.close are not answered.
        await forever()

    async with serving(script) as url:
        connection = await connect(url)
        async with asyncio.timeout(5):
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(connection.channel().__aenter__(), 0.05)
        give_up(connection)
        await connection.close()
