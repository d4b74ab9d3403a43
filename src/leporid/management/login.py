"""Who asks: HTTP Basic, checked against the broker's own users.

Responsible for the header and for having passwords hashed where it does not stop the broker. Must
not know what a user may do. Invariant: whoever is refused is told the same, whatever the reason;
what was verified is remembered by `broker.access`, bound to the stored hash, so that a client that
asks often pays for one hash.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Final

from starlette.requests import Request

from leporid.amqp.errors import AccessRefused
from leporid.broker.access.access import Access, Credentials, User
from leporid.management.refusals import Refusal

CHALLENGE: Final = {"www-authenticate": 'Basic realm="Leporid", charset="UTF-8"'}


class Login:
    """Finds out which user a request is from.

    Args:
        access: the broker's users.
        is_loopback: whether a peer's address is of this machine.
        pool: hashes passwords; how many at a time bounds what strangers can make us do.
    """

    def __init__(self, access: Access, is_loopback: Callable[[str], bool], pool: Executor) -> None:
        self._access = access
        self._is_loopback = is_loopback
        self._pool = pool

    async def user(self, request: Request) -> User:
        """Return the user; raises Refusal (401) without one."""
        credentials = _credentials(request.headers.get("authorization", ""))
        if self._access.needs_hashing(credentials):
            loop = asyncio.get_running_loop()
            await loop.run_in_executor(self._pool, self._access.verify, credentials)
        loopback = request.client is not None and self._is_loopback(request.client.host)
        try:
            return self._access.admit(credentials, loopback)
        except AccessRefused:
            raise _unauthorized("user name and password were refused") from None


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
