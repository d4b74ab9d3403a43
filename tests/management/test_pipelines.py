"""Runs of pipelines over HTTP: reported by who runs them, listed for who manages."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest
from tests.management.conftest import World

URL = "/api/pipelines/%2F/lake"
READER = ("reader", "secret")  # who has no tag
STRANGER = ("stranger", "secret")  # who may not use the virtual host
RUN = {
    "pipeline": "archive", "state": "running", "started_ms": 5, "stream": "orders",
    "target": "/srv/lake", "reader": "reader.lake", "records": 9, "put_aside": 2, "steps": 1,
    "failures": 0, "lag": 3, "step_ms": 6,
}  # fmt: skip


async def put(client: httpx.AsyncClient, url: str = URL, **changed: Any) -> httpx.Response:
    content = json.dumps({**RUN, **changed})  # httpx's own takes Unicode only
    return await client.put(url, content=content, auth=READER)


async def test_runs_are_reported_and_listed(world: World, client: httpx.AsyncClient):
    assert (await put(client)).status_code == 204
    assert (await put(client, started_ms=7, state="failed", error="no", exit_code=1)).is_success
    assert (await put(client, started_ms=8, put_aside=None, lag=0)).is_success
    now_ms = world.engine.clock.wall_ms
    (row,) = (await client.get("/api/pipelines")).json()
    assert row == {
        **RUN, "name": "lake", "vhost": "/", "user": "reader", "started_ms": 8, "put_aside": None,
        "lag": 0, "error": None, "exit_code": None, "ended_ms": None, "reported_ms": now_ms,
        "runs": 3, "failed_runs": 1, "put_aside_in_runs": 4,
    }  # fmt: skip
    paged = (await client.get("/api/pipelines/%2F", params={"page": 1, "columns": "name"})).json()
    assert paged["items"] == [{"name": "lake"}]
    found = (await client.get(URL, params={"user": "reader"})).json()
    assert (found["name"], found["user"]) == ("lake", "reader")
    assert [run["started_ms"] for run in found["runs"]] == [8, 7, 5]
    assert (await client.get(URL, auth=READER)).json() == found


@pytest.mark.parametrize(
    "wrong",
    [
        {"state": "new"},
        {"state": None},
        {"pipeline": 5},
        {"started_ms": None},
        {"started_ms": True},
        {"lag": -1},
        {"records": 2**63},
        {"stream": "s" * 256},
        {"error": "ü" * 513},
        {"error": "\ud800"},
        {"more": 1},
    ],
)
async def test_bad_reports(world: World, client: httpx.AsyncClient, wrong: dict[str, Any]):
    answer = await put(client, **wrong)
    assert answer.status_code == 400
    (name,) = wrong
    assert name in answer.text
    assert len(world.vhost.pipeline_runs) == 0


async def test_whose_they_are(world: World, client: httpx.AsyncClient):
    assert (await put(client)).is_success
    assert (await client.put(URL, json=RUN, auth=STRANGER)).status_code == 403
    assert (await client.get(URL)).status_code == 404  # guest has none of that name
    assert (await client.delete(URL)).status_code == 404
    assert (await client.get(URL, params={"user": "guest"}, auth=READER)).status_code == 401
    assert (await client.get("/api/pipelines", auth=READER)).status_code == 401
    assert (await client.delete(URL, auth=READER)).status_code == 204
    assert (await put(client)).is_success
    assert (await client.delete(URL, params={"user": "reader"})).status_code == 204
    assert (await client.get("/api/pipelines")).json() == []
    assert (await put(client, "/api/pipelines/%2F/" + "n" * 256)).status_code == 400
