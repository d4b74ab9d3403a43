"""Limits over HTTP: paths, answers and refusals are those of RabbitMQ 3.10.8."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from tests.management.conftest import World

from leporid.broker.access.passwords import NoPassword, salted_sha256
from leporid.broker.access.permissions import EVERYTHING

NOT_FOUND = (404, {"error": "Object Not Found", "reason": "Not Found"})


@pytest.fixture(autouse=True)
def others(world: World) -> None:
    world.broker.add_vhost("other")
    world.broker.users.put("ann", NoPassword(), frozenset())


async def asked(
    client: httpx.AsyncClient, method: str, path: str, body: Any = None
) -> tuple[int, Any]:
    answer = await client.request(method, f"/api/{path}", json=body)
    return answer.status_code, answer.json() if answer.content else None


async def test_limits_of_a_virtual_host(world: World, client: httpx.AsyncClient):
    path = "vhost-limits/%2F/max-queues"
    assert await asked(client, "GET", "vhost-limits") == (200, [])
    assert await asked(client, "PUT", path, {"value": 3}) == (204, None)
    assert world.vhost.limits == {"max-queues": 3}
    assert await asked(client, "PUT", "vhost-limits/%2F/max-connections", {"value": -1})
    shown = [{"vhost": "/", "value": {"max-queues": 3, "max-connections": -1}}]
    assert await asked(client, "GET", "vhost-limits") == (200, shown)
    assert await asked(client, "GET", "vhost-limits/%2F") == (200, shown)
    assert await asked(client, "GET", "vhost-limits/other") == (200, [])
    assert await asked(client, "GET", "vhost-limits/none") == NOT_FOUND
    for _ in range(2):
        assert await asked(client, "DELETE", path) == (204, None)
    assert world.vhost.limits == {"max-connections": -1}
    assert await asked(client, "DELETE", "vhost-limits/none/max-queues") == NOT_FOUND


async def test_limits_of_a_user(world: World, client: httpx.AsyncClient):
    path = "user-limits/ann/max-channels"
    assert await asked(client, "GET", "user-limits") == (200, [])
    assert await asked(client, "PUT", path, {"value": 3}) == (204, None)
    assert world.broker.access.require("ann").limits == {"max-channels": 3}
    shown = [{"user": "ann", "value": {"max-channels": 3}}]
    assert await asked(client, "GET", "user-limits") == (200, shown)
    assert await asked(client, "GET", "user-limits/ann") == (200, shown)
    assert await asked(client, "GET", "user-limits/guest") == (200, [])
    assert await asked(client, "GET", "user-limits/nobody") == NOT_FOUND
    assert (await asked(client, "GET", "users/ann"))[1]["limits"] == {"max-channels": 3}
    for _ in range(2):
        assert await asked(client, "DELETE", path) == (204, None)
    assert await asked(client, "DELETE", "user-limits/nobody/max-channels") == NOT_FOUND


@pytest.mark.parametrize(
    ("path", "body", "reason"),
    [
        ("vhost-limits/%2F/max-queues", {}, "[{key_missing,value}]"),
        (
            "vhost-limits/%2F/max-queues",
            {"value": "x"},
            'Validation failed\n\nmax-queues should be a number, actually was <<"x">>\n',
        ),
        (
            "vhost-limits/%2F/max-queues",
            {"value": 1.5},
            "Validation failed\n\nmax-queues should be a number, actually was 1.5\n",
        ),
        (
            "vhost-limits/%2F/nonsense",
            {"value": 1},
            'Validation failed\n\nUnrecognised terms [{<<"nonsense">>,1}] in limits\n',
        ),
        (
            "user-limits/ann/max-queues",
            {"value": 1},
            'Unrecognised terms [{<<"max-queues">>,1}] in user-limits',
        ),
        (
            "user-limits/ann/max-channels",
            {"value": "a"},
            'max-channels should be a number, actually was <<"a">>',
        ),
        (
            "user-limits/ann/max-channels",
            {"value": True},
            "max-channels should be a number, actually was True",
        ),
        ("user-limits/nobody/max-channels", {"value": 1}, "no_such_user: nobody"),
    ],
)
async def test_what_is_refused(
    world: World, client: httpx.AsyncClient, path: str, body: Any, reason: str
):
    refused = {"error": "bad_request", "reason": reason}
    assert await asked(client, "PUT", path, body) == (400, refused)
    assert not world.vhost.limits
    assert not world.broker.access.require("ann").limits


async def test_a_virtual_host_that_is_not_there(client: httpx.AsyncClient):
    missing = {"error": "not_found", "reason": "vhost_not_found"}
    path = "vhost-limits/none/max-queues"
    assert await asked(client, "PUT", path, {"value": 1}) == (404, missing)


async def test_who_sees_and_who_sets(world: World, client: httpx.AsyncClient):
    world.vhost.limit("max-queues", 1)
    world.broker.vhosts["other"].limit("max-queues", 2)
    for tag, seen, other in (
        ("monitoring", ["/", "other"], 200),
        ("management", ["/"], 401),
    ):
        world.broker.users.put(tag, salted_sha256("secret", b"s" * 4), frozenset({tag}))
        world.broker.users.permit(tag, "/", EVERYTHING)
        login = (tag, "secret")
        found = (await client.get("/api/vhost-limits", auth=login)).json()
        assert [one["vhost"] for one in found] == seen
        assert (await client.get("/api/vhost-limits/other", auth=login)).status_code == other
        assert (await client.get("/api/user-limits", auth=login)).status_code == 200
        for path in ("vhost-limits/%2F/max-queues", "user-limits/ann/max-channels"):
            for method in ("PUT", "DELETE"):
                answer = await client.request(method, f"/api/{path}", auth=login)
                assert answer.json()["reason"] == "Not administrator user"


async def test_lists_of_limits_have_pages_and_orders(world: World, client: httpx.AsyncClient):
    for number, name in enumerate(("ann", "guest")):
        world.broker.users.limit(name, "max-channels", 9 - number)
    for number, name in enumerate(("/", "other")):
        world.broker.vhosts[name].limit("max-queues", 9 - number)
    for path, noun, limit, names in (
        ("user-limits", "user", "max-channels", ["ann", "guest"]),
        ("vhost-limits", "vhost", "max-queues", ["/", "other"]),
    ):
        _, every = await asked(client, "GET", path)
        assert [each[noun] for each in every] == names
        _, found = await asked(client, "GET", f"{path}?page=1&page_size=1&sort=value.{limit}")
        assert found["items"] == [{noun: names[1], "value": {limit: 8}}]
        assert (found["total_count"], found["page_count"]) == (2, 2)
        _, found = await asked(client, "GET", f"{path}?page=1&name={names[1].upper()}")
        assert [each[noun] for each in found["items"]] == names[1:]
        _, found = await asked(client, "GET", f"{path}?where=value.{limit}>8")
        assert [each[noun] for each in found] == names[:1]
