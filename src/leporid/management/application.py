"""The routes of the interface, joined.

Responsible for what belongs to every request: what its route costs, that what handlers raise
becomes an answer, that administrative acts are in the audit log, and that JSON ends with the end of
a line. Must not know what any route does.
Invariant: every path of this interface begins with /api/.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from leporid.amqp.errors import Fault
from leporid.broker.access.remote_rights import RightPending
from leporid.management.admission import (
    ACT,
    ADMINISTER,
    ALIVE,
    BACK_UP,
    BROWSE,
    DEFINE,
    GET,
    IMPORT,
    LEASE,
    LIST,
    LIVE,
    LOG_IN,
    LOOK,
    MESSAGE,
    MOVE,
    PUBLISH,
    REMOVE,
    REMOVE_CHOSEN,
    SEARCH,
    SHOW,
    SIGN_ON,
    SWITCH,
    TABLE,
    TRY,
    WAIT,
    Cost,
)
from leporid.management.audit import AuditLog, AuditRoutes
from leporid.management.auth_attempts import AuthAttemptRoutes
from leporid.management.backups import BackupRoutes
from leporid.management.bindings import BindingRoutes
from leporid.management.browsing import BrowseRoutes
from leporid.management.channels import ChannelRoutes
from leporid.management.connections import ConnectionRoutes
from leporid.management.consumers import ConsumerRoutes
from leporid.management.dead_letters import DeadLetterRoutes
from leporid.management.definitions import DefinitionRoutes
from leporid.management.delays import DelayRoutes
from leporid.management.exchanges import ExchangeRoutes
from leporid.management.filter_classes import FilterClassRoutes
from leporid.management.filter_counts import FilterCountRoutes
from leporid.management.filter_tests import FilterTestRoutes
from leporid.management.groups import GroupRoutes
from leporid.management.health import HealthRoutes
from leporid.management.leases import LeaseRoutes
from leporid.management.limits import UserLimitRoutes, VhostLimitRoutes
from leporid.management.live import LiveRoutes
from leporid.management.message_pages import MessagePageRoutes
from leporid.management.messages import MessageRoutes
from leporid.management.moving import MoveRoutes
from leporid.management.nodes import NodeRoutes
from leporid.management.openapi import OpenApiRoutes
from leporid.management.overview import OverviewRoutes
from leporid.management.paths import DRY_RUN, CostedRoute, Handler, ProbeRoute, RawRoute
from leporid.management.pausing import PauseRoutes
from leporid.management.permissions import PermissionRoutes
from leporid.management.pipelines import PipelineRoutes
from leporid.management.policies import PolicyRoutes
from leporid.management.publishing import PublishRoutes
from leporid.management.queues import QueueRoutes
from leporid.management.readers import ReaderRoutes
from leporid.management.records import RecordRoutes
from leporid.management.refusals import Refusal, busy, of_fault
from leporid.management.runtime_parameters import GlobalParameterRoutes, ParameterRoutes
from leporid.management.sample_routes import SampleRoutes
from leporid.management.session_routes import SessionRoutes
from leporid.management.sign_on import CALLBACK, SignOnRoutes
from leporid.management.sign_on import PATH as SIGN_ON_PATH
from leporid.management.stream_lists import StreamListRoutes
from leporid.management.streams import StreamRoutes
from leporid.management.surroundings import Surroundings
from leporid.management.topology import TopologyRoutes
from leporid.management.unknown_arguments import UnknownArgumentRoutes
from leporid.management.users import UserRoutes
from leporid.management.vhosts import VhostRoutes

STREAMS = "/api/streams/{vhost}"
STREAM = STREAMS + "/{stream}"
READER = STREAM + "/readers/{reader}"
QUEUE = "/api/queues/{vhost}/{queue}"
LEASES = QUEUE + "/leases"
ONE_LEASE = LEASES + "/{lease}"
PIPELINES = "/api/pipelines"
PIPELINE = PIPELINES + "/{vhost}/{name}"
GROUPS = "/api/groups/{vhost}/{stream}"
GROUP = GROUPS + "/{group}"
DELAYS = "/api/delays/{vhost}"
DELAYED = DELAYS + "/{exchange}"
FILTERS = "/api/filters"
CLASSES = "/api/filter-classes"
CLASS = CLASSES + "/{name}"
POLICIES = "/api/policies"
OPERATOR_POLICIES = "/api/operator-policies"
QUEUES = "/api/queues"
EXCHANGES = "/api/exchanges"
EXCHANGE = EXCHANGES + "/{vhost}/{exchange}"
BINDINGS = "/api/bindings"
BETWEEN = BINDINGS + "/{vhost}/e/{source}/{kind}/{destination}"
CONNECTIONS = "/api/connections"
CONNECTION = CONNECTIONS + "/{name}"
CHANNELS = "/api/channels"
CONSUMERS = "/api/consumers"
NODES = "/api/nodes"
CHECKS = "/api/health/checks"
USERS = "/api/users"
USER = USERS + "/{name}"
VHOSTS = "/api/vhosts"
VHOST = VHOSTS + "/{name}"
PARAMETERS = "/api/parameters"
GLOBAL_PARAMETERS = "/api/global-parameters"
CLUSTER_NAME = "/api/cluster-name"
BACKUPS = "/api/backups"
PERMISSIONS = "/permissions"
TOPIC_PERMISSIONS = "/topic-permissions"

# Writes that are the work of applications, not of administrators; some do thousands a second.
NOT_AUDITED = frozenset(
    {(LEASES, "POST"), (ONE_LEASE, "DELETE"), (READER, "PUT"), (PIPELINE, "PUT")}
)

# What answers may be tables, too; their handlers look at what the client takes.
OTHER_FORMS = frozenset({TABLE, LEASE, LIVE, PUBLISH, SEARCH, SHOW, WAIT, TRY})
JSON_RANGES = frozenset({"*/*", "application/*", "application/json", ""})


def routes(around: Surroundings) -> list[CostedRoute]:
    """Make all routes."""
    streams, records, readers = StreamRoutes(around), RecordRoutes(around), ReaderRoutes(around)
    browsing, leases, publishing = BrowseRoutes(around), LeaseRoutes(around), PublishRoutes(around)
    groups = GroupRoutes(around)
    counts, classes = FilterCountRoutes(around), FilterClassRoutes(around)
    unknown = UnknownArgumentRoutes(around)

    def route(method: str, path: str, handler: Handler, cost: Cost) -> CostedRoute:
        audited = method != "GET" and cost is not PUBLISH and (path, method) not in NOT_AUDITED
        negotiated = cost not in OTHER_FORMS
        answer = _answering(handler, around.audit if audited else None, negotiated=negotiated)
        return RawRoute(path, answer, method, cost, around.admission)

    def policy_routes(path: str, policies: PolicyRoutes) -> list[CostedRoute]:
        one = path + "/{vhost}/{name}"
        return [
            *_everywhere(path, policies.listing, route),
            route("GET", one, policies.show, LOOK),
            route("PUT", one, policies.put, DEFINE),
            route("DELETE", one, policies.delete, REMOVE),
        ]

    found = [
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
        route("POST", "/api/publish/{vhost}/{exchange}", publishing.publish, PUBLISH),
        route("GET", FILTERS, counts.whole, LOOK),
        route("GET", FILTERS + "/{vhost}", counts.places, LOOK),
        route("GET", "/api/unknown-arguments/{vhost}", unknown.listing, LOOK),
        route("GET", CLASSES, classes.listing, LIST),
        route("GET", CLASS, classes.show, LOOK),
        route("PUT", CLASS, classes.put, TRY),
        route("DELETE", CLASS, classes.delete, REMOVE),
        *_whole_broker(around, route),
        *_clients(around, route),
        *_topology(around, route),
        *_checks(around, route),
        *policy_routes(POLICIES, PolicyRoutes(around, operator=False)),
        *policy_routes(OPERATOR_POLICIES, PolicyRoutes(around, operator=True)),
        *_access_routes(around, route),
        *_page_routes(around, route),
        *_own_routes(around, route),
        *_looking_routes(around, route),
        *_delay_routes(around, route),
        *_own_lists(around, leases, route),
        *_definition_routes(around, route),
    ]
    found.append(route("GET", "/api/openapi.json", OpenApiRoutes(around, found).show, LOOK))
    return found


Make = Callable[[str, str, Handler, Cost], CostedRoute]


def _everywhere(path: str, listing: Handler, route: Make) -> list[CostedRoute]:
    """Make the list of all virtual hosts, and that of one."""
    return [route("GET", each, listing, LIST) for each in (path, path + "/{vhost}")]


def _whole_broker(around: Surroundings, route: Make) -> list[CostedRoute]:
    """RabbitMQ's routes that name no object."""
    overview, nodes = OverviewRoutes(around), NodeRoutes(around)
    return [
        route("GET", "/api/overview", overview.overview, LOOK),
        route("GET", "/api/extensions", overview.extensions, LOOK),
        route("GET", "/api/feature-flags", overview.feature_flags, LOOK),
        route("PUT", "/api/feature-flags/{name}/enable", overview.enable, SWITCH),
        route("GET", "/api/deprecated-features", overview.deprecated, LOOK),
        route("GET", "/api/deprecated-features/used", overview.deprecated, LOOK),
        route("GET", NODES, nodes.listing, LOOK),
        route("GET", NODES + "/{name}", nodes.show, LOOK),
    ]


