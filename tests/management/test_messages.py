"""Single messages over RabbitMQ's API: answers are those of RabbitMQ 3.10.8."""

from __future__ import annotations

import dataclasses
from typing import Any

import httpx
import pytest
from tests.management.conftest import World
from tests.management.queues import fill, queue_of

from leporid.engine.queue.queue import Queue
from leporid.management import messages as module

URL = "/api/queues/%2F/orders/get"
PUBLISH = "/api/exchanges/%2F/amq.default/publish"
MESSAGE = {
    "properties": {},
    "routing_key": "orders",
    "payload": "hello",
    "payload_encoding": "string",
}
OTHER_USER = "user_id property set to 'x' but authenticated user was 'guest'"
SHOWN = {
    "payload_bytes": 5,
    "redelivered": False,
    "exchange": "",
    "routing_key": "orders",
    "message_count": 0,
    "properties": [],
    "payload": "hello",
    "payload_encoding": "string",
}


@pytest.fixture(autouse=True)
def queue(world: World) -> Queue:
    return queue_of(world)


async def asked(client: httpx.AsyncClient, path: str, given: Any) -> tuple[int, Any]:
    answer = await client.post(path, json=given)
    return answer.status_code, answer.json()


async def publish(client: httpx.AsyncClient, **changed: Any) -> tuple[int, Any]:
    return await asked(client, PUBLISH, MESSAGE | changed)


async def get(client: httpx.AsyncClient, **changed: Any) -> tuple[int, Any]:
    given = {"count": 10, "ackmode": "ack_requeue_false", "encoding": "auto"}
    return await asked(client, URL, given | changed)


async def test_a_message_goes_in_and_comes_out(queue: Queue, client: httpx.AsyncClient):
    assert await publish(client) == (200, {"routed": True})
    assert await get(client) == (200, [SHOWN])
    assert await get(client) == (200, [])
    assert (queue.ready_count, queue.unacked_count) == (0, 0)


async def test_properties_and_octets(client: httpx.AsyncClient):
    properties = {
        "delivery_mode": 2,
        "headers": {"a": 1, "b": [1, {"x": "y"}]},
        "priority": 3,
        "content_type": "text/plain",
        "timestamp": 5,
        "message_id": "m",
    }
    assert await publish(
        client, properties=properties, payload="/+8=", payload_encoding="base64"
    ) == (200, {"routed": True})
    _, (found,) = await get(client)
    assert found["properties"] == properties
    assert (found["payload"], found["payload_encoding"]) == ("/+8=", "base64")
    assert found["payload_bytes"] == 2


async def test_what_no_queue_gets(client: httpx.AsyncClient):
    assert await publish(client, routing_key="nowhere") == (200, {"routed": False})


async def test_copies(client: httpx.AsyncClient):
    given = {"headers": {"CC": ["orders"]}}
    assert await publish(client, routing_key="x", properties=given) == (200, {"routed": True})
    _, (found,) = await get(client)
    assert (found["routing_key"], found["properties"]) == ("x", given)


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"properties": {"delivery_mode": "2"}}, ["not_int", "delivery_mode"]),
        ({"properties": {"message_id": 7}}, ["not_string", "message_id"]),
        ({"payload": 5}, "payload_not_string"),
        ({"payload_encoding": "foo"}, ["unsupported_encoding", "foo"]),
        ({"payload": "***", "payload_encoding": "base64"}, ["not_base64", "***"]),
        ({"routing_key": 5}, "routing_key is a string"),
        (
            {"properties": {"user_id": "x"}},
            f"406 PRECONDITION_FAILED - {OTHER_USER}",
        ),
    ],
)
async def test_what_is_no_message(
    queue: Queue, client: httpx.AsyncClient, changed: dict[str, Any], reason: Any
):
    assert await publish(client, **changed) == (400, {"error": "bad_request", "reason": reason})
    assert queue.published == 0


async def test_what_is_missing_is_named(client: httpx.AsyncClient):
    status, found = await asked(client, PUBLISH, {"routing_key": "orders", "payload": "x"})
    assert (status, found["reason"]) == (
        400,
        "[{key_missing,properties},{key_missing,payload_encoding}]",
    )
    status, found = await asked(client, URL, {})
    assert found["reason"] == "[{key_missing,ackmode},{key_missing,count},{key_missing,encoding}]"


@pytest.mark.parametrize("mode", ["ack_requeue_true", "reject_requeue_true"])
async def test_what_goes_back_keeps_its_order(
    world: World, queue: Queue, client: httpx.AsyncClient, mode: str
):
    fill(world, queue, 3)
    for redelivered in (False, True):
        _, found = await get(client, ackmode=mode, count=2)
        assert [each["payload"] for each in found] == ["0", "1"]
        assert [each["redelivered"] for each in found] == [redelivered] * 2
        assert [each["message_count"] for each in found] == [2, 1]
    assert (queue.ready_count, queue.unacked_count) == (3, 0)


