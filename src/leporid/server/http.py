"""The HTTP side, by Starlette under uvicorn in the broker's own event loop.

Responsible for the HTTP server's life, for what /health says, and for mounting the routes it is
given. Must not know the broker, which is behind callables, nor connections (`http_connections`).
Handlers are coroutines, always: Starlette would run plain functions in a thread, and the broker's
state belongs to the loop's thread.

Invariant: /health is always answered.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import socket
from collections.abc import Callable, Container, Iterator, Sequence

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Match

from leporid.limits.refusals import Refusals
from leporid.management.authorization import not_found as missing_object
from leporid.management.paths import CostedRoute, ProbeRoute
from leporid.management.refusals import Refusal
from leporid.server.http_connections import Acceptor, Connections, PatientProtocol
from leporid.server.tls import Certificates

# Request line and headers together: a token of 24 KB in HTTP Basic, which takes a third more, and
# what browsers and proxies add.
HEADER_BYTES_MAX = 40 * 1024
# What a request in flight gets when the broker stops.
STOP_SECONDS = 2
# What changes by itself is the Date header.
TICK_SECONDS = 1

NOT_FOUND = "There is no such page. Leporid has these, and RabbitMQ's HTTP API below /api/:\n{}\n"


def application(
    metrics: Sequence[CostedRoute],
    troubles: Callable[[], Sequence[str]],
    routes: Sequence[CostedRoute] = (),
) -> Starlette:
    """Make the ASGI application.

    Args:
        metrics: the pages of metrics.
        troubles: why clients should not come here now, such as "draining" or "memory alarm";
            empty when all is well.
        routes: what else is answered.
    """

    async def health(_: Request) -> Response:
        reasons = list(troubles())
        if reasons:
            return JSONResponse({"status": "unavailable", "reasons": reasons}, status_code=503)
        return JSONResponse({"status": "ok"})

    return _of([ProbeRoute("/health", health), *metrics, *routes])


def metrics_application(metrics: Sequence[CostedRoute]) -> Starlette:
    """Make the ASGI application of the port for metrics alone."""
    return _of(metrics)


def _of(pages: Sequence[CostedRoute]) -> Starlette:
    async def missing(request: Request, _error: Exception) -> Response:
        # Not by its URL, whose query may be no UTF-8.
        if request.scope["path"].startswith("/api/"):
            return missing_object().answer()
        known = request.scope["path"].removesuffix("/")
        if known != request.scope["path"] and known in paths:
            query = request.scope["query_string"].decode("latin-1")
            return Response(
                status_code=307, headers={"location": f"{known}?{query}" if query else known}
            )
        return PlainTextResponse(not_found, status_code=404)

    async def refused(request: Request, _error: Exception) -> Response:
        # A path has a route for each method, and the error is that of the first one.
        matching = (page for page in pages if page.matches(request.scope)[0] != Match.NONE)
        methods = {each for page in matching for each in page.methods}
        allowed = ", ".join(sorted(methods | {"OPTIONS"}))
        if request.method == "OPTIONS":
            return Response(headers={"allow": allowed})
        reason = f"this path takes {allowed}"
        headers = {"allow": allowed}
        return Refusal(405, "method_not_allowed", reason, headers=headers).answer()

    paths = dict.fromkeys(page.path for page in pages)
    not_found = NOT_FOUND.format("\n".join(paths))
    app = Starlette(routes=pages, exception_handlers={404: missing, 405: refused})
    # Its own redirects go to whatever Host a request names.
    app.router.redirect_slashes = False
    return app


class HttpServer:
    """One running HTTP server.

    Args:
        app: what `application` made.
        sockets: bound sockets, as `addresses.bind` makes them; closed by `stop`.
        connections: those of all servers of the process.
        tls_sockets: the same, for clients that speak TLS.
        certificates: which these are shown.
        proxies: whose peers are who they say.
    """

    def __init__(
        self,
        app: Starlette,
        sockets: Sequence[socket.socket],
        connections: Connections | None = None,
        *,
        tls_sockets: Sequence[socket.socket] = (),
        certificates: Certificates | None = None,
        proxies: Container[str] = (),
    ) -> None:
        self._sockets = [*sockets, *tls_sockets]
        connections = connections or Connections(Refusals())
        self._server = _Server(
            uvicorn.Config(
                app,
                ws="none",
                lifespan="off",
                interface="asgi3",
                # Logging is set up by the command line; requests are not logged, nor is what is no
                # HTTP and answered with 400: anybody could fill a disk with lines.
                log_config=None,
                log_level=logging.ERROR,
                access_log=False,
                server_header=False,
                proxy_headers=False,
                h11_max_incomplete_event_size=HEADER_BYTES_MAX,
            ),
            connections,
            functools.partial(
                Acceptor,
                tls_sockets=tls_sockets,
                certificates=certificates,
                proxies=proxies,
                room=connections.room,
            ),
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

    def __init__(
        self,
        config: uvicorn.Config,
        connections: Connections,
        acceptor: Callable[
            [Sequence[socket.socket], Callable[[], asyncio.Protocol], Callable[[], None]], Acceptor
        ],
    ) -> None:
        super().__init__(config)
        self._connections = connections
        self._make_acceptor = acceptor
        self._acceptor: Acceptor | None = None
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
        await self.lifespan.startup()
        self._acceptor = self._make_acceptor(
            sockets or (), self._protocol, self._connections.dropped
        )
        self._acceptor.start()
        self.started = True
        self.listening.set()

    def _protocol(self) -> PatientProtocol:
        made = PatientProtocol(self.config, self.server_state, self.lifespan.state)
        made.opened = self._connections
        return made

    async def main_loop(self) -> None:
        # Each tick renews the Date header.
        while not await self.on_tick(0):
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._leaving.wait(), TICK_SECONDS)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        if self._acceptor is not None:
            self._acceptor.stop()
        connections = [
            one for one in self.server_state.connections if isinstance(one, PatientProtocol)
        ]
        for connection in connections:
            connection.shutdown()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(STOP_SECONDS):
                for connection in connections:
                    await connection.lost.wait()
        for task in self.server_state.tasks:
            task.cancel()