def _clients(around: Surroundings, route: Make) -> list[CostedRoute]:
    """RabbitMQ's routes about connections, and what is on them."""
    connections, channels = ConnectionRoutes(around), ChannelRoutes(around)
    consumers = ConsumerRoutes(around)
    of_user = CONNECTIONS + "/username/{username}"
    return [
        route("GET", CONNECTIONS, connections.listing, LIST),
        route("GET", of_user, connections.listing_of_user, LIST),
        route("DELETE", of_user, connections.close_of_user, REMOVE),
        route("GET", CONNECTION, connections.show, LOOK),
        route("DELETE", CONNECTION, connections.close, REMOVE),
        route("GET", CONNECTION + "/channels", channels.listing_of_connection, LIST),
        route("GET", "/api/vhosts/{vhost}/connections", connections.listing_of_vhost, LIST),
        route("GET", "/api/vhosts/{vhost}/channels", channels.listing_of_vhost, LIST),
        route("GET", CHANNELS, channels.listing, LIST),
        route("GET", CHANNELS + "/{channel}", channels.show, LOOK),
        *_everywhere(CONSUMERS, consumers.listing, route),
    ]


def _topology(around: Surroundings, route: Make) -> list[CostedRoute]:
    """RabbitMQ's routes about exchanges, queues, bindings and their messages."""
    exchanges, queues, bindings = (
        ExchangeRoutes(around),
        QueueRoutes(around),
        BindingRoutes(around),
    )
    messages = MessageRoutes(around)
    return [
        *_everywhere(EXCHANGES, exchanges.listing, route),
        route("GET", EXCHANGE, exchanges.show, LOOK),
        route("PUT", EXCHANGE, exchanges.put, DEFINE),
        route("DELETE", EXCHANGE, exchanges.delete, REMOVE),
        route("POST", EXCHANGE + "/publish", messages.publish, MESSAGE),
        route("GET", EXCHANGE + "/bindings/source", bindings.from_exchange, LIST),
        route("GET", EXCHANGE + "/bindings/destination", bindings.to_exchange, LIST),
        route("GET", QUEUES + "/detailed", queues.listing, LIST),  # before a virtual host's name
        *_everywhere(QUEUES, queues.listing, route),
        route("GET", QUEUE, queues.show, LOOK),
        route("PUT", QUEUE, queues.put, DEFINE),
        route("DELETE", QUEUE, queues.delete, REMOVE),
        route("DELETE", QUEUE + "/contents", queues.purge, REMOVE),
        route("POST", QUEUE + "/actions", queues.actions, ACT),
        route("POST", QUEUE + "/get", messages.get, GET),
        route("GET", QUEUE + "/bindings", bindings.of_queue, LIST),
        *_everywhere(BINDINGS, bindings.listing, route),
        route("GET", BETWEEN, bindings.between, LIST),
        route("POST", BETWEEN, bindings.post, DEFINE),
        route("GET", BETWEEN + "/{key}", bindings.show, LOOK),
        route("DELETE", BETWEEN + "/{key}", bindings.delete, REMOVE),
    ]


