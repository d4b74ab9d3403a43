"""Connections: opening, closing, and coming back after they were lost."""

import asyncio
import gc
import socket
import threading

import pytest
import uvloop
from tests.client.steps import cut, got, link_of, lose_output

from leporid.client import (
    AccessRefused,
    Address,
    Backoff,
    ConnectFailed,
    ConnectionLost,
    LocalProtocolError,
    NotFound,
    PreconditionFailed,
    Returned,
    ServerClosed,
    Settings,
    connect,
)
from leporid.client import events as told
from leporid.client.opening import open_tcp
from leporid.client.settings import Token
from leporid.testing import reserve_port

pytestmark = pytest.mark.slow

SOON = Backoff(first_s=0.01, longest_s=0.05)


class Told(list):
    """Events; `until` waits for one of a kind."""

    def __init__(self):
        super().__init__()
        self.changed = asyncio.Event()

    def __call__(self, event):
        self.append(event)
        self.changed.set()

    def of(self, kind):
        return [event for event in self if isinstance(event, kind)]

    async def until(self, kind, count=1):
        async with asyncio.timeout(30):
            while len(self.of(kind)) < count:
                self.changed.clear()
                await self.changed.wait()
        return self.of(kind)[-1]


@pytest.fixture
def events():
    return Told()


@pytest.fixture(autouse=True)
async def nothing_is_left():
    """Fail a test whose connections leave a task or a thread behind."""
    threads = set(threading.enumerate())
    yield
    tasks = [task for task in asyncio.all_tasks() if "leporid" in repr(task.get_coro())]
    assert not tasks
    # The resolver of asyncio has threads of its own.
    left = {each for each in threading.enumerate() if not each.name.startswith("asyncio")}
    assert left <= threads


# ------------------------------------------------------------------ opening and closing


async def test_what_the_broker_says_of_itself(url):
    async with connect(url, name="a name") as connection:
        assert "open" in repr(connection)
        assert connection.server.product in {"Leporid", "RabbitMQ"}
        assert connection.server.has("basic.nack")
        assert not connection.server.has("flying")
    assert not connection.is_open
    assert "closed" in repr(connection)


async def test_connecting_by_await_and_closing_twice(url):
    connection = await connect(url)
    channel = await connection.channel()
    await connection.close("done")
    await connection.close()
    for use in (connection.channel(), channel.queue("x"), channel.default_exchange.publish(b"")):
        with pytest.raises(LocalProtocolError, match="closed"):
            await use


@pytest.mark.parametrize("mechanism", ["PLAIN", "AMQPLAIN"])
async def test_mechanisms(url, mechanism):
    async with connect(url, mechanism=mechanism) as connection:
        assert connection.is_open


async def test_a_wrong_password_is_refused_once(url):
    with pytest.raises(AccessRefused) as caught:
        await connect(url, password="wrong")
    assert caught.value.code == 403
    assert caught.value.connection


async def test_a_virtual_host_that_there_is_not(url):
    with pytest.raises(ServerClosed) as caught:
        await connect(url, vhost="nowhere")
    assert caught.value.code == 530


async def test_nobody_listens():
    port = reserve_port()
    with pytest.raises(ConnectFailed, match=str(port)):
        await connect(f"amqp://127.0.0.1:{port}")


async def test_all_addresses_are_tried_in_their_order(broker):
    dead = reserve_port()
    good = Address("127.0.0.1", broker.amqp_port)
    settings = Settings(addresses=(Address("127.0.0.1", dead), good))
    async with connect(settings) as connection:
        assert str(good) in repr(connection)
    with pytest.raises(ConnectFailed, match=f"{dead}.*{dead}"):
        await connect(settings, addresses=(Address("127.0.0.1", dead),) * 2)


async def test_a_token_takes_the_passwords_place(url, events):
    asked = []

    async def provider():
        asked.append(1)
        return Token("guest", expires_in_s=0.2)

    async with connect(url, token=provider, password="wrong", on_event=events) as connection:
        # Renewed before it expires, without a new connection.
        async with asyncio.timeout(10):
            while len(asked) < 3:
                await asyncio.sleep(0.01)
        await connection.update_secret("guest")
    assert not events.of(told.Disconnected)


