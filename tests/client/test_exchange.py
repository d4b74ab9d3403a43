"""Publishing, against real brokers."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from tests.client.fake_server import Peer, serving
from tests.client.steps import give_up, got, link_of

from leporid.amqp.methods import BasicAck, BasicPublish, ChannelFlow, ChannelFlowOk, decode
from leporid.client import (
    ConnectionLost,
    LocalProtocolError,
    Message,
    Nacked,
    NotFound,
    Returned,
    Timeout,
    connect,
)
from leporid.client.events import Blocked, Event, Unblocked, Unroutable
from leporid.client.exchange import Exchange
from leporid.client.message import Body

pytestmark = pytest.mark.slow


async def test_a_publish_arrives_with_its_properties(url, name):
    moment = datetime(2026, 5, 1, 12, 0, 0, tzinfo=UTC)
    async with connect(url) as connection, connection.channel() as channel:
        queue = await channel.queue(name)
        await channel.default_exchange.publish(
            b"hello",
            name,
            headers={"n": 1, "when": moment, "list": [1, "a"], "table": {"x": None}},
            priority=3,
            content_type="text/plain",
            content_encoding="utf-8",
            correlation_id="c",
            reply_to="r",
            expires=timedelta(hours=1),
            message_id="m",
            timestamp=moment,
            type="t",
            user_id="guest",
            app_id="a",
        )
        found = await got(queue)
        assert found.body == b"hello"
        assert found.headers["n"] == 1
        assert found.headers["when"] == int(moment.timestamp())
        assert found.headers["list"] == [1, "a"]
        assert found.headers["table"] == {"x": None}
        assert (found.priority, found.content_type, found.content_encoding) == (
            3,
            "text/plain",
            "utf-8",
        )
        assert (found.correlation_id, found.reply_to, found.expiration) == ("c", "r", "3600000")
        assert (found.message_id, found.timestamp, found.type) == ("m", moment, "t")
        assert (found.user_id, found.app_id, found.persistent) == ("guest", "a", True)
        assert (found.key, found.exchange, found.redelivered) == (name, "", False)
        await found.ack()
        await queue.delete()


@pytest.mark.parametrize("size", [0, 1, 131064, 131065, 300_000])
async def test_bodies_of_any_size_arrive(url, name, size):
    body = bytes(index % 251 for index in range(size))
    async with connect(url) as connection, connection.channel() as channel:
        queue = await channel.queue(exclusive=True)
        await channel.default_exchange.publish(body, queue.name)
        async for message in queue.consume():
            assert message.body == body
            await message.ack()
            break


async def test_many_tasks_share_the_pipeline(url, name):
    async with connect(url) as connection, connection.channel() as channel:
        queue = await channel.queue(exclusive=True)
        exchange = channel.default_exchange
        await asyncio.gather(*(exchange.publish(b"%d" % n, queue.name) for n in range(500)))
        assert await queue.count() == 500
        assert "0 unconfirmed" in repr(channel)


async def test_what_no_queue_wants_comes_back_with_the_message(url, name):
    async with connect(url) as connection, connection.channel() as channel:
        exchange = channel.default_exchange
        with pytest.raises(Returned) as caught:
            await exchange.publish(b"lost", f"{name}-nobody", headers={"a": 1})
        error = caught.value
        assert (error.code, error.exchange) == (312, "")
        assert error.message.body == b"lost"
        assert error.message.key == f"{name}-nobody"
        assert error.message.headers == {"a": 1}
        await exchange.publish(b"lost", f"{name}-nobody", mandatory=False)


async def test_returns_are_told_from_one_another(url, name):
    async with connect(url) as connection, connection.channel() as channel:
        queue = await channel.queue(exclusive=True)
        keys = [queue.name if n % 3 else f"{name}-{n}" for n in range(60)]
        results = await asyncio.gather(
            *(
                # A part has ids of its own, and some of them the same.
                channel.default_exchange.publish(
                    b"%d" % n, key, message_id=f"id-{n // 2}" if n % 2 else None
                )
                for n, key in enumerate(keys)
            ),
            return_exceptions=True,
        )
        for n, result in enumerate(results):
            if n % 3:
                assert result is None
            else:
                assert isinstance(result, Returned)
                assert result.message.body == b"%d" % n


async def test_a_full_queue_nacks(url, name):
    async with connect(url) as connection, connection.channel() as channel:
        queue = await channel.queue(exclusive=True, length_max=1, overflow="reject-publish")
        await channel.default_exchange.publish(b"1", queue.name)
        with pytest.raises(Nacked) as caught:
            await channel.default_exchange.publish(b"2", queue.name, message_id="two")
        assert caught.value.message.body == b"2"
        assert caught.value.message.message_id == "two"


async def test_publish_many_counts_what_it_published(url, name):
    async with connect(url) as connection, connection.channel() as channel:
        queue = await channel.queue(exclusive=True)
        exchange = channel.default_exchange
        bodies = (b"%d" % n for n in range(5000))
        assert await exchange.publish_many(bodies, queue.name, window=100) == 5000
        assert await queue.count() == 5000
        assert await exchange.publish_many([], queue.name) == 0
        seen = []
        async for message in queue.consume(no_ack=True):
            seen.append(message.body)
            if len(seen) == 5000:
                break
        assert seen == [b"%d" % n for n in range(5000)]


async def test_publish_many_takes_messages_and_asynchronous_iterables(url, name):
    async def messages() -> AsyncIterator[Body | Message]:
        yield b"plain"
        await asyncio.sleep(0)
        yield Message(b"own key", key=queue.name, headers={"n": 1}, tag="late")
        yield bytearray(b"mutable")

    async with connect(url) as connection, connection.channel() as channel:
        queue = await channel.queue(exclusive=True)
        assert await channel.default_exchange.publish_many(messages(), queue.name) == 3
        found = [await got(queue, no_ack=True) for _ in range(3)]
        assert [each.body for each in found] == [b"plain", b"own key", b"mutable"]
        assert found[1].headers == {"n": 1, "x-tag": "late"}
        assert found[1].tag == "late"


async def test_publish_many_tells_each_failure(url, name):
    async with connect(url) as connection, connection.channel() as channel:
        queue = await channel.queue(exclusive=True)
        messages = [
            Message(b"%d" % n, key=queue.name if n % 100 else f"{name}-none") for n in range(1000)
        ]
        with pytest.raises(ExceptionGroup) as caught:
            await channel.default_exchange.publish_many(messages, window=50)
        failures: Any = caught.value.exceptions
        assert [each.message.body for each in failures] == [b"%d" % n for n in range(0, 1000, 100)]
        assert "10 of 1000" in str(caught.value)
        assert await queue.count() == 990


async def test_publish_many_stops_after_many_failures(url, name):
    taken = 0

    def endless():
        nonlocal taken
        while True:
            taken += 1
            yield b"x"

    async with connect(url) as connection, connection.channel() as channel:
        with pytest.raises(ExceptionGroup):
            await channel.default_exchange.publish_many(endless(), f"{name}-none", window=100)
        assert 1000 <= taken < 1200


async def test_an_exchange_that_does_not_exist_fails_the_publish_and_not_the_channel(url, name):
    async with connect(url) as connection, connection.channel() as channel:
        queue = await channel.queue(exclusive=True)
        with pytest.raises(NotFound) as caught:
            await Exchange(channel, f"{name}-none", "direct").publish(b"x")
        assert caught.value.method == "basic.publish"
        with pytest.raises(NotFound):
            await Exchange(channel, f"{name}-none", "direct").publish_many([b"x"] * 5)
        await channel.default_exchange.publish(b"x", queue.name)


async def test_without_confirms_returns_are_events(url, name):
    events: asyncio.Queue[Event] = asyncio.Queue()
    async with (
        connect(url, on_event=events.put_nowait) as connection,
        connection.channel(confirms=False) as channel,
    ):
        await channel.default_exchange.publish(b"x", f"{name}-none")
        while not isinstance(event := await asyncio.wait_for(events.get(), 10), Unroutable):
            pass
        assert event.key == f"{name}-none"


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"body": Message(b"x")}, "publish_many"),
        ({"key": "k" * 256}, "routing key has 256 bytes"),
        ({"key": 5}, "str"),
        ({"body": "text"}, "text.encode()"),
        ({"headers": {"x": object()}}, "object"),
        ({"headers": {"x": 1 << 64}}, "out of range"),
        ({"headers": {5: 1}}, "name of a field"),
        ({"headers": {"x" * 256: 1}}, "longer than 255"),
        ({"headers": {"x": float("nan")}}, "out of range"),
        ({"headers": {"x": "x" * 200_000}}, "one frame"),
        ({"headers": {"x": "\ud800"}}, "headers"),
        ({"priority": 256}, "priority"),
        ({"priority": "high"}, "priority"),
        ({"content_type": "x" * 256}, "content_type has 256 bytes"),
        ({"correlation_id": 5}, "correlation_id must be a str"),
        ({"expires": -1}, "negative"),
        ({"expires": "soon"}, "expires must be of timedelta"),
        ({"timestamp": datetime(2026, 1, 1)}, "no time zone"),  # noqa: DTZ001
        ({"timestamp": -5}, "before 1970"),
        ({"deliver_at": "tomorrow"}, "deliver_at must be of datetime"),
        ({"delay": timedelta(days=4000)}, "ten years"),
        ({"delay": 1, "deliver_at": datetime.now(UTC)}, "not both"),
        ({"tag": "a", "headers": {"x-tag": "b"}}, "given twice"),
    ],
)
async def test_mistakes_are_told_before_anything_is_sent(broker, arguments, told):
    async with connect(broker.url) as connection, connection.channel() as channel:
        link = link_of(connection)
        sent = link.codec.sent
        with pytest.raises(LocalProtocolError, match=told):
            await channel.default_exchange.publish(**{"body": b"", "key": "k"} | arguments)
        assert len(link.codec.output) == 0
        assert link.codec.sent == sent
        assert "0 unconfirmed" in repr(channel)


async def test_publish_many_checks_each_message(broker):
    async with connect(broker.url) as connection, connection.channel() as channel:
        queue = await channel.queue(exclusive=True)
        exchange = channel.default_exchange
        wrongs: list[Any] = ["text", None, Message(b"", key="k" * 256), Message(b"", priority=1000)]
        for wrong in wrongs:
            with pytest.raises(LocalProtocolError):
                await exchange.publish_many([b"fine", wrong], queue.name)
        with pytest.raises(LocalProtocolError, match="window"):
            await exchange.publish_many([], window=0)
        await channel.default_exchange.publish(b"still works", queue.name)


async def test_a_delay_holds_the_message_back(broker, name):
    async with connect(broker.url) as connection, connection.channel() as channel:
        delayed = await channel.exchange(
            name, "x-delayed-message", arguments={"x-delayed-type": "fanout"}
        )
        queue = await channel.queue(exclusive=True)
        await queue.bind(delayed)
        for exchange in (delayed, channel.default_exchange):
            start = asyncio.get_running_loop().time()
            await exchange.publish(b"later", queue.name, delay=0.2)
            assert await queue.get() is None
            async for message in queue.consume():
                assert message.body == b"later"
                await message.ack()
                break
            # The broker never delivers early; deliver_at has milliseconds.
            assert asyncio.get_running_loop().time() - start > 0.19
        await delayed.delete()


@pytest.mark.conformance
async def test_a_broker_without_delays_is_told_from_one_with_them(rabbitmq_url):
    async with connect(rabbitmq_url) as connection, connection.channel() as channel:
        queue = await channel.queue(exclusive=True)
        with pytest.raises(LocalProtocolError, match="Scheduler"):
            await channel.default_exchange.publish(b"x", queue.name, delay=5)
        with pytest.raises(LocalProtocolError, match="RabbitMQ"):
            await channel.bind(queue, "amq.topic", sql="a = 1")


async def test_a_timeout_says_what_was_waited_for(own_broker):
    async with connect(own_broker.url) as connection, connection.channel() as channel:
        queue = await channel.queue(exclusive=True)
        link_of(connection).codec.pause(True)
        with pytest.raises(Timeout, match=r"no confirm within 0\.05 s of a publish to exchange ''"):
            await channel.default_exchange.publish(b"x", queue.name, timeout_s=0.05)
        link_of(connection).codec.pause(False)
        connection.notify()
        await channel.default_exchange.publish(b"x", queue.name, timeout_s=10)
        assert await queue.count() == 1


async def test_publishes_wait_while_the_broker_is_blocked(broker, name):
    events: list[Event] = []
    async with (
        connect(broker.url, on_event=events.append) as connection,
        connection.channel() as channel,
    ):
        queue = await channel.queue(exclusive=True)
        link = link_of(connection)
        link.is_blocked = True
        connection.link_blocked("low on disk")
        assert connection.is_blocked
        assert "blocked" in repr(connection)
        publishing = asyncio.create_task(channel.default_exchange.publish(b"x", queue.name))
        assert await queue.count() == 0
        assert not publishing.done()
        link.is_blocked = False
        connection.link_blocked(None)
        await asyncio.wait_for(publishing, 10)
        assert Blocked("low on disk") in events
        assert Unblocked() in events


async def test_exchanges_are_bound_and_deleted(url, name):
    async with connect(url) as connection, connection.channel() as channel:
        source = await channel.exchange(f"{name}-source", "topic", auto_delete=False)
        target = await channel.exchange(f"{name}-target", "fanout")
        await target.bind(source, "a.*")
        queue = await channel.queue(exclusive=True)
        await queue.bind(target)
        await source.publish(b"routed", "a.b")
        with pytest.raises(Returned):
            await source.publish(b"not", "b.b")
        await target.unbind(source, "a.*")
        with pytest.raises(Returned):
            await source.publish(b"not", "a.b")
        assert await queue.count() == 1
        await source.delete()
        await target.delete()
        assert "topic" in repr(source)


async def test_publishes_while_a_channel_is_opened_again_are_confirmed_or_told(url, name):
    """Each error closes the channel under the publishes of others; none of them is forgotten."""
    async with connect(url) as connection, connection.channel() as channel:
        queue = await channel.queue(name)

        async def taken() -> int:
            try:
                await channel.default_exchange.publish(b"x", name, timeout_s=20)
            except NotFound:
                return 0  # it was under way when the channel was closed
            return 1

        absent = Exchange(channel, "absent", "direct")
        found = []
        for _ in range(10):
            failing = asyncio.create_task(absent.publish(b"x", name))
            # New ones come in every turn, in those of opening the channel again, too.
            while not failing.done() or not channel.is_open:
                found.append(asyncio.create_task(taken()))
                await asyncio.sleep(0)
            with pytest.raises(NotFound):
                await failing
        count = sum(await asyncio.gather(*found))
        assert count > 0
        assert await queue.count() >= count


async def test_many_without_confirms_are_written_and_counted(url, name):
    async with connect(url) as connection, connection.channel(confirms=False) as channel:
        queue = await channel.queue(name)
        assert await channel.default_exchange.publish_many([b"x"] * 2500, name, window=10) == 2500
        # Nothing says when RabbitMQ has routed them.
        while await queue.count() < 2500:
            await asyncio.sleep(0.01)
        async with channel.transaction():
            assert await channel.default_exchange.publish_many([b"y"] * 3, name) == 3
        assert await queue.count() == 2503


async def test_a_channel_that_closes_under_publishes_leaves_the_connection_alone(url, name):
    async with connect(url, robust=False) as connection, connection.channel() as channel:
        queue = await channel.queue(name)
        for _ in range(20):
            other = await connection.channel()
            publish = other.default_exchange.publish
            found = [asyncio.create_task(publish(b"x", name)) for _ in range(50)]
            await asyncio.sleep(0)
            await other.close()
            for each in found:
                with contextlib.suppress(ConnectionLost):
                    await each
        assert await queue.count() <= 1000


async def test_only_so_many_publishes_are_unconfirmed_at_a_time():
    most: list[int] = []

    async def script(peer: Peer):
        await peer.log_in()
        await peer.open_channel()
        came = confirmed = 0
        while confirmed < 50:
            while came < min(50, confirmed + 10):
                assert isinstance(await peer.method(), BasicPublish)
                await peer.receive()
                await peer.receive()
                came += 1
            # Whatever more the client would have sent comes before the answer to this.
            peer.send(ChannelFlow(True))
            kind, _, payload = await peer.receive()
            assert kind == 1
            assert decode(payload) == ChannelFlowOk(True)
            most.append(came - confirmed)
            confirmed += 3 if confirmed < 30 else 10
            peer.send(BasicAck(min(confirmed, 50), True))
        await peer.reader.read()

    async with serving(script) as url:
        connection = await connect(url, unconfirmed_max=10)
        channel = await connection.channel()
        async with asyncio.timeout(10), asyncio.TaskGroup() as tasks:
            for number in range(50):
                tasks.create_task(channel.default_exchange.publish(b"%d" % number, "q"))
        assert max(most) == 10
        assert repr(channel).startswith("<Channel 1, 0 consumers, 0 unconfirmed")
        give_up(connection)
        await connection.close()
