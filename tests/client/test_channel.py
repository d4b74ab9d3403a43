"""Channels, against real brokers: declarations that fail, transactions, restoring."""

import asyncio
import traceback

import pytest
from tests.client.fake_server import Peer, serving
from tests.client.steps import before_calls, channel_link_of, cut, give_up, got, link_of

from leporid.amqp.methods import (
    ChannelClose,
    ChannelOpenOk,
    ConfirmSelect,
    ConfirmSelectOk,
    QueueDeclareOk,
)
from leporid.client import (
    Backoff,
    LocalProtocolError,
    NotFound,
    PreconditionFailed,
    Returned,
    connect,
)
from leporid.client.events import ChannelClosed, Event

pytestmark = pytest.mark.slow

SOON = Backoff(first_s=0.01, longest_s=0.05)


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


async def test_use_after_close_collects_no_tracebacks(broker):
    async with connect(broker.url) as connection:
        channel = await connection.channel()
        await channel.close()

        async def failed():
            try:
                await channel.default_exchange.publish(b"x")
            except LocalProtocolError as error:
                return error, len(traceback.extract_tb(error.__traceback__))

        (first, depth), (second, again) = await failed(), await failed()
        assert first is not second
        assert depth == again


# ------------------------------------------------------------------ while it is opened again


@pytest.mark.parametrize("step", ["reopen", "restore_consumers"])
async def test_a_channel_that_is_closed_while_others_are_restored_comes_back(url, name, step):
    async with connect(url, backoff=SOON) as connection:
        first, second = await connection.channel(), await connection.channel()
        queue = await first.queue(name, exclusive=True)
        consumer = queue.consume()
        await consumer.begin()
        original = getattr(second, step)

        async def close_the_first(*arguments):
            link = channel_link_of(first)
            link.codec.requeue(999)  # a delivery that there is not: 406
            async with asyncio.timeout(10):
                while link.error is None:
                    await asyncio.sleep(0.001)
            return await original(*arguments)

        setattr(second, step, close_the_first)
        cut(connection)
        await asyncio.wait_for(first.default_exchange.publish(b"1", queue.name), 10)
        assert (await asyncio.wait_for(anext(aiter(consumer)), 10)).body == b"1"
        await asyncio.wait_for(second.default_exchange.publish(b"2", queue.name), 10)


async def test_a_channel_that_is_closed_with_the_last_answer_is_opened_once_more():
    async def script(peer: Peer):
        await peer.log_in()
        await peer.open_channel()
        await peer.method()
        number = 1
        for _ in range(2):
            peer.send(ChannelClose(404, "NOT_FOUND", 50, 10), number)
            await peer.method()
            _, number, _ = await peer.receive()
            peer.send(ChannelOpenOk(), number)
            assert isinstance(await peer.method(), ConfirmSelect)
            peer.send(ConfirmSelectOk(), number)
        # The declaration is made again on the channel that stays open.
        await peer.method()
        peer.send(QueueDeclareOk("q", 0, 0), number)
        await peer.reader.read()

    events: list[Event] = []
    async with serving(script) as url:
        connection = await connect(url, backoff=SOON, on_event=events.append)
        channel = await connection.channel()
        with pytest.raises(NotFound):
            await channel.queue("gone")
        queue = await asyncio.wait_for(channel.queue("q"), 10)
        assert queue.name == "q"
        assert len([each for each in events if isinstance(each, ChannelClosed)]) == 2
        give_up(connection)
        await connection.close()


async def test_a_connection_that_breaks_while_a_channel_is_opened_again_brings_it_back():
    connections: list[Peer] = []

    async def script(peer: Peer):
        connections.append(peer)
        await peer.log_in()
        await peer.open_channel()
        await peer.method()
        if len(connections) == 1:
            peer.send(ChannelClose(404, "NOT_FOUND", 50, 10))
            await peer.method()
            await peer.method()
            peer.writer.write(b"no frame")
        else:
            peer.send(QueueDeclareOk("q", 0, 0))
        await peer.reader.read()

    async with serving(script) as url:
        connection = await connect(url, backoff=SOON)
        channel = await connection.channel()
        with pytest.raises(NotFound):
            await channel.queue("gone")
        assert (await asyncio.wait_for(channel.queue("q"), 10)).name == "q"
        give_up(connection)
        await connection.close()


@pytest.mark.parametrize("step", ["opened", "selected"])
async def test_a_channel_that_is_closed_here_while_it_is_restored_stays_closed(
    url, step, monkeypatch
):
    async with connect(url, backoff=SOON) as connection:
        closed, kept = await connection.channel(), await connection.channel()
        links = type(link_of(connection))
        original = links.open_channel

        async def open_and_close(self, user=None):
            opened = await original(self, user)
            if user is closed and step == "opened":
                await closed.close()
            return opened

        monkeypatch.setattr(links, "open_channel", open_and_close)
        closing = []
        if step == "selected":
            closing = before_calls(monkeypatch, closed, ConfirmSelect, closed.close)
        cut(connection)
        queue = await asyncio.wait_for(kept.queue(exclusive=True), 10)
        await asyncio.gather(*closing)
        await queue.count()
        assert len(link_of(connection).channels) == 1
        assert "closed" in repr(closed)
