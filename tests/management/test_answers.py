"""Answers that are tables: whole, refused, or visibly cut off."""

from __future__ import annotations

import httpx
import pyarrow as pa
import pytest
from starlette.requests import Request
from starlette.responses import Response
from tests.management.conftest import World, serving
from tests.server.test_http import TOTALS

from leporid.broker.access.access import guest
from leporid.limits.refusals import Refusals
from leporid.management import admission as module
from leporid.management.admission import TABLE, Admission
from leporid.management.answers import PIECE_BYTES, TableAnswer
from leporid.management.paths import RawRoute
from leporid.management.refusals import Refusal
from leporid.management.tables import Encoder
from leporid.server.addresses import bind
from leporid.server.http import HttpServer, application

SCHEMA = pa.schema([("n", pa.int64())])


class Given:
    """Batches of these sizes; then it ends, or is refused."""

    title = "numbers"
    headers = ((b"x-what", b"numbers"),)

    def __init__(self, *sizes: int, refusal: Refusal | None = None) -> None:
        self.encoder = Encoder(SCHEMA)
        self.opening = self.encoder.opening
        self.sizes = list(sizes)
        self.refusal = refusal
        self.ended: list[bool] = []

    async def next(self) -> memoryview | None:
        if self.sizes:
            column = pa.array(range(self.sizes.pop(0)), pa.int64())
            return self.encoder.encode(pa.record_batch([column], schema=SCHEMA))
        if self.refusal is not None:
            raise self.refusal
        return None

    def end(self, whole: bool) -> None:
        self.ended.append(whole)


async def answer(given: Given) -> httpx.Response:
    admission = Admission(Refusals())

    async def handler(request: Request) -> Response:
        return TableAnswer(admission, guest(b"s" * 32), given)

    route = RawRoute("/api/numbers", handler, "GET", TABLE, admission)
    app = application(TOTALS, list, [route])
    server = HttpServer(app, bind(["127.0.0.1"], 0))
    await server.start()
    host, port = server.address
    try:
        async with httpx.AsyncClient(
            base_url=f"http://{host}:{port}", trust_env=False, verify=False
        ) as client:
            return await client.get("/api/numbers")
    finally:
        await server.stop()


async def test_all_batches_are_sent_and_the_end():
    given = Given(3, 2 * PIECE_BYTES // 8, 1)
    found = await answer(given)
    assert found.headers["x-what"] == "numbers"
    assert found.headers["content-type"] == "application/vnd.apache.arrow.stream"
    batches = list(pa.ipc.open_stream(found.content))
    assert [len(batch) for batch in batches] == [3, 2 * PIECE_BYTES // 8, 1]
    assert given.ended == [True]


async def test_no_batch_is_an_empty_table():
    found = await answer(Given())
    assert pa.ipc.open_stream(found.content).read_all().num_rows == 0


async def test_a_refusal_before_the_first_batch_is_an_answer():
    given = Given(refusal=Refusal(410, "gone", "it went"))
    found = await answer(given)
    assert (found.status_code, found.json()["reason"]) == (410, "it went")
    assert given.ended == [False]


async def test_a_refusal_on_the_way_cuts_the_answer_off():
    given = Given(3, refusal=Refusal(410, "gone", "it went"))
    with pytest.raises(httpx.RemoteProtocolError, match="incomplete"):
        await answer(given)
    assert given.ended == [False]


async def test_too_many_answers_at_a_time(world: World, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "QUEUE_SECONDS", 0.01)
    world.stream()
    tables = world.around.admission.shares.tables
    others = [tables.take(f"other {number}") for number in range(tables.slots)]
    async with serving(world) as client:
        answer = await client.get("/api/streams/%2F/orders/records")
        assert (answer.status_code, answer.json()["error"]) == (503, "busy")
        assert answer.headers["retry-after"] == "1"
        others.pop().release()
        assert (await client.get("/api/streams/%2F/orders/records")).status_code == 200
    assert tables.used == len(others)
