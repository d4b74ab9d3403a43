"""Users over HTTP: paths, answers and refusals are those of RabbitMQ 3.10.8."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest
from tests.management.conftest import World

from leporid.broker.access.passwords import Argon2Hash, NoPassword, salted_sha256
from leporid.broker.access.permissions import EVERYTHING
from leporid.broker.stored import StoredUser
from leporid.durable import Put

ROOT = "/api/users"
NOT_FOUND = (404, {"error": "Object Not Found", "reason": "Not Found"})
# RabbitMQ's documentation: "test12".
SHA256 = "kI3GCqW5JLMJa4iX1lo7X4D6XbYqlLgxIs30+P6tENUV2POR"


async def put(client: httpx.AsyncClient, name: str, **given: Any) -> tuple[int, Any]:
    answer = await client.put(f"{ROOT}/{name}", json=given)
    return answer.status_code, answer.json() if answer.content else None


async def got(client: httpx.AsyncClient, path: str, *login: str) -> tuple[int, Any]:
    answer = await client.get(path, auth=login or ("guest", "guest"))  # type: ignore[arg-type]
    return answer.status_code, answer.json()


def bad(reason: str) -> tuple[int, dict[str, str]]:
    return 400, {"error": "bad_request", "reason": reason}


async def test_a_users_life(world: World, client: httpx.AsyncClient):
    assert await put(client, "ann", password="secret", tags="management, x") == (201, None)
    kept = world.broker.access.require("ann").password
    assert isinstance(kept, Argon2Hash)
    shown = {
        "name": "ann",
        "password_hash": kept.text,
        "hashing_algorithm": "argon2id",
        "tags": ["management", "x"],
        "limits": {},
    }
    assert await got(client, f"{ROOT}/ann") == (200, shown)
    assert await got(client, "/api/whoami", "ann", "secret") == (
        200,
        {"name": "ann", "tags": ["management", "x"]},
    )
    assert await put(client, "ann", password="other", tags=["management"]) == (204, None)
    assert (await got(client, "/api/whoami", "ann", "secret"))[0] == 401
    assert (await got(client, "/api/whoami", "ann", "other"))[1]["tags"] == ["management"]
    assert (await client.delete(f"{ROOT}/ann")).status_code == 204
    assert await got(client, f"{ROOT}/ann") == NOT_FOUND
    assert (await client.delete(f"{ROOT}/ann")).status_code == 404
    assert (await got(client, "/api/whoami", "ann", "other"))[0] == 401


async def test_a_password_is_on_disk_when_the_answer_comes(world: World, client: httpx.AsyncClient):
    await put(client, "ann", password="secret", tags="")
    (stored,) = (
        change.definition
        for change in world.changes
        if isinstance(change, Put) and isinstance(change.definition, StoredUser)
    )
    assert stored.password.startswith("$argon2id$")
    assert "secret" not in repr(world.changes)
    assert world.engine.logs.synced >= world.broker.recorded_generation


async def test_hashes_of_rabbitmq_are_taken_as_they_are(world: World, client: httpx.AsyncClient):
    assert await put(client, "ann", password_hash=SHA256, tags="management") == (201, None)
    assert (await got(client, "/api/whoami", "ann", "test12"))[0] == 200
    shown = (await got(client, f"{ROOT}/ann"))[1]
    assert shown["password_hash"] == SHA256
    assert shown["hashing_algorithm"] == "rabbit_password_hashing_sha256"
    for given in ({"password_hash": ""}, {"password": ""}, {}):
        await put(client, "ann", tags="management", **given)
        assert world.broker.access.require("ann").password == NoPassword()
        assert (await got(client, f"{ROOT}/ann"))[1]["password_hash"] == ""


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"password": "x"}, "tags_not_present"),
        (
            {"password": "x", "password_hash": SHA256, "tags": ""},
            "both_password_and_password_hash_are_provided",
        ),
        ({"password": 1, "tags": ""}, "password should be a string"),
        ({"password": "\ud800", "tags": ""}, "password should be Unicode text"),
        ({"password": "x" * 4097, "tags": ""}, "password has 4097 bytes; at most 4096 are allowed"),
        ({"tags": 1}, "tags should be a list, or a string with commas"),
        ({"tags": [1]}, "tags should be a list, or a string with commas"),
        ({"tags": [f"t{n}" for n in range(65)]}, "65 tags; at most 64 are allowed"),
        (
            {"tags": "", "password_hash": SHA256, "hashing_algorithm": "x"},
            (
                "unknown hashing_algorithm: there are argon2id, rabbit_password_hashing_sha256, "
                "rabbit_password_hashing_sha512"
            ),
        ),
        (
            {
                "tags": "",
                "password_hash": SHA256,
                "hashing_algorithm": "rabbit_password_hashing_sha512",
            },
            (
                "password_hash is of rabbit_password_hashing_sha256, not of "
                "rabbit_password_hashing_sha512"
            ),
        ),
        (
            {"tags": "", "password_hash": "AAAA" * 5 + "AAAA" + "AAA="},
            (
                "password_hash is a salted MD5 (rabbit_password_hashing_md5), from which "
                "passwords are found at once: set a new password"
            ),
        ),
    ],
)
async def test_what_makes_no_user(
    world: World, client: httpx.AsyncClient, given: dict[str, Any], reason: str
):
    answer = await client.put(f"{ROOT}/ann", content=json.dumps(given))
    assert (answer.status_code, answer.json()) == bad(reason)
    assert world.broker.access.user("ann") is None
    assert SHA256 not in answer.text


@pytest.mark.parametrize("body", ["nonsense", "[1]"])
async def test_what_is_no_object(client: httpx.AsyncClient, body: str):
    answer = await client.put(f"{ROOT}/ann", content=body)
    assert (answer.status_code, answer.json()) == bad("not_json")


async def test_lists(world: World, client: httpx.AsyncClient):
    await put(client, "ann", tags="")
    await put(client, "ben", tags="")
    world.broker.users.permit("ben", "/", EVERYTHING)
    names = [user["name"] for user in (await got(client, ROOT))[1]]
    assert names == ["ann", "ben", "guest", "reader", "stranger"]
    without = (await got(client, f"{ROOT}/without-permissions"))[1]
    assert [user["name"] for user in without] == ["ann", "stranger"]


async def test_several_are_deleted_or_none(world: World, client: httpx.AsyncClient):
    for name in ("ann", "ben"):
        await put(client, name, tags="")
    several = f"{ROOT}/bulk-delete"
    answer = await client.post(several, json={"users": ["ann", "nobody"]})
    assert (answer.status_code, answer.json()) == bad("no_such_user: nobody")
    assert world.broker.access.user("ann") is not None
    answer = await client.post(several, json={"users": ["ann", "ben", "ann"]})
    assert answer.status_code == 204
    assert world.broker.access.user("ann") is world.broker.access.user("ben") is None
    for given in ({}, {"users": "ann"}, {"users": [1]}):
        assert (await client.post(several, json=given)).status_code == 400


async def test_only_administrators(world: World, client: httpx.AsyncClient):
    for tag in ("monitoring", "policymaker", "management", "plain"):
        world.broker.users.put(tag, salted_sha256("secret", b"s" * 4), frozenset({tag}))
        reason = "Not management user" if tag == "plain" else "Not administrator user"
        refused = {"error": "not_authorised", "reason": reason}
        for method, path in (
            ("GET", ROOT),
            ("GET", f"{ROOT}/{tag}"),
            ("PUT", f"{ROOT}/{tag}"),
            ("DELETE", f"{ROOT}/{tag}"),
            ("POST", f"{ROOT}/bulk-delete"),
            ("GET", f"{ROOT}/without-permissions"),
            ("GET", "/api/auth/hash_password/x"),
        ):
            answer = await client.request(method, path, auth=(tag, "secret"))
            assert (answer.status_code, answer.json()) == (401, refused), (method, path)
        whoami = (await client.get("/api/whoami", auth=(tag, "secret"))).status_code
        assert whoami == (401 if tag == "plain" else 200)


async def test_a_hash_for_rabbitmqs_tools(world: World, client: httpx.AsyncClient):
    answer = await got(client, "/api/auth/hash_password/p%C3%A4ss%2Fword")
    assert answer[0] == 200
    await put(client, "ann", password_hash=answer[1]["ok"], tags="management")
    assert (await got(client, "/api/whoami", "ann", "päss/word"))[0] == 200


async def test_who_is_deleted_while_the_body_comes_changes_nothing(
    world: World, client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
):
    world.broker.users.put("ann", salted_sha256("secret", b"salt"), frozenset({"administrator"}))

    async def slow_body(*_: object) -> bytes:
        world.broker.users.drop("ann")
        return b'{"tags": "administrator", "password": "x"}'

    monkeypatch.setattr("leporid.management.users.raw_body_of", slow_body)
    answer = await client.put("/api/users/backdoor", auth=("ann", "secret"))
    assert answer.status_code == 401
    assert "changed or deleted" in answer.json()["reason"]
    assert world.broker.access.user("backdoor") is None


@pytest.mark.parametrize("change", ["gains", "loses"])
async def test_an_administrator_whose_permissions_change_meanwhile_acts(
    world: World, client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch, change: str
):
    """Terraform makes a virtual host, whose creator gets its permissions, and a user at once."""
    world.broker.users.put("ann", salted_sha256("secret", b"salt"), frozenset({"administrator"}))
    world.broker.users.permit("ann", "/", EVERYTHING)
    world.broker.add_vhost("new")

    async def slow_body(*_: object) -> bytes:
        if change == "gains":
            world.broker.users.permit("ann", "new", EVERYTHING)
        else:
            world.broker.users.forbid("ann", "/")
        return b'{"tags": "", "password": "x"}'

    monkeypatch.setattr("leporid.management.users.raw_body_of", slow_body)
    answer = await client.put("/api/users/bob", auth=("ann", "secret"))
    assert answer.status_code == 201, answer.text
    assert world.broker.access.user("bob") is not None


@pytest.mark.parametrize("change", ["tags", "password"])
async def test_whose_tags_or_password_change_meanwhile_changes_nothing(
    world: World, client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch, change: str
):
    secret = salted_sha256("secret", b"salt")
    world.broker.users.put("ann", secret, frozenset({"administrator"}))

    async def slow_body(*_: object) -> bytes:
        if change == "tags":
            world.broker.users.put("ann", secret, frozenset({"management"}))
        else:
            world.broker.users.put(
                "ann", salted_sha256("other", b"salt"), frozenset({"administrator"})
            )
        return b'{"tags": "", "password": "x"}'

    monkeypatch.setattr("leporid.management.users.raw_body_of", slow_body)
    assert (await client.put("/api/users/bob", auth=("ann", "secret"))).status_code == 401
    assert world.broker.access.user("bob") is None


async def test_pages_order_and_columns(client: httpx.AsyncClient):
    found = (await client.get("/api/users?page=1&page_size=2&columns=name")).json()
    assert found["items"] == [{"name": "guest"}, {"name": "reader"}]
    assert (found["total_count"], found["page_count"]) == (3, 2)
    found = (await client.get("/api/users?sort=name&sort_reverse=true&columns=name")).json()
    assert [each["name"] for each in found] == ["stranger", "reader", "guest"]
    found = (await client.get("/api/users?page=1&name=EA")).json()
    assert [each["name"] for each in found["items"]] == ["reader"]
