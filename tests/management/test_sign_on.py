"""Logging in by OAuth 2: what a browser is told, and what it must bring back."""

from __future__ import annotations

import base64
import hashlib
import logging
from collections.abc import AsyncIterator, Hashable
from dataclasses import dataclass, field
from http.cookies import SimpleCookie
from typing import Any

import httpx
import pytest
from tests.management.conftest import World, serving

from leporid.broker.access.access import User
from leporid.broker.access.backends import BEARER, Answer, Leave, LoginRequest
from leporid.broker.access.passwords import NoPassword
from leporid.management.refusals import Refusal, busy
from leporid.management.sessions import COOKIE as SESSION
from leporid.management.sign_on import CALLBACK, COOKIE, PATH, _state

TOKEN = b"a.good.token"


@dataclass
class Issuer:
    """An issuer that gives a token for a code if the verifier is that of the login."""

    begun: dict[str, str] = field(default_factory=dict)
    codes: list[str] = field(default_factory=list)
    failure: Refusal | None = None

    async def start(self, address: Hashable, back: str, state: str, challenge: str) -> str:
        self.begun = {"back": back, "state": state, "challenge": challenge}
        return "https://sso.example.org/login"

    async def exchange(self, address: Hashable, code: str, verifier: str, back: str) -> bytes:
        if self.failure is not None:
            raise self.failure
        digest = hashlib.sha256(verifier.encode()).digest()
        if self.begun:
            challenge = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
            assert challenge == self.begun["challenge"]
            assert back == self.begun["back"]
        self.codes.append(code)
        return TOKEN


class Tokens:
    """Knows one token."""

    name = "oauth2"
    tags: tuple[str, ...] = ("monitoring",)

    def __init__(self, user: str = "jo") -> None:
        self.user = user

    def log_in(self, login: LoginRequest, answer: Answer) -> Leave:
        good = login.credentials.mechanism == BEARER and login.credentials.password == TOKEN
        user = User(
            self.user, NoPassword(), self.tags, backend="oauth2", expires_ms=4_000_000_000_000
        )
        answer(user if good else "")
        return lambda: None

    def renew(self, user: User, secret: bytes, answer: Answer) -> Leave:
        raise NotImplementedError


@pytest.fixture
def issuer(world: World) -> Issuer:
    made = Issuer()
    object.__setattr__(world.around, "sign_on", made)
    return made


@pytest.fixture
def tokens(world: World) -> Tokens:
    made = Tokens()
    world.broker.backends.use([made, world.broker.backends.internal])
    return made


@pytest.fixture
async def browser(world: World, issuer: Issuer, tokens: Tokens) -> AsyncIterator[httpx.AsyncClient]:
    async with serving(world) as client:
        client.auth = httpx.Auth()
        yield client


def cookies_of(answer: httpx.Response) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for header in answer.headers.get_list("set-cookie"):
        found.update(SimpleCookie(header))
    return found


async def begin(browser: httpx.AsyncClient, issuer: Issuer) -> dict[str, str]:
    answer = await browser.get(PATH)
    assert answer.status_code == 302
    return {"state": issuer.begun["state"], "code": "c"}


async def test_there_and_back(world: World, browser: httpx.AsyncClient, issuer: Issuer):
    answer = await browser.get(PATH)
    assert (answer.status_code, answer.headers["location"]) == (
        302,
        "https://sso.example.org/login",
    )
    cookie = cookies_of(answer)[COOKIE]
    assert (cookie["httponly"], cookie["samesite"], cookie["path"]) == (True, "Lax", PATH)
    # The verifier is nowhere but in the cookie.
    assert cookie.value not in str(issuer.begun)
    host = f"{browser.base_url.host}:{browser.base_url.port}"
    assert issuer.begun["back"] == f"http://{host}{CALLBACK}"
    given = {"code": "c", "state": issuer.begun["state"]}
    back = await browser.get(CALLBACK, params=given)
    assert (back.status_code, back.headers["location"]) == (302, "/")
    assert back.headers["cache-control"] == "no-store"
    assert cookies_of(back)[COOKIE]["max-age"] == "0"
    assert cookies_of(back)[f"{SESSION}_{browser.base_url.port}"]["samesite"] == "Strict"
    session = (await browser.get("/api/session")).json()
    assert session["name"] == "jo"
    assert issuer.codes == ["c"]


