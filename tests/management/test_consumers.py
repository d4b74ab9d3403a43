"""Consumers over RabbitMQ's API."""

from __future__ import annotations

from typing import Any

import httpx
from tests.management.clients import connected, consuming
from tests.management.conftest import SECRET, World

from leporid.amqp.methods import BasicConsume, BasicQos
from leporid.broker.access.access import User
from leporid.broker.access.passwords import salted_sha256

URL = "/api/consumers"
CONNECTION = "10.0.0.1:7 -> 10.0.0.2:5672"


async def got(client: httpx.AsyncClient, path: str) -> tuple[int, Any]:
    answer = await client.get(path)
    return answer.status_code, answer.json()


async def test_a_consumer(world: World, client: httpx.AsyncClient):
    consuming(world, 7, "q", "tag", no_ack=True, exclusive=True, arguments={"x-priority": 3})
    assert await got(client, URL) == (
        200,
        [
            {
                "arguments": {"x-priority": 3},
                "ack_required": False,
                "active": True,
                "activity_status": "up",
                "channel_details": {
                    "name": f"{CONNECTION} (1)",
                    "number": 1,
                    "user": "guest",
                    "connection_name": CONNECTION,
                    "peer_host": "10.0.0.1",
                    "peer_port": 7,
                    "node": "leporid@localhost",
                },
                "consumer_tag": "tag",
                "exclusive": True,
                "prefetch_count": 0,
                "queue": {"name": "q", "vhost": "/"},
            }
        ],
    )


async def test_lists(world: World, client: httpx.AsyncClient):
    for port, tag in ((7, "a"), (8, "b"), (9, "c")):
        consuming(world, port, f"q{port}", tag)
    world.broker.add_vhost("other")
    columns = "columns=consumer_tag,queue.name"
    _, every = await got(client, f"{URL}?{columns}")
    assert every == [
        {"consumer_tag": "a", "queue": {"name": "q7"}},
        {"consumer_tag": "b", "queue": {"name": "q8"}},
        {"consumer_tag": "c", "queue": {"name": "q9"}},
    ]
    assert await got(client, f"{URL}/%2F?{columns}") == (200, every)
    assert await got(client, f"{URL}/other") == (200, [])
    _, paged = await got(client, f"{URL}?page=2&page_size=2&sort=consumer_tag&sort_reverse=true")
    assert [each["consumer_tag"] for each in paged["items"]] == ["a"]
    assert (await got(client, f"{URL}/nowhere"))[0] == 404


async def test_who_may_not_enter_the_virtual_host_sees_none(
    world: World, client: httpx.AsyncClient
):
    consuming(world, 7, "q", "a")
    password = salted_sha256("secret", SECRET)
    world.broker.access.put_user(User("monitoring", password, frozenset({"monitoring"})))
    for query in ("", "?queue=q"):
        answer = await client.get(f"{URL}/%2F{query}", auth=("monitoring", "secret"))
        assert (answer.status_code, answer.json()) == (200, [])
    assert (await client.get(f"{URL}/none", auth=("monitoring", "secret"))).status_code == 404


async def test_consumers_of_one_queue_have_pages(world: World, client: httpx.AsyncClient):
    for port, queue, tag in ((7, "q", "a"), (8, "q", "b"), (9, "other", "c")):
        consuming(world, port, queue, tag)
    _, whole = await got(client, "/api/queues/%2F/q")
    assert await got(client, f"{URL}/%2F?queue=q") == (200, whole["consumer_details"])
    query = "queue=q&page=1&page_size=1&sort=consumer_tag&sort_reverse=true&columns=consumer_tag"
    _, paged = await got(client, f"{URL}/%2F?{query}")
    assert (paged["items"], paged["total_count"]) == ([{"consumer_tag": "b"}], 2)
    _, found = await got(client, f"{URL}/%2F?queue=q&page=1&name=A")
    assert [each["consumer_tag"] for each in found["items"]] == ["a"]
    assert await got(client, f"{URL}/%2F?queue=none") == (200, [])


async def test_a_member_of_a_group(world: World, client: httpx.AsyncClient):
    world.stream("s")
    one = connected(world, 7)
    one.say(BasicQos(prefetch_count=5))
    one.say(BasicConsume(queue="s", consumer_tag="m", arguments={"x-group": "g"}))
    world.sync()
    _, (found,) = await got(client, URL)
    assert (found["consumer_tag"], found["prefetch_count"], found["active"]) == ("m", 5, True)
    assert found["queue"] == {"name": "s", "vhost": "/"}
    assert found["arguments"] == {"x-group": "g"}
    assert found["channel_details"]["name"] == f"{CONNECTION} (1)"
    _, channel = await got(client, f"/api/channels/{CONNECTION} (1)")
    assert channel["consumer_details"] == [found]
    # The stream's own page names the same channel for what reads it.
    _, stream = await got(client, "/api/queues/%2F/s")
    assert [each["channel_details"]["number"] for each in stream["consumer_details"]] == [1]
