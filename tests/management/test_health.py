"""Health checks: 200 when all is well, 503 and what is wrong when it is not."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import httpx
import pytest
from tests.management.clients import connected
from tests.management.conftest import World

from leporid.management.health import DAY_S
from leporid.management.nodes import ListenerCertificate, Listening, NodeFacts

URL = "/api/health/checks"
OK = (200, {"status": "ok"})


def node(world: World, **changed: Any) -> None:
    facts = NodeFacts(
        listening=[Listening("amqp", "::", 5672), Listening("http", "::", 15672)], **changed
    )
    object.__setattr__(world.around, "node", lambda: facts)


async def got(client: httpx.AsyncClient, path: str) -> tuple[int, Any]:
    answer = await client.get(path if path.startswith("/") else f"{URL}/{path}")
    return answer.status_code, answer.json()


@pytest.mark.parametrize("path", ["alarms", "local-alarms"])
async def test_alarms(world: World, client: httpx.AsyncClient, path: str):
    assert await got(client, path) == OK
    world.broker.set_alarm("memory", True)
    assert await got(client, path) == (
        503,
        {
            "status": "failed",
            "reason": "There are alarms in effect in the cluster",
            "alarms": [{"node": "leporid@localhost", "resource": "memory"}],
        },
    )
    world.broker.set_alarm("memory", False)
    assert await got(client, path) == OK


async def test_ports_and_protocols(world: World, client: httpx.AsyncClient):
    node(world)
    assert await got(client, "port-listener/5672") == (200, {"status": "ok", "port": 5672})
    assert await got(client, "port-listener/1") == (
        503,
        {
            "status": "failed",
            "reason": "No active listener",
            "missing": 1,
            "ports": [5672, 15672],
        },
    )
    assert (await got(client, "port-listener/x"))[0] == 400
    assert await got(client, "protocol-listener/amqp091") == (
        200,
        {"status": "ok", "protocol": "amqp091"},
    )
    assert await got(client, "protocol-listener/amqps") == (
        503,
        {
            "status": "failed",
            "reason": "No active listener",
            "missing": "amqp/ssl",
            "protocols": ["amqp", "http"],
        },
    )


async def test_certificates(world: World, client: httpx.AsyncClient):
    now_s = world.engine.clock.wall_ms // 1000
    server = ListenerCertificate("/s.pem", [now_s + 20 * DAY_S, now_s + 900 * DAY_S])
    client_ca = ListenerCertificate("/o.pem", [now_s + 900 * DAY_S], "/ca.pem", [now_s + 6 * DAY_S])
    listening = Listening("amqp/ssl", "::", 5671, tls=True, certificates=[server, client_ca])
    facts = NodeFacts(listening=[Listening("amqp", "::", 5672), listening])
    object.__setattr__(world.around, "node", lambda: facts)
    assert await got(client, "certificate-expiration/5/days") == OK
    status, failed = await got(client, "certificate-expiration/1/Weeks")
    assert (status, failed["status"], failed["reason"]) == (503, "failed", "Certificates expiring")
    (ending,) = failed["expired"]
    assert ending == {
        "node": "leporid@localhost",
        "protocol": "amqp/ssl",
        "interface": "::",
        "port": 5671,
        "certfile": "/o.pem",
        "cacertfile": "/ca.pem",
        "certfile_expires_on": [],
        "cacertfile_expires_on": [f"{datetime.fromtimestamp(now_s + 6 * DAY_S, UTC):%F %T}"],
    }
    month = (await got(client, "certificate-expiration/1/months"))[1]
    assert [len(each["certfile_expires_on"]) for each in month["expired"]] == [1, 0]
    years = (await got(client, "certificate-expiration/3/years"))[1]
    assert [len(each["certfile_expires_on"]) for each in years["expired"]] == [2, 1]


async def test_certificates_without_tls(client: httpx.AsyncClient):
    assert await got(client, "certificate-expiration/1/months") == OK
    assert (await got(client, f"certificate-expiration/{'9' * 5000}/days"))[0] == 400
    refused = await got(client, "certificate-expiration/1/hours")
    assert refused[0] == 400
    assert "Supported units: days, weeks, months, years." in refused[1]["reason"]
    assert (await got(client, "certificate-expiration/x/weeks"))[1]["reason"] == (
        "Invalid expiration value."
    )


async def test_a_node_that_is_being_stopped_is_not_in_service(
    world: World, client: httpx.AsyncClient
):
    node(world)
    assert await got(client, "is-in-service") == OK
    node(world, draining=True)
    for path in ("is-in-service", "ready-to-serve-clients"):
        assert (await got(client, path))[0] == 503


async def test_the_limit_of_connections(world: World, client: httpx.AsyncClient):
    node(world, connections_max=1)
    assert await got(client, "below-node-connection-limit") == (
        200,
        {"status": "ok", "connections": 0, "limit": 1},
    )
    connected(world, 7)
    status, found = await got(client, "below-node-connection-limit")
    assert (status, found["status"], found["connections"]) == (503, "failed", 1)


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
async def test_a_page_of_another_place_may_not_have_a_queue_made(
    world: World, client: httpx.AsyncClient, site: str
):
    answer = await client.get("/api/aliveness-test/%2F", headers={"Sec-Fetch-Site": site})
    assert (answer.status_code, answer.json()["error"]) == (403, "other-origin")
    assert world.vhost.find_queue("aliveness-test") is None


async def test_aliveness(world: World, client: httpx.AsyncClient):
    for _ in range(2):
        assert await got(client, "/api/aliveness-test/%2F") == OK
    assert world.vhost.queue("aliveness-test").engine.ready_count == 0
    assert (await got(client, "/api/aliveness-test/nowhere"))[0] == 404
    world.vhost.delete_queue(world.vhost.queue("aliveness-test"))
    world.engine.run()


async def test_the_old_check(world: World, client: httpx.AsyncClient):
    assert await got(client, "/api/healthchecks/node") == OK
    assert await got(client, "/api/healthchecks/node/") == OK
    assert await got(client, "/api/healthchecks/node/leporid@localhost") == OK
    assert (await got(client, "/api/healthchecks/node/other@localhost"))[0] == 404
    world.broker.set_alarm("disk", True)
    status, found = await got(client, "/api/healthchecks/node")
    assert (status, found["status"]) == (200, "failed")


@pytest.mark.parametrize(
    "path",
    ["virtual-hosts", "reached-target-cluster-size", "metadata-store/initialized"],
)
async def test_what_cannot_fail(client: httpx.AsyncClient, path: str):
    assert await got(client, path) == OK
