"""Records over HTTP: every row once, in order, and no end that is none."""

from __future__ import annotations

import asyncio
import base64
import threading
from typing import Any

import httpx
import pyarrow as pa
import pytest
from tests.engine import stream_world as streams
from tests.management.conftest import World
from tests.server.test_http import TOTALS

from leporid.amqp.properties import Properties, encode_properties
from leporid.amqp.tables import Timestamp
from leporid.engine.tables.arrow import COLUMNS
from leporid.management import records as module
from leporid.management.application import routes
from leporid.server.http import application

URL = "/api/streams/%2F/orders/records"


async def get(client: httpx.AsyncClient, **parameters: Any) -> httpx.Response:
    return await client.get(URL, params=parameters)


async def table(client: httpx.AsyncClient, **parameters: Any) -> pa.Table:
    answer = await get(client, **parameters)
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == "application/vnd.apache.arrow.stream"
    read = pa.ipc.open_stream(answer.content).read_all()
    read.validate(full=True)
    return read


async def test_every_record_once_and_in_order(world: World, client: httpx.AsyncClient):
    world.fill(world.stream(), 25)
    read = await table(client, batch_rows=10)
    assert read["offset"].to_pylist() == list(range(25))
    assert read["body"].to_pylist() == [b"%d" % at for at in range(25)]
    assert read["routing_key"].to_pylist() == [f"k{at}" for at in range(25)]
    assert set(read["stream"].to_pylist()) == {"orders"}
    assert set(read["partition"].to_pylist()) == {0}
    assert read["timestamp"].to_pylist()[0].timestamp() == world.engine.clock.wall_ms / 1000
    assert [len(batch) for batch in read.to_batches()] == [10, 10, 5]


async def test_the_schema_says_what_was_asked_for(world: World, client: httpx.AsyncClient):
    stream = world.stream()
    world.fill(stream, 5)
    read = await table(client, **{"from": 1, "to": 4, "columns": "body,offset"})
    assert read.schema.names == ["offset", "body"]
    assert read["offset"].to_pylist() == [1, 2, 3]
    assert read.schema.metadata == {
        b"leporid.from": b"1",
        b"leporid.to": b"4",
        b"leporid.partition": b"0",
        b"leporid.incarnation": stream.incarnation.encode(),
    }
    everything = await table(client, columns=",".join(COLUMNS))
    assert everything.schema.names == list(COLUMNS)


async def test_nothing_is_a_table_without_rows(world: World, client: httpx.AsyncClient):
    world.stream()
    assert (await table(client)).num_rows == 0
    assert (await table(client, **{"from": 0, "to": 0})).num_rows == 0


@pytest.mark.parametrize("compression", ["none", "lz4", "zstd"])
async def test_compression(world: World, client: httpx.AsyncClient, compression: str):
    world.fill(world.stream(), 100, body=b"x" * 1000)
    plain = await get(client)
    answer = await get(client, compression=compression)
    assert pa.ipc.open_stream(answer.content).read_all() == (
        pa.ipc.open_stream(plain.content).read_all()
    )
    if compression != "none":
        assert len(answer.content) < len(plain.content) / 5


async def test_filters(world: World, client: httpx.AsyncClient):
    stream = world.stream()
    for key, exchange in (("a.b", "x"), ("a", "y"), ("a.b", "y"), ("", "")):
        world.engine.clock.wall_ms += 1000
        world.fill(stream, 1, key=key, exchange=exchange)

    async def offsets(**parameters: Any) -> list[int]:
        found: list[int] = (await table(client, **parameters))["offset"].to_pylist()
        return found

    assert await offsets(routing_key="a.b") == [0, 2]
    assert await offsets(routing_key="") == [3]
    assert await offsets(routing_key_prefix="a") == [0, 1, 2]
    assert await offsets(exchange="y", routing_key_prefix="a.") == [2]
    first = 1_700_000_001_000
    assert await offsets(since_ms=first + 1000, until_ms=first + 3000) == [1, 2]
    assert await offsets(routing_key="nobody's", batch_rows=1) == []


