"""Definitions over HTTP: paths, statuses and refusals as RabbitMQ 3.10.8 has them."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest
from tests.management.conftest import World

from leporid.broker.access.passwords import salted_sha256
from leporid.broker.definitions import document as documents

ALL = "/api/definitions"
QUEUE = {"name": "q", "vhost": "/", "durable": True, "auto_delete": False, "arguments": {}}
DOCUMENT: dict[str, Any] = {
    "rabbitmq_version": "3.10.8",
    "vhosts": [{"name": "a/b"}],
    "users": [{"name": "ann", "password": "secret", "tags": "management"}],
    "permissions": [
        {"user": "ann", "vhost": "a/b", "configure": ".*", "write": "", "read": ""},
    ],
    "queues": [QUEUE, QUEUE | {"vhost": "a/b"}],
}


async def test_what_is_imported_is_exported(world: World, client: httpx.AsyncClient):
    answer = await client.post(ALL, json=DOCUMENT)
    assert (answer.status_code, answer.content) == (204, b"")
    found = (await client.get(ALL)).json()
    assert found["rabbitmq_version"] == "3.10.8"
    assert [each["name"] for each in found["users"]] == ["ann", "guest", "reader", "stranger"]
    assert found["users"][0]["hashing_algorithm"] == "argon2id"
    assert found["queues"] == DOCUMENT["queues"]
    # A hash of ours comes back as it is, so that nobody needs another password.
    before = list(world.changes)
    assert (await client.post(ALL, json=found)).status_code == 204
    assert (await client.post(ALL, json=DOCUMENT)).status_code == 204
    assert world.changes == before
    of_vhost = (await client.get(f"{ALL}/a%2Fb")).json()
    assert of_vhost["queues"] == [{key: QUEUE[key] for key in QUEUE if key != "vhost"}]
    assert "users" not in of_vhost
    answer = await client.get("/api/whoami", auth=("ann", "secret"))
    assert answer.json() == {"name": "ann", "tags": ["management"]}


async def test_a_trial_answers_with_the_difference(world: World, client: httpx.AsyncClient):
    before = list(world.changes)
    answer = await client.post(ALL, json=DOCUMENT, params={"dry_run": "true"})
    found = answer.json()
    assert (answer.status_code, found["dry_run"]) == (200, True)
    assert found["queues"] == {
        "added": [{"vhost": "/", "name": "q"}, {"vhost": "a/b", "name": "q"}],
        "changed": [],
        "unchanged": 0,
        "conflicting": [],
    }
    assert (found["ignored"], found["ignored_count"]) == ([], 0)
    assert world.changes == before
    assert "a/b" not in world.broker.vhosts
    answer = await client.post(ALL, json=DOCUMENT, params={"dry_run": "yes"})
    assert (answer.status_code, answer.json()["parameter"]) == (400, "dry_run")


async def test_what_stays_otherwise_is_answered(client: httpx.AsyncClient):
    await client.post(ALL, json={"queues": [QUEUE]})
    other = QUEUE | {"arguments": {"x-max-length": 5}}
    answer = await client.post(ALL, json={"queues": [other]})
    assert answer.status_code == 200
    assert answer.json()["queues"]["conflicting"] == [
        {
            "vhost": "/",
            "name": "q",
            "reason": 'arguments is {} there, and {"x-max-length": 5} in the document',
        }
    ]


async def test_a_form_as_rabbitmqs_page_sends_it(world: World, client: httpx.AsyncClient):
    files = {"file": ("definitions.json", json.dumps(DOCUMENT).encode())}
    assert (await client.post(ALL, files=files)).status_code == 204
    assert world.vhost.queue("q").durable


async def test_a_download_has_a_name(client: httpx.AsyncClient):
    answer = await client.get(ALL, params={"download": "all.json"})
    assert answer.headers["content-disposition"] == "attachment; filename=all.json"
    answer = await client.get(ALL, params={"download": "a\r\nb: c"})
    assert (answer.status_code, answer.json()["error"]) == (400, "bad_request")


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"[]", "failed_to_parse_json: "),
        (b"nope", "failed_to_parse_json: "),
        (b'{"queues": 7}', "failed_to_parse_json: "),
        (b'{"queues": [{"name": "q", "vhost": "nope"}]}', "queues[0] 'q': there is no vhost"),
        (b'{"users": [{"name": "q", "password": 7}]}', "users[0]: password should be a string"),
    ],
)
async def test_what_is_refused_changes_nothing(
    world: World, client: httpx.AsyncClient, body: bytes, reason: str
):
    before = list(world.changes)
    answer = await client.post(ALL, content=body)
    assert (answer.status_code, answer.json()["error"]) == (400, "bad_request")
    assert answer.json()["reason"].startswith(reason)
    assert world.changes == before


async def test_nothing_is_imported_of_nothing(client: httpx.AsyncClient):
    assert (await client.post(ALL)).status_code == 204


async def test_limits(client: httpx.AsyncClient, world: World, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(documents, "ITEMS_MAX", 1)
    answer = await client.post(ALL, json=DOCUMENT)
    assert (answer.status_code, answer.json()["limit"]) == (413, "definitions_items")
    assert world.broker.refusals.by_kind["definitions_items"] == 1
    monkeypatch.setattr(documents, "BYTES_MAX", 10)
    answer = await client.post(ALL, json=DOCUMENT)
    assert (answer.status_code, answer.json()["limit"]) == (413, "definitions_bytes")


async def test_who_may(world: World, client: httpx.AsyncClient):
    world.broker.users.put("eve", salted_sha256("pw", b"salt"), frozenset({"monitoring"}))
    for method in ("GET", "POST"):
        for path in (ALL, f"{ALL}/%2F"):
            answer = await client.request(method, path, auth=("eve", "pw"))
            assert answer.status_code == 401
            assert answer.json()["reason"] == "Not administrator user"
    assert (await client.get(f"{ALL}/nope")).json()["reason"] == "vhost_not_found"
    assert (await client.get(f"{ALL}/nope")).status_code == 400
    assert (await client.post(f"{ALL}/nope", json={})).status_code == 404


async def test_the_old_name_of_the_route(world: World, client: httpx.AsyncClient):
    under = [
        (await client.get(f"/api/{each}")).json() for each in ("definitions", "all-configuration")
    ]
    assert under[0] == under[1]
    given = {"vhosts": [{"name": "made"}]}
    assert (await client.post("/api/all-configuration", json=given)).status_code == 204
    assert "made" in world.broker.vhosts
