"""The scheduler: over a broker in memory, whose clock a test moves; and over real ones."""

import asyncio
import itertools
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import pytest

from leporid import testing
from leporid.client import Channel, LocalProtocolError, Scheduler, connect
from leporid.client.ladder import Ladder
from leporid.client.scheduler import SERIES, SERIES_QUEUE, Series, scheduled
from leporid.testing import BrokerProcess, MemoryBroker

START = datetime(2030, 1, 1, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


@pytest.fixture
async def memory() -> AsyncIterator[MemoryBroker]:
    async with testing.broker(now=START) as memory:
        yield memory


@pytest.fixture
async def scheduler(memory: MemoryBroker) -> AsyncIterator[Scheduler]:
    connection = await memory.connect()
    await (await connection.channel()).queue("jobs")
    async with Scheduler(connection) as scheduler:
        yield scheduler


async def taken(memory: MemoryBroker, queue: str = "jobs") -> list[tuple[str, bytes]]:
    """Everything that a queue has, with its ids."""
    async with memory.connect() as connection, connection.channel() as channel:
        source = await channel.queue(queue, passive=True)
        found = []
        while (delivery := await source.get(no_ack=True)) is not None:
            found.append((delivery.message_id or "", delivery.body))
        return found


async def test_once_after_a_while(memory: MemoryBroker, scheduler: Scheduler):
    made = await scheduler.after(MINUTE, b"soon", "jobs", id="mine")
    assert made == "mine"
    await memory.advance(59)
    assert await taken(memory) == []
    await memory.advance(1)
    assert await taken(memory) == [("mine", b"soon")]


async def test_once_at_a_moment(memory: MemoryBroker, scheduler: Scheduler):
    made = await scheduler.at(START + MINUTE, b"then", "jobs", content_type="text/plain")
    await scheduler.at(START - MINUTE, b"over", "jobs", id="over")
    await memory.settle()
    assert await taken(memory) == [("over", b"over")]
    await memory.advance(MINUTE)
    assert await taken(memory) == [(made, b"then")]


async def test_again_and_again(memory: MemoryBroker, scheduler: Scheduler):
    await scheduler.every(MINUTE, b"tick", "jobs", id="s", headers={"customer": 1})
    await memory.advance(5 * MINUTE)
    assert await taken(memory) == [
        (f"s-{(START + number * MINUTE).timestamp() * 1000:.0f}", b"tick") for number in range(1, 6)
    ]


async def test_occurrences_are_like_what_was_asked_for(memory: MemoryBroker, scheduler: Scheduler):
    connection = await memory.connect()
    channel = await connection.channel()
    exchange = await channel.exchange("reports", "topic")
    queue = await channel.queue("weekly")
    await queue.bind(exchange, "report.*")
    await scheduler.every(
        MINUTE, b"report", "report.weekly", exchange=exchange, headers={"customer": 1},
        content_type="text/plain", priority=3, first=START + 2 * MINUTE,
    )  # fmt: skip
    await memory.advance(MINUTE)
    assert await queue.get() is None
    for _ in range(2):
        await memory.advance(MINUTE)
        delivery = await queue.get()
        assert delivery is not None
        assert (delivery.body, delivery.key) == (b"report", "report.weekly")
        assert (delivery.content_type, delivery.priority) == ("text/plain", 3)
        assert delivery.headers == {"customer": 1}


async def test_a_series_outlives_its_scheduler(memory: MemoryBroker):
    connection = await memory.connect()
    await (await connection.channel()).queue("jobs")
    async with Scheduler(connection) as scheduler:
        await scheduler.every(MINUTE, b"tick", "jobs", id="s")
        await memory.advance(MINUTE)
    assert len(await taken(memory)) == 1
    # Nobody keeps it going: what is missed comes once.
    await memory.advance(10 * MINUTE)
    assert await taken(memory) == []
    async with Scheduler(connection):
        await memory.settle()
        assert len(await taken(memory)) == 1
        await memory.advance(3 * MINUTE)
        assert len(await taken(memory)) == 3
    assert memory.count(SERIES_QUEUE).ready == 0


async def test_two_schedulers_share_a_series(memory: MemoryBroker, scheduler: Scheduler):
    async with Scheduler(await memory.connect()):
        await scheduler.every(MINUTE, b"tick", "jobs")
        await memory.advance(20 * MINUTE)
    assert len(await taken(memory)) == 20


async def test_a_series_goes_on_after_a_lost_connection(memory: MemoryBroker, scheduler: Scheduler):
    await scheduler.every(MINUTE, b"tick", "jobs")
    await memory.advance(2 * MINUTE)
    memory.disconnect()
    async with memory.connect() as connection, connection.channel() as channel:
        queue = await channel.queue("jobs", passive=True)
        await memory.advance(MINUTE)
        async with queue.consume() as consumer:
            found = [await anext(aiter(consumer)) for _ in range(3)]
    assert [each.body for each in found] == [b"tick"] * 3


async def test_what_is_no_tick_is_dropped(
    memory: MemoryBroker, scheduler: Scheduler, caplog: pytest.LogCaptureFixture
):
    async with memory.connect() as connection, connection.channel() as channel:
        await channel.default_exchange.publish(b"what?", SERIES_QUEUE)
        await channel.default_exchange.publish(b"?", SERIES_QUEUE, headers={"x-series": {"a": 1}})
    await scheduler.every(MINUTE, b"tick", "jobs")
    await memory.advance(MINUTE)
    assert len(await taken(memory)) == 1
    assert caplog.text.count("no tick of a series") == 2
    assert memory.count(SERIES_QUEUE) == (0, 0)


async def test_ticks_that_nobody_can_keep_going_end_no_scheduler(
    memory: MemoryBroker, scheduler: Scheduler
):
    async with memory.connect() as connection, connection.channel() as channel:
        for interval_ms, due_ms in ((10**17, 0), (1000, 1 << 60), (1000, -1)):
            series = Series(interval_ms, due_ms, "", "jobs")
            headers = {SERIES: series.table()}
            await channel.default_exchange.publish(b"?", SERIES_QUEUE, headers=headers)
    await scheduler.every(MINUTE, b"tick", "jobs")
    await memory.advance(MINUTE)
    assert len(await taken(memory)) == 1
    assert memory.count(SERIES_QUEUE) == (0, 0)


async def test_a_series_whose_exchange_is_gone_holds_no_others_back(
    memory: MemoryBroker, scheduler: Scheduler, caplog: pytest.LogCaptureFixture
):
    async with memory.connect() as connection, connection.channel() as channel:
        exchange = await channel.exchange("there")
        await scheduler.every(MINUTE, b"bad", "k", exchange=exchange, id="bad")
        await scheduler.every(MINUTE, b"good", "jobs", id="good")
        await exchange.delete()
        await memory.advance(3 * MINUTE + timedelta(seconds=1))
        assert [body for _, body in await taken(memory)] == [b"good"] * 3
        assert "series 'bad' cannot go on" in caplog.text
        exchange = await channel.exchange("there")
        await channel.bind("jobs", exchange, "k")
        await memory.advance(10)
        assert [body for _, body in await taken(memory)] == [b"bad"]


async def test_no_task_of_a_scheduler_outlives_its_connection(memory: MemoryBroker):
    connection = await memory.connect()
    before = asyncio.all_tasks()
    scheduler = Scheduler(connection)
    await scheduler.__aenter__()
    await memory.settle()
    assert asyncio.all_tasks() - before
    await connection.close()
    assert not [task for task in asyncio.all_tasks() - before if "_keep_going" in repr(task)]
    await scheduler.close()


async def test_a_scheduler_ends_with_a_connection_that_does_not_come_back(memory: MemoryBroker):
    before = asyncio.all_tasks()
    async with (
        connect("amqp://localhost", opener=memory.open, robust=False) as connection,
        Scheduler(connection),
    ):
        await memory.settle()
        memory.disconnect()
        async with asyncio.timeout(3):
            while any("_keep_going" in repr(task) for task in asyncio.all_tasks() - before):
                await asyncio.sleep(0.001)
        assert connection.is_closed


async def test_what_makes_no_sense_is_refused(memory: MemoryBroker, scheduler: Scheduler):
    with pytest.raises(LocalProtocolError, match="no time zone"):
        await scheduler.at(datetime(2030, 1, 1), b"", "jobs")  # noqa: DTZ001
    with pytest.raises(LocalProtocolError, match="at least one second"):
        await scheduler.every(0.5, b"", "jobs")
    with pytest.raises(LocalProtocolError, match="at most ten years"):
        await scheduler.every(1e12, b"", "jobs")
    with pytest.raises(LocalProtocolError, match="at most ten years"):
        await scheduler.after(1e12, b"", "jobs")
    with pytest.raises(LocalProtocolError, match="negative"):
        await scheduler.after(-1, b"", "jobs")
    await scheduler.close()
    await scheduler.close()
    for work in (scheduler.after(1, b"", "jobs"), scheduler.list()):
        with pytest.raises(LocalProtocolError, match="not open"):
            await work


def test_what_was_missed_is_left_out():
    series = Series(interval_ms=1000, due_ms=5000, exchange="", key="k")
    assert series.after(5000).due_ms == 6000
    assert series.after(5999).due_ms == 6000
    assert series.after(6000).due_ms == 7000
    assert series.after(100_500).due_ms == 101_000
    assert series.after(0).due_ms == 6000
    assert Series.of({"x-series": series.table()}) == series


def test_a_listed_message_without_an_id():
    shown = {"message_id": None, "due_ms": 0, "exchange": "e", "routing_key": "k"}
    assert scheduled(shown).id == ""


# ------------------------------------------------------------------ over real brokers


@pytest.fixture
async def channel(broker: BrokerProcess) -> AsyncIterator[Channel]:
    api = f"http://127.0.0.1:{broker.http_port}"
    async with connect(broker.url, api=api) as connection, connection.channel() as channel:
        yield channel


@pytest.mark.slow
async def test_what_waits_is_listed_and_cancelled(channel: Channel):
    exchange = await channel.exchange("reminders", "topic")
    async with Scheduler(channel.connection) as scheduler:
        assert await scheduler.list() == []
        assert not await scheduler.cancel("nothing")
        moment = datetime.now(UTC).replace(microsecond=0) + timedelta(days=1)
        await scheduler.at(moment, b"", "mail.1", exchange=exchange, id="once")
        await scheduler.every(MINUTE, b"", "mail.2", exchange=exchange, id="series")
        series, once = await scheduler.list()
        assert (once.id, once.moment, once.exchange) == ("once", moment, "reminders")
        assert (once.key, once.every) == ("mail.1", None)
        assert (series.id, series.exchange, series.key) == ("series", "reminders", "mail.2")
        assert series.every == MINUTE
        assert await scheduler.cancel("once")
        assert await scheduler.cancel("series")
        assert await scheduler.list() == []


@pytest.mark.slow
async def test_messages_for_later_on_real_brokers(url: str, name: str):
    """Delays on one, a ladder of two levels on the other."""
    ladder = Ladder(2, prefix=f"{name[-40:]}.", queue_type="classic")
    async with connect(url) as connection, connection.channel() as channel:
        queue = await channel.queue(name, expires=60)
        async with Scheduler(connection, ladder=ladder, queue=f"{name}-series") as scheduler:
            began = datetime.now(UTC)
            await scheduler.after(1, b"once", name, id="once")
            await scheduler.every(1, b"again", name, id="series")
            async with queue.consume(prefetch=0) as consumer, asyncio.timeout(20):
                found = []
                async for delivery in consumer:
                    found.append((delivery.body, delivery.headers.get("x-series")))
                    await delivery.ack()
                    if len(found) == 4:
                        break
            lasted = (datetime.now(UTC) - began).total_seconds()
        await channel.delete_queue(f"{name}-series")
    assert sorted(found) == [(b"again", None)] * 3 + [(b"once", None)]
    assert lasted > 2.9


@pytest.mark.slow
@pytest.mark.conformance
async def test_what_a_ladder_cannot_do(rabbitmq_url: str, name: str):
    ladder = Ladder(2, prefix=f"{name}.", queue_type="classic")
    async with connect(rabbitmq_url) as connection, connection.channel() as channel:
        exchange = await channel.exchange(name, "fanout", auto_delete=True)
        async with Scheduler(connection, ladder=ladder, queue=name) as scheduler:
            with pytest.raises(LocalProtocolError, match="leads to queues only"):
                await scheduler.after(1, b"", "", exchange=exchange)
            with pytest.raises(LocalProtocolError, match="out of range"):
                await scheduler.after(4, b"", name)
            with pytest.raises(LocalProtocolError, match="does not say what is on it"):
                await scheduler.list()


@pytest.mark.slow
@pytest.mark.crash
@pytest.mark.parametrize("after_s", [0.0, 0.5, 0.99, 0.995, 1.0])
async def test_a_series_survives_a_crash_of_the_broker(own_broker: BrokerProcess, after_s: float):
    """However long after an occurrence: none is lost, and none comes twice."""
    async with connect(own_broker.url) as connection, connection.channel() as channel:
        queue = await channel.queue("jobs")
        async with Scheduler(connection) as scheduler, queue.consume() as consumer:
            await scheduler.every(1, b"again", "jobs", id="s")
            found = []
            async with asyncio.timeout(30):
                async for delivery in consumer:
                    found.append(int((delivery.message_id or "").removeprefix("s-")))
                    await delivery.ack()
                    await channel.queue("jobs", passive=True)  # the ack has arrived
                    if len(found) == 1:
                        await asyncio.sleep(after_s)
                        await asyncio.to_thread(own_broker.kill)
                        await asyncio.to_thread(own_broker.start)
                    if len(found) == 4:
                        break
    # What was missed while the broker was down comes once.
    assert sorted(set(found)) == found, found
    steps = [later - earlier for earlier, later in itertools.pairwise(found)]
    assert all(step % 1000 == 0 for step in steps), found
    assert steps.count(1000) >= len(steps) - 1, found
