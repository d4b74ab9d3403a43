"""Log in to the web UI by OAuth 2: the browser goes to the issuer, and comes back with a code.

Responsible for the two routes, and for the cookie between them. Must not know how a code becomes a
token (`SignOn`), nor what a token says: it logs in as any other does. Invariants: the broker keeps
nothing of a login that has begun; a code counts only in the browser that has begun the login, which
has the verifier in a cookie; nothing of a code or token is in an answer, an address or the log.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
import secrets
from collections.abc import Hashable
from typing import TYPE_CHECKING, Final, Protocol

from starlette.responses import PlainTextResponse, Response

from leporid.broker.access.access import Credentials
from leporid.broker.access.backends import BEARER
from leporid.broker.events.actor import set_actor
from leporid.limits.shares import address_key
from leporid.management import hosts
from leporid.management.authorization import not_found
from leporid.management.login import BasicLogin
from leporid.management.paths import takes, visit_of
from leporid.management.refusals import Refusal
from leporid.management.session_routes import begin_session
from leporid.management.sessions import cookie_in, is_secure

if TYPE_CHECKING:
    from starlette.requests import Request

    from leporid.management.surroundings import Surroundings

PATH: Final = "/api/session/oauth"
CALLBACK: Final = PATH + "/callback"
COOKIE: Final = "leporid_sign_on"
HOST_PREFIX: Final = "__Host-"
# As long as somebody may take to log in at the issuer.
SECONDS: Final = 600
# RFC 7636, 4.1: of 43 to 128 characters.
VERIFIER_BYTES: Final = 32
VERIFIER: Final = re.compile(r"[A-Za-z0-9_-]{43}")
CODE_CHARACTERS_MAX: Final = 4096
TEXT: Final = {"type": "string"}


class SignOn(Protocol):
    """The issuer (`server.code_logins.CodeLogins`)."""

    async def start(self, address: Hashable, back: str, state: str, challenge: str) -> str:
        """Return where the browser goes to; raises Refusal."""

    async def exchange(self, address: Hashable, code: str, verifier: str, back: str) -> bytes:
        """Return the token for a code; raises Refusal."""


class SignOnRoutes:
    """The handlers.

    Args:
        around: the broker.
    """

    def __init__(self, around: Surroundings) -> None:
        self._around = around

    async def start(self, request: Request) -> Response:
        """GET /api/session/oauth: 302 to the issuer of tokens, where one logs in."""
        hosts.check(request, self._around.http_hosts)
        verifier = _text(secrets.token_bytes(VERIFIER_BYTES))
        place = await self._sign_on().start(
            _address(request), _back(request), _state(verifier), _digest(verifier)
        )
        return _redirect(place, _cookie(request, verifier, SECONDS))

    @takes(code=TEXT, state=TEXT, error=TEXT)
    async def callback(self, request: Request) -> Response:
        """GET /api/session/oauth/callback: 302 to the web UI, with a session."""
        try:
            answer = await self._log_in(request)
        except Refusal as refusal:
            self._around.audit.note(request, refusal.status, refusal.reason)
            if "text/html" not in request.headers.get("accept", ""):
                raise
            # Somebody sees this in a browser.
            text = f"{refusal.reason}\n\nTo try again, open {_origin(request)}/\n"
            answer = PlainTextResponse(text, refusal.status, refusal.headers)
            answer.headers.append("set-cookie", _cookie(request, "", 0))
            return answer
        self._around.audit.note(request, answer.status_code)
        return answer

    async def _log_in(self, request: Request) -> Response:
        around = self._around
        hosts.check(request, around.http_hosts)
        sign_on, given = self._sign_on(), request.query_params
        verifier = cookie_in(request, _cookie_name(request)) or ""
        # Whatever comes back counts only where the login was begun: nobody is logged in as somebody
        # else by an address that another page has them open.
        if VERIFIER.fullmatch(verifier) is None or not hmac.compare_digest(
            _state(verifier).encode(), given.get("state", "").encode("utf-8", "replace")
        ):
            raise _refused("this login was not begun in this browser, or too long ago")
        if "error" in given:
            raise _refused("the issuer has logged nobody in")
        code = given.get("code", "")
        if not 0 < len(code) <= CODE_CHARACTERS_MAX:
            raise _refused("the issuer has sent no code")
        token = await sign_on.exchange(_address(request), code, verifier, _back(request))
        loopback = hosts.is_of_this_machine(request, around.is_loopback)
        credentials = Credentials(BEARER, "", token)
        user = await BasicLogin(around.broker).check(request, credentials, loopback=loopback)
        visit_of(request).log_in(user)
        set_actor(user.name)
        _, cookie = begin_session(around, request, user, credentials)
        return _redirect("/", cookie, _cookie(request, "", 0))

    def _sign_on(self) -> SignOn:
        """Return it; raises Refusal (404) without."""
        if self._around.sign_on is None:
            raise not_found()
        return self._around.sign_on


def _refused(reason: str) -> Refusal:
    return Refusal(401, "not_authorized", reason)


def _address(request: Request) -> Hashable:
    return address_key("" if request.client is None else request.client.host)


def _origin(request: Request) -> str:
    """Return where the browser has us; its Host was checked."""
    return f"{'https' if is_secure(request) else 'http'}://{request.headers['host']}"


def _back(request: Request) -> str:
    return _origin(request) + CALLBACK


def _text(data: bytes) -> str:
    """Return base64url without padding (RFC 7636, appendix A)."""
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _digest(text: str) -> str:
    return _text(hashlib.sha256(text.encode()).digest())


def _state(verifier: str) -> str:
    """Return what the issuer hands back; it tells nothing of the verifier, nor of its challenge."""
    return _digest("state " + verifier)


def _cookie_name(request: Request) -> str:
    # With this prefix a browser takes the cookie only from us: not from another host of the same
    # domain, and not without TLS (RFC 6265bis, 4.1.3.2).
    return HOST_PREFIX + COOKIE if is_secure(request) else COOKIE


def _cookie(request: Request, value: str, seconds: int) -> str:
    # Lax: the browser comes back from another place.
    where = "/; Secure" if is_secure(request) else PATH
    return (
        f"{_cookie_name(request)}={value}; Path={where}; Max-Age={seconds}; HttpOnly; SameSite=Lax"
    )


def _redirect(place: str, *cookies: str) -> Response:
    answer = Response(
        status_code=302,
        headers={
            "location": place,
            "cache-control": "no-store",
            "referrer-policy": "no-referrer",
        },
    )
    for each in cookies:
        answer.headers.append("set-cookie", each)
    return answer