def _checks(around: Surroundings, route: Make) -> list[CostedRoute]:
    """RabbitMQ's health checks."""
    health = HealthRoutes(around)
    found: dict[str, Handler] = {
        "alarms": health.alarms,
        "local-alarms": health.alarms,
        "certificate-expiration/{within}/{unit}": health.certificates,
        "port-listener/{port}": health.port,
        "protocol-listener/{protocol}": health.protocol,
        "virtual-hosts": health.fine,
        "metadata-store/initialized": health.fine,
        "metadata-store/initialized/with-data": health.fine,
        "reached-target-cluster-size": health.fine,
        "quorum-queues-without-elected-leaders/all-vhosts": health.fine,
        "quorum-queues-without-elected-leaders/vhost/{vhost}": health.fine,
        "node-is-quorum-critical": health.critical,
        "node-is-mirror-sync-critical": health.critical,
        "is-in-service": health.in_service,
        "ready-to-serve-clients": health.in_service,
        "below-node-connection-limit": health.connection_limit,
    }
    return [
        *(route("GET", f"{CHECKS}/{path}", handler, LOOK) for path, handler in found.items()),
        route("GET", "/api/healthchecks/node", health.all_of_it, LOOK),
        route("GET", "/api/healthchecks/node/{name}", health.all_of_it, LOOK),
        route("GET", "/api/aliveness-test/{vhost}", health.aliveness, ALIVE),
    ]


