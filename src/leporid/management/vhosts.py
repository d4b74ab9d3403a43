"""Virtual hosts over HTTP: RabbitMQ's routes, answers and refusals.

Responsible for making, describing, listing and deleting them. Must not know what is in one.
Invariant: the answer to a deletion leaves when all of it is gone, and that is on disk.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from starlette.responses import JSONResponse, Response

from leporid.broker.access.permissions import EVERYTHING
from leporid.broker.queue.queue_types import QUEUE_TYPES
from leporid.management.authorization import administrator, manager, not_found
from leporid.management.paging import Lists, Table
from leporid.management.parameters import flag_in, object_of, raw_body_of, text_in
from leporid.management.paths import name_of, takes
from leporid.management.rates import DELIVERIES, TOTALS, deliveries, rates_of, with_rates
from leporid.management.refusals import Refusal, bad_request
from leporid.management.users import new_name, tags_of

if TYPE_CHECKING:
    from starlette.requests import Request

    from leporid.broker.vhost import VirtualHost
    from leporid.management.surroundings import Surroundings

DESCRIPTION_BYTES_MAX = 4096
STATS: Final = ("publish", *DELIVERIES)
UNDEFINED = "undefined"
"""The default type of queues where nobody has said one; RabbitMQ's word."""


class VhostRoutes:
    """The handlers.

    Args:
        around: the broker.
    """

    def __init__(self, around: Surroundings) -> None:
        self._around = around
        table: Table[VirtualHost] = Table(
            {"name": lambda each: each.name}, lambda each: (each.name,), self._shown
        )
        self._lists = Lists(around, table, lambda vhost: vhost.name)

    async def listing(self, request: Request) -> Response:
        """GET /api/vhosts: those that the user sees."""
        user = await manager(self._around, request)
        found = await self._around.seen_vhosts(user)
        return await self._lists.answer(request, user, found, len(found))

    async def show(self, request: Request) -> Response:
        """GET /api/vhosts/{name}."""
        await administrator(self._around, request)
        vhost = self._around.broker.vhosts.get(name_of(request, "name"))
        if vhost is None:
            raise not_found()
        return JSONResponse(self._shown(vhost))

    @takes(
        {
            "description": {"type": "string"},
            "tags": {"type": "string"},
            "default_queue_type": {"type": "string", "enum": list(QUEUE_TYPES)},
        }
    )
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
        traced = None if given.get("tracing") is None else flag_in(given, "tracing")
        new = await around.job(lambda: around.broker.adding_vhost(name))
        vhost = around.broker.vhosts.get(name)
        if vhost is None:
            raise not_found()  # it was deleted at once
        if new and not user.backend and around.broker.access.current(user) is not None:
            around.broker.users.permit(user.name, name, EVERYTHING)
        if new or given:
            # What is not given stays as it was.
            vhost.describe(
                description if "description" in given else vhost.description,
                own_tags if "tags" in given else vhost.tags,
                queue_type if "default_queue_type" in given else vhost.default_queue_type,
            )
        if traced is not None:
            sessions = around.broker.session_index.of_vhost(name)
            await around.job(lambda: vhost.tracing.setting(traced, sessions))
        await around.recorded(user)
        return Response(status_code=201 if new else 204)

    async def delete(self, request: Request) -> Response:
        """DELETE /api/vhosts/{name}: with all that is in it; connections to it are closed."""
        around = self._around
        user, name = await administrator(around, request), name_of(request, "name")
        vhost = around.broker.vhosts.get(name)
        if vhost is None:
            raise not_found()
        if vhost.protected:
            raise Refusal(
                412,
                "precondition_failed",
                f"Refusing to delete virtual host '{name}' because it is protected from deletion",
            )
        await around.job(lambda: around.broker.dropping_vhost(name))
        await around.recorded(user)
        return Response(status_code=204)

    async def protect(self, request: Request) -> Response:
        """POST /api/vhosts/{name}/deletion/protection: nobody deletes it any more."""
        return await self._protect(request, protected=True)

    async def unprotect(self, request: Request) -> Response:
        """DELETE /api/vhosts/{name}/deletion/protection: it may be deleted again."""
        return await self._protect(request, protected=False)

    async def _protect(self, request: Request, *, protected: bool) -> Response:
        user = await administrator(self._around, request)
        vhost = self._around.broker.vhosts.get(name_of(request, "name"))
        if vhost is None:
            raise not_found()
        vhost.protect(protected)
        await self._around.recorded(user)
        return Response(status_code=204)

    async def start(self, request: Request) -> Response:
        """POST /api/vhosts/{name}/start/{node}: each of them runs already."""
        await administrator(self._around, request)
        node, name = name_of(request, "node"), name_of(request, "name")
        if not self._around.is_node(node):
            raise bad_request(f"Request to node {node} failed with nodedown")
        if name not in self._around.broker.vhosts:
            raise bad_request(f"Request to node {node} failed with {{no_such_vhost,{name}}}")
        return Response(status_code=204)

    def _shown(self, vhost: VirtualHost) -> dict[str, Any]:
        own = {"description": vhost.description, "tags": list(vhost.tags)}
        queue_type = vhost.default_queue_type
        typed: dict[str, Any] = {"default_queue_type": queue_type} if queue_type else {}
        if vhost.protected:
            typed["protected_from_deletion"] = True
        return {
            "name": vhost.name,
            **own,
            "default_queue_type": queue_type or UNDEFINED,
            "metadata": {**own, **typed},
            "tracing": vhost.tracing.on,
            "cluster_state": {self._around.node_name: "running"},
            **self._counted(vhost),
        }

    def _counted(self, vhost: VirtualHost) -> dict[str, Any]:
        """Return its messages, and how fast they come and go."""
        totals = vhost.totals
        ready = totals.ready + totals.held
        lengths = ready + totals.unacked, ready, totals.unacked
        stats = (totals.published, *deliveries(vhost.deliveries))
        rates = rates_of(vhost, lengths + stats, self._around.monotonic())
        behind = len(lengths)
        shown = with_rates(TOTALS, lengths, rates[:behind])
        if any(stats):
            shown["message_stats"] = with_rates(STATS, stats, rates[behind:])
        return shown


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