async def test_what_is_rejected_is_dead_lettered(world: World, client: httpx.AsyncClient):
    dead = queue_of(world, "dead")
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
    fill(world, queue_of(world, "q", arguments), 2)
    given = {"count": 1, "ackmode": "reject_requeue_false", "encoding": "auto"}
    assert (await asked(client, "/api/queues/%2F/q/get", given))[0] == 200
    world.engine.run()
    assert dead.ready_count == 1


async def test_encoding_and_truncation(client: httpx.AsyncClient):
    await publish(client, payload="hällo")
    again = {"ackmode": "ack_requeue_true"}
    _, (found,) = await get(client, **again, encoding="base64")
    assert (found["payload"], found["payload_encoding"]) == ("aMOkbGxv", "base64")
    _, (found,) = await get(client, **again, truncate=3)
    assert (found["payload"], found["payload_bytes"]) == ("hä", 6)
    # In the middle of a character it is no text.
    _, (found,) = await get(client, **again, truncate=2)
    assert (found["payload"], found["payload_encoding"]) == ("aMM=", "base64")
    assert len((await get(client, count="1", truncate="0"))[1]) == 1


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"ackmode": "foo"}, "ackmode is one of ack_requeue_true"),
        ({"ackmode": []}, "ackmode is one of"),
        ({"encoding": "foo"}, "Unsupported encoding. Please use auto or base64."),
        ({"count": -1}, "count is a number from 0 to 1000 (http_get_messages)"),
        ({"count": 1001}, "count is a number from 0 to 1000 (http_get_messages)"),
        ({"count": True}, "count is a number"),
        ({"truncate": -1}, "truncate is a number of bytes"),
    ],
)
async def test_what_cannot_be_got(
    world: World, queue: Queue, client: httpx.AsyncClient, changed: dict[str, Any], reason: str
):
    fill(world, queue, 1)
    status, found = await get(client, **changed)
    assert status == 400
    assert reason in found["reason"]
    assert queue.ready_count == 1


async def test_a_queue_that_is_not_there(client: httpx.AsyncClient):
    given = {"count": 1, "ackmode": "ack_requeue_true", "encoding": "auto"}
    assert await asked(client, "/api/queues/%2F/none/get", given) == (
        404,
        {"error": "not_found", "reason": "NOT_FOUND - no queue 'none' in vhost '/'"},
    )


async def test_bodies_have_a_limit_together(
    world: World, queue: Queue, client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(module, "BODY_BYTES_MAX", 10)
    fill(world, queue, 3, body=b"12345")
    fill(world, queue, 1, body=b"x" * 11)
    _, found = await get(client)
    assert [each["payload"] for each in found] == ["12345"] * 2
    assert (queue.ready_count, queue.unacked_count) == (2, 0)
    assert len((await get(client))[1]) == 1
    status, refused = await get(client)
    assert (status, refused["limit"], refused["value"]) == (413, "http_get_body_bytes", 10)
    assert "11 bytes" in refused["reason"]
    world.engine.run()
    assert (queue.ready_count, queue.unacked_count) == (1, 0)
    assert world.broker.refusals.by_kind["http_get_body_bytes"] == 1
    assert world.around.admission.shares.body_bytes.used == 0


async def test_what_there_is_no_memory_for_stays_in_the_queue(
    world: World, queue: Queue, client: httpx.AsyncClient
):
    fill(world, queue, 2, body=b"x" * 5000)
    share = world.around.admission.shares.body_bytes
    share.slots = 8000
    status, refused = await get(client)
    assert (status, refused["limit"]) == (429, "http_body_bytes")
    world.engine.run()
    assert (queue.ready_count, queue.unacked_count) == (2, 0)
    assert share.used == 0


async def test_a_full_queue_refuses(world: World, client: httpx.AsyncClient):
    queue_of(world, "full", {"x-max-length": 0, "x-overflow": "reject-publish"})
    status, found = await publish(client, routing_key="full")
    assert (status, "rejected" in found["reason"]) == (400, True)


async def test_rights_are_those_of_amqp(world: World, queue: Queue, client: httpx.AsyncClient):
    user = world.broker.access.user("reader")
    assert user is not None
    world.broker.access.put_user(dataclasses.replace(user, tags=frozenset({"management"})))
    fill(world, queue, 1)
    queue_of(world, "secret")
    login = ("reader", "secret")
    given = {"count": 1, "ackmode": "ack_requeue_true", "encoding": "auto"}
    assert (await client.post(URL, json=given, auth=login)).status_code == 200
    answer = await client.post("/api/queues/%2F/secret/get", json=given, auth=login)
    assert (answer.status_code, answer.json()["error"]) == (401, "not_authorised")
    assert (await client.post(PUBLISH, json=MESSAGE, auth=login)).status_code == 200
    answer = await client.post("/api/exchanges/%2F/amq.topic/publish", json=MESSAGE, auth=login)
    assert answer.status_code == 400
    assert "403 ACCESS_REFUSED - write access to exchange 'amq.topic'" in answer.json()["reason"]