def _access_routes(around: Surroundings, route: Make) -> list[CostedRoute]:
    """Make those of users, of what they may do, and of virtual hosts."""
    users, vhosts = UserRoutes(around), VhostRoutes(around)
    permissions, topics = PermissionRoutes(around), PermissionRoutes(around, topics=True)
    vhost_limits, user_limits = VhostLimitRoutes(around), UserLimitRoutes(around)

    def permission_routes(name: str, handlers: PermissionRoutes) -> list[CostedRoute]:
        one = f"/api{name}/{{vhost}}/{{user}}"
        return [
            route("GET", f"/api{name}", handlers.listing, LIST),
            route("GET", USER + name, handlers.of_user, LIST),
            route("GET", VHOST + name, handlers.of_vhost, LIST),
            route("GET", one, handlers.show, LOOK),
            route("PUT", one, handlers.put, ADMINISTER),
            route("DELETE", one, handlers.delete, REMOVE),
        ]

    return [
        route("GET", "/api/whoami", users.whoami, LOOK),
        route("GET", "/api/auth/hash_password/{password}", users.hash_password, LOOK),
        route("GET", "/api/audit", AuditRoutes(around).listing, LIST),
        route("GET", USERS, users.listing, LIST),
        route("GET", USERS + "/without-permissions", users.without_permissions, LIST),
        route("POST", USERS + "/bulk-delete", users.delete_several, ADMINISTER),
        route("GET", USER, users.show, LOOK),
        route("PUT", USER, users.put, ADMINISTER),
        route("DELETE", USER, users.delete, REMOVE),
        *permission_routes(PERMISSIONS, permissions),
        *permission_routes(TOPIC_PERMISSIONS, topics),
        route("DELETE", "/api/topic-permissions/{vhost}/{user}/{exchange}", topics.delete, REMOVE),
        route("GET", VHOSTS, vhosts.listing, LIST),
        route("GET", VHOST, vhosts.show, LOOK),
        route("PUT", VHOST, vhosts.put, DEFINE),
        route("DELETE", VHOST, vhosts.delete, REMOVE),
        route("GET", "/api/vhost-limits", vhost_limits.listing, LIST),
        route("GET", "/api/vhost-limits/{vhost}", vhost_limits.of_vhost, LOOK),
        route("PUT", "/api/vhost-limits/{vhost}/{limit}", vhost_limits.put, ADMINISTER),
        route("DELETE", "/api/vhost-limits/{vhost}/{limit}", vhost_limits.delete, REMOVE),
        route("GET", "/api/user-limits", user_limits.listing, LIST),
        route("GET", "/api/user-limits/{user}", user_limits.of_user, LOOK),
        route("PUT", "/api/user-limits/{user}/{limit}", user_limits.put, ADMINISTER),
        route("DELETE", "/api/user-limits/{user}/{limit}", user_limits.delete, REMOVE),
    ]


def _page_routes(around: Surroundings, route: Make) -> list[CostedRoute]:
    """Make those that the web UI is the first to need."""
    sessions, live, samples = SessionRoutes(around), LiveRoutes(around), SampleRoutes(around)
    sign_on = SignOnRoutes(around)
    return [
        route("GET", "/api/live", live.live, LIVE),
        route("GET", "/api/samples", samples.of_broker, LOOK),
        route("GET", "/api/samples/{kind}/{name}", samples.of_named, LOOK),
        route("GET", "/api/samples/{kind}/{vhost}/{name}", samples.of_object, LOOK),
        route("POST", "/api/session", sessions.log_in, LOG_IN),
        route("GET", "/api/session", sessions.show, LOOK),
        route("DELETE", "/api/session", sessions.log_out, REMOVE),
        route("GET", SIGN_ON_PATH, sign_on.start, LOOK),
        route("GET", CALLBACK, sign_on.callback, SIGN_ON),
        route("GET", USER + "/sessions", sessions.of_user, LOOK),
        route("DELETE", USER + "/sessions", sessions.end_of_user, REMOVE),
    ]


