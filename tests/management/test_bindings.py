"""Bindings over RabbitMQ's API: answers and keys are those of RabbitMQ 3.10.8."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from tests.management.conftest import World
from tests.management.queues import queue_of

from leporid.broker.exchange.types import Binding
from leporid.management.bindings import all_bindings, properties_key

URL = "/api/bindings/%2F/e/amq.topic/q/q"
NOT_FOUND = (404, {"error": "Object Not Found", "reason": "Not Found"})
DEFAULT = {
    "source": "",
    "vhost": "/",
    "destination": "q",
    "destination_type": "queue",
    "routing_key": "q",
    "arguments": {},
    "properties_key": "q",
}


@pytest.fixture(autouse=True)
def queue(world: World) -> None:
    queue_of(world, "q")


async def asked(
    client: httpx.AsyncClient, method: str, path: str, **options: Any
) -> tuple[int, Any]:
    answer = await client.request(method, path, **options)
    return answer.status_code, answer.json() if answer.content else None


async def bound(client: httpx.AsyncClient, url: str = URL, **given: Any) -> str:
    answer = await client.post(url, json=given)
    assert answer.status_code == 201, answer.text
    return answer.headers["location"]


def shown(key: str, properties: str, **arguments: Any) -> dict[str, Any]:
    return DEFAULT | {
        "source": "amq.topic",
        "routing_key": key,
        "properties_key": properties,
        "arguments": arguments,
    }


# What a RabbitMQ 3.10.8 on Erlang 25 answered: arguments, and the hash in the key.
HASHES = [
    ({"x": 1}, "9nmLZQ"),
    ({"x": -1}, "U_Pclw"),
    ({"x": 300}, "w62RMw"),
    ({"x": 268435456}, "OpeWeg"),
    ({"x": -268435457}, "F868ng"),
    ({"x": 5000000000}, "L5NU5g"),
    ({"x": 9223372036854775807}, "YAuNDw"),
    ({"x": True}, "TmR75w"),
    ({"x": 1.5}, "jFOrkw"),
    ({"x": "a"}, "8ZICiA"),
    ({"x": ""}, "bRwPzQ"),
    ({"a": "b", "c": "d"}, "XQjOug"),
    ({"x": [1, "a"]}, "Kk7VCA"),
    ({"x": [5, 6]}, "VmPXQA"),
    ({"x": []}, "NddRgQ"),
    ({"x": {"z": 1, "a": "b"}}, "4332pA"),
    ({"x-match": "all"}, "3ujGfg"),
    ({"abcdefghijklmn": "0123456789ABCDEFGHIJ"}, "xzVrjA"),
]


@pytest.mark.parametrize(("arguments", "digest"), HASHES)
def test_the_key_of_a_binding_with_arguments(arguments: dict[str, Any], digest: str):
    assert properties_key(Binding("e", "q", "queue", "", arguments)) == f"~{digest}"
    assert properties_key(Binding("e", "q", "queue", "k", arguments)) == f"k~{digest}"


@pytest.mark.parametrize(
    ("key", "location", "properties"),
    [
        ("", "q/~", "~"),
        ("k", "q/k", "k"),
        ("a.~b c/d*#", "q/a.%257Eb%2Bc%252Fd%252A%2523", "a.%7Eb+c%2Fd%2A%23"),
        ("ä", "q/%25C3%25A4", "%C3%A4"),
    ],
)
async def test_a_bindings_life(client: httpx.AsyncClient, key: str, location: str, properties: str):
    assert await bound(client, routing_key=key) == location
    assert await bound(client, routing_key=key) == location
    one = shown(key, properties)
    assert await asked(client, "GET", URL) == (200, [one])
    quoted = location.partition("/")[2]
    assert await asked(client, "GET", f"{URL}/{quoted}") == (200, one)
    assert await asked(client, "DELETE", f"{URL}/{quoted}") == (204, None)
    assert await asked(client, "DELETE", f"{URL}/{quoted}") == NOT_FOUND
    assert await asked(client, "GET", URL) == (200, [])


async def test_a_name_is_that_of_the_other_end(world: World, client: httpx.AsyncClient):
    queue_of(world, "late")
    await bound(client, routing_key="k")
    await bound(client, URL.removesuffix("q") + "late", routing_key="k")
    page = "?page=1&name=LAT"
    for source in ("amq.topic", "amq.default"):
        path = f"/api/exchanges/%2F/{source}/bindings/source{page}"
        _, found = await asked(client, "GET", path)
        assert [each["destination"] for each in found["items"]] == ["late"]
        assert (found["filtered_count"], found["total_count"]) == (1, 2)
    _, found = await asked(client, "GET", "/api/queues/%2F/q/bindings?page=1&name=topic")
    assert [each["source"] for each in found["items"]] == ["amq.topic"]


async def test_a_key_that_a_client_has_not_quoted(client: httpx.AsyncClient):
    await bound(client, routing_key="a.*")
    assert (await asked(client, "GET", f"{URL}/a.*"))[0] == 200
    assert await asked(client, "DELETE", f"{URL}/a.%2A") == (204, None)


async def test_arguments_tell_bindings_apart(client: httpx.AsyncClient):
    given = {"x-match": "all"}
    assert await bound(client, routing_key="", arguments=given) == "q/~3ujGfg"
    assert await bound(client) == "q/~"
    _, found = await asked(client, "GET", URL)
    assert found == [shown("", "~3ujGfg", **given), shown("", "~")]
    for one in found:
        assert await asked(client, "GET", f"{URL}/{one['properties_key']}") == (200, one)
    assert await asked(client, "DELETE", f"{URL}/~3ujGfg") == (204, None)
    assert await asked(client, "GET", URL) == (200, [shown("", "~")])


async def test_lists(world: World, client: httpx.AsyncClient):
    world.vhost.create_exchange(
        "e", "fanout", durable=True, auto_delete=False, internal=False, arguments={}
    )
    world.broker.add_vhost("other").make_queue("elsewhere")
    await bound(client, routing_key="k")
    await bound(client, "/api/bindings/%2F/e/amq.topic/e/e", routing_key="k")
    to_e = shown("k", "k") | {"destination": "e", "destination_type": "exchange"}
    to_q = shown("k", "k")
    for path, expected in (
        ("bindings/%2F", [DEFAULT, to_q, to_e]),
        ("bindings/%2F/e/amq.topic/e/e", [to_e]),
        ("bindings/%2F/e/amq.default/q/q", [DEFAULT]),
        ("bindings/%2F/e/amq.topic/q/none", []),
        ("queues/%2F/q/bindings", [DEFAULT, to_q]),
        ("exchanges/%2F/amq.topic/bindings/source", [to_q, to_e]),
        ("exchanges/%2F/e/bindings/destination", [to_e]),
        ("exchanges/%2F/amq.default/bindings/source", [DEFAULT]),
    ):
        assert await asked(client, "GET", f"/api/{path}") == (200, expected), path
    _, every = await asked(client, "GET", "/api/bindings?page=1&columns=destination,vhost")
    assert every["total_count"] == 4
    assert {"destination": "elsewhere", "vhost": "other"} in every["items"]
    _, paged = await asked(client, "GET", "/api/bindings/%2F?page=2&page_size=2")
    assert paged["items"] == [to_e]
    for path in (
        "queues/%2F/none/bindings",
        "exchanges/%2F/none/bindings/source",
        "exchanges/%2F/none/bindings/destination",
    ):
        assert await asked(client, "GET", f"/api/{path}") == (200, [])
        elsewhere = path.replace("%2F", "nowhere")
        assert await asked(client, "GET", f"/api/{elsewhere}") == NOT_FOUND
    _, page = await asked(client, "GET", "/api/queues/%2F/none/bindings?page=1")
    assert (page["items"], page["total_count"]) == ([], 0)


@pytest.mark.parametrize(
    ("path", "given", "status", "reason"),
    [
        ("e/none/q/q", {}, 404, "no exchange 'none' in vhost '/'"),
        ("e/amq.topic/q/none", {}, 404, "no queue 'none' in vhost '/'"),
        ("e/amq.topic/e/none", {}, 404, "no exchange 'none' in vhost '/'"),
        ("e/amq.topic/x/q", {}, 404, "Not Found"),
        ("e/amq.default/q/q", {}, 401, "operation not permitted on the default exchange"),
        ("e/amq.topic/q/q", {"routing_key": 5}, 400, "routing_key is a string"),
        ("e/amq.topic/q/q", {"arguments": "x"}, 400, "arguments is not a JSON object"),
        (
            "e/amq.topic/q/q",
            {"arguments": {"x": [0] * 256}},
            400,
            "more values than the limit of 256",
        ),
        ("e/amq.topic/q/q", {"routing_key": "k" * 256}, 400, "255"),
    ],
)
async def test_what_is_refused(
    client: httpx.AsyncClient, path: str, given: dict[str, Any], status: int, reason: str
):
    found, answer = await asked(client, "POST", f"/api/bindings/%2F/{path}", json=given)
    assert found == status
    assert reason in answer["reason"]


def test_very_many_exchanges_are_sorted_in_steps(world: World):
    count = 100
    for number in range(count):
        world.vhost.create_exchange(
            f"x{number}", "fanout", durable=False, auto_delete=False, internal=False, arguments={}
        )
        world.vhost.bindings.bind(Binding(f"x{number}", "q", "queue", "", {}), None)
    found = list(all_bindings(world.vhost))
    first = next(at for at, each in enumerate(found) if each is not None and each[1].source)
    # Each was looked at before the first is given.
    assert first >= count
    sources = [each[1].source for each in found if each is not None]
    assert sources == ["", *sorted(f"x{number}" for number in range(count))]
