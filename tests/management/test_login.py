"""Who asks."""

from __future__ import annotations

import base64

import httpx
import pytest
from tests.management.conftest import World

from leporid.broker.access.access import User
from leporid.broker.access.passwords import Argon2Hash, hash_password
from leporid.broker.access.permissions import EVERYTHING

API = "/api/streams/%2F"
NOBODY = httpx.Auth()


@pytest.mark.parametrize(
    "header",
    [
        None,
        "",
        "Basic",
        "Bearer abc",
        "Basic !!!",
        "Basic " + base64.b64encode(b"guest").decode(),
        "Basic " + base64.b64encode(b"guest:wrong").decode(),
        "Basic " + base64.b64encode(b"guest:").decode(),
        "Basic " + base64.b64encode(b"nobody:guest").decode(),
        "Basic " + base64.b64encode(b"\xff\xfe:guest").decode(),
    ],
)
async def test_strangers_are_asked_to_log_in(client: httpx.AsyncClient, header: str | None):
    headers = {} if header is None else {"authorization": header}
    answer = await client.get(API, headers=headers, auth=NOBODY)
    assert (answer.status_code, answer.json()["error"]) == (401, "unauthorized")
    assert answer.headers["www-authenticate"].startswith('Basic realm="Leporid"')


async def test_a_password_is_hashed_once(
    world: World, client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
):
    hashed: list[bytes] = []
    matches = Argon2Hash.matches

    def counting(self: Argon2Hash, password: bytes) -> bool:
        hashed.append(password)
        return matches(self, password)

    monkeypatch.setattr(Argon2Hash, "matches", counting)
    stored = hash_password("sü:ß", b"x" * 16)
    world.broker.access.put_user(User("slow", stored, permissions={"/": EVERYTHING}))
    for _ in range(3):
        assert (await client.get(API, auth=("slow", "sü:ß"))).status_code == 200
    assert hashed == ["sü:ß".encode()]
    assert (await client.get(API, auth=("slow", "wrong"))).status_code == 401


async def test_users_of_this_machine_only(world: World, client: httpx.AsyncClient):
    object.__setattr__(world.around, "is_loopback", lambda host: False)
    assert (await client.get(API)).status_code == 401
