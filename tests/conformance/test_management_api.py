"""RabbitMQ's management API as RabbitMQ 3.10.8 answers it: paths, statuses, shapes, refusals.

What is asserted here holds for RabbitMQ, too: run it against one with LEPORID_TEST_URL and
LEPORID_TEST_API_URL.
"""

from __future__ import annotations

import json
import time
import urllib.request
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import quote, urlsplit

import httpx
import pytest
from pika import BlockingConnection
from pika.exceptions import ConnectionClosedByBroker

SECONDS = 20
OTHER_USER = "user_id property set to 'x' but authenticated user was 'guest'"
NOT_FOUND = {"error": "Object Not Found", "reason": "Not Found"}


@pytest.fixture
def api(api_url: str) -> Iterator[httpx.Client]:
    with httpx.Client(
        base_url=api_url, auth=("guest", "guest"), trust_env=False, timeout=SECONDS
    ) as client:
        yield client


def until(asked: Callable[[], Any], wanted: Callable[[Any], bool]) -> Any:
    """Ask until the answer is as wanted; RabbitMQ shows what happened some seconds later."""
    end = time.monotonic() + SECONDS
    while not wanted(found := asked()):
        assert time.monotonic() < end, found
        time.sleep(0.1)
    return found


def test_a_queue(api: httpx.Client, name: Callable[..., str]):
    queue = name()
    url, arguments = f"/queues/%2F/{queue}", {"x-max-length": 10}
    given = {"durable": True, "arguments": arguments}
    assert api.put(url, json=given).status_code == 201
    assert api.put(url, json=given).status_code == 204
    refused = api.put(url, json={"durable": False})
    assert refused.status_code == 400
    assert refused.json()["reason"] == (
        f"inequivalent arg 'durable' for queue '{queue}' in vhost '/': received 'false' but "
        "current is 'true'"
    )
    found = until(
        lambda: api.get(url).json(), lambda found: "messages" in found and "policy" in found
    )
    expected = {
        "name": queue,
        "vhost": "/",
        "type": "classic",
        "state": "running",
        "durable": True,
        "auto_delete": False,
        "exclusive": False,
        "arguments": arguments,
        "policy": None,
        "operator_policy": None,
        "effective_policy_definition": {},
        "consumers": 0,
        "exclusive_consumer_tag": None,
        "single_active_consumer_tag": None,
        "messages": 0,
        "messages_details": {"rate": 0.0},
        "consumer_details": [],
        "incoming": [],
        "deliveries": [],
    }
    assert {key: found[key] for key in expected} == expected
    only = api.get(f"/queues/%2F?columns=name,arguments&page=1&name={queue}").json()
    assert only == {
        "filtered_count": 1,
        "item_count": 1,
        "items": [{"name": queue, "arguments": arguments}],
        "page": 1,
        "page_count": 1,
        "page_size": 100,
        "total_count": only["total_count"],
    }
    assert api.delete(url).status_code == 204
    gone = api.get(url)
    assert (gone.status_code, gone.json()) == (404, NOT_FOUND)


def test_where_a_quorum_queue_is(api: httpx.Client, name: Callable[..., str]):
    queue = name()
    url, node = f"/queues/%2F/{queue}", api.get("/overview").json()["node"]
    arguments = {"x-queue-type": "quorum", "x-single-active-consumer": True}
    assert api.put(url, json={"durable": True, "arguments": arguments}).status_code == 201
    copies = {"leader": node, "members": [node], "online": [node]}
    expected = {"name": queue, "type": "quorum", **copies}
    columns = "columns=name,type,leader,members,online"
    assert api.get(f"{url}?{columns}").json() == expected
    page = f"/queues?{columns}&page=1&name={queue}&sort=leader"
    for query in (page, f"{page}&disable_stats=true"):
        assert api.get(query).json()["items"] == [expected]
    found = until(lambda: api.get(url).json(), lambda found: "consumers" in found)
    assert found["single_active_consumer_ctag"] is None
    assert api.delete(url).status_code == 204


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("x", "not_json"),
        ("[]", "not_json"),
        ('{"durable":"foo"}', ["not_boolean", "foo"]),
    ],
)
def test_what_is_no_queue(api: httpx.Client, name: Callable[..., str], body: str, reason: Any):
    headers = {"content-type": "application/json"}
    refused = api.put(f"/queues/%2F/{name()}", content=body, headers=headers)
    assert refused.status_code == 400
    assert refused.json() == {"error": "bad_request", "reason": reason}


@pytest.mark.parametrize(
    ("query", "error", "reason"),
    [
        (
            "page=0",
            "invalid_pagination_parameters",
            "Invalid pagination parameters: page number 0, page size undefined",
        ),
        (
            "page=1&page_size=501",
            "invalid_pagination_parameters",
            "Invalid pagination parameters: page number 1, page size 501",
        ),
        ("page=a", "bad_request", "Pagination parameters are invalid"),
    ],
)
def test_what_is_no_page(api: httpx.Client, query: str, error: str, reason: str):
    refused = api.get(f"/queues?{query}")
    assert refused.status_code == 400
    assert (refused.json()["error"], refused.json()["reason"]) == (error, reason)


