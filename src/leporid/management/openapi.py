"""The interface as an OpenAPI 3.1 document, made of the routes that there are.

Responsible for what a route says of itself: its path, method, cost, and its handler's docstring,
whose statuses of success are those that the handler answers with; and what its handler takes
(`paths.takes`). Must not know any route. Invariant: each route is in the document, with every
status that it may have.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from leporid.management.admission import IMPORT, LIST, PROBE, PUBLISH, TRY
from leporid.management.conditions import CONDITIONS_MAX
from leporid.management.listings import Written
from leporid.management.paging import PAGE_SIZE_MAX

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from leporid.broker.registry import StepsTo
    from leporid.management.paths import CostedRoute
    from leporid.management.surroundings import Surroundings

VERSION: Final = "3.1.0"
JSON: Final = "application/json"
BODY: Final = "http_body_bytes"
"""The share that a route's cost names if its requests have a body."""

SUCCESSES: Final = {"GET": ("200",), "PUT": ("204",), "POST": ("204",), "DELETE": ("204",)}
"""If the handler's docstring names none."""
REASONS: Final[Mapping[str, str]] = {
    "200": "What was asked for",
    "201": "It is new",
    "204": "Done",
    "302": "Go on there",
    "400": "Something in the request is wrong",
    "401": "Nobody has logged in, or the user may not do this",
    "403": "The user may not do this, or a page of another place asks",
    "404": "There is no such thing",
    "406": "The client takes no JSON",
    "408": "The body did not come in time",
    "409": "It is in use, or there otherwise",
    "410": "It is gone",
    "412": "It is protected",
    "413": "The body is larger than a limit allows",
    "416": "There is nothing of that range",
    "421": "The Host is no name of this broker",
    "429": "This user, or address, has too many requests of that kind",
    "501": "The broker lacks a library for it",
    "503": "The broker has too many requests of that kind, or an alarm is on, or a check failed",
}
"""What statuses mean; those of each route are among them."""

# Every request may be refused so, before or while its handler looks at it.
ALWAYS: Final = ("400", "401", "403", "404", "406", "409", "410", "416", "421", "429", "501", "503")
# A request that nobody logs in for.
UNKNOWN: Final = ("403", "406", "421")
WITH_BODY: Final = ("408", "413")
# What RabbitMQ's lists take, and conditions; others are ignored.
LIST_QUERY: Final[Mapping[str, Mapping[str, Any]]] = {
    "page": {"type": "integer", "minimum": 1},
    "page_size": {"type": "integer", "minimum": 1, "maximum": PAGE_SIZE_MAX},
    "name": {"type": "string"},
    "use_regex": {"type": "boolean"},
    "where": {"type": "array", "items": {"type": "string"}, "maxItems": CONDITIONS_MAX},
    "sort": {"type": "string"},
    "sort_reverse": {"type": "boolean"},
    "columns": {"type": "string"},
}
OTHER_BODIES: Final = {
    PUBLISH: "application/vnd.apache.arrow.stream",
    TRY: "text/x-python",
}

_PARAMETER: Final = re.compile(r"\{(\w+)\}")
_SUCCESS: Final = re.compile(r"\b(?:20[0-9]|302)\b")
_HEADING: Final = re.compile(r"(?:GET|PUT|POST|DELETE) [^:]*?/api/\S*?(?:: | ?\.?$|, )")

ERROR: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {"error": {"type": "string"}, "reason": {}},
    "required": ["error", "reason"],
}


class OpenApiRoutes:
    """The handler.

    Args:
        around: the broker.
        routes: all that there are, this one among them.
    """

    def __init__(self, around: Surroundings, routes: Sequence[CostedRoute]) -> None:
        self._around = around
        self._routes = routes
        self._document: list[str] | None = None

    async def show(self, request: Request) -> Response:
        """GET /api/openapi.json: this interface."""
        user = await self._around.user(request)
        if self._document is None:
            version = str(self._around.broker.identity.get("version", ""))
            self._document = await self._around.job(lambda: _writing(self._routes, version))
        return self._around.listing(user, Written(iter(self._document)))


def _writing(routes: Sequence[CostedRoute], version: str) -> StepsTo[list[str]]:
    """Return the document as texts, each of one path; they are kept, as they stay the same."""
    document = yield from describing(routes, version)
    paths = document.pop("paths")
    texts = [json.dumps(document)[:-1] + ', "paths": {']
    for at, (path, operations) in enumerate(paths.items()):
        texts.append(f"{', ' if at else ''}{json.dumps(path)}: {json.dumps(operations)}")
        yield None
    return [*texts, "}}"]


def describing(routes: Sequence[CostedRoute], version: str) -> StepsTo[dict[str, Any]]:
    """Return the document, made in steps."""
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        for method in sorted(route.methods - {"HEAD"}):
            paths.setdefault(route.path, {})[method.lower()] = operation(route, method)
            yield None
    return {
        "openapi": VERSION,
        "info": {
            "title": "Leporid",
            "version": version,
            "description": "RabbitMQ's management API, streams and queues as tables, and more.",
        },
        "security": [{"basic": []}],
        "components": {
            "securitySchemes": {"basic": {"type": "http", "scheme": "basic"}},
            "schemas": {"Error": ERROR},
        },
        "paths": paths,
    }


def operation(route: CostedRoute, method: str) -> dict[str, Any]:
    """Return what is said of one route."""
    documented = (route.endpoint.__doc__ or "").strip()
    heading, _, _ = documented.partition("\n\n")
    heading = " ".join(heading.split())
    summary = _HEADING.sub("", heading, count=1).strip() or heading
    found: dict[str, Any] = {
        "operationId": f"{method.lower()} {route.path}",
        "summary": summary[:1].upper() + summary[1:],
        "tags": [route.path.split("/")[2]],
        "parameters": _parameters(route),
        "responses": _responses(route, method, documented),
    }
    if BODY in route.cost.limits and method in ("PUT", "POST"):
        found["requestBody"] = _body(route)
    if route.cost is PROBE:
        found["security"] = []
    return found


def _parameters(route: CostedRoute) -> list[dict[str, Any]]:
    found = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
        for name in _PARAMETER.findall(route.path)
    ]
    query = dict(getattr(route.endpoint, "query", {}))
    if route.cost is LIST:
        query = {**LIST_QUERY, **query}
    found += [{"name": name, "in": "query", "schema": schema} for name, schema in query.items()]
    return found


def _responses(route: CostedRoute, method: str, documented: str) -> dict[str, Any]:
    successes = tuple(_SUCCESS.findall(documented)) or SUCCESSES[method]
    refusals = UNKNOWN if route.cost is PROBE else ALWAYS
    if BODY in route.cost.limits:
        refusals = (*refusals, *WITH_BODY)
    if route.path.startswith("/api/vhosts/") and method == "DELETE":
        refusals = (*refusals, "412")
    found: dict[str, Any] = {status: {"description": REASONS[status]} for status in successes}
    for status in sorted(refusals):
        found[status] = {"description": REASONS[status]}
    return found


def _body(route: CostedRoute) -> dict[str, Any]:
    other = OTHER_BODIES.get(route.cost)
    if other is not None:
        return {"content": {other: {"schema": {"type": "string", "format": "binary"}}}}
    schema: Mapping[str, Any] = getattr(route.endpoint, "body", {"type": "object"})
    content: dict[str, Any] = {JSON: {"schema": schema}}
    if route.cost is IMPORT:
        form = {"type": "object", "properties": {"file": schema}, "required": ["file"]}
        content["multipart/form-data"] = {"schema": form}
    return {"required": "required" in schema, "content": content}
