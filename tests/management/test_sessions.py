"""Sessions: how they end, how many there are, and what a request by a cookie must have."""

from __future__ import annotations

import itertools
from dataclasses import replace

import httpx
import pytest
from starlette.requests import Request
from tests.management.conftest import SECRET, World, serving

from leporid.broker.access.access import Access, User, guest
from leporid.broker.access.passwords import NoPassword, salted_sha256
from leporid.broker.access.sasl import Credentials
from leporid.limits.refusals import Refusals
from leporid.limits.shares import Share
from leporid.management.refusals import Refusal
from leporid.management.sessions import (
    COOKIE,
    IDLE_SECONDS,
    LIFE_SECONDS,
    Sessions,
    cookie,
    session_in,
    shows_form,
)

PAGE = {"x-leporid-page": "1"}
NOW_S = 1_700_000_000.0


CLAIM = Credentials("Basic", "guest", b"guest")


class Clocked:
    """Sessions whose clock tests move."""

    def __init__(self, slots: int = 8) -> None:
        self.passed_s = 0.0
        self.set_back_s = 0.0
        self.access = Access([guest(SECRET), User("ann", salted_sha256("a", SECRET))], SECRET)
        self.share = Share("http_sessions", slots, Refusals())
        tokens = itertools.count(1)
        self.sessions = Sessions(
            self.access,
            self.share,
            monotonic=lambda: 100 + self.passed_s,
            now_s=lambda: NOW_S + self.passed_s - self.set_back_s,
            random_bytes=lambda count: next(tokens).to_bytes(count),
        )

    def begin(self, name: str = "guest") -> str:
        return self.sessions.begin(self.access.require(name), "::1", CLAIM)[0]


@pytest.fixture
def clocked() -> Clocked:
    return Clocked()


def test_a_session_is_found_by_its_token_alone(clocked: Clocked):
    token, session = clocked.sessions.begin(clocked.access.require("guest"), "::1", CLAIM)
    assert clocked.sessions.find(token) is session
    assert clocked.sessions.user_of(session) is clocked.access.require("guest")
    assert repr(clocked.sessions) == "<Sessions 1>"
    for other in ("", token[:-1], token + "0", token.upper() + " ", "0" * 64, "ü", "\udcff"):
        assert clocked.sessions.find(other) is None, other
    # Nothing that is kept says what the token is.
    assert token not in repr(session)
    assert bytes.fromhex(token) not in session.digest
    # Our own users' passwords are not needed again.
    assert session.claim is None


def test_tokens_are_random():
    access = Access([guest(SECRET)], SECRET)
    sessions = Sessions(access, Share("http_sessions", 9, Refusals()), lambda: 0.0)
    tokens = {sessions.begin(access.require("guest"), "::1", CLAIM)[0] for _ in range(3)}
    assert {len(each) for each in tokens} == {64}
    assert len(tokens) == 3


def test_it_ends_when_nobody_asks_for_long(clocked: Clocked):
    token = clocked.begin()
    for _ in range(3):
        clocked.passed_s += IDLE_SECONDS - 1
        assert clocked.sessions.find(token) is not None
    clocked.passed_s += IDLE_SECONDS
    assert clocked.sessions.find(token) is None
    assert (len(clocked.sessions), clocked.share.used) == (0, 0)


def test_it_ends_at_last_however_often_somebody_asks(clocked: Clocked):
    token, session = clocked.sessions.begin(clocked.access.require("guest"), "::1", CLAIM)
    assert session.ends_ms == int((NOW_S + LIFE_SECONDS) * 1000)
    while clocked.passed_s + 1000 < LIFE_SECONDS:
        clocked.passed_s += 1000
        assert clocked.sessions.find(token) is not None
    clocked.passed_s = LIFE_SECONDS
    assert clocked.sessions.find(token) is None


def test_it_ends_in_time_though_the_clock_was_set_back(clocked: Clocked):
    token = clocked.begin()
    clocked.set_back_s = 10 * LIFE_SECONDS
    while clocked.passed_s + 1000 < LIFE_SECONDS:
        clocked.passed_s += 1000
        assert clocked.sessions.find(token) is not None
    clocked.passed_s = LIFE_SECONDS
    assert clocked.sessions.find(token) is None


