"""The HTTP side, by Starlette under uvicorn in the broker's own event loop.

Responsible for the HTTP server's life, for what /health and /metrics say, and for mounting the
routes it is given. Must not know the broker: it is given callables. Handlers are coroutines,
always: Starlette would run plain functions in a thread, and the broker's state belongs to the
loop's thread.

Invariant: whatever HTTP peers do, they hold at most CONNECTIONS_MAX sockets. A peer that owes us
the rest of its request has PATIENCE_SECONDS for the next UPLOAD_BYTES_MIN of it, and one that does
not read our answer has DOWNLOAD_SECONDS for the next piece; AMQP has the rest.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import socket
from collections.abc import Callable, Iterator, Sequence

import h11
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import BaseRoute, Route
from uvicorn.protocols.http.h11_impl import H11Protocol

from leporid.server.metrics import CONTENT_TYPE, Metrics, Statistics

logger = logging.getLogger(__name__)

# Prometheus, a load balancer and a few people: tens. A hundred thousand would be the AMQP clients'
# file descriptors.
CONNECTIONS_MAX = 256
# uvicorn itself closes what is idle for five seconds. What is left after that sends its request
# drop by drop; or it waits for an answer that we are making, which is our own time.
PATIENCE_SECONDS = 30
# Of a request's body in that time; who sends less would hold what the body is kept in.
UPLOAD_BYTES_MIN = 64 * 1024
# Records are read as fast as the reader works on them, which may stop for a while; it resumes where
# it was if that was too long.
DOWNLOAD_SECONDS = 300
# Request line and headers together.
HEADER_BYTES_MAX = 16 * 1024
# What a request in flight gets when the broker stops.
STOP_SECONDS = 2
# What changes by itself is the Date header.
TICK_SECONDS = 1

# Whoever looks here for RabbitMQ's management should not go on looking.
NOT_FOUND = (
    "There is no such page. Leporid has these, and no other of RabbitMQ's management yet:\n{}\n"
)


def application(
    statistics: Callable[[], Statistics],
    troubles: Callable[[], Sequence[str]],
    routes: Sequence[BaseRoute] = (),
) -> Starlette:
    """Make the ASGI application.

    Args:
        statistics: the broker's counts, asked at each scrape.
        troubles: why clients should not come here now, such as "draining" or "memory alarm";
            empty when all is well.
        routes: what else is answered.
    """
    metrics = Metrics(statistics)

    async def health(_: Request) -> Response:
        reasons = list(troubles())
        if reasons:
            return JSONResponse({"status": "unavailable", "reasons": reasons}, status_code=503)
        return JSONResponse({"status": "ok"})

    async def scrape(_: Request) -> Response:
        return Response(metrics.render(), headers={"content-type": CONTENT_TYPE})

    async def missing(_request: Request, _error: Exception) -> Response:
        return PlainTextResponse(not_found, status_code=404)

    pages = [Route("/health", health), Route("/metrics", scrape), *routes]
    paths = dict.fromkeys(page.path for page in pages if isinstance(page, Route))
    not_found = NOT_FOUND.format("\n".join(paths))
    return Starlette(routes=pages, exception_handlers={404: missing})


class HttpServer:
    """One running HTTP server.

    Args:
        app: what `application` made.
        sockets: bound sockets, as `addresses.bind` makes them; closed by `stop`.
    """

    def __init__(self, app: Starlette, sockets: Sequence[socket.socket]) -> None:
        self._sockets = list(sockets)
        self._server = _Server(
            uvicorn.Config(
                app,
                http=_PatientProtocol,
                ws="none",
                lifespan="off",
                interface="asgi3",
                # Logging is set up by the command line; requests are not logged.
                log_config=None,
                log_level=logging.WARNING,
                access_log=False,
                server_header=False,
                proxy_headers=False,
                h11_max_incomplete_event_size=HEADER_BYTES_MAX,
            )
        )
        self._running: asyncio.Task[None] | None = None

    @property
    def address(self) -> tuple[str, int]:
        """Host and port of the first socket, the real one if port 0 was asked for."""
        name = self._sockets[0].getsockname()
        return name[0], name[1]

    async def start(self) -> None:
        """Return once requests are answered.

        Raises:
            OSError: a socket cannot listen.
        """
        self._running = asyncio.create_task(self._server.serve(self._sockets), name="http")
        listening = asyncio.create_task(self._server.listening.wait())
        await asyncio.wait({self._running, listening}, return_when=asyncio.FIRST_COMPLETED)
        listening.cancel()
        if self._running.done():
            # It ended before it began: this raises the reason.
            self._running.result()

    async def stop(self) -> None:
        """Stop listening, let requests in flight finish for STOP_SECONDS, close the rest."""
        self._server.leave()
        if self._running is not None:
            await self._running
        for connection in list(self._server.server_state.connections):
            connection.transport.abort()
        for one in self._sockets:
            one.close()


class _Server(uvicorn.Server):
    """uvicorn without signal handlers, which are the broker's, and with events instead of polls.

    uvicorn by itself looks ten times a second whether it should exit, and waits a tenth of a
    second for connections that are gone already.
    """

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.listening = asyncio.Event()
        self._leaving = asyncio.Event()

    def leave(self) -> None:
        """Make `serve` end: it stops listening and lets requests in flight finish."""
        self.should_exit = True
        self._leaving.set()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.listening.set()

    async def main_loop(self) -> None:
        # Each tick renews the Date header.
        while not await self.on_tick(0):
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._leaving.wait(), TICK_SECONDS)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        for server in self.servers:
            server.close()
        connections = [
            one for one in self.server_state.connections if isinstance(one, _PatientProtocol)
        ]
        for connection in connections:
            connection.shutdown()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(STOP_SECONDS):
                for connection in connections:
                    await connection.lost.wait()
        for task in self.server_state.tasks:
            task.cancel()


class _PatientProtocol(H11Protocol):
    """uvicorn's HTTP/1.1 with a bound on connections, and on how long one may do nothing."""

    _watch: asyncio.TimerHandle | None = None
    _answered = 0
    _received_bytes = 0
    _taken = 0
    _idle_looks = 0
    _seen = (0, 0, 0)

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self.lost = asyncio.Event()
        super().connection_made(transport)
        if len(self.connections) > CONNECTIONS_MAX:
            transport.abort()
            return
        self._watch = self.loop.call_later(PATIENCE_SECONDS, self._look)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._watch is not None:
            self._watch.cancel()
        self.lost.set()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self.conn.their_state is h11.SEND_BODY:
            self._received_bytes += len(data)
        super().data_received(data)

    def resume_writing(self) -> None:
        # The peer has taken what made us wait.
        self._taken += 1
        super().resume_writing()

    def on_response_complete(self) -> None:
        self._answered += 1
        super().on_response_complete()

    def _look(self) -> None:
        """See whether anything went on since the last time, and whose turn it is."""
        seen = self._answered, self._received_bytes // UPLOAD_BYTES_MIN, self._taken
        self._idle_looks = self._idle_looks + 1 if seen == self._seen else 0
        self._seen = seen
        if self._idle_looks * PATIENCE_SECONDS > self._patience_seconds():
            self.transport.abort()
            return
        self._watch = self.loop.call_later(PATIENCE_SECONDS, self._look)

    def _patience_seconds(self) -> float:
        """How long nothing may go on, as things are now."""
        requested = self.conn.their_state in (h11.DONE, h11.MUST_CLOSE)
        answered = getattr(self.cycle, "response_complete", True)
        if not requested or answered:
            return 0
        # We are making the answer, unless the peer does not take what is made.
        return DOWNLOAD_SECONDS if self.flow.write_paused else math.inf
