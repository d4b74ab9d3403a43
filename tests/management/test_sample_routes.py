"""Samples for charts, over HTTP."""

from __future__ import annotations

import time
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from tests.engine.frames import publish
from tests.management.clients import connected
from tests.management.conftest import SECRET, World
from tests.management.queues import fill, queue_of

from leporid.amqp.methods import BasicConsume
from leporid.broker.access.access import User
from leporid.broker.access.passwords import salted_sha256
from leporid.broker.access.permissions import EVERYTHING
from leporid.management.rates import SAMPLED


class Clock:
    """Moves only when a test says so; it begins now, as the moments of samples are shown so."""

    def __init__(self, world: World) -> None:
        self.now_s = 5000.0
        object.__setattr__(world.around, "monotonic", lambda: self.now_s)
        world.around.samples._monotonic = lambda: self.now_s

    def pass_s(self, world: World, seconds: int) -> None:
        for _ in range(seconds):
            self.now_s += 1
            world.around.sample()


def check_shape(shown: dict[str, Any]) -> None:
    count = len(shown["times_ms"])
    for name, series in (*shown["values"].items(), *shown["rates"].items()):
        assert len(series) == count, name


async def test_the_whole_broker(world: World, client: httpx.AsyncClient):
    syncs = [0, 0.0]
    object.__setattr__(world.around, "sync_totals", lambda: tuple(syncs))
    clock = Clock(world)
    clock.pass_s(world, 3)
    fill(world, queue_of(world, "jobs"), 10)
    syncs[:] = [4, 0.010]
    clock.pass_s(world, 1)
    shown = (await client.get("/api/samples")).json()
    check_shape(shown)
    assert (shown["range"], shown["every_s"]) == ("minute", 1)
    assert shown["values"]["messages"] == [0, 0, 0, 10]
    assert shown["values"]["queues"] == [0, 0, 0, 1]
    assert shown["values"]["sync_ms"] == [None, None, None, 2.5]
    assert shown["rates"]["publish"] == [None, 0.0, 0.0, 0.0]
    assert shown["rates"]["queue_created"][0] is None
    assert set(shown["values"]) == {*SAMPLED, "sync_ms"}
    assert "messages" not in shown["rates"]
    assert abs(shown["times_ms"][-1] - time.time() * 1000) < 60_000
    hour = (await client.get("/api/samples?range=hour&names=messages,publish")).json()
    assert (hour["range"], hour["every_s"], len(hour["times_ms"])) == ("hour", 10, 1)
    assert set(hour["values"]) == {"messages", "publish"}
    assert set(hour["rates"]) == {"publish"}


async def test_a_queue_from_when_somebody_looks(world: World, client: httpx.AsyncClient):
    clock = Clock(world)
    queue = queue_of(world, "jobs")
    path = "/api/samples/queue/%2F/jobs"
    first = (await client.get(path)).json()
    check_shape(first)
    assert first["values"]["messages"] == [0]
    clock.pass_s(world, 1)
    fill(world, queue, 6)
    clock.pass_s(world, 2)
    shown = (await client.get(path)).json()
    check_shape(shown)
    assert shown["values"]["messages"] == [0, 0, 6, 6]
    assert shown["rates"]["publish"] == [None, 0.0, 6.0, 0.0]


async def test_a_stream_with_the_lags_of_its_readers(world: World, client: httpx.AsyncClient):
    clock = Clock(world)
    world.fill(world.stream(), 5)
    path = "/api/samples/stream/%2F/orders"
    await client.get(path)
    world.vhost.set_reader_offset("orders", "<b>", 1)
    clock.pass_s(world, 1)
    shown = (await client.get(path)).json()
    check_shape(shown)
    assert shown["values"]["end"] == [5, 5]
    assert shown["values"]["lag:<b>"] == [None, 3]
    chosen = (await client.get(path, params={"names": "lag:<b>"})).json()
    assert (set(chosen["values"]), chosen["rates"]) == ({"lag:<b>"}, {})


async def test_an_exchange(client: httpx.AsyncClient):
    shown = (await client.get("/api/samples/exchange/%2F/amq.topic")).json()
    assert shown["values"] == {"publish_in": [0], "publish_out": [0]}


