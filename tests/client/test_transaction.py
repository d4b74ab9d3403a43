"""Transactions, against real brokers."""

import asyncio

import pytest
from tests.client.steps import channel_link_of, cut, got

from leporid.client import ConnectionLost, LocalProtocolError, Returned, connect

pytestmark = pytest.mark.slow


async def test_a_transaction_takes_effect_as_a_whole(url, name):
    async with connect(url) as connection:
        watching = await connection.channel()
        channel = await connection.channel(confirms=False)
        queue = await watching.queue(exclusive=True)
        mine = await channel.queue(queue.name, passive=True)
        exchange = channel.default_exchange
        async with channel.transaction():
            await exchange.publish(b"1", queue.name)
            await exchange.publish(b"2", queue.name)
            assert await queue.count() == 0
        assert await queue.count() == 2

        async def fails():
            async with channel.transaction():
                await exchange.publish(b"3", queue.name)
                await (await got(mine)).ack()
                raise KeyError

        with pytest.raises(KeyError):
            await fails()
        assert await queue.count() == 1

        async def loses():
            async with channel.transaction():
                await exchange.publish(b"lost", f"{name}-none")
                await exchange.publish(b"kept", queue.name)

        with pytest.raises(ExceptionGroup) as caught:
            await loses()
        assert len(caught.value.exceptions) == 1
        error = caught.value.exceptions[0]
        assert isinstance(error, Returned)
        assert error.message.body == b"lost"
        assert await queue.count() == 2


@pytest.mark.parametrize("how", ["ack", "ack one", "ack multiple", "nack"])
async def test_what_is_rolled_back_can_be_settled_again(url, how):
    async with connect(url) as connection, connection.channel() as watching:
        queue = await watching.queue(exclusive=True)
        await watching.default_exchange.publish_many([b"1", b"2", b"3"], queue.name)
        async with connection.channel(confirms=False) as channel:
            mine = await channel.queue(queue.name, passive=True)
            held = [await got(mine) for _ in range(3)]

            async def fails():
                async with channel.transaction():
                    if how == "nack":
                        await held[0].nack()
                        await held[1].ack()
                    elif how == "ack multiple":
                        await held[1].ack(multiple=True)
                    elif how == "ack one":
                        await held[1].ack()
                    else:
                        await held[1].ack()
                        await held[0].ack()
                    raise KeyError

            with pytest.raises(KeyError):
                await fails()
            assert [each.settled for each in held] == [False] * 3
            async with channel.transaction():
                await held[0].ack()
                await held[1].ack()
            assert [each.settled for each in held] == [True, True, False]
        assert (await got(queue)).body == b"3"
        assert await queue.get() is None


async def test_acks_between_transactions_belong_to_the_next_one(url):
    async with connect(url) as connection, connection.channel() as watching:
        queue = await watching.queue(exclusive=True)
        await watching.default_exchange.publish_many([b"1", b"2"], queue.name)
        async with connection.channel(confirms=False) as channel:
            held = await got(await channel.queue(queue.name, passive=True))
            async with channel.transaction():
                pass
            await held.ack()

            async def fails():
                async with channel.transaction():
                    raise KeyError

            with pytest.raises(KeyError):
                await fails()
            assert not held.settled
            async with channel.transaction():
                await held.ack()
        assert (await got(queue)).body == b"2"
        assert await queue.get() is None


@pytest.mark.parametrize("how", ["get", "consumer"])
async def test_what_nobody_took_in_a_transaction_goes_back_after_a_rollback(url, how):
    async with connect(url) as connection, connection.channel() as watching:
        queue = await watching.queue(exclusive=True)
        await watching.default_exchange.publish_many([b"1", b"2"], queue.name)
        async with connection.channel(confirms=False) as channel:
            mine = await channel.queue(queue.name, passive=True)
            held = await got(mine)

            async def fails():
                async with channel.transaction():
                    if how == "get":
                        getting = asyncio.create_task(mine.get())
                        await asyncio.sleep(0)
                        getting.cancel()
                        await asyncio.wait([getting])
                        assert await mine.get() is None
                    else:
                        async with mine.consume() as consumer:
                            while not consumer.inbox:
                                await asyncio.sleep(0.001)
                    raise KeyError

            with pytest.raises(KeyError):
                await fails()
            async with asyncio.timeout(10):
                while await queue.count() != 1:
                    pass
            # What somebody holds is still theirs.
            async with channel.transaction():
                await held.ack()
        assert (await got(queue)).body == b"2"
        assert await queue.get() is None


