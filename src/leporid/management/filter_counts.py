"""What filters were asked, over HTTP: of the whole broker, and of each place in a virtual host.

Responsible for these answers. Must not know how filters work, nor count anything: who asks them
does. Invariant: whoever may not read an exchange or a queue sees nothing of it.

Two stages answer a question to a filter: a value or a tag that the message has or lacks, and its
properties. `ruled_out` is what the first answered with no, `evaluated` what came to the second.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from starlette.responses import JSONResponse, Response

from leporid.management.parameters import Parameters

if TYPE_CHECKING:
    from starlette.requests import Request

    from leporid.broker.access.access import User
    from leporid.broker.vhost import VirtualHost
    from leporid.management.surroundings import Surroundings


class FilterCountRoutes:
    """The handlers."""

    def __init__(self, around: Surroundings) -> None:
        self._around = around

    async def whole(self, request: Request) -> Response:
        """GET /api/filters: of everything there was since the start."""
        await self._around.user(request)
        Parameters(request, ())
        engine = self._around.engine
        bindings = (
            engine.publishing.filters.asked,
            engine.publishing.filters.evaluated,
            engine.publishing.filters.matched,
            engine.publishing.filters.type_errors,
        )
        queues = (
            engine.searches.filters.asked,
            engine.searches.filters.evaluated,
            engine.searches.filters.matched,
            engine.searches.filters.type_errors,
        )
        return JSONResponse(
            {
                "bindings": _answered(*bindings),
                "queues": _answered(*queues),
                "streams": _streamed(engine.streams.filtering),
            }
        )

    async def places(self, request: Request) -> Response:
        """GET /api/filters/{vhost}: of each exchange, queue and stream where any was asked."""
        user, vhost = await self._around.enter(request)
        Parameters(request, ())
        return JSONResponse(
            {
                "exchanges": _exchanges(user, vhost),
                "queues": self._queues(user, vhost),
                "streams": _streams(user, vhost),
            }
        )

    def _queues(self, user: User, vhost: VirtualHost) -> list[dict[str, Any]]:
        found = []
        for queue in vhost.queues():
            made = queue.engine.counters
            if made is None or not made.asked:
                continue
            if user.may("read", "queue", queue.name, vhost.name):
                counts = made.asked, made.evaluated, made.matched, made.type_errors
                found.append({"name": queue.name, **_answered(*counts)})
        return found


def _exchanges(user: User, vhost: VirtualHost) -> list[dict[str, Any]]:
    found = []
    for exchange in vhost.exchanges():
        made = exchange.routes.counters
        bound = len(exchange.filters)
        if (made.asked or bound) and user.may("read", "exchange", exchange.name, vhost.name):
            counts = made.asked, made.evaluated, made.matched, made.type_errors
            found.append({"name": exchange.name, "filters": bound, **_answered(*counts)})
    return found


def _streams(user: User, vhost: VirtualHost) -> list[dict[str, Any]]:
    found = []
    for queue in vhost.queues():
        stream: Any = queue.stream  # as above
        if stream is None or not any(stream.filtering):
            continue
        if user.may("read", "queue", queue.name, vhost.name):
            found.append({"name": queue.name, **_streamed(stream.filtering)})
    return found


def _answered(asked: int, evaluated: int, matched: int, type_errors: int) -> dict[str, int]:
    return {
        "asked": asked,
        "ruled_out": asked - evaluated,
        "evaluated": evaluated,
        "matched": matched,
        "type_errors": type_errors,
    }


def _streamed(counts: tuple[int, int, int, int]) -> dict[str, int]:
    skipped, evaluated, matched, type_errors = counts
    return {
        "batches_skipped": skipped,
        "evaluated": evaluated,
        "matched": matched,
        "type_errors": type_errors,
    }
