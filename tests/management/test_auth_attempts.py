"""How many logins there were, and how one logs in."""

from __future__ import annotations

import httpx
from tests.management.conftest import World

ATTEMPTS = "/api/auth/attempts/leporid@localhost"


async def test_logins_are_counted_by_protocol(world: World, client: httpx.AsyncClient):
    await client.get("/api/whoami")
    assert (await client.get("/api/whoami", auth=("guest", "wrong"))).status_code == 401
    bearer = {"authorization": "Bearer none"}
    assert (await client.get("/api/whoami", headers=bearer, auth=httpx.Auth())).status_code == 401
    world.broker.access.attempts.granted["PLAIN"] += 2
    assert (await client.get(ATTEMPTS)).json() == [
        {
            "protocol": "amqp091",
            "auth_attempts": 2,
            "auth_attempts_failed": 0,
            "auth_attempts_succeeded": 2,
        },
        {
            "protocol": "http",
            "auth_attempts": 4,
            "auth_attempts_failed": 2,
            "auth_attempts_succeeded": 2,
        },
    ]
    assert (await client.get(f"{ATTEMPTS}/source")).json() == []
    assert (await client.delete(ATTEMPTS)).status_code == 204
    (again,) = (await client.get(ATTEMPTS)).json()
    assert again["auth_attempts"] == 1
    assert (await client.get("/api/auth/attempts/nope")).status_code == 404


async def test_who_has_not_logged_in_is_told_how(client: httpx.AsyncClient):
    async with httpx.AsyncClient(base_url=client.base_url, trust_env=False, verify=False) as nobody:
        answer = await nobody.get("/api/auth")
    assert answer.json()["oauth_enabled"] is False
