"""Permissions over HTTP: paths, answers and refusals are those of RabbitMQ 3.10.8."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from tests.management.conftest import World

from leporid.broker.access.passwords import NoPassword, salted_sha256

ALL = {"configure": ".*", "write": ".*", "read": ".*"}
TOPIC = {"exchange": "amq.topic", "write": "^a", "read": "^{username}"}
NOT_FOUND = (404, {"error": "Object Not Found", "reason": "Not Found"})
NOWHERE = (400, {"error": "bad_request", "reason": "vhost_or_user_not_found"})


@pytest.fixture(autouse=True)
def users(world: World) -> None:
    world.broker.add_vhost("other")
    for name in ("ann", "ben"):
        world.broker.users.put(name, NoPassword(), frozenset())


async def asked(
    client: httpx.AsyncClient, method: str, path: str, body: Any = None
) -> tuple[int, Any]:
    answer = await client.request(method, f"/api/{path}", json=body)
    return answer.status_code, answer.json() if answer.content else None


async def test_permissions_life(world: World, client: httpx.AsyncClient):
    path, shown = "permissions/%2F/ann", {"user": "ann", "vhost": "/", **ALL}
    assert await asked(client, "GET", path) == NOT_FOUND
    assert await asked(client, "PUT", path, ALL) == (201, None)
    assert await asked(client, "PUT", path, ALL | {"read": "^x"}) == (204, None)
    assert await asked(client, "GET", path) == (200, shown | {"read": "^x"})
    assert world.broker.access.require("ann").may("read", "queue", "x", "/")
    await asked(client, "PUT", "permissions/other/ben", ALL)
    found = (await asked(client, "GET", "permissions"))[1]
    assert [(one["user"], one["vhost"]) for one in found] == [
        ("ann", "/"),
        ("guest", "/"),
        ("reader", "/"),
        ("ben", "other"),
    ]
    assert await asked(client, "GET", "users/ann/permissions") == (200, [shown | {"read": "^x"}])
    of_vhost = (await asked(client, "GET", "vhosts/other/permissions"))[1]
    assert of_vhost == [{"user": "ben", "vhost": "other", **ALL}]
    assert await asked(client, "DELETE", path) == (204, None)
    assert await asked(client, "DELETE", path) == NOT_FOUND
    assert not world.broker.access.require("ann").permissions


async def test_topic_permissions_life(world: World, client: httpx.AsyncClient):
    path, shown = "topic-permissions/%2F/ann", {"user": "ann", "vhost": "/", **TOPIC}
    assert await asked(client, "GET", path) == NOT_FOUND
    assert await asked(client, "PUT", path, TOPIC) == (201, None)
    other = TOPIC | {"exchange": "not-there"}
    assert await asked(client, "PUT", path, other) == (204, None)
    both = [shown, shown | {"exchange": "not-there"}]
    for listed in (path, "users/ann/topic-permissions", "vhosts/%2F/topic-permissions"):
        assert await asked(client, "GET", listed) == (200, both), listed
    assert await asked(client, "GET", "topic-permissions") == (200, both)
    assert await asked(client, "DELETE", path + "/amq.topic") == (204, None)
    assert await asked(client, "DELETE", path + "/amq.topic") == NOT_FOUND
    assert await asked(client, "GET", path) == (200, both[1:])
    assert await asked(client, "DELETE", path) == (204, None)
    assert await asked(client, "DELETE", path) == NOT_FOUND


@pytest.mark.parametrize(("noun", "body"), [("permissions", ALL), ("topic-permissions", TOPIC)])
async def test_what_is_not_there(client: httpx.AsyncClient, noun: str, body: dict[str, str]):
    for path in (f"{noun}/none/ann", f"{noun}/%2F/nobody"):
        assert await asked(client, "PUT", path, body) == NOWHERE
        assert await asked(client, "GET", path) == NOT_FOUND
        assert await asked(client, "DELETE", path) == NOT_FOUND
    assert await asked(client, "GET", f"users/nobody/{noun}") == NOT_FOUND
    assert await asked(client, "GET", f"vhosts/none/{noun}") == NOT_FOUND


@pytest.mark.parametrize(
    ("noun", "changed", "reason"),
    [
        ("permissions", {"read": None}, "[{key_missing,read}]"),
        ("permissions", {"read": None, "write": None}, "[{key_missing,write},{key_missing,read}]"),
        ("permissions", {"read": 1}, "read should be a string"),
        ("permissions", {"read": "["}, "invalid_regexp: read is not a pattern RE2 accepts"),
        ("topic-permissions", {"exchange": None}, "[{key_missing,exchange}]"),
        ("topic-permissions", {"write": "["}, "invalid_regexp: write is not a pattern RE2"),
        ("topic-permissions", {"exchange": 1}, "exchange should be a string"),
        ("topic-permissions", {"write": "{username}" * 409}, "invalid_regexp: with the names of"),
    ],
)
async def test_what_is_refused(
    world: World, client: httpx.AsyncClient, noun: str, changed: dict[str, Any], reason: str
):
    long = "x" * 250
    world.broker.users.put(long, NoPassword(), frozenset())
    given = (ALL if noun == "permissions" else TOPIC) | changed
    body = {key: value for key, value in given.items() if value is not None}
    status, answer = await asked(client, "PUT", f"{noun}/%2F/{long}", body)
    assert (status, answer["error"]) == (400, "bad_request")
    assert answer["reason"].startswith(reason)
    assert not world.broker.access.require(long).permissions
    assert not world.broker.access.require(long).topics


async def test_only_administrators(world: World, client: httpx.AsyncClient):
    tags = frozenset({"monitoring", "policymaker", "management"})
    world.broker.users.put("boss", salted_sha256("secret", b"s" * 4), tags)
    for noun in ("permissions", "topic-permissions"):
        for method, path in (
            ("GET", noun),
            ("GET", f"{noun}/%2F/boss"),
            ("PUT", f"{noun}/%2F/boss"),
            ("DELETE", f"{noun}/%2F/boss"),
            ("GET", f"users/boss/{noun}"),
            ("GET", f"vhosts/%2F/{noun}"),
        ):
            answer = await client.request(method, f"/api/{path}", auth=("boss", "secret"))
            refused = {"error": "not_authorised", "reason": "Not administrator user"}
            assert (answer.status_code, answer.json()) == (401, refused), (method, path)


async def test_rights_can_be_taken_away_while_memory_is_low(
    world: World, client: httpx.AsyncClient
):
    world.broker.set_alarm("memory", True)
    nothing = dict.fromkeys(ALL, "")
    assert (await asked(client, "PUT", "permissions/%2F/reader", nothing))[0] == 204
    assert not world.broker.access.require("reader").may("read", "queue", "orders", "/")


async def test_pages_order_and_columns(client: httpx.AsyncClient):
    found = (await client.get("/api/permissions?page=1&page_size=1&columns=user,read")).json()
    assert (found["items"], found["total_count"]) == ([{"user": "guest", "read": ".*"}], 2)
    found = (await client.get("/api/permissions?sort=user&sort_reverse=true&columns=user")).json()
    assert found == [{"user": "reader"}, {"user": "guest"}]
