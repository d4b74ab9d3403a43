"""Arguments that are probably mistakes, over HTTP: which were given, for what, and by whom.

Responsible for this answer. Must not know which arguments exist, nor what becomes of others.
Invariant: whoever has no right on an exchange or a queue sees nothing of it.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from starlette.responses import Response

from leporid.broker.access.permissions import RIGHTS
from leporid.broker.access.tags import may_make_policies
from leporid.management.parameters import Parameters

if TYPE_CHECKING:
    from starlette.requests import Request

    from leporid.broker.access.access import User
    from leporid.broker.settings.unknown_arguments import UnknownArgument
    from leporid.management.surroundings import Surroundings


class UnknownArgumentRoutes:
    """The handlers."""

    def __init__(self, around: Surroundings) -> None:
        self._around = around

    async def listing(self, request: Request) -> Response:
        """GET /api/unknown-arguments/{vhost}: the newest since the start, the last one first."""
        user, vhost = await self._around.enter(request)
        Parameters(request, ())
        found = vhost.unknown_arguments.newest()
        shown = (asdict(one) if _sees(user, one, vhost.name) else None for one in found)
        return self._around.listing(user, {"unknown_arguments": shown})


def _sees(user: User, one: UnknownArgument, vhost: str) -> bool:
    if one.kind == "policy":
        return may_make_policies(user)
    return any(user.may(right, one.kind, one.name, vhost) for right in RIGHTS)
