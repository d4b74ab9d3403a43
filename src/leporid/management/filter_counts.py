"""What filters were asked, over HTTP: of the whole broker, and of each place in a virtual host.

Responsible for these answers. Must not know how filters work, nor count anything: who asks them
does. Invariant: whoever may not read an exchange or a queue sees nothing of it.

Two stages answer a question to a filter: a value or a tag that the message has or lacks, and its
properties. `ruled_out` is what the first answered with no, `evaluated` what came to the second.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from starlette.responses import JSONResponse, Response

from leporid.broker.access.remote_rights import decided
from leporid.management.parameters import Parameters

if TYPE_CHECKING:
    from starlette.requests import Request

    from leporid.broker.access.access import User
    from leporid.broker.access.permissions import Kind
    from leporid.broker.exchange.exchange import ExchangeState
    from leporid.broker.queue.queue import QueueState
    from leporid.broker.registry import StepsTo
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
        return self._around.listing(
            user,
            {
                "exchanges": _exchanges(user, vhost, vhost.all_exchanges()),
                "queues": _queues(user, vhost, vhost.all_queues()),
                "streams": _streams(user, vhost, vhost.all_queues()),
            },
        )


# Each gives None for what is not shown, and the rights that are waited for. What is deleted
# meanwhile is shown as it was.


def _may_read(user: User, vhost: VirtualHost, kind: Kind, name: str) -> StepsTo[bool]:
    return decided(lambda: user.may("read", kind, name, vhost.name))


def _exchanges(
    user: User, vhost: VirtualHost, exchanges: Iterable[ExchangeState]
) -> Iterator[object]:
    for exchange in exchanges:
        if exchange.deleted:
            yield None
            continue
        made = exchange.routes.counters
        bound = exchange.filters.asked_for
        asked = made.asked or bound
        if asked and (yield from _may_read(user, vhost, "exchange", exchange.name)):
            counts = made.asked, made.evaluated, made.matched, made.type_errors
            yield {"name": exchange.name, "filters": bound, **_answered(*counts)}
        else:
            yield None


def _queues(user: User, vhost: VirtualHost, queues: Iterable[QueueState]) -> Iterator[object]:
    for queue in queues:
        made = queue.engine.counters
        asked = made is not None and made.asked
        if made is not None and asked and (yield from _may_read(user, vhost, "queue", queue.name)):
            counts = made.asked, made.evaluated, made.matched, made.type_errors
            yield {"name": queue.name, **_answered(*counts)}
        else:
            yield None


def _streams(user: User, vhost: VirtualHost, queues: Iterable[QueueState]) -> Iterator[object]:
    for queue in queues:
        stream: Any = queue.stream  # as above
        asked = stream is not None and any(stream.filtering)
        if asked and (yield from _may_read(user, vhost, "queue", queue.name)):
            yield {"name": queue.name, **_streamed(stream.filtering)}
        else:
            yield None


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
