"""Routes: their paths, and what they cost.

Responsible for the names in a path, and for letting no request past admission. The virtual host "/"
is written `%2F`; Starlette matches the decoded path, in which that is a separator, so these match
before it is decoded. They compare segments: Starlette's own routes compile a regular expression
each, which for all of them is a noticeable part of a start. Invariants: a name reaches a handler
decoded once, as UTF-8, or the request is refused; every route has a cost.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any, Final, TypeVar
from urllib.parse import unquote_to_bytes

from starlette.datastructures import QueryParams
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Match, request_response
from starlette.types import ASGIApp

from leporid.limits.shares import address_key
from leporid.management.admission import PROBE, Admission, Cost, Visit
from leporid.management.refusals import Refusal, bad, expired
from leporid.management.sessions import shows_form

DRY_RUN: Final = "dry_run"
"""The parameter of routes that can say what they would do."""

REST: Final = ":path"
"""Behind the name of a parameter that stands for all that follows."""

EXCHANGES: Final = frozenset({"exchange", "source"})
"""Parameters that may be empty, as the name of the default exchange is."""

VISIT: Final = "leporid.visit"
"""Where a request's scope has its `Visit`; who has none has not been admitted."""

BROWSER_HEADERS: Final = ((b"x-content-type-options", b"nosniff"),)
"""Of each answer: what somebody has stored is never a page, or a script, of ours."""

Handler = Callable[[Request], Awaitable[Response]]
HandlerMethod = TypeVar("HandlerMethod", bound=Callable[..., Awaitable[Response]])


def takes(
    body: Mapping[str, Any] | None = None, **query: Mapping[str, Any]
) -> Callable[[HandlerMethod], HandlerMethod]:
    """Say of a handler what its requests may hold, for the OpenAPI document.

    Args:
        body: the members of an object in JSON, as a JSON schema has its properties; those whose
            schema says `"required": True` must be there.
        query: parameters of the query string, each with its JSON schema.
    """

    def note(handler: HandlerMethod) -> HandlerMethod:
        if body is not None:
            members = {name: dict(schema) for name, schema in body.items()}
            required = [name for name, schema in members.items() if schema.pop("required", False)]
            schema: dict[str, Any] = {"type": "object", "properties": members}
            if required:
                schema["required"] = required
            handler.body = schema  # type: ignore[attr-defined]
        handler.query = query  # type: ignore[attr-defined]
        return handler

    return note


class CostedRoute(BaseRoute):
    """A route that lets requests in as its cost says.

    Args:
        path: segments, of which those in braces are names of parameters. As in Starlette, one that
            ends in `:path` is the last, and stands for all that follows.
        handler: answers.
        method: of the requests; that of GET answers HEAD as well.
        cost: see below.

    Attributes:
        path: as it was given.
        endpoint: the handler.
        methods: of the requests.
        cost: what it takes.
    """

    def __init__(self, path: str, handler: Handler, method: str, cost: Cost) -> None:
        self.path = path
        self.endpoint = handler
        self.methods = {method, "HEAD"} if method == "GET" else {method}
        self.cost = cost
        self._beginning = path.partition("{")[0]
        self._has_rest = path.endswith(REST + "}")

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {'/'.join(sorted(self.methods))} {self.path}>"

    @cached_property
    def _app(self) -> ASGIApp:
        return request_response(self.endpoint)

    @cached_property
    def _segments(self) -> list[tuple[str, str]]:
        return [_segment(text) for text in self.path.split("/")]

    def matches(self, scope: Any) -> tuple[Match, Any]:
        """Say whether a request is for this route; see Starlette."""
        return self._match(scope, scope["path"]) if scope["type"] == "http" else (Match.NONE, {})

    async def handle(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer a request whose path matches; raises HTTPException (405)."""
        if scope["method"] not in self.methods:
            raise HTTPException(405, headers={"allow": ", ".join(sorted(self.methods))})
        await self._app(scope, receive, send)

    def _match(self, scope: Any, path: str) -> tuple[Match, Any]:
        found = self._parameters(path) if path.startswith(self._beginning) else None
        if found is None:
            return Match.NONE, {}
        full = scope["method"] in self.methods
        return (
            Match.FULL if full else Match.PARTIAL,
            {"endpoint": self.endpoint, "path_params": found},
        )

    def _parameters(self, path: str) -> dict[str, str] | None:
        """Return what stands for the parameters; None if the path is another."""
        given = path.split("/", len(self._segments) - 1)
        if len(given) != len(self._segments):
            return None
        found = {}
        for (name, literal), text in zip(self._segments, given, strict=True):
            if not name:
                if text != literal:
                    return None
            elif text or self._has_rest or name in EXCHANGES:
                found[name] = text
            else:
                return None
        return None if "/" in given[-1] and not self._has_rest else found


def _segment(text: str) -> tuple[str, str]:
    """Return the name of a parameter, or a text that stands for itself."""
    return (text[1:-1].removesuffix(REST), "") if text.startswith("{") else ("", text)


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
        query: Mapping[str, Any] = getattr(handler, "query", {})
        self._trial_cost = replace(cost, grows=False) if DRY_RUN in query else cost

    def matches(self, scope: Any) -> tuple[Match, Any]:
        """Match the encoded path; see Starlette."""
        raw = scope.get("raw_path")
        if scope["type"] != "http" or not raw:
            return super().matches(scope)
        # RabbitMQ's clients end some paths with a slash.
        return self._match(scope, raw.decode("latin-1").removesuffix("/"))

    async def handle(self, scope: Any, receive: Any, send: Any) -> None:
        """Let the request in, and answer it when it is its turn."""
        client = scope.get("client")
        address = address_key(client[0] if client else "")
        try:
            visit = await self._admission.enter(self._cost_of(scope), address)
        except Refusal as refusal:
            await refusal.answer()(scope, receive, send)
            return
        scope[VISIT] = visit
        quiet = shows_form(self.path, scope["headers"])
        sent, deadline = _Sent(send, quiet=quiet), asyncio.timeout(None)
        # What changes something is not cut in the middle; it looks by itself.
        visit.deadline = deadline if scope["method"] == "GET" else None
        try:
            await self._admission.turns.next(address)
            async with deadline:
                await super().handle(scope, receive, sent)
        except TimeoutError:
            if not deadline.expired():
                raise
            # A token has expired. An answer that was begun is cut, as of a client that is gone: the
            # server ends a connection whose answer is not whole.
            if not sent.begun:
                await expired().answer()(scope, receive, sent)
        finally:
            del scope[VISIT]
            visit.end()

    def _cost_of(self, scope: Any) -> Cost:
        """Return the cost of a request; one that changes nothing keeps nothing either."""
        given = QueryParams(scope.get("query_string", b"")).getlist(DRY_RUN)
        return self._trial_cost if given == ["true"] else self.cost


class _Sent:
    """Sends an answer, and knows whether it was begun.

    Args:
        send: the server's.
        quiet: whether a browser is not to ask for a password by itself.
    """

    def __init__(self, send: Any, *, quiet: bool) -> None:
        self._send = send
        self._quiet = quiet
        self.begun = False

    async def __call__(self, message: Any) -> None:
        if not self.begun:
            self.begun = True
            headers = [
                (name, value)
                for name, value in message["headers"]
                if not (self._quiet and name == b"www-authenticate")
            ]
            message = {**message, "headers": [*headers, *BROWSER_HEADERS]}
        await self._send(message)


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
