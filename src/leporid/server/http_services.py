"""What is answered over HTTP, put together: pages, interface, health on one port, metrics on two.

Responsible for making these parts, and for their life. The node imports it only if one of the ports
is wanted: a broker without HTTP loads no HTTP server, and no metrics. Must not know what a route
does. Invariant: nothing is answered before `start` and after `stop`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from leporid.management.application import routes
from leporid.management.surroundings import Surroundings
from leporid.server.counts import Counts
from leporid.server.http import HttpServer, application, metrics_application
from leporid.server.http_connections import CONNECTIONS_MAX, Connections
from leporid.server.metrics import Identity, Metrics
from leporid.server.metrics_pages import MetricsPages, Scrapes
from leporid.server.web_pages import WebPages

if TYPE_CHECKING:
    from starlette.applications import Starlette

    from leporid.engine.queue.lease import Lease
    from leporid.filterserver.filter_class import FilterClassStatus
    from leporid.server.histograms import Histogram
    from leporid.server.ports import Ports, Sockets
    from leporid.server.resources import Resources


class HttpServices:
    """The ports.

    Args:
        around: the world as the handlers of the interface see it.
        ports: those of the interface and those of metrics alone, of which one may be missing.
        troubles: why clients should not come here now.
        identity: who the broker is.
        resources: what the process uses.
        filter_classes: says how each of them is.
        histograms: what the server measures, by name.
        connections_max: so many there is room for, on both ports together.
    """

    def __init__(
        self,
        around: Surroundings,
        *,
        ports: Ports,
        troubles: Callable[[], Sequence[str]],
        identity: Identity,
        resources: Resources,
        filter_classes: Callable[[], Mapping[str, FilterClassStatus]],
        histograms: Mapping[str, Histogram],
        connections_max: int = CONNECTIONS_MAX,
    ) -> None:
        self._around = around
        counts = Counts(around.broker, around.engine, self._leases, filter_classes, histograms)
        scrapes = Scrapes(Metrics(counts.now, identity, resources.now))
        pages = MetricsPages(scrapes, around.broker, around.admission).routes()
        connections = Connections(around.broker.refusals)
        connections.most = connections_max
        self.http: HttpServer | None = None
        self.metrics: HttpServer | None = None
        if ports.http.used:
            self._pages = WebPages()
            app = application(pages, troubles, [*self._pages.routes(), *routes(around)])
            self.http = _server(app, ports.http, connections, ports)
        if ports.metrics.used:
            app = metrics_application(pages)
            self.metrics = _server(app, ports.metrics, connections, ports)

    def _leases(self) -> Collection[Lease]:
        return [each.lease for each in self._around.leases.values()]

    async def start(self) -> None:
        """Return once requests are answered; raises OSError if a socket cannot listen."""
        for server in (self.http, self.metrics):
            if server is not None:
                await server.start()

    def started(self) -> None:
        """Load what takes long, now that clients may connect."""
        if self.http is not None:
            self._around.load_arrow()
            self._around.encoders.submit(self._pages.pack)

    async def stop(self) -> None:
        """Answer what is under way, and nothing more."""
        self._around.live.close()  # these would go on
        for server in (self.http, self.metrics):
            if server is not None:
                await server.stop()
        self._around.stop()


def _server(app: Starlette, sockets: Sockets, connections: Connections, ports: Ports) -> HttpServer:
    return HttpServer(
        app,
        sockets.plain,
        connections,
        tls_sockets=sockets.tls,
        certificates=ports.certificates,
        proxies=ports.proxies,
    )
