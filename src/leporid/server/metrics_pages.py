"""The pages of metrics: /metrics, /metrics/per-object, /metrics/detailed.

Responsible for what they take of the loop's time and of memory, and for what may be asked of them.
Must not know what a metric says. Nobody logs in, as with RabbitMQ's plugin: names of queues and
users are seen by whoever reaches the port.

Invariants: /metrics is always answered, and however many ask for it, the next one is made four
times as long after the last as that took; the others are made a few at a time. All are made in
pieces, and never stall a round.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from starlette.requests import Request
from starlette.responses import Response

from leporid.limits.shares import address_key
from leporid.management.admission import SCRAPE, Admission, taken
from leporid.management.listings import Listing, Written
from leporid.management.paths import CostedRoute, Handler, ProbeRoute
from leporid.management.refusals import Refusal, bad
from leporid.server.metrics import CONTENT_TYPE, PREFIX, Metrics, renamed
from leporid.server.object_metrics import DETAILED, PER_OBJECT, chosen, names_of, page

if TYPE_CHECKING:
    from leporid.broker.broker import Broker

RABBITMQ: Final = "rabbitmq"


REST: Final = 4
"""Between two pages of totals, times as long as the last one took."""
REST_SECONDS_MAX: Final = 1.0
"""Whatever stopped the process while it made one."""
GIVEN_A_ROUND: Final = 8
"""Of those who asked for a page, so many are given it in a round of the loop: each sends it."""


class Scrapes:
    """Pages of totals: whoever asks before the next one is begun gets the same one.

    Args:
        metrics: makes them.
        monotonic: seconds.
    """

    def __init__(self, metrics: Metrics, monotonic: Callable[[], float] = time.monotonic) -> None:
        self.metrics = metrics
        self._monotonic = monotonic
        # Who asks for the page that is begun next.
        self._asking: deque[asyncio.Future[bytes]] = deque()
        self._not_before = 0.0
        self._made: _Page | None = None

    async def next(self) -> bytes:
        """Return a page that is begun after this was called."""
        asked: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._asking.append(asked)
        if len(self._asking) == 1 and self._made is None:
            self._schedule()
        return await asked

    def _schedule(self) -> None:
        wait = max(0.0, self._not_before - self._monotonic())
        asyncio.get_running_loop().call_later(wait, self._begin)

    def _begin(self) -> None:
        self._made, self._asking = _Page(self._asking, self.metrics.texts()), deque()
        self._go_on()

    def _go_on(self) -> None:
        """Make a piece in this round, and the others in later ones."""
        made = self._made
        assert made is not None
        began = self._monotonic()
        try:
            text = next(made.texts, None)
        except Exception as error:
            for asked in made.asked:
                if not asked.done():  # else who asked is gone
                    asked.set_exception(error)
            self._end(made, began)
            raise
        if text is None:
            _give(b"".join(made.pieces), made.asked)
            self._end(made, began)
        else:
            made.pieces.append(text)
            made.seconds += self._monotonic() - began
            asyncio.get_running_loop().call_soon(self._go_on)

    def _end(self, made: _Page, began: float) -> None:
        ended = self._monotonic()
        seconds = made.seconds + ended - began
        self._not_before = ended + min(REST_SECONDS_MAX, REST * seconds)
        self._made = None
        if self._asking:
            self._schedule()


def _give(page: bytes, asked: deque[asyncio.Future[bytes]]) -> None:
    """Give a page to some who asked for it, and to the others in later rounds."""
    for _ in range(min(GIVEN_A_ROUND, len(asked))):
        waiter = asked.popleft()
        if not waiter.done():  # else who asked is gone
            waiter.set_result(page)
    if asked:
        asyncio.get_running_loop().call_soon(_give, page, asked)


@dataclass(slots=True)
class _Page:
    """A page that is being made, and how long that has taken."""

    asked: deque[asyncio.Future[bytes]]
    texts: Iterator[bytes]
    pieces: list[bytes] = field(default_factory=list)
    seconds: float = 0.0


class ScrapeRoute(CostedRoute):
    """A page that is made in pieces: so many at a time, fair by address."""

    def __init__(self, path: str, handler: Handler, admission: Admission) -> None:
        super().__init__(path, handler, "GET", SCRAPE)
        self._admission = admission

    async def handle(self, scope: Any, receive: Any, send: Any) -> None:
        """Let the request in, and answer it when it is its turn."""
        client = scope.get("client")
        address = address_key(client[0] if client else "")
        try:
            slot = taken(self._admission.shares.scrapes, address)
        except Refusal as refusal:
            await refusal.answer()(scope, receive, send)
            return
        with slot:
            await self._admission.turns.next(address)
            await super().handle(scope, receive, send)


class MetricsPages:
    """The handlers.

    Args:
        scrapes: makes pages of totals.
        broker: whose objects there are.
        admission: what requests share.
    """

    def __init__(self, scrapes: Scrapes, broker: Broker, admission: Admission) -> None:
        self._scrapes = scrapes
        self._broker = broker
        self._admission = admission

    def routes(self) -> list[CostedRoute]:
        """Return the pages."""
        return [
            totals_route(self._scrapes),
            ScrapeRoute("/metrics/per-object", _answering(self.per_object), self._admission),
            ScrapeRoute("/metrics/detailed", _answering(self.detailed), self._admission),
        ]

    async def per_object(self, request: Request) -> Response:
        """GET /metrics/per-object: the totals, and every object instead of the sum of all."""
        prefix = _prefix(request)
        own = names_of(PER_OBJECT, RABBITMQ)

        def texts() -> Iterator[str]:
            for text in self._scrapes.metrics.texts("per-object", own):
                yield renamed(text, prefix).decode()
            yield from page(self._broker, PER_OBJECT, prefix=prefix)

        return self._paged(request, texts())

    async def detailed(self, request: Request) -> Response:
        """GET /metrics/detailed: the families that are asked for, of all virtual hosts or some."""
        families = chosen(request.query_params.getlist("family"))
        vhosts = frozenset(request.query_params.getlist("vhost"))

        def texts() -> Iterator[str]:
            yield self._scrapes.metrics.identity("detailed").decode()
            yield from page(self._broker, families, prefix=DETAILED, vhosts=vhosts)

        return self._paged(request, texts())

    def _paged(self, request: Request, texts: Iterator[str]) -> Response:
        address = address_key(request.client.host if request.client else "")
        return Listing(self._admission.turns, address, Written(texts), content_type=CONTENT_TYPE)


def totals_route(scrapes: Scrapes) -> CostedRoute:
    """Make the route of /metrics."""

    async def totals(request: Request) -> Response:
        prefix = _prefix(request)
        page_ = renamed(await scrapes.next(), prefix)
        return Response(page_, headers={"content-type": CONTENT_TYPE})

    return ProbeRoute("/metrics", _answering(totals))


def _prefix(request: Request) -> str:
    """Return what names begin with; raises Refusal for what no name may begin with."""
    prefix = request.query_params.get("prefix", RABBITMQ)
    if not PREFIX.fullmatch(prefix):
        raise bad("prefix", f"is not a name of at most 32 letters, digits and _: {PREFIX.pattern}")
    return prefix


def _answering(handler: Callable[[Request], Any]) -> Handler:
    async def answer(request: Request) -> Response:
        try:
            found: Response = await handler(request)
        except Refusal as refusal:
            return refusal.answer()
        return found

    return answer