async def test_the_default_exchange(world: World, client: httpx.AsyncClient):
    clock = Clock(world)
    queue_of(world, "jobs")
    path = "/api/samples/exchange/%2F/amq.default"
    assert (await client.get(path)).json()["values"] == {"publish_in": [0], "publish_out": [0]}
    peer = connected(world, 7)
    peer.connection_engine.feed(publish(1, "jobs", b"x"))
    world.engine.run()
    clock.pass_s(world, 1)
    shown = (await client.get(path)).json()
    assert shown["values"] == {"publish_in": [0, 1], "publish_out": [0, 1]}


async def test_a_connection_a_channel_and_a_virtual_host(world: World, client: httpx.AsyncClient):
    clock = Clock(world)
    fill(world, queue_of(world, "jobs"), 4)
    peer = connected(world, 7)
    name = quote("10.0.0.1:7 -> 10.0.0.2:5672", safe="")
    paths = [f"connection/{name}", f"channel/{name}%20(1)", "vhost/%2F"]
    for path in paths:
        assert (await client.get(f"/api/samples/{path}")).status_code == 200
    peer.say(BasicConsume(queue="jobs", consumer_tag="t"))
    # A client's publish counts in the virtual host, what the broker puts into a queue does not.
    peer.connection_engine.feed(publish(1, "jobs", b"x"))
    world.engine.run()
    clock.pass_s(world, 1)
    of_connection, of_channel, of_vhost = [
        (await client.get(f"/api/samples/{path}")).json() for path in paths
    ]
    for shown in (of_connection, of_channel, of_vhost):
        check_shape(shown)
    assert of_connection["values"]["channels"] == [1, 1]
    assert of_connection["rates"]["recv_oct"][1] == len(publish(1, "jobs", b"x"))
    assert of_channel["rates"] == {
        "publish": [None, 1.0], "deliver_get": [None, 5.0], "ack": [None, 0.0],
    }  # fmt: skip
    assert of_channel["values"]["messages_unacknowledged"] == [0, 5]
    assert of_vhost["values"]["messages_ready"] == [4, 0]
    assert of_vhost["values"]["messages_unacknowledged"] == [0, 5]
    assert (of_vhost["rates"]["publish"], of_vhost["rates"]["deliver_get"]) == (
        [None, 1.0], [None, 5.0],
    )  # fmt: skip
    assert len(world.around.histories) == 3
    peer.session.on_lost()
    world.engine.run()
    clock.pass_s(world, 1)
    assert len(world.around.histories) == 1
    assert [(await client.get(f"/api/samples/{path}")).status_code for path in paths] == [
        404, 404, 200,
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/api/samples?range=year", 400),
        ("/api/samples?names=publish,none", 400),
        ("/api/samples?other=1", 400),
        ("/api/samples/queue/%2F/none", 404),
        ("/api/samples/queue/none/jobs", 404),
        ("/api/samples/stream/%2F/jobs", 404),
        ("/api/samples/user/%2F/guest", 404),
        ("/api/samples/queue/%2F/%ff", 400),
        ("/api/samples/vhost/none", 404),
        ("/api/samples/connection/none", 404),
        ("/api/samples/channel/none", 404),
        ("/api/samples/queue/jobs", 404),
        ("/api/samples/vhost/%2F/jobs", 404),
    ],
)
async def test_what_there_is_not(world: World, client: httpx.AsyncClient, path: str, status: int):
    queue_of(world, "jobs")
    assert (await client.get(path)).status_code == status
    assert len(world.around.histories) == 0


async def test_who_may_look(world: World, client: httpx.AsyncClient):
    queue_of(world, "jobs")
    user = User("ann", salted_sha256("a", SECRET), tags=("management",))
    world.broker.access.put_user(user)
    path = "/api/samples/queue/%2F/jobs"
    ann = ("ann", "a")
    assert (await client.get("/api/samples", auth=ann)).json()["reason"] == "Not monitor user"
    assert (await client.get(path, auth=ann)).status_code == 401
    of_vhost = "/api/samples/vhost/%2F"
    assert (await client.get(of_vhost, auth=ann)).status_code == 401
    connected(world, 7)
    of_connection = f"/api/samples/connection/{quote('10.0.0.1:7 -> 10.0.0.2:5672', safe='')}"
    assert (await client.get(of_connection, auth=ann)).status_code == 401
    assert (await client.get(of_connection)).status_code == 200
    world.broker.users.permit("ann", "/", EVERYTHING)
    assert (await client.get(path, auth=ann)).status_code == 200
    assert (await client.get(of_vhost, auth=ann)).status_code == 200
