"""The one node there is."""

from __future__ import annotations

import httpx
import pytest
from tests.management.conftest import SECRET, World

from leporid.broker.access.access import User
from leporid.broker.access.passwords import salted_sha256
from leporid.management.nodes import NodeFacts

URL = "/api/nodes"


@pytest.fixture(autouse=True)
def facts(world: World) -> None:
    found = NodeFacts(
        started_ms=world.engine.clock.wall_ms - 5000, memory_used=7, os_pid=4, descriptors=3
    )
    object.__setattr__(world.around, "node", lambda: found)


async def test_a_node(world: World, client: httpx.AsyncClient):
    (found,) = (await client.get(URL)).json()
    assert (found["name"], found["running"], found["uptime"]) == ("leporid@localhost", True, 5000)
    assert (found["mem_used"], found["os_pid"]) == (7, "4")
    assert found["fd_used"] == 3
    assert (found["mem_alarm"], found["disk_free_alarm"]) == (False, False)
    churn = (await client.get("/api/overview?columns=churn_rates")).json()["churn_rates"]
    assert churn.items() <= found.items()
    assert found["queue_created"] == 0
    world.vhost.create_queue("q", durable=True, auto_delete=False, arguments={}, owner=None)
    (found,) = (await client.get(URL)).json()
    assert found["queue_created"] == 1
    assert (await client.get(f"{URL}/leporid@localhost")).json() == found
    world.broker.set_alarm("disk", True)
    asked = await client.get(f"{URL}?columns=mem_alarm,disk_free_alarm")
    assert asked.json() == [{"mem_alarm": False, "disk_free_alarm": True}]
    one = await client.get(f"{URL}/leporid@localhost?columns=name")
    assert one.json() == {"name": "leporid@localhost"}
    assert (await client.get(f"{URL}/other@localhost")).status_code == 404


async def test_the_node_answers_to_what_rabbitmq_calls_its_own(client: httpx.AsyncClient):
    # Scripts have rabbit@HOST in them.
    found = (await client.get(f"{URL}/rabbit@localhost")).json()
    assert (found["name"], found["running"]) == ("leporid@localhost", True)
    for path in ("nodes/{}/memory", "healthchecks/node/{}", "auth/attempts/{}"):
        for name, status in (("rabbit@localhost", 200), ("rabbit@elsewhere", 404)):
            answer = await client.get(f"/api/{path.format(name)}")
            assert answer.status_code == status, answer.text


@pytest.mark.parametrize(("tag", "status"), [("monitoring", 200), ("management", 401)])
async def test_nodes_are_for_who_monitors(
    world: World, client: httpx.AsyncClient, tag: str, status: int
):
    world.broker.access.put_user(User("u", salted_sha256("secret", SECRET), frozenset({tag})))
    for path in (URL, f"{URL}/leporid@localhost"):
        assert (await client.get(path, auth=("u", "secret"))).status_code == status


async def test_memory_by_what_it_is_for(world: World, client: httpx.AsyncClient):
    world.vhost.create_queue("q", durable=True, auto_delete=False, arguments={}, owner=None)
    found = (await client.get("/api/nodes/leporid@localhost/memory")).json()["memory"]
    assert found["metadata_store"] >= 3072
    parts = [found[name] for name in ("connection_other", "metadata_store", "binary", "other_proc")]
    assert sum(parts) == found["total"]["rss"]
    shares = (await client.get("/api/nodes/leporid@localhost/memory/relative")).json()["memory"]
    assert shares["total"] == 100
    assert set(shares) == {"total", "connection_other", "metadata_store", "binary", "other_proc"}
    assert (await client.get("/api/nodes/nope/memory")).status_code == 404
