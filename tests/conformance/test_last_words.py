"""The order of what ends consumers and connections, frame by frame: clients hide it."""

from collections.abc import AsyncIterator, Awaitable, Callable
from urllib.parse import urlsplit

import pytest
from tests.conformance.marks import foreign
from tests.server.client import Client

from leporid.amqp.constants import FRAME_METHOD
from leporid.amqp.methods import (
    BasicCancel,
    BasicCancelOk,
    BasicConsume,
    BasicConsumeOk,
    BasicQos,
    BasicQosOk,
    ChannelOpen,
    ChannelOpenOk,
    ConnectionClose,
    ConnectionCloseOk,
    Method,
    QueueDeclare,
    QueueDeclareOk,
    QueueDelete,
    QueueDeleteOk,
    decode,
)
from leporid.amqp.tables import Value

Connect = Callable[..., Awaitable[Client]]
STREAM: dict[str, Value] = {"x-queue-type": "stream"}
TOLD = BasicCancel("t", no_wait=True)


@pytest.fixture
async def raw(broker_url: str, name: Callable[..., str]) -> AsyncIterator[Connect]:
    """Open connections with channel 1."""
    port = urlsplit(broker_url).port or 5672
    opened: list[Client] = []

    async def connect(*capabilities: str) -> Client:
        opened.append(await Client.connect(port))
        return await opened[-1].log_in(capabilities=capabilities)

    yield connect
    for client in opened:
        client.close()


async def consume(client: Client, queue: str, channel: int = 1) -> None:
    """Start the consumer `t`; a prefetch limit makes it one that streams take, too."""
    await client.call(BasicQos(prefetch_count=9), BasicQosOk, channel=channel)
    consume = BasicConsume(queue=queue, consumer_tag="t")
    await client.call(consume, BasicConsumeOk, channel=channel)


async def heard(client: Client, count: int) -> list[tuple[int, Method]]:
    """The next methods, with their channels."""
    frames = [await client.frame() for _ in range(count)]
    assert {kind for kind, _, _ in frames} == {FRAME_METHOD}
    return [(channel, decode(payload)) for _, channel, payload in frames]


async def has_said_all(client: Client, channel: int = 3) -> None:
    """Nothing comes any more but what is asked for."""
    await client.call(ChannelOpen(), ChannelOpenOk, channel=channel)


@pytest.mark.parametrize(
    ("durable", "arguments"), [(False, {}), (True, {}), (True, STREAM)], ids=str
)
async def test_a_delete_is_answered_before_the_consumers_hear_of_it(
    raw: Connect, name: Callable[..., str], durable: bool, arguments: dict[str, Value]
):
    queue = name()
    deleting = await raw("consumer_cancel_notify")
    other, silent = await raw("consumer_cancel_notify"), await raw()
    declare = QueueDeclare(queue=queue, durable=durable, arguments=arguments)
    await deleting.call(declare, QueueDeclareOk)
    await deleting.call(ChannelOpen(), ChannelOpenOk, channel=2)
    await consume(deleting, queue)
    await consume(deleting, queue, channel=2)
    await consume(other, queue)
    await consume(silent, queue)
    await deleting.say(QueueDelete(queue=queue))
    said = await heard(deleting, 3)
    # RabbitMQ keeps the order on that channel, and leaves it open on others.
    assert [method for channel, method in said if channel == 1] == [QueueDeleteOk(0), TOLD]
    assert (2, TOLD) in said
    assert foreign or said[0] == (1, QueueDeleteOk(0))
    assert await heard(other, 1) == [(1, TOLD)]
    await has_said_all(silent)


@pytest.mark.parametrize("durable", [False, True])
async def test_the_consumers_hear_of_a_delete_without_an_answer(
    raw: Connect, name: Callable[..., str], durable: bool
):
    queue = name()
    client = await raw("consumer_cancel_notify")
    await client.call(QueueDeclare(queue=queue, durable=durable), QueueDeclareOk)
    await consume(client, queue)
    await client.say(QueueDelete(queue=queue, no_wait=True))
    assert await heard(client, 1) == [(1, TOLD)]
    await has_said_all(client)


@pytest.mark.parametrize("durable", [False, True])
async def test_what_is_sent_behind_a_delete_knows_the_consumer_still(
    raw: Connect, name: Callable[..., str], durable: bool
):
    first, second = name(), name()
    client = await raw("consumer_cancel_notify")
    for queue in (first, second):
        await client.call(QueueDeclare(queue=queue, durable=durable), QueueDeclareOk)
    await consume(client, first)
    await client.say(QueueDelete(queue=first), BasicCancel("t"))
    said = [method for _, method in await heard(client, 2)]
    assert said == [QueueDeleteOk(0), BasicCancelOk("t")]
    await consume(client, second)
    await client.say(QueueDelete(queue=second), BasicConsume(queue=first, consumer_tag="t"))
    assert await client.hear(QueueDeleteOk) == QueueDeleteOk(0)
    close = await client.hear(ConnectionClose)
    assert close.reply_text == "NOT_ALLOWED - attempt to reuse consumer tag 't'"


async def close(client: Client) -> None:
    """Say connection.close, and be answered."""
    await client.call(ConnectionClose(200, "bye"), ConnectionCloseOk, channel=0)


async def ended(client: Client) -> None:
    """The broker closes the socket; RabbitMQ as if it had crashed."""
    try:
        await client.ends()
    except AssertionError as error:
        if not foreign or "reset" not in str(error):
            raise


async def test_each_close_of_a_connection_is_answered_and_nothing_else(
    raw: Connect, name: Callable[..., str]
):
    queue = name()
    client, other = await raw(), await raw()
    await client.call(QueueDeclare(queue=queue, exclusive=True), QueueDeclareOk)
    await close(client)
    # Its resources are free, whatever becomes of the socket.
    await other.call(QueueDeclare(queue=queue, exclusive=True), QueueDeclareOk)
    await client.say(QueueDeclare(queue=queue), BasicConsume(queue=queue))
    await client.say(ChannelOpen(), channel=7)
    for _ in range(3):
        await close(client)
    await client.say(ConnectionCloseOk(), channel=0)
    await ended(client)


async def test_a_close_is_answered_while_the_brokers_is_under_way(raw: Connect):
    client = await raw()
    assert (await client.call(ChannelOpen(), ConnectionClose)).reply_code == 504
    for _ in range(2):
        await close(client)
    await client.say(ConnectionCloseOk(), channel=0)
    await ended(client)