@pytest.mark.parametrize(
    "wrong",
    [
        {"heartbeat_s": -1},
        {"frame_bytes_max": 100},
        {"unknown": 1},
        {"mechanism": "MAGIC"},
        {"addresses": ()},
        {"prefetch": 70000},
        {"connect_timeout_s": 0},
    ],
)
def test_wrong_settings_are_told_before_connecting(wrong):
    for where in (Settings(), "amqp://localhost"):
        with pytest.raises(LocalProtocolError, match=next(iter(wrong))):
            _ = connect(where, **wrong)


async def test_another_loop_or_thread_is_told(broker):
    async with connect(broker.url) as connection, connection.channel() as channel:
        queue = await channel.queue(exclusive=True)
        await channel.default_exchange.publish(b"x", queue.name)
        message = await got(queue)

        def elsewhere():
            found = []
            for use in (
                lambda: asyncio.run(queue.count()),
                lambda: asyncio.run(channel.default_exchange.publish(b"")),
                lambda: asyncio.run(connection.close()),
                message.ack,
            ):
                try:
                    use()
                except LocalProtocolError as error:
                    found.append(str(error))
            return found

        found = await asyncio.to_thread(elsewhere)
        assert len(found) == 4
        assert all("another" in each and "leporid.client.blocking" in each for each in found)
        await message.ack()


async def test_more_channels_than_allowed(broker):
    async with connect(broker.url, channels_max=3) as connection:
        channels = [await connection.channel() for _ in range(3)]
        with pytest.raises(LocalProtocolError, match="3 channels are open"):
            await connection.channel()
        await channels[1].close()
        await connection.channel()


async def test_heartbeats_keep_an_idle_connection(own_broker, events):
    async with connect(own_broker.url, heartbeat_s=1, on_event=events) as connection:
        received = link_of(connection).codec.received
        async with asyncio.timeout(10):
            while link_of(connection).codec.received < received + 16:
                await asyncio.sleep(0.05)
        assert not events.of(told.Disconnected)


async def test_the_stop_of_the_broker_is_an_error_by_its_code(own_broker):
    connection = await connect(own_broker.url, robust=False)
    channel = await connection.channel()
    queue = await channel.queue(exclusive=True)

    async def collect():
        return [message async for message in queue.consume()]

    collecting = asyncio.create_task(collect())
    await asyncio.sleep(0)
    await queue.count()
    await asyncio.to_thread(own_broker.stop)
    with pytest.raises(ServerClosed) as caught:
        await asyncio.wait_for(collecting, 30)
    assert caught.value.code == 320
    with pytest.raises(ServerClosed):
        await queue.count()
    assert not connection.is_open
    await connection.close()


async def test_without_robust_a_lost_connection_is_the_end(broker, events):
    connection = await connect(broker.url, robust=False, on_event=events)
    channel = await connection.channel()
    lose_output(connection)
    publishing = asyncio.create_task(channel.default_exchange.publish(b"x", "q"))
    await asyncio.sleep(0)
    cut(connection)
    with pytest.raises(ConnectionLost):
        await publishing
    with pytest.raises(ConnectionLost):
        await channel.queue()
    await connection.close()
    assert not events.of(told.Reconnecting)


# ------------------------------------------------------------------ coming back


async def test_everything_is_there_again(url, name, events):
    async with connect(url, backoff=SOON, on_event=events) as connection:
        channel = await connection.channel()
        exchange = await channel.exchange(f"{name}-x", "topic", auto_delete=True)
        source = await channel.exchange(f"{name}-s", "fanout", auto_delete=True)
        await exchange.bind(source, "ignored")
        queue = await channel.queue(exclusive=True)
        old_name = queue.name
        await queue.bind(exchange, "a.*")
        seen = []

        async def work():
            async for message in queue.consume(prefetch=10):
                seen.append(message.body)
                await message.ack()

        working = asyncio.create_task(work())
        await source.publish(b"before", "a.b")
        cut(connection)
        await events.until(told.Restored)
        assert queue.name != old_name
        await source.publish(b"after", "a.b")
        async with asyncio.timeout(10):
            while b"after" not in seen:
                await asyncio.sleep(0.01)
        working.cancel()
        kinds = [type(event) for event in events]
        order = [told.Connected, told.Disconnected, told.Reconnecting, told.Connected]
        assert [kind for kind in kinds if kind in order][:4] == order
        assert events.until


