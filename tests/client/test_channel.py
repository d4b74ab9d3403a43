"""Channels, against real brokers: declarations that fail, transactions, restoring."""

import asyncio

import pytest
from tests.client.steps import got

from leporid.client import (
    LocalProtocolError,
    NotFound,
    PreconditionFailed,
    Returned,
    connect,
)
from leporid.client.events import ChannelClosed, Event

pytestmark = pytest.mark.slow


async def test_a_failed_declaration_fails_alone(url, name):
    events: list[Event] = []
    async with (
        connect(url, on_event=events.append) as connection,
        connection.channel() as channel,
    ):
        queue = await channel.queue(exclusive=True)
        results = await asyncio.gather(
            channel.queue(f"{name}-none", passive=True),
            queue.count(),
            channel.exchange(f"{name}-none", passive=True),
            channel.default_exchange.publish(b"x", queue.name),
            return_exceptions=True,
        )
        assert [type(each) for each in results] == [NotFound, int, NotFound, type(None)]
        assert len([each for each in events if isinstance(each, ChannelClosed)]) == 2
        # Twice, if the channel was closed before the confirm: with the same id.
        assert await queue.count() in {1, 2}


async def test_consumers_go_on_after_the_error_of_another_call(url, name):
    async with connect(url) as connection, connection.channel() as channel:
        queue = await channel.queue(exclusive=True)
        await channel.default_exchange.publish(b"1", queue.name)
        async with queue.consume() as consumer:
            iterator = aiter(consumer)
            first = await anext(iterator)
            with pytest.raises(NotFound):
                await channel.queue(f"{name}-none", passive=True)
            # It comes again, as it was not settled on the channel that was closed.
            again = await asyncio.wait_for(anext(iterator), 10)
            assert (again.body, again.redelivered) == (b"1", True)
            assert not first.is_current
            await first.ack()
            await again.ack()
            await channel.default_exchange.publish(b"2", queue.name)
            last = await asyncio.wait_for(anext(iterator), 10)
            assert last.body == b"2"
            await last.ack()
        assert await queue.count() == 0


async def test_declaring_differently_is_refused(url, name):
    async with connect(url) as connection, connection.channel() as channel:
        exchange = await channel.exchange(name, "topic", alternate="amq.fanout")
        with pytest.raises(PreconditionFailed):
            await channel.exchange(name, "direct")
        await channel.exchange(name, "topic", alternate="amq.fanout")
        await exchange.delete()


async def test_prefetch_of_a_channel(url):
    async with connect(url) as connection, connection.channel(prefetch=2) as channel:
        queue = await channel.queue(exclusive=True)
        await channel.default_exchange.publish_many([b"x"] * 10, queue.name)
        async with queue.consume():
            assert await queue.count() == 8
        await channel.prefetch(3)
        async with queue.consume():
            while await queue.count() != 7:
                pass
        with pytest.raises(LocalProtocolError, match="prefetch"):
            await channel.prefetch(-1)


async def test_bindings(url, name):
    async with connect(url) as connection, connection.channel() as channel:
        exchange = await channel.exchange(name, "topic")
        queue = await channel.queue(exclusive=True)
        await channel.bind(queue, exchange, "a.#")
        await channel.bind(queue.name, name, "b.#", arguments={"n": 1})
        await exchange.publish(b"1", "a.x")
        await exchange.publish(b"2", "b.x")
        await channel.unbind(queue.name, name, "b.#", arguments={"n": 1})
        with pytest.raises(Returned):
            await exchange.publish(b"3", "b.x")
        await queue.unbind(exchange, "a.#")
        with pytest.raises(Returned):
            await exchange.publish(b"4", "a.x")
        assert await queue.count() == 2
        with pytest.raises(NotFound):
            await channel.bind(queue, f"{name}-none")
        with pytest.raises(LocalProtocolError, match="binding key"):
            await channel.bind(queue, exchange, "k" * 256)
        await channel.delete_exchange(name)


async def test_bindings_with_filters(broker, name):
    async with connect(broker.url) as connection, connection.channel() as channel:
        exchange = await channel.exchange(name, "fanout")
        late = await channel.queue(exclusive=True)
        long = await channel.queue(exclusive=True)
        await late.bind(exchange, tags=["late", "lost"])
        await long.bind(exchange, sql="minutes > 60")
        await exchange.publish(b"1", tag="lost", headers={"minutes": 5})
        await exchange.publish(b"2", headers={"minutes": 90})
        assert (await got(late, no_ack=True)).body == b"1"
        assert (await got(long, no_ack=True)).body == b"2"
        await late.unbind(exchange, tags=["late", "lost"])
        with pytest.raises(Returned):
            await exchange.publish(b"3", tag="lost")
        with pytest.raises(PreconditionFailed, match="character"):
            await late.bind(exchange, sql="minutes >")
        await exchange.delete()


async def test_state_by_repr(broker):
    async with connect(broker.url) as connection:
        channel = await connection.channel()
        assert repr(channel) == "<Channel 1, 0 consumers, 0 unconfirmed, open>"
        assert channel.is_open
        await channel.close()
        await channel.close()
        assert repr(channel) == "<Channel, 0 consumers, 0 unconfirmed, closed>"
        assert not channel.is_open
