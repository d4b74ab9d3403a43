"""Pages of messages in JSON: every message once, whatever the limits, and nothing is changed."""

from __future__ import annotations

import base64
from typing import Any

import httpx
import pytest
from tests.engine.frames import properties
from tests.management.conftest import World
from tests.management.queues import URL, fill, peer_of, queue_of

from leporid.amqp.properties import Properties, encode_properties
from leporid.management import message_pages as module

BROWSE = URL + "/browse"
STREAM = "/api/streams/%2F/orders/browse"
READER = ("reader", "secret")


async def page(client: httpx.AsyncClient, path: str = BROWSE, **parameters: Any) -> dict[str, Any]:
    answer = await client.get(path, params=parameters)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


async def all_offsets(client: httpx.AsyncClient, path: str, **parameters: Any) -> list[int]:
    """Follow `next` to the end."""
    found: list[int] = []
    first: int | None = 0
    while first is not None:
        answer = await page(client, path, **{"from": first, **parameters})
        found += [message["offset"] for message in answer["messages"]]
        first = answer["next"]
    return found


async def test_a_message_as_json_and_the_queue_is_as_it_was(
    world: World, client: httpx.AsyncClient
):
    queue = queue_of(world)
    raw = encode_properties(
        Properties(delivery_mode=2, headers={"n": 1, "x": None}, message_id="m")
    )
    fill(world, queue, 1, body=b"caf\xc3\xa9", key="k", properties=raw)
    fill(world, queue, 1, body=b"\xff\x00")
    for _ in range(2):
        found = await page(client)
        assert found["next"] is None
        first, second = found["messages"]
        assert first == {
            "offset": 0,
            "state": "ready",
            "redelivered": False,
            "exchange": "",
            "routing_key": "k",
            "properties": {
                "delivery_mode": 2,
                "message_id": "m",
                "headers": {"n": 1, "x": None},
            },
            "payload": "café",
            "payload_encoding": "string",
            "payload_bytes": 5,
            "timestamp_ms": world.engine.clock.wall_ms,
        }
        assert second["payload_encoding"] == "base64"
        assert base64.b64decode(second["payload"]) == b"\xff\x00"
    assert (queue.ready_count, queue.unacked_count) == (2, 0)
    got = peer_of(world, queue).get(queue)
    assert got is not None
    assert got.redelivered is False


async def test_pages_have_every_message_once(world: World, client: httpx.AsyncClient):
    fill(world, queue_of(world), 25)
    found = await page(client, limit=10)
    assert [each["offset"] for each in found["messages"]] == list(range(10))
    assert found["next"] == 10
    assert await all_offsets(client, BROWSE, limit=10) == list(range(25))
    assert await all_offsets(client, BROWSE, limit=25) == list(range(25))
    assert (await page(client, limit=25))["next"] is None
    assert await page(client, limit=0) == {"messages": [], "next": 0}
    assert (await page(client, BROWSE, **{"from": 99}))["messages"] == []


async def test_a_queue_with_priorities_is_paged_in_order_of_arrival(
    world: World, client: httpx.AsyncClient
):
    queue = queue_of(world, arguments={"x-max-priority": 9})
    for priority in (1, 9, 5, 0):
        fill(world, queue, 1, properties=properties(priority=priority))
    assert await all_offsets(client, BROWSE, limit=3) == [0, 1, 2, 3]


async def test_unacked_on_request(world: World, client: httpx.AsyncClient):
    queue = queue_of(world)
    fill(world, queue, 2)
    peer_of(world, queue).get(queue, no_ack=False)
    assert [each["state"] for each in (await page(client))["messages"]] == ["ready"]
    both = (await page(client, unacked="true"))["messages"]
    assert [each["state"] for each in both] == ["unacked", "ready"]


