"""Arguments that are probably mistakes, over HTTP: which were given, for what, and by whom.

Responsible for this answer. Must not know which arguments exist, nor what becomes of others.
Invariant: whoever has no right on an exchange or a queue sees nothing of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING

from starlette.responses import Response

from leporid.broker.access.permissions import RIGHTS
from leporid.broker.access.remote_rights import decided
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
        return self._around.listing(user, {"unknown_arguments": _shown(user, found, vhost.name)})


def _shown(user: User, found: Iterable[UnknownArgument], vhost: str) -> Iterator[object]:
    """Those that a user sees; None, or the right that is waited for, for others."""
    for one in found:
        sees = yield from decided(partial(_sees, user, one, vhost))
        yield asdict(one) if sees else None


def _sees(user: User, one: UnknownArgument, vhost: str) -> bool:
    if one.kind == "policy":
        return may_make_policies(user)
    return any(user.may(right, one.kind, one.name, vhost) for right in RIGHTS)
