"""The routes of the interface, joined.

Responsible for what belongs to every request: that what handlers raise becomes an answer, and that
JSON ends with the end of a line. Must not know what any route does. Invariant: every path of this
interface begins with /api/.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute

from leporid.amqp.errors import Fault
from leporid.management.answers import Room
from leporid.management.browsing import BrowseRoutes
from leporid.management.delays import DelayRoutes
from leporid.management.filter_classes import FilterClassRoutes
from leporid.management.filter_counts import FilterCountRoutes
from leporid.management.groups import GroupRoutes
from leporid.management.leases import LeaseRoutes
from leporid.management.paths import route
from leporid.management.policies import PolicyRoutes
from leporid.management.publishing import PublishRoutes
from leporid.management.readers import ReaderRoutes
from leporid.management.records import RecordRoutes
from leporid.management.refusals import Refusal, of_fault
from leporid.management.streams import StreamRoutes
from leporid.management.surroundings import Surroundings
from leporid.management.unknown_arguments import UnknownArgumentRoutes

Handler = Callable[[Request], Awaitable[Response]]

ONE = "/api/streams/{vhost}/{stream}"
QUEUE = "/api/queues/{vhost}/{queue}"
GROUPS = "/api/groups/{vhost}/{stream}"
DELAYS = "/api/delays/{vhost}"
FILTERS = "/api/filters"
CLASSES = "/api/filter-classes"
LEASE = QUEUE + "/leases/{lease}"


def routes(around: Surroundings) -> list[BaseRoute]:
    """Make all routes."""
    room = Room()
    streams, records = StreamRoutes(around), RecordRoutes(around, room)
    browsing, leases = BrowseRoutes(around, room), LeaseRoutes(around, room)
    readers, publishing = ReaderRoutes(around), PublishRoutes(around)
    delays, classes = DelayRoutes(around, room), FilterClassRoutes(around)
    groups, counts = GroupRoutes(around), FilterCountRoutes(around)
    unknown = UnknownArgumentRoutes(around)
    return [
        route("/api/streams/{vhost}", _answering(streams.listing), "GET"),
        route(ONE, _answering(streams.info), "GET"),
        route(ONE, _answering(streams.declare), "PUT"),
        route(ONE, _answering(streams.delete), "DELETE"),
        route(ONE + "/offset-for", _answering(streams.offset_for), "GET"),
        route(ONE + "/records", _answering(records.records), "GET"),
        route(ONE + "/readers", _answering(readers.listing), "GET"),
        route(ONE + "/readers/{reader}", _answering(readers.offset), "GET"),
        route(ONE + "/readers/{reader}", _answering(readers.store), "PUT"),
        route(ONE + "/readers/{reader}", _answering(readers.forget), "DELETE"),
        route(QUEUE + "/messages", _answering(browsing.messages), "GET"),
        route(QUEUE + "/leases", _answering(leases.take), "POST"),
        route(LEASE, _answering(leases.acknowledge), "DELETE"),
        route(LEASE + "/messages", _answering(leases.messages), "GET"),
        route(LEASE + "/release", _answering(leases.release), "POST"),
        route(GROUPS, _answering(groups.listing), "GET"),
        route(GROUPS + "/{group}", _answering(groups.info), "GET"),
        route(GROUPS + "/{group}", _answering(groups.forget), "DELETE"),
        route(DELAYS, _answering(delays.exchanges), "GET"),
        route(DELAYS + "/{exchange}", _answering(delays.listing), "GET"),
        route(DELAYS + "/{exchange}", _answering(delays.cancel_several), "DELETE"),
        route(DELAYS + "/{exchange}/{id}", _answering(delays.message), "GET"),
        route(DELAYS + "/{exchange}/{id}", _answering(delays.cancel), "DELETE"),
        route("/api/publish/{vhost}/{exchange}", _answering(publishing.publish), "POST"),
        route(FILTERS, _answering(counts.whole), "GET"),
        route(FILTERS + "/{vhost}", _answering(counts.places), "GET"),
        route("/api/unknown-arguments/{vhost}", _answering(unknown.listing), "GET"),
        route(CLASSES, _answering(classes.listing), "GET"),
        route(CLASSES + "/{name}", _answering(classes.show), "GET"),
        route(CLASSES + "/{name}", _answering(classes.put), "PUT"),
        route(CLASSES + "/{name}", _answering(classes.delete), "DELETE"),
        *_policy_routes("/api/policies", PolicyRoutes(around, operator=False)),
        *_policy_routes("/api/operator-policies", PolicyRoutes(around, operator=True)),
    ]


def _policy_routes(path: str, policies: PolicyRoutes) -> list[BaseRoute]:
    one = path + "/{vhost}/{name}"
    return [
        route(path, _answering(policies.listing), "GET"),
        route(path + "/{vhost}", _answering(policies.listing_of_vhost), "GET"),
        route(one, _answering(policies.show), "GET"),
        route(one, _answering(policies.put), "PUT"),
        route(one, _answering(policies.delete), "DELETE"),
    ]


def _answering(handler: Handler) -> Handler:
    async def answer(request: Request) -> Response:
        try:
            found = await handler(request)
        except Refusal as refusal:
            found = refusal.answer()
        except Fault as fault:
            found = of_fault(fault).answer()
        if isinstance(found, JSONResponse):
            # A text file ends so, and a terminal's prompt begins a line.
            found.body = bytes(found.body) + b"\n"
            found.headers["content-length"] = str(len(found.body))
        return found

    return answer