async def test_a_killed_broker_comes_back_and_nothing_confirmed_is_lost(own_broker, events):
    async with connect(own_broker.url, backoff=SOON, on_event=events) as connection:
        channel = await connection.channel()
        queue = await channel.queue("kept")
        bodies = [b"%d" % number for number in range(20_000)]
        publishing = asyncio.create_task(
            channel.default_exchange.publish_many(bodies, "kept", window=500)
        )
        while await queue.count() < 1000:
            pass
        await asyncio.to_thread(own_broker.kill)
        await events.until(told.Disconnected)
        await asyncio.to_thread(own_broker.start)
        assert await asyncio.wait_for(publishing, 60) == 20_000
        assert events.of(told.Resent)
        seen: dict[str | None, bytes] = {}
        async for message in queue.consume(prefetch=500):
            # What was sent twice has the same id.
            assert seen.setdefault(message.message_id, message.body) == message.body
            await message.ack()
            if len(set(seen.values())) == 20_000:
                break


async def test_a_publish_of_the_lost_connection_is_sent_again(url, events):
    async with connect(url, backoff=SOON, on_event=events) as connection:
        channel = await connection.channel()
        other = await connection.channel()
        queue = await channel.queue(durable=False, auto_delete=True, name=f"resent-{id(events)}")
        lose_output(connection)
        single = asyncio.create_task(channel.default_exchange.publish(b"1", queue.name))
        many = asyncio.create_task(other.default_exchange.publish_many([b"2", b"3"], queue.name))
        gave_up = asyncio.create_task(channel.default_exchange.publish(b"nobody waits", queue.name))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        gave_up.cancel()
        await asyncio.sleep(0)
        cut(connection)
        await asyncio.wait_for(single, 30)
        assert await asyncio.wait_for(many, 30) == 2
        assert sum(event.count for event in events.of(told.Resent)) == 3
        bodies = [(await got(queue, no_ack=True)).body for _ in range(3)]
        assert sorted(bodies) == [b"1", b"2", b"3"]
        assert await queue.get() is None
        await queue.delete()


async def test_a_message_whose_ack_was_lost_comes_again(url, name, events):
    async with connect(url, backoff=SOON, on_event=events) as connection:
        channel = await connection.channel()
        queue = await channel.queue(name)
        await channel.default_exchange.publish(b"1", name)
        async with queue.consume() as consumer:
            first = await first_of(consumer)
            lose_output(connection)
            await first.ack()
            await asyncio.sleep(0)
            cut(connection)
            again = await asyncio.wait_for(first_of(consumer), 10)
            assert (again.message_id, again.redelivered) == (first.message_id, True)
            await again.ack()
        await queue.delete()


@pytest.mark.parametrize("options", [{}, {"unique_ids": True}], ids=["usual", "unique"])
async def test_a_retry_under_the_id_of_an_acked_message_is_never_lost(url, name, events, options):
    async with connect(url, backoff=SOON, on_event=events) as connection:
        channel = await connection.channel()
        queue = await channel.queue(name)
        exchange = channel.default_exchange
        await exchange.publish(b"first try", name, message_id="same")
        async with queue.consume(prefetch=10, **options) as consumer:
            await (await first_of(consumer)).ack()
            await exchange.publish(b"second try", name, message_id="same")
            retry = await asyncio.wait_for(first_of(consumer), 10)
            cut(connection)
            await events.until(told.Restored)
            again = await asyncio.wait_for(first_of(consumer), 10)
            assert (again.body, again.redelivered) == (retry.body, True)
            await again.ack()
        assert not events.of(told.AckRepeated)
        await queue.delete()


