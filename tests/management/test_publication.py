"""Tables that are published in slices: stopped on the way, counted, and not kept."""

from __future__ import annotations

import asyncio
import gc
from typing import Any

import httpx
import pyarrow as pa
import pytest
from tests.engine.tables.test_publisher import Ticking
from tests.management.arrows import stream_of, table_of
from tests.management.conftest import SECRET, World
from tests.management.queues import queue_of
from tests.server.client import PATIENCE_S

from leporid.broker.access.access import guest
from leporid.engine.tables.publisher import Publisher
from leporid.engine.tables.rows import Rows
from leporid.management import admission, arrow_ipc, incoming
from leporid.management import publication as module
from leporid.management.incoming import plan_table
from leporid.management.publication import Publication
from leporid.management.refusals import Refusal

URL = "/api/publish/%2F/amq.default"
ROWS = 2000


def many(rows: int = ROWS, **columns: Any) -> bytes:
    bodies = [b"%d" % at for at in range(rows)]
    return table_of(body=bodies, routing_key=["orders"] * rows, **columns)


def alarm_at_look(world: World, number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have an alarm come while a table is published, in short slices."""
    looks = 0

    def look() -> None:
        nonlocal looks
        looks += 1
        if looks == number:
            world.broker.set_alarm("memory", True)

    monkeypatch.setattr(module, "LOOK_BYTES", 1)
    world.look = look
    world.engine.clock.monotonic_ns = Ticking()


async def test_an_alarm_stops_a_table_where_it_is(
    world: World, client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
):
    stream = world.stream()
    alarm_at_look(world, 5, monkeypatch)
    answer = await client.post(URL, content=many())
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
    found = answer.json()
    rows = found["rows"]
    assert 0 < rows < ROWS / 2
    assert (found["error"], found["accepted"]) == ("busy", rows)
    assert "low on memory" in found["reason"]
    assert f"rows 0 to {rows - 1} were published, none of the others" in found["reason"]
    assert stream.end == rows  # on disk
    world.broker.set_alarm("memory", False)
    rest = pa.record_batch(
        {
            "body": [b"%d" % at for at in range(rows, ROWS)],
            "routing_key": ["orders"] * (ROWS - rows),
        }
    )
    assert (await client.post(URL, content=stream_of(rest))).json()["accepted"] == ROWS - rows
    read = await client.get("/api/streams/%2F/orders/records?columns=body")
    bodies = pa.ipc.open_stream(read.content).read_all().column("body").to_pylist()
    assert bodies == [b"%d" % at for at in range(ROWS)]


async def test_a_producer_sends_all_of_it_again(
    world: World, client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
):
    stream = world.stream()
    alarm_at_look(world, 5, monkeypatch)
    given: dict[str, str | int] = {"producer": "p", "sequence": 0}
    answer = await client.post(URL, content=many(), params=given)
    assert answer.status_code == 503
    rows = answer.json()["rows"]
    world.broker.set_alarm("memory", False)
    counts = (await client.post(URL, content=many(), params=given)).json()
    assert (counts["duplicates"], counts["accepted"]) == (rows, ROWS - rows)
    assert stream.end == ROWS


async def test_a_stopped_table_is_answered_when_what_was_published_is_on_disk(
    world: World, client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
):
    stream = world.stream()
    alarm_at_look(world, 3, monkeypatch)
    world.syncing = False
    task = asyncio.create_task(client.post(URL, content=many()))
    while not world.broker.alarms:
        await asyncio.sleep(0)
    for _ in range(20):
        await asyncio.sleep(0)
    assert not task.done()
    world.syncing = True
    assert (await task).status_code == 503
    assert (await task).json()["rows"] == stream.end > 0


async def test_what_is_stored_is_looked_at_by_its_bytes(
    world: World, client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
):
    """The more queues a row goes to, the sooner."""
    looks = 0

    def look() -> None:
        nonlocal looks
        looks += 1

    world.look = look
    world.engine.clock.monotonic_ns = Ticking()
    monkeypatch.setattr(module, "LOOK_BYTES", 10_000)
    queue_of(world, "orders")
    found = []
    for size in (1, 1000):
        looks = 0
        table = {"body": [b"x" * size] * 1000, "routing_key": ["orders"] * 1000}
        assert (await client.post(URL, content=table_of(**table))).status_code == 200
        found.append(looks)
    assert 5 < found[0] < 20
    assert found[1] > 40


async def test_others_have_turns_between_slices(world: World, client: httpx.AsyncClient):
    world.stream()
    world.engine.clock.monotonic_ns = Ticking()
    rounds = 0
    task = asyncio.create_task(client.post(URL, content=many()))
    while not task.done():
        await asyncio.sleep(0)
        rounds += 1
    assert (await task).json()["accepted"] == ROWS
    assert rounds > ROWS / 20


async def test_a_client_that_goes_stops_its_table(world: World, client: httpx.AsyncClient):
    stream = world.stream()
    world.engine.clock.monotonic_ns = Ticking()
    data = many(20_000)
    host, port = client.base_url.host, client.base_url.port
    _, writer = await asyncio.open_connection(host, port)
    writer.write(
        b"POST %b HTTP/1.1\r\nhost: localhost\r\ncontent-length: %d\r\n" % (URL.encode(), len(data))
    )
    writer.write(b"authorization: Basic Z3Vlc3Q6Z3Vlc3Q=\r\n\r\n" + data)
    while not stream.next_offset:
        await asyncio.sleep(0)
    writer.transport.abort()
    before = -1
    while before < stream.next_offset:
        before = stream.next_offset
        for _ in range(20):
            await asyncio.sleep(0)
    assert 0 < stream.next_offset < 20_000


async def test_who_is_gone_before_gets_nothing_published(world: World):
    world.stream()
    gone = asyncio.get_running_loop().create_future()
    gone.set_result(None)

    def never(name: str) -> Any:
        pytest.fail("it was looked up")

    publisher = Publisher(world.engine.publishing, never)
    publication = Publication(world.around, guest(SECRET), never, publisher, gone, [])
    encoding: dict[str, Any] = {"exchange": b"", "body_bytes_max": 100}
    with pytest.raises(Refusal, match="the client is gone"):
        await publication.publish(many(), encoding)
    assert (publication.rows, world.around.admission.shares.publishing_memory.used) == (0, 0)


def alive(*kinds: type) -> int:
    return sum(isinstance(each, kinds) for each in gc.get_objects())


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (many(), 200),
        (many(delay_ms=[2**62] * ROWS), 400),
        (many(exchange=["not there"] * ROWS), 404),
        (many(properties=["x"] * ROWS), 400),
        (stream_of(*[pa.record_batch({"body": ["x"]})] * (arrow_ipc.BATCHES_MAX + 1)), 413),
    ],
)
async def test_nothing_of_a_table_is_kept(
    world: World, client: httpx.AsyncClient, data: bytes, status: int
):
    """Nor until somebody looks for garbage, which may be long."""
    world.stream()
    kinds = incoming.Plan, arrow_ipc.Batch, Publication, Publisher, Rows
    gc.collect()
    gc.disable()
    try:
        answer = await client.post(URL, content=data)
        assert answer.status_code == status, answer.text
        assert answer.content
        async with asyncio.timeout(PATIENCE_S):
            while alive(*kinds):  # a thread may be about to let go of it
                await asyncio.sleep(0)
    finally:
        gc.enable()


async def test_memory_of_all_tables_is_bounded(
    world: World, client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
):
    """A table waits while others take what there is, and is refused if that takes long."""
    stream = world.stream()
    memory = world.around.admission.shares.publishing_memory
    memory.slots = 2 * plan_table(many()).bytes
    with memory.take("guest", memory.slots // 2):
        waiting = asyncio.create_task(client.post(URL, content=many()))
        while not memory.waiting:
            await asyncio.sleep(0)
        assert stream.next_offset == 0
    assert (await waiting).status_code == 200
    assert (memory.used, stream.end) == (0, ROWS)
    monkeypatch.setattr(admission, "QUEUE_SECONDS", 0.01)
    with memory.take("guest", memory.slots):
        answer = await client.post(URL, content=many())
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
    assert (answer.json()["limit"], answer.json()["value"]) == (memory.name, memory.slots)
    assert stream.end == ROWS
    # A larger one than that waits until it is alone.
    memory.slots //= 4
    assert (await client.post(URL, content=many())).status_code == 200


async def test_what_waits_for_the_disk_has_no_rows_in_memory(
    world: World, client: httpx.AsyncClient
):
    stream = world.stream()
    world.syncing = False
    task = asyncio.create_task(client.post(URL, content=many()))
    while stream.next_offset < ROWS:
        await asyncio.sleep(0)
    for _ in range(5):
        await asyncio.sleep(0)
    assert not task.done()
    assert world.around.admission.shares.publishing_memory.used == 0
    world.syncing = True
    assert (await task).status_code == 200


@pytest.mark.parametrize(
    ("data", "limit", "value"),
    [
        (table_of(body=pa.nulls(arrow_ipc.ROWS_MAX + 1)), "http_table_rows", 1_000_000),
        (
            stream_of(*[pa.record_batch({"body": ["x"]})] * (arrow_ipc.BATCHES_MAX + 1)),
            "http_table_batches",
            1024,
        ),
        (
            stream_of(pa.record_batch({"body": [bytes(2**20)] * 130}), compression="lz4"),
            "http_table_memory",
            128 * 2**20,
        ),
    ],
)
async def test_a_limit_is_named_and_counted(
    world: World, client: httpx.AsyncClient, data: bytes, limit: str, value: int
):
    stream = world.stream()
    answer = await client.post(URL, content=data)
    found = answer.json()
    assert (answer.status_code, found["error"]) == (413, "too-large")
    assert (found["limit"], found["value"]) == (limit, value)
    assert f"{limit} = {value}" in found["reason"]
    assert world.broker.refusals.by_kind[limit] == 1
    assert stream.next_offset == 0


async def test_exchanges_of_all_batches_are_limited(world: World, client: httpx.AsyncClient):
    """Each is looked up and has its permission checked in one go."""
    world.stream()
    batches = [
        pa.record_batch({"body": ["x"] * 200, "exchange": [f"e{batch}-{at}" for at in range(200)]})
        for batch in range(2)
    ]
    answer = await client.post(URL, content=stream_of(*batches))
    assert (answer.status_code, answer.json()["row"]) == (400, 200)
    assert "more than 256 exchanges in one request" in answer.json()["reason"]
