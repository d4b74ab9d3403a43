"""Lists of objects: pages, order, columns, and how little is made for them."""

from __future__ import annotations

import asyncio
import gc
import sys
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.management.conftest import World
from tests.management.queues import queue_of

from leporid.management import paging
from leporid.management.conditions import conditions_in
from leporid.management.listings import PIECE_ITEMS, RUN
from leporid.management.paging import ABSENT, Columns, Table, sort_key

URL = "/api/queues?columns=name"


def make(world: World, *names: str) -> None:
    for name in names:
        queue_of(world, name)


async def names(client: httpx.AsyncClient, query: str) -> list[str]:
    answer = await client.get(f"{URL}&{query}")
    assert answer.status_code == 200, answer.text
    found = answer.json()
    return [each["name"] for each in (found if isinstance(found, list) else found["items"])]


async def refused(client: httpx.AsyncClient, query: str) -> tuple[str, str]:
    answer = await client.get(f"{URL}&{query}")
    assert answer.status_code == 400, answer.text
    return answer.json()["error"], answer.json()["reason"]


async def test_pages(world: World, client: httpx.AsyncClient):
    make(world, "c", "a", "e", "b", "d")
    answer = await client.get(f"{URL}&page=2&page_size=2")
    assert answer.json() == {
        "filtered_count": 5,
        "item_count": 2,
        "items": [{"name": "c"}, {"name": "d"}],
        "page": 2,
        "page_count": 3,
        "page_size": 2,
        "total_count": 5,
    }
    assert await names(client, "page=3&page_size=2") == ["e"]
    assert await names(client, "page=1") == ["a", "b", "c", "d", "e"]
    assert await refused(client, "page=4&page_size=2") == (
        "page_out_of_range",
        "Page out of range, page: 4 page size: 2, len: 5",
    )


async def test_an_empty_list_has_a_first_page(client: httpx.AsyncClient):
    answer = (await client.get("/api/queues?page=1")).json()
    assert (answer["items"], answer["page_count"], answer["total_count"]) == ([], 0, 0)
    assert (await client.get("/api/queues")).json() == []


@pytest.mark.parametrize(
    ("query", "error", "reason"),
    [
        ("page=0", "invalid_pagination_parameters", "page number 0, page size undefined"),
        ("page=1&page_size=501", "invalid_pagination_parameters", "page number 1, page size 501"),
        ("page=1&page_size=0", "invalid_pagination_parameters", "page number 1, page size 0"),
        ("page=-1", "bad_request", "Pagination parameters are invalid"),
        ("page=1&page_size=x", "bad_request", "Pagination parameters are invalid"),
        ("page=1&name=(&use_regex=true", "bad_request", "is not a pattern RE2 accepts"),
        ("page=1&name=(?=a)&use_regex=true", "bad_request", "is not a pattern RE2 accepts"),
        (f"page=1&name={'a' * 256}&use_regex=true", "bad_request", "at most 259 are allowed"),
        # RE2 itself takes it, and then a tenth of a second for each name.
        (
            "page=1&use_regex=true&name=" + "(((.{1,10}){1,10}){1,10})" * 9,
            "bad_request",
            "pattern too large",
        ),
        ("columns=" + ",".join("a" * 101), "bad_request", "columns: 101 were named, 100 may be"),
    ],
)
async def test_what_is_no_page(client: httpx.AsyncClient, query: str, error: str, reason: str):
    path = f"{URL}&{query}" if "columns" not in query else f"/api/queues?{query}"
    answer = await client.get(path)
    assert (answer.status_code, answer.json()["error"]) == (400, error)
    assert reason in answer.json()["reason"]


async def test_names(world: World, client: httpx.AsyncClient):
    make(world, "orders", "Orders-2", "jobs")
    assert await names(client, "page=1&name=ORDER") == ["Orders-2", "orders"]
    assert await names(client, "page=1&name=^o.*s$&use_regex=true") == ["orders"]
    assert await names(client, "page=1&name=nothing") == []
    # As in RabbitMQ a name counts only with pages.
    assert len(await names(client, "name=nothing")) == 3
    answer = (await client.get(f"{URL}&page=1&name=order")).json()
    assert (answer["filtered_count"], answer["total_count"]) == (2, 3)


def test_a_path_ends_where_nothing_is():
    """Paths may have thousands of names, for each of the objects of a list."""
    table: Table[str] = Table({"a": lambda item: {"b": item}})
    path = ("a", "c", *["d"] * 5000)
    steps = 0

    def count(*_: Any) -> None:
        nonlocal steps
        steps += 1

    sys.setprofile(count)
    try:
        found = table.reader(path)("x"), Columns([".".join(path)]).of(table, "x")
    finally:
        sys.setprofile(None)
    assert found == (ABSENT, {})
    assert steps < 1000