@pytest.mark.parametrize("queue_type", ["classic", "quorum"])
async def test_a_lost_ack_is_repeated_and_the_message_not_handed_out(url, name, events, queue_type):
    async with connect(url, backoff=SOON, on_event=events) as connection:
        channel = await connection.channel()
        queue = await channel.queue(name, type=queue_type)
        await channel.default_exchange.publish_many([b"1", b"2", b"3"], name)
        seen: list[bytes] = []
        async with queue.consume(prefetch=10, unique_ids=True) as consumer:
            iterator = aiter(consumer)
            first = await anext(iterator)
            second = await anext(iterator)
            lose_output(connection)
            await first.ack()
            await asyncio.sleep(0.01)
            cut(connection)
            await events.until(told.Restored)
            # The broker has it again: settling it here says nothing.
            await second.ack()
            assert second.settled
            assert not second.is_current
            while len(seen) < 2:
                message = await anext(iterator)
                seen.append(message.body)
                await message.ack()
        assert sorted(seen) == [b"2", b"3"]
        repeated = events.of(told.AckRepeated)
        assert [event.queue for event in repeated] == [name]
        assert repeated[0].message_id == first.message_id
        assert await queue.count() == 0
        await queue.delete()


async def test_a_new_message_with_the_id_of_an_acked_one_is_handed_out(url, name, events):
    async with connect(url, backoff=SOON, on_event=events) as connection:
        channel = await connection.channel()
        queue = await channel.queue(name)
        exchange = channel.default_exchange
        await exchange.publish(b"old", name, message_id="same")
        async with queue.consume(prefetch=10, unique_ids=True) as consumer:
            iterator = aiter(consumer)
            await (await anext(iterator)).ack()
            await queue.count()  # the ack has arrived
            cut(connection)
            await events.until(told.Restored)
            await exchange.publish(b"new", name, message_id="same")
            message = await asyncio.wait_for(anext(iterator), 10)
            assert message.body == b"new"
            await message.ack()
        await queue.delete()


class Gate:
    """Opens transports, the first at once, and others when it is told to."""

    def __init__(self):
        self.open = asyncio.Event()
        self.open.set()

    async def __call__(self, factory, address, settings):
        await self.open.wait()
        return await open_tcp(factory, address, settings)


async def test_what_cannot_be_restored_is_told_to_who_uses_it(url, name, events):
    gate = Gate()
    async with (
        connect(url) as helper,
        connect(url, backoff=SOON, on_event=events, opener=gate) as connection,
    ):
        admin = await helper.channel()
        channel = await connection.channel()
        fine = await channel.queue(f"{name}-fine")
        changed = await channel.queue(f"{name}-changed")
        await channel.bind(changed, "amq.fanout")
        consumer = fine.consume()
        await consumer.begin()
        gate.open.clear()
        cut(connection)
        # Behind its back a queue becomes another one.
        await admin.delete_queue(changed)
        await admin.queue(f"{name}-changed", durable=False, auto_delete=True)
        gate.open.set()
        await events.until(told.Restored)
        failed = events.of(told.RestoreFailed)
        assert [event.what for event in failed] == [f"queue {changed.name!r}"]
        assert isinstance(failed[0].error, PreconditionFailed)
        await channel.default_exchange.publish(b"x", fine.name)
        message = await asyncio.wait_for(anext(aiter(consumer)), 10)
        await message.ack()
        await admin.delete_queue(fine)
        await admin.delete_queue(changed)


