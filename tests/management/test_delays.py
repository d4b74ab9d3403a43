"""Delayed messages over HTTP."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from tests.management.conftest import World

from leporid.amqp.properties import Properties, encode_properties
from leporid.broker.exchange.types import Binding
from leporid.management import delays as module

URL = "/api/delays/%2F"
STRANGER = ("reader", "secret")


@pytest.fixture
def waiting(world: World) -> World:
    """An exchange with messages that wait for 3, 1 and 2 seconds."""
    exchange = world.vhost.create_exchange(
        "d",
        "x-delayed-message",
        durable=True,
        auto_delete=False,
        internal=False,
        arguments={"x-delayed-type": "direct"},
    )
    queue = world.vhost.create_queue("q", durable=True, auto_delete=False, arguments={}, owner=None)
    world.vhost.bindings.bind(Binding("d", "q", "queue", "k", {}), None)
    store = world.vhost.delay_stores.of(exchange)
    for seconds in (3, 1, 2):
        headers: Any = {"x-delay": seconds * 1000, "list": [b"\xff", True], "none": None}
        raw = encode_properties(Properties(headers=headers, delivery_mode=2, message_id="m"))
        world.engine.publish([store], "d", "k", raw, b"%d" % seconds)
    assert queue.engine.ready_count == 0
    return world


async def test_they_are_counted_by_exchange(waiting: World, client: httpx.AsyncClient):
    answer = await client.get(URL)
    assert answer.json() == {
        "exchanges": [{"exchange": "d", "waiting": 3, "fired": 0, "cancelled": 0, "unroutable": 0}]
    }
    assert (await client.get(URL, auth=STRANGER)).json() == {"exchanges": []}


async def test_they_are_listed_page_by_page(waiting: World, client: httpx.AsyncClient):
    now_ms = waiting.engine.clock.wall_ms
    page = (await client.get(URL + "/d?limit=2")).json()
    assert (page["exchange"], page["waiting"]) == ("d", 3)
    first, second = page["messages"]
    assert first == {
        "id": first["id"],
        "due_ms": now_ms + 1000,
        "came_ms": now_ms,
        "exchange": "d",
        "routing_key": "k",
        "body_bytes": 1,
        "message_id": "m",
    }
    rest = (await client.get(URL + f"/d?after={second['id']}")).json()
    assert [each["due_ms"] - now_ms for each in rest["messages"]] == [3000]


async def test_one_is_looked_at(waiting: World, client: httpx.AsyncClient):
    found = (await client.get(URL + "/d?limit=1")).json()["messages"][0]
    whole = (await client.get(f"{URL}/d/{found['id']}")).json()
    assert whole == found | {
        "body": "1",
        "body_encoding": "utf-8",
        "properties": {
            "headers": {"x-delay": 1000, "list": ["�", True], "none": None},
            "delivery_mode": 2,
            "message_id": "m",
        },
    }


async def test_what_is_no_text_is_shown_as_well_as_json_can(
    waiting: World, client: httpx.AsyncClient
):
    store = waiting.vhost.delay_stores.of(waiting.vhost.exchange("d"))
    headers: Any = {"x-delay": 10, "\udcff": 1.5}
    raw = encode_properties(Properties(headers=headers, correlation_id="\udcfe\udcff"))
    waiting.engine.publish([store], "d", "k", raw, b"x")
    found = (await client.get(URL + "/d?limit=1")).json()["messages"][0]
    whole = (await client.get(f"{URL}/d/{found['id']}")).json()
    assert whole["properties"] == {
        "headers": {"x-delay": 10, "\ufffd": 1.5},
        "correlation_id": "\ufffd\ufffd",
    }


async def test_octets_are_base64(waiting: World, client: httpx.AsyncClient):
    store = waiting.vhost.delay_stores.of(waiting.vhost.exchange("d"))
    raw = encode_properties(Properties(headers={"x-delay": 10}))
    waiting.engine.publish([store], "d", "k", raw, b"\xff\xfe")
    found = (await client.get(URL + "/d?limit=1")).json()["messages"][0]
    whole = (await client.get(f"{URL}/d/{found['id']}")).json()
    assert (whole["body"], whole["body_encoding"]) == ("//4=", "base64")


async def test_one_is_cancelled_for_good(waiting: World, client: httpx.AsyncClient):
    found = (await client.get(URL + "/d?limit=1")).json()["messages"][0]
    url = f"{URL}/d/{found['id']}"
    assert (await client.delete(url)).status_code == 204
    assert not waiting.engine.logs.dirty
    again = await client.delete(url)
    assert (again.status_code, again.json()["error"]) == (404, "not-found")
    assert again.json()["reason"].endswith("in exchange 'd' was cancelled")
    assert again.text.endswith("}\n")
    assert (await client.get(url)).status_code == 404
    waiting.engine.clock.now_ms += 5000
    waiting.sync()
    assert waiting.vhost.queue("q").engine.ready_count == 2
    counts = (await client.get(URL)).json()["exchanges"]
    assert counts == [{"exchange": "d", "waiting": 0, "fired": 2, "cancelled": 1, "unroutable": 0}]


def add(world: World, message_id: str, seconds: int, **headers: Any) -> None:
    store = world.vhost.delay_stores.of(world.vhost.exchange("d"))
    headers = {"x-delay": seconds * 1000, **headers}
    raw = encode_properties(Properties(headers=headers, delivery_mode=2, message_id=message_id))
    world.engine.publish([store], "d", "k", raw, message_id.encode())


async def test_they_are_filtered_in_the_order_in_which_they_are_due(
    waiting: World, client: httpx.AsyncClient
):
    for number in range(1200):
        add(waiting, f"n{number}", 5000 - number, even=number % 2 == 0)
    asked = {"filter": "even AND p.message_id <> 'n1198'", "limit": "2", "headers": "true"}
    page = (await client.get(URL + "/d", params=asked)).json()
    assert [each["message_id"] for each in page["messages"]] == ["n1196", "n1194"]
    assert page["messages"][0]["headers"] == {"x-delay": (5000 - 1196) * 1000, "even": True}
    assert page["matched"] == 599
    asked["after"] = page["messages"][1]["id"]
    page = (await client.get(URL + "/d", params=asked)).json()
    assert [each["message_id"] for each in page["messages"]] == ["n1192", "n1190"]
    found = (await client.get(URL + "/d", params={"message_id": "n7"})).json()["messages"]
    assert [each["message_id"] for each in found] == ["n7"]


async def test_several_are_cancelled_together(waiting: World, client: httpx.AsyncClient):
    add(waiting, "it's", 60)
    for asked, matched, cancelled in (
        ({"message_id": "m", "dry_run": "true"}, 3, 0),
        ({"message_id": "m", "routing_key": "other"}, 0, 0),
        ({"message_id": "it's"}, 1, 1),
        ({"message_id": "m"}, 3, 3),
        ({"all": "true"}, 0, 0),
    ):
        answer = await client.delete(URL + "/d", params=asked)
        assert answer.json() == {
            "dry_run": "dry_run" in asked,
            "matched": matched,
            "cancelled": cancelled,
        }
    assert not waiting.engine.logs.dirty
    answer = await client.delete(URL + "/amq.default", params={"all": "true"})
    assert answer.json()["matched"] == 0
    assert (await client.delete(URL + "/d", auth=STRANGER)).status_code == 403


@pytest.mark.parametrize(
    ("asked", "reason"),
    [
        ({}, "message_id: say which by message_id or a filter, or all=true for all"),
        ({"dry_run": "true"}, "message_id: say which by message_id or a filter"),
        ({"routing_key_prefix": ""}, "message_id: say which by message_id or a filter"),
        ({"all": "true", "tags": "a"}, "all: there is a filter beside it"),
        ({"message_id": "m", "filter": "a = 1"}, "message_id: stands beside a filter"),
        ({"message_id": "m" * 256}, "message_id: a message id has 255 bytes at most"),
        ({"message_id": "m" * 20_000}, "message_id: a message id has 255 bytes at most"),
        ({"filter": "a ="}, "filter: "),
        ({"mesage_id": "m"}, "mesage_id: unknown parameter; did you mean 'message_id'?"),
    ],
)
async def test_what_is_to_be_cancelled_must_be_said(
    waiting: World, client: httpx.AsyncClient, asked: dict[str, str], reason: str
):
    answer = await client.delete(URL + "/d", params=asked)
    assert (answer.status_code, answer.json()["error"]) == (400, "bad-request")
    assert answer.json()["reason"].startswith(reason)
    assert waiting.vhost.delays("d").count == 3


async def test_a_filter_that_probably_matches_nothing_is_told(
    waiting: World, client: httpx.AsyncClient
):
    for method in ("GET", "DELETE"):
        answer = await client.request(method, URL + "/d", params={"tags": "a | b"})
        assert answer.json()["matched"] == 0
    (found,) = waiting.vhost.unknown_arguments.newest()
    assert (found.kind, found.name, found.argument, found.count) == ("exchange", "d", "tags", 2)


async def test_parameters_in_a_body_do_not_cancel(waiting: World, client: httpx.AsyncClient):
    for body, reason in (
        (b'{"dry_run": true}', "dry_run: unknown member; there are none here"),
        (b"dry_run=true", "the body is not JSON"),
    ):
        asked = {"message_id": "m"}
        answer = await client.request("DELETE", URL + "/d", params=asked, content=body)
        assert answer.status_code == 400
        assert answer.json()["reason"].startswith(reason)
    assert waiting.vhost.delays("d").count == 3


async def test_the_default_exchange_has_a_name(waiting: World, client: httpx.AsyncClient):
    answer = await client.get(URL + "/amq.default")
    assert (answer.json()["exchange"], answer.json()["messages"]) == ("amq.default", [])


async def test_rights(waiting: World, client: httpx.AsyncClient):
    found = (await client.get(URL + "/d")).json()["messages"][0]
    for method, url in (
        ("GET", "/d"),
        ("GET", f"/d/{found['id']}"),
        ("DELETE", f"/d/{found['id']}"),
        ("DELETE", "/orders/1-1"),  # may be read by that user, but not configured
    ):
        answer = await client.request(method, URL + url, auth=STRANGER)
        assert answer.status_code == 403, url
    assert (await client.get(URL, auth=("guest", "wrong"))).status_code == 401


@pytest.mark.parametrize(
    ("url", "status", "says"),
    [
        ("/nowhere", 404, "no exchange 'nowhere' in vhost '/'"),
        ("/d/soon", 404, "no delayed message 'soon'"),
        ("/d?after=soon", 400, "'soon' is not the id"),
        ("/d?limit=0", 400, "whole number from 1 to 1000"),
        ("/d?limt=1", 400, "did you mean 'limit'?"),
    ],
)
async def test_bad_requests(
    waiting: World, client: httpx.AsyncClient, url: str, status: int, says: str
):
    answer = await client.get(URL + url)
    assert answer.status_code == status
    assert says in answer.json()["reason"]


async def test_a_timeline_counts_between_times(waiting: World, client: httpx.AsyncClient):
    now_ms = waiting.engine.clock.wall_ms
    edges = [now_ms, now_ms + 1500, now_ms + 2500, now_ms + 60_000]
    text = ",".join(map(str, edges))
    found = (await client.get(f"{URL}/d/timeline?edges={text}")).json()
    assert (found["exchange"], found["waiting"], found["edges"]) == ("d", 3, edges)
    assert found["counts"] == [0, 1, 1, 1, 0]
    first = (await client.get(URL + "/d?limit=1")).json()["messages"][0]
    await client.delete(f"{URL}/d/{first['id']}")
    found = (await client.get(f"{URL}/d/timeline?edges={text}")).json()
    assert found["counts"] == [0, 0, 1, 1, 0]


async def test_a_timeline_is_counted_in_pieces(
    waiting: World, client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(module, "COUNTED_AT_ONCE", 1)
    now_ms = waiting.engine.clock.wall_ms
    found = (await client.get(f"{URL}/d/timeline?edges={now_ms + 2500}")).json()
    assert found["counts"] == [2, 1]


@pytest.mark.parametrize("edges", ["", "x", "5,5", "6,5", "-1", "1" * 20, ",".join("1" * 1001)])
async def test_what_is_no_timeline(waiting: World, client: httpx.AsyncClient, edges: str):
    answer = await client.get(f"{URL}/d/timeline", params={"edges": edges})
    assert (answer.status_code, answer.json()["parameter"]) == (400, "edges")


async def test_a_timeline_of_nothing(waiting: World, client: httpx.AsyncClient):
    found = (await client.get(URL + "/amq.default/timeline?edges=1")).json()
    assert (found["waiting"], found["counts"]) == (0, [0, 0])
    answer = await client.get(URL + "/d/timeline?edges=1", auth=STRANGER)
    assert answer.status_code == 403
