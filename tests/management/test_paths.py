"""Names in paths, whatever is in them."""

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from leporid.limits.refusals import Refusals
from leporid.management.admission import LOOK, Admission
from leporid.management.paths import RawRoute, name_of
from leporid.management.refusals import Refusal


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
    ],
)
async def test_names_are_decoded_once(path: str, status: int, names: list[str] | None):
    admission = Admission(Refusals())
    app = Starlette(routes=[RawRoute("/{vhost}/{stream}/c", echo, "GET", LOOK, admission)])
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://x") as client:
        answer = await client.get(path)
        assert answer.status_code == status
        if names is not None:
            assert answer.json() == names
        assert (await client.post("/a/b/c")).status_code == 405
