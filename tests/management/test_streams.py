"""Streams over HTTP: looking, waiting, making, deleting; who may, and what is refused."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest
from tests.management.conftest import World

from leporid.engine.stream.stream import Stream

API = "/api/streams/%2F"
READER = ("reader", "secret")


async def test_a_stream_is_made_once(world: World, client: httpx.AsyncClient):
    url = f"{API}/a%2Fb%20%C3%BC"
    body = {"arguments": {"x-max-age": "7D", "x-max-length-bytes": 1_000_000}}
    assert (await client.put(url, json=body)).status_code == 201
    assert isinstance(world.vhost.queue("a/b ü").engine, Stream)
    assert (await client.put(url, json=body)).status_code == 204
    answer = await client.put(url)
    assert (answer.status_code, answer.json()["error"]) == (409, "conflict")
    assert "x-max-length-bytes" in answer.json()["reason"]
    info = (await client.get(url)).json()
    assert info["stream"] == "a/b ü"
    assert len(info["partitions"]) == 1


async def test_a_partitioned_stream_is_one_stream(world: World, client: httpx.AsyncClient):
    assert (await client.put(f"{API}/many", json={"partitions": 3})).status_code == 201
    assert (await client.put(f"{API}/many", json={"partitions": 3})).status_code == 204
    assert (await client.put(f"{API}/many", json={"partitions": 4})).status_code == 409
    assert (await client.put(f"{API}/many")).status_code == 409
    body = {"routing": "key", "keys": ["eu", "us"]}
    assert (await client.put(f"{API}/regions", json=body)).status_code == 201
    answer = await client.get(API)
    assert answer.json() == {
        "streams": [{"name": "many", "partitions": 3}, {"name": "regions", "partitions": 2}]
    }
    info = (await client.get(f"{API}/many")).json()
    assert [(one["partition"], one["queue"]) for one in info["partitions"]] == [
        (0, "many-0"),
        (1, "many-1"),
        (2, "many-2"),
    ]
    assert (await client.get(f"{API}/many-1")).json()["partitions"][0]["queue"] == "many-1"
    assert (await client.delete(f"{API}/many")).status_code == 204
    assert [one["name"] for one in (await client.get(API)).json()["streams"]] == ["regions"]


async def test_an_exchange_of_the_same_name_is_no_partitioned_stream(
    world: World, client: httpx.AsyncClient
):
    world.vhost.create_exchange(
        "orders", "topic", durable=True, auto_delete=False, internal=False, arguments={}
    )
    answers = [await client.put(f"{API}/orders") for _ in range(2)]
    assert [answer.status_code for answer in answers] == [201, 204], answers[-1].text
    assert (await client.delete(f"{API}/orders")).status_code == 204
    assert world.vhost.find_exchange("orders") is not None


async def test_info_says_what_can_be_read(world: World, client: httpx.AsyncClient):
    stream = world.stream()
    empty = (await client.get(f"{API}/orders")).json()["partitions"][0]
    assert (empty["first"], empty["end"], empty["first_timestamp_ms"]) == (0, 0, None)
    began = world.engine.clock.wall_ms
    world.fill(stream, 3)
    world.engine.clock.wall_ms += 5000
    world.fill(stream, 1)
    assert (await client.get(f"{API}/orders")).json() == {
        "stream": "orders",
        "partitions": [
            {
                "partition": 0,
                "queue": "orders",
                "first": 0,
                "end": 4,
                "incarnation": stream.incarnation,
                "bytes": stream.bytes,
                "first_timestamp_ms": began,
                "last_timestamp_ms": began + 5000,
                "filtering": {
                    "batches_skipped": 0,
                    "evaluated": 0,
                    "matched": 0,
                    "type_errors": 0,
                },
            }
        ],
    }
    answer = await client.get(f"{API}/orders/offset-for", params={"timestamp_ms": began + 1})
    assert answer.json() == {"partitions": [{"partition": 0, "offset": 3}]}


async def test_a_long_poll_answers_when_there_is_more(world: World, client: httpx.AsyncClient):
    stream = world.stream()
    world.fill(stream, 2)
    # There is more already.
    at_once = await client.get(f"{API}/orders", params={"beyond": "0:1", "wait_ms": 30_000})
    assert at_once.json()["partitions"][0]["end"] == 2
    asked = asyncio.create_task(
        client.get(f"{API}/orders", params={"beyond": "0:2", "wait_ms": 30_000})
    )
    while stream.on_synced is None:
        await asyncio.sleep(0)
    world.fill(stream, 1)
    assert (await asked).json()["partitions"][0]["end"] == 3
    # Nobody waits any more, so nobody's messages are synced in a hurry.
    assert stream.on_synced is None


async def test_a_long_poll_ends(world: World, client: httpx.AsyncClient):
    world.stream()
    answer = await client.get(f"{API}/orders", params={"beyond": "0:0", "wait_ms": 10})
    assert answer.json()["partitions"][0]["end"] == 0


async def test_a_stream_may_be_deleted_while_somebody_waits(
    world: World, client: httpx.AsyncClient
):
    stream = world.stream()
    asked = asyncio.create_task(
        client.get(f"{API}/orders", params={"beyond": "0:0", "wait_ms": 50})
    )
    while stream.on_synced is None:
        await asyncio.sleep(0)
    assert (await client.delete(f"{API}/orders")).status_code == 204
    assert (await asked).status_code == 404


async def test_a_deletion_is_answered_when_it_is_on_disk(world: World, client: httpx.AsyncClient):
    world.stream()
    world.syncing = False
    deleting = asyncio.create_task(client.delete(f"{API}/orders"))
    while world.vhost.find_queue("orders") is not None:
        await asyncio.sleep(0)
    assert not deleting.done()
    world.syncing = True
    assert (await deleting).status_code == 204


async def test_users_see_what_they_may_read(world: World, client: httpx.AsyncClient):
    world.stream("orders")
    world.stream("others")
    answer = await client.get(API, auth=READER)
    assert answer.json() == {"streams": [{"name": "orders", "partitions": 1}]}
    assert (await client.get(f"{API}/orders", auth=READER)).status_code == 200
    for method, path in (
        ("GET", "others"),
        ("GET", "others/records"),
        ("GET", "others/readers"),
        ("GET", "not-there"),
        ("DELETE", "orders"),
        ("PUT", "orders"),
        ("PUT", "made"),
    ):
        answer = await client.request(method, f"{API}/{path}", auth=READER)
        assert (answer.status_code, answer.json()["error"]) == (403, "forbidden"), path
        assert "refused for user 'reader'" in answer.json()["reason"]
    assert (await client.get(API, auth=("stranger", "secret"))).status_code == 403


async def test_names_are_chosen_by_pattern(world: World, client: httpx.AsyncClient):
    for name in ("orders", "orders-old", "other"):
        world.stream(name)
    answer = await client.get(API, params={"pattern": "orders|other"})
    assert [one["name"] for one in answer.json()["streams"]] == ["orders", "other"]
    # RE2 itself takes the last one, and then a tenth of a second for each name.
    for wrong in ("(", "a)(b", "(?=x)", "(((.{1,10}){1,10}){1,10})" * 9):
        answer = await client.get(API, params={"pattern": wrong})
        assert (answer.status_code, answer.json()["parameter"]) == (400, "pattern")


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b"{", "not JSON"),
        (b"[]", "not a JSON object"),
        (b"\xff", "not JSON"),
        (b"[" * 9_000, "not JSON"),
        (b'{"partition": 3}', "did you mean 'partitions'?"),
        (b'{"partitions": "3"}', "not a whole number"),
        (b'{"partitions": true}', "not a whole number"),
        (b'{"routing": "rand"}', "'hash' or 'key'"),
        (b'{"routing": "key", "keys": "eu"}', "not a list of texts"),
        (b'{"routing": "key", "keys": ["\\ud800"]}', "keys: has a text that no octets"),
        (b'{"arguments": []}', "not an object"),
        (b'{"arguments": {"x-max-age": 1.5}}', "x-max-age"),
        (b'{"arguments": {"x-max-length-bytes": 99999999999999999999}}', "64 bits"),
        (b'{"arguments": {"x-\\ud800": 1}}', "cannot be recorded: surrogates"),
        (b'{"arguments": {"x-own": "\\ud800"}}', "cannot be recorded: surrogates"),
        (b'{"arguments": {"%s": 1}}' % (b"x" * 256), "longer than 255 bytes"),
    ],
)
async def test_bad_bodies(world: World, client: httpx.AsyncClient, body: bytes, says: str):
    answer = await client.put(f"{API}/orders", content=body)
    assert answer.status_code == 400
    assert says in answer.json()["reason"]
    assert world.vhost.find_queue("orders") is None


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"arguments": {"x-max-age": "soon"}}, 409),
        ({"arguments": {"x-max-priority": 5}}, 409),
        ({"partitions": 0}, 409),
        ({"partitions": 1001}, 409),
        ({"routing": "key", "keys": ["a", "a"]}, 409),
    ],
)
async def test_what_the_rules_refuse(
    world: World, client: httpx.AsyncClient, body: dict[str, Any], status: int
):
    answer = await client.put(f"{API}/orders", json=body)
    assert answer.status_code == status
    assert answer.json()["reason"]
    assert world.vhost.find_queue("orders") is None


async def test_a_body_that_is_too_large(client: httpx.AsyncClient):
    answer = await client.put(f"{API}/orders", content=b" " * (1024 * 1024 + 1))
    assert (answer.status_code, answer.json()["error"]) == (413, "too-large")


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/api/streams/nowhere", 404),
        ("/api/streams/%2F/nothing", 404),
        ("/api/streams/%2F/%FF", 400),
        ("/api/streams/%2F/orders?beyond=0", 400),
        ("/api/streams/%2F/orders?beyond=0:1&wait_ms=30001", 400),
        ("/api/streams/%2F/orders?wait_ms=5", 400),
        ("/api/streams/%2F/orders?beyond=1:0", 404),
        ("/api/streams/%2F/orders?beyond=0:0&beyond=0:1", 400),
        ("/api/streams/%2F/orders/offset-for", 400),
        ("/api/streams/%2F/orders/offset-for?timestamp_ms=yesterday", 400),
    ],
)
async def test_bad_requests(world: World, client: httpx.AsyncClient, path: str, status: int):
    world.stream()
    answer = await client.get(path)
    assert answer.status_code == status
    assert answer.json()["reason"]


async def test_a_queue_is_no_stream(world: World, client: httpx.AsyncClient):
    world.vhost.create_queue("q", durable=True, auto_delete=False, arguments={}, owner=None)
    assert (await client.get(f"{API}/q")).status_code == 404
    assert (await client.delete(f"{API}/q")).status_code == 404
    assert (await client.put(f"{API}/q")).status_code == 409
    assert world.vhost.find_queue("q") is not None
