"""Who may ask for what over HTTP: every route, and each tag and right.

The table says of each route who is let in; everybody else is refused, and nothing has happened.
A route that is new has to be put into it.
"""

from __future__ import annotations

from typing import Final

import httpx
import pytest
from tests.management.conftest import SECRET
from tests.management.test_admission import SAMPLES, FilledWorld

from leporid.broker.access.access import User
from leporid.broker.access.passwords import salted_sha256
from leporid.broker.access.permissions import EVERYTHING, Permissions

ALL: Final = {"/": EVERYTHING}
USERS: Final[dict[str, tuple[str, dict[str, Permissions]]]] = {
    "n": ("none", ALL),
    "o": ("management", {}),  # may not enter the virtual host
    "i": ("management", {"/": Permissions.of()}),
    "c": ("management", {"/": Permissions.of(configure=".*")}),
    "w": ("management", {"/": Permissions.of(write=".*")}),
    "r": ("management", {"/": Permissions.of(read=".*")}),
    "a": ("management", ALL),
    "p": ("policymaker", ALL),
    "m": ("monitoring", ALL),
    "A": ("administrator", ALL),
}
"""Each user with its tag and its rights in the one virtual host."""

LET_IN: Final = {
    "noicwrapmA": """
        GET /health
        GET /metrics
        GET /api/filters
        POST /api/session
        GET /api/session
        GET /api/auth
        GET /api/openapi.json
        DELETE /api/session
        GET /api/session/oauth
        GET /api/session/oauth/callback
    """,
    "nicwrapmA": """
        GET /api/streams/{vhost}
        GET /api/delays/{vhost}
        GET /api/filters/{vhost}
        GET /api/unknown-arguments/{vhost}
        PUT /api/pipelines/{vhost}/{name}
        GET /api/pipelines/{vhost}/{name}
        DELETE /api/pipelines/{vhost}/{name}
    """,
    "oicwrapmA": """
        GET /api/dead-letters
        GET /api/streams
        GET /api/readers
        GET /api/pipelines
        GET /api/groups
        GET /api/leases
        GET /api/overview
        GET /api/cluster-name
        GET /api/extensions
        GET /api/connections
        GET /api/channels
        GET /api/exchanges
        GET /api/queues
        GET /api/queues/detailed
        GET /api/healthchecks/node
        GET /api/health/checks/alarms
        GET /api/health/checks/local-alarms
        GET /api/health/checks/virtual-hosts
        GET /api/health/checks/metadata-store/initialized
        GET /api/health/checks/metadata-store/initialized/with-data
        GET /api/health/checks/reached-target-cluster-size
        GET /api/health/checks/quorum-queues-without-elected-leaders/all-vhosts
        GET /api/health/checks/node-is-quorum-critical
        GET /api/health/checks/node-is-mirror-sync-critical
        GET /api/health/checks/is-in-service
        GET /api/health/checks/ready-to-serve-clients
        GET /api/health/checks/below-node-connection-limit
        GET /api/consumers
        GET /api/consumers/{vhost}
        GET /api/bindings
        GET /api/health/checks/certificate-expiration/{within}/{unit}
        GET /api/health/checks/port-listener/{port}
        GET /api/health/checks/protocol-listener/{protocol}
        GET /api/health/checks/quorum-queues-without-elected-leaders/vhost/{vhost}
        GET /api/healthchecks/node/{name}
        GET /api/policies
        GET /api/operator-policies
        GET /api/vhost-limits
        GET /api/user-limits
        GET /api/user-limits/{user}
        GET /api/whoami
        GET /api/vhosts
        GET /api/live
        GET /api/version
    """,
    "icwrapmA": """
        GET /api/topology/{vhost}
        GET /api/readers/{vhost}
        GET /api/pipelines/{vhost}
        GET /api/groups/{vhost}
        GET /api/leases/{vhost}
        GET /api/dead-letters/{vhost}
        GET /api/vhosts/{vhost}/connections
        GET /api/vhosts/{vhost}/channels
        GET /api/exchanges/{vhost}
        GET /api/exchanges/{vhost}/{exchange}
        GET /api/exchanges/{vhost}/{exchange}/bindings/source
        GET /api/exchanges/{vhost}/{exchange}/bindings/destination
        GET /api/queues/{vhost}
        GET /api/queues/{vhost}/{queue}
        GET /api/queues/{vhost}/{queue}/bindings
        GET /api/bindings/{vhost}
        GET /api/bindings/{vhost}/e/{source}/{kind}/{destination}
        GET /api/bindings/{vhost}/e/{source}/{kind}/{destination}/{key}
        GET /api/policies/{vhost}
        GET /api/operator-policies/{vhost}
        GET /api/vhost-limits/{vhost}
        GET /api/samples/{kind}/{name}
        GET /api/samples/{kind}/{vhost}/{name}
        POST /api/queues/{vhost}/{queue}/actions
    """,
    "ncapmA": """
        DELETE /api/delays/{vhost}/{exchange}
        PUT /api/streams/{vhost}/{stream}
        DELETE /api/streams/{vhost}/{stream}
        DELETE /api/delays/{vhost}/{exchange}/{id}
        PUT /api/queues/{vhost}/{queue}/pause
        PUT /api/queues/{vhost}/{queue}/resume
    """,
    "nrapmA": """
        GET /api/streams/{vhost}/{stream}
        GET /api/streams/{vhost}/{stream}/offset-for
        GET /api/streams/{vhost}/{stream}/records
        GET /api/streams/{vhost}/{stream}/readers
        GET /api/streams/{vhost}/{stream}/readers/{reader}
        GET /api/queues/{vhost}/{queue}/messages
        POST /api/queues/{vhost}/{queue}/leases
        GET /api/groups/{vhost}/{stream}
        GET /api/groups/{vhost}/{stream}/{group}
        GET /api/delays/{vhost}/{exchange}
        GET /api/delays/{vhost}/{exchange}/{id}
        GET /api/queues/{vhost}/{queue}/browse
        GET /api/streams/{vhost}/{stream}/browse
        GET /api/queues/{vhost}/{queue}/filter-test
        GET /api/streams/{vhost}/{stream}/filter-test
        GET /api/delays/{vhost}/{exchange}/timeline
        DELETE /api/queues/{vhost}/{queue}/leases/{lease}
        GET /api/queues/{vhost}/{queue}/leases/{lease}/messages
        POST /api/queues/{vhost}/{queue}/leases/{lease}/release
    """,
    "nwapmA": """
        POST /api/publish/{vhost}/{exchange}
    """,
    "capmA": """
        PUT /api/exchanges/{vhost}/{exchange}
        PUT /api/queues/{vhost}/{queue}
        DELETE /api/exchanges/{vhost}/{exchange}
        DELETE /api/queues/{vhost}/{queue}
    """,
    "napmA": """
        POST /api/queues/{vhost}/{queue}/move
        PUT /api/streams/{vhost}/{stream}/readers/{reader}
        DELETE /api/streams/{vhost}/{stream}/readers/{reader}
        DELETE /api/groups/{vhost}/{stream}/{group}
    """,
    "rapmA": """
        POST /api/queues/{vhost}/{queue}/get
        DELETE /api/queues/{vhost}/{queue}/contents
    """,
    "wapmA": """
        POST /api/exchanges/{vhost}/{exchange}/publish
    """,
    "apmA": """
        GET /api/aliveness-test/{vhost}
        POST /api/bindings/{vhost}/e/{source}/{kind}/{destination}
        DELETE /api/bindings/{vhost}/e/{source}/{kind}/{destination}/{key}
    """,
    "mA": """
        GET /api/nodes
        GET /api/nodes/{name}
        GET /api/connections/username/{username}
        GET /api/connections/{name}
        GET /api/connections/{name}/channels
        GET /api/channels/{channel}
        GET /api/samples
        GET /api/auth/attempts/{node}
        GET /api/auth/attempts/{node}/source
        GET /api/nodes/{name}/memory
        GET /api/nodes/{name}/memory/relative
        DELETE /api/auth/attempts/{node}
        DELETE /api/auth/attempts/{node}/source
    """,
    "pA": """
        GET /api/global-parameters
        GET /api/parameters
        GET /api/parameters/{component}
        GET /api/parameters/{component}/{vhost}
        GET /api/policies/{vhost}/{name}
        GET /api/parameters/{component}/{vhost}/{name}
        GET /api/global-parameters/{name}
        PUT /api/policies/{vhost}/{name}
        PUT /api/global-parameters/{name}
        DELETE /api/policies/{vhost}/{name}
        DELETE /api/global-parameters/{name}
    """,
    "A": """
        GET /api/feature-flags
        GET /api/deprecated-features
        GET /api/deprecated-features/used
        GET /api/operator-policies/{vhost}/{name}
        GET /api/permissions
        GET /api/users/{name}/permissions
        GET /api/vhosts/{name}/permissions
        GET /api/permissions/{vhost}/{user}
        GET /api/topic-permissions
        GET /api/users/{name}/topic-permissions
        GET /api/vhosts/{name}/topic-permissions
        GET /api/topic-permissions/{vhost}/{user}
        GET /api/auth/hash_password/{password}
        GET /api/users
        GET /api/users/without-permissions
        GET /api/users/{name}
        GET /api/vhosts/{name}
        GET /api/audit
        GET /api/users/{name}/sessions
        GET /api/backups
        GET /api/definitions
        GET /api/all-configuration
        GET /api/definitions/{vhost}
        PUT /api/operator-policies/{vhost}/{name}
        PUT /api/topic-permissions/{vhost}/{user}
        PUT /api/users/{name}
        PUT /api/vhosts/{name}
        PUT /api/backups/{name}
        DELETE /api/connections/username/{username}
        DELETE /api/connections/{name}
        DELETE /api/operator-policies/{vhost}/{name}
        PUT /api/permissions/{vhost}/{user}
        DELETE /api/permissions/{vhost}/{user}
        DELETE /api/topic-permissions/{vhost}/{user}
        PUT /api/vhost-limits/{vhost}/{limit}
        DELETE /api/vhost-limits/{vhost}/{limit}
        PUT /api/user-limits/{user}/{limit}
        DELETE /api/user-limits/{user}/{limit}
        POST /api/users/bulk-delete
        DELETE /api/users/{name}
        DELETE /api/topic-permissions/{vhost}/{user}/{exchange}
        DELETE /api/vhosts/{name}
        DELETE /api/users/{name}/sessions
        PUT /api/feature-flags/{name}/enable
        DELETE /api/reset
        DELETE /api/reset/{node}
        POST /api/rebalance/queues
        POST /api/vhosts/{name}/start/{node}
        POST /api/vhosts/{name}/deletion/protection
        DELETE /api/vhosts/{name}/deletion/protection
        POST /api/definitions
        POST /api/all-configuration
        POST /api/definitions/{vhost}
        PUT /api/parameters/{component}/{vhost}/{name}
        DELETE /api/parameters/{component}/{vhost}/{name}
        PUT /api/cluster-name
        GET /api/filter-classes
        GET /api/filter-classes/{name}
        PUT /api/filter-classes/{name}
        DELETE /api/filter-classes/{name}
    """,
}
"""Routes by the users who are let in."""

