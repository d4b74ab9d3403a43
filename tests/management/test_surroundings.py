"""What handlers are given."""

import asyncio
import sys
import threading

import httpx
import pytest
from tests.broker.at_once import declare_partitioned_stream
from tests.management.conftest import World

from leporid.management import surroundings
from leporid.management.refusals import Refusal
from leporid.management.surroundings import Found, need_arrow, streams_of


def test_a_partition_that_is_not_there(world: World):
    declare_partitioned_stream(world.vhost, "many", 2)
    found = Found(
        next(iter(world.broker.access)), world.vhost, "many", streams_of(world.vhost, "many")
    )
    assert found.partition(1).name == "many-1"
    with pytest.raises(Refusal, match="no partition 2, only 0 to 1"):
        found.partition(2)


async def test_the_loop_does_not_wait_for_an_import(world: World, monkeypatch: pytest.MonkeyPatch):
    """Although the module stands among those that are imported, as it does from the beginning."""
    need_arrow()
    begun, may_end = threading.Event(), threading.Event()

    def slow() -> None:
        begun.set()
        assert may_end.wait(30)

    monkeypatch.setattr(surroundings, "need_arrow", slow)
    user = next(iter(world.broker.access))
    asking = [asyncio.ensure_future(world.around.need_arrow(user)) for _ in range(2)]
    while not begun.is_set():
        await asyncio.sleep(0)
    assert not any(each.done() for each in asking)
    may_end.set()
    await asyncio.gather(*asking)
    monkeypatch.setattr(surroundings, "need_arrow", lambda: 1 / 0)
    await world.around.need_arrow(user)


async def test_without_pyarrow_tables_say_how_to_get_it(
    world: World, client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
):
    need_arrow()
    world.stream()
    for name in ("tables", "incoming"):
        monkeypatch.delitem(sys.modules, f"leporid.management.{name}")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    for answer in (
        await client.get("/api/streams/%2F/orders/records"),
        await client.post("/api/publish/%2F/amq.default", content=b""),
    ):
        assert (answer.status_code, answer.json()["error"]) == (501, "arrow-missing")
        assert "pip install 'leporid[arrow]'" in answer.json()["reason"]
    # Everything else works.
    assert (await client.get("/api/streams/%2F/orders")).status_code == 200