async def test_conditions_on_fields(world: World, client: httpx.AsyncClient):
    for name, length in (("a", 5), ("b", None), ("c", 70), ("d", 5)):
        queue_of(world, name, {} if length is None else {"x-max-length": length})
    by = "where=arguments.x-max-length"
    assert await names(client, f"{by}=5") == ["a", "d"]
    assert await names(client, f"{by}>4&{by}<70&page=1") == ["a", "d"]
    assert await names(client, f"{by}!=5&sort=name&sort_reverse=true") == ["c", "b"]
    assert await names(client, "where=name=c&where=durable=true") == ["c"]
    assert await names(client, "where=name=c&where=durable=false") == []
    answer = (await client.get(f"{URL}&page=1&page_size=1&{by}=5")).json()
    assert (answer["filtered_count"], answer["total_count"]) == (2, 4)
    assert (await refused(client, "where=durable"))[1].startswith("where: 'durable' is no")
    assert "9 conditions were given, 8 may be" in (await refused(client, "where=a=1&" * 9))[1]


async def test_conditions_on_a_list_in_the_order_of_its_objects(client: httpx.AsyncClient):
    path = "/api/exchanges/%2F?columns=name&where=type=topic"
    assert [each["name"] for each in (await client.get(path)).json()] == [
        "amq.rabbitmq.trace", "amq.topic",
    ]  # fmt: skip


async def test_order(world: World, client: httpx.AsyncClient):
    for name, length in (("a", 5), ("b", None), ("c", 70), ("d", 5)):
        queue_of(world, name, {} if length is None else {"x-max-length": length})
    by = "sort=arguments.x-max-length"
    assert await names(client, by) == ["b", "a", "d", "c"]
    assert await names(client, f"{by}&sort_reverse=true") == ["c", "d", "a", "b"]
    assert await names(client, f"{by}&page=1&page_size=2&sort_reverse=true") == ["c", "d"]
    assert await names(client, "sort=nothing") == ["a", "b", "c", "d"]


async def test_runs_are_merged(world: World, client: httpx.AsyncClient):
    every = [f"q{number:04}" for number in range(3 * RUN + 7)]
    make(world, *sorted(every, key=lambda name: name[::-1]))
    assert await names(client, "sort=name") == every
    assert await names(client, "sort=name&sort_reverse=true") == every[::-1]