def _own_routes(around: Surroundings, route: Make) -> list[CostedRoute]:
    """Make those of browsing in JSON, of pausing queues, and of dead letters."""
    pages, pauses, letters = (
        MessagePageRoutes(around),
        PauseRoutes(around),
        DeadLetterRoutes(around),
    )
    return [
        route("GET", QUEUE + "/browse", pages.of_queue, BROWSE),
        route("GET", STREAM + "/browse", pages.of_stream, BROWSE),
        route("PUT", QUEUE + "/pause", pauses.pause, SWITCH),
        route("PUT", QUEUE + "/resume", pauses.resume, SWITCH),
        *_everywhere("/api/dead-letters", letters.listing, route),
    ]


def _delay_routes(around: Surroundings, route: Make) -> list[CostedRoute]:
    """Delayed messages."""
    delays = DelayRoutes(around)
    return [
        route("GET", DELAYS, delays.exchanges, LOOK),
        route("GET", DELAYED, delays.listing, SEARCH),
        route("DELETE", DELAYED, delays.cancel_several, REMOVE_CHOSEN),
        # Before that of a message, whose id is never this word.
        route("GET", DELAYED + "/timeline", delays.timeline, LOOK),
        route("GET", DELAYED + "/{id}", delays.message, SHOW),
        route("DELETE", DELAYED + "/{id}", delays.cancel, REMOVE),
    ]


def _looking_routes(around: Surroundings, route: Make) -> list[CostedRoute]:
    """What pages look at, and moving messages."""
    tests = FilterTestRoutes(around)
    return [
        route("GET", "/api/topology/{vhost}", TopologyRoutes(around).show, LIST),
        route("GET", QUEUE + "/filter-test", tests.of_queue, BROWSE),
        route("GET", STREAM + "/filter-test", tests.of_stream, BROWSE),
        route("POST", QUEUE + "/move", MoveRoutes(around).move, MOVE),
    ]


def _own_lists(around: Surroundings, leases: LeaseRoutes, route: Make) -> list[CostedRoute]:
    """Make lists of streams, readers, groups and leases, and what pipelines report."""
    lists, pipelines = StreamListRoutes(around), PipelineRoutes(around)
    return [
        route("GET", PIPELINES, pipelines.listing, LIST),
        route("GET", PIPELINES + "/{vhost}", pipelines.listing, LIST),
        route("GET", PIPELINE, pipelines.show, LOOK),
        route("PUT", PIPELINE, pipelines.report, DEFINE),
        route("DELETE", PIPELINE, pipelines.forget, REMOVE),
        route("GET", "/api/streams", lists.streams, LIST),
        *_everywhere("/api/readers", lists.readers, route),
        *_everywhere("/api/groups", lists.groups, route),
        *_everywhere("/api/leases", leases.listing, route),
    ]


def _definition_routes(around: Surroundings, route: Make) -> list[CostedRoute]:
    """Make RabbitMQ's other routes: all definitions at once, parameters, upkeep."""
    definitions = DefinitionRoutes(around)
    return [
        route("GET", "/api/definitions", definitions.export, LOOK),
        route("POST", "/api/definitions", definitions.put, IMPORT),
        # The old name, which RabbitMQ still answers under.
        route("GET", "/api/all-configuration", definitions.export, LOOK),
        route("POST", "/api/all-configuration", definitions.put, IMPORT),
        route("GET", "/api/definitions/{vhost}", definitions.export_vhost, LOOK),
        route("POST", "/api/definitions/{vhost}", definitions.put_vhost, IMPORT),
        *_parameter_routes(around, route),
        *_upkeep_routes(around, route),
    ]


