"""Filter classes over HTTP, loaded in real processes."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from tests.filterserver.asked import GREATER, judging
from tests.management.conftest import SECRET, World

from leporid.broker.access.access import User
from leporid.broker.access.passwords import salted_sha256
from leporid.broker.access.permissions import EVERYTHING
from leporid.broker.stored import StoredFilterClass
from leporid.durable import Drop, Put
from leporid.filterserver.filter_class import FilterClass, FilterClassStatus

ROOT = "/api/filter-classes"
BIG = f"{ROOT}/big"


async def refused(answer: httpx.Response) -> tuple[int, str]:
    return answer.status_code, answer.json()["reason"]


@pytest.mark.slow
async def test_a_classes_life(world: World, client: httpx.AsyncClient):
    assert (await client.put(BIG, content=GREATER)).status_code == 201
    found = (await client.get(BIG)).json()
    assert found == {
        "name": "big",
        "version": 1,
        "class": "Filter",
        "source_bytes": len(GREATER),
        "configured": False,
        "used_by": [],
        "waiting": 0,
        "state": "idle",
        "pid": 0,
        "judged": 0,
        "passed": 0,
        "failures": 0,
        "error": "",
        "failed_at": 0.0,
        "retry_seconds": 0.0,
        "source": GREATER.decode(),
    }
    newer = judging("return False")
    assert (await client.put(BIG, content=newer)).status_code == 204
    [listed] = (await client.get(ROOT)).json()
    assert (listed["version"], "source" in listed) == (2, False)
    assert (await client.delete(BIG)).status_code == 204
    assert (await client.get(ROOT)).json() == []
    assert (await refused(await client.get(BIG))) == (404, "no filter class 'big' is registered")
    assert world.changes[1:] == [
        Put(StoredFilterClass("big", 1, "Filter", GREATER)),
        Put(StoredFilterClass("big", 2, "Filter", newer)),
        Drop(StoredFilterClass, ("big",)),
    ]


@pytest.mark.slow
async def test_a_source_that_does_not_load_is_refused_and_the_old_one_stays(
    world: World, client: httpx.AsyncClient
):
    await client.put(BIG, content=GREATER)
    answer = await client.put(BIG, content=b"class Filter(\n")
    assert answer.status_code == 400
    assert answer.json()["error"] == "does-not-load"
    assert answer.json()["reason"].startswith("filter class 'big' does not load: ")
    assert "SyntaxError" in answer.json()["reason"]
    assert (await client.get(BIG)).json()["source"] == GREATER.decode()


@pytest.mark.slow
async def test_name_and_version_of_the_class_may_be_said(client: httpx.AsyncClient):
    source = GREATER.replace(b"Filter", b"Big")
    assert (await client.put(f"{BIG}?version=7&class=Big", content=source)).status_code == 201
    found = (await client.get(BIG)).json()
    assert (found["version"], found["class"]) == (7, "Big")
    status, reason = await refused(await client.put(f"{BIG}?version=6", content=GREATER))
    assert (status, reason) == (
        409,
        "filter class 'big' has version 7 already, which is newer than 6",
    )


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ("version=0", "version"),
        ("version=new", "version"),
        ("class=no%20name", "'no name' is no name of a class in Python"),
        ("klass=Filter", "did you mean 'class'"),
    ],
)
async def test_what_is_no_class_is_refused(client: httpx.AsyncClient, query: str, reason: str):
    status, said = await refused(await client.put(f"{BIG}?{query}", content=GREATER))
    assert status == 400
    assert reason in said


async def test_a_source_that_is_too_long_is_refused(client: httpx.AsyncClient):
    answer = await client.put(BIG, content=b"#" * (1024 * 1024 + 1))
    assert answer.status_code == 413


async def test_how_a_class_is_doing_is_shown(
    world: World, client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
):
    world.filter_class_status = FilterClassStatus("waiting", 0, 9, 5, 2, "crashed", 17e8, 0.5)
    await client.put(BIG, content=GREATER)
    found = (await client.get(BIG)).json()
    assert (found["state"], found["error"], found["failures"]) == ("waiting", "crashed", 2)


async def test_what_is_used_is_not_deleted(
    world: World, client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
):
    await client.put(BIG, content=GREATER)
    monkeypatch.setattr(world.broker.filter_classes, "uses", lambda name: ["the binding"])
    assert (await refused(await client.delete(BIG))) == (
        409,
        "filter class 'big' is used by the binding",
    )
    assert (await client.get(BIG)).json()["used_by"] == ["the binding"]


async def test_classes_have_pages_and_orders(
    world: World, client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
):
    used, waiting = {"a": 1, "b": 3, "c": 2}, {"a": 5, "b": 4, "c": 7}
    classes = world.broker.filter_classes
    for name in used:
        classes.put(FilterClass(name, 1, "Filter", GREATER))
    monkeypatch.setattr(classes, "uses", lambda name: ["a binding"] * used[name])
    monkeypatch.setattr(
        world.broker, "waiting_for_verdicts", lambda name: iter([1, waiting[name] - 1])
    )
    for sort, order in (("name", "abc"), ("used_by", "acb"), ("waiting", "bac")):
        found = (await client.get(f"{ROOT}?page=1&page_size=2&sort={sort}")).json()
        assert [each["name"] for each in found["items"]] == list(order[:2])
        assert (found["total_count"], found["page_count"]) == (3, 2)
        for each in found["items"]:
            assert len(each["used_by"]) == used[each["name"]]
            assert each["waiting"] == waiting[each["name"]]
    found = (await client.get(f"{ROOT}?page=1&name=B")).json()
    assert [each["name"] for each in found["items"]] == ["b"]
    found = (await client.get(f"{ROOT}?where=waiting>4&columns=name,waiting")).json()
    assert found == [{"name": "a", "waiting": 5}, {"name": "c", "waiting": 7}]


@pytest.mark.parametrize("tag", ["policymaker", "management", "monitoring", "none"])
async def test_administrators_only(world: World, client: httpx.AsyncClient, tag: str):
    password = salted_sha256("secret", SECRET)
    user = User(tag, password, frozenset({tag}), permissions={"/": EVERYTHING})
    world.broker.access.put_user(user)
    login: dict[str, Any] = {"auth": (tag, "secret")}
    for answer in (
        await client.get(ROOT, **login),
        await client.get(BIG, **login),
        await client.put(BIG, content=GREATER, **login),
        await client.delete(BIG, **login),
    ):
        status, reason = await refused(answer)
        assert status == 403
        assert reason == f"user '{tag}' lacks the tag administrator, which this needs"
    assert not list(world.broker.filter_classes)


async def test_guest_registers_nothing_by_default(world: World, client: httpx.AsyncClient):
    object.__setattr__(world.around, "guest_registers", False)
    status, reason = await refused(await client.put(BIG, content=GREATER))
    assert status == 403
    assert "whose password everybody knows" in reason
    assert "filter_server.allow_guest" in reason
    assert (await client.get(ROOT)).json() == []


@pytest.mark.slow
async def test_other_administrators_register_classes(world: World, client: httpx.AsyncClient):
    object.__setattr__(world.around, "guest_registers", False)
    admin = User("admin", salted_sha256("secret", SECRET), tags=frozenset({"administrator"}))
    world.broker.access.put_user(admin)
    answer = await client.put(BIG, content=GREATER, auth=("admin", "secret"))
    assert answer.status_code == 201
