"""Queues, against real brokers."""

import asyncio
from datetime import timedelta

import pytest
from tests.client.steps import channel_link_of, got, link_of

from leporid.client import LocalProtocolError, NotFound, PreconditionFailed, connect
from leporid.client.api import Browsed

pytestmark = pytest.mark.slow


async def test_get_purge_count_and_delete(url, name):
    async with connect(url) as connection, connection.channel() as channel:
        queue = await channel.queue(name)
        assert await queue.get() is None
        await channel.default_exchange.publish_many([b"1", b"2", b"3", b"4"], name)
        first = await got(queue)
        assert (first.body, first.consumer_tag, queue.message_count) == (b"1", "", 3)
        await first.nack()
        again = await got(queue)
        assert (again.body, again.redelivered) == (b"1", True)
        await again.ack()
        unsettled = await got(queue, no_ack=True)
        assert unsettled.settled
        with pytest.raises(LocalProtocolError, match="no_ack"):
            await unsettled.ack()
        assert await queue.count() == 2
        with pytest.raises(PreconditionFailed):
            await queue.delete(if_empty=True)
        assert await queue.purge() == 2
        assert await queue.delete() == 0
        with pytest.raises(NotFound):
            await queue.count()


async def test_arguments_by_name(url, name):
    async with connect(url) as connection, connection.channel() as channel:
        dead = await channel.queue(exclusive=True)
        queue = await channel.queue(
            name,
            type="classic",
            expires=timedelta(minutes=1),
            message_ttl=0.05,
            length_max=5,
            bytes_max=1_000_000,
            overflow="drop-head",
            dead_letter_to="",
            dead_letter_key=dead.name,
            priorities=5,
        )
        await channel.default_exchange.publish(b"expires", name, priority=3)
        async for message in dead.consume():
            assert message.body == b"expires"
            assert message.deaths[0]["reason"] == "expired"
            assert message.deaths[0]["queue"] == name
            await message.ack()
            break
        with pytest.raises(PreconditionFailed):
            await channel.queue(name, length_max=6)
        with pytest.raises(LocalProtocolError, match="x-max-length is given"):
            await channel.queue(name, length_max=5, arguments={"x-max-length": 5})
        await queue.delete()


async def test_messages_of_highest_priority_come_first(url):
    async with connect(url) as connection, connection.channel() as channel:
        queue = await channel.queue(exclusive=True, priorities=3)
        for priority in (0, 3, 1):
            await channel.default_exchange.publish(b"%d" % priority, queue.name, priority=priority)
        found = [(await got(queue, no_ack=True)).body for _ in range(3)]
        assert found == [b"3", b"1", b"0"]


async def test_a_delivery_limit_counts(url, name):
    async with connect(url) as connection, connection.channel() as channel:
        queue = await channel.queue(name, type="quorum", delivery_limit=5)
        await channel.default_exchange.publish(b"again", name)
        async with queue.consume() as consumer:
            counts = []
            async for message in consumer:
                counts.append(message.delivery_count)
                if len(counts) == 3:
                    await message.ack()
                    break
                await message.nack()
        assert counts == [0, 1, 2]
        await queue.delete()


async def test_browsing_changes_nothing(broker, name):
    async with (
        connect(broker.url, api=f"http://127.0.0.1:{broker.http_port}") as connection,
        connection.channel() as channel,
    ):
        queue = await channel.queue(name)
        await channel.default_exchange.publish(b"\xff", name, headers={"a": 1}, tag="late")
        await channel.default_exchange.publish_many([b"x"] * 1500, name)
        taken = await got(queue)
        seen = [message async for message in queue.browse()]
        assert len(seen) == 1500
        everything = [message async for message in queue.browse(unacked=True)]
        first = everything[0]
        assert isinstance(first, Browsed)
        assert (first.body, first.key, first.state) == (b"\xff", name, "unacked")
        assert first.headers == {"a": 1, "x-tag": "late"}
        assert len([each async for each in queue.browse(3)]) == 3
        assert len([each async for each in queue.browse(unacked=True, tags=["late"])]) == 1
        assert len([each async for each in queue.browse(unacked=True, sql="a = 1")]) == 1
        assert await queue.count() == 1500
        await taken.ack()
        await queue.delete()


@pytest.mark.conformance
async def test_other_brokers_cannot_be_browsed(rabbitmq_url):
    async with connect(rabbitmq_url) as connection, connection.channel() as channel:
        queue = await channel.queue(exclusive=True)
        with pytest.raises(LocalProtocolError, match="no browsing"):
            await anext(queue.browse())


@pytest.mark.parametrize(
    "wrong",
    [
        {"name": "x" * 256},
        {"name": 5},
        {"length_max": -1},
        {"expires": "soon"},
        {"arguments": {"x": object()}},
        {"arguments": {5: 1}},
        {"arguments": []},
        {"type": object()},
    ],
)
async def test_mistakes_are_told_before_anything_is_sent(broker, wrong):
    async with connect(broker.url) as connection, connection.channel() as channel:
        sent = link_of(connection).codec.sent
        with pytest.raises(LocalProtocolError):
            await channel.queue(**wrong)
        assert (link_of(connection).codec.sent, len(link_of(connection).codec.output)) == (
            sent,
            0,
        )
        with pytest.raises(LocalProtocolError):
            (await channel.queue(exclusive=True)).consume(prefetch=70000)


@pytest.mark.parametrize("moment", ["before the answer", "with the answer"])
async def test_a_message_that_is_got_for_nobody_goes_back(url, moment):
    async with connect(url) as connection, connection.channel() as channel:
        queue = await channel.queue(exclusive=True)
        await channel.default_exchange.publish(b"1", queue.name)
        getting = asyncio.create_task(queue.get())
        await asyncio.sleep(0)
        link = channel_link_of(channel)
        if moment == "with the answer":
            original = link.on_got

            def give_and_cancel(delivery, ready):
                original(delivery, ready)
                getting.cancel()

            setattr(link, "on_got", give_and_cancel)  # noqa: B010
        else:
            getting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await getting
        setattr(link, "on_got", type(link).on_got.__get__(link))  # noqa: B010
        async with asyncio.timeout(10):
            while (again := await queue.get()) is None:
                pass
        assert (again.body, again.redelivered) == (b"1", True)
        await again.ack()


@pytest.mark.parametrize(
    ("options", "channel_options"),
    [
        ({"no_ack": True}, {}),
        ({"prefetch": 0}, {}),
        ({}, {"prefetch": 0}),
        ({}, {"confirms": False}),
    ],
)
async def test_unique_ids_need_to_know_which_acks_may_be_lost(broker, options, channel_options):
    async with connect(broker.url) as connection, connection.channel(**channel_options) as channel:
        queue = await channel.queue(exclusive=True)
        with pytest.raises(LocalProtocolError, match="unique_ids needs"):
            queue.consume(unique_ids=True, **options)
