"""What a request may take of what all requests share: of every route that there is."""

from __future__ import annotations

import asyncio
from collections.abc import Hashable
from typing import Any

import httpx
import pytest
from tests.broker.at_once import set_policy
from tests.filterserver.asked import GREATER
from tests.management.arrows import table_of
from tests.management.clients import connected
from tests.management.conftest import World
from tests.management.fake_backups import Backups
from tests.management.queues import fill, queue_of
from tests.management.test_sign_on import Issuer, Tokens
from tests.server.test_http import TOTALS

from leporid.amqp.properties import Properties, encode_properties
from leporid.broker.access.passwords import NoPassword
from leporid.broker.access.permissions import EVERYTHING
from leporid.broker.access.topics import TopicPermission
from leporid.broker.exchange.types import Binding
from leporid.broker.global_parameters import GlobalParameter
from leporid.broker.pipeline_runs import PipelineRun
from leporid.broker.policy.policies import make_policy
from leporid.filterserver.filter_class import FilterClass
from leporid.limits.refusals import Refusals
from leporid.limits.shares import NoSlot, Share, Slot, address_key
from leporid.management import admission as module
from leporid.management.admission import PROBE, Admission, Cost, holding, waited_for
from leporid.management.application import routes
from leporid.management.nodes import Listening, NodeFacts
from leporid.management.paths import CostedRoute
from leporid.management.refusals import Refusal
from leporid.management.sign_on import _state
from leporid.server.http import application

POLICY = {"pattern": "^x", "definition": {"max-length": 5}}
STREAM = "/api/streams/{vhost}/{stream}"
QUEUE = "/api/queues/{vhost}/{queue}"
PIPELINE = "/api/pipelines/{vhost}/{name}"
RUN = {"pipeline": "archive", "state": "done", "started_ms": 1}
TABLE = table_of(body=["x"], routing_key=["jobs"])

