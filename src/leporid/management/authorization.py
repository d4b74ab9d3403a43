"""Who may use RabbitMQ's routes: its rules, and its refusals.

Responsible for turning what `broker.access.tags` says into a user or into RabbitMQ's 401. Must not
know routes. Invariant: a user with none of the management's tags uses none of these routes,
whatever its permissions. Our own routes (streams, leases, …) ask for permissions, not for tags.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from leporid.broker.access import tags
from leporid.management.paths import name_of
from leporid.management.refusals import Refusal

if TYPE_CHECKING:
    from starlette.requests import Request

    from leporid.broker.access.access import User
    from leporid.broker.access.remote_rights import PendingRight
    from leporid.broker.vhost import VirtualHost
    from leporid.management.surroundings import Surroundings


def not_authorised(reason: str) -> Refusal:
    """Refuse as RabbitMQ does; it knows who asks, and says 401 all the same."""
    return Refusal(401, "not_authorised", reason)


def not_found() -> Refusal:
    """Say as RabbitMQ does that there is nothing of that name."""
    return Refusal(404, "Object Not Found", "Not Found")


async def answered(pending: PendingRight) -> None:
    """Wait until a right is known."""
    known: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def ready() -> None:
        if not known.done():  # else the request was cancelled
            known.set_result(None)

    leave = pending.ask(ready)
    try:
        await known
    finally:
        leave()


async def manager(around: Surroundings, request: Request) -> User:
    """Return who asks, if that is a user of the management.

    Raises:
        Refusal: as `Surroundings.user`, or the user has none of the tags.
    """
    user = await around.user(request)
    around.broker.handled += 1
    if not tags.may_manage(user):
        raise not_authorised("Not management user")
    return user


async def monitor(around: Surroundings, request: Request) -> User:
    """Return who asks, if that user may monitor; raises as `manager`."""
    user = await manager(around, request)
    if not tags.may_monitor(user):
        raise not_authorised("Not monitor user")
    return user


async def administrator(around: Surroundings, request: Request) -> User:
    """Return who asks, if that is an administrator; raises as `manager`."""
    user = await manager(around, request)
    if not tags.is_administrator(user):
        raise not_authorised("Not administrator user")
    return user


async def visitor(around: Surroundings, request: Request) -> tuple[User, VirtualHost]:
    """Return who asks, and the virtual host in the path, which that user may enter.

    As in RabbitMQ, who monitors needs permissions in it, too, to see what is there.

    Raises:
        Refusal: as `manager`; or there is no such virtual host (404); or the user may not enter it.
    """
    return await _at_vhost(around, request, tags.may_enter)


async def onlooker(around: Surroundings, request: Request) -> tuple[User, VirtualHost]:
    """Return who asks, and the virtual host in the path, which that user sees; raises as above."""
    return await _at_vhost(around, request, tags.may_see)


async def vhosts_listed(around: Surroundings, request: Request) -> tuple[User, list[VirtualHost]]:
    """Return who asks, and the virtual hosts whose objects are listed.

    That is the one in the path; without one, all that the user may enter, as in RabbitMQ.

    Raises:
        Refusal: as `visitor`.
    """
    if "vhost" in request.path_params:
        user, vhost = await visitor(around, request)
        return user, [vhost]
    user = await manager(around, request)
    return user, await around.entered_vhosts(user)


async def _at_vhost(
    around: Surroundings, request: Request, may: Callable[[User, str], bool]
) -> tuple[User, VirtualHost]:
    user = await manager(around, request)
    vhost = around.broker.vhosts.get(name_of(request, "vhost"))
    if vhost is None:
        raise not_found()
    if not await around.decided(lambda: may(user, vhost.name)):
        raise not_authorised("User not authorised to access virtual host")
    return user, vhost
