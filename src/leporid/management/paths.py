"""Routes: their paths, and what they cost.

Responsible for the names in a path, and for letting no request past admission. The virtual host "/"
is written `%2F`; Starlette matches the decoded path, in which that is a separator, so these match
before it is decoded. Invariants: a name reaches a handler decoded once, as UTF-8, or the request is
refused; every route has a cost.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final
from urllib.parse import unquote_to_bytes

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Match, Route

from leporid.limits.shares import address_key
from leporid.management.admission import PROBE, Admission, Cost, Visit
from leporid.management.refusals import Refusal, bad

VISIT: Final = "leporid.visit"
"""Where a request's scope has its `Visit`; who has none has not been admitted."""

Handler = Callable[[Request], Awaitable[Response]]


class CostedRoute(Route):
    """A route that lets requests in as its cost says.

    Attributes:
        cost: what it takes.
    """

    def __init__(self, path: str, handler: Handler, method: str, cost: Cost) -> None:
        super().__init__(path, handler, methods=[method])
        self.cost = cost


class ProbeRoute(CostedRoute):
    """A route that is always answered; its handler must not wait, nor look anything up."""

    def __init__(self, path: str, handler: Handler) -> None:
        super().__init__(path, handler, "GET", PROBE)


class RawRoute(CostedRoute):
    """A route over the path as it came, for users."""

    def __init__(
        self, path: str, handler: Handler, method: str, cost: Cost, admission: Admission
    ) -> None:
        super().__init__(path, handler, method, cost)
        self._admission = admission

    def matches(self, scope: Any) -> tuple[Match, Any]:
        """Match the encoded path; see Starlette."""
        raw = scope.get("raw_path")
        if scope["type"] != "http" or not raw:
            return super().matches(scope)
        # RabbitMQ's clients end some paths with a slash.
        path = raw.decode("latin-1").removesuffix("/")
        return super().matches({**scope, "path": path})

    async def handle(self, scope: Any, receive: Any, send: Any) -> None:
        """Let the request in, and answer it when it is its turn."""
        client = scope.get("client")
        address = address_key(client[0] if client else "")
        try:
            visit = await self._admission.enter(self.cost, address)
        except Refusal as refusal:
            await refusal.answer()(scope, receive, send)
            return
        scope[VISIT] = visit
        try:
            await self._admission.turns.next(address)
            await super().handle(scope, receive, send)
        finally:
            del scope[VISIT]
            visit.end()


def visit_of(request: Request) -> Visit:
    """Return a request's visit."""
    visit: Visit = request.scope[VISIT]
    return visit


def name_of(request: Request, parameter: str) -> str:
    """Return a decoded name from the path.

    Raises:
        Refusal: it is not UTF-8.
    """
    try:
        return unquote_to_bytes(request.path_params[parameter]).decode()
    except UnicodeDecodeError:
        raise bad(parameter, "is not percent-encoded UTF-8") from None
