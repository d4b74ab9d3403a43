"""What filters were asked, over HTTP."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from tests.engine import frames
from tests.engine.session_fake import Peer
from tests.management.conftest import World

from leporid.amqp.properties import Properties, encode_properties
from leporid.amqp.tables import Value
from leporid.broker.exchange.types import Binding
from leporid.engine.selectors.selector import Selector
from leporid.filters.compiler import program

URL = "/api/filters"
STRANGER = ("stranger", "secret")
READER = ("reader", "secret")


def counts(asked: int, ruled_out: int, matched: int, type_errors: int) -> dict[str, int]:
    return {
        "asked": asked,
        "ruled_out": ruled_out,
        "evaluated": asked - ruled_out,
        "matched": matched,
        "type_errors": type_errors,
    }


def queue(world: World, name: str) -> Any:
    made = world.vhost.create_queue(name, durable=True, auto_delete=False, arguments={}, owner=None)
    return made.engine


def exchange(world: World, name: str, kind: str, *filters: str) -> None:
    made = world.vhost.create_exchange(
        name, kind, durable=True, auto_delete=False, internal=False, arguments={}
    )
    assert made.routes is not None
    for sql in filters:
        world.vhost.bindings.bind(Binding(name, "q", "queue", "k", {"x-filter-sql": sql}), None)


def send(world: World, name: str, **headers: Value) -> None:
    peer = Peer(world.engine)
    source: Any = world.vhost.exchange(name).routes
    peer.session.caches[name] = source
    raw = encode_properties(Properties(headers=headers))
    peer.feed(frames.publish(1, "k", b"m", raw=raw, exchange=name))


@pytest.mark.parametrize("kind", ["direct", "headers"])
async def test_filters_of_bindings_by_exchange(world: World, client: httpx.AsyncClient, kind: str):
    queue(world, "q")
    exchange(world, "x", kind, "n = 1", "n = 2", "m > 5")
    exchange(world, "orders", "fanout", "n = 1")
    exchange(world, "plain", "fanout")
    for n in (1, 3):
        send(world, "x", n=n, m=6)
    send(world, "x", m="text")
    send(world, "plain", n=1)
    found = (await client.get(URL + "/%2F")).json()
    by_name = {one.pop("name"): one for one in found["exchanges"]}
    assert by_name["x"] == {"filters": 3, **counts(9, 5, 3, 1)}
    assert by_name["orders"] == {"filters": 1, **counts(0, 0, 0, 0)}
    assert set(by_name) == {"x", "orders"}
    assert (found["queues"], found["streams"]) == ([], [])
    whole = (await client.get(URL)).json()
    assert whole["bindings"] == counts(9, 5, 3, 1)
    assert whole["queues"] == counts(0, 0, 0, 0)


async def test_filters_of_consumers_by_queue_and_of_requests(
    world: World, client: httpx.AsyncClient
):
    engine = queue(world, "q")
    queue(world, "other")
    for n in range(10):
        raw = encode_properties(Properties(headers={"n": n}))
        world.engine.publish([engine], "", "q", raw, b"m")
    peer = Peer(world.engine)
    for sql in ("n = 3", "n = 4"):
        peer.channel.consume(engine, sql, True, 0, 0, filter=Selector(program(sql).code))
    while world.engine.busy:
        world.engine.run()
    asked = counts(20, 18, 2, 0)
    assert (await client.get(URL + "/%2F")).json()["queues"] == [{"name": "q", **asked}]
    assert (await client.get(URL)).json()["queues"] == asked
    url = "/api/queues/%2F/q/messages"
    assert (await client.get(url, params={"filter": "n > 5"})).status_code == 200
    assert (await client.get(URL)).json()["queues"] == counts(28, 18, 6, 0)
    # They go with the queue, and stay among all.
    world.vhost.delete_queue(world.vhost.queue("q"))
    assert (await client.get(URL + "/%2F")).json()["queues"] == []
    assert (await client.get(URL)).json()["queues"] == counts(28, 18, 6, 0)


async def test_filters_of_streams(world: World, client: httpx.AsyncClient):
    stream = world.stream()
    world.fill(stream, 5)
    url = "/api/streams/%2F/orders/records"
    assert (await client.get(url, params={"filter": "routing_key = 'k3'"})).status_code == 200
    expected = {"batches_skipped": 0, "evaluated": 5, "matched": 1, "type_errors": 0}
    found = (await client.get(URL + "/%2F", auth=READER)).json()
    assert found["streams"] == [{"name": "orders", **expected}]
    assert (await client.get(URL)).json()["streams"] == expected


async def test_who_may_not_read_sees_nothing_of_it(world: World, client: httpx.AsyncClient):
    queue(world, "q")
    for name in ("orders", "x"):
        exchange(world, name, "direct", "n = 1")
    found = (await client.get(URL + "/%2F", auth=READER)).json()
    assert [one["name"] for one in found["exchanges"]] == ["orders"]
    assert (await client.get(URL + "/%2F", auth=STRANGER)).status_code == 403
    assert (await client.get(URL, auth=("nobody", "x"))).status_code == 401
    assert (await client.get(URL + "/missing")).status_code == 404
    assert (await client.get(URL, params={"a": "b"})).status_code == 400