# For each route a request that is answered with what it asks for, and takes of every share that the
# route's cost names.
SAMPLES: dict[tuple[str, str], tuple[str, dict[str, Any]]] = {
    ("GET", "/health"): ("/health", {}),
    ("GET", "/metrics"): ("/metrics", {}),
    ("GET", "/api/streams/{vhost}"): ("/api/streams/%2F", {}),
    ("GET", STREAM): ("/api/streams/%2F/orders?beyond=0:2&wait_ms=1", {}),
    ("PUT", STREAM): ("/api/streams/%2F/more", {"json": {"partitions": 2}}),
    ("DELETE", STREAM): ("/api/streams/%2F/orders", {}),
    ("GET", STREAM + "/offset-for"): ("/api/streams/%2F/orders/offset-for?timestamp_ms=1", {}),
    ("GET", STREAM + "/records"): ("/api/streams/%2F/orders/records", {}),
    ("GET", STREAM + "/readers"): ("/api/streams/%2F/orders/readers", {}),
    ("GET", STREAM + "/readers/{reader}"): ("/api/streams/%2F/orders/readers/r", {}),
    ("PUT", STREAM + "/readers/{reader}"): (
        "/api/streams/%2F/orders/readers/r",
        {"json": {"offset": 1}},
    ),
    ("DELETE", STREAM + "/readers/{reader}"): ("/api/streams/%2F/orders/readers/r", {}),
    ("GET", QUEUE + "/messages"): ("/api/queues/%2F/jobs/messages", {}),
    ("POST", QUEUE + "/leases"): ("/api/queues/%2F/jobs/leases?filter=p.type IS NULL", {}),
    ("DELETE", QUEUE + "/leases/{lease}"): ("/api/queues/%2F/jobs/leases/LEASE", {}),
    ("GET", QUEUE + "/leases/{lease}/messages"): (
        "/api/queues/%2F/jobs/leases/LEASE/messages",
        {},
    ),
    ("POST", QUEUE + "/leases/{lease}/release"): ("/api/queues/%2F/jobs/leases/LEASE/release", {}),
    ("GET", "/api/groups/{vhost}/{stream}"): ("/api/groups/%2F/orders", {}),
    ("GET", "/api/groups/{vhost}/{stream}/{group}"): ("/api/groups/%2F/orders/g", {}),
    ("DELETE", "/api/groups/{vhost}/{stream}/{group}"): ("/api/groups/%2F/orders/g", {}),
    ("GET", "/api/delays/{vhost}"): ("/api/delays/%2F", {}),
    ("GET", "/api/delays/{vhost}/{exchange}"): ("/api/delays/%2F/amq.default?message_id=m", {}),
    ("DELETE", "/api/delays/{vhost}/{exchange}"): ("/api/delays/%2F/amq.default?message_id=m", {}),
    ("GET", "/api/delays/{vhost}/{exchange}/{id}"): ("/api/delays/%2F/amq.default/DELAYED", {}),
    ("DELETE", "/api/delays/{vhost}/{exchange}/{id}"): ("/api/delays/%2F/amq.default/DELAYED", {}),
    ("POST", "/api/publish/{vhost}/{exchange}"): (
        "/api/publish/%2F/amq.default",
        {"content": TABLE},
    ),
    ("GET", "/api/filters"): ("/api/filters", {}),
    ("GET", "/api/filters/{vhost}"): ("/api/filters/%2F", {}),
    ("GET", "/api/unknown-arguments/{vhost}"): ("/api/unknown-arguments/%2F", {}),
    ("GET", "/api/filter-classes"): ("/api/filter-classes?page=1", {}),
    ("GET", "/api/filter-classes/{name}"): ("/api/filter-classes/big", {}),
    ("PUT", "/api/filter-classes/{name}"): ("/api/filter-classes/new", {"content": GREATER}),
    ("DELETE", "/api/filter-classes/{name}"): ("/api/filter-classes/big", {}),
}
SAMPLES |= {
    ("GET", QUEUE + "/browse"): ("/api/queues/%2F/jobs/browse", {}),
    ("GET", STREAM + "/browse"): ("/api/streams/%2F/orders/browse", {}),
    ("GET", QUEUE + "/filter-test"): ("/api/queues/%2F/jobs/filter-test?filter=a=1", {}),
    ("GET", STREAM + "/filter-test"): ("/api/streams/%2F/orders/filter-test?filter=a=1", {}),
    ("POST", QUEUE + "/move"): ("/api/queues/%2F/jobs/move", {"json": {"to": {"queue": "jobs"}}}),
    ("GET", "/api/topology/{vhost}"): ("/api/topology/%2F", {}),
    ("GET", "/api/delays/{vhost}/{exchange}/timeline"): (
        "/api/delays/%2F/amq.default/timeline?edges=1",
        {},
    ),
    ("PUT", QUEUE + "/pause"): ("/api/queues/%2F/jobs/pause", {}),
    ("PUT", QUEUE + "/resume"): ("/api/queues/%2F/jobs/resume", {}),
    ("GET", "/api/dead-letters"): ("/api/dead-letters", {}),
    ("GET", "/api/streams"): ("/api/streams", {}),
    ("GET", "/api/readers"): ("/api/readers", {}),
    ("GET", "/api/readers/{vhost}"): ("/api/readers/%2F", {}),
    ("GET", "/api/pipelines"): ("/api/pipelines", {}),
    ("GET", "/api/pipelines/{vhost}"): ("/api/pipelines/%2F", {}),
    ("GET", PIPELINE): ("/api/pipelines/%2F/p", {}),
    ("PUT", PIPELINE): ("/api/pipelines/%2F/p", {"json": RUN}),
    ("DELETE", PIPELINE): ("/api/pipelines/%2F/p", {}),
    ("GET", "/api/groups"): ("/api/groups", {}),
    ("GET", "/api/groups/{vhost}"): ("/api/groups/%2F", {}),
    ("GET", "/api/leases"): ("/api/leases", {}),
    ("GET", "/api/leases/{vhost}"): ("/api/leases/%2F", {}),
    ("GET", "/api/dead-letters/{vhost}"): ("/api/dead-letters/%2F", {}),
}
CHECKS = "/api/health/checks"
CONNECTION = "10.0.0.1%3A7%20-%3E%2010.0.0.2%3A5672"
EXCHANGE = "/api/exchanges/{vhost}/{exchange}"
BETWEEN = "/api/bindings/{vhost}/e/{source}/{kind}/{destination}"
MESSAGE = {"properties": {}, "routing_key": "jobs", "payload": "x", "payload_encoding": "string"}
GETTING = {"count": 1, "ackmode": "ack_requeue_true", "encoding": "auto"}
# Lists in the order in which objects come are sorted only if they have pages.
PAGED = "?page=1"
SAMPLES |= {
    ("GET", path): (path, {})
    for path in (
        "/api/overview",
        "/api/cluster-name",
        "/api/extensions",
        "/api/feature-flags",
        "/api/deprecated-features",
        "/api/deprecated-features/used",
        "/api/global-parameters",
        "/api/parameters",
        "/api/nodes",
        "/api/connections",
        "/api/channels",
        "/api/exchanges",
        "/api/queues",
        "/api/queues/detailed",
        "/api/healthchecks/node",
        *(
            f"{CHECKS}/{check}"
            for check in (
                "alarms",
                "local-alarms",
                "virtual-hosts",
                "metadata-store/initialized",
                "metadata-store/initialized/with-data",
                "reached-target-cluster-size",
                "quorum-queues-without-elected-leaders/all-vhosts",
                "node-is-quorum-critical",
                "node-is-mirror-sync-critical",
                "is-in-service",
                "ready-to-serve-clients",
                "below-node-connection-limit",
            )
        ),
    )
}
SAMPLES |= {
    ("GET", "/api/parameters/{component}"): ("/api/parameters/x", {}),
    ("GET", "/api/parameters/{component}/{vhost}"): ("/api/parameters/x/%2F", {}),
    ("GET", "/api/nodes/{name}"): ("/api/nodes/leporid@localhost", {}),
    ("GET", "/api/connections/username/{username}"): ("/api/connections/username/guest", {}),
    ("DELETE", "/api/connections/username/{username}"): ("/api/connections/username/guest", {}),
    ("GET", "/api/connections/{name}"): (f"/api/connections/{CONNECTION}", {}),
    ("DELETE", "/api/connections/{name}"): (f"/api/connections/{CONNECTION}", {}),
    ("GET", "/api/connections/{name}/channels"): (f"/api/connections/{CONNECTION}/channels", {}),
    ("GET", "/api/vhosts/{vhost}/connections"): ("/api/vhosts/%2F/connections", {}),
    ("GET", "/api/vhosts/{vhost}/channels"): ("/api/vhosts/%2F/channels", {}),
    ("GET", "/api/channels/{channel}"): (f"/api/channels/{CONNECTION}%20(1)", {}),
    ("GET", "/api/consumers"): ("/api/consumers" + PAGED, {}),
    ("GET", "/api/consumers/{vhost}"): ("/api/consumers/%2F" + PAGED, {}),
    ("GET", "/api/exchanges/{vhost}"): ("/api/exchanges/%2F", {}),
    ("GET", EXCHANGE): ("/api/exchanges/%2F/amq.topic", {}),
    ("PUT", EXCHANGE): ("/api/exchanges/%2F/new", {"json": {"type": "topic", "durable": True}}),
    ("DELETE", EXCHANGE): ("/api/exchanges/%2F/old", {}),
    ("POST", EXCHANGE + "/publish"): ("/api/exchanges/%2F/amq.default/publish", {"json": MESSAGE}),
    ("GET", EXCHANGE + "/bindings/source"): (
        "/api/exchanges/%2F/amq.topic/bindings/source" + PAGED,
        {},
    ),
    ("GET", EXCHANGE + "/bindings/destination"): (
        "/api/exchanges/%2F/amq.topic/bindings/destination" + PAGED,
        {},
    ),
    ("GET", "/api/queues/{vhost}"): ("/api/queues/%2F", {}),
    ("GET", QUEUE): ("/api/queues/%2F/jobs", {}),
    ("PUT", QUEUE): ("/api/queues/%2F/new", {"json": {"durable": True}}),
    ("DELETE", QUEUE): ("/api/queues/%2F/jobs", {}),
    ("DELETE", QUEUE + "/contents"): ("/api/queues/%2F/jobs/contents", {}),
    ("POST", QUEUE + "/actions"): ("/api/queues/%2F/jobs/actions", {"json": {"action": "sync"}}),
    ("POST", QUEUE + "/get"): ("/api/queues/%2F/jobs/get", {"json": GETTING}),
    ("GET", QUEUE + "/bindings"): ("/api/queues/%2F/jobs/bindings" + PAGED, {}),
    ("GET", "/api/bindings"): ("/api/bindings" + PAGED, {}),
    ("GET", "/api/bindings/{vhost}"): ("/api/bindings/%2F" + PAGED, {}),
    ("GET", BETWEEN): ("/api/bindings/%2F/e/amq.topic/q/jobs" + PAGED, {}),
    ("POST", BETWEEN): ("/api/bindings/%2F/e/amq.topic/q/jobs", {"json": {"routing_key": "n"}}),
    ("GET", BETWEEN + "/{key}"): ("/api/bindings/%2F/e/amq.topic/q/jobs/old", {}),
    ("DELETE", BETWEEN + "/{key}"): ("/api/bindings/%2F/e/amq.topic/q/jobs/old", {}),
    ("GET", CHECKS + "/certificate-expiration/{within}/{unit}"): (
        CHECKS + "/certificate-expiration/1/weeks",
        {},
    ),
    ("GET", CHECKS + "/port-listener/{port}"): (CHECKS + "/port-listener/5672", {}),
    ("GET", CHECKS + "/protocol-listener/{protocol}"): (CHECKS + "/protocol-listener/amqp", {}),
    ("GET", CHECKS + "/quorum-queues-without-elected-leaders/vhost/{vhost}"): (
        CHECKS + "/quorum-queues-without-elected-leaders/vhost/%2F",
        {},
    ),
    ("GET", "/api/healthchecks/node/{name}"): ("/api/healthchecks/node/leporid@localhost", {}),
    ("GET", "/api/aliveness-test/{vhost}"): ("/api/aliveness-test/%2F", {}),
}
# They say of an alarm, and of nothing else, that something is wrong.
ALARMED = {f"{CHECKS}/alarms", f"{CHECKS}/local-alarms"}
for _root in ("/api/policies", "/api/operator-policies"):
    SAMPLES |= {
        ("GET", _root): (_root, {}),
        ("GET", _root + "/{vhost}"): (f"{_root}/%2F", {}),
        ("GET", _root + "/{vhost}/{name}"): (f"{_root}/%2F/p", {}),
        ("PUT", _root + "/{vhost}/{name}"): (f"{_root}/%2F/q", {"json": POLICY}),
        ("DELETE", _root + "/{vhost}/{name}"): (f"{_root}/%2F/p", {}),
    }
