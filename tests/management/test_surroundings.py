"""What handlers are given."""

import sys

import httpx
import pytest
from tests.management.conftest import World

from leporid.management.refusals import Refusal
from leporid.management.surroundings import Found, need_arrow, streams_of


def test_a_partition_that_is_not_there(world: World):
    world.vhost.declare_partitioned_stream("many", 2)
    found = Found(
        next(iter(world.broker.access)), world.vhost, "many", streams_of(world.vhost, "many")
    )
    assert found.partition(1).name == "many-1"
    with pytest.raises(Refusal, match="no partition 2, only 0 to 1"):
        found.partition(2)


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
