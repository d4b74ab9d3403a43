"""Who asks: HTTP Basic, checked against the broker's own users.

Responsible for the header, and for waiting until the password is hashed, as long as the client
does. Must not know what a user may do, nor whose turn it is. Invariant: whoever is refused is told
the same, whatever the reason; what was verified is remembered by `broker.access`, bound to the
stored hash, so that a client that asks often pays for one hash.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
from typing import TYPE_CHECKING, Final

from starlette.requests import Request

from leporid.amqp.errors import AccessRefused
from leporid.broker.access.access import Credentials, User
from leporid.broker.access.logins import TooManyLogins
from leporid.limits.shares import address_key
from leporid.management.refusals import Refusal, busy

if TYPE_CHECKING:
    from leporid.broker.broker import Broker

CHALLENGE: Final = {"www-authenticate": 'Basic realm="Leporid", charset="UTF-8"'}


class BasicLogin:
    """Finds out which user a request is from.

    Args:
        broker: whose users there are.
    """

    def __init__(self, broker: Broker) -> None:
        self._access = broker.access
        self._logins = broker.logins

    async def user(self, request: Request, *, loopback: bool) -> User:
        """Return the user.

        Args:
            request: whose.
            loopback: whether it comes from this machine.

        Raises:
            Refusal: there is none (401), or too many wait already (429, 503).
        """
        credentials = _credentials(request.headers.get("authorization", ""))
        try:
            await self._hashed(request, credentials, loopback=loopback)
            return self._access.admit(credentials, loopback)
        except TooManyLogins as full:
            raise _too_many(full) from None
        except AccessRefused:
            raise _unauthorized("user name and password were refused") from None

    async def _hashed(self, request: Request, credentials: Credentials, *, loopback: bool) -> None:
        """Return when the password is hashed, if it must be."""
        answer: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def answered(refusal: TooManyLogins | None) -> None:
            if answer.done():
                return  # the request was cancelled
            if refusal is None:
                answer.set_result(None)
            else:
                answer.set_exception(refusal)

        address = address_key("" if request.client is None else request.client.host)
        login = self._logins.begin(credentials, address, loopback=loopback, answered=answered)
        if login is None:
            return
        gone = asyncio.ensure_future(request.state.gone.wait())
        try:
            await asyncio.wait({answer, gone}, return_when=asyncio.FIRST_COMPLETED)
            if not answer.done():
                raise busy("the client is gone")  # nobody hears it
            answer.result()
        finally:
            gone.cancel()
            login.leave()


def _credentials(header: str) -> Credentials:
    scheme, _, value = header.partition(" ")
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
    return Refusal(401, "unauthorized", reason, headers=CHALLENGE)


def _too_many(full: TooManyLogins) -> Refusal:
    if full.own:
        return Refusal(429, "too-many-logins", full.why, headers={"retry-after": "1"})
    return busy(full.why)