def test_looking_at_a_session_is_no_use_of_it(clocked: Clocked):
    _, session = clocked.sessions.begin(clocked.access.require("guest"), "::1", CLAIM)
    clocked.passed_s = IDLE_SECONDS / 2
    assert clocked.sessions.user_of(session) is not None
    clocked.passed_s = IDLE_SECONDS
    assert clocked.sessions.user_of(session) is None


def test_that_of_a_token_ends_with_it(clocked: Clocked):
    ends_ms = int(NOW_S * 1000) + 5000
    user = User("tok", NoPassword(), backend="oauth2", expires_ms=ends_ms)
    token, session = clocked.sessions.begin(user, "::1", CLAIM)
    assert session.ends_ms == ends_ms
    clocked.passed_s = 4.9
    assert clocked.sessions.find(token) is not None
    clocked.passed_s = 5
    assert clocked.sessions.find(token) is None


def test_it_ends_with_its_user_and_with_the_password(clocked: Clocked):
    access, sessions = clocked.access, clocked.sessions
    of_guest, of_ann = clocked.begin(), clocked.begin("ann")
    # Other rights count at once, and end nothing.
    access.put_user(replace(access.require("ann"), tags=("monitoring",)))
    session = sessions.find(of_ann)
    assert session is not None
    found = sessions.user_of(session)
    assert found is not None
    assert found.tags == ("monitoring",)
    access.put_user(replace(access.require("ann"), password=salted_sha256("b", SECRET)))
    assert sessions.find(of_ann) is None
    access.drop_user("guest")
    assert sessions.find(of_guest) is None
    # Who comes later under the same name is somebody else.
    access.put_user(guest(b"t" * 32))
    assert sessions.find(of_guest) is None
    assert clocked.share.used == 0


def test_the_end_of_one_is_none_of_another(clocked: Clocked):
    first, second = clocked.begin(), clocked.begin()
    session = clocked.sessions.find(first)
    assert session is not None
    clocked.sessions.end(session)
    clocked.sessions.end(session)
    assert clocked.sessions.find(first) is None
    assert clocked.sessions.user_of(session) is None
    assert clocked.sessions.find(second) is not None
    assert clocked.share.used == 1


def test_who_logs_in_too_often_loses_the_own_session_that_was_used_least_recently():
    clocked = Clocked(slots=8)
    of_ann = clocked.begin("ann")
    tokens = [clocked.begin() for _ in range(4)]
    assert clocked.sessions.find(tokens[0]) is not None
    tokens.append(clocked.begin())
    there = [clocked.sessions.find(each) is not None for each in tokens]
    assert there == [True, False, True, True, True]
    assert clocked.sessions.find(of_ann) is not None


def test_those_of_a_user(clocked: Clocked):
    tokens = [clocked.begin(), clocked.begin("ann"), clocked.begin()]
    clocked.passed_s = 5
    assert clocked.sessions.find(tokens[0]) is not None
    of_guest = clocked.sessions.of("guest")
    assert [clocked.sessions.shown(each) for each in of_guest] == [
        {
            "since_ms": int(NOW_S * 1000),
            "last_ms": int(NOW_S * 1000) + last_ms,
            "expires_at_ms": int((NOW_S + LIFE_SECONDS) * 1000),
            "address": "::1",
            "backend": "internal",
        }
        for last_ms in (0, 5000)
    ]
    clocked.passed_s = IDLE_SECONDS + 1
    assert len(clocked.sessions.of("guest")) == 1
    assert clocked.sessions.of("nobody") == []


def test_what_has_ended_makes_room():
    clocked = Clocked(slots=1)
    clocked.begin("ann")
    clocked.passed_s = IDLE_SECONDS
    clocked.begin()
    assert (len(clocked.sessions), clocked.share.used) == (1, 1)
    with pytest.raises(Refusal, match="http_sessions") as caught:
        clocked.begin("ann")
    assert caught.value.status == 503


def request(headers: dict[str, str], method: str = "GET", scheme: str = "http") -> Request:
    given = [(name.encode(), value.encode()) for name, value in headers.items()]
    return Request(
        {
            "type": "http",
            "method": method,
            "scheme": scheme,
            "path": "/",
            "query_string": b"",
            "headers": given,
        }
    )


