"""The broker as a whole."""

from __future__ import annotations

import httpx
import pytest
from tests.management.conftest import SECRET, World
from tests.management.queues import fill, queue_of

from leporid.broker.access.access import User
from leporid.broker.access.passwords import salted_sha256
from leporid.broker.access.permissions import EVERYTHING
from leporid.broker.exchange.types import exchange_types
from leporid.management.nodes import Listening, NodeFacts

PUBLISH = "/api/exchanges/%2F/amq.default/publish"
MESSAGE = {"properties": {}, "routing_key": "orders", "payload": "x", "payload_encoding": "string"}


@pytest.fixture(autouse=True)
def users(world: World) -> None:
    for tag in ("management", "monitoring", "none"):
        password = salted_sha256("secret", SECRET)
        world.broker.access.put_user(
            User(tag, password, frozenset({tag}), permissions={"/": EVERYTHING})
        )


async def test_overview(world: World, client: httpx.AsyncClient):
    facts = NodeFacts(listening=[Listening("amqp", "::", 5672), Listening("http", "::", 15672)])
    object.__setattr__(world.around, "node", lambda: facts)
    queue_of(world)
    for _ in range(3):
        assert (await client.post(PUBLISH, json=MESSAGE)).json() == {"routed": True}
    found = (await client.get("/api/overview")).json()
    assert found["object_totals"] == {
        "queues": 1,
        "exchanges": 7,
        "consumers": 0,
        "connections": 0,
        "channels": 0,
    }
    assert found["queue_totals"]["messages"] == 3
    assert found["message_stats"]["publish"] == 3
    assert found["message_stats"]["publish_details"]["rate"] == 0.0
    assert found["message_stats"]["confirm"] == 3
    assert found["churn_rates"]["queue_created"] == 1
    assert [(each["protocol"], each["port"]) for each in found["listeners"]] == [
        ("amqp", 5672),
        ("http", 15672),
    ]
    assert [each["port"] for each in found["contexts"]] == ["15672"]
    assert found["node"] == "leporid@localhost"
    assert found["exchange_types"][3] == {
        "name": "topic",
        "description": "AMQP topic exchange, as per the AMQP specification",
        "enabled": True,
    }
    assert [each["name"] for each in found["exchange_types"]] == sorted(exchange_types())
    assert all(each["description"] for each in found["exchange_types"])
    asked = await client.get("/api/overview?columns=object_totals.queues,node")
    assert asked.json() == {"object_totals": {"queues": 1}, "node": "leporid@localhost"}


async def test_who_does_not_monitor_sees_its_virtual_hosts_only(
    world: World, client: httpx.AsyncClient
):
    world.broker.add_vhost("other").make_queue("q")
    fill(world, queue_of(world), 3)
    found = (await client.get("/api/overview", auth=("management", "secret"))).json()
    assert found["object_totals"] == {"queues": 1, "exchanges": 7, "consumers": 0}
    assert found["queue_totals"] == {
        "messages": 3,
        "messages_ready": 3,
        "messages_unacknowledged": 0,
    }
    assert found["message_stats"] == {}
    every = (await client.get("/api/overview", auth=("monitoring", "secret"))).json()
    assert every["object_totals"]["queues"] == 2


async def test_samples(world: World, client: httpx.AsyncClient):
    world.around.samples.take()
    query = "msg_rates_age=60&msg_rates_incr=5&lengths_age=60&lengths_incr=5"
    found = (await client.get(f"/api/overview?{query}")).json()
    assert [each["sample"] for each in found["message_stats"]["ack_details"]["samples"]] == [0]
    assert len(found["queue_totals"]["messages_details"]["samples"]) == 1
    answer = await client.get("/api/overview?msg_rates_age=x&msg_rates_incr=5")
    assert (answer.status_code, answer.json()["error"]) == (400, "bad_request")


@pytest.mark.parametrize(
    "path",
    [
        "extensions",
        "global-parameters",
        "parameters",
        "parameters/shovel",
        "parameters/shovel/%2F",
        "deprecated-features",
        "deprecated-features/used",
    ],
)
async def test_what_there_is_none_of(client: httpx.AsyncClient, path: str):
    assert (await client.get(f"/api/{path}")).json() == []


async def test_names_and_features(client: httpx.AsyncClient):
    assert (await client.get("/api/cluster-name")).json() == {"name": "leporid@localhost"}
    flags = (await client.get("/api/feature-flags")).json()
    assert {each["state"] for each in flags} == {"enabled"}
    assert "stream_queue" in {each["name"] for each in flags}


async def test_features_are_enabled_already(client: httpx.AsyncClient):
    assert (await client.put("/api/feature-flags/stream_queue/enable")).status_code == 204
    answer = await client.put("/api/feature-flags/none/enable")
    reason = "there is no such feature flag"
    assert (answer.status_code, answer.json()) == (400, {"error": "bad_request", "reason": reason})


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("parameters", "User not authorised to access object"),
        ("global-parameters", "User not authorised to access object"),
        ("feature-flags", "Not administrator user"),
        ("deprecated-features", "Not administrator user"),
    ],
)
async def test_what_not_all_of_them_may_see(client: httpx.AsyncClient, path: str, reason: str):
    answer = await client.get(f"/api/{path}", auth=("monitoring", "secret"))
    assert answer.status_code == 401
    assert answer.json() == {"error": "not_authorised", "reason": reason}


@pytest.mark.parametrize("path", ["overview", "cluster-name", "feature-flags", "extensions"])
async def test_only_users_of_the_management_are_answered(client: httpx.AsyncClient, path: str):
    answer = await client.get(f"/api/{path}", auth=("none", "secret"))
    assert (answer.status_code, answer.json()["reason"]) == (401, "Not management user")


async def test_upkeep_that_one_node_needs_little_of(world: World, client: httpx.AsyncClient):
    world.around.samples.take()
    assert (await client.delete("/api/reset/nope")).status_code == 404
    assert (await client.delete("/api/reset")).status_code == 204
    query = "lengths_age=60&lengths_incr=5"
    found = (await client.get(f"/api/overview?{query}")).json()
    assert found["queue_totals"]["messages_details"]["samples"] == []
    assert (await client.delete("/api/reset/leporid@localhost")).status_code == 204
    assert (await client.post("/api/rebalance/queues")).status_code == 204
    assert (await client.get("/api/version")).json() == "3.10.8"
