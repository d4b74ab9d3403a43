"""Logging in to the web UI at an issuer: codes, endpoints, and a broker that does all of it."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import httpx
import pytest
from tests.server.certificates import running
from tests.server.outside import Issuer, Said, token

from leporid.limits.refusals import Refusals
from leporid.management.refusals import Refusal
from leporid.server.code_logins import KNOWN_S, CodeLogins
from leporid.server.oauth_settings import OAuth2

BACK = "http://localhost/api/session/oauth/callback"


class CodeIssuer(Issuer):
    """Gives tokens for codes, if the verifier is that of the login.

    Attributes:
        challenge: of the login that was begun last.
        forms: what was asked with each code.
        said: an answer to say instead of a token.
    """

    def __init__(self) -> None:
        self.challenge = ""
        self.forms: list[dict[str, str]] = []
        self.said: Said | None = None
        self.discovered = 0
        super().__init__()

    def answer(self, method: str, path: str, body: str) -> Said:
        if path.endswith("openid-configuration"):
            self.discovered += 1
            found = {
                "jwks_uri": self.url + "/keys",
                "authorization_endpoint": self.url + "/login?tenant=1",
                "token_endpoint": self.url + "/token",
            }
            return 200, json.dumps(found).encode()
        if path == "/token":
            return self.said or self._exchange(dict(parse_qsl(body)))
        return super().answer(method, path, body)

    def _exchange(self, form: dict[str, str]) -> Said:
        self.forms.append(form)
        digest = hashlib.sha256(form["code_verifier"].encode()).digest()
        challenge = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
        if form["code"] != "good" or challenge != self.challenge:
            return 400, b'{"error": "invalid_grant"}'
        found = {"access_token": token(self), "token_type": "Bearer", "expires_in": 60}
        return 200, json.dumps(found).encode()


@pytest.fixture
def issuer() -> Iterator[CodeIssuer]:
    made = CodeIssuer()
    yield made
    made.close()


class Clock:
    now_s = 0.0


@pytest.fixture
async def logins(issuer: CodeIssuer) -> AsyncIterator[CodeLogins]:
    settings = OAuth2(
        resource_server_id="mq", issuer=issuer.url, client_id="ui & co", client_secret="p:ß"
    )
    with ThreadPoolExecutor(2) as pool:
        yield CodeLogins(settings, pool, Refusals(), lambda: Clock.now_s)


async def test_where_one_logs_in(issuer: CodeIssuer, logins: CodeLogins):
    place = urlsplit(await logins.start("a", BACK, "state", "challenge"))
    assert f"{place.scheme}://{place.netloc}{place.path}" == issuer.url + "/login"
    assert dict(parse_qsl(place.query)) == {
        "tenant": "1",
        "response_type": "code",
        "client_id": "ui & co",
        "redirect_uri": BACK,
        "scope": "openid",
        "state": "state",
        "code_challenge": "challenge",
        "code_challenge_method": "S256",
    }
    await logins.start("a", BACK, "state", "challenge")
    assert issuer.discovered == 1
    Clock.now_s += KNOWN_S
    await logins.start("a", BACK, "state", "challenge")
    assert issuer.discovered == 2
    assert repr(logins) == "<CodeLogins of 'ui & co'>"


@pytest.mark.parametrize(
    ("said", "status"),
    [
        ((400, b"{}"), 401),
        ((200, b"no"), 503),
        ((200, b"[]"), 503),
        ((200, b'{"access_token": 1, "token_type": "bearer"}'), 503),
        ((200, b'{"access_token": "x", "token_type": "mac"}'), 503),
        ((200, '{"access_token": "ü", "token_type": "bearer"}'.encode()), 503),
    ],
)
async def test_an_answer_without_a_token(
    issuer: CodeIssuer, logins: CodeLogins, said: Said, status: int
):
    issuer.said = said
    with pytest.raises(Refusal) as caught:
        await logins.exchange("a", "secret-code", "verifier", BACK)
    assert caught.value.status == status
    assert "secret-code" not in caught.value.reason


async def test_an_issuer_that_is_away(logins: CodeLogins, issuer: CodeIssuer):
    issuer.close()
    with pytest.raises(Refusal, match="the issuer cannot be asked") as caught:
        await logins.start("a", BACK, "state", "challenge")
    assert caught.value.status == 503


async def test_endpoints_of_the_configuration_are_asked_for_nowhere():
    settings = OAuth2(
        resource_server_id="mq",
        client_id="ui",
        scopes=("openid", "mq.read:*/*"),
        authorization_endpoint="https://sso.example.org/login",
        token_endpoint="https://sso.example.org/token",
    )
    with ThreadPoolExecutor(1) as pool:
        place = await CodeLogins(settings, pool, Refusals()).start("a", BACK, "s", "c")
    assert place.startswith("https://sso.example.org/login?response_type=code&client_id=ui&")
    assert "scope=openid%20mq.read%3A%2A%2F%2A" in place


async def test_the_secret_is_sent_as_the_standard_says(
    issuer: CodeIssuer, logins: CodeLogins, monkeypatch: pytest.MonkeyPatch
):
    sent: list[dict[str, str]] = []

    async def ask(address: Any, asked: Any, body: Any = None, headers: Any = None) -> Said:
        sent.append(headers)
        return 200, b'{"access_token": "abc", "token_type": "bearer"}'

    await logins.start("a", BACK, "state", "challenge")
    monkeypatch.setattr(logins, "_ask", ask)
    assert await logins.exchange("a", "c", "v", BACK) == b"abc"
    given = base64.b64decode(sent[0]["authorization"].removeprefix("Basic "))
    assert given == b"ui%20%26%20co:p%3A%C3%9F"


@pytest.mark.slow
def test_a_login_from_end_to_end(issuer: CodeIssuer, tmp_path_factory: pytest.TempPathFactory):
    config = f"""
