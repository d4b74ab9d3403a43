"""Groups of readers over HTTP."""

from __future__ import annotations

import httpx
import pytest
from tests.broker.at_once import declare_partitioned_stream
from tests.engine.frames import ack, nack, reject
from tests.management.clients import Client
from tests.management.conftest import World

from leporid.amqp.methods import BasicCancel, BasicConsume, BasicQos, ChannelClose, ChannelOpen
from leporid.amqp.tables import Value

URL = "/api/groups/%2F/orders"


def consume(world: World, queue: str, **arguments: Value) -> Client:
    client = Client(world)
    client.handshake()
    client.say(ChannelOpen())
    client.say(BasicQos(prefetch_count=10))
    given: dict[str, Value] = {key.replace("_", "-"): value for key, value in arguments.items()}
    client.say(BasicConsume(queue=queue, consumer_tag="t", arguments=given))
    world.sync()
    return client


async def test_a_group_is_shown_with_its_members_and_its_lag(
    world: World, client: httpx.AsyncClient
):
    stream = world.stream()
    world.fill(stream, 5)
    assert (await client.get(URL)).json() == {"groups": []}
    consume(world, "orders", x_group="g", x_filter_tags="A || B", x_group_version=2)
    world.fill(stream, 3)
    world.engine.run()
    expected = {
        "stream": "orders",
        "group": "g",
        "version": 2,
        "filter": {"x-filter-tags": "A || B"},
        "retries": None,
        "used_ms": 1_700_000_000_000,
        "lag": 0,
        "members": [
            {
                "connection": "10.0.0.1:4",
                "user": "guest",
                "channel": 1,
                "consumer_tag": "t",
                "partitions": [0],
            }
        ],
        "partitions": [
            {
                "partition": 0,
                "queue": "orders",
                "committed": 7,
                "end": 8,
                "lag": 0,
                "skipped_messages": 0,
            }
        ],
    }
    assert (await client.get(f"{URL}/g")).json() == expected
    assert (await client.get(URL)).json() == {"groups": [expected]}


async def test_what_is_retried_is_counted(world: World, client: httpx.AsyncClient):
    stream = world.stream()
    world.fill(stream, 4)
    world.engine.clock.now_ms = 1000
    arguments: dict[str, Value] = {
        "x-dead-letter-exchange": "",
        "x-delivery-limit": 1,
        "x-delayed-retry-min": 1000,
    }
    given = {key.replace("-", "_"): value for key, value in arguments.items()}
    member = consume(world, "orders", x_group="g", x_stream_offset="first", **given)
    world.engine.run()

    def settle(*frames: bytes) -> None:
        member.connection_engine.feed(b"".join(frames))
        world.engine.run()

    settle(nack(1, 1), nack(1, 2), reject(1, 3, requeue=False), ack(1, 4))
    found = (await client.get(f"{URL}/g")).json()
    counts = {"unacknowledged": 0, "dropped": 0, "filtered": 0, "missed": 0}
    assert (found["filter"], found["lag"]) == ({}, 0)
    assert found["retries"] == counts | {
        "arguments": arguments,
        "waiting": 2,
        "retried": 2,
        "dead_lettered": 1,
    }
    world.engine.clock.now_ms += 1000
    world.engine.run()
    settle(nack(1, 5))
    found = (await client.get(f"{URL}/g")).json()["retries"]
    assert (found["waiting"], found["unacknowledged"], found["dead_lettered"]) == (0, 1, 2)


async def test_members_share_partitions(world: World, client: httpx.AsyncClient):
    declare_partitioned_stream(world.vhost, "many", 3)
    for at in range(3):
        world.vhost.stream(f"many-{at}")
    consume(world, "many", x_group="a/b", x_stream_offset="first")
    consume(world, "many", x_group="a/b")
    found = (await client.get("/api/groups/%2F/many/a%2Fb")).json()
    assert [each["partitions"] for each in found["members"]] == [[0, 1], [2]]
    assert [each["committed"] for each in found["partitions"]] == [None, None, None]


async def test_lag_is_what_is_there_and_not_committed(world: World, client: httpx.AsyncClient):
    stream = world.stream()
    world.fill(stream, 20)
    consume(world, "orders", x_group="g", x_stream_offset=4).session.on_lost()
    found = (await client.get(f"{URL}/g")).json()
    assert (found["lag"], found["partitions"][0]["committed"], found["members"]) == (16, 3, [])


async def test_a_group_is_forgotten_when_nobody_is_in_it(world: World, client: httpx.AsyncClient):
    world.stream()
    member = consume(world, "orders", x_group="g")
    answer = await client.delete(f"{URL}/g")
    assert (answer.status_code, answer.json()["reason"]) == (
        409,
        "group 'g' of stream 'orders' in vhost '/' has a member; end it first",
    )
    member.session.on_lost()
    # Who may only read the stream forgets no group but one called after him.
    for group, status in [("g", 403), ("reader", 404), ("reader.g", 404)]:
        answer = await client.delete(f"{URL}/{group}", auth=("reader", "secret"))
        assert answer.status_code == status
    assert (await client.delete(f"{URL}/g")).status_code == 204
    assert (await client.delete(f"{URL}/g")).status_code == 404
    assert (await client.get(f"{URL}/g")).status_code == 404


async def test_offsets_are_not_put_under_the_members_of_a_group(
    world: World, client: httpx.AsyncClient
):
    world.fill(world.stream(), 5)
    reader = "/api/streams/%2F/orders/readers/g"
    member = consume(world, "orders", x_group="g", x_stream_offset=4)
    for answer in (await client.put(reader, json={"offset": 1}), await client.delete(reader)):
        assert answer.status_code == 409
        assert "group 'g' of stream 'orders' in vhost '/' has a member" in answer.json()["reason"]
    assert (await client.get(reader)).json()["offset"] == 3
    assert (await client.put(f"{reader}2", json={"offset": 1})).status_code == 204
    member.session.on_lost()
    assert (await client.put(reader, json={"offset": 1})).status_code == 204
    assert (await client.get(f"{URL}/g")).json()["partitions"][0]["committed"] == 1


async def test_offsets_are_not_put_while_the_last_member_may_settle(
    world: World, client: httpx.AsyncClient
):
    stream = world.stream()
    member = consume(world, "orders", x_group="g")
    world.fill(stream, 2)
    world.engine.run()
    member.say(BasicCancel(consumer_tag="t"))
    reader = "/api/streams/%2F/orders/readers/g"
    answer = await client.put(reader, json={"offset": 1})
    assert (answer.status_code, "try again in a second" in answer.text) == (409, True)
    member.say(ChannelClose(200))
    assert (await client.put(reader, json={"offset": 1})).status_code == 204


@pytest.mark.parametrize("method", ["GET", "DELETE"])
async def test_it_takes_the_right_to_read(world: World, client: httpx.AsyncClient, method: str):
    world.stream("others")
    url = "/api/groups/%2F/others/g"
    answer = await client.request(method, url, auth=("reader", "secret"))
    assert answer.status_code == 403
    assert (await client.request(method, "/api/groups/%2F/none/g")).status_code == 404
    assert (await client.request(method, f"{url}?all=1")).status_code == 400
