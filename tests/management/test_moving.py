"""Moving messages over HTTP: each leaves when its copy is in a queue; a preview changes nothing."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from tests.management.conftest import World
from tests.management.queues import URL, fill, queue_of

from leporid.amqp import tables
from leporid.amqp.properties import Properties, decode_properties, encode_properties
from leporid.amqp.tables import LongString
from leporid.broker.access.access import User
from leporid.broker.exchange.types import Binding
from leporid.engine.queue.browse import snapshot
from leporid.engine.queue.queue import Queue
from leporid.management import moving as module
from leporid.management.acting import Acting

MOVE = URL + "/move"
ORIGIN = {"to": {"origin": "queue"}}


def letter(queue: str, reason: str = "rejected", **more: Any) -> bytes:
    """Properties of a message that died in a queue, published with key "was" to exchange "ex"."""
    death = {
        "queue": queue,
        "reason": reason,
        "count": 1,
        "exchange": "ex",
        "routing-keys": ["was"],
    }
    headers: dict[str, Any] = {
        "x-death": [death],
        "x-last-death-reason": reason,
        "CC": ["copy"],
        **more.pop("headers", {}),
    }
    return encode_properties(Properties(headers=headers, delivery_mode=2, **more))


async def moved(client: httpx.AsyncClient, body: Any, **query: Any) -> dict[str, Any]:
    answer = await client.post(MOVE, params=query, json=body)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def guest_of(world: World) -> User:
    found = world.broker.access.user("guest")
    assert found is not None
    return found


def keys_of(queue: Queue) -> list[str]:
    return [key for _, key, _, _ in snapshot(queue)]


async def test_to_another_queue_in_order(world: World, client: httpx.AsyncClient):
    source, target = queue_of(world), queue_of(world, "other")
    fill(world, source, 500)
    found = await moved(client, {"to": {"queue": "other"}})
    assert (found["matched"], found["moved"], found["more"]) == (500, 500, False)
    assert found["targets"] == [
        {"exchange": "amq.default", "routing_key": "other", "messages": 500, "problem": None}
    ]
    bodies = [body for _, _, _, body in snapshot(target)]
    assert bodies == [b"%d" % number for number in range(500)]
    assert (source.ready_count, source.unacked_count) == (0, 0)


async def test_back_to_where_each_died(world: World, client: httpx.AsyncClient):
    source, jobs = queue_of(world), queue_of(world, "jobs")
    fill(world, source, 2, properties=letter("jobs"))
    fill(world, source, 1, properties=letter("gone"))
    fill(world, source, 1)
    preview = await moved(client, ORIGIN, dry_run=True)
    assert (preview["matched"], preview["moved"]) == (4, 0)
    assert preview["stayed"] == {"never_died": 1}
    assert preview["targets"] == [
        {"exchange": "amq.default", "routing_key": "jobs", "messages": 2, "problem": None},
        {
            "exchange": "amq.default",
            "routing_key": "gone",
            "messages": 1,
            "problem": "there is no queue 'gone'",
        },
    ]
    assert (source.ready_count, jobs.ready_count) == (4, 0)
    found = await moved(client, ORIGIN)
    assert (found["moved"], found["stayed"]) == (2, {"never_died": 1, "no_queue": 1})
    assert (source.ready_count, source.unacked_count, jobs.ready_count) == (2, 0, 2)
    # The copies of CC were made when it was published; how it died is still told.
    headers = decode_properties(next(snapshot(jobs))[2]).headers or {}
    assert "CC" not in headers
    assert "x-death" in headers


async def test_to_the_exchange_that_each_had(world: World, client: httpx.AsyncClient):
    source, jobs = queue_of(world), queue_of(world, "jobs")
    fill(world, source, 1, properties=letter("jobs"))
    body = {"to": {"origin": "exchange"}}
    assert (await moved(client, body))["stayed"] == {"no_exchange": 1}
    world.vhost.create_exchange(
        "ex", "direct", durable=True, auto_delete=False, internal=False, arguments={}
    )
    assert (await moved(client, body))["stayed"] == {"no_queue": 1}
    world.vhost.bindings.bind(Binding("ex", "jobs", "queue", "was", {}), None)
    assert (await moved(client, body))["moved"] == 1
    assert keys_of(jobs) == ["was"]
    assert source.ready_count == 0


async def test_only_what_a_filter_chooses(world: World, client: httpx.AsyncClient):
    source, jobs = queue_of(world), queue_of(world, "jobs")
    fill(world, source, 3, properties=letter("jobs", "expired"))
    fill(world, source, 3, properties=letter("jobs"))
    found = await moved(client, ORIGIN, filter="\"x-last-death-reason\" = 'expired'", limit=2)
    assert (found["matched"], found["moved"], found["more"]) == (2, 2, True)
    assert (source.ready_count, jobs.ready_count) == (4, 2)


async def test_into_the_same_queue_ends(world: World, client: httpx.AsyncClient):
    source = queue_of(world)
    fill(world, source, 450)
    found = await moved(client, {"to": {"queue": "orders"}})
    assert (found["moved"], found["more"]) == (450, False)
    assert source.ready_count == 450


async def test_a_full_queue_keeps_nothing_lost(world: World, client: httpx.AsyncClient):
    source = queue_of(world)
    target = queue_of(world, "small", {"x-max-length": 3, "x-overflow": "reject-publish"})
    fill(world, source, 10)
    found = await moved(client, {"to": {"queue": "small"}})
    assert (found["moved"], found["stayed"]) == (3, {"refused": 7})
    assert (source.ready_count, source.unacked_count, target.ready_count) == (7, 0, 3)


async def test_of_equal_messages_those_that_are_returned_stay(
    world: World, client: httpx.AsyncClient
):
    source, target = queue_of(world), queue_of(world, "jobs")
    to = Binding("amq.headers", "jobs", "queue", "", {"x-match": "all", "a": 1})
    world.vhost.bindings.bind(to, None)
    for value in (1, 2, 1):
        properties = encode_properties(Properties(headers={"a": value}, delivery_mode=2))
        fill(world, source, 1, body=b"same", properties=properties)
    for moved_count, stay_count in ((2, 1), (0, 1)):
        found = await moved(client, {"to": {"exchange": "amq.headers"}})
        assert (found["moved"], found["stayed"]) == (moved_count, {"no_queue": stay_count})
        assert (source.ready_count, target.ready_count) == (1, 2)


async def test_one_that_may_not_be_published_stays_and_none_is_doubled(
    world: World, client: httpx.AsyncClient
):
    source, jobs = queue_of(world), queue_of(world, "jobs")
    fill(world, source, 3, properties=letter("jobs"))
    fill(world, source, 1, properties=letter("x" * 300))  # clients may write such a header
    fill(world, source, 3, properties=letter("jobs"))
    found = await moved(client, ORIGIN)
    assert (found["moved"], found["stayed"]) == (6, {"refused": 1})
    assert (source.ready_count, source.unacked_count, jobs.ready_count) == (1, 0, 6)
    answer = await client.post(MOVE, json=ORIGIN)
    assert answer.status_code == 400
    assert "255" in answer.json()["reason"]
    assert (source.ready_count, source.unacked_count, jobs.ready_count) == (1, 0, 6)


async def test_what_would_be_dropped_as_a_duplicate_stays(world: World, client: httpx.AsyncClient):
    source = queue_of(world, arguments={"x-message-deduplication": True})
    for number in range(3):
        headers: dict[str, Any] = {"x-deduplication-header": str(number)}
        properties = encode_properties(Properties(headers=headers, delivery_mode=2))
        fill(world, source, 1, properties=properties)
    found = await moved(client, {"to": {"queue": "orders"}})
    assert (found["moved"], found["stayed"]) == (0, {"duplicate": 3})
    assert (source.ready_count, source.unacked_count) == (3, 0)


async def test_what_stays_is_no_nearer_to_its_delivery_limit(
    world: World, client: httpx.AsyncClient
):
    source = queue_of(world, arguments={"x-delivery-limit": 2})
    fill(world, source, 2)
    for _ in range(5):
        found = await moved(client, {"to": {"queue": "nowhere"}})
        assert (found["moved"], found["stayed"]) == (0, {"no_queue": 2})
    assert (source.ready_count, source.unacked_count) == (2, 0)
    assert world.engine.queues.requeued == 0
    with Acting(world.around, guest_of(world), world.vhost, "HTTP") as acting:
        delivered = await acting.get("orders", 100)
    assert delivered is not None
    assert not delivered.method.redelivered


async def test_large_messages_without_a_route_end(world: World, client: httpx.AsyncClient):
    source = queue_of(world)
    fill(world, source, 30, body=b"x" * 70_000)
    found = await moved(client, {"to": {"exchange": "amq.topic"}})
    assert (found["moved"], found["stayed"]) == (0, {"no_queue": 30})
    assert (source.ready_count, source.unacked_count) == (30, 0)


async def test_messages_of_other_users_stay(world: World, client: httpx.AsyncClient):
    source = queue_of(world)
    queue_of(world, "jobs")
    fill(world, source, 1, properties=letter("jobs", user_id="ann"))
    fill(world, source, 1, properties=letter("jobs", user_id="guest"))
    found = await moved(client, ORIGIN)
    assert (found["moved"], found["stayed"]) == (1, {"other_user": 1})


@pytest.mark.parametrize("to", [{"origin": "queue"}, {"origin": "exchange"}, {"queue": "jobs"}])
async def test_headers_of_a_peer_are_not_decoded(
    world: World, client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch, to: dict[str, str]
):
    """With 65,000 values they took 20 ms for each message, in one piece."""
    source, jobs = queue_of(world), queue_of(world, "jobs")
    world.vhost.create_exchange(
        "ex", "fanout", durable=True, auto_delete=False, internal=False, arguments={}
    )
    world.vhost.bindings.bind(Binding("ex", "jobs", "queue", "", {}), None)
    raw = letter("jobs", headers={"x": [None] * 60_000})
    fill(world, source, 2, properties=raw)
    decoded = tables._read_value

    def reading(data: bytes, *where: int) -> Any:
        assert len(data) < 10_000, "headers are decoded"
        return decoded(data, *where)

    monkeypatch.setattr(tables, "_read_value", reading)
    assert (await moved(client, {"to": to}))["moved"] == 2
    monkeypatch.undo()
    assert source.ready_count == 0
    headers = decode_properties(next(snapshot(jobs))[2]).headers or {}
    assert list(headers) == ["x-death", "x-last-death-reason", "x"]


async def test_a_death_that_no_broker_has_written_is_none(world: World, client: httpx.AsyncClient):
    source = queue_of(world)
    queue_of(world, "jobs")
    forged: list[Any] = ["jobs", [], ["jobs"], [{"queue": 1}], [{"queue": ""}], [[], {}], {}]
    for death in forged:
        raw = encode_properties(Properties(headers={"x-death": death}))
        fill(world, source, 1, properties=raw)
    for origin in ("queue", "exchange"):
        found = await moved(client, {"to": {"origin": origin}})
        assert (found["moved"], found["stayed"]) == (0, {"never_died": len(forged)})
    death = {"exchange": "", "routing-keys": [LongString(b"\xff"), "jobs"]}
    fill(world, source, 1, properties=encode_properties(Properties(headers={"x-death": [death]})))
    found = await moved(client, {"to": {"origin": "exchange"}})
    assert found["stayed"] == {"never_died": len(forged) + 1}


async def test_what_is_too_large_stays_and_the_rest_goes(
    world: World, client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(module, "BATCH_BYTES", 500)
    source, target = queue_of(world), queue_of(world, "other")
    fill(world, source, 2, body=b"first")
    fill(world, source, 1, body=b"x" * 1000)
    fill(world, source, 2, body=b"last")
    found = await moved(client, {"to": {"queue": "other"}})
    assert (found["matched"], found["moved"]) == (5, 4)
    assert found["stayed"] == {"too_large": 1}
    assert (source.ready_count, target.ready_count) == (1, 4)


async def test_it_ends_when_its_time_is_over(
    world: World, client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(module, "MOVE_SECONDS", 0)
    fill(world, queue_of(world), 1)
    found = await moved(client, {"to": {"queue": "orders"}})
    assert (found["moved"], found["more"]) == (0, True)


async def test_a_refusal_on_the_way_leaves_all_in_the_queue(
    world: World, client: httpx.AsyncClient
):
    source = queue_of(world)
    fill(world, source, 3)
    auth = ("reader", "secret")  # may read orders, and write to the default exchange only
    answer = await client.post(MOVE, json={"to": {"exchange": "amq.topic"}}, auth=auth)
    assert answer.status_code == 400
    assert "amq.topic" in answer.json()["reason"]
    assert (source.ready_count, source.unacked_count) == (3, 0)


async def test_a_paused_queue_gives_nothing(world: World, client: httpx.AsyncClient):
    fill(world, queue_of(world), 1)
    assert (await client.put(URL + "/pause")).status_code == 204
    answer = await client.post(MOVE, json={"to": {"queue": "orders"}})
    assert answer.status_code == 409
    assert (await moved(client, {"to": {"queue": "x"}}, dry_run=True))["matched"] == 1


@pytest.mark.parametrize(
    "to",
    [
        None,
        "other",
        {},
        {"queue": "a", "exchange": "b"},
        {"routing_key": "k"},
        {"origin": "moon"},
        {"queue": 5},
        {"queues": "x"},
        {"queue": "x" * 256},
        {"exchange": "amq.topic", "routing_key": "é" * 128},
    ],
)
async def test_what_is_no_destination(world: World, client: httpx.AsyncClient, to: Any):
    source = queue_of(world)
    fill(world, source, 1)
    answer = await client.post(MOVE, json={"to": to})
    assert (answer.status_code, answer.json()["parameter"]) == (400, "to")
    assert source.ready_count == 1


async def test_a_name_that_is_no_text(world: World, client: httpx.AsyncClient):
    fill(world, queue_of(world), 1)
    answer = await client.post(MOVE, content=b'{"to": {"queue": "\\ud800"}}')
    assert (answer.status_code, answer.json()["parameter"]) == (400, "to")


async def test_rights_and_names(world: World, client: httpx.AsyncClient):
    queue_of(world)
    queue_of(world, "secret")
    auth = ("reader", "secret")
    body = {"to": {"queue": "orders"}}
    for path, status in (("secret", 403), ("absent", 403)):
        answer = await client.post(f"/api/queues/%2F/{path}/move", json=body, auth=auth)
        assert answer.status_code == status
    assert (await client.post("/api/queues/%2F/absent/move", json=body)).status_code == 404
    answer = await client.post(MOVE, json={**body, "filter": "a = 1"})
    assert answer.status_code == 400


def test_targets_are_bounded():
    tally = module.Tally()
    for number in range(module.TARGETS_MAX + 5):
        tally.note_target(module.Target("", str(number)))
    assert (len(tally.targets), tally.others) == (module.TARGETS_MAX, 5)
