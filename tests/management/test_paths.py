"""Names in paths, whatever is in them."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Match

from leporid.broker.access.access import User
from leporid.broker.access.passwords import NoPassword
from leporid.limits.refusals import Refusals
from leporid.management.admission import LOOK, Admission
from leporid.management.paths import ProbeRoute, RawRoute, name_of, visit_of
from leporid.management.refusals import Refusal
from leporid.server.addresses import bind
from leporid.server.http import HttpServer


async def echo(request: Request) -> Response:
    try:
        return JSONResponse([name_of(request, "vhost"), name_of(request, "stream")])
    except Refusal as refusal:
        return refusal.answer()


@pytest.mark.parametrize(
    ("path", "status", "names"),
    [
        ("/a/b/c", 200, ["a", "b"]),
        ("/%2F/b/c", 200, ["/", "b"]),
        ("/%252F/%2F%2F/c", 200, ["%2F", "//"]),
        ("/a+b/%C3%BC%20%3F/c", 200, ["a+b", "ü ?"]),
        ("/a/%FF/c", 400, None),
        ("/a/b", 404, None),
        ("/a//c", 404, None),
        ("/a/b/c/d", 404, None),
        ("/a/b/c/", 200, ["a", "b"]),
        ("/a/b/c%0A", 404, None),
        ("/a/b/d", 404, None),
    ],
)
async def test_names_are_decoded_once(path: str, status: int, names: list[str] | None):
    admission = Admission(Refusals())
    app = Starlette(routes=[RawRoute("/{vhost}/{stream}/c", echo, "GET", LOOK, admission)])
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://x", verify=False) as client:
        answer = await client.get(path)
        assert answer.status_code == status
        if names is not None:
            assert answer.json() == names
        refused = await client.post("/a/b/c")
        assert (refused.status_code, refused.headers["allow"]) == (405, "GET, HEAD")


@pytest.mark.parametrize(
    ("path", "rest"),
    [
        ("/ui/a", "a"),
        ("/ui/a/b/", "a/b/"),
        ("/ui/", ""),
        ("/ui", None),
        ("/uia", None),
        ("/", None),
    ],
)
async def test_a_last_parameter_may_stand_for_all_that_follows(path: str, rest: str | None):
    route = ProbeRoute("/ui/{path:path}", echo)
    assert repr(route) == "<ProbeRoute GET/HEAD /ui/{path:path}>"
    found, more = route.matches({"type": "http", "method": "GET", "path": path})
    assert (found is Match.FULL, more.get("path_params")) == (
        rest is not None,
        None if rest is None else {"path": rest},
    )
    assert route.matches({"type": "websocket", "path": path})[0] is Match.NONE


def test_a_name_has_no_slash_and_is_not_empty():
    route = ProbeRoute("/x/{name}", echo)
    for path, wanted in (("/x/a", Match.FULL), ("/x/a/b", Match.NONE), ("/x/", Match.NONE)):
        assert route.matches({"type": "http", "method": "GET", "path": path})[0] is wanted


def test_the_default_exchange_may_be_named_by_nothing():
    route = ProbeRoute("/x/{vhost}/{exchange}/y", echo)
    for path, wanted in (("/x/a//y", Match.FULL), ("/x//b/y", Match.NONE), ("/x/a/y", Match.NONE)):
        found, scope = route.matches({"type": "http", "method": "GET", "path": path})
        assert found is wanted
        if found is Match.FULL:
            assert scope["path_params"] == {"vhost": "a", "exchange": ""}


def of_token(seconds: float) -> User:
    expires_ms = int((time.time() + seconds) * 1000)
    return User("jo", NoPassword(), backend="oauth2", expires_ms=expires_ms)


@contextlib.asynccontextmanager
async def answering(
    answer: Callable[[Request], Awaitable[Response]], method: str = "GET"
) -> AsyncIterator[str]:
    """Serve one route, over sockets; gives its address."""
    route = RawRoute("/x", answer, method, LOOK, Admission(Refusals()))
    server = HttpServer(Starlette(routes=[route]), bind(["127.0.0.1"], 0))
    await server.start()
    host, port = server.address
    yield f"http://{host}:{port}/x"
    await server.stop()


async def test_a_request_ends_with_its_token():
    ended: list[str] = []

    async def waits(request: Request) -> Response:
        visit_of(request).log_in(of_token(0.1))
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("waiting")
        return Response()

    async with answering(waits) as url, httpx.AsyncClient(verify=False) as client:
        for _ in range(2):
            answer = await client.get(url)
            assert (answer.status_code, answer.json()["reason"]) == (401, "The token has expired")
            assert 'error="invalid_token"' in answer.headers["www-authenticate"]
    assert ended == ["waiting"] * 2


async def test_an_answer_that_was_begun_is_cut_with_its_token():
    async def rows() -> AsyncIterator[bytes]:
        yield b"first"
        await asyncio.Event().wait()

    async def streams(request: Request) -> Response:
        visit_of(request).log_in(of_token(0.2))
        return StreamingResponse(rows())

    async with (
        answering(streams) as url,
        httpx.AsyncClient(verify=False) as client,
        client.stream("GET", url) as answer,
    ):
        assert answer.status_code == 200
        with pytest.raises(httpx.RemoteProtocolError):
            await answer.aread()


async def test_another_time_out_is_none_of_a_token():
    async def fails(request: Request) -> Response:
        visit_of(request).log_in(of_token(60))
        raise TimeoutError

    admission = Admission(Refusals())
    app = Starlette(routes=[RawRoute("/x", fails, "GET", LOOK, admission)])
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://x", verify=False) as client:
        with pytest.raises(TimeoutError):
            await client.get("/x")


async def test_what_changes_something_is_not_cut():
    async def changes(request: Request) -> Response:
        visit_of(request).log_in(of_token(-1))
        for _ in range(100):
            await asyncio.sleep(0)
        return Response()

    async with answering(changes, "POST") as url, httpx.AsyncClient(verify=False) as client:
        assert (await client.post(url)).status_code == 200
