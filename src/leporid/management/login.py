"""Who asks: HTTP Basic or a token (Bearer, RFC 6750), checked as logins over AMQP are.

A session's cookie is `sessions`' matter, which asks here once, when somebody logs in by the form.

Responsible for the header, and for waiting until the password is hashed, as long as the client
does. Must not know what a user may do, nor whose turn it is. Invariant: whoever is refused is told
the same, whatever the reason, but for who knows the password and comes from elsewhere, and who has
a token that has expired; what was verified is remembered by `broker.access`, bound to the stored
hash, so that a client that asks often pays for one hash.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
from typing import TYPE_CHECKING, Final

from starlette.requests import Request

from leporid.amqp.errors import AccessRefused
from leporid.broker.access.access import Credentials, User
from leporid.broker.access.backends import BEARER, UNTOLD, LoginRequest, TokenRefused
from leporid.broker.access.logins import TooManyLogins
from leporid.limits.shares import address_key
from leporid.management.refusals import Refusal, busy, token_refused

if TYPE_CHECKING:
    from leporid.broker.broker import Broker

# RabbitMQ's realm: programs send a password to the realm that they were told of alone.
CHALLENGE: Final = {"www-authenticate": 'Basic realm="RabbitMQ Management", charset="UTF-8"'}

# RabbitMQ's words, for programs that look at them.
FAILED: Final = "Login failed"
ONLY_LOCAL: Final = "User can only log in via localhost"


class BasicLogin:
    """Finds out which user a request is from.

    Args:
        broker: whose users there are.
    """

    def __init__(self, broker: Broker) -> None:
        self._access = broker.access
        self._backends = broker.backends

    async def user(self, request: Request, *, loopback: bool) -> User:
        """Return the user.

        Args:
            request: whose.
            loopback: whether it comes from this machine.

        Raises:
            Refusal: there is none (401), or too many wait already (429, 503).
        """
        credentials = _credentials(request.headers.get("authorization", ""))
        return await self.check(request, credentials, loopback=loopback)

    async def check(self, request: Request, credentials: Credentials, *, loopback: bool) -> User:
        """Return the user of a name and a password, or of a token; as `user`."""
        host = "" if request.client is None else request.client.host
        login = LoginRequest(credentials, address_key(host), loopback, host)
        found = await self._found(request, login)
        if isinstance(found, User):
            return found
        if isinstance(found, TooManyLogins):
            raise _too_many(found)
        if credentials.mechanism == BEARER:
            raise token_refused(found.told if isinstance(found, TokenRefused) else UNTOLD)
        local = self._backends.ask_internal and self._access.is_refused_as_remote(
            credentials, loopback
        )
        raise _unauthorized(ONLY_LOCAL if local else FAILED)

    async def _found(self, request: Request, login: LoginRequest) -> User | AccessRefused:
        """Return who it is, or the refusal, when that is known."""
        answer: asyncio.Future[User | AccessRefused] = asyncio.get_running_loop().create_future()

        def answered(found: User | AccessRefused) -> None:
            if not answer.done():  # else the request was cancelled
                answer.set_result(found)

        attempt = self._backends.log_in(login, answered)
        if attempt.ended:
            return answer.result()
        gone = asyncio.ensure_future(request.state.gone.wait())
        try:
            await asyncio.wait({answer, gone}, return_when=asyncio.FIRST_COMPLETED)
            if not answer.done():
                raise busy("the client is gone")  # nobody hears it
            return answer.result()
        finally:
            gone.cancel()
            attempt.leave()


def _credentials(header: str) -> Credentials:
    scheme, _, value = header.partition(" ")
    if scheme.lower() == "bearer":
        return Credentials(BEARER, "", value.strip().encode())
    if scheme.lower() != "basic":
        raise _unauthorized("send user name and password (HTTP Basic)")
    try:
        raw = base64.b64decode(value.strip(), validate=True)
    except (binascii.Error, ValueError):
        raise _unauthorized("the authorization header is not base64") from None
    name, colon, password = raw.partition(b":")
    if not colon:
        raise _unauthorized("the authorization header has no password")
    return Credentials("Basic", name.decode("utf-8", "surrogateescape"), password)


def _unauthorized(reason: str) -> Refusal:
    return Refusal(401, "not_authorized", reason, headers=CHALLENGE)


def _too_many(full: TooManyLogins) -> Refusal:
    if full.own:
        return Refusal(429, "too-many-logins", full.why, headers={"retry-after": "1"})
    return busy(full.why)
