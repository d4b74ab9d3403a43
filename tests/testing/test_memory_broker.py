"""The broker in memory, as tests of applications use it: the client, and a clock of its own."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from leporid import testing
from leporid.client import ClientError, blocking, connect
from leporid.client.errors import AccessRefused, NotAllowed
from leporid.testing.memory_broker import MemoryBroker, QueueCount


async def test_what_is_published_is_consumed():
    async with testing.broker() as broker:
        connection = await broker.connect()
        channel = await connection.channel()
        queue = await channel.queue("tasks")
        await channel.default_exchange.publish(b"one", "tasks")
        assert broker.count("tasks") == QueueCount(ready=1, unacked=0)
        async with queue.consume(prefetch=10) as consumer:
            async for delivery in consumer:
                assert delivery.body == b"one"
                assert broker.count("tasks") == QueueCount(ready=0, unacked=1)
                await delivery.ack()
                break
        await broker.settle()
        assert broker.count("tasks") == QueueCount(0, 0)


async def test_large_messages_come_whole():
    body = bytes(range(256)) * 20_000
    async with testing.broker() as broker:
        channel = await (await broker.connect()).channel()
        queue = await channel.queue("large")
        for _ in range(3):
            await channel.default_exchange.publish(body, "large")
        for _ in range(3):
            delivery = await queue.get(no_ack=True)
            assert delivery is not None
            assert delivery.body == body


async def test_time_stands_still_until_it_is_moved():
    async with testing.broker(now=datetime(2030, 1, 1, tzinfo=UTC)) as broker:
        channel = await (await broker.connect()).channel()
        queue = await channel.queue("mail")
        await channel.default_exchange.publish(b"later", "mail", delay=timedelta(hours=1))
        await broker.advance(3599)
        assert await queue.get() is None
        await broker.advance(timedelta(seconds=1))
        assert await queue.get() is not None
        assert broker.now - datetime(2030, 1, 1, 1, tzinfo=UTC) < timedelta(milliseconds=10)


async def test_messages_expire_and_are_dead_lettered():
    async with testing.broker() as broker:
        channel = await (await broker.connect()).channel()
        dead = await channel.queue("dead")
        await channel.queue("short", message_ttl=timedelta(seconds=5), dead_letter_to="",
                            dead_letter_key="dead")  # fmt: skip
        await channel.default_exchange.publish(b"x", "short")
        await broker.advance(4.9)
        assert broker.count("short").ready == 1
        await broker.advance(0.1)
        assert broker.count("short").ready == 0
        delivery = await dead.get()
        assert delivery is not None
        assert delivery.body == b"x"


async def test_queues_go_that_nobody_uses():
    async with testing.broker() as broker:
        channel = await (await broker.connect()).channel()
        await channel.queue("going", expires=timedelta(minutes=1))
        await broker.advance(59)
        assert broker.count("going") == QueueCount(0, 0)
        await broker.advance(1)
        with pytest.raises(LookupError, match="no queue 'going'"):
            broker.count("going")


async def test_moments_come_one_after_the_other():
    """What a client does at one moment counts for the next."""
    async with testing.broker() as broker:
        channel = await (await broker.connect()).channel()
        queue = await channel.queue("steps")
        exchange = channel.default_exchange
        seen: list[tuple[bytes, float]] = []
        start = broker.now

        async def again() -> None:
            async with queue.consume() as consumer:
                async for delivery in consumer:
                    seen.append((delivery.body, round((broker.now - start).total_seconds())))
                    await delivery.ack()
                    if len(seen) < 4:
                        await exchange.publish(b"again", "steps", delay=timedelta(seconds=10))

        async with asyncio.TaskGroup() as tasks:
            task = tasks.create_task(again())
            await exchange.publish(b"first", "steps", delay=timedelta(seconds=10))
            await broker.advance(60)
            task.cancel()
        assert seen == [(b"first", 10), (b"again", 20), (b"again", 30), (b"again", 40)]


async def test_time_does_not_go_back():
    async with testing.broker() as broker:
        with pytest.raises(ValueError, match="time does not go back"):
            await broker.advance(-1)


async def test_brokers_share_nothing():
    async with testing.broker() as one, testing.broker() as other:
        channel = await (await one.connect()).channel()
        await channel.queue("here")
        await channel.default_exchange.publish(b"x", "here")
        with pytest.raises(LookupError):
            other.count("here")
        before = other.now
        await one.advance(100)
        assert other.now == before


async def test_users_and_virtual_hosts():
    async with testing.broker(vhosts=("/", "shop"), users={"ann": "secret"}) as broker:
        broker.add_user("bob", "hidden", vhosts=["shop"], configure="bob-.*", write="", read=".*")
        assert (await broker.connect(user="ann", vhost="shop")).is_open
        with pytest.raises(AccessRefused):
            await broker.connect(user="ann", password="wrong")
        with pytest.raises(ClientError):
            await broker.connect(user="guest")
        with pytest.raises(NotAllowed):
            await broker.connect(user="bob")
        channel = await (await broker.connect(user="bob", vhost="shop")).channel()
        await channel.queue("bob-1")
        with pytest.raises(AccessRefused):
            await channel.queue("ann-1")


async def test_a_virtual_host_that_comes_later():
    async with testing.broker() as broker:
        broker.add_vhost("shop")
        with pytest.raises(NotAllowed):
            await broker.connect(vhost="shop")
        broker.add_user("guest", "guest")
        async with broker.connect(vhost="shop") as connection, connection.channel() as channel:
            await channel.queue("orders")
            assert broker.count("orders", "shop") == (0, 0)
        with pytest.raises(LookupError):
            broker.count("orders")
        with pytest.raises(LookupError):
            broker.count("orders", "elsewhere")


async def test_connections_that_are_cut_come_back():
    async with testing.broker() as broker:
        connection = await broker.connect()
        channel = await connection.channel()
        await channel.queue("tasks")
        broker.disconnect()
        await channel.default_exchange.publish(b"after", "tasks", timeout_s=10)
        assert broker.count("tasks").ready == 1


async def test_publishers_are_blocked_by_an_alarm():
    async with testing.broker() as broker:
        connection = await broker.connect()
        channel = await connection.channel()
        await channel.queue("tasks")
        exchange = channel.default_exchange
        await exchange.publish(b"before", "tasks")
        broker.set_alarm(on=True)
        waiting = asyncio.create_task(exchange.publish(b"meanwhile", "tasks"))
        await broker.settle()
        assert connection.is_blocked
        assert broker.count("tasks").ready == 1
        broker.set_alarm(on=False)
        await waiting
        assert broker.count("tasks").ready == 2


async def test_nobody_connects_to_a_broker_that_is_closed():
    async with testing.broker() as broker:
        connection = await broker.connect()
    assert not connection.is_open
    with pytest.raises(ClientError):
        await connect("amqp://memory", opener=broker.open, robust=False)


async def test_many_of_them_one_after_the_other():
    for number in range(50):
        async with testing.broker() as broker:
            assert isinstance(broker, MemoryBroker)
            channel = await (await broker.connect()).channel()
            await channel.queue(f"only-{number}")
            with pytest.raises(LookupError):
                broker.count(f"only-{number - 1}")


def test_the_blocking_client_has_it_as_well():
    with testing.broker() as broker:
        with broker.connect() as connection, connection.channel() as channel:
            queue = channel.queue("tasks")
            channel.default_exchange.publish(b"later", "tasks", delay=timedelta(minutes=1))
            assert queue.get() is None
            broker.advance(60)
            delivery = queue.get()
            assert delivery is not None
            assert delivery.body == b"later"
            delivery.ack()
        assert broker.count("tasks").ready == 0


async def test_a_client_on_another_thread():
    """The broker's loop is this one, the client's is in a thread."""
    async with testing.broker() as broker:

        def work() -> int:
            with blocking.connect("amqp://memory", opener=broker.open) as connection:
                channel = connection.channel()
                channel.queue("tasks")
                channel.default_exchange.publish_many([b"x" * 1000] * 5000, "tasks")
                return channel.queue("tasks").purge()

        assert await asyncio.to_thread(work) == 5000
