"""Dead letters over HTTP: counted by queue, reason and target."""

from __future__ import annotations

from typing import Any

import httpx
from tests.engine.frames import reject
from tests.management.conftest import World
from tests.management.queues import URL, fill, peer_of, queue_of

from leporid.broker.queue.dead_letters import OTHER_TARGETS, TARGETS_MAX, DeadLetterKey
from leporid.broker.queue.queue import QueueState

LETTERS = "/api/dead-letters"


async def listed(client: httpx.AsyncClient, path: str = LETTERS, **query: Any) -> Any:
    answer = await client.get(path, params=query)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def test_each_reason_and_target_is_counted(world: World, client: httpx.AsyncClient):
    assert await listed(client) == []
    graves = queue_of(world, "graves")
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "graves"}
    queue = queue_of(world, arguments={**arguments, "x-max-length": 2})
    fill(world, queue, 5)
    peer = peer_of(world, queue)
    assert peer.get(queue, no_ack=False) is not None
    peer.feed(reject(1, 1, False))
    world.sync()
    assert graves.ready_count == 4
    row = {"vhost": "/", "queue": "orders", "exchange": "amq.default", "routing_key": "graves"}
    assert await listed(client) == [
        {**row, "reason": "maxlen", "messages": 3, "dropped": 0},
        {**row, "reason": "rejected", "messages": 1, "dropped": 0},
    ]
    assert await listed(client, LETTERS + "/%2F") == await listed(client)
    only = await listed(client, columns="reason,messages", sort="messages")
    assert only == [{"reason": "rejected", "messages": 1}, {"reason": "maxlen", "messages": 3}]
    found = await listed(client, page=1, page_size=1, name="ord")
    assert (found["total_count"], found["item_count"]) == (2, 1)


async def test_what_comes_to_no_queue_counts_as_dropped(world: World, client: httpx.AsyncClient):
    queue = queue_of(world, arguments={"x-dead-letter-exchange": "absent", "x-max-length": 1})
    fill(world, queue, 3)
    (row,) = await listed(client)
    assert (row["exchange"], row["routing_key"]) == ("absent", None)
    assert (row["messages"], row["dropped"]) == (2, 2)
    await client.delete(URL)
    assert await listed(client) == []


async def test_they_are_listed_as_queues_are(world: World, client: httpx.AsyncClient):
    for path in (LETTERS, LETTERS + "/%2F"):
        assert (await client.get(path, auth=("reader", "secret"))).status_code == 401
    assert (await client.get(LETTERS + "/absent")).status_code == 404


def test_targets_are_bounded(world: World):
    queue_of(world)
    state: QueueState = world.vhost.queue("orders")
    for number in range(TARGETS_MAX + 10):
        state.dead_lettered.add(DeadLetterKey("expired", f"x{number}", None), dropped=False)
    assert len(state.dead_lettered) == TARGETS_MAX + 1
    counts = {key.exchange: count.letters for key, count in state.dead_lettered.items()}
    assert counts[OTHER_TARGETS] == 10