RIGHTS = {"configure": "", "write": "", "read": ""}
TOPICS = {"exchange": "amq.topic", "write": "", "read": ""}
for _root, _body in (("permissions", RIGHTS), ("topic-permissions", TOPICS)):
    SAMPLES |= {
        ("GET", f"/api/{_root}"): (f"/api/{_root}", {}),
        ("GET", f"/api/users/{{name}}/{_root}"): (f"/api/users/ann/{_root}", {}),
        ("GET", f"/api/vhosts/{{name}}/{_root}"): (f"/api/vhosts/%2F/{_root}", {}),
        ("GET", f"/api/{_root}/{{vhost}}/{{user}}"): (f"/api/{_root}/%2F/ann", {}),
        ("PUT", f"/api/{_root}/{{vhost}}/{{user}}"): (f"/api/{_root}/%2F/guest", {"json": _body}),
        ("DELETE", f"/api/{_root}/{{vhost}}/{{user}}"): (f"/api/{_root}/%2F/ann", {}),
    }
for _noun, _one, _limit in (("vhost", "%2F", "max-queues"), ("user", "ann", "max-channels")):
    _root, _path = f"/api/{_noun}-limits", f"/api/{_noun}-limits/{{{_noun}}}"
    SAMPLES |= {
        ("GET", _root): (_root, {}),
        ("GET", _path): (f"{_root}/{_one}", {}),
        ("PUT", _path + "/{limit}"): (f"{_root}/{_one}/{_limit}", {"json": {"value": 9}}),
        ("DELETE", _path + "/{limit}"): (f"{_root}/{_one}/{_limit}", {}),
    }
