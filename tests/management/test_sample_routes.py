"""Samples for charts, over HTTP."""

from __future__ import annotations

import time
from typing import Any

import httpx
import pytest
from tests.management.conftest import SECRET, World
from tests.management.queues import fill, queue_of

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
    world.broker.users.permit("ann", "/", EVERYTHING)
    assert (await client.get(path, auth=ann)).status_code == 200