async def test_a_consumer_whose_queue_is_gone_raises(url, name, events):
    gate = Gate()
    async with (
        connect(url) as helper,
        connect(url, backoff=SOON, on_event=events, opener=gate) as connection,
    ):
        admin = await helper.channel()
        channel = await connection.channel()
        await admin.queue(name)
        queue = await channel.queue(name, passive=True)
        kept = await channel.queue(exclusive=True)
        gone, going = queue.consume(), kept.consume()
        await gone.begin()
        await going.begin()
        gate.open.clear()
        cut(connection)
        await admin.delete_queue(name)
        gate.open.set()
        with pytest.raises(NotFound):
            await asyncio.wait_for(first_of(gone), 30)
        await events.until(told.Restored)
        assert [type(event.error) for event in events.of(told.RestoreFailed)] == [NotFound]
        await channel.default_exchange.publish(b"goes on", kept.name)
        assert (await asyncio.wait_for(first_of(going), 10)).body == b"goes on"


async def first_of(consumer):
    return await anext(aiter(consumer))


async def test_calls_wait_for_the_connection_to_come_back(own_broker, events):
    async with connect(own_broker.url, backoff=SOON, on_event=events) as connection:
        channel = await connection.channel()
        await asyncio.to_thread(own_broker.kill)
        await events.until(told.Disconnected)
        assert "reconnecting" in repr(connection)
        declaring = asyncio.create_task(channel.queue("waits"))
        opening = asyncio.create_task(asyncio.wait_for(connection.channel(), 30))
        publishing = asyncio.create_task(channel.default_exchange.publish(b"x", "waits"))
        await events.until(told.Reconnecting, 3)
        assert not declaring.done()
        await asyncio.to_thread(own_broker.start)
        queue = await asyncio.wait_for(declaring, 30)
        await opening
        # It may have come before the queue was there.
        (published,) = await asyncio.gather(publishing, return_exceptions=True)
        assert isinstance(published, Returned | None)
        assert await queue.count() == (published is None)


async def test_closing_while_it_connects_again_ends_everything(own_broker, events):
    before = asyncio.all_tasks()
    connection = await connect(own_broker.url, backoff=SOON, on_event=events)
    channel = await connection.channel()
    await asyncio.to_thread(own_broker.kill)
    await events.until(told.Reconnecting, 2)
    waiting = asyncio.create_task(channel.queue("never"))
    await asyncio.sleep(0)
    await connection.close()
    with pytest.raises(LocalProtocolError, match="closed"):
        await waiting
    # What is not there any more tells nothing, and tries nothing.
    assert asyncio.all_tasks() == before


async def test_a_refused_user_ends_the_attempts(own_broker, events):
    passwords = iter(["guest", "wrong"])
    connection = await connect(
        own_broker.url, token=lambda: next(passwords), backoff=SOON, on_event=events
    )
    channel = await connection.channel()
    cut(connection)
    with pytest.raises(AccessRefused):
        await asyncio.wait_for(channel.queue("x"), 30)
    assert len(events.of(told.Connected)) == 1
    await connection.close()


async def test_a_token_provider_that_fails_is_asked_again(broker, events):
    answers = iter(["guest", OSError("no network"), ValueError("no token"), "guest"])

    def provider():
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    async with connect(broker.url, token=provider, backoff=SOON, on_event=events) as connection:
        cut(connection)
        await events.until(told.Restored)
        assert len(events.of(told.Reconnecting)) == 3
    with pytest.raises(ConnectFailed, match="token provider failed"):
        await connect(broker.url, token=lambda: 1 / 0)


async def test_an_opener_that_fails_ends_the_connection(broker, events, caplog):
    async def opener(factory, address, settings):
        if events.of(told.Connected):
            raise ZeroDivisionError
        return await open_tcp(factory, address, settings)

    connection = await connect(broker.url, opener=opener, backoff=SOON, on_event=events)
    channel = await connection.channel()
    cut(connection)
    with pytest.raises(ConnectionLost, match="ZeroDivisionError"):
        await asyncio.wait_for(channel.queue(), 10)
    await connection.close()
    gc.collect()  # asyncio logs the defect when the task is dropped
    assert "ZeroDivisionError" in caplog.text


