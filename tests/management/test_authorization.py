"""Who may use RabbitMQ's routes, and what the others are told."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import httpx
import pytest
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from tests.management.conftest import SECRET, World

from leporid.broker.access.access import User
from leporid.broker.access.passwords import salted_sha256
from leporid.broker.access.permissions import EVERYTHING
from leporid.management import authorization
from leporid.management.admission import LOOK, Admission
from leporid.management.paths import RawRoute
from leporid.management.refusals import Refusal

Finds = Callable[[Any, Request], Awaitable[Any]]
TAGS = ("administrator", "policymaker", "monitoring", "management", "none")


@pytest.fixture(autouse=True)
def users(world: World) -> None:
    """One user for each tag, all of "/" only."""
    world.broker.add_vhost("other")
    for tag in TAGS:
        password = salted_sha256("secret", SECRET)
        user = User(tag, password, frozenset({tag}), permissions={"/": EVERYTHING})
        world.broker.access.put_user(user)


async def asked(world: World, find: Finds, user: str, vhost: str = "%2F") -> tuple[int, Any]:
    """Have a route find out who asks, and return its answer."""

    async def handler(request: Request) -> Response:
        try:
            found = await find(world.around, request)
        except Refusal as refusal:
            return refusal.answer()
        return JSONResponse((found[0] if isinstance(found, tuple) else found).name)

    admission: Admission = world.around.admission
    route = RawRoute("/api/here/{vhost}", handler, "GET", LOOK, admission)
    transport = httpx.ASGITransport(app=_with_state(route))
    url = f"http://localhost/api/here/{vhost}"
    async with httpx.AsyncClient(transport=transport, verify=False) as client:
        answer = await client.get(url, auth=(user, "secret"))
    return answer.status_code, answer.json()


def _with_state(route: RawRoute) -> Any:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        _, more = route.matches(scope)
        await route.handle({**scope, **more, "state": {}}, receive, send)

    return app


@pytest.mark.parametrize(
    ("find", "let_in", "reason"),
    [
        (authorization.manager, TAGS[:4], ""),
        (authorization.monitor, ("administrator", "monitoring"), "Not monitor user"),
        (authorization.administrator, ("administrator",), "Not administrator user"),
        (authorization.visitor, TAGS[:4], ""),
    ],
)
async def test_tags(world: World, find: Finds, let_in: tuple[str, ...], reason: str):
    for tag in TAGS:
        found = await asked(world, find, tag)
        if tag in let_in:
            assert found == (200, tag)
        else:
            said = "Not management user" if tag == "none" else reason
            assert found == (401, {"error": "not_authorised", "reason": said})


async def test_visitors_of_virtual_hosts(world: World):
    refused = {
        "error": "not_authorised",
        "reason": "User not authorised to access virtual host",
    }
    assert await asked(world, authorization.visitor, "monitoring", "other") == (401, refused)
    assert await asked(world, authorization.onlooker, "monitoring", "other") == (200, "monitoring")
    assert await asked(world, authorization.onlooker, "management", "other") == (401, refused)
    missing = {"error": "Object Not Found", "reason": "Not Found"}
    assert await asked(world, authorization.visitor, "administrator", "none") == (404, missing)
