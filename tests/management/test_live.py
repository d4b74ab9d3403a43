"""Live figures: who is told what, at each sample."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from tests.management.clients import connected
from tests.management.conftest import SECRET, World
from tests.management.queues import fill, queue_of
from tests.server.client import PATIENCE_S

from leporid.amqp.errors import AccessRefused
from leporid.broker.access.access import User
from leporid.broker.access.passwords import salted_sha256
from leporid.broker.access.permissions import EVERYTHING
from leporid.management import histories
from leporid.management import live as module
from leporid.management.admission import LIVE_MAX
from leporid.management.live import WATCHED_MAX, Listener, LiveAnswer

LIVE = "/api/live"
PAGE = {"x-leporid-page": "1"}
OVERVIEW = {"rates", "totals", "memory", "disk", "sync_ms", "alarms"}


class Events:
    """The events of one answer."""

    def __init__(self, answer: httpx.Response) -> None:
        self.lines = answer.aiter_lines()

    async def next(self) -> Any:
        """Return the data of the next event; None: there is none any more."""
        async with asyncio.timeout(PATIENCE_S):
            async for line in self.lines:
                if line.startswith("data: "):
                    return json.loads(line.removeprefix("data: "))
        return None


@contextlib.asynccontextmanager
async def listening(
    client: httpx.AsyncClient, path: str = LIVE, **options: Any
) -> AsyncIterator[Events]:
    async with client.stream("GET", path, **options) as answer:
        assert answer.status_code == 200, await answer.aread()
        assert answer.headers["content-type"] == "text/event-stream"
        assert answer.headers["cache-control"] == "no-store"
        yield Events(answer)


async def test_one_event_at_once_and_one_a_sample(world: World, client: httpx.AsyncClient):
    async with listening(client) as events:
        first = await events.next()
        assert set(first) == {"at_ms", "overview", "objects"}
        assert set(first["overview"]) == OVERVIEW
        assert first["overview"]["totals"]["queues"] == 0
        fill(world, queue_of(world), 3)
        world.broker.set_alarm("memory", True)
        world.around.sample()
        second = (await events.next())["overview"]
        assert (second["totals"]["queues"], second["totals"]["messages"]) == (1, 3)
        assert second["alarms"] == ["memory"]
        names = {"publish", "confirm", "deliver_get", "ack", "dead_letters:expired"}
        assert set(second["rates"]) >= names
        assert repr(world.around.live) == "<Live listeners=1>"


async def test_what_is_watched(world: World, client: httpx.AsyncClient):
    orders = world.stream()
    world.fill(orders, 4)
    odd = 'a:b"<%2F>'
    fill(world, queue_of(world, odd), 2)
    watched = ["queue:%2F:a%3Ab%22%3C%252F%3E", "stream:/:orders", "exchange:%2F:amq.default"]
    async with listening(client, params={"watch": [*watched, "queue:/:none"]}) as events:
        objects = (await events.next())["objects"]
        assert list(objects) == [*watched, "queue:/:none"]
        queue, stream, exchange, none = objects.values()
        assert (queue["messages"], stream["end"], none) == (2, 4, None)
        assert set(exchange) == {"rates"}
        world.fill(orders, 1)
        world.vhost.queue(odd).deleted = True
        world.around.sample()
        objects = (await events.next())["objects"]
        assert (objects[watched[0]], objects[watched[1]]["end"]) == (None, 5)


async def test_connections_channels_and_virtual_hosts(world: World, client: httpx.AsyncClient):
    peer = connected(world, 7)
    name = "10.0.0.1:7 -> 10.0.0.2:5672"
    watched = [f"connection:{quote(name)}", f"channel:{quote(name)} (1)", "vhost:%2F"]
    missing = ["connection:none", "vhost:none"]
    async with listening(client, params={"watch": watched + missing}) as events:
        objects = (await events.next())["objects"]
        assert list(objects) == watched + missing
        of_connection, of_channel, of_vhost, *none = objects.values()
        assert none == [None, None]
        assert (of_connection["channels"], set(of_connection["rates"])) == (
            1, {"recv_oct", "send_oct"},
        )  # fmt: skip
        assert of_channel["messages_unacknowledged"] == 0
        assert (of_vhost["messages"], of_vhost["queues"]) == (0, 0)
        fill(world, queue_of(world), 2)
        peer.session.on_lost()
        world.engine.run()
        world.around.sample()
        of_connection, of_channel, of_vhost, *_ = (await events.next())["objects"].values()
        assert (of_connection, of_channel, of_vhost["messages"]) == (None, None, 2)


async def test_connections_of_others_are_for_who_monitors(world: World, client: httpx.AsyncClient):
    connected(world, 7)
    ann = User("ann", salted_sha256("a", SECRET), ("management",), {"/": EVERYTHING})
    world.broker.access.put_user(ann)
    watch = "connection:10.0.0.1:7 -> 10.0.0.2:5672"
    options: dict[str, Any] = {"auth": ("ann", "a"), "params": {"watch": watch}}
    assert (await client.get(LIVE, **options)).status_code == 401
    world.broker.users.put("ann", ann.password, ("monitoring",))
    async with listening(client, **options) as events:
        assert (await events.next())["objects"][watch]["channels"] == 1
        world.broker.users.put("ann", ann.password, ("management",))
        world.around.sample()
        assert (await events.next())["objects"] == {watch: None}


async def test_what_many_see_is_encoded_once(world: World, client: httpx.AsyncClient):
    asked = 0
    node = world.around.node

    def counting() -> Any:
        nonlocal asked
        asked += 1
        return node()

    async with listening(client) as one, listening(client) as other:
        await one.next()
        await other.next()
        world.around.samples.take()
        object.__setattr__(world.around, "node", counting)
        world.around.live.publish()
        assert await one.next() == await other.next()
        assert asked == 1


async def test_many_samples_are_taken_in_several_turns_before_anybody_is_told(
    world: World, client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(histories, "STEP_SERIES", 1)
    fill(world, queue_of(world, "a"), 1)
    fill(world, queue_of(world, "b"), 1)
    watched = ["queue:/:a", "queue:/:b"]
    async with listening(client, params={"watch": watched}) as events:
        await events.next()
        asked = world.around.live.at_ms
        world.around.live.at_ms = 0
        world.around.sample()
        # The turns that follow are those of the loop.
        assert world.around.live.at_ms == 0
        assert (await events.next())["at_ms"] >= asked


async def test_an_answer_of_a_few_samples_ends(client: httpx.AsyncClient):
    answer = await client.get(LIVE, params={"samples": 1})
    assert answer.text.startswith("retry: 2000\n\nevent: sample\ndata: {")
    assert answer.text.endswith("}\n\n")


@pytest.mark.parametrize(
    "query",
    [
        "watch=queue",
        "watch=queue:%2F",
        "watch=user:%2F:guest",
        "watch=connection",
        "watch=queue:%2F:%25ff",
        "other=1",
        "samples=0",
        "samples=x",
        "&".join(f"watch=queue:%2F:q{number}" for number in range(WATCHED_MAX + 1)),
    ],
)
async def test_what_is_no_question(client: httpx.AsyncClient, query: str):
    answer = await client.get(f"{LIVE}?{query}")
    assert (answer.status_code, answer.json()["error"]) == (400, "bad-request")


async def test_strangers_get_no_password_dialogue(client: httpx.AsyncClient):
    answer = await client.get(LIVE, auth=httpx.Auth())
    assert answer.status_code == 401
    assert "www-authenticate" not in answer.headers


async def test_rights_are_looked_at_again_each_second(world: World, client: httpx.AsyncClient):
    fill(world, queue_of(world, "jobs"), 2)
    users = world.broker.users
    world.broker.access.put_user(
        User("ann", salted_sha256("a", SECRET), ("management",), {"/": EVERYTHING})
    )
    options: dict[str, Any] = {"auth": ("ann", "a"), "params": {"watch": "queue:/:jobs"}}
    async with listening(client, **options) as events:
        first = await events.next()
        assert first["objects"]["queue:/:jobs"]["messages"] == 2
        # As in the overview, who does not monitor sees what is in the own virtual hosts.
        assert (first["overview"]["memory"], first["overview"]["rates"]) == (None, {})
        assert first["overview"]["totals"]["messages"] == 2
        users.forbid("ann", "/")
        world.around.sample()
        second = await events.next()
        assert second["objects"] == {"queue:/:jobs": None}
        assert second["overview"]["totals"]["messages"] == 0
        assert (await client.get(LIVE, **options)).status_code == 401
        users.put("ann", world.broker.access.require("ann").password, ())
        world.around.sample()
        assert await events.next() is None


async def test_it_ends_with_the_session(world: World, client: httpx.AsyncClient):
    client.auth = httpx.Auth()
    login = {"username": "guest", "password": "guest"}
    assert (await client.post("/api/session", json=login, headers=PAGE)).status_code == 200
    async with listening(client) as events:
        await events.next()
        world.around.sample()
        assert await events.next() is not None
        assert (await client.delete("/api/session", headers=PAGE)).status_code == 204
        world.around.sample()
        assert await events.next() is None
    assert world.around.admission.shares.live.used == 0


async def test_it_ends_when_the_password_is_another_one(world: World, client: httpx.AsyncClient):
    async with listening(client) as events:
        await events.next()
        world.broker.users.put("guest", salted_sha256("other", SECRET), ("administrator",))
        world.around.sample()
        assert await events.next() is None


async def test_one_user_has_half_of_the_places(world: World, client: httpx.AsyncClient):
    async with contextlib.AsyncExitStack() as stack:
        for _ in range(LIVE_MAX // 2):
            await stack.enter_async_context(listening(client))
        answer = await client.get(LIVE)
        assert (answer.status_code, answer.json()["limit"]) == (429, "http_live")
    async with asyncio.timeout(PATIENCE_S):
        while world.around.live.listeners:
            await asyncio.sleep(0)
    assert world.around.admission.shares.live.used == 0


async def test_it_ends_when_nobody_says_what_its_user_may(
    world: World, client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
):
    async with listening(client, params={"watch": "exchange:/:amq.topic"}) as events:
        await events.next()

        async def undecided(_: Any) -> bool:
            raise AccessRefused("too many rights")

        object.__setattr__(world.around, "decided", undecided)
        world.around.sample()
        assert await events.next() is None


async def test_a_broker_that_stops_ends_them(world: World, client: httpx.AsyncClient):
    async with listening(client) as events:
        await events.next()
        world.around.live.close()
        assert await events.next() is None


class Slow:
    """A client that takes what is sent when a test says so."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        self.may_take = asyncio.Semaphore(0)

    async def send(self, message: Any) -> None:
        if message["type"] == "http.response.body":
            await self.may_take.acquire()
            self.bodies.append(message["body"])

    async def receive(self) -> Any:
        await asyncio.Event().wait()


