"""Virtual hosts over HTTP: paths, answers and refusals are those of RabbitMQ 3.10.8."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest
from tests.engine.frames import publish
from tests.management.clients import consuming
from tests.management.conftest import World

from leporid.broker.access.passwords import salted_sha256
from leporid.broker.access.permissions import EVERYTHING

ROOT = "/api/vhosts"
NOT_FOUND = (404, {"error": "Object Not Found", "reason": "Not Found"})


async def asked(
    client: httpx.AsyncClient, method: str, path: str, body: Any = None
) -> tuple[int, Any]:
    answer = await client.request(method, path, json=body)
    return answer.status_code, answer.json() if answer.content else None


async def test_the_default_virtual_host_is_described_until_somebody_does(
    world: World, client: httpx.AsyncClient
):
    path = f"{ROOT}/%2F"
    shown = (await asked(client, "GET", path))[1]
    assert shown["description"] == "Default virtual host"
    assert shown["metadata"] == {"description": "Default virtual host", "tags": []}
    assert await asked(client, "PUT", path, {"description": ""}) == (204, None)
    shown = (await asked(client, "GET", path))[1]
    assert shown["metadata"] == {"description": "", "tags": []}


async def test_a_virtual_hosts_life(world: World, client: httpx.AsyncClient):
    path = f"{ROOT}/a%2Fb"
    assert await asked(client, "GET", path) == NOT_FOUND
    assert await asked(client, "PUT", path) == (201, None)
    # Whoever makes one may do everything there.
    assert world.broker.access.require("guest").permissions["a/b"] == EVERYTHING
    status, shown = await asked(client, "GET", path)
    assert status == 200
    assert shown == {
        "name": "a/b",
        "description": "",
        "tags": [],
        "default_queue_type": "undefined",
        "metadata": {"description": "", "tags": []},
        "tracing": False,
        "cluster_state": {"leporid@localhost": "running"},
        "messages": 0,
        "messages_ready": 0,
        "messages_unacknowledged": 0,
        "messages_details": {"rate": 0.0},
        "messages_ready_details": {"rate": 0.0},
        "messages_unacknowledged_details": {"rate": 0.0},
    }
    given = {"description": "d", "tags": "b,a", "default_queue_type": "quorum"}
    assert await asked(client, "PUT", path, given) == (204, None)
    shown = (await asked(client, "GET", path))[1]
    assert shown["metadata"] == given | {"tags": ["b", "a"]}
    assert await asked(client, "PUT", path) == (204, None)
    assert (await asked(client, "GET", path))[1] == shown
    assert await asked(client, "DELETE", path) == (204, None)
    assert await asked(client, "GET", path) == NOT_FOUND
    assert await asked(client, "DELETE", path) == NOT_FOUND
    assert "a/b" not in world.broker.access.require("guest").permissions


async def test_how_fast_messages_come_and_go(world: World, client: httpx.AsyncClient):
    now_s = 1000.0
    object.__setattr__(world.around, "monotonic", lambda: now_s)
    peer = consuming(world, 7, "jobs", no_ack=True)
    await asked(client, "GET", ROOT)
    peer.connection_engine.feed(publish(1, "jobs", b"x") * 10)
    world.engine.run()
    now_s += 5
    ((_, (shown,)), other) = (
        await asked(client, "GET", ROOT),
        await asked(client, "PUT", f"{ROOT}/other"),
    )
    stats = shown["message_stats"]
    assert (stats["publish"], stats["publish_details"]) == (10, {"rate": 2.0})
    assert (stats["deliver_no_ack"], stats["deliver_get_details"]) == (10, {"rate": 2.0})
    assert other == (201, None)
    assert "message_stats" not in (await asked(client, "GET", f"{ROOT}/other"))[1]
    query = "?sort=message_stats.publish_details.rate&sort_reverse=true"
    _, listed = await asked(client, "GET", ROOT + query)
    assert [each["name"] for each in listed] == ["/", "other"]


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"description": 1}, "description should be a string"),
        ({"description": "x" * 4097}, "description has 4097 bytes; at most 4096 are allowed"),
        ({"tags": 1}, "tags should be a list, or a string with commas"),
        (
            {"default_queue_type": "x"},
            "unsupported default_queue_type; there are 'classic', 'quorum', 'stream'",
        ),
    ],
)
async def test_what_makes_none(
    world: World, client: httpx.AsyncClient, given: dict[str, Any], reason: str
):
    refused = {"error": "bad_request", "reason": reason}
    assert await asked(client, "PUT", f"{ROOT}/new", given) == (400, refused)
    assert "new" not in world.broker.vhosts


async def test_a_name_fits_into_connection_open(world: World, client: httpx.AsyncClient):
    assert (await asked(client, "PUT", f"{ROOT}/{'x' * 256}"))[0] == 400
    assert (await asked(client, "PUT", f"{ROOT}/{'x' * 255}"))[0] == 201


async def test_who_sees_which(world: World, client: httpx.AsyncClient):
    world.broker.add_vhost("other")
    for tag, seen in (
        ("administrator", ["/", "other"]),
        ("monitoring", ["/", "other"]),
        ("policymaker", ["/"]),
        ("management", ["/"]),
    ):
        world.broker.users.put(tag, salted_sha256("secret", b"s" * 4), frozenset({tag}))
        world.broker.users.permit(tag, "/", EVERYTHING)
        login = (tag, "secret")
        answer = await client.get(ROOT, auth=login)
        assert [one["name"] for one in answer.json()] == seen
        if tag != "administrator":
            for method in ("GET", "PUT", "DELETE"):
                answer = await client.request(method, f"{ROOT}/other", auth=login)
                assert answer.json()["reason"] == "Not administrator user"


async def test_one_that_is_being_deleted_is_made_anew_when_it_is_gone(
    world: World, client: httpx.AsyncClient
):
    vhost = world.broker.add_vhost("busy")
    for number in range(20):
        vhost.create_queue(f"q{number}", durable=True, auto_delete=False, arguments={}, owner=None)
    # Each step of a job is a slice from now on.
    world.engine.clock.monotonic_ns = iter(range(0, 10**15, 2_000_000)).__next__
    deleting = asyncio.create_task(asked(client, "DELETE", f"{ROOT}/busy"))
    while "busy" in world.broker.vhosts:
        await asyncio.sleep(0)
    making = asyncio.create_task(asked(client, "PUT", f"{ROOT}/busy"))
    for _ in range(50):
        await asyncio.sleep(0)
    assert not making.done()
    while not (deleting.done() and making.done()):
        world.turn()
        await asyncio.sleep(0)
    assert await deleting == (204, None)
    assert await making == (201, None)
    assert world.broker.vhosts["busy"] is not vhost
    assert list(world.broker.vhosts["busy"].queues()) == []


async def test_nothing_is_made_in_one_that_is_gone(world: World, client: httpx.AsyncClient):
    vhost = world.broker.add_vhost("gone")
    await asked(client, "DELETE", f"{ROOT}/gone")
    count = len(world.changes)
    arguments: dict[str, Any] = {"durable": True, "auto_delete": False, "arguments": {}}
    with pytest.raises(Exception, match="no vhost 'gone'"):
        vhost.create_queue("q", owner=None, **arguments)
    with pytest.raises(Exception, match="no vhost 'gone'"):
        vhost.create_exchange("x", "direct", internal=False, **arguments)
    assert len(world.changes) == count


async def test_what_is_not_given_stays(world: World, client: httpx.AsyncClient):
    first = {"description": "d", "tags": "a", "default_queue_type": "quorum"}
    assert (await client.put("/api/vhosts/v", json=first)).status_code == 201
    assert (await client.put("/api/vhosts/v", json={"tracing": False})).status_code == 204
    vhost = world.broker.vhosts["v"]
    assert (vhost.description, list(vhost.tags), vhost.default_queue_type) == ("d", ["a"], "quorum")


async def test_pages_and_order(world: World, client: httpx.AsyncClient):
    for name in "ab":
        world.broker.add_vhost(name)
    found = (await client.get("/api/vhosts?page=1&page_size=2&columns=name")).json()
    assert (found["items"], found["total_count"]) == ([{"name": "/"}, {"name": "a"}], 3)
    found = (await client.get("/api/vhosts?sort=name&sort_reverse=true&columns=name")).json()
    assert [each["name"] for each in found] == ["b", "a", "/"]


async def test_who_is_protected_is_not_deleted(world: World, client: httpx.AsyncClient):
    world.broker.add_vhost("v")
    protection = "/api/vhosts/v/deletion/protection"
    assert await asked(client, "POST", protection) == (204, None)
    assert world.broker.vhosts["v"].protected
    shown = (await asked(client, "GET", "/api/vhosts/v"))[1]
    assert shown["metadata"]["protected_from_deletion"] is True
    status, refused = await asked(client, "DELETE", "/api/vhosts/v")
    assert (status, refused["error"]) == (412, "precondition_failed")
    assert await asked(client, "DELETE", protection) == (204, None)
    assert await asked(client, "DELETE", "/api/vhosts/v") == (204, None)
    assert await asked(client, "POST", protection) == NOT_FOUND


async def test_each_of_them_runs(client: httpx.AsyncClient):
    assert await asked(client, "POST", "/api/vhosts/%2F/start/leporid@localhost") == (204, None)
    status, refused = await asked(client, "POST", "/api/vhosts/%2F/start/nope")
    assert (status, refused["reason"]) == (400, "Request to node nope failed with nodedown")
    status, refused = await asked(client, "POST", "/api/vhosts/nope/start/leporid@localhost")
    assert (status, "no_such_vhost" in refused["reason"]) == (400, True)
