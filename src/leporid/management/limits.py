"""Limits of virtual hosts and of users over HTTP: RabbitMQ's routes, answers and refusals.

Responsible for these routes, and for who asks. Must not know what a limit counts. Invariant: what
is there already stays when a limit is set below it; only what comes is refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from starlette.responses import Response

from leporid.broker.access.limits import USER_LIMITS, VALUE_MAX, VHOST_LIMITS
from leporid.management.authorization import administrator, manager, not_found, onlooker
from leporid.management.paging import Lists, Table
from leporid.management.parameters import object_of, raw_body_of
from leporid.management.paths import name_of, takes
from leporid.management.refusals import Refusal, bad_request

if TYPE_CHECKING:
    from starlette.requests import Request

    from leporid.broker.access.access import User
    from leporid.broker.vhost import VirtualHost
    from leporid.management.surroundings import Surroundings


class VhostLimitRoutes:
    """The handlers of /api/vhost-limits.

    Args:
        around: the broker.
    """

    def __init__(self, around: Surroundings) -> None:
        self._around = around
        fields = {"vhost": lambda vhost: vhost.name, "value": lambda vhost: dict(vhost.limits)}
        table: Table[VirtualHost] = Table(fields, lambda vhost: (vhost.name,))
        self._lists = Lists(around, table, lambda vhost: vhost.name)

    async def listing(self, request: Request) -> Response:
        """GET /api/vhost-limits: of the virtual hosts that the user sees, those with limits."""
        user = await manager(self._around, request)
        found = await self._around.seen_vhosts(user)
        limited = [vhost for vhost in found if vhost.limits]
        return await self._lists.answer(request, user, limited, len(limited))

    async def of_vhost(self, request: Request) -> Response:
        """GET /api/vhost-limits/{vhost}: a list with one member, or none."""
        user, vhost = await onlooker(self._around, request)
        value = dict(vhost.limits)
        shown = [{"vhost": vhost.name, "value": value}] if value else []
        return self._around.listing(user, iter(shown))

    @takes({"value": {"type": "integer", "required": True}})
    async def put(self, request: Request) -> Response:
        """PUT /api/vhost-limits/{vhost}/{limit}."""
        around = self._around
        user, name = await administrator(around, request), name_of(request, "limit")
        given = await _value(around, request, user)
        vhost = around.broker.vhosts.get(name_of(request, "vhost"))
        if vhost is None:
            raise Refusal(404, "not_found", "vhost_not_found")
        if name not in VHOST_LIMITS:
            raise bad_request(f"Validation failed\n\n{_unknown(name, given, 'limits')}\n")
        if not _is_number(given):
            raise bad_request(f"Validation failed\n\n{_no_number(name, given)}\n")
        vhost.limit(name, given)
        await around.recorded(user)
        return Response(status_code=204)

    async def delete(self, request: Request) -> Response:
        """DELETE /api/vhost-limits/{vhost}/{limit}: one that is not set is gone already."""
        around = self._around
        user = await administrator(around, request)
        vhost = around.broker.vhosts.get(name_of(request, "vhost"))
        if vhost is None:
            raise not_found()
        vhost.unlimit(name_of(request, "limit"))
        await around.recorded(user)
        return Response(status_code=204)


class UserLimitRoutes:
    """The handlers of /api/user-limits.

    Args:
        around: the broker.
    """

    def __init__(self, around: Surroundings) -> None:
        self._around = around
        fields = {"user": lambda user: user.name, "value": lambda user: dict(user.limits)}
        table: Table[User] = Table(fields, lambda user: (user.name,))
        self._lists = Lists(around, table, lambda user: user.name)

    async def listing(self, request: Request) -> Response:
        """GET /api/user-limits: those of users that have some."""
        user = await manager(self._around, request)
        limited = [each for each in self._around.broker.access if each.limits]
        return await self._lists.answer(request, user, limited, len(limited))

    async def of_user(self, request: Request) -> Response:
        """GET /api/user-limits/{user}: a list with one member, or none."""
        user = await manager(self._around, request)
        found = self._around.broker.access.user(name_of(request, "user"))
        if found is None:
            raise not_found()
        return self._around.listing(user, iter([_shown(found)] if found.limits else []))

    @takes({"value": {"type": "integer", "required": True}})
    async def put(self, request: Request) -> Response:
        """PUT /api/user-limits/{user}/{limit}."""
        around = self._around
        asking, limit = await administrator(around, request), name_of(request, "limit")
        given, name = await _value(around, request, asking), name_of(request, "user")
        if limit not in USER_LIMITS:
            raise bad_request(_unknown(limit, given, "user-limits"))
        if not _is_number(given):
            raise bad_request(_no_number(limit, given))
        if around.broker.access.user(name) is None:
            raise bad_request(f"no_such_user: {name}")
        around.broker.users.limit(name, limit, given)
        await around.recorded(asking)
        return Response(status_code=204)

    async def delete(self, request: Request) -> Response:
        """DELETE /api/user-limits/{user}/{limit}: one that is not set is gone already."""
        around = self._around
        asking, name = await administrator(around, request), name_of(request, "user")
        if around.broker.access.user(name) is None:
            raise not_found()
        around.broker.users.unlimit(name, name_of(request, "limit"))
        await around.recorded(asking)
        return Response(status_code=204)


def _shown(user: User) -> dict[str, Any]:
    return {"user": user.name, "value": dict(user.limits)}


async def _value(around: Surroundings, request: Request, user: User) -> Any:
    data = await raw_body_of(around.admission, request, user)
    around.check_unchanged(user)
    return object_of(around.admission, data, ("value",))["value"]


def _is_number(value: Any) -> bool:
    whole = isinstance(value, int) and not isinstance(value, bool)
    return whole and -VALUE_MAX <= value <= VALUE_MAX


def _unknown(name: str, value: Any, where: str) -> str:
    return f'Unrecognised terms [{{<<"{name}">>,{str(value)[:40]}}}] in {where}'


def _no_number(name: str, value: Any) -> str:
    shown = f'<<"{value[:40]}">>' if isinstance(value, str) else str(value)[:40]
    return f"{name} should be a number, actually was {shown}"
