"""Exchanges over RabbitMQ's API: paths, answers and refusals are those of RabbitMQ 3.10.8."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from tests.broker.at_once import set_policy
from tests.management.conftest import World

from leporid.broker.exchange.types import Binding
from leporid.broker.policy.policies import make_policy

ROOT = "/api/exchanges"
URL = f"{ROOT}/%2F"
NOT_FOUND = (404, {"error": "Object Not Found", "reason": "Not Found"})


async def asked(
    client: httpx.AsyncClient, method: str, path: str, **options: Any
) -> tuple[int, Any]:
    answer = await client.request(method, path, **options)
    return answer.status_code, answer.json() if answer.content else None


async def test_an_exchanges_life(world: World, client: httpx.AsyncClient):
    given = {"type": "topic", "durable": True, "arguments": {"alternate-exchange": "x"}}
    assert await asked(client, "PUT", f"{URL}/e", json=given) == (201, None)
    assert await asked(client, "PUT", f"{URL}/e", json=given) == (204, None)
    status, refused = await asked(client, "PUT", f"{URL}/e", json={**given, "type": "direct"})
    assert status == 400
    assert refused["reason"] == (
        "inequivalent arg 'type' for exchange 'e' in vhost '/': received 'direct' but current is "
        "'topic'"
    )
    assert await asked(client, "GET", f"{URL}/e") == (
        200,
        {
            "name": "e",
            "vhost": "/",
            "type": "topic",
            "durable": True,
            "auto_delete": False,
            "internal": False,
            "arguments": {"alternate-exchange": "x"},
            "incoming": [],
            "outgoing": [],
        },
    )
    world.vhost.make_queue("q")
    world.vhost.bindings.bind(Binding("e", "q", "queue", "k", {}), None)
    status, refused = await asked(client, "DELETE", f"{URL}/e?if-unused=true")
    assert (status, refused["reason"]) == (400, "exchange 'e' in vhost '/' in use")
    assert await asked(client, "DELETE", f"{URL}/e") == (204, None)
    assert await asked(client, "DELETE", f"{URL}/e") == NOT_FOUND
    assert await asked(client, "GET", f"{URL}/e") == NOT_FOUND


async def test_without_a_body_it_is_a_direct_one(world: World, client: httpx.AsyncClient):
    assert await asked(client, "PUT", f"{URL}/e") == (201, None)
    found = world.vhost.exchange("e")
    assert (found.type, found.durable, found.auto_delete) == ("direct", False, False)


FOO = (
    "invalid exchange type 'foo'; there are direct, fanout, topic, headers, x-super-stream, "
    "x-consistent-hash, x-modulus-hash, x-random, x-local-random, x-recent-history, "
    "x-message-deduplication, x-delayed-message"
)


@pytest.mark.parametrize(
    ("method", "name", "given", "status", "reason"),
    [
        ("PUT", "e", {"type": "foo"}, 400, FOO),
        ("PUT", "e", {"type": 5}, 400, "type is a string"),
        ("PUT", "e", {"internal": 1}, 400, ["not_boolean", 1]),
        ("PUT", "amq.foo", {}, 401, "exchange name 'amq.foo' contains reserved prefix 'amq.*'"),
        ("PUT", "amq.direct", {}, 400, "inequivalent arg 'durable' for exchange 'amq.direct'"),
        ("PUT", "amq.default", {}, 401, "operation not permitted on the default exchange"),
        ("DELETE", "amq.direct", None, 401, "deletion of system exchange 'amq.direct'"),
        ("DELETE", "amq.default", None, 401, "operation not permitted on the default exchange"),
    ],
)
async def test_what_is_refused(
    world: World,
    client: httpx.AsyncClient,
    method: str,
    name: str,
    given: Any,
    status: int,
    reason: Any,
):
    found, answer = await asked(client, method, f"{URL}/{name}", json=given)
    assert found == status
    assert answer["reason"] == reason if isinstance(reason, list) else reason in answer["reason"]
    assert len(list(world.vhost.exchanges())) == 7


async def test_lists(world: World, client: httpx.AsyncClient):
    world.broker.add_vhost("other")
    _, found = await asked(client, "GET", f"{URL}?columns=name,type")
    assert [(each["name"], each["type"]) for each in found] == [
        ("", "direct"),
        ("amq.direct", "direct"),
        ("amq.fanout", "fanout"),
        ("amq.headers", "headers"),
        ("amq.match", "headers"),
        ("amq.rabbitmq.trace", "topic"),
        ("amq.topic", "topic"),
    ]
    assert await asked(client, "GET", f"{URL}/?columns=name,type") == (200, found)
    _, every = await asked(client, "GET", f"{ROOT}?page=1&name=topic&columns=vhost")
    assert every["items"] == [{"vhost": "/"}, {"vhost": "other"}]
    _, one = await asked(client, "GET", f"{URL}/amq.default?columns=name")
    assert one == {"name": ""}
    assert await asked(client, "GET", f"{ROOT}/nowhere") == NOT_FOUND
    status, refused = await asked(client, "PUT", f"{ROOT}/nowhere/e", json={})
    assert (status, refused) == (404, {"error": "not_found", "reason": "vhost_not_found"})


async def test_its_policy(world: World, client: httpx.AsyncClient):
    set_policy(world.vhost, make_policy("p", "topic", {"alternate-exchange": "x"}))
    _, found = await asked(client, "GET", f"{URL}/amq.topic?columns=policy")
    assert found == {"policy": "p"}


async def test_what_goes_in_and_out(world: World, client: httpx.AsyncClient):
    for name in ("q", "r"):
        world.vhost.make_queue(name)
        world.vhost.bindings.bind(Binding("amq.fanout", name, "queue", "", {}), None)
    message = {"properties": {}, "routing_key": "", "payload": "x", "payload_encoding": "string"}
    await asked(client, "POST", f"{URL}/amq.fanout/publish", json=message)
    _, found = await asked(client, "GET", f"{URL}/amq.fanout?columns=message_stats")
    assert found["message_stats"] == {
        "publish_in": 1,
        "publish_in_details": {"rate": 0.0},
        "publish_out": 2,
        "publish_out_details": {"rate": 0.0},
    }