def test_whose_request_it_is(clocked: Clocked):
    token = clocked.begin()
    given = {"cookie": f"other=1; {COOKIE}={token}"}
    found = session_in(request(given), clocked.sessions)
    assert found is not None
    assert found.user.name == "guest"
    assert session_in(request({}), clocked.sessions) is None
    # Who says a name and a password is no session's.
    basic = {**given, "authorization": "Basic x"}
    assert session_in(request(basic, "DELETE"), clocked.sessions) is None
    for forged in ("", "1", token[:-1] + "x", '"' + token[::-1] + '"'):
        with pytest.raises(Refusal, match="session has ended") as caught:
            session_in(request({"cookie": f"{COOKIE}={forged}"}), clocked.sessions)
        assert (caught.value.status, caught.value.headers) == (401, {})


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS"])
def test_what_changes_something_needs_our_header(clocked: Clocked, method: str):
    given = {"cookie": f"{COOKIE}={clocked.begin()}"}
    assert session_in(request({**given, **PAGE}, method), clocked.sessions) is not None
    for value in ({}, {"x-leporid-page": ""}, {"x-leporid-page": "0"}, {"x-requested-with": "1"}):
        with pytest.raises(Refusal, match="X-Leporid-Page") as caught:
            session_in(request({**given, **value}, method), clocked.sessions)
        assert caught.value.status == 403


@pytest.mark.parametrize("method", ["GET", "HEAD", "POST"])
def test_a_page_of_another_place_gets_nothing(clocked: Clocked, method: str):
    given = {"cookie": f"{COOKIE}={clocked.begin()}", **PAGE}
    for site in ("same-origin", "none"):
        ours = {**given, "sec-fetch-site": site}
        assert session_in(request(ours, method), clocked.sessions) is not None
    for site in ("cross-site", "same-site", ""):
        with pytest.raises(Refusal, match="another place") as caught:
            session_in(request({**given, "sec-fetch-site": site}, method), clocked.sessions)
        assert caught.value.status == 403


def test_the_cookie_is_for_this_broker_alone():
    plain = cookie(request({}), "abc", 60)
    assert plain == f"{COOKIE}=abc; Path=/; Max-Age=60; HttpOnly; SameSite=Strict"
    secure = plain + "; Secure"
    assert cookie(request({}, scheme="https"), "abc", 60) == secure
    assert cookie(request({"x-forwarded-proto": "https"}), "abc", 60) == secure


def test_the_cookie_has_the_port():
    for host, name in (
        ("localhost:15672", f"{COOKIE}_15672"),
        ("mq.example.org", COOKIE),
        ("[::1]:15672", f"{COOKIE}_15672"),
        ("[::1]", COOKIE),
    ):
        assert cookie(request({"host": host}), "abc", 60).startswith(f"{name}=abc; "), host


def test_who_has_a_form_for_logins():
    assert shows_form("/api/session", [])
    assert shows_form("/api/overview", [(b"x-leporid-page", b"1")])
    assert shows_form("/api/overview", [(b"cookie", b"leporid_session=1")])
    assert not shows_form("/api/overview", [(b"cookie", b"other=1")])


async def test_a_user_of_this_machine_is_none_from_elsewhere(world: World):
    async with serving(world) as client:
        client.auth = httpx.Auth()
        login = {"username": "guest", "password": "guest"}
        assert (await client.post("/api/session", json=login, headers=PAGE)).status_code == 200
        assert (await client.get("/api/whoami")).status_code == 200
        # As a proxy adds it.
        answer = await client.get("/api/whoami", headers={"x-forwarded-for": "192.0.2.1"})
        assert answer.status_code == 401
        assert answer.json()["reason"] == "User can only log in via localhost"


async def test_a_foreign_origin_acts_for_nobody(world: World, client: httpx.AsyncClient):
    client.auth = httpx.Auth()
    login = {"username": "guest", "password": "guest"}
    assert (await client.post("/api/session", json=login, headers=PAGE)).status_code == 200
    for origin in ("http://evil.example", "null", "http://127.0.0.1:1"):
        answer = await client.put("/api/vhosts/x", headers={**PAGE, "origin": origin})
        assert (answer.status_code, answer.json()["error"]) == (403, "other-origin"), origin
    assert world.broker.vhosts.get("x") is None
    ours = f"http://{client.base_url.host}:{client.base_url.port}"
    answer = await client.put("/api/vhosts/x", headers={**PAGE, "origin": ours})
    assert answer.status_code == 201