def _upkeep_routes(around: Surroundings, route: Make) -> list[CostedRoute]:
    """Make backups, and RabbitMQ's routes of upkeep, of which a single node needs little."""
    overview, nodes, vhosts = OverviewRoutes(around), NodeRoutes(around), VhostRoutes(around)
    attempts, backups = AuthAttemptRoutes(around), BackupRoutes(around)
    of_node, protection = "/api/auth/attempts/{node}", VHOST + "/deletion/protection"
    auth = _answering(attempts.auth, None, negotiated=True)
    return [
        ProbeRoute("/api/auth", auth),
        route("GET", of_node, attempts.listing, LOOK),
        route("GET", of_node + "/source", attempts.by_source, LOOK),
        route("DELETE", of_node, attempts.reset, REMOVE),
        route("DELETE", of_node + "/source", attempts.reset, REMOVE),
        route("GET", BACKUPS, backups.listing, LOOK),
        route("PUT", BACKUPS + "/{name}", backups.put, BACK_UP),
        route("GET", "/api/version", overview.version, LOOK),
        route("GET", NODES + "/{name}/memory", nodes.memory, LOOK),
        route("GET", NODES + "/{name}/memory/relative", nodes.relative_memory, LOOK),
        route("DELETE", "/api/reset", overview.reset, REMOVE),
        route("DELETE", "/api/reset/{node}", overview.reset, REMOVE),
        route("POST", "/api/rebalance/queues", overview.rebalance, REMOVE),
        route("POST", VHOST + "/start/{node}", vhosts.start, REMOVE),
        route("POST", protection, vhosts.protect, REMOVE),
        route("DELETE", protection, vhosts.unprotect, REMOVE),
    ]


def _parameter_routes(around: Surroundings, route: Make) -> list[CostedRoute]:
    """Make those of parameters, in virtual hosts and outside, and of the cluster's name."""
    parameters, everywhere = ParameterRoutes(around), GlobalParameterRoutes(around)
    of_vhost = PARAMETERS + "/{component}/{vhost}"
    one, one_everywhere = of_vhost + "/{name}", GLOBAL_PARAMETERS + "/{name}"
    return [
        route("GET", PARAMETERS, parameters.listing, LIST),
        route("GET", PARAMETERS + "/{component}", parameters.listing, LIST),
        route("GET", of_vhost, parameters.listing, LIST),
        route("GET", one, parameters.show, LOOK),
        route("PUT", one, parameters.put, DEFINE),
        route("DELETE", one, parameters.delete, REMOVE),
        route("GET", GLOBAL_PARAMETERS, everywhere.listing, LIST),
        route("GET", one_everywhere, everywhere.show, LOOK),
        route("PUT", one_everywhere, everywhere.put, DEFINE),
        route("DELETE", one_everywhere, everywhere.delete, REMOVE),
        route("GET", CLUSTER_NAME, everywhere.cluster_name, LOOK),
        route("PUT", CLUSTER_NAME, everywhere.put_cluster_name, DEFINE),
    ]


def takes_json(request: Request) -> bool:
    """Say whether a client takes JSON, by its Accept (RFC 9110, 12.5.1); without one it does."""
    accepted = request.headers.get("accept", "*/*")
    kinds = {each.partition(";")[0].strip().lower() for each in accepted.split(",")}
    return not kinds.isdisjoint(JSON_RANGES)


def _answering(handler: Handler, audit: AuditLog | None, *, negotiated: bool) -> Handler:
    # Elsewhere the word has no effect, and what is done is an act.
    knows_dry_runs = DRY_RUN in getattr(handler, "query", {})

    @functools.wraps(handler)
    async def answer(request: Request) -> Response:
        reason = ""
        try:
            if negotiated and not takes_json(request):
                # As RabbitMQ: without a body, as there is no form for it that the client takes.
                found = Response(status_code=406)
            else:
                found = await handler(request)
        except Refusal as refusal:
            reason, found = refusal.reason, refusal.answer()
        except Fault as fault:
            # Nothing here keeps it: it has this frame, and the two would stay until a collection.
            reason, found = of_fault(fault).reason, of_fault(fault).answer()
        except RightPending as unknown:
            # Where nobody could wait for it: it is known when the client comes again.
            unknown.pending.ask(lambda: None)
            later = busy("a right of yours is being asked of another server; try again")
            reason, found = later.reason, later.answer()
        except Exception:
            if audit is not None:
                audit.note(request, 500)
            raise
        tried = knows_dry_runs and request.query_params.get(DRY_RUN) == "true"
        if audit is not None and not (tried and found.status_code < 400):
            audit.note(request, found.status_code, reason)
        if isinstance(found, JSONResponse):
            # A text file ends so, and a terminal's prompt begins a line.
            found.body = bytes(found.body) + b"\n"
            found.headers["content-length"] = str(len(found.body))
        return found

    return answer
