"""Permissions and topic permissions over HTTP: RabbitMQ's routes, answers and refusals.

Responsible for these routes, and for who asks. Must not know what a permission allows. Invariant:
an answer that something was set or taken away leaves only when that is on disk; what it takes from
live connections ends within a second.
"""

from __future__ import annotations

from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final

from starlette.responses import JSONResponse, Response

from leporid.broker.access.permissions import Pattern, PatternError, Permissions
from leporid.broker.access.topics import TopicPermission
from leporid.broker.definitions.exporting import Items, permissions, topic_permissions
from leporid.management.authorization import administrator, not_found
from leporid.management.paging import Lists, Table
from leporid.management.parameters import object_of, raw_body_of, text_in
from leporid.management.paths import name_of
from leporid.management.refusals import bad_request
from leporid.management.users import NAME_BYTES_MAX

if TYPE_CHECKING:
    from starlette.requests import Request

    from leporid.broker.access.access import User
    from leporid.management.surroundings import Surroundings

RIGHTS: Final = ("configure", "write", "read")
TOPIC_RIGHTS: Final = ("write", "read")


class PermissionRoutes:
    """The handlers for both.

    Args:
        around: the broker.
        topics: whether they are for topic permissions.
    """

    def __init__(self, around: Surroundings, *, topics: bool = False) -> None:
        self._around = around
        self._topics = topics
        order = itemgetter("vhost", "user", "exchange") if topics else itemgetter("vhost", "user")
        table: Table[dict[str, Any]] = Table({}, order, dict)
        self._lists = Lists(around, table, lambda each: str(each["user"]))

    async def listing(self, request: Request) -> Response:
        """GET /api/permissions."""
        asking = await administrator(self._around, request)
        return await self._list(request, asking, self._of_all())

    async def of_user(self, request: Request) -> Response:
        """GET /api/users/{name}/permissions."""
        asking = await administrator(self._around, request)
        user = self._around.broker.access.user(name_of(request, "name"))
        if user is None:
            raise not_found()
        return await self._list(request, asking, self._of(user))

    async def of_vhost(self, request: Request) -> Response:
        """GET /api/vhosts/{name}/permissions."""
        asking, vhost = await administrator(self._around, request), name_of(request, "name")
        if vhost not in self._around.broker.vhosts:
            raise not_found()
        found = (one if one and one["vhost"] == vhost else None for one in self._of_all())
        return await self._list(request, asking, found)

    async def _list(self, request: Request, asking: User, found: Items) -> Response:
        users = self._around.broker.access
        count = sum(len(user.topics if self._topics else user.permissions) for user in users)
        return await self._lists.answer(request, asking, found, count)

    def _of_all(self) -> Items:
        return (one for user in tuple(self._around.broker.access) for one in self._of(user))

    async def show(self, request: Request) -> Response:
        """GET /api/permissions/{vhost}/{user}: of topic permissions a list."""
        asking = await administrator(self._around, request)
        vhost = name_of(request, "vhost")
        user = self._around.broker.access.user(name_of(request, "user"))
        of = () if user is None else self._of(user)
        found = [one for one in of if one is not None and one["vhost"] == vhost]
        if not found:
            raise not_found()
        return self._around.listing(asking, iter(found)) if self._topics else JSONResponse(found[0])

    async def put(self, request: Request) -> Response:
        """PUT /api/permissions/{vhost}/{user}: 201 when there were none, 204 when there were.

        Of topic permissions, those in the virtual host count together.
        """
        around = self._around
        asking = await administrator(around, request)
        vhost, name = name_of(request, "vhost"), name_of(request, "user")
        needed = ("exchange", *TOPIC_RIGHTS) if self._topics else RIGHTS
        data = await raw_body_of(around.admission, request, asking)
        around.check_unchanged(asking)
        given = object_of(around.admission, data, needed)
        user = around.broker.access.user(name)
        if user is None or vhost not in around.broker.vhosts:
            raise bad_request("vhost_or_user_not_found")
        patterns = {right: _pattern(given, right) for right in needed if right in RIGHTS}
        if self._topics:
            new = vhost not in user.topics
            exchange = text_in(given, "exchange", NAME_BYTES_MAX)
            permission = _topic_permission(patterns, name, vhost)
            around.broker.users.permit_topics(name, vhost, exchange, permission)
        else:
            new = around.broker.users.permit(name, vhost, Permissions(**patterns))
        await around.recorded(asking)
        return Response(status_code=201 if new else 204)

    async def delete(self, request: Request) -> Response:
        """DELETE /api/permissions/{vhost}/{user}; of topics also those of one exchange."""
        around = self._around
        asking = await administrator(around, request)
        vhost, name = name_of(request, "vhost"), name_of(request, "user")
        users = around.broker.users
        if users.access.user(name) is None:
            raise not_found()
        if self._topics:
            one = "exchange" in request.path_params
            exchange = name_of(request, "exchange") if one else None
            gone = users.forget_topics(name, vhost, exchange)
        else:
            gone = users.forbid(name, vhost)
        if not gone:
            raise not_found()
        await around.recorded(asking)
        return Response(status_code=204)

    def _of(self, user: User) -> Items:
        return topic_permissions(user) if self._topics else permissions(user)


def _pattern(given: dict[str, Any], right: str) -> Pattern:
    try:
        return Pattern(text_in(given, right))
    except PatternError as error:
        raise bad_request(f"invalid_regexp: {right} {error}") from None


def _topic_permission(patterns: dict[str, Pattern], name: str, vhost: str) -> TopicPermission:
    write, read = (patterns[right].text for right in TOPIC_RIGHTS)
    try:
        return TopicPermission.of(write, read, username=name, vhost=vhost)
    except PatternError as error:
        raise bad_request(f"invalid_regexp: with the names of user and vhost: {error}") from None
