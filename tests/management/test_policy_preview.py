"""Dry runs of policies over HTTP: what they would govern, and that they change nothing."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from tests.management.conftest import World
from tests.management.queues import fill, queue_of

from leporid.management import policy_preview

URL = "/api/policies/%2F/p"
GIVEN = {"pattern": "^q", "definition": {"max-length": 2}, "apply-to": "queues"}
NONE = {"added": 0, "replaced": 0, "kept": 0, "released": 0, "outranked": 0}


async def preview(client: httpx.AsyncClient, url: str = URL, **given: Any) -> dict[str, Any]:
    answer = await client.put(url, params={"dry_run": "true"}, json=GIVEN | given)
    assert answer.status_code == 200, answer.text
    found = answer.json()
    assert isinstance(found, dict)
    return found


async def test_a_dry_run_says_what_would_be_governed(world: World, client: httpx.AsyncClient):
    fill(world, queue_of(world, "q"), 5)
    queue_of(world, "other")
    assert await preview(client) == {
        "dry_run": True,
        "queues": NONE | {"added": 1},
        "exchanges": NONE,
        "excess": 3,
        "items": [
            {
                "kind": "queue",
                "name": "q",
                "type": "classic",
                "effect": "added",
                "before": None,
                "after": "p",
                "excess": 3,
            }
        ],
        "items_max": 100,
    }
    assert (await client.get("/api/policies")).json() == []
    assert (await client.get("/api/queues/%2F/q")).json()["messages"] == 5


async def test_messages_above_the_limit_that_counts_are_told(
    world: World, client: httpx.AsyncClient
):
    fill(world, queue_of(world, "q", {"x-max-length": 4}), 4)
    for most, excess in ((1, 3), (9, 0)):
        found = await preview(client, definition={"max-length": most})
        assert found["excess"] == excess


async def test_a_deletion_is_previewed_too(world: World, client: httpx.AsyncClient):
    queue_of(world, "q")
    assert (await client.put(URL, json=GIVEN)).status_code == 201
    answer = await client.delete(URL, params={"dry_run": "true"})
    assert answer.status_code == 200
    assert answer.json()["queues"] == NONE | {"released": 1}
    assert len((await client.get("/api/policies")).json()) == 1
    missing = await client.delete("/api/policies/%2F/no", params={"dry_run": "true"})
    assert missing.status_code == 404


async def test_operator_policies_are_previewed_alike(world: World, client: httpx.AsyncClient):
    queue_of(world, "q")
    found = await preview(client, "/api/operator-policies/%2F/p")
    assert found["queues"] == NONE | {"added": 1}


async def test_what_is_refused_is_refused_in_a_dry_run(client: httpx.AsyncClient):
    answer = await client.put(
        URL, params={"dry_run": "true"}, json=GIVEN | {"definition": {"max-lenght": 1}}
    )
    assert answer.status_code == 400
    assert "did you mean max-length?" in answer.json()["reason"]
    answer = await client.put(URL, params={"dry_run": "perhaps"}, json=GIVEN)
    assert answer.status_code == 400


async def test_more_than_are_listed_are_counted(
    world: World, client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(policy_preview, "ITEMS_MAX", 3)
    for number in range(10):
        queue_of(world, f"q{number}")
    found = await preview(client)
    assert found["queues"]["added"] == 10
    assert len(found["items"]) == 3
