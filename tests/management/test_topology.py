"""The topology over HTTP: what leads where, with policies in force, and no more than was asked."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from tests.broker.at_once import set_policy
from tests.management.conftest import World
from tests.management.queues import fill, queue_of

from leporid.broker.exchange.types import Binding
from leporid.broker.policy.policies import make_policy
from leporid.management import topology as module

URL = "/api/topology/%2F"
EVERY_QUEUE = {"log", "invoices", "morgue", "alone", "late"}


def exchange(world: World, name: str, kind: str = "topic", **arguments: Any) -> None:
    world.vhost.create_exchange(
        name, kind, durable=True, auto_delete=False, internal=False, arguments=arguments
    )


def bind(world: World, source: str, destination: str, key: str = "", **arguments: Any) -> None:
    kind: Any = "exchange" if world.vhost.find_exchange(destination) else "queue"
    world.vhost.bindings.bind(Binding(source, destination, kind, key, arguments), None)


@pytest.fixture
def flights(world: World) -> World:
    """flights → late, log and billing → invoices; late dies into dead → morgue."""
    exchange(world, "flights", **{"alternate-exchange": "unrouted"})
    exchange(world, "billing", "direct")
    exchange(world, "dead", "fanout")
    for name in ("log", "invoices", "morgue", "alone"):
        queue_of(world, name)
    queue_of(world, "late", {"x-dead-letter-exchange": "dead", "x-dead-letter-routing-key": "k"})
    for source, destination in (
        ("flights", "late"), ("flights", "log"), ("flights", "billing"),
        ("billing", "invoices"), ("dead", "morgue"),
    ):  # fmt: skip
        bind(world, source, destination, f"to-{destination}")
    return world


async def asked(client: httpx.AsyncClient, **query: Any) -> dict[str, Any]:
    answer = await client.get(URL, params=query)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def names(found: dict[str, Any]) -> tuple[set[str], set[str]]:
    exchanges = {each["name"] for each in found["exchanges"]}
    return exchanges, {each["name"] for each in found["queues"]}


async def test_the_whole_virtual_host(flights: World, client: httpx.AsyncClient):
    fill(flights, flights.vhost.queue("late").engine, 3)
    found = await asked(client)
    assert names(found) == (
        {"flights", "billing", "dead"},
        EVERY_QUEUE,
    )
    late = next(each for each in found["queues"] if each["name"] == "late")
    assert late == {
        "name": "late",
        "type": "classic",
        "state": "running",
        "messages": 3,
        "consumers": 0,
        "dead_letter_exchange": "dead",
        "dead_letter_routing_key": "k",
        "rate_in": 0.0,
        "rate_out": 0.0,
    }
    ends = {(each["source"], each["destination"]) for each in found["bindings"]}
    assert ends == {
        ("flights", "late"), ("flights", "log"), ("flights", "billing"),
        ("billing", "invoices"), ("dead", "morgue"),
    }  # fmt: skip
    assert found["missing"] == ["unrouted"]
    assert found["left_out"] == {"nodes": 0, "bindings": 0}


async def test_what_policies_say_counts(flights: World, client: httpx.AsyncClient):
    definition = {"dead-letter-exchange": "dead"}
    set_policy(flights.vhost, make_policy("p", "^alone$", definition))
    set_policy(flights.vhost, make_policy("q", "^billing$", {"alternate-exchange": "flights"}))
    found = await asked(client)
    alone = next(each for each in found["queues"] if each["name"] == "alone")
    assert (alone["dead_letter_exchange"], alone["dead_letter_routing_key"]) == ("dead", None)
    billing = next(each for each in found["exchanges"] if each["name"] == "billing")
    assert billing["alternate_exchange"] == "flights"


@pytest.mark.parametrize(
    ("around", "hops", "exchanges", "queues"),
    [
        ("queue:late", 0, set(), {"late"}),
        ("queue:late", 1, {"flights", "dead"}, {"late"}),
        ("queue:late", 2, {"flights", "dead", "billing"}, {"late", "log", "morgue"}),
        ("exchange:dead", 1, {"dead"}, {"morgue", "late"}),
        ("exchange:billing", 1, {"billing", "flights"}, {"invoices"}),
        ("exchange:amq.default", 1, {"amq.default"}, EVERY_QUEUE),
    ],
)  # fmt: skip
async def test_what_is_near(
    flights: World,
    client: httpx.AsyncClient,
    around: str,
    hops: int,
    exchanges: set[str],
    queues: set[str],
):
    found = await asked(client, around=around, hops=hops)
    assert names(found) == (exchanges, queues)
    # What is further away is not missing.
    assert "dead" not in found["missing"]


async def test_what_has_a_name_and_is_next_to_it(flights: World, client: httpx.AsyncClient):
    assert names(await asked(client, name="INVO")) == ({"billing"}, {"invoices"})


async def test_dead_letters_through_the_default_exchange(world: World, client: httpx.AsyncClient):
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "retry"}
    queue_of(world, "work", arguments)
    queue_of(world, "retry")
    found = await asked(client, around="queue:work", hops=1)
    assert names(found) == (set(), {"work", "retry"})


async def test_what_does_not_fit_is_counted(
    flights: World, client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
):
    found = await asked(client, limit=3)
    assert len(found["exchanges"]) + len(found["queues"]) == 3
    assert found["left_out"]["nodes"] == 5
    monkeypatch.setattr(module, "EDGES_MAX", 2)
    found = await asked(client)
    assert (len(found["bindings"]), found["left_out"]["bindings"]) == (2, 3)


async def test_what_does_not_fit_is_counted_once(world: World, client: httpx.AsyncClient):
    queue_of(world, "q")
    for key in ("a", "b", "c"):
        world.vhost.bindings.bind(Binding("amq.topic", "q", "queue", key, {}), None)
    found = await asked(client, around="exchange:amq.topic", hops=1, limit=1)
    assert found["left_out"] == {"nodes": 1, "bindings": 0}


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ({"around": "late"}, 400),
        ({"around": "stream:late"}, 400),
        ({"around": "queue:absent"}, 404),
        ({"around": "exchange:absent"}, 404),
        ({"around": "queue:late", "name": "x"}, 400),
        ({"hops": 9}, 400),
    ],
)
async def test_what_is_refused(
    flights: World, client: httpx.AsyncClient, query: dict[str, Any], status: int
):
    assert (await client.get(URL, params=query)).status_code == status


async def test_it_takes_a_tag(flights: World, client: httpx.AsyncClient):
    assert (await client.get(URL, auth=("reader", "secret"))).status_code == 401
    assert (await client.get("/api/topology/absent")).status_code == 404
