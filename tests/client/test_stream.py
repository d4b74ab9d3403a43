"""Streams: offsets, named readers, groups."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest
from tests.client.steps import got

from leporid.amqp.tables import Timestamp
from leporid.client import LocalProtocolError, ServerClosed, connect
from leporid.client.stream import offset_of

pytestmark = pytest.mark.slow


async def read(consumer, count):
    found = []
    async with asyncio.timeout(30):
        async for message in consumer:
            found.append(message)
            await message.ack()
            if len(found) == count:
                break
    return found


async def written(channel, name, count=10):
    stream = await channel.stream(name)
    await channel.default_exchange.publish_many([b"%d" % n for n in range(count)], name)
    return stream


async def test_a_stream_is_read_from_any_offset(url, name):
    async with connect(url) as connection, connection.channel() as channel:
        stream = await written(channel, name)
        hour = timedelta(hours=1)
        for offset in ("first", 0, hour, datetime.now(UTC) - hour):
            found = await read(stream.read(offset), 10)
            assert [each.offset for each in found] == list(range(10))
        assert [each.body for each in await read(stream.read(7), 3)] == [b"7", b"8", b"9"]
        async with stream.read("next") as consumer:
            await channel.default_exchange.publish(b"new", name)
            assert [each.body for each in await read(consumer, 1)] == [b"new"]
        assert "Stream" in repr(stream)
        await stream.delete()


async def test_a_named_reader_goes_on_where_it_was(broker, name):
    async with (
        connect(broker.url, api=f"http://127.0.0.1:{broker.http_port}") as connection,
        connection.channel() as channel,
    ):
        stream = await written(channel, name)
        assert await stream.committed("report") is None
        found = await read(stream.read("first", reader="report"), 4)
        assert [each.offset for each in found] == [0, 1, 2, 3]
        async with asyncio.timeout(30):
            while await stream.committed("report") != 3:
                await asyncio.sleep(0.05)
        assert (await read(stream.read(reader="report"), 1))[0].offset == 4
        await stream.delete()


async def test_a_group_shares_a_stream(broker, name):
    async with connect(broker.url) as connection, connection.channel() as channel:
        stream = await written(channel, name)
        found = await read(stream.read("first", group="billing"), 10)
        assert [each.offset for each in found] == list(range(10))
        await stream.delete()


async def test_filters_of_a_stream(broker, name):
    async with connect(broker.url) as connection, connection.channel() as channel:
        stream = await channel.stream(name, age_max=timedelta(days=1), bytes_max=10_000_000)
        for number in range(6):
            await channel.default_exchange.publish(
                b"%d" % number, name, tag="late" if number % 2 else "early", headers={"n": number}
            )
        late = await read(stream.read("first", tags="late"), 3)
        assert [each.offset for each in late] == [1, 3, 5]
        found = await read(stream.read("first", tags=["late"], sql="n > 3"), 1)
        assert [each.offset for each in found] == [5]
        await stream.delete()


async def test_what_does_not_go_together(url, name):
    async with connect(url) as connection, connection.channel() as channel:
        stream = await written(channel, name)
        with pytest.raises(LocalProtocolError, match="prefetch of at least 1"):
            stream.read(prefetch=0)
        with pytest.raises(LocalProtocolError, match="not both"):
            stream.read(reader="a", group="b")
        with pytest.raises(LocalProtocolError, match="over HTTP"):
            await channel.stream(name, partitions=3)
        await stream.delete()


@pytest.mark.conformance
async def test_other_brokers_have_no_readers(rabbitmq_url, name):
    async with connect(rabbitmq_url) as connection, connection.channel() as channel:
        stream = await written(channel, name)
        for wrong in ({"reader": "r"}, {"group": "g"}, {"tags": "t"}):
            with pytest.raises(LocalProtocolError, match="Leporid has"):
                stream.read(**wrong)
        with pytest.raises(LocalProtocolError, match="Leporid has"):
            await stream.committed("r")
        await stream.delete()


async def test_a_stream_is_no_queue(url, name):
    async with connect(url) as connection, connection.channel() as channel:
        stream = await written(channel, name)
        with pytest.raises(ServerClosed) as caught:
            await got(stream)
        assert caught.value.code == 540
        await (await channel.stream(name)).delete()


@pytest.mark.parametrize(
    ("offset", "argument"),
    [
        (None, None),
        ("first", "first"),
        (0, 0),
        (timedelta(minutes=2), "120s"),
        (timedelta(0), "1s"),
        (datetime(1970, 1, 2, tzinfo=UTC), Timestamp(86400)),
    ],
)
def test_offsets_as_arguments(offset, argument):
    assert offset_of(offset) == argument


@pytest.mark.parametrize("offset", ["abc", -1, True, 1.5, timedelta(-1)])
def test_what_is_no_offset(offset):
    with pytest.raises(LocalProtocolError, match="offset"):
        offset_of(offset)
