"""The broker as a whole: overview, what it has of RabbitMQ's features.

Responsible for the routes that name no object. Must not know how totals are counted (`rates`).
Invariant: nothing here goes through objects of which there may be many.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from leporid.broker.access.tags import may_monitor
from leporid.management.authorization import administrator, manager, not_found
from leporid.management.nodes import contexts, exchange_types, listeners
from leporid.management.paging import columns_in
from leporid.management.paths import name_of
from leporid.management.rates import CHURN, MESSAGES, RINGS, TOTALS
from leporid.management.refusals import bad_request
from leporid.management.sample_routes import ages_in

if TYPE_CHECKING:
    from leporid.broker.vhost import VirtualHost
    from leporid.management.surroundings import Surroundings

RABBITMQ_VERSION: Final = "3.10.8"
"""The version of RabbitMQ whose answers these are; clients look at it to know what they may ask."""

FEATURE_FLAGS: Final = (
    "classic_mirrored_queue_version",
    "drop_unroutable_metric",
    "empty_basic_get_metric",
    "implicit_default_bindings",
    "maintenance_mode_status",
    "quorum_queue",
    "stream_queue",
    "user_limits",
    "virtual_host_metadata",
)
"""RabbitMQ 3.10's; what each stands for is there, or nothing that one node could have."""


class OverviewRoutes:
    """The handlers."""

    def __init__(self, around: Surroundings) -> None:
        self._around = around

    async def overview(self, request: Request) -> Response:
        """GET /api/overview."""
        user = await manager(self._around, request)
        around = self._around
        node, samples = around.node(), around.samples
        vhosts = await around.seen_vhosts(user)
        identity = around.broker.identity
        shown: dict[str, Any] = {
            "management_version": RABBITMQ_VERSION,
            "rates_mode": "basic",
            "sample_retention_policies": {
                name: [seconds * (count - 1) for seconds, count in RINGS]
                for name in ("global", "basic", "detailed")
            },
            "exchange_types": exchange_types(),
            "product_version": identity.get("version", ""),
            "product_name": identity["product"],
            "rabbitmq_version": RABBITMQ_VERSION,
            "cluster_name": around.broker.cluster_name,
            "disable_stats": False,
            "enable_queue_totals": True,
            "object_totals": self._object_totals(vhosts, of_all=may_monitor(user)),
            "statistics_db_event_queue": 0,
            "node": node.name,
            "listeners": listeners(node),
            "contexts": contexts(node),
        }
        if may_monitor(user):
            ages = ages_in(around, request, "msg_rates")
            shown["message_stats"] = samples.stats(MESSAGES, ages)
            shown["churn_rates"] = samples.stats(CHURN, ages)
            shown["queue_totals"] = samples.stats(TOTALS, ages_in(around, request, "lengths"))
        else:
            shown["message_stats"] = {}
            shown["queue_totals"] = _queue_totals(vhosts)
        columns = columns_in(request)
        return around.listing(user, shown if columns is None else columns.of_shown(shown))

    def _object_totals(self, vhosts: list[VirtualHost], *, of_all: bool) -> dict[str, int]:
        broker = self._around.broker
        found = {
            "queues": sum(vhost.queue_count for vhost in vhosts),
            "exchanges": sum(vhost.exchange_count for vhost in vhosts),
            "consumers": sum(vhost.consumers.count for vhost in vhosts),
        }
        if of_all:
            found |= {
                "connections": len(broker.sessions),
                "channels": broker.session_index.channel_count,
            }
        return found

    async def extensions(self, request: Request) -> Response:
        """GET /api/extensions: what is there beside RabbitMQ's own routes."""
        await manager(self._around, request)
        return JSONResponse([])

    async def feature_flags(self, request: Request) -> Response:
        """GET /api/feature-flags: all are on."""
        await administrator(self._around, request)
        return JSONResponse(
            [
                {
                    "name": name,
                    "desc": "",
                    "doc_url": "",
                    "stability": "stable",
                    "state": "enabled",
                    "provided_by": "leporid",
                }
                for name in FEATURE_FLAGS
            ]
        )

    async def enable(self, request: Request) -> Response:
        """PUT /api/feature-flags/{name}/enable: 204, as all of them are on; 400 without it."""
        await administrator(self._around, request)
        if name_of(request, "name") not in FEATURE_FLAGS:
            raise bad_request("there is no such feature flag")
        return Response(status_code=204)

    async def version(self, request: Request) -> Response:
        """GET /api/version: the version of RabbitMQ whose answers these are."""
        await manager(self._around, request)
        return JSONResponse(RABBITMQ_VERSION)

    async def reset(self, request: Request) -> Response:
        """DELETE /api/reset[/{node}]: the samples that rates are made of are forgotten."""
        await administrator(self._around, request)
        if "node" in request.path_params and not self._around.is_node(name_of(request, "node")):
            raise not_found()
        self._around.samples.reset()
        return Response(status_code=204)

    async def rebalance(self, request: Request) -> Response:
        """POST /api/rebalance/queues: on one node they are balanced."""
        await administrator(self._around, request)
        return Response(status_code=204)

    async def deprecated(self, request: Request) -> Response:
        """GET /api/deprecated-features[/used]: there are none."""
        await administrator(self._around, request)
        return JSONResponse([])


def _queue_totals(vhosts: list[VirtualHost]) -> dict[str, int]:
    ready = sum(vhost.totals.ready + vhost.totals.held for vhost in vhosts)
    unacked = sum(vhost.totals.unacked for vhost in vhosts)
    return {
        "messages": ready + unacked,
        "messages_ready": ready,
        "messages_unacknowledged": unacked,
    }