async def test_filters_and_a_page_that_goes_on_behind_what_was_looked_at(
    world: World, client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(module, "CHOSEN_ROWS", 4)
    queue = queue_of(world)
    for number in range(12):
        fill(world, queue, 1, key="odd" if number % 2 else "even")
    assert await all_offsets(client, BROWSE, routing_key="odd", limit=2) == [1, 3, 5, 7, 9, 11]
    found = await page(client, filter="p.delivery_mode = 2", limit=3)
    assert [each["offset"] for each in found["messages"]] == [0, 1, 2]
    assert (await page(client, filter="p.delivery_mode = 1"))["messages"] == []
    refused = await client.get(BROWSE, params={"filter": "p.delivery_mode ="})
    assert refused.status_code == 400
    assert "position" in refused.json()


async def test_what_takes_too_long_goes_on_with_the_next_page(
    world: World, client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
):
    """Nothing matches, so the first page ends by the time that it may take."""
    monkeypatch.setattr(module, "CHOSEN_ROWS", 2)
    monkeypatch.setattr(module, "LOOK_SECONDS", 0)
    fill(world, queue_of(world), 10)
    world.fill(world.stream("many"), 10)
    for path in (BROWSE, "/api/streams/%2F/many/browse"):
        assert await page(client, path, routing_key="absent") == {
            "messages": [],
            "next": 0,
            **({} if path == BROWSE else {"end": 10, "lost": []}),
        }


async def test_bodies_of_a_page_have_a_limit_and_may_be_truncated(
    world: World, client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(module, "BODY_BYTES_MAX", 1000)
    queue = queue_of(world)
    fill(world, queue, 5, body=b"x" * 400)
    found = await page(client)
    assert [len(each["payload"]) for each in found["messages"]] == [400, 400]
    assert found["next"] == 2
    assert await all_offsets(client, BROWSE) == [0, 1, 2, 3, 4]
    short = await page(client, truncate=7)
    assert {each["payload"] for each in short["messages"]} == {"x" * 7}
    assert {each["payload_bytes"] for each in short["messages"]} == {400}
    fill(world, queue, 1, body=b"y" * 2000)
    refused = await client.get(BROWSE, params={"from": 5})
    assert refused.status_code == 413
    assert (refused.json()["limit"], refused.json()["value"]) == ("http_get_body_bytes", 1000)
    assert len((await page(client, BROWSE, **{"from": 5, "truncate": 9}))["messages"]) == 1
    assert world.around.admission.shares.body_bytes.used == 0


async def test_a_stream_is_paged_by_offset(world: World, client: httpx.AsyncClient):
    world.fill(world.stream(), 25)
    found = await page(client, STREAM, limit=10)
    assert [each["offset"] for each in found["messages"]] == list(range(10))
    assert (found["next"], found["end"], found["lost"]) == (10, 25, [])
    assert found["messages"][3]["payload"] == "3"
    assert found["messages"][3]["routing_key"] == "k3"
    assert await all_offsets(client, STREAM, limit=10) == list(range(25))
    assert await all_offsets(client, STREAM, limit=7, routing_key_prefix="k2") == [
        2,
        *range(20, 25),
    ]
    last = await page(client, STREAM, **{"from": "last"})
    assert [each["offset"] for each in last["messages"]] == [24]
    assert (await page(client, STREAM, **{"from": 25}))["messages"] == []


@pytest.mark.parametrize(
    ("path", "parameters", "status", "says"),
    [
        (BROWSE, {"form": 1}, 400, "did you mean 'from'?"),
        (BROWSE, {"limit": 1001}, 400, "from 0 to 1000"),
        (BROWSE, {"encoding": "hex"}, 400, "encoding"),
        (BROWSE, {"from": "last"}, 400, "from"),
        ("/api/streams/%2F/many/browse", {"from": 26}, 416, "ends before offset 25"),
        ("/api/streams/%2F/many/browse", {"from": "new"}, 400, "from"),
        ("/api/streams/%2F/many/browse", {"partition": 1}, 404, "no partition 1"),
        ("/api/streams/%2F/orders/browse", {}, 404, "no stream"),
        ("/api/queues/%2F/many/browse", {}, 400, "/api/streams/"),
        ("/api/queues/%2F/absent/browse", {}, 404, "absent"),
    ],
)
async def test_bad_requests(
    world: World,
    client: httpx.AsyncClient,
    path: str,
    parameters: dict[str, Any],
    status: int,
    says: str,
):
    queue_of(world)
    world.fill(world.stream("many"), 25)
    answer = await client.get(path, params=parameters)
    assert answer.status_code == status, answer.text
    assert says in answer.json()["reason"]


async def test_who_may_not_read_is_refused(world: World, client: httpx.AsyncClient):
    fill(world, queue_of(world, "private"), 1)
    world.fill(world.stream("secret"), 1)
    for path in ("/api/queues/%2F/private/browse", "/api/streams/%2F/secret/browse"):
        assert (await client.get(path, auth=READER)).status_code == 403
        assert (await client.get(path, auth=("guest", "wrong"))).status_code == 401
