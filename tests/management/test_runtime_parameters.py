"""Parameters over HTTP: paths, statuses and refusals of RabbitMQ 3.10.8."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from tests.management.conftest import World

from leporid.broker.access.passwords import salted_sha256
from leporid.broker.access.permissions import EVERYTHING

ROOT = "/api/parameters"
LIMITS = f"{ROOT}/vhost-limits/%2F/limits"
OPERATOR = f"{ROOT}/operator_policy/%2F/op"
NOT_FOUND = (404, {"error": "Object Not Found", "reason": "Not Found"})
POLICY = {"pattern": "^x", "definition": {"max-length": 5}, "priority": 1, "apply-to": "queues"}


async def asked(
    client: httpx.AsyncClient, method: str, path: str, body: Any = None
) -> tuple[int, Any]:
    answer = await client.request(method, path, json=body)
    return answer.status_code, answer.json() if answer.content else None


async def test_limits_and_operator_policies_are_parameters(world: World, client: httpx.AsyncClient):
    assert await asked(client, "PUT", LIMITS, {"value": {"max-queues": 5}}) == (201, None)
    assert await asked(client, "PUT", LIMITS, {"value": {"max-queues": 6}}) == (204, None)
    assert world.vhost.limits == {"max-queues": 6}
    assert await asked(client, "PUT", OPERATOR, {"value": POLICY}) == (201, None)
    assert (await client.get("/api/operator-policies/%2F/op")).json()["definition"] == {
        "max-length": 5
    }
    shown = {"component": "operator_policy", "vhost": "/", "name": "op", "value": POLICY}
    assert await asked(client, "GET", OPERATOR) == (200, shown)
    every = (await asked(client, "GET", ROOT))[1]
    assert [each["name"] for each in every] == ["op", "limits"]
    assert await asked(client, "GET", f"{ROOT}/operator_policy/%2F") == (200, [shown])
    assert await asked(client, "GET", f"{ROOT}/shovel") == (200, [])
    assert await asked(client, "GET", f"{ROOT}/shovel/nope") == NOT_FOUND
    for path in (LIMITS, OPERATOR):
        assert await asked(client, "DELETE", path) == (204, None)
        assert await asked(client, "DELETE", path) == NOT_FOUND
    assert world.vhost.limits == {}


@pytest.mark.parametrize(
    ("path", "body", "reason"),
    [
        (
            f"{ROOT}/shovel/%2F/x",
            {"value": {}},
            "Validation failed\n\ncomponent shovel not found\n",
        ),
        (f"{ROOT}/policy/%2F/x", {"value": {}}, "policies may not be set using this method"),
        (LIMITS, {}, "[{key_missing,value}]"),
        (LIMITS, {"value": 7}, "Validation failed\n\nlimits not a list 7\n"),
        (LIMITS, {"value": {"max-queues": "x"}}, "Validation failed\n\nmax-queues should be a"),
        (LIMITS, {"value": {"max-foo": 1}}, "Validation failed\n\nUnrecognised terms [{"),
        (f"{ROOT}/vhost-limits/%2F/x", {"value": {}}, "Validation failed\n\nthere is no"),
        (
            OPERATOR,
            {"value": {"definition": {"max-length": 1}, "apply-to": "all"}},
            'Validation failed\n\nKey "pattern" not found in op\nKey "priority" not found in op\n',
        ),
        (OPERATOR, {"value": POLICY | {"pattern": "("}}, "Validation failed\n\npattern should be"),
    ],
)
async def test_what_is_refused(client: httpx.AsyncClient, path: str, body: Any, reason: str):
    status, answer = await asked(client, "PUT", path, body)
    assert (status, answer["error"]) == (400, "bad_request")
    assert answer["reason"].startswith(reason)


async def test_global_parameters(world: World, client: httpx.AsyncClient):
    path = "/api/global-parameters/g"
    assert await asked(client, "GET", path) == NOT_FOUND
    assert await asked(client, "PUT", path, {"value": {"a": [1]}}) == (201, None)
    assert await asked(client, "PUT", path, {"value": 7}) == (204, None)
    assert await asked(client, "GET", path) == (200, {"name": "g", "value": 7})
    assert (await asked(client, "PUT", path, {}))[1]["reason"] == "[{key_missing,value}]"
    assert await asked(client, "GET", "/api/global-parameters") == (
        200,
        [{"name": "g", "value": 7}],
    )
    assert await asked(client, "DELETE", path) == (204, None)
    assert await asked(client, "DELETE", path) == NOT_FOUND


@pytest.mark.parametrize("value", ["1e400", "[-1e400]", "NaN", "Infinity"])
async def test_a_value_that_nobody_could_write_is_refused(client: httpx.AsyncClient, value: str):
    """It was kept, and the definitions could not be exported any more."""
    path = "/api/global-parameters"
    answer = await client.put(f"{path}/g", content=f'{{"value": {value}}}')
    assert (answer.status_code, answer.json()["reason"]) == (400, "not_json")
    assert await asked(client, "GET", path) == (200, [])


async def test_the_cluster_has_a_name(client: httpx.AsyncClient):
    assert await asked(client, "PUT", "/api/cluster-name", {"name": "mine"}) == (204, None)
    assert await asked(client, "GET", "/api/cluster-name") == (200, {"name": "mine"})
    assert (await client.get("/api/overview")).json()["cluster_name"] == "mine"
    assert (await asked(client, "PUT", "/api/cluster-name", {}))[1]["reason"] == (
        "[{key_missing,name}]"
    )


async def test_who_may(world: World, client: httpx.AsyncClient):
    for name in ("management", "policymaker"):
        world.broker.users.put(name, salted_sha256("pw", b"salt"), frozenset({name}))
        world.broker.users.permit(name, "/", EVERYTHING)
    refused = (await client.get(ROOT, auth=("management", "pw"))).json()["reason"]
    assert refused == "User not authorised to access object"
    assert (await client.get(ROOT, auth=("policymaker", "pw"))).status_code == 200
    for path, value in ((LIMITS, {}), (OPERATOR, POLICY)):
        answer = await client.put(path, json={"value": value}, auth=("policymaker", "pw"))
        assert answer.json()["reason"] == "Not administrator user"
    world.broker.add_vhost("other")
    answer = await client.get(f"{ROOT}/operator_policy/other", auth=("policymaker", "pw"))
    assert answer.json()["reason"] == "User not authorised to access virtual host"