SAMPLES |= {
    ("GET", "/api/whoami"): ("/api/whoami", {}),
    ("GET", "/api/auth/hash_password/{password}"): ("/api/auth/hash_password/x", {}),
    ("GET", "/api/users"): ("/api/users", {}),
    ("GET", "/api/users/without-permissions"): ("/api/users/without-permissions", {}),
    ("POST", "/api/users/bulk-delete"): ("/api/users/bulk-delete", {"json": {"users": ["ann"]}}),
    ("GET", "/api/users/{name}"): ("/api/users/ann", {}),
    ("PUT", "/api/users/{name}"): ("/api/users/ben", {"json": {"password": "p", "tags": ""}}),
    ("DELETE", "/api/users/{name}"): ("/api/users/ann", {}),
    ("DELETE", "/api/topic-permissions/{vhost}/{user}/{exchange}"): (
        "/api/topic-permissions/%2F/ann/amq.topic",
        {},
    ),
    ("GET", "/api/vhosts"): ("/api/vhosts", {}),
    ("GET", "/api/vhosts/{name}"): ("/api/vhosts/%2F", {}),
    ("PUT", "/api/vhosts/{name}"): ("/api/vhosts/new", {"json": {"description": "new"}}),
    ("DELETE", "/api/vhosts/{name}"): ("/api/vhosts/%2F", {}),
}