def test_a_binding(api: httpx.Client, name: Callable[..., str]):
    exchange, queue = name(), name()
    assert api.put(f"/exchanges/%2F/{exchange}", json={"type": "topic"}).status_code == 201
    assert api.put(f"/queues/%2F/{queue}", json={}).status_code == 201
    url = f"/bindings/%2F/e/{exchange}/q/{queue}"
    made = {}
    for key, arguments, location in (
        ("a.~b c/d*#", {}, "a.%257Eb%2Bc%252Fd%252A%2523"),
        ("", {}, "~"),
        ("k", {"n": 5, "f": 1.5, "b": True, "l": [1, "a"], "t": {"z": 1, "a": "b"}}, None),
    ):
        answer = api.post(url, json={"routing_key": key, "arguments": arguments})
        assert answer.status_code == 201
        destination, _, properties = answer.headers["location"].partition("/")
        assert destination == queue
        assert location in (None, properties)
        made[key] = properties
    # A number that Erlang gives, whatever the machine.
    assert made["k"] == "k~F6Ta4A"
    found = {each["routing_key"]: each for each in api.get(url).json()}
    assert found[""] == {
        "source": exchange,
        "vhost": "/",
        "destination": queue,
        "destination_type": "queue",
        "routing_key": "",
        "arguments": {},
        "properties_key": "~",
    }
    for key, properties in made.items():
        one = f"{url}/{properties}"
        assert api.get(one).json() == found[key]
        assert api.delete(one).status_code == 204
        assert api.delete(one).status_code == 404
    (default,) = api.get(f"/queues/%2F/{queue}/bindings").json()
    assert (default["source"], default["properties_key"]) == ("", queue)
    missing = api.post(f"/bindings/%2F/e/{exchange}/q/none", json={"routing_key": "k"})
    assert (missing.status_code, missing.json()) == (
        404,
        {"error": "not_found", "reason": "no queue 'none' in vhost '/'"},
    )


def test_a_message(api: httpx.Client, name: Callable[..., str]):
    queue = name()
    api.put(f"/queues/%2F/{queue}", json={})
    publish, get = "/exchanges/%2F/amq.default/publish", f"/queues/%2F/{queue}/get"
    properties = {"delivery_mode": 2, "headers": {"a": [1, {"x": "y"}]}, "message_id": "m"}
    message = {
        "properties": properties,
        "routing_key": queue,
        "payload": "/+8=",
        "payload_encoding": "base64",
    }
    assert api.post(publish, json=message).json() == {"routed": True}
    plain = message | {"properties": {}, "payload": "hello", "payload_encoding": "string"}
    assert api.post(publish, json=plain).json() == {"routed": True}
    assert api.post(publish, json=plain | {"routing_key": "nowhere"}).json() == {"routed": False}
    asked = {"count": 5, "ackmode": "ack_requeue_true", "encoding": "auto"}
    first, second = api.post(get, json=asked).json()
    assert first == {
        "payload_bytes": 2,
        "redelivered": False,
        "exchange": "",
        "routing_key": queue,
        "message_count": 1,
        "properties": properties,
        "payload": "/+8=",
        "payload_encoding": "base64",
    }
    assert (second["payload"], second["properties"], second["message_count"]) == ("hello", [], 0)
    asked |= {"ackmode": "ack_requeue_false", "truncate": 3}
    assert [
        (each["redelivered"], each["payload"]) for each in api.post(get, json=asked).json()
    ] == [(True, "/+8="), (True, "hel")]
    assert api.post(get, json=asked).json() == []


def test_who_knows_the_realm_logs_in(api_url: str):
    # Perl's LWP and Python's urllib send a password for the realm that it is meant for alone.
    place = urlsplit(api_url).netloc
    passwords = urllib.request.HTTPPasswordMgr()
    passwords.add_password("RabbitMQ Management", place, "guest", "guest")
    opener = urllib.request.build_opener(
        urllib.request.ProxyHandler({}), urllib.request.HTTPBasicAuthHandler(passwords)
    )
    with opener.open(f"{api_url}/whoami", timeout=SECONDS) as answer:
        assert json.load(answer)["name"] == "guest"


