"""The routes of the interface, joined.

Responsible for what belongs to every request: what its route costs, that what handlers raise
becomes an answer, and that JSON ends with the end of a line. Must not know what any route does.
Invariant: every path of this interface begins with /api/.
"""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from leporid.amqp.errors import Fault
from leporid.management.admission import (
    DEFINE,
    LEASE,
    LOOK,
    PUBLISH,
    REMOVE,
    REMOVE_CHOSEN,
    SEARCH,
    SHOW,
    TABLE,
    TRY,
    WAIT,
    Cost,
)
from leporid.management.browsing import BrowseRoutes
from leporid.management.delays import DelayRoutes
from leporid.management.filter_classes import FilterClassRoutes
from leporid.management.filter_counts import FilterCountRoutes
from leporid.management.groups import GroupRoutes
from leporid.management.leases import LeaseRoutes
from leporid.management.paths import CostedRoute, Handler, RawRoute
from leporid.management.policies import PolicyRoutes
from leporid.management.publishing import PublishRoutes
from leporid.management.readers import ReaderRoutes
from leporid.management.records import RecordRoutes
from leporid.management.refusals import Refusal, of_fault
from leporid.management.streams import StreamRoutes
from leporid.management.surroundings import Surroundings
from leporid.management.unknown_arguments import UnknownArgumentRoutes

STREAMS = "/api/streams/{vhost}"
STREAM = STREAMS + "/{stream}"
READER = STREAM + "/readers/{reader}"
QUEUE = "/api/queues/{vhost}/{queue}"
LEASES = QUEUE + "/leases"
ONE_LEASE = LEASES + "/{lease}"
GROUPS = "/api/groups/{vhost}/{stream}"
GROUP = GROUPS + "/{group}"
DELAYS = "/api/delays/{vhost}"
DELAYED = DELAYS + "/{exchange}"
FILTERS = "/api/filters"
CLASSES = "/api/filter-classes"
CLASS = CLASSES + "/{name}"
POLICIES = "/api/policies"
OPERATOR_POLICIES = "/api/operator-policies"


def routes(around: Surroundings) -> list[CostedRoute]:
    """Make all routes."""
    streams, records, readers = StreamRoutes(around), RecordRoutes(around), ReaderRoutes(around)
    browsing, leases, publishing = BrowseRoutes(around), LeaseRoutes(around), PublishRoutes(around)
    delays, groups = DelayRoutes(around), GroupRoutes(around)
    counts, classes = FilterCountRoutes(around), FilterClassRoutes(around)
    unknown = UnknownArgumentRoutes(around)

    def route(method: str, path: str, handler: Handler, cost: Cost) -> CostedRoute:
        return RawRoute(path, _answering(handler), method, cost, around.admission)

    def policy_routes(path: str, policies: PolicyRoutes) -> list[CostedRoute]:
        of_vhost, one = path + "/{vhost}", path + "/{vhost}/{name}"
        return [
            route("GET", path, policies.listing, LOOK),
            route("GET", of_vhost, policies.listing_of_vhost, LOOK),
            route("GET", one, policies.show, LOOK),
            route("PUT", one, policies.put, DEFINE),
            route("DELETE", one, policies.delete, REMOVE),
        ]

    return [
        route("GET", STREAMS, streams.listing, LOOK),
        route("GET", STREAM, streams.info, WAIT),
        route("PUT", STREAM, streams.declare, DEFINE),
        route("DELETE", STREAM, streams.delete, REMOVE),
        route("GET", STREAM + "/offset-for", streams.offset_for, LOOK),
        route("GET", STREAM + "/records", records.records, TABLE),
        route("GET", STREAM + "/readers", readers.listing, LOOK),
        route("GET", READER, readers.offset, LOOK),
        route("PUT", READER, readers.store, DEFINE),
        route("DELETE", READER, readers.forget, REMOVE),
        route("GET", QUEUE + "/messages", browsing.messages, TABLE),
        route("POST", LEASES, leases.take, LEASE),
        route("DELETE", ONE_LEASE, leases.acknowledge, REMOVE),
        route("GET", ONE_LEASE + "/messages", leases.messages, TABLE),
        route("POST", ONE_LEASE + "/release", leases.release, REMOVE),
        route("GET", GROUPS, groups.listing, LOOK),
        route("GET", GROUP, groups.info, LOOK),
        route("DELETE", GROUP, groups.forget, REMOVE),
        route("GET", DELAYS, delays.exchanges, LOOK),
        route("GET", DELAYED, delays.listing, SEARCH),
        route("DELETE", DELAYED, delays.cancel_several, REMOVE_CHOSEN),
        route("GET", DELAYED + "/{id}", delays.message, SHOW),
        route("DELETE", DELAYED + "/{id}", delays.cancel, REMOVE),
        route("POST", "/api/publish/{vhost}/{exchange}", publishing.publish, PUBLISH),
        route("GET", FILTERS, counts.whole, LOOK),
        route("GET", FILTERS + "/{vhost}", counts.places, LOOK),
        route("GET", "/api/unknown-arguments/{vhost}", unknown.listing, LOOK),
        route("GET", CLASSES, classes.listing, LOOK),
        route("GET", CLASS, classes.show, LOOK),
        route("PUT", CLASS, classes.put, TRY),
        route("DELETE", CLASS, classes.delete, REMOVE),
        *policy_routes(POLICIES, PolicyRoutes(around, operator=False)),
        *policy_routes(OPERATOR_POLICIES, PolicyRoutes(around, operator=True)),
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