@pytest.mark.parametrize("compression", ["none", "zstd"])
async def test_who_waits_long_for_a_match_is_told_that_it_goes_on(
    world: World, client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch, compression: str
):
    world.fill(world.stream(), 30)
    nobody: dict[str, Any] = {"routing_key": "nobody's", "batch_rows": 10}

    async def rows() -> list[int]:
        answer = await get(client, **nobody, compression=compression)
        return [batch.num_rows for batch in pa.ipc.open_stream(answer.content)]

    assert await rows() == []
    monkeypatch.setattr(module, "SILENCE_SECONDS", 0)
    assert await rows() == [0, 0, 0]


async def test_properties_and_headers(world: World, client: httpx.AsyncClient):
    properties = Properties(
        content_type="text/plain",
        delivery_mode=2,
        priority=9,
        message_id="m\udcff",
        timestamp=1_700_000_000,
        headers={"n": 5, "text": "ü", "at": Timestamp(0), "nothing": None, "list": [1, "a"]},
    )
    world.fill(world.stream(), 1, properties=encode_properties(properties))
    row = (await table(client, columns=",".join(COLUMNS))).to_pylist()[0]
    assert row["properties"]["content_type"] == "text/plain"
    assert row["properties"]["priority"] == 9
    assert row["properties"]["message_id"] == "m\ufffd"
    assert row["properties"]["timestamp"].timestamp() == 1_700_000_000
    assert row["properties"]["reply_to"] is None
    assert dict(row["headers"]) == {
        "n": "5",
        "text": "ü",
        "at": "1970-01-01T00:00:00Z",
        "nothing": None,
        "list": '[1,"a"]',
    }
    assert row["headers_json"] == (
        '{"n":5,"text":"ü","at":"1970-01-01T00:00:00Z","nothing":null,"list":[1,"a"]}'
    )


@pytest.mark.parametrize(
    ("parameters", "status", "error", "says"),
    [
        ({"colums": "body"}, 400, "bad-request", "did you mean 'columns'?"),
        ({"columns": "body,offsett"}, 400, "bad-request", "did you mean 'offset'?"),
        ({"columns": "body,body"}, 400, "bad-request", "twice"),
        ({"columns": ""}, 400, "bad-request", "columns"),
        ({"compression": "gzip"}, 400, "bad-request", "compression"),
        ({"from": "-1"}, 400, "bad-request", "from"),
        ({"from": "one"}, 400, "bad-request", "from"),
        ({"from": "9" * 30}, 400, "bad-request", "from"),
        ({"from": 3, "to": 2}, 400, "bad-request", "to: 2 is below from, 3"),
        ({"batch_rows": 0}, 400, "bad-request", "from 1 to 100000"),
        ({"skip_lost": "yes"}, 400, "bad-request", "skip_lost"),
        ({"partition": 1}, 404, "not-found", "no partition 1"),
        ({"incarnation": "x"}, 409, "incarnation", "made anew"),
        ({"to": 6}, 416, "beyond", "ends before offset 5"),
    ],
)
async def test_bad_requests(
    world: World,
    client: httpx.AsyncClient,
    parameters: dict[str, Any],
    status: int,
    error: str,
    says: str,
):
    world.fill(world.stream(), 5)
    answer = await get(client, **parameters)
    assert answer.status_code == status
    assert answer.json()["error"] == error
    assert says in answer.json()["reason"]


async def test_errors_carry_what_programs_need(world: World, client: httpx.AsyncClient):
    stream = world.stream(
        "orders", {"x-stream-max-segment-size-bytes": 4096, "x-max-length-bytes": 4096}
    )
    for _ in range(20):
        world.fill(stream, 10, body=b"x" * 300)
    assert stream.first > 0
    answer = await get(client, **{"from": 0})
    assert (answer.status_code, answer.json()["error"]) == (410, "gone")
    assert answer.json()["first"] == stream.first
    answer = await get(client, to=stream.end + 1)
    assert answer.json()["end"] == stream.end


async def test_what_is_not_on_disk_is_not_shown(world: World, client: httpx.AsyncClient):
    stream = world.stream()
    world.fill(stream, 1)
    world.engine.publish([stream], "", "k", b"\0\0", b"not yet")
    assert (await table(client)).num_rows == 1
    assert (await get(client, to=2)).status_code == 416