def test_the_default_exchange_by_its_empty_name(api: httpx.Client, name: Callable[..., str]):
    queue = name()
    api.put(f"/queues/%2F/{queue}", json={})
    message = {"properties": {}, "routing_key": queue, "payload": "x", "payload_encoding": "string"}
    assert api.post("/exchanges/%2F//publish", json=message).json() == {"routed": True}
    found = api.get("/exchanges/%2F//").json()
    assert (found["name"], found["type"]) == ("", "direct")
    assert queue in [
        each["destination"] for each in api.get("/exchanges/%2F//bindings/source").json()
    ]
    (binding,) = api.get(f"/bindings/%2F/e//q/{queue}").json()
    assert (binding["source"], binding["routing_key"]) == ("", queue)
    refused = api.delete("/exchanges/%2F//")
    assert (refused.status_code, refused.json()["error"]) == (401, "not_authorised")
    api.delete(f"/queues/%2F/{queue}")


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"properties": {"delivery_mode": "x"}}, ["not_int", "delivery_mode"]),
        ({"properties": {"message_id": 7}}, ["not_string", "message_id"]),
        ({"payload_encoding": "foo"}, ["unsupported_encoding", "foo"]),
        ({"payload": "***", "payload_encoding": "base64"}, ["not_base64", "***"]),
        ({"payload": 5}, "payload_not_string"),
        ({"properties": {"user_id": "x"}}, f"406 PRECONDITION_FAILED - {OTHER_USER}"),
    ],
)
def test_what_is_no_message(api: httpx.Client, changed: dict[str, Any], reason: Any):
    message = {"properties": {}, "routing_key": "k", "payload": "x", "payload_encoding": "string"}
    refused = api.post("/exchanges/%2F/amq.default/publish", json=message | changed)
    assert refused.status_code == 400
    assert refused.json() == {"error": "bad_request", "reason": reason}


def test_a_connection_is_closed_with_a_reason(
    api: httpx.Client, connect: Callable[..., BlockingConnection], name: Callable[..., str]
):
    label = name("connection")
    connection = connect(client_properties={"connection_name": label})
    channel = connection.channel()
    queue = name()
    channel.queue_declare(queue)
    channel.basic_consume(queue, lambda *_: None, consumer_tag="tag", arguments={"x-priority": 3})

    def mine() -> list[Any]:
        every = api.get("/connections").json()
        return [each for each in every if each.get("user_provided_name") == label]

    (shown,) = until(mine, bool)
    expected = {
        "user": "guest",
        "vhost": "/",
        "protocol": "AMQP 0-9-1",
        "type": "network",
        "state": "running",
        "auth_mechanism": "PLAIN",
        "ssl": False,
    }
    assert {key: shown[key] for key in expected} == expected
    of_it = f"/connections/{quote(shown['name'])}/channels"
    (one,) = until(lambda: api.get(of_it).json(), bool)
    assert (one["name"], one["number"]) == (f"{shown['name']} (1)", 1)
    (consumer,) = until(
        lambda: [
            each
            for each in api.get("/consumers/%2F").json()
            if each["queue"] == {"name": queue, "vhost": "/"}
        ],
        bool,
    )
    assert (consumer["consumer_tag"], consumer["ack_required"]) == ("tag", True)
    assert consumer["arguments"] == {"x-priority": 3}
    assert consumer["channel_details"]["connection_name"] == shown["name"]
    url = f"/connections/{quote(shown['name'])}"
    assert api.delete(url, headers={"x-reason": "because"}).status_code == 204
    with pytest.raises(ConnectionClosedByBroker, match="CONNECTION_FORCED - because"):
        connection.process_data_events(SECONDS)
    until(mine, lambda found: not found)


@pytest.mark.parametrize(
    ("check", "status", "expected"),
    [
        ("alarms", 200, {"status": "ok"}),
        ("virtual-hosts", 200, {"status": "ok"}),
        ("node-is-quorum-critical", 200, {"status": "ok", "reason": "single node cluster"}),
        ("protocol-listener/amqp", 200, {"status": "ok", "protocol": "amqp"}),
        ("port-listener/x", 400, {"error": "bad_request", "reason": "Invalid port"}),
        (
            "certificate-expiration/x/weeks",
            400,
            {"error": "bad_request", "reason": "Invalid expiration value."},
        ),
    ],
)
def test_health(api: httpx.Client, check: str, status: int, expected: dict[str, Any]):
    answer = api.get(f"/health/checks/{check}")
    assert (answer.status_code, answer.json()) == (status, expected)


def test_aliveness(api: httpx.Client):
    assert api.get("/aliveness-test/%2F").json() == {"status": "ok"}
    api.delete("/queues/%2F/aliveness-test")


def test_clients_are_told_what_the_cluster_is_called(
    api: httpx.Client, connect: Callable[..., BlockingConnection]
):
    """RabbitMQ's name for it until somebody gives another, which holds from then on."""
    before = api.get("/cluster-name").json()["name"]
    assert told(connect()) == before
    try:
        assert api.put("/cluster-name", json={"name": "shop"}).status_code == 204
        assert told(connect()) == "shop"
    finally:
        api.put("/cluster-name", json={"name": before})


def told(connection: BlockingConnection) -> str:
    return str(connection._impl.server_properties["cluster_name"])
