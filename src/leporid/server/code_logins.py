"""Logins of OAuth 2 by a browser: the authorization code flow with PKCE, on the broker's side.

Responsible for where the issuer's endpoints are, and for turning a code into a token (RFC 6749 4.1,
RFC 7636). Must not know browsers, cookies or sessions (`management.sign_on`), nor what a token says
(`tokens`). Invariants: requests are sent on threads, REQUESTS_MAX at a time, of which one address
has half; codes, tokens and the client's secret stand in no message.
"""

from __future__ import annotations

import asyncio
import base64
import json
import time
from collections.abc import Callable, Hashable
from concurrent.futures import Executor
from typing import Any, Final
from urllib.parse import quote, urlencode

from leporid.limits.refusals import Refusals
from leporid.limits.shares import Share
from leporid.management.admission import holding
from leporid.management.refusals import Refusal, busy
from leporid.server.oauth_settings import OAuth2
from leporid.server.outgoing import Endpoint, OutgoingError, ask, trusting, url
from leporid.server.settings import ConfigError
from leporid.server.token_logins import DISCOVERY

NAME: Final = "oauth_exchanges"
"""As refusals name the limit."""
REQUESTS_MAX: Final = 2
WAITING_MAX: Final = 64
ASK_S: Final = 5.0
ANSWER_BYTES_MAX: Final = 256 * 1024
# Endpoints hardly ever move.
KNOWN_S: Final = 3600.0
FORM: Final = "application/x-www-form-urlencoded"


class CodeLogins:
    """The flow with one issuer.

    Args:
        settings: whole and checked; with a client.
        pool: where requests are sent.
        refusals: where those are counted that found no place to wait.
        monotonic: seconds.
    """

    def __init__(
        self,
        settings: OAuth2,
        pool: Executor,
        refusals: Refusals,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        assert settings.client_id is not None
        self._settings = settings
        self._client_id = settings.client_id
        self._pool = pool
        self._monotonic = monotonic
        self._context = trusting(settings.ca)
        self._share = Share(NAME, REQUESTS_MAX, refusals, WAITING_MAX)
        self._endpoints: tuple[str, str] | None = None
        self._known_at = 0.0
        if settings.authorization_endpoint and settings.token_endpoint:
            self._endpoints = settings.authorization_endpoint, settings.token_endpoint

    def __repr__(self) -> str:
        return f"<CodeLogins of {self._client_id!r}>"

    async def start(self, address: Hashable, back: str, state: str, challenge: str) -> str:
        """Return where the browser goes to.

        Args:
            address: whose request it is.
            back: where the issuer sends it then.
            state: what it brings back.
            challenge: the SHA-256 of the verifier (PKCE, S256).

        Raises:
            Refusal: the issuer does not say where, or too many wait.
        """
        endpoint, _ = await self._known(address)
        given = {
            "response_type": "code",
            "client_id": self._client_id,
            "redirect_uri": back,
            "scope": " ".join(self._settings.scopes),
            "state": state,
            "code_challenge": challenge,
            "code_challenge_method": "S256",
        }
        return f"{endpoint}{'&' if '?' in endpoint else '?'}{urlencode(given, quote_via=quote)}"

    async def exchange(self, address: Hashable, code: str, verifier: str, back: str) -> bytes:
        """Return the token for a code.

        Raises:
            Refusal: the issuer refuses the code (401), or gives no answer that can be used (503).
        """
        _, endpoint = await self._known(address)
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": back,
            "client_id": self._client_id,
            "code_verifier": verifier,
        }
        headers = {"content-type": FORM, "accept": "application/json"}
        secret = self._settings.client_secret
        if secret is not None:
            # RFC 6749, 2.3.1: both are encoded as in a form first.
            pair = f"{quote(self._client_id, safe='')}:{quote(secret, safe='')}"
            headers["authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
        status, answer = await self._ask(
            address, Endpoint(endpoint, self._context), urlencode(form).encode(), headers
        )
        if status != 200:
            raise Refusal(401, "not_authorized", f"the issuer refuses the login (HTTP {status})")
        try:
            found = json.loads(answer)
            token, kind = found["access_token"], found["token_type"]
            if str(kind).lower() != "bearer":
                raise ValueError(kind)
            return bytes(token.encode("ascii"))
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            raise busy("the issuer's answer has no token that can be used") from None

    async def _known(self, address: Hashable) -> tuple[str, str]:
        """Return where one logs in, and where codes are exchanged."""
        given = self._settings.authorization_endpoint and self._settings.token_endpoint
        fresh = self._monotonic() - self._known_at < KNOWN_S
        if self._endpoints is not None and (given or fresh):
            return self._endpoints
        issuer = (self._settings.issuer or "").rstrip("/")
        status, answer = await self._ask(address, Endpoint(issuer + DISCOVERY, self._context))
        if status != 200:
            raise busy(f"the issuer does not say where one logs in (HTTP {status})")
        try:
            document = json.loads(answer)
            self._endpoints = (
                self._endpoint(document, "authorization_endpoint"),
                self._endpoint(document, "token_endpoint"),
            )
        except (ValueError, KeyError, TypeError, RecursionError, ConfigError):
            raise busy("the issuer does not say where one logs in") from None
        self._known_at = self._monotonic()
        return self._endpoints

    def _endpoint(self, document: Any, name: str) -> str:
        own: str | None = getattr(self._settings, name)
        found = own or url(name, document[name])
        if (self._settings.issuer or "").startswith("https:") and not found.startswith("https:"):
            raise ValueError(name)
        return found

    async def _ask(
        self,
        address: Hashable,
        endpoint: Endpoint,
        body: bytes | None = None,
        headers: dict[str, str] | None = None,
    ) -> tuple[int, bytes]:
        def send() -> tuple[int, bytes]:
            return ask(
                endpoint, seconds=ASK_S, bytes_max=ANSWER_BYTES_MAX, body=body, headers=headers
            )

        async with holding(self._share, address):
            try:
                return await asyncio.get_running_loop().run_in_executor(self._pool, send)
            except OutgoingError as error:
                raise busy(f"the issuer cannot be asked: {error}") from None
