"""Channels over RabbitMQ's API."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import httpx
from tests.management.clients import connected, consuming
from tests.management.conftest import SECRET, World
from tests.management.queues import fill, queue_of

from leporid.amqp.methods import BasicConsume, BasicQos, ChannelOpen, ConfirmSelect, TxSelect
from leporid.broker.access.access import User
from leporid.broker.access.passwords import salted_sha256
from leporid.broker.access.permissions import EVERYTHING

ROOT = "/api/channels"
CONNECTION = "10.0.0.1:7 -> 10.0.0.2:5672"
URL = f"{ROOT}/{quote(f'{CONNECTION} (1)')}"


async def got(client: httpx.AsyncClient, path: str, **options: Any) -> tuple[int, Any]:
    answer = await client.get(path, **options)
    return answer.status_code, answer.json()


async def test_a_channel(world: World, client: httpx.AsyncClient):
    one = connected(world, 7)
    one.say(BasicQos(prefetch_count=7))
    one.say(ConfirmSelect())
    one.say(BasicConsume(queue=_filled(world), consumer_tag="t"))
    world.engine.run()
    status, found = await got(client, URL)
    assert status == 200
    (consumer,) = found.pop("consumer_details")
    assert (consumer["consumer_tag"], consumer["prefetch_count"]) == ("t", 7)
    assert found.pop("message_stats")["deliver_get"] == 2
    assert found == {
        "name": f"{CONNECTION} (1)",
        "number": 1,
        "user": "guest",
        "user_who_performed_action": "guest",
        "vhost": "/",
        "node": "leporid@localhost",
        "connection_details": {"name": CONNECTION, "peer_host": "10.0.0.1", "peer_port": 7},
        "state": "running",
        "confirm": True,
        "transactional": False,
        "prefetch_count": 7,
        "global_prefetch_count": 0,
        "messages_unacknowledged": 2,
        "messages_unconfirmed": 0,
        "messages_uncommitted": 0,
        "acks_uncommitted": 0,
        "consumer_count": 1,
    }
    for name in (f"{CONNECTION} (2)", f"{CONNECTION} (x)", CONNECTION, "none (1)"):
        assert (await got(client, f"{ROOT}/{quote(name)}"))[0] == 404


def _filled(world: World) -> str:
    fill(world, queue_of(world), 2)
    return "orders"


async def test_lists(world: World, client: httpx.AsyncClient):
    consuming(world, 8, "q")
    one = connected(world, 7)
    one.say(ChannelOpen(), 2)
    one.say(TxSelect(), 2)
    columns = "columns=name,transactional"
    _, every = await got(client, f"{ROOT}?{columns}")
    assert every == [
        {"name": f"{CONNECTION} (1)", "transactional": False},
        {"name": f"{CONNECTION} (2)", "transactional": True},
        {"name": f"{CONNECTION} (1)".replace(":7", ":8"), "transactional": False},
    ]
    assert await got(client, f"/api/vhosts/%2F/channels?{columns}") == (200, every)
    of_one = f"/api/connections/{quote(CONNECTION)}/channels?{columns}"
    assert await got(client, of_one) == (200, every[:2])
    world.broker.add_vhost("other")
    assert await got(client, "/api/vhosts/other/channels") == (200, [])
    assert (await got(client, "/api/connections/none/channels"))[0] == 404


async def test_who_does_not_monitor_has_its_own_only(world: World, client: httpx.AsyncClient):
    connected(world, 7)
    password = salted_sha256("secret", SECRET)
    user = User("u", password, frozenset({"management"}), permissions={"/": EVERYTHING})
    world.broker.access.put_user(user)
    assert await got(client, ROOT, auth=("u", "secret")) == (200, [])
    assert (await got(client, URL, auth=("u", "secret")))[0] == 401
