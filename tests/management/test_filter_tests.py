"""What a filter makes of the newest messages: the engine's verdict, a reason, and no change."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from tests.management.conftest import World
from tests.management.queues import URL, fill, queue_of

from leporid.amqp.properties import Properties, encode_properties
from leporid.engine.queue.lease import Lease
from leporid.management import filter_tests as module

TEST = URL + "/filter-test"
STREAM = "/api/streams/%2F/orders/filter-test"


def raw(**headers: Any) -> bytes:
    return encode_properties(Properties(headers=headers, delivery_mode=2))


async def asked(client: httpx.AsyncClient, path: str = TEST, **query: Any) -> dict[str, Any]:
    answer = await client.get(path, params=query)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def filled(world: World, path: str) -> None:
    """Delays of 10, 50, 90 minutes, and one without a number."""
    headers = [raw(d=10), raw(d=50, **{"x-tag": "late"}), raw(d=90, o="JFK"), raw(d="soon")]
    if path == STREAM:
        stream = world.stream()
        for each in headers:
            world.fill(stream, 1, properties=each)
    else:
        queue = queue_of(world)
        for each in headers:
            fill(world, queue, 1, properties=each)


@pytest.mark.parametrize("path", [TEST, STREAM])
async def test_each_message_with_its_reason(world: World, client: httpx.AsyncClient, path: str):
    filled(world, path)
    found = await asked(client, path, filter="d > 40 AND o = 'JFK'")
    assert (found["looked_at"], found["matched"], found["skipped"]) == (4, 1, 3)
    messages = found["messages"]
    assert [each["offset"] for each in messages] == [3, 2, 1, 0]
    assert [each["matched"] for each in messages] == [False, True, False, False]
    assert messages[1]["reason"] == "match"
    assert messages[1]["properties"]["headers"] == {"d": 90, "o": "JFK"}
    assert messages[3]["parts"] == [
        {"depth": 0, "value": "false", "text": "d > 40 AND o = 'JFK'"},
        {"depth": 1, "value": "false", "text": "d > 40"},
        {"depth": 2, "value": "10", "text": "d"},
        {"depth": 1, "value": "not reached", "text": "o = 'JFK'"},
        {"depth": 2, "value": "not reached", "text": "o"},
    ]
    assert messages[0]["reason"].startswith("no match")


@pytest.mark.parametrize("path", [TEST, STREAM])
async def test_tags(world: World, client: httpx.AsyncClient, path: str):
    filled(world, path)
    found = await asked(client, path, tags="late || lost")
    matched = [each for each in found["messages"] if each["matched"]]
    assert [each["reason"] for each in matched] == ["its tag is 'late'"]
    assert {each["reason"] for each in found["messages"]} >= {"it has no tag"}
    found = await asked(client, path, tags="lost", filter="d > 0")
    reasons = [each["reason"] for each in found["messages"] if each["offset"] == 1]
    assert reasons == ["its tag is 'late', which is none of them; match"]
    assert found["matched"] == 0


@pytest.mark.parametrize("path", [TEST, STREAM])
async def test_only_the_newest(world: World, client: httpx.AsyncClient, path: str):
    filled(world, path)
    found = await asked(client, path, filter="d > 0", last=2)
    assert [each["offset"] for each in found["messages"]] == [3, 2]


async def test_the_newest_of_a_queue_with_gaps(
    world: World, client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(module, "CHOSEN_ROWS", 7)
    queue = queue_of(world)
    fill(world, queue, 60)
    lease = Lease(queue, 60, chosen=True)
    lease.take(range(45, 58))
    lease.acknowledge()
    found = await asked(client, filter="d IS NULL", last=10)
    assert [each["offset"] for each in found["messages"]] == [59, 58, *range(44, 36, -1)]
    assert found["matched"] == 10
    assert (queue.ready_count, queue.unacked_count) == (47, 0)


async def test_nothing_there(world: World, client: httpx.AsyncClient):
    queue_of(world)
    assert await asked(client, filter="a = 1") == {
        "looked_at": 0,
        "matched": 0,
        "skipped": 0,
        "messages": [],
    }


async def test_large_headers_are_not_explained(world: World, client: httpx.AsyncClient):
    queue = queue_of(world)
    fill(world, queue, 1, properties=raw(d="x" * module.EXPLAINED_BYTES_MAX))
    (message,) = (await asked(client, filter="d LIKE '%x%x%'"))["messages"]
    assert message["matched"] is True
    assert message["parts"] == []
    assert message["reason"].startswith("not explained")


async def test_many_patterns_over_long_headers_are_not_explained(
    world: World, client: httpx.AsyncClient
):
    queue = queue_of(world)
    for size in (100, 3000):
        fill(world, queue, 1, properties=raw(d="x" * size))
    patterns = " OR ".join(["d LIKE '%x%x%x%x%x%x%x%y'"] * 4)
    large, small = (await asked(client, filter=patterns))["messages"]
    assert large["reason"].startswith("not explained")
    assert small["reason"].startswith("no match")
    assert (large["matched"], small["matched"]) == (False, False)


@pytest.mark.parametrize(
    ("query", "parameter", "position"),
    [
        ({}, "filter", None),
        ({"filter": "d >> 3"}, "filter", 3),
        ({"tags": "a || *"}, "tags", 5),
        ({"dialect": "jms", "tags": "a"}, "dialect", None),
        ({"filter": "d = 1", "last": 5000}, "last", None),
    ],
)
@pytest.mark.parametrize("path", [TEST, STREAM])
async def test_what_is_refused(
    world: World,
    client: httpx.AsyncClient,
    path: str,
    query: dict[str, Any],
    parameter: str,
    position: int | None,
):
    filled(world, path)
    answer = await client.get(path, params=query)
    assert answer.status_code == 400
    assert answer.json()["parameter"] == parameter
    assert answer.json().get("position") == position


async def test_the_dialect(world: World, client: httpx.AsyncClient):
    fill(world, queue_of(world), 1, properties=raw(n="5"))
    assert (await asked(client, filter="n = 5"))["matched"] == 0
    assert (await asked(client, filter="n = 5", dialect="rocketmq"))["matched"] == 1


async def test_it_takes_the_right_to_read(world: World, client: httpx.AsyncClient):
    queue_of(world, "secret")
    auth = ("reader", "secret")
    answer = await client.get("/api/queues/%2F/secret/filter-test?filter=a=1", auth=auth)
    assert answer.status_code == 403