[auth]
backends = ["oauth2", "internal"]
[oauth2]
resource_server_id = "mq"
issuer = "{issuer.url}"
client_id = "ui"
"""
    with running(tmp_path_factory.mktemp("codes"), config) as broker:
        url = f"http://localhost:{broker.http_port}"
        with httpx.Client(base_url=url, trust_env=False) as browser:
            assert browser.get("/api/auth").json()["oauth_enabled"] is True
            gone = urlsplit(browser.get("/api/session/oauth").headers["location"])
            asked = dict(parse_qsl(gone.query))
            issuer.challenge = asked["code_challenge"]
            back = browser.get(
                urlsplit(asked["redirect_uri"]).path,
                params={"code": "good", "state": asked["state"]},
                headers={"sec-fetch-site": "cross-site"},
            )
            assert (back.status_code, back.headers["location"]) == (302, "/")
            session = browser.get("/api/session").json()
            assert (session["name"], session["tags"]) == ("jo", ["administrator"])
            # It ends with the token, which the issuer has given for a minute.
            seconds = session["expires_at_ms"] / 1000
            assert 0 < seconds - float(json.loads(_claims(token(issuer)))["exp"]) + 60 < 61
            made = browser.put("/api/vhosts/x", headers={"x-leporid-page": "1"})
            assert made.status_code == 201
            # A code counts once at the issuer, and in no browser that has not begun the login.
            again = browser.get(
                urlsplit(asked["redirect_uri"]).path,
                params={"code": "good", "state": asked["state"]},
            )
            assert again.status_code == 401
        assert issuer.forms[0]["redirect_uri"] == asked["redirect_uri"]
        log = broker.log_path.read_text()
    assert "GET /api/session/oauth/callback by 'jo'" in log
    assert "good" not in log


def _claims(made: str) -> bytes:
    claims = made.split(".")[1]
    return base64.urlsafe_b64decode(claims + "=" * (-len(claims) % 4))


async def test_one_address_has_half_of_the_requests(issuer: CodeIssuer, logins: CodeLogins):
    await logins.start("a", BACK, "state", "challenge")
    share = logins._share
    slot = share.take("a")
    waiting = asyncio.create_task(logins.exchange("a", "c", "v", BACK))
    await asyncio.sleep(0)
    assert share.waiting == 1
    with pytest.raises(Refusal, match="refuses the login"):
        await logins.exchange("b", "c", "v", BACK)
    slot.release()
    with pytest.raises(Refusal, match="refuses the login"):
        await waiting
