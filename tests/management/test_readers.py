"""Named readers over HTTP."""

from typing import Any

import httpx
import pytest
from tests.broker.at_once import declare_partitioned_stream
from tests.management.conftest import SECRET, World

from leporid.broker.access.access import Access, User
from leporid.broker.access.passwords import salted_sha256

URL = "/api/streams/%2F/orders/readers"


async def test_offsets_are_stored_and_forgotten(world: World, client: httpx.AsyncClient):
    world.stream()
    assert (await client.get(URL)).json() == {"readers": []}
    assert (await client.put(f"{URL}/a%2Fb", json={"offset": 41})).status_code == 204
    stored = {
        "reader": "a/b", "partition": 0, "offset": 41, "next_offset": 42, "end": 0, "lag": 0,
        "lag_ms": None, "user": "guest", "since_ms": world.engine.clock.wall_ms,
        "moved_ms": world.engine.clock.wall_ms, "skipped_messages": 0,
    }  # fmt: skip
    assert (await client.get(f"{URL}/a%2Fb")).json() == stored
    assert (await client.get(URL)).json() == {"readers": [stored]}
    assert world.vhost.reader_offsets("orders") == {"a/b": 41}
    assert (await client.delete(f"{URL}/a%2Fb")).status_code == 204
    assert (await client.delete(f"{URL}/a%2Fb")).status_code == 404
    assert (await client.get(f"{URL}/a%2Fb")).status_code == 404


async def test_partitions_have_readers_of_their_own(world: World, client: httpx.AsyncClient):
    declare_partitioned_stream(world.vhost, "many", 2)
    url = "/api/streams/%2F/many/readers"
    for partition in (0, 1):
        answer = await client.put(
            f"{url}/r", json={"offset": 7 + partition}, params={"partition": partition}
        )
        assert answer.status_code == 204
    everything = (await client.get(url)).json()["readers"]
    assert [(one["partition"], one["offset"]) for one in everything] == [(0, 7), (1, 8)]
    one = (await client.get(url, params={"partition": 1})).json()["readers"]
    assert [each["offset"] for each in one] == [8]
    assert (await client.get(f"{url}/r", params={"partition": 2})).status_code == 404


async def test_an_offset_in_another_incarnation_is_refused(world: World, client: httpx.AsyncClient):
    incarnation = world.stream().incarnation

    async def put(incarnation: str) -> httpx.Response:
        return await client.put(f"{URL}/r", json={"offset": 3}, params={"incarnation": incarnation})

    answer = await put("another")
    assert (answer.status_code, answer.json()["error"]) == (409, "incarnation")
    assert world.vhost.reader_offsets("orders") == {}
    assert (await put(incarnation)).status_code == 204


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"offset": "1"},
        {"offset": -1},
        {"offset": True},
        {"offset": 2**63},
        {"of": 1},
        {"next_offset": -1},
        {"next_offset": None},
        {"offset": 1, "next_offset": 2},
    ],
)
async def test_bad_offsets(world: World, client: httpx.AsyncClient, body: dict[str, object]):
    world.stream()
    assert (await client.put(f"{URL}/r", json=body)).status_code == 400
    assert world.vhost.reader_offsets("orders") == {}


async def test_a_reader_may_be_before_the_first_message(world: World, client: httpx.AsyncClient):
    stream = world.stream()
    assert (await client.put(f"{URL}/r", json={"next_offset": 0})).status_code == 204
    world.fill(stream, 2)
    found = (await client.get(f"{URL}/r")).json()
    assert (found["offset"], found["next_offset"], found["end"], found["lag"]) == (-1, 0, 2, 2)
    assert found["lag_ms"] == 0


async def test_who_a_reader_is_and_when_it_went_on(world: World, client: httpx.AsyncClient):
    world.stream()
    begun = world.engine.clock.wall_ms

    async def after(seconds: int, **more: Any) -> list[Any]:
        world.engine.clock.wall_ms += 1000 * seconds
        assert (await client.put(f"{URL}/reader", **more)).status_code == 204
        found = (await client.get(f"{URL}/reader")).json()
        return [found["user"], found["since_ms"] - begun, found["moved_ms"] - begun]

    assert await after(1, json={"next_offset": 1}) == ["guest", 1000, 1000]
    assert await after(1, json={"next_offset": 1}) == ["guest", 1000, 1000]
    assert await after(1, json={"next_offset": 5}) == ["guest", 1000, 3000]
    assert await after(1, json={"next_offset": 5}, auth=READER) == ["reader", 4000, 3000]


READER = ("reader", "secret")  # who may read orders, and no more


@pytest.mark.parametrize(("name", "status"), [("{}", 403), ("reader{}", 404), ("readers{}", 403)])
async def test_whose_a_name_with_very_many_dots_is_is_soon_known(
    world: World,
    client: httpx.AsyncClient,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    status: int,
):
    world.stream()
    looked_up: list[str] = []
    find = Access.user

    def finding(access: Access, name: str) -> User | None:
        looked_up.append(name)
        return find(access, name)

    monkeypatch.setattr(Access, "user", finding)
    answer = await client.delete(f"{URL}/{name.format('.' * 30_000)}", auth=READER)
    assert answer.status_code == status
    assert 0 < len(looked_up) < 300


@pytest.mark.parametrize("name", ["reader", "reader.report", "reader.a.b"])
async def test_who_may_read_moves_what_is_called_after_him(
    world: World, client: httpx.AsyncClient, name: str
):
    world.stream()
    answer = await client.put(f"{URL}/{name}", json={"offset": 1}, auth=READER)
    assert answer.status_code == 204
    assert (await client.delete(f"{URL}/{name}", auth=READER)).status_code == 204


@pytest.mark.parametrize("name", ["report", "reader2", "Reader", ".reader", "reader.long.x", ""])
async def test_who_may_read_does_not_move_what_is_another_s(
    world: World, client: httpx.AsyncClient, name: str
):
    world.broker.access.put_user(User("reader.long", salted_sha256("secret", SECRET)))
    world.stream()
    name = name or "a%2Freader"
    assert (await client.put(f"{URL}/{name}", json={"offset": 41})).status_code == 204
    kept = world.vhost.reader_offsets("orders")
    for answer in (
        await client.put(f"{URL}/{name}", json={"offset": 1}, auth=READER),
        await client.delete(f"{URL}/{name}", auth=READER),
    ):
        assert (answer.status_code, answer.json()["error"]) == (403, "forbidden")
        assert answer.json()["reason"] == (
            "configure access to queue 'orders' in vhost '/' refused for user 'reader'"
        )
    assert world.vhost.reader_offsets("orders") == kept
    # To look is to read.
    assert (await client.get(f"{URL}/{name}", auth=READER)).json()["offset"] == 41
    assert (await client.delete(f"{URL}/{name}")).status_code == 204
