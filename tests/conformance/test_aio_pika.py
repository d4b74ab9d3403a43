"""aio-pika against a real broker: its habits, and its recovery when the broker is killed.

aio-pika confirms by default, and its robust connections declare, bind and consume everything again
after a loss.
"""

import asyncio
import itertools
import os
from collections.abc import AsyncIterator, Callable

import aio_pika
import pytest
from aio_pika.abc import AbstractIncomingMessage, AbstractQueue, AbstractRobustConnection
from aio_pika.exceptions import (
    ChannelClosed,
    ChannelNotFoundEntity,
    ChannelPreconditionFailed,
    DeliveryError,
)

SECONDS = 30


@pytest.fixture
async def connection(broker_url: str) -> AsyncIterator[AbstractRobustConnection]:
    """One robust connection."""
    connection = await aio_pika.connect_robust(broker_url, timeout=SECONDS)
    yield connection
    await connection.close()


class Collector:
    """A consumer's callback that acks and keeps what it gets."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self._arrived = asyncio.Event()

    async def __call__(self, message: AbstractIncomingMessage) -> None:
        async with message.process():
            self.texts.append(message.body.decode())
            self._arrived.set()

    async def until(self, enough: Callable[[list[str]], bool]) -> None:
        """Wait until what has come is enough."""
        async with asyncio.timeout(SECONDS):
            while not enough(self.texts):
                self._arrived.clear()
                await self._arrived.wait()


async def first_message(queue: AbstractQueue) -> AbstractIncomingMessage:
    """Wait for one message."""
    async with asyncio.timeout(SECONDS), queue.iterator(no_ack=True) as messages:
        return await anext(messages)


async def test_publish_and_iterate(connection, name):
    channel = await connection.channel()
    await channel.set_qos(prefetch_count=10)
    queue = await channel.declare_queue(name(), auto_delete=True)
    exchange = await channel.declare_exchange(name(), aio_pika.ExchangeType.TOPIC, auto_delete=True)
    await queue.bind(exchange, "orders.#")
    for number in range(50):
        message = aio_pika.Message(b"%d" % number, headers={"number": number}, message_id="m")
        await exchange.publish(message, f"orders.{number}.new")
    got = []
    async with asyncio.timeout(SECONDS), queue.iterator() as messages:
        async for message in messages:
            async with message.process():
                got.append((message.body, message.headers, message.routing_key))
            if len(got) == 50:
                break
    assert got == [(b"%d" % n, {"number": n}, f"orders.{n}.new") for n in range(50)]


async def test_concurrent_publishes_are_all_confirmed(connection, name):
    channel = await connection.channel(publisher_confirms=True)
    queue = await channel.declare_queue(name(), durable=True)
    message = aio_pika.Message(b"x", delivery_mode=aio_pika.DeliveryMode.PERSISTENT)
    results = await asyncio.gather(
        *[channel.default_exchange.publish(message, queue.name) for _ in range(500)]
    )
    assert all(result is not None for result in results)
    assert (await queue.declare()).message_count == 500


async def test_unroutable_message_raises(connection, name):
    channel = await connection.channel(on_return_raises=True)
    with pytest.raises(DeliveryError):
        await channel.default_exchange.publish(aio_pika.Message(b"x"), name())


async def test_faults_close_the_channel_and_robust_channels_come_back(connection, name):
    channel = await connection.channel()
    queue = name()
    with pytest.raises(ChannelNotFoundEntity, match=f"no queue '{queue}' in vhost '/'"):
        await channel.get_queue(queue)
    await channel.reopen()
    await channel.declare_queue(queue)
    with pytest.raises(ChannelPreconditionFailed, match="inequivalent arg 'durable'"):
        await channel.declare_queue(queue, durable=True)


async def test_rpc_over_an_exclusive_reply_queue(connection, name):
    server, client = await connection.channel(), await connection.channel()
    questions = await server.declare_queue(name())
    answers = await client.declare_queue(exclusive=True)

    async def answer(message: AbstractIncomingMessage) -> None:
        async with message.process():
            assert message.reply_to is not None
            reply = aio_pika.Message(message.body * 2, correlation_id=message.correlation_id)
            await server.default_exchange.publish(reply, message.reply_to)

    await questions.consume(answer)
    question = aio_pika.Message(b"ab", correlation_id="1", reply_to=answers.name)
    await client.default_exchange.publish(question, questions.name)
    reply = await first_message(answers)
    assert (reply.body, reply.correlation_id) == (b"abab", "1")


async def test_server_named_queue_of_a_plain_connection(broker_url):
    async with await aio_pika.connect(broker_url, timeout=SECONDS) as connection:
        channel = await connection.channel()
        queue = await channel.declare_queue(exclusive=True)
        assert queue.name.startswith("amq.gen-")
        await channel.default_exchange.publish(aio_pika.Message(b"x"), queue.name)
        assert (await first_message(queue)).body == b"x"


async def test_rpc_pattern_of_the_library(connection, name):
    channel = await connection.channel()
    rpc = await aio_pika.patterns.RPC.create(channel)
    method = name("method")

    async def multiply(*, x: int, y: int) -> int:
        return x * y

    await rpc.register(method, multiply, auto_delete=True)
    assert await rpc.call(method, kwargs={"x": 100, "y": 2}) == 200
    await rpc.close()


async def test_transaction(connection, name):
    channel = await connection.channel(publisher_confirms=False)
    queue = await channel.declare_queue(name())
    async with channel.transaction():
        await channel.default_exchange.publish(aio_pika.Message(b"kept"), queue.name)
    transaction = channel.transaction()
    await transaction.select()
    await channel.default_exchange.publish(aio_pika.Message(b"dropped"), queue.name)
    await transaction.rollback()
    assert (await queue.get(no_ack=True, timeout=SECONDS)).body == b"kept"
    assert await queue.get(no_ack=True, fail=False) is None


async def test_big_message(connection, name):
    channel = await connection.channel()
    queue = await channel.declare_queue(name())
    body = os.urandom(4_000_000)
    await channel.default_exchange.publish(aio_pika.Message(body), queue.name)
    message = await queue.get(no_ack=True, timeout=SECONDS)
    assert message.body == body


async def test_many_channels_at_once(connection, name):
    channels = await asyncio.gather(*[connection.channel() for _ in range(100)])
    queue = await channels[0].declare_queue(name())
    await asyncio.gather(
        *[
            channel.default_exchange.publish(aio_pika.Message(b"x"), queue.name)
            for channel in channels
        ]
    )
    assert (await queue.declare()).message_count == 100
    await asyncio.gather(*[channel.close() for channel in channels[1:]])


async def test_unknown_vhost(broker_url):
    with pytest.raises((ChannelClosed, ConnectionError, aio_pika.exceptions.AMQPError)):
        await aio_pika.connect(broker_url.rsplit("/", 1)[0] + "/nowhere", timeout=SECONDS)


@pytest.mark.slow
async def test_robust_connection_outlives_a_killed_broker(own_broker):
    """Durable state is there again, transient state is declared anew, and the work goes on."""
    connection = await aio_pika.connect_robust(
        own_broker.url, timeout=SECONDS, reconnect_interval=0.1
    )
    reconnected = asyncio.Event()
    connection.reconnect_callbacks.add(lambda *_: reconnected.set())
    channel = await connection.channel()
    await channel.set_qos(prefetch_count=5)
    events = await channel.declare_exchange("events", aio_pika.ExchangeType.TOPIC, durable=True)
    durable = await channel.declare_queue("durable", durable=True)
    await durable.bind(events, "kept.#")
    idle = await channel.declare_queue("idle", durable=True)
    await idle.bind(events, "idle.*")
    transient = await channel.declare_queue("transient", auto_delete=True)
    await transient.bind(events, "passing.#")
    got = Collector()
    await durable.consume(got)
    await transient.consume(got)

    def message(text: str) -> aio_pika.Message:
        return aio_pika.Message(text.encode(), delivery_mode=aio_pika.DeliveryMode.PERSISTENT)

    for number in range(20):
        await events.publish(message(f"stored {number}"), "idle.now")
        await events.publish(message(f"first {number}"), "kept.a.b")
        await events.publish(message(f"first passing {number}"), "passing.x")
    await got.until(lambda texts: len(texts) >= 40)

    own_broker.kill()
    own_broker.start()
    async with asyncio.timeout(SECONDS):
        await reconnected.wait()
        await channel.ready()

    got.texts.clear()
    for number in range(20):
        await events.publish(message(f"second {number}"), "kept.a.b")
        await events.publish(message(f"second passing {number}"), "passing.x")
    wanted = {f"second {n}" for n in range(20)} | {f"second passing {n}" for n in range(20)}
    await got.until(lambda texts: wanted <= set(texts))
    # What was acked but whose ack the crash overtook may come again, and nothing else.
    assert set(got.texts) - wanted <= {f"first {n}" for n in range(20)}
    async with asyncio.timeout(SECONDS):
        stored = [(await idle.get(no_ack=True)).body.decode() for _ in range(20)]
    assert stored == [f"stored {number}" for number in range(20)]
    await connection.close()
    assert own_broker.stop() == 0, own_broker.log_tail()


@pytest.mark.slow
async def test_publisher_knows_what_a_killed_broker_confirmed(own_broker):
    """A publish that is awaited either returns, and is kept, or raises."""
    connection = await aio_pika.connect(own_broker.url, timeout=SECONDS)
    channel = await connection.channel()
    queue = await channel.declare_queue("kept", durable=True)
    confirmed: set[bytes] = set()

    numbers = itertools.count()

    async def publish() -> None:
        for number in numbers:
            body = b"%d" % number
            await channel.default_exchange.publish(
                aio_pika.Message(body, delivery_mode=aio_pika.DeliveryMode.PERSISTENT), queue.name
            )
            confirmed.add(body)
            if len(confirmed) == 300:
                own_broker.kill()

    results = await asyncio.gather(*[publish() for _ in range(100)], return_exceptions=True)
    assert all(isinstance(result, Exception) for result in results)
    own_broker.start()
    async with await aio_pika.connect(own_broker.url, timeout=SECONDS) as connection:
        queue = await (await connection.channel()).declare_queue("kept", durable=True)
        kept = set()
        while message := await queue.get(no_ack=True, fail=False):
            kept.add(message.body)
    assert len(confirmed) >= 300
    assert confirmed - kept == set()