async def test_pages_of_several_runs(world: World, client: httpx.AsyncClient):
    every = [f"q{number:04}" for number in range(3 * RUN + 7)]
    make(world, *sorted(every, key=lambda name: name[::-1]))
    for page, size in ((1, 10), (3, 77), (len(every) // 100 + 1, 100)):
        expected = every[(page - 1) * size : page * size]
        assert await names(client, f"page={page}&page_size={size}") == expected
    pages = len(every) // 100 + 1
    answer = await client.get(f"/api/queues?page={pages + 1}")
    assert answer.json()["reason"] == (
        f"Page out of range, page: {pages + 1} page size: 100, len: {len(every)}"
    )


async def test_columns(world: World, client: httpx.AsyncClient):
    queue_of(world, "a", {"x-max-length": 5, "x-expires": 900_000})
    answer = await client.get("/api/queues?columns=name,arguments.x-expires,messages,none,name.x")
    assert answer.json() == [{"name": "a", "arguments": {"x-expires": 900_000}, "messages": 0}]
    one = await client.get("/api/queues/%2F/a?columns=durable")
    assert one.json() == {"durable": True}


def test_a_column_and_what_is_in_it():
    table: Table[dict[str, Any]] = Table({"a": lambda item: item["a"]})
    item = {"a": {"b": 1, "c": 2}}
    assert Columns(["a", "a.b"]).of(table, item) == {"a": {"b": 1, "c": 2}}
    assert Columns(["a.b", "a"]).of(table, item) == {"a": {"b": 1, "c": 2}}
    assert item == {"a": {"b": 1, "c": 2}}
    assert Columns(["a.x"]).of(table, item) == {}


def test_fields_are_made_once_for_each_object_however_often_they_are_asked_for():
    made: list[str] = []

    def noting(name: str, value: dict[str, Any]) -> dict[str, Any]:
        made.append(name)
        return value

    table: Table[str] = Table(
        {"a": lambda item: noting("a", {"b": item})},
        whole=lambda item: noting("whole", {"a": {"b": item}, "z": 1}),
    )
    columns = Columns(["a", "z", "a", "a.b", "z", *(f"c{number}" for number in range(90))])
    assert columns.of(table, "x") == {"a": {"b": "x"}, "z": 1}
    assert sorted(made) == ["a", "whole"]
    made.clear()
    assert table.meets("x", conditions_in(["c1=0", "z=1", "c2!=5", "a.b=x", "z>0"]))
    assert sorted(made) == ["a", "whole"]


def test_fields_that_are_made_together_are_made_once_and_without_others():
    made: list[str] = []

    def part(item: str) -> dict[str, Any]:
        made.append("part")
        return {"a": item, "b": 2}

    def whole(item: str) -> dict[str, Any]:
        made.append("whole")
        return part(item) | {"z": 1}

    table: Table[str] = Table({}, None, whole, dict.fromkeys(("a", "b"), part))
    assert Columns(["a", "b"]).of(table, "x") == {"a": "x", "b": 2}
    assert made == ["part"]
    made.clear()
    assert table.reader(("b",))("x") == 2
    assert made == ["part"]
    assert Columns(["z", "none"]).of(table, "x") == {"z": 1}
    assert table.reader(("none",))("x") is ABSENT


def test_only_the_fields_that_are_asked_for_are_made():
    def never(_: object) -> None:
        raise AssertionError

    table: Table[int] = Table({"a": lambda item: item, "b": never})
    assert table.show(1, Columns(["a"])) == {"a": 1}


async def test_of_what_is_on_no_page_only_what_orders_it_is_made(
    world: World, client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
):
    shown: list[object] = []
    show = Table.show

    def counting(table: Table[Any], item: Any, columns: Columns | None = None) -> dict[str, Any]:
        shown.append(item)
        return show(table, item, columns)

    monkeypatch.setattr(Table, "show", counting)
    make(world, *(f"q{number:04}" for number in range(3 * PIECE_ITEMS)))
    assert await names(client, "page=3&page_size=5") == [
        f"q{number:04}" for number in range(10, 15)
    ]
    assert len(shown) == 5


JSON = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()


@given(st.lists(JSON | st.lists(JSON) | st.dictionaries(st.text(), JSON)))
def test_any_values_have_an_order(values: list[Any]):
    ordered = sorted([*values, ABSENT], key=sort_key)
    kinds = [sort_key(value)[0] for value in ordered]
    assert kinds == sorted(kinds)
    assert sort_key(ABSENT) == sort_key(0)


async def test_others_have_turns_while_a_list_is_sorted(
    world: World, client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
):
    """The clock that slices are cut by jumps with each look at it."""
    ticks = iter(range(10**9))
    object.__setattr__(world.around, "monotonic", lambda: float(next(ticks)))
    turns: list[object] = []
    next_turn = world.around.admission.turns.next

    async def counting(key: object) -> None:
        turns.append(key)
        await next_turn(key)

    monkeypatch.setattr(world.around.admission.turns, "next", counting)
    count = 160
    make(world, *(f"q{number:03}" for number in range(count)))
    assert len(await names(client, "page=1")) == paging.PAGE_SIZE
    # What is asked of one object, such as a pattern, may take a slice.
    assert len(turns) >= count


async def test_what_is_sorted_is_nothing_for_the_garbage_collector(
    world: World, client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
):
    """It would look at ten thousand tuples at once, which takes milliseconds."""
    tracked: list[int] = []
    next_turn = world.around.admission.turns.next

    async def counting(key: object) -> None:
        gc.collect(0)
        tracked.append(sum(type(each) is tuple for each in gc.get_objects()))
        await next_turn(key)

    monkeypatch.setattr(world.around.admission.turns, "next", counting)
    make(world, *(f"q{number:04}" for number in range(3 * RUN)))
    # A turn for each look, so that there are some while objects are being sorted.
    ticks = iter(range(10**9))
    object.__setattr__(world.around, "monotonic", lambda: float(next(ticks)))
    gc.freeze()  # what is there already is not counted
    try:
        assert len(await names(client, "sort=messages")) == 3 * RUN
    finally:
        gc.unfreeze()
    assert len(tracked) > 40
    assert max(tracked) - tracked[0] < RUN


async def test_a_list_of_which_there_is_no_end_has_its_turn_when_others_are_over(
    world: World, client: httpx.AsyncClient
):
    make(world, "a", "b")
    share = world.around.admission.shares.list_items
    held = share.take("somebody", 1)
    share.slots = 2
    waiting = asyncio.create_task(client.get(URL))
    while not share.waiting:
        await asyncio.sleep(0)
    assert not waiting.done()
    held.release()
    assert (await waiting).json() == [{"name": "a"}, {"name": "b"}]
    assert share.used == 0


async def test_parameters_that_nobody_knows_are_ignored(world: World, client: httpx.AsyncClient):
    make(world, "a")
    assert await names(client, "_=1700000000&lengths_age=60&pagination=true") == ["a"]
