"""Streams, readers and groups as lists: pages, order, columns, and how far readers are behind."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from tests.broker.at_once import declare_partitioned_stream
from tests.management.conftest import World
from tests.management.queues import queue_of

from leporid.broker.access.permissions import EVERYTHING

HOUR_MS = 3_600_000


async def listed(client: httpx.AsyncClient, path: str, **query: Any) -> Any:
    answer = await client.get(path, params=query)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def test_streams(world: World, client: httpx.AsyncClient):
    queue_of(world, "plain")
    world.fill(world.stream(), 3)
    declare_partitioned_stream(world.vhost, "many", 2)
    world.vhost.pauses.pause(world.vhost.queue("many-1"))
    first, *others = await listed(client, "/api/streams", sort="messages", sort_reverse="true")
    assert first == {
        "name": "orders",
        "vhost": "/",
        "state": "running",
        "first": 0,
        "end": 3,
        "messages": 3,
        "bytes": first["bytes"],
        "first_timestamp_ms": world.engine.clock.wall_ms,
        "last_timestamp_ms": world.engine.clock.wall_ms,
        "consumers": 0,
        "readers": 0,
    }
    assert {each["name"]: each["state"] for each in others} == {
        "many-0": "running",
        "many-1": "paused",
    }


async def test_readers_and_their_lag(world: World, client: httpx.AsyncClient):
    stream = world.stream()
    world.fill(stream, 2)
    world.engine.clock.wall_ms += HOUR_MS
    world.fill(stream, 3)
    world.engine.clock.wall_ms += HOUR_MS
    for name, offset in (("none", 4), ("late", 0), ("soon", 2)):
        world.vhost.set_reader_offset("orders", name, offset)
    found = await listed(client, "/api/readers", columns="reader,offset,lag,lag_ms", sort="lag")
    assert found == [
        {"reader": "none", "offset": 4, "lag": 0, "lag_ms": None},
        {"reader": "soon", "offset": 2, "lag": 2, "lag_ms": HOUR_MS},
        {"reader": "late", "offset": 0, "lag": 4, "lag_ms": 2 * HOUR_MS},
    ]
    paged = await listed(client, "/api/readers/%2F", page=1, name="soon", columns="end,vhost")
    assert paged["items"] == [{"end": 5, "vhost": "/"}]


async def test_a_reader_of_partitions_has_the_name_that_readers_know(
    world: World, client: httpx.AsyncClient
):
    declare_partitioned_stream(world.vhost, "many", 2)
    world.stream("many-more")
    for queue in ("many-0", "many-1", "many-more"):
        world.vhost.set_reader_offset(queue, "r", 0)
    found = await listed(client, "/api/readers", columns="stream,partition,reader", sort="stream")
    assert sorted(found, key=lambda one: (one["stream"], one["partition"])) == [
        {"stream": "many", "partition": 0, "reader": "r"},
        {"stream": "many", "partition": 1, "reader": "r"},
        {"stream": "many-more", "partition": 0, "reader": "r"},
    ]


async def test_groups(world: World, client: httpx.AsyncClient):
    world.stream()
    world.vhost.groups.restore("orders", "g", 2, {}, 7)
    (found,) = await listed(client, "/api/groups")
    assert found == {
        "group": "g",
        "stream": "orders",
        "vhost": "/",
        "version": 2,
        "members": 0,
        "partitions": 0,
        "used_ms": 7,
        "retrying": 0,
    }
    assert await listed(client, "/api/groups/%2F") == [found]


async def test_leases(world: World, client: httpx.AsyncClient):
    queue = queue_of(world, "jobs")
    world.engine.publish([queue], "", "jobs", b"\0\0", b"x")
    world.sync()
    made = await client.post("/api/queues/%2F/jobs/leases", params={"answer": "json"})
    (found,) = await listed(client, "/api/leases")
    ends_in_ms = found.pop("ends_in_ms")
    assert 0 < ends_in_ms <= 600_000
    assert found == {
        "lease": made.json()["lease"],
        "user": "guest",
        "vhost": "/",
        "queue": "jobs",
        "messages": 1,
    }
    assert len(await listed(client, "/api/leases/%2F")) == 1
    world.broker.add_vhost("other")
    world.broker.users.permit("guest", "other", EVERYTHING)
    assert await listed(client, "/api/leases/other") == []


@pytest.mark.parametrize("noun", ["streams", "readers", "groups", "leases"])
async def test_they_are_for_users_of_the_management(
    world: World, client: httpx.AsyncClient, noun: str
):
    assert (await client.get(f"/api/{noun}", auth=("reader", "secret"))).status_code == 401
    if noun != "streams":
        assert (await client.get(f"/api/{noun}/absent")).status_code == 404