SESSION = ("POST", "/api/session")
SAMPLES |= {
    SESSION: (
        "/api/session",
        {
            "json": {"username": "guest", "password": "guest"},
            "headers": {"x-leporid-page": "1"},
        },
    ),
    ("GET", "/api/session"): ("/api/session", {}),
    ("DELETE", "/api/session"): ("/api/session", {}),
    ("GET", "/api/audit"): ("/api/audit?page=1", {}),
    ("GET", "/api/session/oauth"): ("/api/session/oauth", {}),
    ("GET", "/api/session/oauth/callback"): (
        f"/api/session/oauth/callback?code=c&state={_state('v' * 43)}",
        {"headers": {"cookie": f"leporid_sign_on={'v' * 43}"}},
    ),
    ("GET", "/api/live"): ("/api/live?samples=1", {}),
    ("GET", "/api/samples"): ("/api/samples", {}),
    ("GET", "/api/samples/{kind}/{name}"): ("/api/samples/vhost/%2F", {}),
    ("GET", "/api/samples/{kind}/{vhost}/{name}"): ("/api/samples/queue/%2F/jobs", {}),
    ("GET", "/api/users/{name}/sessions"): ("/api/users/ann/sessions", {}),
    ("DELETE", "/api/users/{name}/sessions"): ("/api/users/ann/sessions", {}),
}
# Nobody has logged in yet.
NOBODYS = ("GET", "/api/session/oauth")
# Of a login the body comes before anybody knows whose it is.
BEFORE_LOGIN = {"http_uploads", "http_body_bytes"}