async def test_over_tls_no_other_host_can_plant_the_verifier(
    browser: httpx.AsyncClient, issuer: Issuer
):
    secure = {"x-forwarded-proto": "https"}
    answer = await browser.get(PATH, headers=secure)
    name = f"__Host-{COOKIE}"
    verifier = cookies_of(answer)[name]
    # What browsers ask for beside the prefix: RFC 6265bis, 4.1.3.2.
    assert (verifier["secure"], verifier["path"], verifier["domain"]) == (True, "/", "")
    given = {"state": issuer.begun["state"], "code": "c"}
    browser.cookies.clear()
    planted = {**secure, "cookie": f"{COOKIE}={verifier.value}"}
    assert (await browser.get(CALLBACK, params=given, headers=planted)).status_code == 401
    headers = {**secure, "cookie": f"{name}={verifier.value}"}
    back = await browser.get(CALLBACK, params=given, headers=headers)
    assert (back.status_code, cookies_of(back)[name]["max-age"]) == (302, "0")


@pytest.mark.parametrize(
    "change",
    [
        {"state": "x" * 43},
        {"state": ""},
        {"state": "ü"},
        {"code": ""},
        {"code": "c" * 5000},
        {"error": "access_denied", "error_description": "<script>"},
    ],
)
async def test_what_comes_back_from_elsewhere(
    world: World, browser: httpx.AsyncClient, issuer: Issuer, change: dict[str, str]
):
    given = await begin(browser, issuer)
    answer = await browser.get(CALLBACK, params={**given, **change})
    assert (answer.status_code, answer.json()["error"]) == (401, "not_authorized")
    assert "script" not in answer.text
    assert issuer.codes == []
    assert len(world.around.sessions) == 0


@pytest.mark.parametrize("verifier", [None, "", "short", "a" * 44, "ü" * 43])
async def test_a_login_that_was_begun_in_another_browser(
    browser: httpx.AsyncClient, issuer: Issuer, verifier: str | None
):
    await begin(browser, issuer)
    # Somebody who knows how the state is made has made one for a browser without the cookie.
    given = {"state": _state(verifier or ""), "code": "c"}
    browser.cookies.clear()
    cookie = f"{COOKIE}={verifier}".encode()
    headers = {} if verifier is None else {b"cookie": cookie}
    answer = await browser.get(CALLBACK, params=given, headers=headers)
    assert answer.status_code == 401
    assert "not begun in this browser" in answer.json()["reason"]
    assert issuer.codes == []


async def test_a_person_reads_what_went_wrong(browser: httpx.AsyncClient, issuer: Issuer):
    given = await begin(browser, issuer)
    issuer.failure = busy("the issuer is away")
    answer = await browser.get(CALLBACK, params=given, headers={"accept": "text/html,*/*"})
    assert answer.status_code == 503
    assert answer.headers["content-type"].startswith("text/plain")
    assert answer.text.startswith("the issuer is away\n\nTo try again, open http://127.0.0.1:")


async def test_who_may_not_manage_gets_no_session(
    world: World, browser: httpx.AsyncClient, issuer: Issuer, tokens: Tokens
):
    tokens.tags = ()
    answer = await browser.get(CALLBACK, params=await begin(browser, issuer))
    assert answer.status_code == 401
    assert "needs the tag management" in answer.json()["reason"]
    assert len(world.around.sessions) == 0


async def test_the_audit_log_has_it_without_the_code(
    browser: httpx.AsyncClient, issuer: Issuer, caplog: pytest.LogCaptureFixture
):
    given = await begin(browser, issuer)
    with caplog.at_level(logging.INFO, "leporid.audit"):
        await browser.get(CALLBACK, params={**given, "code": "secret", "state": "x"})
        await browser.get(CALLBACK, params={**given, "code": "secret"})
    refused, granted = (
        each.getMessage() for each in caplog.records if each.name == "leporid.audit"
    )
    assert "by nobody" in refused
    assert ": 401 (" in refused
    assert f"GET {CALLBACK} by 'jo'" in granted
    assert "secret" not in caplog.text


async def test_without_an_issuer(client: httpx.AsyncClient):
    assert (await client.get("/api/auth")).json()["oauth_enabled"] is False
    assert (await client.get(PATH)).status_code == 404
    assert (await client.get(CALLBACK)).status_code == 404