async def test_a_queue_that_was_deleted_with_its_consumer_does_not_come_back(url, name, events):
    async with connect(url, backoff=SOON, on_event=events) as connection:
        channel = await connection.channel()
        queue = await channel.queue(name, auto_delete=True, durable=False)
        async with queue.consume(), queue.consume():
            cut(connection)
            await events.until(told.Restored)
            assert await queue.count() == 0
        cut(connection)
        await events.until(told.Restored, 2)
        with pytest.raises(NotFound):
            await channel.queue(name, passive=True)


async def test_a_refused_user_is_tried_again_if_wanted(own_broker, events):
    passwords = iter(["guest", "wrong", "wrong", "guest"])
    async with connect(
        own_broker.url,
        token=lambda: next(passwords),
        backoff=SOON,
        on_event=events,
        retry_refused=True,
    ) as connection:
        channel = await connection.channel()
        cut(connection)
        await asyncio.wait_for(channel.queue(exclusive=True), 30)


async def test_a_broker_that_allows_less_than_before_ends_the_connection(broker, events):
    connection = await connect(broker.url, backoff=SOON, on_event=events)
    channels = [await connection.channel() for _ in range(2)]
    cut(connection)
    await events.until(told.Connected, 2)
    link_of(connection).channels_max = 1
    with pytest.raises(LocalProtocolError, match="1 channels are open"):
        await asyncio.wait_for(channels[1].queue(), 10)
    assert connection.live_link is None
    await connection.close()


def test_another_event_loop(broker, name):
    async def main():
        async with connect(broker.url, backoff=SOON) as connection:
            channel = await connection.channel()
            queue = await channel.queue(exclusive=True)
            await channel.default_exchange.publish_many([bytes(1000)] * 5000, queue.name)
            cut(connection)
            queue = await channel.queue(name)
            await channel.default_exchange.publish_many([bytes(1000)] * 5000, name)
            count = 0
            async for message in queue.consume():
                await message.ack()
                count += 1
                if count == 5000:
                    break
            await queue.delete()
            return count

    assert uvloop.run(main()) == 5000


async def test_events_can_be_iterated_over(broker):
    connection = await connect(broker.url, backoff=SOON)
    seen = []

    async def watch():
        async for event in connection.events():
            seen.append(type(event))

    watching = asyncio.create_task(watch())
    await asyncio.sleep(0)
    cut(connection)
    async with asyncio.timeout(10):
        while told.Restored not in seen:
            await asyncio.sleep(0.01)
    await connection.close()
    await asyncio.wait_for(watching, 10)
    assert seen == [told.Disconnected, told.Reconnecting, told.Connected, told.Restored]


async def test_a_callback_that_fails_is_logged(broker, caplog):
    def fails(event):
        raise ValueError("mine")

    async with connect(broker.url, on_event=fails):
        pass
    assert "on_event failed" in caplog.text


async def test_a_transport_is_injected(broker):
    opened = []

    async def opener(factory, address, settings):
        loop = asyncio.get_running_loop()
        sock = socket.create_connection((address.host, address.port))
        sock.setblocking(False)
        transport, _ = await loop.create_connection(factory, sock=sock)
        opened.append(address)
        return transport

    async with connect(broker.url, opener=opener) as connection:
        assert connection.is_open
    assert [each.port for each in opened] == [broker.amqp_port]


async def test_waits_that_are_given_up_while_it_connects_again_leave_nothing(broker):
    async with connect(broker.url, backoff=Backoff(30, 30)) as connection:
        channel = await connection.channel()
        queue = await channel.queue(exclusive=True)
        cut(connection)
        for _ in range(50):
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(queue.count(), 0.001)
        await asyncio.sleep(0)
        assert len(connection._waiters) == 0


async def test_each_attempt_to_connect_again_says_why_the_last_one_failed(own_broker, events):
    async with connect(own_broker.url, backoff=SOON, on_event=events):
        own_broker.kill()
        await events.until(told.Reconnecting, 2)
        first, second = events.of(told.Reconnecting)[:2]
        assert first.error is None
        assert isinstance(second.error, ConnectFailed)


async def test_a_host_name_that_cannot_be_is_no_connection():
    with pytest.raises(ConnectFailed, match=r"a\.\.b"):
        await connect("amqp://a..b/")