NODE = "leporid@localhost"
ATTEMPTS = "/api/auth/attempts/{node}"
PROTECTION = "/api/vhosts/{name}/deletion/protection"
SAMPLES |= {
    ("GET", "/api/auth"): ("/api/auth", {}),
    ("GET", "/api/openapi.json"): ("/api/openapi.json", {}),
    ("GET", ATTEMPTS): (f"/api/auth/attempts/{NODE}", {}),
    ("GET", ATTEMPTS + "/source"): (f"/api/auth/attempts/{NODE}/source", {}),
    ("DELETE", ATTEMPTS): (f"/api/auth/attempts/{NODE}", {}),
    ("DELETE", ATTEMPTS + "/source"): (f"/api/auth/attempts/{NODE}/source", {}),
    ("GET", "/api/version"): ("/api/version", {}),
    ("PUT", "/api/feature-flags/{name}/enable"): (
        "/api/feature-flags/quorum_queue/enable",
        {"json": {}},
    ),
    ("GET", "/api/backups"): ("/api/backups", {}),
    ("PUT", "/api/backups/{name}"): ("/api/backups/one", {}),
    ("GET", "/api/nodes/{name}/memory"): (f"/api/nodes/{NODE}/memory", {}),
    ("GET", "/api/nodes/{name}/memory/relative"): (f"/api/nodes/{NODE}/memory/relative", {}),
    ("DELETE", "/api/reset"): ("/api/reset", {}),
    ("DELETE", "/api/reset/{node}"): (f"/api/reset/{NODE}", {}),
    ("POST", "/api/rebalance/queues"): ("/api/rebalance/queues", {}),
    ("POST", "/api/vhosts/{name}/start/{node}"): (f"/api/vhosts/%2F/start/{NODE}", {}),
    ("POST", PROTECTION): ("/api/vhosts/%2F/deletion/protection", {}),
    ("DELETE", PROTECTION): ("/api/vhosts/%2F/deletion/protection", {}),
}
DEFINED = {"queues": [{"name": "q", "vhost": "/", "durable": True, "auto_delete": False}]}
SAMPLES |= {
    ("GET", "/api/definitions"): ("/api/definitions", {}),
    ("POST", "/api/definitions"): ("/api/definitions", {"json": DEFINED}),
    ("GET", "/api/all-configuration"): ("/api/all-configuration", {}),
    ("POST", "/api/all-configuration"): ("/api/all-configuration", {"json": DEFINED}),
    ("GET", "/api/definitions/{vhost}"): ("/api/definitions/%2F", {}),
    ("POST", "/api/definitions/{vhost}"): ("/api/definitions/%2F", {"json": DEFINED}),
}
PARAMETER = "/api/parameters/{component}/{vhost}/{name}"
GLOBAL = "/api/global-parameters/{name}"
LIMITS = "/api/parameters/vhost-limits/%2F/limits"
SAMPLES |= {
    ("GET", PARAMETER): (LIMITS, {}),
    ("PUT", PARAMETER): (LIMITS, {"json": {"value": {"max-queues": 9}}}),
    ("DELETE", PARAMETER): (LIMITS, {}),
    ("GET", GLOBAL): ("/api/global-parameters/g", {}),
    ("PUT", GLOBAL): ("/api/global-parameters/h", {"json": {"value": 1}}),
    ("DELETE", GLOBAL): ("/api/global-parameters/g", {}),
    ("PUT", "/api/cluster-name"): ("/api/cluster-name", {"json": {"name": "c"}}),
    ("GET", "/api/parameters/{component}/{vhost}"): ("/api/parameters/vhost-limits/%2F", {}),
}


class FilledWorld(World):
    """A world in which every sample finds what it asks for."""

    def __init__(self) -> None:
        super().__init__()
        self.fill(self.stream(), 2)
        self.vhost.set_reader_offset("orders", "r", 0)
        self.vhost.pipeline_runs.report(PipelineRun("guest", "p", 1, 2, {"state": "done"}))
        self.vhost.groups.restore("orders", "g", 0, {}, 0)
        fill(self, queue_of(self, "jobs"), 3)
        delays = self.vhost.delay_stores.of(self.vhost.exchange(""))
        later = Properties(headers={"x-delay": 60_000}, message_id="m")
        self.engine.publish([delays], "", "jobs", encode_properties(later), b"later")
        self.delayed = self.vhost.delays("").list()[0].id
        self.broker.filter_classes.restore(FilterClass("big", 1, "Filter", GREATER))
        for operator in (False, True):
            set_policy(
                self.vhost,
                make_policy("p", POLICY["pattern"], POLICY["definition"], operator=operator),
            )
        self.vhost.create_exchange(
            "old", "topic", durable=True, auto_delete=False, internal=False, arguments={}
        )
        self.vhost.bindings.bind(Binding("amq.topic", "jobs", "queue", "old", {}), None)
        connected(self, 7)
        listening = Listening("amqp", "127.0.0.1", 5672)
        object.__setattr__(self.around, "node", lambda: NodeFacts(listening=[listening]))
        self.vhost.limit("max-queues", 50)
        self.broker.global_parameters.put(GlobalParameter("g", 1))
        users = self.broker.users
        users.put("ann", NoPassword(), frozenset())
        users.permit("ann", "/", EVERYTHING)
        topics = TopicPermission.of("", "", username="ann", vhost="/")
        users.permit_topics("ann", "/", "amq.topic", topics)
        object.__setattr__(self.around, "backups", Backups())
        object.__setattr__(self.around, "sign_on", Issuer())
        self.broker.backends.use([Tokens("guest"), self.broker.backends.internal])
        self.shares = self.around.admission.shares
        self.app = application(TOTALS, list, routes(self.around))
        self.lease = ""

    async def try_filter_class(self, filter_class: FilterClass) -> None:
        """It loads."""

    def client(self) -> httpx.AsyncClient:
        transport = httpx.ASGITransport(self.app)
        return httpx.AsyncClient(
            transport=transport,
            base_url="http://localhost",
            verify=False,  # else each client reads all certificates that the machine trusts
            auth=("guest", "guest"),
            timeout=30,
        )

    async def ask(self, client: httpx.AsyncClient, method: str, path: str) -> httpx.Response:
        url, options = SAMPLES[method, path]
        await self.take_lease(client, path)
        url = url.replace("LEASE", self.lease).replace("DELAYED", self.delayed)
        return await client.request(method, url, **options)

    async def take_lease(self, client: httpx.AsyncClient, path: str) -> None:
        """Take the lease of the path, if it has one."""
        if "{lease}" in path and not self.lease:
            leases = "/api/queues/%2F/jobs/leases?max=1&answer=json"
            self.lease = (await client.post(leases)).json()["lease"]

    def share(self, name: str) -> Share:
        (found,) = (each for each in vars(self.shares).values() if each.name == name)
        assert isinstance(found, Share)
        return found


