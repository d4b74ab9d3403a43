"""The routes as a whole."""

import httpx
import pytest
from tests.management.conftest import World

from leporid.management.application import routes


def test_every_route_is_below_api(world: World):
    assert all(getattr(route, "path", "").startswith("/api/") for route in routes(world.around))


@pytest.mark.parametrize("path", ["/api/publish", "/api/publish/", "/api/nowhere", "/api"])
async def test_other_paths_are_not_found(client: httpx.AsyncClient, path: str):
    assert (await client.get(path)).status_code == 404


async def test_other_methods_are_refused(client: httpx.AsyncClient):
    assert (await client.post("/api/streams/%2F/orders")).status_code == 405
    assert (await client.get("/api/publish/%2F/amq.default")).status_code == 405


async def test_faults_of_the_rules_become_answers(client: httpx.AsyncClient):
    answer = await client.put("/api/streams/%2F/amq.mine")
    assert (answer.status_code, answer.json()["error"]) == (403, "forbidden")
    assert "reserved prefix" in answer.json()["reason"]


@pytest.mark.parametrize("accept", ["text/html", "text/plain, image/*", "application/xml;q=1"])
async def test_who_takes_no_json_gets_none(client: httpx.AsyncClient, accept: str):
    answer = await client.get("/api/queues", headers={"accept": accept})
    assert (answer.status_code, answer.content) == (406, b"")


@pytest.mark.parametrize("accept", ["*/*", "application/json", "text/html, */*;q=0.8", ""])
async def test_who_takes_json_gets_it(client: httpx.AsyncClient, accept: str):
    assert (await client.get("/api/queues", headers={"accept": accept})).json() == []