ROUTES: Final = {
    (method, path): users
    for users, routes in LET_IN.items()
    for method, path in (line.split() for line in routes.strip().splitlines())
}


def test_the_table_has_every_route():
    assert set(ROUTES) == set(SAMPLES)


def is_refused(answer: httpx.Response) -> bool:
    """Whether a right or a tag was missing; RabbitMQ tells of some of them with 400."""
    lacks_right = answer.status_code == 400 and "ACCESS_REFUSED" in answer.text
    return lacks_right or answer.status_code in (401, 403)


def when(route: tuple[str, str]) -> tuple[int, int]:
    """What looks comes first, and what deletes last, the innermost before what holds it."""
    method, path = route
    return ("GET", "POST", "PUT", "DELETE").index(method), -len(path)


@pytest.mark.parametrize("name", USERS)
async def test_a_user_may_do_what_the_table_says_and_nothing_else(name: str):
    world = FilledWorld()
    tag, permissions = USERS[name]
    password = salted_sha256("secret", SECRET)
    user = User(f"user-{name}", password, frozenset({tag}), permissions=permissions)
    async with world.client() as client:
        await world.take_lease(client, "{lease}")
        world.broker.access.put_user(user)
        client.auth = httpx.BasicAuth(user.name, "secret")
        recorded = list(world.changes)
        refused = [route for route in ROUTES if name not in ROUTES[route]]
        for route in refused:
            answer = await world.ask(client, *route)
            assert is_refused(answer), f"{route}: {answer.status_code} {answer.text[:200]}"
        assert world.changes == recorded
        for route in sorted(ROUTES.keys() - set(refused), key=when):
            answer = await world.ask(client, *route)
            assert not is_refused(answer), f"{route}: {answer.status_code} {answer.text[:200]}"