def costs(world: FilledWorld) -> dict[tuple[str, str], Cost]:
    found = {}
    for route in world.app.routes:
        assert isinstance(route, CostedRoute), f"{route} does not say what it costs"
        (method,) = route.methods - {"HEAD"}
        found[method, route.path] = route.cost
    return found


@pytest.fixture
def filled() -> FilledWorld:
    return FilledWorld()


def test_every_route_has_a_cost_and_a_sample_here(filled: FilledWorld):
    assert set(costs(filled)) == set(SAMPLES)


def use_up(share: Share, key: Hashable) -> list[Slot]:
    """Take all that one key gets; then nobody of that key waits for more either."""
    share.waiting_max = 0
    taken: list[Slot] = []
    for count in (share.slots // 2, 1, 1):
        try:
            taken.append(share.take(key, count))
        except NoSlot:
            break
    return taken


@pytest.mark.parametrize(("method", "path"), list(SAMPLES), ids=map(" ".join, SAMPLES))
async def test_every_route_is_refused_when_a_share_of_its_cost_is_used_up(
    filled: FilledWorld, method: str, path: str
):
    cost = costs(filled)[method, path]
    async with filled.client() as client:
        if cost is PROBE:
            for share in vars(filled.shares).values():
                share.slots = 0
            assert (await filled.ask(client, method, path)).status_code == 200
            return
        await filled.ask(client, "GET", "/api/filters")  # the user is verified
        await filled.take_lease(client, path)
        recorded = list(filled.changes)
        for name in ("http_logins", "http_requests", *cost.limits):
            share = filled.share(name)
            if name == "http_requests" and (method, path) == NOBODYS:
                continue
            early = name == "http_logins" or ((method, path) == SESSION and name in BEFORE_LOGIN)
            backend = "oauth2" if path.endswith("/callback") else ""
            key = (backend, "guest") if name == "http_sessions" else "guest"
            slots = use_up(share, address_key("127.0.0.1") if early else key)
            answer = await filled.ask(client, method, path)
            assert (answer.status_code, answer.json()["limit"]) == (429, name), answer.text
            assert answer.headers["retry-after"] == "1"
            share.slots = share.used
            answer = await filled.ask(client, method, path)
            assert (answer.status_code, answer.json()["error"]) == (503, "busy"), answer.text
            assert (answer.json()["limit"], answer.json()["value"]) == (name, share.slots)
            assert filled.broker.refusals.by_kind[name] >= 2
            share.slots *= 2
            for slot in slots:
                slot.release()
        assert filled.changes == recorded
        answer = await filled.ask(client, method, path)
        assert answer.status_code < 400, answer.text
    kept = {
        "http_leases": len(filled.around.leases),
        "http_sessions": len(filled.around.sessions),
    }
    for share in vars(filled.shares).values():
        assert share.used == kept.get(share.name, 0)


@pytest.mark.parametrize(("method", "path"), list(SAMPLES), ids=map(" ".join, SAMPLES))
async def test_what_grows_is_refused_while_an_alarm_is_on_and_nothing_else(
    filled: FilledWorld, method: str, path: str
):
    cost = costs(filled)[method, path]
    async with filled.client() as client:
        for alarm in ("memory", "disk"):
            filled.broker.set_alarm(alarm, True)
            recorded = list(filled.changes)
            answer = await filled.ask(client, method, path)
            if path in ALARMED:
                assert (answer.status_code, answer.json()["status"]) == (503, "failed")
                return
            if not cost.grows:
                assert answer.status_code < 400, answer.text
                return
            assert (answer.status_code, answer.json()["limit"]) == (503, f"{alarm}_alarm")
            assert answer.headers["retry-after"] == "1"
            assert filled.changes == recorded
            assert filled.broker.refusals.by_kind[f"{alarm}_alarm"] == 1
            filled.broker.set_alarm(alarm, False)
        assert (await filled.ask(client, method, path)).status_code < 400


TRIALS = [
    ("PUT", "/api/policies/{vhost}/{name}"),
    ("PUT", "/api/operator-policies/{vhost}/{name}"),
    ("POST", QUEUE + "/move"),
]


@pytest.mark.parametrize(("method", "path"), TRIALS, ids=map(" ".join, TRIALS))
async def test_what_would_be_done_is_told_while_an_alarm_is_on(
    filled: FilledWorld, method: str, path: str
):
    filled.broker.set_alarm("memory", True)
    recorded = list(filled.changes)
    sample, given = SAMPLES[method, path]
    async with filled.client() as client:
        answer = await client.request(method, f"{sample}?dry_run=true", **given)
        assert answer.status_code == 200, answer.text
        assert answer.json()["dry_run"] is True
        for query in ("dry_run=false", "dry_run=true&dry_run=false", "dry_run=1"):
            answer = await client.request(method, f"{sample}?{query}", **given)
            assert (answer.status_code, answer.json()["limit"]) == (503, "memory_alarm")
    assert filled.changes == recorded


async def test_a_route_without_a_trial_is_refused_whatever_is_asked(filled: FilledWorld):
    filled.broker.set_alarm("memory", True)
    async with filled.client() as client:
        answer = await client.put("/api/queues/%2F/new?dry_run=true", json={})
    assert (answer.status_code, answer.json()["limit"]) == (503, "memory_alarm")


@pytest.mark.parametrize("name", sorted(BEFORE_LOGIN))
async def test_a_user_named_as_an_address_has_nothing_of_who_comes_from_there(
    filled: FilledWorld, name: str
):
    use_up(filled.share(name), "127.0.0.1")
    async with filled.client() as client:
        assert (await filled.ask(client, *SESSION)).status_code == 200


def test_an_alarm_is_named_with_its_limit():
    admission = Admission(Refusals(), {"memory"}, {"memory": 1000})
    with pytest.raises(Refusal, match="low on memory") as caught:
        admission.check_growth()
    assert caught.value.facts == {"limit": "memory_alarm", "value": 1000}


async def test_who_waits_too_long_is_refused(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "QUEUE_SECONDS", 0)
    share = Share("things", 1, Refusals(), 10)
    slot = share.take("ann")
    with pytest.raises(Refusal) as caught:
        await waited_for(share, "ben")
    assert (caught.value.status, caught.value.facts) == (503, {"limit": "things", "value": 1})
    assert share.waiting == 0
    slot.release()
    assert share.used == 0


async def test_who_goes_away_while_waiting_leaves_its_slot_to_others():
    share = Share("things", 1, Refusals(), 10)
    slot = share.take("ann")
    waiting = [asyncio.create_task(waited_for(share, key)) for key in ("ben", "cat")]
    await asyncio.sleep(0)
    # Its turn comes, and at the same moment it goes.
    slot.release()
    waiting[0].cancel()
    assert (await waiting[1]).count == 1
    assert waiting[0].cancelled()
    assert share.held("cat") == share.used == 1


async def test_a_block_holds_a_slot():
    share = Share("things", 1, Refusals(), 10)
    async with holding(share, "ann"):
        assert share.used == 1
    assert share.used == 0
