"""Browsing over HTTP: every ready message once, and the queue as it was."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import httpx
import pyarrow as pa
import pytest
from tests.engine.frames import properties
from tests.management.conftest import World
from tests.management.queues import URL, fill, peer_of, queue_of, table_of

from leporid.management import browsing as module

MESSAGES = URL + "/messages"


async def browse(client: httpx.AsyncClient, **parameters: Any) -> pa.Table:
    return table_of(await client.get(MESSAGES, params=parameters))


async def test_every_message_once_in_order_and_the_queue_is_as_it_was(
    world: World, client: httpx.AsyncClient
):
    queue = queue_of(world)
    fill(world, queue, 25)
    for _ in range(2):
        read = await browse(client, batch_rows=10)
        assert read["offset"].to_pylist() == list(range(25))
        assert read["body"].to_pylist() == [b"%d" % at for at in range(25)]
        assert set(read["stream"].to_pylist()) == {"orders"}
        assert set(read["redelivered"].to_pylist()) == {False}
        assert set(read["state"].to_pylist()) == {"ready"}
        assert [len(batch) for batch in read.to_batches()] == [10, 10, 5]
    assert (queue.ready_count, queue.unacked_count) == (25, 0)
    got = peer_of(world, queue).get(queue)
    assert got is not None
    assert (got.body, got.redelivered) == (b"0", False)


async def test_unacked_on_request(world: World, client: httpx.AsyncClient):
    queue = queue_of(world)
    fill(world, queue, 2)
    peer_of(world, queue).get(queue, no_ack=False)
    assert (await browse(client))["body"].to_pylist() == [b"1"]
    read = await browse(client, unacked="true", columns="body,state")
    assert read.schema.names == ["body", "state"]
    assert read.to_pylist() == [
        {"body": b"0", "state": "unacked"},
        {"body": b"1", "state": "ready"},
    ]


async def test_from_and_limit(world: World, client: httpx.AsyncClient):
    queue = queue_of(world)
    fill(world, queue, 10)
    assert (await browse(client, limit=3))["offset"].to_pylist() == [0, 1, 2]
    read = await browse(client, **{"from": 4, "limit": 3, "batch_rows": 2})
    assert read["offset"].to_pylist() == [4, 5, 6]
    assert (await browse(client, limit=0)).num_rows == 0
    assert (await browse(client, **{"from": 99})).num_rows == 0


async def test_a_limit_counts_what_passes_the_filter(world: World, client: httpx.AsyncClient):
    queue = queue_of(world)
    for key in ("a", "b", "a", "b", "a", "b"):
        fill(world, queue, 1, key=key)
    read = await browse(client, routing_key="b", limit=2)
    assert read["offset"].to_pylist() == [1, 3]
    assert (await browse(client, routing_key="c")).num_rows == 0


async def test_priorities_leave_first(world: World, client: httpx.AsyncClient):
    queue = queue_of(world, arguments={"x-max-priority": 9})
    for priority in (1, 9, 5):
        fill(world, queue, 1, body=b"%d" % priority, properties=properties(priority=priority))
    assert (await browse(client))["body"].to_pylist() == [b"9", b"5", b"1"]


async def test_an_empty_queue_is_a_table_without_rows(world: World, client: httpx.AsyncClient):
    queue_of(world)
    read = await browse(client)
    assert read.num_rows == 0
    assert read.schema.metadata == {b"leporid.queue": b"orders"}


async def test_who_may_not_read_it_or_names_no_queue_is_refused(
    world: World, client: httpx.AsyncClient
):
    queue_of(world)
    queue_of(world, "private")
    world.stream("many")
    assert (await client.get(MESSAGES, auth=("reader", "secret"))).status_code == 200
    for name, user, status in (
        ("orders", ("stranger", "secret"), 403),
        ("private", ("reader", "secret"), 403),
        ("absent", ("guest", "guest"), 404),
        ("many", ("guest", "guest"), 400),
    ):
        answer = await client.get(f"/api/queues/%2F/{name}/messages", auth=user)
        assert answer.status_code == status, name
    assert "/api/streams/" in answer.json()["reason"]


async def test_a_queue_of_one_connection_is_locked(world: World, client: httpx.AsyncClient):
    class Owner:
        def disown(self, queue: Any) -> None: ...

    world.vhost.create_queue(
        "orders", durable=False, auto_delete=False, arguments={}, owner=Owner()
    )
    answer = await client.get(MESSAGES)
    assert (answer.status_code, answer.json()["error"]) == (409, "conflict")


@pytest.mark.parametrize(
    ("parameters", "says"),
    [
        ({"form": 1}, "did you mean 'from'?"),
        ({"limit": -1}, "limit"),
        ({"unacked": "yes"}, "unacked"),
        ({"columns": "states"}, "did you mean 'state'?"),
        ({"batch_rows": 0}, "batch_rows"),
    ],
)
async def test_bad_requests(
    world: World, client: httpx.AsyncClient, parameters: dict[str, Any], says: str
):
    queue_of(world)
    answer = await client.get(MESSAGES, params=parameters)
    assert (answer.status_code, answer.json()["error"]) == (400, "bad-request")
    assert says in answer.json()["reason"]


async def test_a_queue_that_is_deleted_on_the_way_cuts_the_answer_off(
    world: World, client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
):
    fill(world, queue_of(world), 40)
    encode = module.QueueBatches._encode
    made = []
    deep = threading.Event()

    def deleting(self: Any, window: Any) -> Any:
        made.append(window.rows)
        if len(made) == 3:
            deep.set()
        return encode(self, window)

    monkeypatch.setattr(module.QueueBatches, "_encode", deleting)

    async def delete() -> None:
        await asyncio.to_thread(deep.wait, 10)
        world.vhost.delete_queue(world.vhost.queue("orders"))

    deleted = asyncio.create_task(delete())
    with pytest.raises(httpx.RemoteProtocolError, match="incomplete"):
        await client.get(MESSAGES, params={"batch_rows": 1})
    await deleted
    assert len(made) < 40


async def test_what_goes_while_it_is_read_is_missing_and_nothing_is_there_twice(
    world: World, client: httpx.AsyncClient
):
    queue = queue_of(world)
    fill(world, queue, 500, body=b"%09d" + bytes(10_000))
    peer = peer_of(world, queue)
    read = bytearray()
    async with client.stream("GET", MESSAGES, params={"batch_rows": 7}) as answer:
        async for piece in answer.aiter_bytes(100_000):
            read += piece
            peer.get(queue)
            fill(world, queue, 1, body=b"later")
    offsets = pa.ipc.open_stream(bytes(read)).read_all()["offset"].to_pylist()
    assert offsets == sorted(set(offsets))
    assert set(range(queue.delivered, 500)) <= set(offsets) <= set(range(500))
