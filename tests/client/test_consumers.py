"""The consumers of a channel, when it comes back."""

import asyncio
import contextlib
import gc
import weakref

import pytest
from tests.client.fake_server import Peer, serving
from tests.client.steps import before_calls, cut, give_up

from leporid.amqp.methods import (
    BasicConsumeOk,
    BasicQos,
    BasicQosOk,
    ChannelClose,
    ChannelCloseOk,
)
from leporid.client import Backoff, NotFound, Queue, connect
from leporid.client.consumers import Consumers
from leporid.client.events import Event, Restored

pytestmark = pytest.mark.slow

SOON = Backoff(first_s=0.01, longest_s=0.05)


async def test_only_those_that_somebody_holds(url):
    async with connect(url) as connection, connection.channel() as channel:
        queue = await channel.queue(exclusive=True)
        held, dropped = queue.consume(), queue.consume()
        consumers = Consumers()
        assert (consumers.new_tag(), consumers.new_tag()) == ("c1", "c2")
        consumers.add(held)
        consumers.add(dropped)
        tag = dropped.consumer_tag
        assert consumers.get(tag) is dropped
        del dropped
        assert list(consumers) == [held]
        assert consumers.pop(tag) is None
        assert repr(consumers) == "<Consumers, 1>"
        consumers.end(NotFound(404, "gone", 0, 0, connection=False))
        assert held.inbox.ended
        assert len(consumers) == 0


async def test_a_consumer_that_is_cancelled_while_it_is_restored_does_not_begin(url, monkeypatch):
    async with connect(url, backoff=SOON) as connection:
        channel = await connection.channel()
        queue = await channel.queue(exclusive=True)
        consumer = queue.consume()
        await consumer.begin()
        cancelling = before_calls(monkeypatch, channel, BasicQos, consumer.cancel)
        cut(connection)
        await asyncio.wait_for(queue.count(), 10)
        await asyncio.gather(*cancelling)
        await queue.count()
        assert queue.consumer_count == 0
        assert [message async for message in consumer] == []


async def test_a_consumer_is_not_blamed_for_what_closed_its_channel_while_it_began():
    async def script(peer: Peer):
        await peer.log_in()
        await peer.open_channel()
        assert isinstance(await peer.method(), BasicQos)
        peer.send(BasicQosOk())
        peer.send(ChannelClose(404, "NOT_FOUND", 50, 10))
        assert isinstance(await peer.method(), ChannelCloseOk)
        await peer.open_channel()
        await peer.method()
        peer.send(BasicQosOk(), 2)
        await peer.method()
        peer.send(BasicConsumeOk("c1"), 2)
        await peer.reader.read()

    async with serving(script) as url:
        connection = await connect(url, backoff=SOON)
        channel = await connection.channel()
        consumer = Queue(channel, "q", None).consume()
        await asyncio.wait_for(consumer.begin(), 10)
        give_up(connection)
        await connection.close()


async def test_a_consumer_that_failed_is_held_by_nobody(url, name):
    async with connect(url) as connection, connection.channel() as channel:
        gone = await channel.queue(name, auto_delete=True, durable=False)
        await gone.delete()
        consumer = gone.consume()
        reference = weakref.ref(consumer)
        gc.disable()
        try:
            with contextlib.suppress(NotFound):
                await anext(aiter(consumer))
            del consumer
            await channel.queue(exclusive=True)
            assert reference() is None
        finally:
            gc.enable()


async def test_many_consumers_that_are_refused_end_and_the_others_go_on(url, name):
    seen: list[Event] = []
    async with (
        connect(url) as helper,
        helper.channel() as admin,
        connect(url, backoff=SOON, on_event=seen.append) as connection,
    ):
        channel = await connection.channel()
        gone = await admin.queue(name, durable=False, auto_delete=True)
        there = await channel.queue(f"{name}-there", exclusive=True)
        passive = await channel.queue(name, passive=True)
        refused = [passive.consume() for _ in range(20)]
        kept = there.consume()
        for consumer in (*refused, kept):
            await consumer.begin()
        opener = connection._opener

        async def deleted_first(*arguments):
            connection._opener = opener
            await gone.delete()
            return await opener(*arguments)

        connection._opener = deleted_first
        cut(connection)
        await channel.default_exchange.publish(b"1", there.name)
        message = await asyncio.wait_for(anext(aiter(kept)), 10)
        await message.ack()
        for consumer in refused:
            with pytest.raises(NotFound):
                await anext(aiter(consumer))
        assert any(isinstance(event, Restored) for event in seen)
