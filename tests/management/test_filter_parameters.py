"""Filters of tables over HTTP: the same as over AMQP."""

from __future__ import annotations

from typing import Any

import httpx
import pyarrow as pa
import pytest
from tests.management.conftest import World

from leporid.amqp.properties import Properties, encode_properties
from leporid.amqp.tables import Value

URL = "/api/streams/%2F/orders/records"


def fill(world: World, stream: Any, tables: list[dict[str, Value]]) -> None:
    for headers in tables:
        raw = encode_properties(Properties(headers=headers, delivery_mode=2))
        world.fill(stream, 1, properties=raw)


async def offsets(client: httpx.AsyncClient, **parameters: Any) -> list[int]:
    answer = await client.get(URL, params={"columns": "offset", **parameters})
    assert answer.status_code == 200, answer.text
    read = pa.ipc.open_stream(answer.content).read_all()
    found: list[int] = read["offset"].to_pylist()
    return found


@pytest.mark.parametrize(
    ("parameters", "expected"),
    [
        ({"filter": "n > 17"}, [18, 19]),
        ({"filter": "n > '17'", "dialect": "rocketmq"}, None),
        ({"filter": "number > 17", "dialect": "rocketmq"}, [18, 19]),
        ({"tags": "odd", "filter": "n < 5"}, [1, 3]),
        ({"tags": "odd || even", "from": 18}, [18, 19]),
        ({"tags": "*", "to": 2}, [0, 1]),
        ({"tags": "none"}, []),
        ({"filter": "TAGS = 'odd'", "dialect": "rocketmq", "to": 4}, [1, 3]),
        ({"filter": "n > 4", "routing_key_prefix": "k1", "batch_rows": 3}, list(range(10, 20))),
        ({"filter": "n > 5", "until_ms": 1}, []),
    ],
)
async def test_what_passes(world: World, client: httpx.AsyncClient, parameters, expected):
    stream = world.stream()
    tables: list[dict[str, Value]] = [
        {"n": at, "number": str(at), "x-tag": ("even", "odd")[at % 2]} for at in range(20)
    ]
    fill(world, stream, tables)
    if expected is None:
        assert (await client.get(URL, params=parameters)).status_code == 400
    else:
        assert await offsets(client, **parameters) == expected


@pytest.mark.parametrize(
    ("parameters", "parameter", "says", "position"),
    [
        ({"filter": "n >"}, "filter", "filter: character 4: ", 3),
        ({"filter": ""}, "filter", "filter: character 1: ", 0),
        ({"tags": "a || *"}, "tags", "tags: character 6: * stands alone", 5),
        ({"tags": "a || *", "filter": "n >"}, "tags", "tags: character 6: ", 5),
        ({"dialect": "rocketmq"}, "dialect", "there is no filter beside it", None),
        ({"filter": "n = 1", "dialect": "sql"}, "dialect", "'sql' is not allowed", None),
    ],
)
async def test_refusals(
    world: World, client: httpx.AsyncClient, parameters, parameter, says, position
):
    world.stream()
    answer = await client.get(URL, params=parameters)
    assert answer.status_code == 400
    error = answer.json()
    assert error["error"] == "bad-request"
    assert error["parameter"] == parameter
    assert says in error["reason"]
    assert error.get("position") == position


async def test_what_a_filter_did_is_counted(world: World, client: httpx.AsyncClient):
    stream = world.stream()
    tables: list[dict[str, Value]] = [{"n": at, "x-tag": "a"} for at in range(600)]
    fill(world, stream, [*tables, {"n": "text", "x-tag": "b"}])
    assert await offsets(client, filter="n < 100") == list(range(100))
    assert stream.filtering == (0, 601, 100, 1)
    assert await offsets(client, tags="b") == [600]
    assert stream.filtering == (2, 690, 101, 1)
    info = (await client.get("/api/streams/%2F/orders")).json()["partitions"][0]["filtering"]
    assert info == {"batches_skipped": 2, "evaluated": 690, "matched": 101, "type_errors": 1}
    assert world.engine.streams.filtering == (2, 690, 101, 1)
