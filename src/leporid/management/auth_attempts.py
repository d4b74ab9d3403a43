"""How logins work here, and how many there were: RabbitMQ's routes about them.

Responsible for these routes. Must not know how a login is checked. Invariant: counts are by
protocol; peers and the names that they claim are not kept, as whoever fails to log in could fill
the memory with them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from starlette.responses import JSONResponse, Response

from leporid.broker.access.backends import BEARER
from leporid.management import hosts
from leporid.management.authorization import monitor, not_found
from leporid.management.paths import name_of

if TYPE_CHECKING:
    from starlette.requests import Request

    from leporid.broker.access.access import LoginAttempts, User
    from leporid.management.surroundings import Surroundings

OVER_HTTP: Final = frozenset({"Basic", BEARER})
"""The mechanisms that HTTP has; all others are AMQP's."""


class AuthAttemptRoutes:
    """The handlers of /api/auth/attempts.

    Args:
        around: the broker.
    """

    def __init__(self, around: Surroundings) -> None:
        self._around = around

    async def auth(self, request: Request) -> Response:
        """GET /api/auth: whether one logs in by OAuth 2, too; asked before the login."""
        hosts.check(request, self._around.http_hosts)
        shown = {
            "oauth_enabled": self._around.sign_on is not None,
            "enable_uaa": False,
            "uaa_client_id": "",
            "uaa_location": "",
        }
        return JSONResponse(shown)

    async def listing(self, request: Request) -> Response:
        """GET /api/auth/attempts/{node}: counts by protocol."""
        user = await self._enter(request)
        attempts = self._around.broker.access.attempts
        return self._around.listing(user, iter(_shown(attempts)))

    async def by_source(self, request: Request) -> Response:
        """GET /api/auth/attempts/{node}/source: sources are not kept, as in RabbitMQ by itself."""
        user = await self._enter(request)
        return self._around.listing(user, iter(()))

    async def reset(self, request: Request) -> Response:
        """DELETE /api/auth/attempts/{node}: counting begins anew."""
        await self._enter(request)
        self._around.broker.access.attempts.reset()
        return Response(status_code=204)

    async def _enter(self, request: Request) -> User:
        user = await monitor(self._around, request)
        if not self._around.is_node(name_of(request, "node")):
            raise not_found()
        return user


def _shown(attempts: LoginAttempts) -> list[dict[str, Any]]:
    found = []
    for protocol, over_http in (("amqp091", False), ("http", True)):
        granted, refused = (
            sum(count for name, count in counts.items() if (name in OVER_HTTP) == over_http)
            for counts in (attempts.granted, attempts.refused)
        )
        if granted or refused:
            found.append(
                {
                    "protocol": protocol,
                    "auth_attempts": granted + refused,
                    "auth_attempts_failed": refused,
                    "auth_attempts_succeeded": granted,
                }
            )
    return found