async def test_a_stream_that_ends_on_the_way_cuts_the_answer_off(
    world: World, client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
):
    stream = world.stream()
    world.fill(stream, 40)
    encode = module._Records._encode
    batches: list[int] = []

    loop, gone = asyncio.get_running_loop(), threading.Event()

    def delete() -> None:
        world.vhost.delete_queue(world.vhost.queue("orders"))
        gone.set()

    def deleting(self: Any, window: Any) -> Any:
        batches.append(window.first)
        if len(batches) == 3:
            loop.call_soon_threadsafe(delete)
            assert gone.wait(10)
        return encode(self, window)

    monkeypatch.setattr(module._Records, "_encode", deleting)
    # No end of the chunked body: every client sees that it is cut.
    with pytest.raises(httpx.RemoteProtocolError, match="incomplete"):
        await get(client, batch_rows=1)
    assert gone.is_set()
    assert len(batches) < 40


async def test_a_reader_that_goes_holds_nothing_back(world: World, client: httpx.AsyncClient):
    stream = world.stream("orders", {"x-max-length-bytes": 1_000_000})
    world.fill(stream, 100, body=b"x" * 100_000)
    async with client.stream("GET", URL, params={"batch_rows": 1}) as answer:
        assert answer.status_code == 200
        await anext(answer.aiter_bytes(1000))
    was = stream.next_offset
    async with asyncio.timeout(10):
        # Retention drops what somebody reads only when he is done with it.
        while stream.first < was:
            world.fill(stream, 10, body=b"x" * 100_000)
            await asyncio.sleep(0)


async def test_of_an_answer_that_nobody_reads_no_batch_is_made_ahead(
    world: World, monkeypatch: pytest.MonkeyPatch
):
    world.fill(world.stream(), 10, body=b"x" * 10_000)
    made: list[int] = []
    full, never = asyncio.Event(), asyncio.Event()
    encode = module._Records._encode

    def counting(self: Any, window: Any) -> Any:
        made.append(1)
        return encode(self, window)

    async def receive() -> dict[str, Any]:
        await never.wait()
        return {}

    async def send(_: object) -> None:
        if len(made) == 3:
            full.set()
            await never.wait()

    monkeypatch.setattr(module._Records, "_encode", counting)
    app = application(TOTALS, list, routes(world.around))
    scope = {
        "type": "http",
        "method": "GET",
        "path": URL,
        "raw_path": URL.encode(),
        "query_string": b"batch_rows=1",
        "headers": [
            (b"host", b"localhost"),
            (b"authorization", b"Basic " + base64.b64encode(b"guest:guest")),
        ],
        "client": ("127.0.0.1", 1),
    }
    answering = asyncio.create_task(app(scope, receive, send))
    async with asyncio.timeout(10):
        await full.wait()
        for _ in range(10):
            await asyncio.sleep(0)
        # Whatever the threads were given is done then.
        await asyncio.get_running_loop().run_in_executor(world.around.encoders, int)
    assert len(made) == 3
    answering.cancel()
    await asyncio.wait([answering])


def damaged(world: World) -> None:
    """Give the broker a stream that lost offset 4 of ten to a bad sector."""
    made = streams.World()
    for number in range(10):
        made.send(b"message %d" % number)
        made.sync()
    files = made.disk.streams[streams.STREAM]
    at = files[1].index(b"message 4")
    files[1] = files[1][:at] + b"M" + files[1][at + 1 :]
    made.restart()
    world.stream()
    queue = world.vhost.queue("orders")
    queue.engine = queue.stream = made.stream


async def test_damaged_messages_are_said_or_left_out(world: World, client: httpx.AsyncClient):
    damaged(world)
    answer = await get(client)
    assert (answer.status_code, answer.json()["error"]) == (410, "lost")
    assert answer.json()["lost"] == [[4, 5]]
    assert "skip_lost" in answer.json()["reason"]
    assert (await table(client, to=4)).num_rows == 4
    read = await table(client, skip_lost="true")
    assert read["offset"].to_pylist() == [0, 1, 2, 3, 5, 6, 7, 8, 9]
    # Found on the way, it cuts the answer off.
    with pytest.raises(httpx.RemoteProtocolError, match="incomplete"):
        await get(client, batch_rows=1)
