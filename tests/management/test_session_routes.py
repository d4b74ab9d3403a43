"""Logging in by the form, and out."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from dataclasses import replace

import httpx
import pytest
from tests.management.conftest import SECRET, World, serving

from leporid.amqp.errors import AccessRefused
from leporid.broker.access.access import User
from leporid.broker.access.backends import Answer, Leave, LoginRequest
from leporid.broker.access.logins import TooManyLogins
from leporid.broker.access.passwords import NoPassword, hash_password, salted_sha256
from leporid.broker.access.permissions import EVERYTHING, Pattern, Permissions
from leporid.broker.access.remote_rights import RemoteRights
from leporid.broker.access.sasl import Credentials
from leporid.broker.access.scopes import ScopedPermissions
from leporid.management.session_routes import LOGIN_BYTES_MAX
from leporid.management.sessions import COOKIE, LIFE_SECONDS

PAGE = {"x-leporid-page": "1"}
LOGIN = {"username": "guest", "password": "guest"}
SESSION = "/api/session"


def name_of(page: httpx.AsyncClient) -> str:
    """Return what the cookie is called on this port."""
    return f"{COOKIE}_{page.base_url.port}"


@pytest.fixture
async def page(world: World) -> AsyncIterator[httpx.AsyncClient]:
    """A client as the page is one: it has a cookie and no password."""
    async with serving(world) as client:
        client.auth = httpx.Auth()
        client.headers.update(PAGE)
        yield client


async def test_in_and_out(world: World, page: httpx.AsyncClient):
    before = await page.get(SESSION)
    assert (before.status_code, before.json()["error"]) == (401, "not_authorized")
    assert "www-authenticate" not in before.headers
    assert (await page.get(f"{SESSION}?optional=true")).status_code == 204
    answer = await page.post(SESSION, json=LOGIN)
    assert answer.status_code == 200
    shown = answer.json()
    assert (shown["name"], shown["tags"]) == ("guest", ["administrator"])
    set_cookie = answer.headers["set-cookie"]
    token = page.cookies[name_of(page)]
    assert set_cookie == (
        f"{name_of(page)}={token}; Path=/; Max-Age={LIFE_SECONDS}; HttpOnly; SameSite=Strict"
    )
    assert token not in answer.text
    assert (await page.get(SESSION)).json() == shown
    assert (await page.get(f"{SESSION}?optional=true")).json() == shown
    assert (await page.get("/api/whoami")).json()["name"] == "guest"
    out = await page.delete(SESSION)
    assert out.status_code == 204
    assert name_of(page) not in page.cookies
    assert len(world.around.sessions) == 0
    # Who has kept the cookie has nothing.
    kept = {"cookie": f"{name_of(page)}={token}"}
    assert (await page.get(SESSION, headers=kept)).status_code == 401
    assert (await page.get(f"{SESSION}?optional=true", headers=kept)).status_code == 204
    # Whoever names a user is told that it was refused.
    wrong = await page.get(f"{SESSION}?optional=true", auth=("guest", "wrong"))
    assert wrong.status_code == 401
    assert (await page.put("/api/vhosts/x", headers=kept)).status_code == 401


async def test_who_asks_by_a_password_has_no_session(world: World, client: httpx.AsyncClient):
    assert (await client.get(SESSION)).json() == {
        "name": "guest",
        "tags": ["administrator"],
        "expires_at_ms": None,
        "permissions": [{"vhost": "/", "configure": ".*", "write": ".*", "read": ".*"}],
    }
    assert (await client.delete(SESSION)).status_code == 204


class Everybody:
    """A back end to which everybody is the same user."""

    name = "everybody"

    def __init__(self, user: User | str | AccessRefused) -> None:
        self.user = user
        self.claims: list[Credentials] = []

    def log_in(self, login: LoginRequest, answer: Answer) -> Leave:
        self.claims.append(login.credentials)
        answer(self.user)
        return lambda: None

    def renew(self, user: User, secret: bytes, answer: Answer) -> Leave:
        answer(user)
        return lambda: None


async def test_it_says_what_the_user_may_do(world: World, client: httpx.AsyncClient):
    for name in ("b", "a", "closed"):
        world.broker.add_vhost(name)
    nobodys_rights = RemoteRights(
        lambda *_: None, lambda: 1.0, lambda: 0.0, lambda: None, world.engine.jobs
    )
    orders, scopes = Permissions.of("", "^orders$", ".*"), ScopedPermissions(["read:a*/x*"])
    kinds = {
        "ann": User("ann", NoPassword(), permissions={"b": orders, "a": EVERYTHING}),
        "token": User("token", NoPassword(), permissions=scopes, backend="oauth2"),
        "asked": User("asked", NoPassword(), remote=nobodys_rights, backend="http"),
    }
    shown = {}
    for name, user in kinds.items():
        world.broker.backends.use([Everybody(user)])
        shown[name] = (await client.get(SESSION)).json()["permissions"]
    assert shown["ann"] == [
        {"vhost": "a", "configure": ".*", "write": ".*", "read": ".*"},
        {"vhost": "b", "configure": "", "write": "^orders$", "read": ".*"},
    ]
    (scoped,) = shown["token"]
    assert scoped["vhost"] == "a"
    assert Pattern(scoped["read"]).matches("x1")
    assert not Pattern(scoped["read"]).matches("1x")
    assert not Pattern(scoped["write"]).matches("x1")
    # Another server decides about each name.
    assert shown["asked"] is None


async def test_another_back_end_is_asked_with_each_request(world: World, page: httpx.AsyncClient):
    user = User("jo", NoPassword(), tags=("administrator",), backend="http")
    there = Everybody(user)
    world.broker.backends.use([there])
    password = "pässword of jo " * 20
    assert (await page.post(SESSION, json={"username": "jo", "password": password})).is_success
    assert (await page.get("/api/users")).status_code == 200
    (session,) = world.around.sessions.of("jo")
    assert session.claim is not None
    assert not any(word in session.claim.password for word in (b"pass", b"word", b" of jo"))
    assert there.claims == [Credentials("Basic", "jo", password.encode())] * 2
    there.user = replace(user, tags=("management",))
    assert (await page.get("/api/users")).json()["error"] == "not_authorised"
    assert (await page.get("/api/whoami")).json()["tags"] == ["management"]
    # One that is not asked now ends nothing.
    there.user = TooManyLogins(there.claims[0], own=True)
    assert (await page.get("/api/whoami")).status_code == 429
    there.user = "denied"
    refused = await page.get("/api/whoami")
    assert refused.status_code == 401
    assert "session has ended" in refused.json()["reason"]
    assert "www-authenticate" not in refused.headers
    assert len(world.around.sessions) == 0
    there.user = user
    assert (await page.get("/api/whoami")).status_code == 401


async def test_beside_a_cookie_the_password_counts(world: World, page: httpx.AsyncClient):
    world.broker.access.put_user(
        User("ann", salted_sha256("a", SECRET), tags=("monitoring",), permissions={"/": EVERYTHING})
    )
    assert (await page.post(SESSION, json=LOGIN)).status_code == 200
    assert (await page.get("/api/whoami", auth=("ann", "a"))).json()["name"] == "ann"
    refused = await page.get("/api/whoami", auth=("ann", "wrong"))
    assert refused.status_code == 401
    # Such a request needs no header of ours: the browser has not sent it by itself.
    del page.headers["x-leporid-page"]
    answer = await page.put("/api/vhosts/x", auth=("guest", "guest"))
    assert answer.status_code == 201


@pytest.mark.parametrize(
    "login",
    [
        {"username": "guest", "password": "wrong"},
        {"username": "guest", "password": ""},
        {"username": "nobody", "password": "guest"},
        {"username": "slow", "password": "guest"},
    ],
)
async def test_strangers_are_told_the_same_and_counted(
    world: World, page: httpx.AsyncClient, login: dict[str, str]
):
    world.broker.access.put_user(User("slow", hash_password("sü:ß", b"x" * 16)))
    answer = await page.post(SESSION, json=login)
    assert answer.status_code == 401
    assert answer.json() == {"error": "not_authorized", "reason": "Login failed"}
    assert "www-authenticate" not in answer.headers
    assert "set-cookie" not in answer.headers
    assert world.broker.access.attempts.refused == {"Basic": 1}
    assert len(world.around.sessions) == 0


async def test_a_slow_hash_logs_in(world: World, page: httpx.AsyncClient):
    user = User("slow", hash_password("sü:ß", b"x" * 16), tags=("management",))
    world.broker.access.put_user(user)
    answer = await page.post(SESSION, json={"username": "slow", "password": "sü:ß"})
    assert (answer.status_code, answer.json()["tags"]) == (200, ["management"])
    assert world.broker.access.attempts.granted == {"Basic": 1}


async def test_who_may_not_manage_gets_no_session(page: httpx.AsyncClient):
    answer = await page.post(SESSION, json={"username": "stranger", "password": "secret"})
    assert answer.status_code == 401
    assert "needs the tag management" in answer.json()["reason"]


async def test_a_login_takes_no_token_from_the_client(world: World, page: httpx.AsyncClient):
    page.cookies.set(name_of(page), "f" * 64)
    assert (await page.post(SESSION, json=LOGIN)).status_code == 200
    first = page.cookies.get(name_of(page), domain=str(page.base_url.host))
    assert first != "f" * 64
    page.cookies.clear()
    page.cookies.set(name_of(page), str(first))
    assert (await page.post(SESSION, json=LOGIN)).status_code == 200
    # The one before has ended with the new login.
    assert len(world.around.sessions) == 1
    page.cookies.clear()
    kept = {"cookie": f"{name_of(page)}={first}"}
    assert (await page.get(SESSION, headers=kept)).status_code == 401


async def test_no_form_of_another_page_logs_in(world: World, page: httpx.AsyncClient):
    del page.headers["x-leporid-page"]
    answer = await page.post(SESSION, json=LOGIN)
    assert (answer.status_code, answer.json()["error"]) == (403, "not-our-page")
    page.headers.update(PAGE)
    answer = await page.post(SESSION, json=LOGIN, headers={"origin": "http://evil.example"})
    assert (answer.status_code, answer.json()["error"]) == (403, "other-origin")
    answer = await page.post(SESSION, json=LOGIN, headers={"sec-fetch-site": "same-site"})
    assert answer.status_code == 403
    assert len(world.around.sessions) == 0
    assert not world.broker.access.attempts.granted


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", 400),
        (b"[]", 400),
        (b'{"username": "guest"}', 400),
        (b'{"username": 1, "password": "guest"}', 400),
        (b'{"username": "guest", "password": "\\ud800"}', 400),
        (b" " * (LOGIN_BYTES_MAX + 1), 413),
    ],
)
async def test_what_is_no_login(page: httpx.AsyncClient, body: bytes, status: int):
    answer = await page.post(SESSION, content=body)
    assert answer.status_code == status, answer.text


async def test_the_audit_log_has_who_came_and_went(
    page: httpx.AsyncClient, caplog: pytest.LogCaptureFixture
):
    with caplog.at_level(logging.INFO, "leporid.audit"):
        await page.post(SESSION, json={**LOGIN, "password": "wrong"})
        await page.post(SESSION, json=LOGIN)
        await page.delete(SESSION)
    lines = [each.getMessage() for each in caplog.records if each.name == "leporid.audit"]
    by = ["nobody", "'guest'", "'guest'"]
    assert [each.split(" by ")[1].split(" from ")[0] for each in lines] == by
    assert [each.split(" by ")[0] for each in lines] == [
        "POST /api/session",
        "POST /api/session",
        "DELETE /api/session",
    ]
    assert lines[0].endswith(": 401 (Login failed)")
    assert "guest" not in lines[0]
    assert page.cookies.get(name_of(page)) is None


async def test_a_request_ends_with_the_session(world: World, page: httpx.AsyncClient):
    await page.post(SESSION, json=LOGIN)
    user = world.broker.access.require("guest")
    world.broker.users.put("guest", salted_sha256("new", SECRET), user.tags)
    answer = await page.get("/api/overview")
    assert (answer.status_code, answer.json()["reason"]) == (
        401,
        "the session has ended; log in again",
    )
    assert "www-authenticate" not in answer.headers


async def test_answers_of_the_interface_are_never_sniffed(client: httpx.AsyncClient):
    assert (await client.get("/api/overview")).headers["x-content-type-options"] == "nosniff"


async def test_an_administrator_sees_and_ends_logins(world: World, page: httpx.AsyncClient):
    of_ann = "/api/users/ann/sessions"
    world.broker.access.put_user(User("ann", salted_sha256("a", SECRET), tags=("management",)))
    assert (await page.post(SESSION, json={"username": "ann", "password": "a"})).status_code == 200
    assert (await page.get(of_ann)).json()["error"] == "not_authorised"
    assert (await page.delete(of_ann)).status_code == 401
    admin = ("guest", "guest")
    (shown,) = (await page.get(of_ann, auth=admin)).json()
    assert shown["address"] == "127.0.0.1"
    assert shown["since_ms"] <= shown["last_ms"] < shown["expires_at_ms"]
    assert (await page.get("/api/users/guest/sessions", auth=admin)).json() == []
    assert (await page.get("/api/users/nobody/sessions", auth=admin)).status_code == 404
    assert (await page.delete(of_ann, auth=admin)).status_code == 204
    assert (await page.get(SESSION)).status_code == 401
    assert len(world.around.sessions) == 0


async def test_another_broker_of_the_same_host_takes_no_session_away(
    world: World, page: httpx.AsyncClient
):
    assert (await page.post(SESSION, json=LOGIN)).status_code == 200
    beside = World()
    async with serving(beside) as other:
        other.auth = httpx.Auth()
        # Browsers have one jar for all ports of a host.
        other.cookies = page.cookies
        assert (await other.get(SESSION)).status_code == 401
        answer = await other.post(SESSION, json=LOGIN, headers=PAGE)
        assert answer.status_code == 200
        assert (await other.get(SESSION)).status_code == 200
        page.cookies = other.cookies
        assert (await page.get(SESSION)).status_code == 200
    beside.around.stop()
