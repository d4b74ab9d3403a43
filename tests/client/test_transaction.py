"""Transactions, against real brokers."""

import asyncio

import pytest
from tests.client.steps import cut, got

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


@pytest.mark.parametrize("how", ["ack", "ack multiple", "nack"])
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