async def test_a_rollback_that_nobody_waits_for_is_a_rollback(url):
    async with connect(url) as connection, connection.channel(confirms=False) as channel:
        queue = await channel.queue(exclusive=True)
        await channel.default_exchange.publish(b"1", queue.name)
        await queue.count()
        held = await got(queue)
        acked = asyncio.Event()

        async def is_cancelled():
            async with channel.transaction():
                await held.ack()
                acked.set()
                await asyncio.Event().wait()

        task = asyncio.create_task(is_cancelled())
        await acked.wait()
        task.cancel()  # the block
        await asyncio.sleep(0)
        task.cancel()  # its rollback
        await asyncio.wait([task])
        async with channel.transaction():
            assert not held.settled
            await held.ack()
        assert channel_link_of(channel).codec.unsettled == 0


async def test_what_transactions_cannot_do(broker):
    async with connect(broker.url) as connection:
        confirming = await connection.channel()
        with pytest.raises(LocalProtocolError, match="confirms=False"):
            async with confirming.transaction():
                pass
        channel = await connection.channel(confirms=False)
        async with channel.transaction():
            with pytest.raises(LocalProtocolError, match="nested"):
                async with channel.transaction():
                    pass


async def test_a_transaction_ends_with_its_connection(url):
    async with connect(url) as connection:
        channel = await connection.channel(confirms=False)
        queue = await channel.queue(exclusive=True)

        async def loses():
            async with channel.transaction() as same:
                assert same is channel
                await channel.default_exchange.publish(b"1", queue.name)
                cut(connection)
                await asyncio.sleep(0.01)

        with pytest.raises(ConnectionLost, match="not committed"):
            await loses()
        # The next one is on the next connection.
        async with channel.transaction():
            await channel.default_exchange.publish(b"2", queue.name)
        assert (await got(queue, no_ack=True)).body == b"2"


async def test_nothing_of_a_transaction_is_done_on_the_next_connection(url, name):
    async with (
        connect(url) as connection,
        connection.channel() as watching,
        connection.channel(confirms=False) as channel,
    ):
        queue = await channel.queue(name)
        await watching.default_exchange.publish(b"1", name)

        held = []

        async def loses():
            async with channel.transaction(), queue.consume() as consumer:
                deliveries = aiter(consumer)
                await anext(deliveries)
                cut(connection)
                again = await asyncio.wait_for(anext(deliveries), 10)
                held.append(again)
                with pytest.raises(ConnectionLost, match="not committed"):
                    await channel.default_exchange.publish(b"2", name)
                with pytest.raises(ConnectionLost, match="not committed"):
                    await channel.default_exchange.publish_many([b"3"], name)
                with pytest.raises(ConnectionLost, match="not committed"):
                    await queue.get()
                with pytest.raises(ConnectionLost, match="not committed"):
                    await again.ack()

        with pytest.raises(ConnectionLost, match="not committed"):
            await loses()
        async with channel.transaction():
            assert held[0].redelivered
            await held[0].ack()
        assert await queue.get() is None
        assert await queue.delete() == 0


async def test_a_delivery_of_a_lost_connection_cannot_be_settled_in_a_transaction(url):
    """What was published with its ack would be there, and the message come again."""
    async with connect(url) as connection, connection.channel(confirms=False) as channel:
        queue = await channel.queue(exclusive=True)
        await channel.default_exchange.publish(b"1", queue.name)
        await queue.count()
        delivery = await got(queue)
        cut(connection)
        while delivery.is_current:
            await asyncio.sleep(0.01)

        async def settles():
            async with channel.transaction():
                await channel.default_exchange.publish(b"2", queue.name)
                await delivery.ack()

        with pytest.raises(ConnectionLost, match="the delivery's connection was lost"):
            await settles()
        assert await queue.count() == 0
        await delivery.ack()
