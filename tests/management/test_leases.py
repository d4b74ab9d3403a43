"""Leases over HTTP: acknowledged in time, or back in the queue."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import httpx
import pytest
from tests.engine.browsing import bodies
from tests.management.conftest import World, serving
from tests.management.queues import URL, fill, queue_of, table_of

from leporid.management import leases as module
from leporid.server.counts import Counts

LEASES = URL + "/leases"


async def take(client: httpx.AsyncClient, **parameters: Any) -> httpx.Response:
    answer = await client.post(LEASES, params=parameters)
    assert answer.status_code in {200, 201}, answer.text
    return answer


async def lease_of(client: httpx.AsyncClient, **parameters: Any) -> str:
    found: str = (await take(client, answer="json", **parameters)).json()["lease"]
    return found


async def test_what_is_leased_is_out_and_gone_when_it_is_acknowledged(
    world: World, client: httpx.AsyncClient
):
    queue = queue_of(world)
    fill(world, queue, 5)
    answer = await take(client, max=3)
    read = table_of(answer)
    assert read["body"].to_pylist() == [b"0", b"1", b"2"]
    assert read["offset"].to_pylist() == [0, 1, 2]
    assert set(read["state"].to_pylist()) == {"unacked"}
    assert answer.headers["leporid-lease-messages"] == "3"
    assert (queue.ready_count, queue.unacked_count) == (2, 3)
    world.syncing = False
    acknowledging = asyncio.create_task(
        client.delete(f"{LEASES}/{answer.headers['leporid-lease']}")
    )
    async with asyncio.timeout(5):
        while queue.unacked_count:
            await asyncio.sleep(0)
    assert not acknowledging.done()  # until it is on disk
    world.syncing = True
    assert (await acknowledging).status_code == 204
    assert bodies(queue) == [b"3", b"4"]


async def test_what_to_take_does_not_stand_in_a_body(world: World, client: httpx.AsyncClient):
    queue = queue_of(world)
    fill(world, queue, 5)
    answer = await client.post(LEASES, json={"max": 3})
    assert (answer.status_code, answer.json()["reason"]) == (
        400,
        "max: unknown member; there are none here",
    )
    assert queue.ready_count == 5
    assert (await client.post(LEASES, json={}, params={"max": 3})).status_code == 200


async def test_leases_are_counted_as_long_as_they_hold_something(
    world: World, client: httpx.AsyncClient
):
    held = world.around.leases
    counts = Counts(world.broker, world.engine, lambda: [each.lease for each in held.values()])
    fill(world, queue_of(world), 5)
    lease = await lease_of(client, max=3)
    await lease_of(client, max=1)
    assert (counts.now().leases, counts.now().messages_leased) == (2, 4)
    assert (await client.post(f"{LEASES}/{lease}/release")).status_code == 204
    assert (counts.now().leases, counts.now().messages_leased) == (1, 1)
    world.vhost.delete_queue(world.vhost.queue("orders"))
    assert (counts.now().leases, counts.now().messages_leased) == (0, 0)


async def test_what_is_released_goes_back(world: World, client: httpx.AsyncClient):
    queue = queue_of(world)
    fill(world, queue, 2)
    lease = await lease_of(client)
    assert queue.ready_count == 0
    assert (await client.post(f"{LEASES}/{lease}/release")).status_code == 204
    assert bodies(queue) == [b"0", b"1"]
    read = table_of(await take(client))
    assert set(read["redelivered"].to_pylist()) == {True}


async def test_when_its_time_is_over_it_goes_back_by_itself(
    world: World, client: httpx.AsyncClient, caplog: pytest.LogCaptureFixture
):
    caplog.set_level("INFO")
    queue = queue_of(world)
    fill(world, queue, 2)
    lease = await lease_of(client, ttl_ms=1)
    async with asyncio.timeout(5):
        while queue.ready_count < 2:
            await asyncio.sleep(0.001)
    assert "a lease of 2 messages of queue 'orders'" in caplog.text
    answer = await client.delete(f"{LEASES}/{lease}")
    assert (answer.status_code, answer.json()["error"]) == (410, "gone")
    assert answer.json()["ended"] == "expired"
    assert bodies(queue) == [b"0", b"1"]


async def test_leases_that_are_over_at_one_moment_end_one_in_each_round_of_the_loop(
    world: World, client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
):
    queue, count, ttl_ms = queue_of(world), 20, 3_600_000
    loop, due = asyncio.get_running_loop(), []
    call_later = loop.call_later

    def noted(delay: float, callback: Callable[..., object], *args: Any, **how: Any) -> Any:
        if delay == ttl_ms / 1000:
            due.append(callback)
        return call_later(delay, callback, *args, **how)

    monkeypatch.setattr(loop, "call_later", noted)
    fill(world, queue, count)
    for _ in range(count):
        await lease_of(client, max=1, ttl_ms=ttl_ms)
    for over in due:
        over()
    ready = [queue.ready_count]
    async with asyncio.timeout(10):
        while ready[-1] < count:
            await asyncio.sleep(0)
            ready.append(queue.ready_count)
    assert max(after - before for before, after in pairwise(ready)) == 1


async def test_a_repeated_request_gets_the_answer_that_was_lost(
    world: World, client: httpx.AsyncClient
):
    fill(world, queue_of(world), 2)
    lease = await lease_of(client, max=1)
    for _ in range(2):
        assert (await client.delete(f"{LEASES}/{lease}")).status_code == 204
    assert (await client.post(f"{LEASES}/{lease}/release")).status_code == 410
    other = await lease_of(client, max=1)
    for _ in range(2):
        assert (await client.post(f"{LEASES}/{other}/release")).status_code == 204
    assert (await client.delete(f"{LEASES}/{other}")).status_code == 410


async def test_its_messages_can_be_read_again_and_in_parts(world: World, client: httpx.AsyncClient):
    fill(world, queue_of(world), 10)
    lease = await lease_of(client, max=6)
    url = f"{LEASES}/{lease}/messages"
    for _ in range(2):
        read = table_of(await client.get(url, params={"batch_rows": 4}))
        assert read["offset"].to_pylist() == list(range(6))
    part = table_of(await client.get(url, params={"from": 2, "to": 5, "columns": "offset"}))
    assert part["offset"].to_pylist() == [2, 3, 4]
    assert (await client.get(url, params={"from": 5, "to": 2})).status_code == 400
    assert (await client.get(url, params={"to": 7})).status_code == 400
    await client.delete(f"{LEASES}/{lease}")
    assert (await client.get(url)).status_code == 410


async def test_of_nothing_there_is_no_lease(world: World, client: httpx.AsyncClient):
    queue_of(world)
    answer = await take(client)
    assert table_of(answer).num_rows == 0
    assert "leporid-lease" not in answer.headers
    assert (await take(client, answer="json")).json() == {
        "lease": None,
        "messages": 0,
        "ttl_ms": module.TTL_MS,
    }


async def test_who_does_not_get_all_of_it_does_not_keep_it(world: World, client: httpx.AsyncClient):
    queue = queue_of(world)
    fill(world, queue, 60, body=bytes(1_000_000))
    async with client.stream("POST", LEASES, params={"batch_rows": 1}) as answer:
        await anext(answer.aiter_bytes(1000))
        assert queue.unacked_count == 60
    async with asyncio.timeout(10):
        while queue.unacked_count:
            await asyncio.sleep(0.001)
    assert queue.ready_count == 60


async def test_a_lease_is_its_holders_alone(world: World, client: httpx.AsyncClient):
    queue = queue_of(world)
    queue_of(world, "many")
    fill(world, queue, 2)
    lease = await lease_of(client)
    for url, user in (
        (f"{LEASES}/{lease}", ("reader", "secret")),
        (f"/api/queues/%2F/many/leases/{lease}", ("guest", "guest")),
        (f"{LEASES}/lease-unknown", ("guest", "guest")),
    ):
        assert (await client.delete(url, auth=user)).status_code == 404
    assert queue.unacked_count == 2


async def test_who_may_not_read_the_queue_takes_nothing(world: World, client: httpx.AsyncClient):
    queue = queue_of(world)
    fill(world, queue, 1)
    answer = await client.post(LEASES, auth=("stranger", "secret"))
    assert answer.status_code == 403
    assert queue.ready_count == 1


async def test_there_is_an_end_to_how_many_leases_there_are(
    world: World, monkeypatch: pytest.MonkeyPatch
):
    world.around.admission.shares.leases.slots = 1
    queue = queue_of(world)
    fill(world, queue, 3)
    async with serving(world) as client:
        first = await lease_of(client, max=1)
        assert (await client.post(LEASES)).status_code == 503
        assert queue.unacked_count == 1
        await client.delete(f"{LEASES}/{first}")
        await lease_of(client, max=1)


async def test_only_so_many_ended_leases_are_remembered(
    world: World, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(module, "ENDED_MAX", 1)
    fill(world, queue_of(world), 2)
    async with serving(world) as client:
        leases = [await lease_of(client, max=1) for _ in range(2)]
        for lease in leases:
            assert (await client.delete(f"{LEASES}/{lease}")).status_code == 204
        assert (await client.delete(f"{LEASES}/{leases[0]}")).status_code == 404
        assert (await client.delete(f"{LEASES}/{leases[1]}")).status_code == 204


@pytest.mark.parametrize(
    ("parameters", "says"),
    [
        ({"maximum": 1}, "did you mean 'max'?"),
        ({"max": 0}, "max"),
        ({"max": module.MESSAGES_MAX + 1}, "max"),
        ({"ttl_ms": 0}, "ttl_ms"),
        ({"answer": "xml"}, "answer"),
        ({"columns": "bodies"}, "did you mean 'body'?"),
    ],
)
async def test_bad_requests_take_nothing(
    world: World, client: httpx.AsyncClient, parameters: dict[str, Any], says: str
):
    queue = queue_of(world)
    fill(world, queue, 1)
    answer = await client.post(LEASES, params=parameters)
    assert (answer.status_code, answer.json()["error"]) == (400, "bad-request")
    assert says in answer.json()["reason"]
    assert queue.ready_count == 1


async def test_a_queue_that_is_deleted_takes_its_leases_with_it(
    world: World, client: httpx.AsyncClient
):
    fill(world, queue_of(world), 1)
    lease = await lease_of(client)
    world.vhost.delete_queue(world.vhost.queue("orders"))
    assert (await client.delete(f"{LEASES}/{lease}")).status_code == 404
    queue = queue_of(world)
    fill(world, queue, 1)
    # Another queue has its name by now.
    assert (await client.get(f"{LEASES}/{lease}/messages")).status_code == 404
    assert (await client.delete(f"{LEASES}/{lease}")).status_code == 404
    assert queue.ready_count == 1


async def test_leases_of_deleted_queues_take_no_place(
    world: World, monkeypatch: pytest.MonkeyPatch
):
    world.around.admission.shares.leases.slots = 1
    async with serving(world) as client:
        for _ in range(2):
            fill(world, queue_of(world), 1)
            assert await lease_of(client)
            assert (await client.post(LEASES)).status_code == 503
            world.vhost.delete_queue(world.vhost.queue("orders"))


async def test_taking_uses_a_queue_that_would_go_unused(world: World, client: httpx.AsyncClient):
    queue_of(world, arguments={"x-expires": 1000})
    world.broker.unused.run(0)
    await take(client)
    world.broker.unused.run(900)
    world.broker.unused.run(1899)
    assert list(world.vhost.queues())
    world.broker.unused.run(1900)
    assert not list(world.vhost.queues())


async def test_a_lease_of_what_passes_a_filter(world: World, client: httpx.AsyncClient):
    queue = queue_of(world)
    fill(world, queue, 2500)
    wanted = {"filter": "p.message_id IS NULL"}
    assert (await take(client, answer="json", max=2, filter="p.type = 'none'")).json()[
        "lease"
    ] is None
    answer = await take(client, answer="json", max=2100, **wanted)
    assert (answer.json()["messages"], queue.ready_count, queue.unacked_count) == (2100, 400, 2100)
    number = answer.json()["lease"]
    assert (await client.post(f"{LEASES}/{number}/release")).status_code == 204
    assert bodies(queue) == [b"%d" % each for each in range(2500)]
    answer = await client.post(LEASES, params={"filter": "a ="})
    assert (answer.status_code, answer.json()["parameter"]) == (400, "filter")


async def test_leases_that_are_chosen_at_once_are_bounded_too(
    world: World, client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
):
    world.around.admission.shares.leases.slots = 1
    queue = queue_of(world)
    fill(world, queue, 10)
    asked: dict[str, Any] = {"answer": "json", "max": 2, "filter": "p.type IS NULL"}
    answers = await asyncio.gather(*(client.post(LEASES, params=asked) for _ in range(3)))
    assert sorted(each.status_code for each in answers) == [201, 503, 503]
    assert (queue.ready_count, queue.unacked_count) == (8, 2)
