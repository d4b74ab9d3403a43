"""Queues over RabbitMQ's API: paths, answers and refusals are those of RabbitMQ 3.10.8."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from tests.broker.at_once import set_policy
from tests.management.clients import consuming
from tests.management.conftest import SECRET, World
from tests.management.queues import fill, queue_of

from leporid.amqp.methods import BasicConsume, QueueDeclare
from leporid.broker.access.access import User
from leporid.broker.access.passwords import salted_sha256
from leporid.broker.access.permissions import EVERYTHING
from leporid.broker.policy.policies import make_policy

ROOT = "/api/queues"
URL = f"{ROOT}/%2F"
STATS = {
    "publish": 3,
    "deliver": 0,
    "deliver_no_ack": 0,
    "get": 0,
    "get_no_ack": 0,
    "get_empty": 0,
    "deliver_get": 0,
    "redeliver": 0,
    "ack": 0,
}
NOT_FOUND = (404, {"error": "Object Not Found", "reason": "Not Found"})


@pytest.fixture(autouse=True)
def users(world: World) -> None:
    """One that manages "/" without any right in it, and one that monitors and enters nothing."""
    world.broker.add_vhost("other").make_queue("elsewhere")
    reader = world.broker.access.user("reader")
    assert reader is not None
    for name, tag, permissions in (
        ("manager", "management", reader.permissions),
        ("monitor", "monitoring", {}),
        ("stranger", "none", {"/": EVERYTHING}),
    ):
        password = salted_sha256("secret", SECRET)
        user = User(name, password, frozenset({tag}), permissions=permissions)
        world.broker.access.put_user(user)


async def asked(
    client: httpx.AsyncClient, method: str, path: str, user: str | None = None, **options: Any
) -> tuple[int, Any]:
    login: dict[str, Any] = {} if user is None else {"auth": (user, "secret")}
    answer = await client.request(method, path, **options, **login)
    return answer.status_code, answer.json() if answer.content else None


async def test_a_void_argument_is_null_and_stays_it_through_an_import(
    world: World, client: httpx.AsyncClient
):
    """RabbitMQ shows the text "undefined", which a client would then have to declare."""
    queue_of(world, "void", {"note": None, "empty": ""})
    _, found = await asked(client, "GET", f"{URL}/void")
    assert found["arguments"] == {"note": None, "empty": ""}
    _, exported = await asked(client, "GET", "/api/definitions/%2F")
    assert [queue["arguments"] for queue in exported["queues"]] == [{"note": None, "empty": ""}]
    assert await asked(client, "DELETE", f"{URL}/void") == (204, None)
    status, _ = await asked(client, "POST", "/api/definitions/%2F", json=exported)
    assert status in (200, 204)
    assert world.vhost.queue("void").arguments == {"note": None, "empty": ""}


async def test_a_queues_life(world: World, client: httpx.AsyncClient):
    given = {"durable": True, "arguments": {"x-max-length": 10}}
    assert await asked(client, "PUT", f"{URL}/q", json=given) == (201, None)
    assert await asked(client, "PUT", f"{URL}/q", json=given) == (204, None)
    reason = (
        "inequivalent arg 'durable' for queue 'q' in vhost '/': received 'false' but current is "
        "'true'"
    )
    refusal = (400, {"error": "bad_request", "reason": reason})
    assert await asked(client, "PUT", f"{URL}/q", json={}) == refusal
    fill(world, world.vhost.queue("q").engine, 3)
    status, found = await asked(client, "GET", f"{URL}/q")
    assert status == 200
    assert found == {
        "name": "q",
        "vhost": "/",
        "type": "classic",
        "node": "leporid@localhost",
        "state": "running",
        "durable": True,
        "auto_delete": False,
        "exclusive": False,
        "arguments": {"x-max-length": 10},
        "policy": None,
        "operator_policy": None,
        "effective_policy_definition": {},
        "consumers": 0,
        "exclusive_consumer_tag": None,
        "single_active_consumer_tag": None,
        "messages": 3,
        "messages_details": {"rate": 0.0},
        "messages_ready": 3,
        "messages_ready_details": {"rate": 0.0},
        "messages_unacknowledged": 0,
        "messages_unacknowledged_details": {"rate": 0.0},
        "message_bytes_ready": 3,
        "message_stats": {
            name: value
            for each, count in STATS.items()
            for name, value in ((each, count), (f"{each}_details", {"rate": 0.0}))
        },
        "consumer_details": [],
        "deliveries": [],
        "incoming": [],
    }
    assert (await asked(client, "DELETE", f"{URL}/q?if-empty=true"))[1]["reason"] == (
        "queue 'q' in vhost '/' not empty"
    )
    assert await asked(client, "DELETE", f"{URL}/q/contents") == (204, None)
    assert world.vhost.queue("q").engine.ready_count == 0
    assert await asked(client, "DELETE", f"{URL}/q?if-empty=true") == (204, None)
    for method, path in (("GET", "q"), ("DELETE", "q"), ("DELETE", "q/contents")):
        assert await asked(client, method, f"{URL}/{path}") == NOT_FOUND


@pytest.mark.parametrize(
    ("name", "options", "status", "reason"),
    [
        ("amq.foo", {"json": {}}, 401, "queue name 'amq.foo' contains reserved prefix 'amq.*'"),
        ("q", {"content": b"x"}, 400, "not_json"),
        ("q", {"content": b"[]"}, 400, "not_json"),
        ("q", {"json": {"durable": "foo"}}, 400, ["not_boolean", "foo"]),
        ("q", {"json": {"arguments": {"x-max-length": "a"}}}, 400, "expected integer, got longstr"),
        ("q", {"json": {"arguments": 5}}, 400, "arguments is not a JSON object"),
        ("q" * 256, {"json": {}}, 400, "255"),
    ],
)
async def test_what_is_no_queue(
    world: World,
    client: httpx.AsyncClient,
    name: str,
    options: dict[str, Any],
    status: int,
    reason: Any,
):
    recorded = list(world.changes)
    found, answer = await asked(client, "PUT", f"{URL}/{name}", **options)
    assert found == status
    assert answer["reason"] == reason if isinstance(reason, list) else reason in answer["reason"]
    assert world.changes == recorded


async def test_without_a_body_a_queue_is_made_too(world: World, client: httpx.AsyncClient):
    assert await asked(client, "PUT", f"{URL}/q") == (201, None)
    assert not world.vhost.queue("q").durable
    assert await asked(client, "PUT", f"{URL}/r", json={"durable": "true"}) == (201, None)
    assert world.vhost.queue("r").durable


async def test_lists(world: World, client: httpx.AsyncClient):
    queue_of(world, "b")
    queue_of(world, "a")
    columns = "columns=vhost,name"
    status, every = await asked(client, "GET", f"{ROOT}?{columns}")
    assert [(each["vhost"], each["name"]) for each in every] == [
        ("/", "a"),
        ("/", "b"),
        ("other", "elsewhere"),
    ]
    assert await asked(client, "GET", f"{ROOT}/detailed?{columns}") == (status, every)
    assert await asked(client, "GET", f"{URL}?{columns}") == (200, every[:2])
    assert await asked(client, "GET", f"{ROOT}/nowhere") == NOT_FOUND
    fill(world, world.vhost.queue("a").engine, 1)
    _, (first, _) = await asked(client, "GET", f"{URL}?disable_stats=true")
    assert "messages" not in first
    assert "message_stats" not in first
    totals = f"{URL}?disable_stats=true&enable_queue_totals=true"
    _, (first, _) = await asked(client, "GET", totals)
    assert (first["messages"], "message_stats" in first) == (1, False)


async def test_where_a_queue_is_that_could_have_copies(world: World, client: httpx.AsyncClient):
    queue_of(world, "quorum", {"x-queue-type": "quorum"})
    world.stream("stream")
    queue_of(world, "classic")
    (node,) = [each["name"] for each in (await asked(client, "GET", "/api/nodes"))[1]]
    copies = {"leader": node, "members": [node], "online": [node]}
    for query in ("", "&disable_stats=true", "&msg_rates_age=60&msg_rates_incr=5"):
        _, every = await asked(client, "GET", f"{URL}?sort=name{query}")
        shown = {each["name"]: {key: each.get(key) for key in copies} for each in every}
        assert shown == {"classic": dict.fromkeys(copies), "quorum": copies, "stream": copies}, (
            query
        )
    for name in ("quorum", "stream"):
        _, found = await asked(client, "GET", f"{URL}/{name}")
        assert {key: found[key] for key in copies} == copies
    _, found = await asked(client, "GET", f"{URL}/classic")
    assert not copies.keys() & found.keys()


async def test_lists_of_queues_that_could_have_copies(world: World, client: httpx.AsyncClient):
    queue_of(world, "quorum", {"x-queue-type": "quorum"})
    queue_of(world, "classic")
    (node,) = [each["name"] for each in (await asked(client, "GET", "/api/nodes"))[1]]
    quorum = {"name": "quorum", "leader": node, "members": [node], "online": [node]}
    asked_for = "columns=name,leader,members,online"
    for order in ("leader", "members", "online"):
        _, found = await asked(client, "GET", f"{URL}?{asked_for}&sort={order}")
        assert found == [{"name": "classic"}, quorum]
        _, found = await asked(client, "GET", f"{URL}?{asked_for}&sort={order}&sort_reverse=true")
        assert found == [quorum, {"name": "classic"}]
    for condition in (f"leader={node}", f'members=["{node}"]', "online!="):
        _, page = await asked(client, "GET", f"{URL}?{asked_for}&page=1&where={condition}")
        assert page["items"] == [quorum]
    _, found = await asked(client, "GET", f"{URL}/quorum?columns=members")
    assert found == {"members": [node]}


async def test_what_a_policy_says(world: World, client: httpx.AsyncClient):
    queue_of(world, "q")
    set_policy(world.vhost, make_policy("p", "^q", {"max-length": 5}))
    _, found = await asked(client, "GET", f"{URL}/q?columns=policy,effective_policy_definition")
    assert found == {"policy": "p", "effective_policy_definition": {"max-length": 5}}


async def test_consumers_and_owners(world: World, client: httpx.AsyncClient):
    consumer = consuming(world, 7, "q", exclusive=True)
    consumer.say(QueueDeclare(queue="own", exclusive=True))
    _, found = await asked(client, "GET", f"{URL}/q")
    assert (found["consumers"], found["exclusive_consumer_tag"]) == (1, "t")
    (details,) = found["consumer_details"]
    assert details["channel_details"]["name"] == "10.0.0.1:7 -> 10.0.0.2:5672 (1)"
    _, own = await asked(client, "GET", f"{URL}/own")
    assert own["exclusive"] is True
    assert own["owner_pid_details"] == {
        "name": "10.0.0.1:7 -> 10.0.0.2:5672",
        "peer_host": "10.0.0.1",
        "peer_port": 7,
    }
    status, refused = await asked(client, "DELETE", f"{URL}/own")
    assert (status, "cannot obtain exclusive access" in refused["reason"]) == (400, True)
    assert (await asked(client, "DELETE", f"{URL}/q?if-unused=true"))[1]["reason"] == (
        "queue 'q' in vhost '/' in use"
    )


async def test_the_single_active_consumer(world: World, client: httpx.AsyncClient):
    queue_of(world, "q", {"x-single-active-consumer": True})
    for tag in ("first", "second"):
        consuming(world, 7, "other").say(BasicConsume(queue="q", consumer_tag=tag))
    _, found = await asked(client, "GET", f"{URL}/q")
    assert found["single_active_consumer_tag"] == "first"
    assert [each["active"] for each in found["consumer_details"]] == [True, False]


async def test_the_single_active_consumer_of_a_quorum_queue(
    world: World, client: httpx.AsyncClient
):
    arguments = {"x-queue-type": "quorum", "x-single-active-consumer": True}
    queue_of(world, "q", arguments)
    _, found = await asked(client, "GET", f"{URL}/q")
    assert found["single_active_consumer_ctag"] is None
    for tag in ("first", "second"):
        consuming(world, 7, "other").say(BasicConsume(queue="q", consumer_tag=tag))
    _, found = await asked(client, "GET", f"{URL}/q")
    assert found["single_active_consumer_ctag"] == found["single_active_consumer_tag"] == "first"
    queue_of(world, "classic")
    _, found = await asked(client, "GET", f"{URL}/classic")
    assert "single_active_consumer_ctag" not in found


async def test_each_field_alone_is_what_it_is_among_all(world: World, client: httpx.AsyncClient):
    object.__setattr__(world.around, "monotonic", lambda: 100.0)
    consuming(world, 7, "classic").say(QueueDeclare(queue="own", exclusive=True))
    quorum = {"x-queue-type": "quorum", "x-single-active-consumer": True}
    fill(world, queue_of(world, "quorum", quorum), 3)
    world.fill(world.stream("stream"), 2)
    set_policy(world.vhost, make_policy("p", "^q", {"max-length": 5}))
    for query in ("", "&disable_stats=true", "&disable_stats=true&enable_queue_totals=true"):
        _, every = await asked(client, "GET", f"{URL}?{query}")
        assert [each["name"] for each in every] == ["classic", "own", "quorum", "stream"]
        for name in {name for each in every for name in each}:
            _, found = await asked(client, "GET", f"{URL}?columns={name}{query}")
            assert found == [
                {key: value for key, value in each.items() if key == name} for each in every
            ]


async def test_lists_are_sorted_by_any_field(world: World, client: httpx.AsyncClient):
    for name, count in (("a", 2), ("b", 9), ("c", 0), ("d", 5)):
        fill(world, queue_of(world, name, {"x-max-length": 20 - count}), count)
    for field in (
        "messages",
        "messages_ready",
        "message_bytes_ready",
        "message_stats.publish",
        "arguments.x-max-length",
    ):
        reverse = "" if field.startswith("arguments") else "&sort_reverse=true"
        for query in ("", "&page=1"):
            path = f"{URL}?columns=name&sort={field}{reverse}{query}"
            _, found = await asked(client, "GET", path)
            found = found["items"] if query else found
            assert [each["name"] for each in found] == ["b", "d", "a", "c"], field


async def test_rates_of_a_queue(world: World, client: httpx.AsyncClient):
    queue = queue_of(world, "q")
    now = [100.0]
    object.__setattr__(world.around, "monotonic", lambda: now[0])
    await asked(client, "GET", f"{URL}/q")
    fill(world, queue, 20)
    now[0] += 10
    _, found = await asked(client, "GET", f"{URL}/q?columns=message_stats,messages_details")
    assert found["message_stats"]["publish_details"] == {"rate": 2.0}
    assert found["messages_details"] == {"rate": 2.0}


async def test_samples_of_a_queue(world: World, client: httpx.AsyncClient):
    queue = queue_of(world, "q")
    now = [100.0]
    object.__setattr__(world.around, "monotonic", lambda: now[0])
    fill(world, queue, 10)
    rates = "msg_rates_age=60&msg_rates_incr=5"
    path = f"{URL}/q?lengths_age=60&lengths_incr=5&{rates}"
    await asked(client, "GET", path)  # from now on there are samples
    for _ in range(20):
        now[0] += 1
        fill(world, queue, 2)
        for _ in world.around.histories.taking():
            pass
    _, found = await asked(client, "GET", path)
    ready = found["messages_ready_details"]
    assert [each["sample"] for each in ready["samples"]] == [50, 40, 30, 20, 10]
    assert (ready["avg"], ready["avg_rate"]) == (30.0, 2.0)
    times = [each["timestamp"] for each in ready["samples"]]
    assert [times[0] - each for each in times] == [0, 5000, 10000, 15000, 20000]
    published = found["message_stats"]["publish_details"]
    assert published["samples"] == ready["samples"]
    assert "rate" in published
    _, found = await asked(client, "GET", f"{path}&columns=messages_details.avg")
    assert found == {"messages_details": {"avg": 30.0}}
    listed = path.replace("/q?", "?")
    _, (found,) = await asked(client, "GET", f"{listed}&sort=messages_ready_details.samples")
    assert found["messages_ready_details"]["samples"] == ready["samples"]
    # Whoever asks for one kind gets no other; a second apart is as fine as there is.
    _, found = await asked(client, "GET", f"{URL}/q?lengths_age=2&lengths_incr=1")
    assert len(found["messages_details"]["samples"]) == 3
    assert "samples" not in found["message_stats"]["publish_details"]
    # A list has the same, and of a queue that was not sampled yet one sample.
    queue_of(world, "new")
    _, (new, listed) = await asked(client, "GET", f"{URL}?lengths_age=60&lengths_incr=5")
    assert listed["messages_ready_details"] == ready
    assert "samples" not in listed["message_stats"]["publish_details"]
    assert [each["sample"] for each in new["messages_details"]["samples"]] == [0]
    _, found = await asked(
        client, "GET", f"{URL}?{rates}&columns=message_stats.publish_details.avg"
    )
    assert found[1] == {"message_stats": {"publish_details": {"avg": published["avg"]}}}
    for where in (URL, f"{URL}/q"):
        status, found = await asked(client, "GET", f"{where}?{rates}x")
        assert (status, found["error"]) == (400, "bad_request")


async def test_actions(world: World, client: httpx.AsyncClient):
    queue_of(world, "q")
    url = f"{URL}/q/actions"
    assert await asked(client, "POST", url, json={"action": "sync"}) == (204, None)
    for given, reason in (({"action": "x"}, ["unknown", "x"]), ({}, "[{key_missing,action}]")):
        refusal = (400, {"error": "bad_request", "reason": reason})
        assert await asked(client, "POST", url, json=given) == refusal
    assert await asked(client, "POST", f"{URL}/none/actions", json={}) == NOT_FOUND


async def test_who_may_what(world: World, client: httpx.AsyncClient):
    queue_of(world, "orders")
    queue_of(world, "secret")
    # As in RabbitMQ, who may enter a virtual host sees which queues there are.
    _, found = await asked(client, "GET", ROOT, "manager")
    assert [each["name"] for each in found] == ["orders", "secret"]
    for method, path, given in (
        ("PUT", "new", {}),
        ("DELETE", "secret", None),
        ("DELETE", "secret/contents", None),
    ):
        status, refused = await asked(client, method, f"{URL}/{path}", "manager", json=given)
        assert (status, refused["error"]) == (401, "not_authorised"), path
        assert "refused for user 'manager'" in refused["reason"]
    assert await asked(client, "DELETE", f"{URL}/orders/contents", "manager") == (204, None)
    # Who monitors enters no virtual host by that.
    assert await asked(client, "GET", ROOT, "monitor") == (200, [])
    assert (await asked(client, "GET", URL, "monitor"))[0] == 401
    for path in (ROOT, URL, f"{URL}/orders"):
        status, refused = await asked(client, "GET", path, "stranger")
        assert (status, refused["reason"]) == (401, "Not management user")


async def test_a_stream_is_a_queue_too(world: World, client: httpx.AsyncClient):
    world.fill(world.stream("s"), 4)
    _, found = await asked(client, "GET", f"{URL}/s")
    assert (found["type"], found["messages"]) == ("stream", 4)
    status, refused = await asked(client, "DELETE", f"{URL}/s/contents")
    assert (status, refused["error"]) == (400, "bad_request")
    status, refused = await asked(
        client, "PUT", f"{URL}/t", json={"arguments": {"x-queue-type": "stream"}}
    )
    assert status == 400
    assert "non-durable" in refused["reason"]
