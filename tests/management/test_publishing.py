"""Tables that are published: all of them or none, and on disk when they are answered."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any

import httpx
import pyarrow as pa
import pytest
from tests.broker.at_once import declare_partitioned_stream
from tests.engine.browsing import bodies
from tests.management.arrows import stream_of, table_of
from tests.management.conftest import World, serving
from tests.management.queues import queue_of

from leporid.broker.access.permissions import EVERYTHING
from leporid.broker.access.topics import TopicPermission
from leporid.broker.exchange.types import Binding
from leporid.management import admission
from leporid.management import publishing as module
from leporid.management.tables import HEADERS_TYPE

URL = "/api/publish/%2F/amq.default"
RECORDS = "/api/streams/%2F/orders/records"


async def publish(client: httpx.AsyncClient, data: bytes, **options: Any) -> httpx.Response:
    return await client.post(options.pop("url", URL), content=data, **options)


async def rows(client: httpx.AsyncClient) -> list[dict[str, Any]]:
    answer = await client.get(RECORDS)
    read: list[dict[str, Any]] = pa.ipc.open_stream(answer.content).read_all().to_pylist()
    return read


async def test_rows_become_messages_in_order(world: World, client: httpx.AsyncClient):
    world.stream()
    table = {
        "body": ["one", "two", "three"],
        "routing_key": ["orders"] * 3,
        "headers": pa.array([[("a", "1"), ("b", None)], [], None], HEADERS_TYPE),
        "properties": [
            {"message_id": "m1", "priority": 3, "delivery_mode": 1},
            {"message_id": None, "priority": None, "delivery_mode": None},
            None,
        ],
    }
    answer = await publish(client, table_of(**table))
    assert answer.status_code == 200
    assert answer.json() == {
        "rows": 3,
        "accepted": 3,
        "duplicates": 0,
        "unroutable": 0,
        "refused": 0,
    }
    read = await rows(client)
    assert [row["body"] for row in read] == [b"one", b"two", b"three"]
    assert [row["headers"] for row in read] == [[("a", "1"), ("b", None)], [], None]
    assert [row["properties"]["message_id"] for row in read] == ["m1", None, None]
    assert [row["properties"]["priority"] for row in read] == [3, None, None]
    # Persistent, unless it says otherwise.
    assert [row["properties"]["delivery_mode"] for row in read] == [1, 2, 2]


async def test_the_exchange_may_stand_in_the_row(world: World, client: httpx.AsyncClient):
    world.stream()
    world.vhost.bindings.bind(Binding("amq.topic", "orders", "queue", "eu.*", {}), None)
    data = table_of(
        body=[b"a", b"b", b"c"],
        routing_key=["eu.x", "orders", "us.x"],
        exchange=["amq.topic", None, "amq.topic"],
    )
    answer = await publish(client, data)
    assert answer.json()["accepted"] == 2
    assert answer.json()["unroutable"] == 1
    assert [row["exchange"] for row in await rows(client)] == ["amq.topic", ""]
    # The one in the path is the others'.
    answer = await publish(
        client, table_of(body=["d"], routing_key=["eu.y"]), url="/api/publish/%2F/amq.topic"
    )
    assert answer.json()["accepted"] == 1


async def test_an_answer_waits_for_the_disk(world: World, client: httpx.AsyncClient):
    stream = world.stream()
    world.sync()
    world.syncing = False
    task = asyncio.create_task(publish(client, table_of(body=["x"], routing_key=["orders"])))
    while stream.next_offset == 0:
        await asyncio.sleep(0)
    assert not task.done()
    world.syncing = True
    assert (await task).status_code == 200
    assert stream.end == 1


async def test_what_a_producer_sends_again_is_left_out(world: World, client: httpx.AsyncClient):
    stream = world.stream()
    data = table_of(body=["0", "1", "2"], routing_key=["orders"] * 3)
    for accepted, duplicates, sequence in ((3, 0, 0), (0, 3, 0), (2, 1, 2)):
        answer = await publish(client, data, params={"producer": "p", "sequence": sequence})
        counts = answer.json()
        assert (counts["accepted"], counts["duplicates"]) == (accepted, duplicates)
    assert stream.end == 5
    assert (await publish(client, data)).json()["accepted"] == 3


async def test_a_full_queue_refuses_rows(world: World, client: httpx.AsyncClient):
    arguments: dict[str, Any] = {"x-max-length": 2, "x-overflow": "reject-publish"}
    world.vhost.create_queue("q", durable=True, auto_delete=False, arguments=arguments, owner=None)
    answer = await publish(client, table_of(body=["x"] * 5, routing_key=["q"] * 5))
    assert (answer.json()["accepted"], answer.json()["refused"]) == (2, 3)


async def test_rows_may_wait(world: World, client: httpx.AsyncClient):
    stream = world.stream()
    now_s = world.engine.clock.wall_ms // 1000
    table = {
        "body": ["now", "delay", "moment", "both null", "past", "header"],
        "routing_key": ["orders"] * 6,
        "delay_ms": pa.array([None, 5000, None, None, -5, None], pa.int32()),
        "deliver_at": [None, None, datetime.fromtimestamp(now_s + 10, UTC), None, None, None],
        "headers": pa.array(
            [None, [("a", "b")], [], None, None, [("x-deliver-at", str((now_s + 20) * 1000))]],
            HEADERS_TYPE,
        ),
    }
    answer = await publish(client, table_of(**table))
    assert answer.json()["accepted"] == 6
    assert stream.next_offset == 3
    delays = world.vhost.delays("")
    bodies = [content.body for each in delays.list() if (content := delays.content(each.id))]
    assert bodies == [b"delay", b"moment", b"header"]
    assert [each.due_ms // 1000 - now_s for each in delays.list()] == [5, 10, 20]
    world.engine.clock.now_ms += 20_001
    world.sync()
    world.sync()
    read = await rows(client)
    assert [row["body"] for row in read] == [
        b"now", b"both null", b"past", b"delay", b"moment", b"header"
    ]  # fmt: skip
    assert read[3]["headers"] == [("x-deliver-at", str(-now_s * 1000 - 5000)), ("a", "b")]


async def test_what_waits_is_published_once(world: World, client: httpx.AsyncClient):
    """By whom was noted when it began to wait."""
    world.stream()
    table = table_of(body=["x", "y"], routing_key=["orders"] * 2, delay_ms=[500, 500])
    url = URL + "?producer=p&sequence=0"
    assert (await publish(client, table, url=url)).json()["accepted"] == 2
    assert (await publish(client, table, url=url)).json()["duplicates"] == 2
    assert world.vhost.delays("").count == 2


async def test_keys_of_rows_that_wait_are_checked(world: World, client: httpx.AsyncClient):
    world.vhost.create_exchange(
        "strict", "fanout", durable=True, auto_delete=False, internal=False,
        arguments={"x-strict-keys": True},
    )  # fmt: skip
    table = table_of(body=["x"], routing_key=["no plain key"], delay_ms=[500])
    answer = await publish(client, table, url="/api/publish/%2F/strict")
    assert answer.status_code == 409
    assert "x-strict-keys" in answer.json()["reason"]
    assert world.vhost.delays("strict").count == 0


async def test_the_ids_of_what_waits_come_back(world: World, client: httpx.AsyncClient):
    world.stream()
    later = pa.array([None, 5000, None, 9000], pa.int64())
    data = table_of(body=list("abcd"), routing_key=["orders"] * 4, delay_ms=later)
    assert "delayed" not in (await publish(client, data)).json()
    found = (await publish(client, data, params={"ids": "true"})).json()["delayed"]
    delays = world.vhost.delays("")
    assert [(each["row"], each["exchange"]) for each in found] == [
        (1, "amq.default"),
        (3, "amq.default"),
    ]
    for each, body in zip(found, (b"b", b"d"), strict=True):
        content = delays.content(each["id"])
        assert content is not None
        assert content.body == body
    many = table_of(body=["x"] * 10_001)
    answer = await publish(client, many, params={"ids": "true"})
    assert (answer.status_code, answer.json()["error"]) == (413, "too-large")


async def test_a_moment_that_is_over_stands_beside_a_new_one(
    world: World, client: httpx.AsyncClient
):
    """A message that waited is published once more, with the headers that it came with."""
    world.stream()
    over = pa.array([[("x-deliver-at", "-1700000000000"), ("a", "b")]], HEADERS_TYPE)
    delay_ms = pa.array([5000], pa.int64())
    data = table_of(body=["x"], routing_key=["orders"], headers=over, delay_ms=delay_ms)
    assert (await publish(client, data)).json()["accepted"] == 1
    (waiting,) = world.vhost.delays("").list()
    assert waiting.due_ms - waiting.came_ms == 5000


async def test_a_moment_is_never_cut_short(world: World, client: httpx.AsyncClient):
    world.stream()
    moment = datetime.fromtimestamp(world.engine.clock.wall_ms // 1000, UTC).replace(
        microsecond=7001
    )
    table = table_of(body=["x"], routing_key=["orders"], deliver_at=[moment])
    await publish(client, table)
    (waiting,) = world.vhost.delays("").list()
    assert waiting.due_ms == world.engine.clock.wall_ms + 8


async def test_batches_and_compression(world: World, client: httpx.AsyncClient):
    stream = world.stream()
    batch = pa.record_batch({"body": ["x" * 100] * 1000, "routing_key": ["orders"] * 1000})
    empty = batch.slice(0, 0)
    for compression in (None, "lz4", "zstd"):
        data = stream_of(batch, empty, batch, compression=compression)
        answer = await publish(client, data)
        assert answer.json()["accepted"] == 2000
    assert stream.end == 6000
    assert (await publish(client, stream_of(empty))).json()["rows"] == 0


@pytest.mark.parametrize(
    ("columns", "says"),
    [
        ({"bodie": ["x"]}, "did you mean 'body'?"),
        ({"routing_key": ["x"]}, "'body' is missing"),
        ({"body": [1]}, "must be binary"),
        ({"body": ["x"], "routing_key": [5]}, "'routing_key' is int64"),
        ({"body": ["x", None]}, "row 1: body is null"),
        ({"body": ["x"], "routing_key": ["k" * 256]}, "row 0: routing_key has more than 255"),
        ({"body": ["x"], "exchange": ["e" * 256]}, "exchange has more than 255"),
        ({"body": ["x"], "headers": ["y"]}, "'headers' is string"),
        ({"body": ["x"], "properties": ["y"]}, "must be a struct"),
        ({"body": ["x"], "properties": [{"messageid": "y"}]}, "did you mean 'message_id'?"),
        ({"body": ["x"], "properties": [{"priority": 256}]}, "priority must be from 0 to 255"),
        ({"body": ["x"], "properties": [{"priority": 2**40}]}, "properties.priority"),
        ({"body": ["x"], "properties": [{"delivery_mode": 3}]}, "delivery_mode must be 1 or 2"),
        ({"body": ["x"], "properties": [{"expiration": "soon"}]}, "expiration must be"),
        ({"body": ["x"], "properties": [{"user_id": "root"}]}, "user_id is not the name"),
        ({"body": ["x"], "properties": [{"app_id": "a" * 256}]}, "a property has more than 255"),
        ({"body": ["x"], "properties": [{"reply_to": "amq.rabbitmq.reply-to"}]}, "reply_to"),
        ({"body": ["x"], "delay_ms": ["soon"]}, "'delay_ms' is string and must be int64"),
        ({"body": ["x"], "delay_ms": [315_360_000_001]}, "may wait for ten years at most"),
        ({"body": ["x"], "deliver_at": [datetime(2999, 1, 1, tzinfo=UTC)]}, "for ten years"),
        (
            {"body": ["x"], "delay_ms": [5], "deliver_at": [datetime(2020, 1, 1, tzinfo=UTC)]},
            "only one of delay_ms, deliver_at",
        ),
        (
            {
                "body": ["x"],
                "delay_ms": [5],
                "headers": pa.array([[("x-deliver-at", "5")]], HEADERS_TYPE),
            },
            "only one of delay_ms, deliver_at",
        ),
        (
            {"body": ["x"], "headers": pa.array([[("x-deliver-at", "soon")]], HEADERS_TYPE)},
            "x-deliver-at must be a number",
        ),
        (
            {"body": ["x"], "headers": pa.array([[("x-delay", "9" * 20)]], HEADERS_TYPE)},
            "for ten years",
        ),
        ({"body": pa.array(["x"]).dictionary_encode()}, "dictionary-encoded"),
        (
            {"body": ["x"], "headers": pa.array([[("CC", "q")]], HEADERS_TYPE)},
            "CC and BCC are lists",
        ),
        (
            {"body": ["x"], "headers": pa.array([[("h" * 256, "q")]], HEADERS_TYPE)},
            "the name of a header",
        ),
        (
            {"body": ["x"], "headers": pa.array([[("h", "q" * 200_000)]], HEADERS_TYPE)},
            "do not fit into a content header",
        ),
    ],
)
async def test_bad_tables_publish_nothing(
    world: World, client: httpx.AsyncClient, columns: dict[str, Any], says: str
):
    stream = world.stream()
    good = {"body": ["good"], "routing_key": ["orders"]}
    assert (await publish(client, table_of(**good))).status_code == 200
    answer = await publish(client, table_of(**columns))
    assert answer.status_code == 400, answer.text
    assert says in answer.json()["reason"]
    assert stream.next_offset == 1


async def test_every_cut_and_every_flipped_byte_is_refused_or_harmless(
    world: World, client: httpx.AsyncClient
):
    stream = world.stream()
    data = table_of(body=["good"] * 3, routing_key=["orders"] * 3)
    for cut in range(0, len(data), 29):
        answer = await publish(client, data[:cut])
        assert answer.status_code == 400
    assert stream.next_offset == 0
    for at in range(0, len(data), 13):
        answer = await publish(client, data[:at] + bytes((data[at] ^ 0xFF,)) + data[at + 1 :])
        assert answer.status_code in (200, 400, 404), answer.text


async def test_who_may_not_write_publishes_nothing(world: World, client: httpx.AsyncClient):
    stream = world.stream()
    auth = ("reader", "secret")
    data = table_of(body=["x", "y"], routing_key=["orders"] * 2, exchange=[None, "amq.topic"])
    answer = await publish(client, data, auth=auth)
    assert (answer.status_code, answer.json()["error"]) == (403, "forbidden")
    assert "exchange 'amq.topic'" in answer.json()["reason"]
    assert stream.next_offset == 0
    answer = await publish(client, data, auth=auth, url="/api/publish/%2F/amq.topic")
    assert answer.status_code == 403


@pytest.mark.parametrize(
    ("url", "status"),
    [
        ("/api/publish/%2F/not-there", 404),
        ("/api/publish/nowhere/amq.default", 404),
        (URL + "?sequence=1", 400),
        (URL + "?producer=p", 400),
        (URL + "?producer=&sequence=1", 400),
        (URL + "?producer=" + "p" * 256 + "&sequence=1", 400),
        (URL + "?producer=p&sequence=-1", 400),
        (URL + "?produser=p", 400),
    ],
)
async def test_bad_requests(client: httpx.AsyncClient, url: str, status: int):
    answer = await publish(client, table_of(body=["x"]), url=url)
    assert answer.status_code == status
    assert answer.json()["reason"]


async def test_an_internal_exchange(world: World, client: httpx.AsyncClient):
    world.vhost.create_exchange(
        "inside", "fanout", durable=True, auto_delete=False, internal=True, arguments={}
    )
    answer = await publish(client, table_of(body=["x"]), url="/api/publish/%2F/inside")
    assert answer.status_code == 403


async def test_alarms_keep_tables_out(world: World, client: httpx.AsyncClient):
    world.broker.set_alarm("memory", True)
    answer = await publish(client, table_of(body=["x"]))
    assert (answer.status_code, answer.json()["error"]) == (503, "busy")
    assert "low on memory" in answer.json()["reason"]


async def test_limits(world: World, monkeypatch: pytest.MonkeyPatch):
    stream = world.stream()
    monkeypatch.setattr(module, "BODY_BYTES_MAX", 2000)
    monkeypatch.setattr(admission, "QUEUE_SECONDS", 0.01)
    async with serving(world) as client:
        answer = await publish(client, table_of(body=["x" * 3000], routing_key=["orders"]))
        assert (answer.status_code, answer.json()["error"]) == (413, "too-large")
        assert (answer.json()["limit"], answer.json()["value"]) == ("http_table_bytes", 2000)
        publishes = world.around.admission.shares.publishes
        others = [publishes.take(f"other {number}") for number in range(publishes.slots)]
        answer = await publish(client, table_of(body=["x"]))
        assert (answer.status_code, answer.json()["limit"]) == (503, "http_publishes")
        assert answer.headers["retry-after"] == "1"
        for each in others:
            each.release()
        assert (await publish(client, table_of(body=["x"]))).status_code == 200
    assert stream.next_offset == 0


async def test_what_a_queue_has_already_is_a_duplicate(world: World, client: httpx.AsyncClient):
    queue = queue_of(world, "jobs", {"x-message-deduplication": True})
    headers = pa.array([[("x-deduplication-header", key)] for key in "abab"], HEADERS_TYPE)
    data = table_of(body=["1", "2", "3", "4"], routing_key=["jobs"] * 4, headers=headers)
    for accepted in (2, 0):
        answer = await publish(client, data)
        assert answer.json() == {
            "rows": 4,
            "accepted": accepted,
            "duplicates": 4 - accepted,
            "unroutable": 0,
            "refused": 0,
        }
    assert bodies(queue) == [b"1", b"2"]
    # A producer's own numbers come first.
    answer = await client.post(URL, content=data, params={"producer": "p", "sequence": 0})
    assert answer.json()["duplicates"] == 4


async def test_what_an_exchange_remembers_is_a_duplicate(world: World, client: httpx.AsyncClient):
    queue = queue_of(world, "jobs")
    world.vhost.create_exchange(
        "once",
        "x-message-deduplication",
        durable=True,
        auto_delete=False,
        internal=False,
        arguments={"x-cache-size": 10},
    )
    world.vhost.bindings.bind(Binding("once", "jobs", "queue", "", {}), None)
    headers = pa.array([[("x-deduplication-header", key)] for key in "aba"], HEADERS_TYPE)
    data = table_of(body=["1", "2", "3"], headers=headers)
    url = "/api/publish/%2F/once"
    answer = await publish(client, data, url=url)
    assert (answer.json()["accepted"], answer.json()["duplicates"]) == (2, 1)
    for _ in range(2):  # with numbers, too, it is no row for which there is no queue
        answer = await client.post(url, content=data, params={"producer": "p", "sequence": 0})
        assert (answer.json()["duplicates"], answer.json()["unroutable"]) == (3, 0)
    assert bodies(queue) == [b"1", b"2"]
    # What goes to a stream, too.
    world.vhost.bindings.bind(Binding("once", world.stream().name, "queue", "", {}), None)
    headers = pa.array([[("x-deduplication-header", "s")]], HEADERS_TYPE)
    for accepted in (1, 0):
        answer = await publish(client, table_of(body=["s"], headers=headers), url=url)
        assert answer.json()["accepted"] == accepted
    assert [row["body"] for row in await rows(client)] == [b"s"]
    assert bodies(queue) == [b"1", b"2", b"s"]


async def test_rows_without_a_key_go_to_the_partitions_in_turn(
    world: World, client: httpx.AsyncClient
):
    declare_partitioned_stream(world.vhost, "many", 4)
    url = "/api/publish/%2F/many"

    async def ends() -> list[int]:
        parts = (await client.get("/api/streams/%2F/many")).json()["partitions"]
        return [part["end"] for part in parts]

    for _ in range(4):
        await publish(client, table_of(body=["x"]), url=url)
    assert await ends() == [1] * 4
    await publish(client, table_of(body=["x"] * 40), url=url)
    assert await ends() == [11] * 4
    # An empty key is a key: all messages with it come to one partition, as over AMQP.
    await publish(client, table_of(body=["x"] * 10, routing_key=[""] * 10), url=url)
    assert sorted(await ends()) == [11, 11, 11, 21]
    await publish(client, table_of(body=["x"] * 11, routing_key=["k"] * 10 + [None]), url=url)
    assert sum(await ends()) == 65
    read = await client.get("/api/streams/%2F/many/records")
    keys = pa.ipc.open_stream(read.content).read_all().column("routing_key").to_pylist()
    assert set(keys) <= {"", "k"}


@pytest.mark.slow
async def test_rows_of_a_producer_without_a_key_come_to_the_same_partitions_again(
    world: World, client: httpx.AsyncClient
):
    """Each partition knows the repetitions of its own rows only."""
    declare_partitioned_stream(world.vhost, "many", 4)
    batches = [(batch << 32, 1 + batch % 3) for batch in range(24)]

    async def send() -> list[int]:
        found = []
        for sequence, rows in batches:
            answer = await publish(
                client,
                table_of(body=["x"] * rows),
                url="/api/publish/%2F/many",
                params={"producer": "query/0", "sequence": sequence},
            )
            found.append(answer.json()["duplicates"])
        return found

    assert sum(await send()) == 0
    parts = (await client.get("/api/streams/%2F/many")).json()["partitions"]
    # 48 rows; small batches begin with another partition each time.
    assert min(part["end"] for part in parts) > 8
    assert await send() == [rows for _, rows in batches]


async def test_a_table_with_a_key_that_must_not_be_used_publishes_nothing(
    world: World, client: httpx.AsyncClient
):
    users = world.broker.users
    users.permit("reader", "/", EVERYTHING)
    topic = TopicPermission.of("^ok", "", username="reader", vhost="/")
    users.permit_topics("reader", "/", "amq.topic", topic)
    stream = world.stream()
    world.vhost.bindings.bind(Binding("amq.topic", "orders", "queue", "#", {}), None)
    url, auth = "/api/publish/%2F/amq.topic", ("reader", "secret")
    data = table_of(body=["1", "2"], routing_key=["ok", "other"])
    answer = await publish(client, data, url=url, auth=auth)
    assert answer.status_code == 403
    assert answer.json()["reason"] == (
        "write access to topic 'other' in exchange 'amq.topic' in vhost '/' refused for user "
        "'reader'"
    )
    assert stream.next_offset == 0
    data = table_of(body=["1", "2"], routing_key=["ok", "ok.too"])
    answer = await publish(client, data, url=url, auth=auth)
    assert answer.json()["accepted"] == 2