async def test_who_reads_slowly_misses_samples(world: World):
    around = world.around
    slot = around.admission.shares.live.take("guest")
    user = world.broker.access.require("guest")
    answer = LiveAnswer(around, Listener(user, None, {}, 2), slot)
    slow = Slow()
    sending = asyncio.create_task(answer({}, slow.receive, slow.send))
    queue = queue_of(world)
    for _ in range(50):
        fill(world, queue, 1)
        around.samples.reset()  # as if a second had passed
        around.sample()
        await asyncio.sleep(0)
    for _ in range(3):
        slow.may_take.release()
        for _ in range(20):
            await asyncio.sleep(0)
        around.sample()
    await asyncio.wait_for(sending, PATIENCE_S)
    samples = [
        json.loads(body.decode().split("data: ")[1])["overview"]["totals"]["messages"]
        for body in slow.bodies[:2]
    ]
    # The one that was under way, and then the newest.
    assert samples[0] < 5
    assert samples[1] == 50
    assert slot.count == 0


async def test_a_line_comes_even_without_samples(world: World, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "QUIET_SECONDS", 0)
    around = world.around
    slot = around.admission.shares.live.take("guest")
    answer = LiveAnswer(around, Listener(world.broker.access.require("guest"), None, {}, 9), slot)
    slow = Slow()
    sending = asyncio.create_task(answer({}, slow.receive, slow.send))
    slow.may_take.release()
    slow.may_take.release()
    async with asyncio.timeout(PATIENCE_S):
        while len(slow.bodies) < 2:
            await asyncio.sleep(0)
    assert slow.bodies[1] == b": no samples\n\n"
    sending.cancel()
    await asyncio.gather(sending, return_exceptions=True)
    assert slot.count == 0
