"""Virtual hosts over HTTP: RabbitMQ's routes, answers and refusals.

Responsible for making, describing, listing and deleting them. Must not know what is in one.
Invariant: the answer to a deletion leaves when all of it is gone, and that is on disk.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from starlette.responses import JSONResponse, Response

from leporid.broker.access import tags
from leporid.broker.access.permissions import EVERYTHING
from leporid.broker.queue.queue_types import QUEUE_TYPES
from leporid.management.authorization import administrator, manager, not_found
from leporid.management.parameters import object_of, raw_body_of, text_in
from leporid.management.paths import name_of
from leporid.management.refusals import bad_request
from leporid.management.users import new_name, tags_of

if TYPE_CHECKING:
    from starlette.requests import Request

    from leporid.broker.vhost import VirtualHost
    from leporid.management.surroundings import Surroundings

DESCRIPTION_BYTES_MAX = 4096
UNDEFINED = "undefined"
"""The default type of queues where nobody has said one; RabbitMQ's word."""


class VhostRoutes:
    """The handlers.

    Args:
        around: the broker.
    """

    def __init__(self, around: Surroundings) -> None:
        self._around = around

    async def listing(self, request: Request) -> Response:
        """GET /api/vhosts: those that the user sees."""
        user = await manager(self._around, request)
        found = tags.visible_vhosts(user, self._around.broker.vhosts.values())
        found.sort(key=lambda vhost: vhost.name)
        return self._around.listing(user, map(self._shown, found))

    async def show(self, request: Request) -> Response:
        """GET /api/vhosts/{name}."""
        await administrator(self._around, request)
        vhost = self._around.broker.vhosts.get(name_of(request, "name"))
        if vhost is None:
            raise not_found()
        return JSONResponse(self._shown(vhost))

    async def put(self, request: Request) -> Response:
        """PUT /api/vhosts/{name}: 201 when it is new, 204 when there was one.

        Whoever makes one has all permissions in it, as in RabbitMQ. One that is being deleted is
        made anew when it is gone.
        """
        around = self._around
        user = await administrator(around, request)
        name = new_name(name_of(request, "name"))
        data = await raw_body_of(around.admission, request, user)
        around.check_unchanged(user)
        given = object_of(around.admission, data)
        description, own_tags, queue_type = _metadata(given)
        new = await around.job(lambda: around.broker.adding_vhost(name))
        vhost = around.broker.vhosts.get(name)
        if vhost is None:
            raise not_found()  # it was deleted at once
        if new and around.broker.access.user(user.name) is not None:
            around.broker.users.permit(user.name, name, EVERYTHING)
        if new or given:
            # What is not given stays as it was.
            vhost.describe(
                description if "description" in given else vhost.description,
                own_tags if "tags" in given else vhost.tags,
                queue_type if "default_queue_type" in given else vhost.default_queue_type,
            )
        await around.recorded(user)
        return Response(status_code=201 if new else 204)

    async def delete(self, request: Request) -> Response:
        """DELETE /api/vhosts/{name}: with all that is in it; connections to it are closed."""
        around = self._around
        user, name = await administrator(around, request), name_of(request, "name")
        if name not in around.broker.vhosts:
            raise not_found()
        await around.job(lambda: around.broker.dropping_vhost(name))
        await around.recorded(user)
        return Response(status_code=204)

    def _shown(self, vhost: VirtualHost) -> dict[str, Any]:
        found = vhost.statistics()
        own = {"description": vhost.description, "tags": list(vhost.tags)}
        queue_type = vhost.default_queue_type
        typed = {"default_queue_type": queue_type} if queue_type else {}
        return {
            "name": vhost.name,
            **own,
            "default_queue_type": queue_type or UNDEFINED,
            "metadata": {**own, **typed},
            "tracing": False,
            "cluster_state": {self._around.node_name: "running"},
            "messages": found.ready_count + found.unacked_count,
            "messages_ready": found.ready_count,
            "messages_unacknowledged": found.unacked_count,
        }


def _metadata(given: dict[str, Any]) -> tuple[str, list[str], str]:
    """Read what a virtual host is for; raises Refusal."""
    description = ""
    if given.get("description") is not None:
        description = text_in(given, "description", DESCRIPTION_BYTES_MAX)
    own_tags = tags_of(given.get("tags") or [])
    queue_type = given.get("default_queue_type") or ""
    if queue_type in ("", UNDEFINED):
        return description, own_tags, ""
    if queue_type not in QUEUE_TYPES:
        known = ", ".join(f"'{each}'" for each in QUEUE_TYPES)
        raise bad_request(f"unsupported default_queue_type; there are {known}")
    return description, own_tags, queue_type
