"""The OpenAPI document: each route is in it; what a broker answers is what it says."""

from __future__ import annotations

from typing import Any

import httpx
from tests.management.conftest import World

from leporid.management.application import routes
from leporid.management.openapi import REASONS
from leporid.management.paths import CostedRoute


def of(world: World) -> list[CostedRoute]:
    return routes(world.around)


async def test_every_route_is_in_it(world: World, client: httpx.AsyncClient):
    document = (await client.get("/api/openapi.json")).json()
    assert document["openapi"] == "3.1.0"
    there = {
        (method.upper(), path)
        for path, operations in document["paths"].items()
        for method in operations
    }
    assert there == {
        (method, route.path) for route in of(world) for method in route.methods - {"HEAD"}
    }


async def test_what_it_says_of_a_route(client: httpx.AsyncClient):
    paths = (await client.get("/api/openapi.json")).json()["paths"]
    one = paths["/api/queues/{vhost}/{queue}"]["put"]
    assert [each["name"] for each in one["parameters"]] == ["vhost", "queue"]
    schema = one["requestBody"]["content"]["application/json"]["schema"]
    assert schema["properties"]["arguments"] == {"type": "object"}
    assert {"201", "204", "400", "401", "413"} <= one["responses"].keys()
    listed = paths["/api/queues"]["get"]["parameters"]
    assert "page_size" in [each["name"] for each in listed]
    imported = paths["/api/definitions"]["post"]
    assert "multipart/form-data" in imported["requestBody"]["content"]
    assert [each["name"] for each in imported["parameters"]] == ["dry_run"]
    assert paths["/api/auth"]["get"]["security"] == []


async def test_every_operation_is_whole(client: httpx.AsyncClient):
    paths = (await client.get("/api/openapi.json")).json()["paths"]
    every: list[dict[str, Any]] = [each for path in paths.values() for each in path.values()]
    names = [each["operationId"] for each in every]
    assert len(names) == len(set(names))
    for each in every:
        assert each["summary"], each["operationId"]
        assert each["responses"].keys() <= REASONS.keys()
