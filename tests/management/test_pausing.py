"""Pausing a queue over HTTP."""

from __future__ import annotations

import httpx
import pytest
from tests.management.conftest import World
from tests.management.queues import URL, fill, peer_of, queue_of

from leporid.broker.stored import StoredPause
from leporid.durable import Drop, Put

GETTING = {"count": 9, "ackmode": "ack_requeue_false", "encoding": "auto"}


async def state(client: httpx.AsyncClient, path: str = URL) -> str:
    return str((await client.get(path)).json()["state"])


async def put(client: httpx.AsyncClient, path: str) -> int:
    return (await client.put(path)).status_code


async def test_a_paused_queue_gives_nothing_to_anybody_and_takes_everything(
    world: World, client: httpx.AsyncClient
):
    queue = queue_of(world)
    peer = peer_of(world, queue)
    peer.channel.consume(queue, "c", True, 0, 0)
    assert await state(client) == "running"
    for _ in range(2):
        assert await put(client, URL + "/pause") == 204
    assert await state(client) == "paused"
    listed = (await client.get("/api/queues/%2F?disable_stats=true")).json()
    assert [each["state"] for each in listed] == ["paused"]
    fill(world, queue, 3)
    assert peer.deliveries() == []
    assert peer.get(queue) is None
    assert (await client.post(URL + "/get", json=GETTING)).json() == []
    lease = await client.post(URL + "/leases", params={"answer": "json"})
    assert (lease.json()["lease"], lease.json()["messages"]) == (None, 0)
    filtered = {"answer": "json", "routing_key": "k"}
    assert (await client.post(URL + "/leases", params=filtered)).json()["messages"] == 0
    assert len((await client.get(URL + "/browse")).json()["messages"]) == 3
    for _ in range(2):
        assert await put(client, URL + "/resume") == 204
    assert await state(client) == "running"
    assert [each.body for each in peer.deliveries()] == [b"0", b"1", b"2"]


async def test_a_durable_queue_is_recorded_as_paused_and_its_name_is_not(
    world: World, client: httpx.AsyncClient
):
    queue_of(world)
    for _ in range(2):
        await put(client, URL + "/pause")
    assert world.changes.count(Put(StoredPause("/", "orders"))) == 1
    assert world.vhost.statistics().paused_count == 1
    assert (await client.delete(URL)).status_code == 204
    assert world.changes.count(Drop(StoredPause, ("/", "orders"))) == 1
    assert world.vhost.statistics().paused_count == 0
    queue_of(world)
    assert await state(client) == "running"


@pytest.mark.parametrize(
    ("user", "path", "status"),
    [
        (("reader", "secret"), URL, 403),
        (("stranger", "secret"), URL, 403),
        (("guest", "wrong"), URL, 401),
        (("guest", "guest"), "/api/queues/%2F/absent", 404),
        (("guest", "guest"), "/api/queues/absent/orders", 404),
    ],
)
async def test_who_may_not_configure_it_or_names_no_queue_is_refused(
    world: World, client: httpx.AsyncClient, user: tuple[str, str], path: str, status: int
):
    queue = queue_of(world)
    for verb in ("/pause", "/resume"):
        assert (await client.put(path + verb, auth=user)).status_code == status
    assert not queue.paused


async def test_a_misspelt_parameter_changes_nothing(world: World, client: httpx.AsyncClient):
    queue = queue_of(world)
    assert (await client.put(URL + "/pause?until=tomorrow")).status_code == 400
    assert not queue.paused


async def test_it_is_in_the_audit_log(
    world: World, client: httpx.AsyncClient, caplog: pytest.LogCaptureFixture
):
    queue_of(world)
    with caplog.at_level("INFO", logger="leporid.audit"):
        await put(client, URL + "/pause")
    assert any("PUT /api/queues/%2F/orders/pause by 'guest'" in each for each in caplog.messages)
