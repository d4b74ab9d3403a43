"""HTTP parameters: requests to the interface, in this process and without a socket.

An input is requests, with SEPARATOR between them. A request is who asks (`g` guest, `r` reader, `n`
nobody, `h` by the header in the first line), the method and the path with its query, a line's end,
and the body. `{lease}` in a path stands for the last lease, `{delayed}` for what waits. `m` is no
request but a message that a client publishes: exchange and routing key, each up to `|`, properties
up to the next one, and the body. Time passes only where a handler waits.

The refusals are answers: every request gets one, none of them is 500, and what says that it is JSON
is JSON. Whoever asks for a table gets an Arrow IPC stream that is whole.
"""

from __future__ import annotations

import asyncio
import base64
import gc
import json
import re
import selectors
import struct
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final, ParamSpec, TypeVar

import pyarrow as pa
from fuzz.drawing import Drawing
from fuzz.targets.frames import Peer, content
from fuzz.world import Defect, World, defects_raised
from tests.engine.frames import frame
from tests.management.fake_backups import Backups

from leporid.amqp.constants import FRAME_METHOD
from leporid.amqp.methods import ChannelOpen
from leporid.amqp.properties import Properties, encode_properties
from leporid.amqp.tables import LongString
from leporid.broker.exchange.types import DELAYED_MESSAGE
from leporid.engine.queue.lease import Lease
from leporid.filterserver.filter_class import FilterClass, FilterClassStatus
from leporid.management.application import routes
from leporid.management.browsing import PARAMETERS as BROWSE_PARAMETERS
from leporid.management.delays import CANCELLING, LISTING
from leporid.management.leases import SHOWING, TAKING
from leporid.management.paths import CostedRoute
from leporid.management.records import PARAMETERS as RECORD_PARAMETERS
from leporid.management.surroundings import Surroundings
from leporid.server.counts import Counts
from leporid.server.http import application
from leporid.server.metrics import Identity, Metrics
from leporid.server.metrics_pages import MetricsPages, Scrapes
from leporid.server.resources import Resources

P = ParamSpec("P")
T = TypeVar("T")

SEPARATOR: Final = b"\xfe\xce"
REQUESTS_MAX: Final = 12
# Beyond that a request was forgotten: every handler's own limit is far lower.
VIRTUAL_SECONDS_MAX: Final = 3600.0
_AUTHORIZATION: Final = {
    b"g": b"Basic " + base64.b64encode(b"guest:guest"),
    b"r": b"Basic " + base64.b64encode(b"reader:reader"),
}
_LEASE: Final = re.compile(rb'"lease":"([^"]+)"')


class _InlineExecutor(Executor):
    """Runs work at once, so that an input does the same each time."""

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        future: Future[T] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except BaseException as error:  # noqa: BLE001 - whoever waits gets it
            future.set_exception(error)
        return future


class _Loop(asyncio.SelectorEventLoop):
    """An event loop in which nobody waits: time passes at once."""

    def __init__(self) -> None:
        super().__init__(_Selector())
        self._selector: _Selector

    def time(self) -> float:
        return self._selector.now


class _Selector(selectors.DefaultSelector):
    """Has no time-out: what it would wait for has passed."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0

    def select(self, timeout: float | None = None) -> list[Any]:
        found = super().select(0)
        if not found and (timeout is None or timeout > 0):
            self.now += VIRTUAL_SECONDS_MAX if timeout is None else timeout
            if self.now > VIRTUAL_SECONDS_MAX:
                raise Defect("a request is never answered")
        return found


class Interface:
    """The routes over a world that has one of everything."""

    def __init__(self, loop: _Loop) -> None:
        self.world = world = World()
        self.lease = self.delayed = b"none"
        self.around = Surroundings(
            broker=world.broker,
            engine=world.engine,
            is_loopback=lambda host: host == "127.0.0.1",
            set_clock=lambda: None,
            wake=world.engine.run,
            until_synced=self._until_synced,
            monotonic=loop.time,
            try_filter_class=self._try_filter_class,
            filter_class_status=lambda _: FilterClassStatus(),
            backups=Backups(),
            encoders=_InlineExecutor(),  # type: ignore[arg-type]
        )
        self.app = application(self._metrics(), list, routes(self.around))
        self._fill()
        self._connect()

    def _metrics(self) -> list[CostedRoute]:
        world = self.world
        counts = Counts(world.broker, world.engine, self._leases)
        identity = Identity("node", lambda: "cluster", lambda: "id", "0", "Python")
        resources = Resources(
            Path.cwd(), limits=SimpleNamespace(memory_bytes_max=1, disk_free_min=1)
        )
        scrapes = Scrapes(Metrics(counts.now, identity, resources.now))
        return MetricsPages(scrapes, world.broker, self.around.admission).routes()

    def _leases(self) -> list[Lease]:
        return [each.lease for each in self.around.leases.values()]

    async def _until_synced(self, generation: int) -> bool:
        self.world.turn()
        if self.world.engine.logs.synced < generation:
            raise Defect("a sync did not do all there was")
        return True

    async def _try_filter_class(self, filter_class: FilterClass) -> None:
        """No process is started here."""

    def _fill(self) -> None:
        vhost = self.world.vhost
        vhost.create_exchange(
            "e",
            DELAYED_MESSAGE,
            durable=False,
            auto_delete=False,
            internal=False,
            arguments={"x-delayed-type": "fanout"},
        )
        properties = encode_properties(
            Properties(headers={"n": 7, "x-tag": "a", "t": [1, {"u": 1.5}]}, priority=3)
        )
        for name, arguments in (("q", {}), ("s", {"x-queue-type": "stream"})):
            queue = vhost.create_queue(
                name, durable=name == "s", auto_delete=False, arguments=arguments, owner=None
            )
            for number in range(5):
                self.world.engine.publish(
                    [queue.engine], "e", "a.b", properties, b"body %d" % number
                )
        self.world.turn()

    def publish(self, text: bytes) -> None:
        """Publish a message as a client does: the engine looks at its bytes, and nobody else."""
        exchange, _, rest = text.partition(b"|")
        key, _, rest = rest.partition(b"|")
        names = b"".join(bytes((len(each[:255]),)) + each[:255] for each in (exchange, key))
        method = struct.pack(">HHH", 60, 40, 0) + names + b"\0"
        self.client.feed(frame(FRAME_METHOD, 1, method) + content(1, rest))
        self.world.turn(self.client.flush)
        if 1 not in self.client.connection.channels or self.client.connection.closing:
            self._connect()
        for each in self.world.vhost.delay_stores:
            for message in each.list(1, None):
                self.delayed = message.id.encode()

    def _connect(self) -> None:
        self.client = Peer(self.world, logs_in=True)
        self.client.feed(frame(FRAME_METHOD, 1, ChannelOpen().encode()))
        self.world.turn(self.client.flush)

    async def request(self, text: bytes) -> None:
        """Ask, and look at the answer."""
        who, rest = text[:1], text[1:]
        if who == b"m":
            self.publish(rest)
            return
        authorization = _AUTHORIZATION.get(who)
        if who == b"h":
            authorization, _, rest = rest.partition(b"\n")
        line, _, body = rest.partition(b"\n")
        method, _, path = line.partition(b" ")
        path = path.replace(b"{lease}", self.lease).replace(b"{delayed}", self.delayed)
        path, _, query = path.partition(b"?")
        if not method.isalpha() or not path.startswith(b"/"):
            return  # not even HTTP
        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": method.decode().upper(),
            "scheme": "http",
            "path": path.decode("latin-1"),
            "raw_path": path,
            "query_string": query,
            "root_path": "",
            "headers": [(b"host", b"localhost")],
            "client": ("127.0.0.1", 1),
            "server": ("127.0.0.1", 15672),
        }
        if authorization is not None:
            scope["headers"] = [(b"host", b"localhost"), (b"authorization", authorization)]
        await self._answered(scope, body)

    async def _answered(self, scope: dict[str, Any], body: bytes) -> None:
        pieces: list[dict[str, Any]] = [
            {"type": "http.request", "body": body[: len(body) // 2], "more_body": True},
            {"type": "http.request", "body": body[len(body) // 2 :], "more_body": False},
        ]
        sent: list[dict[str, Any]] = []

        async def receive() -> dict[str, Any]:
            if pieces:
                return pieces.pop(0)
            await asyncio.sleep(VIRTUAL_SECONDS_MAX / 4)  # the client stays for long
            return {"type": "http.disconnect"}

        async def send(message: dict[str, Any]) -> None:
            sent.append(message)

        await self.app(scope, receive, send)  # type: ignore[arg-type]
        self.world.turn()
        self._check(scope, sent)

    def _check(self, scope: dict[str, Any], sent: list[dict[str, Any]]) -> None:
        assert sent, "no answer"
        assert sent[0]["type"] == "http.response.start"
        status = sent[0]["status"]
        assert 200 <= status < 600
        assert status != 500
        headers = dict(sent[0]["headers"])
        content = b"".join(each.get("body", b"") for each in sent[1:])
        kind = headers.get(b"content-type", b"")
        if scope["method"] == "HEAD" or status == 304:
            return
        if kind.startswith(b"application/json"):
            json.loads(content)
            found = _LEASE.search(content)
            self.lease = found[1] if found else headers.get(b"leporid-lease", self.lease)
        elif kind.startswith(b"application/vnd.apache.arrow.stream") and status == 200:
            pa.ipc.open_stream(content).read_all().validate(full=True)
            self.lease = headers.get(b"leporid-lease", self.lease)


def one(data: bytes) -> None:
    """Make requests, one after another.

    What they leave are cycles of thousands of objects, as routes know each other. These are freed
    while they are young: that costs a tenth of full collections, which look at everything.
    """
    gc.disable()
    try:
        _make_requests(data)
    finally:
        gc.enable()
        gc.collect(0)


def _make_requests(data: bytes) -> None:
    loop = _Loop()
    try:
        with defects_raised():
            interface = Interface(loop)
            for text in data.split(SEPARATOR)[:REQUESTS_MAX]:
                loop.run_until_complete(interface.request(text))
            for task in asyncio.all_tasks(loop):
                task.cancel()
            for holding in interface.around.leases.values():
                holding.timer.cancel()
    finally:
        loop.close()


# ------------------------------------------------------------------ seeds and mutations

_PARAMETERS: Final = (
    *dict.fromkeys(
        [*BROWSE_PARAMETERS, *CANCELLING, *LISTING, *SHOWING, *TAKING, *RECORD_PARAMETERS]
    ),
    *("pattern", "beyond", "wait_ms", "timestamp_ms", "producer", "sequence", "ids", "incarnation"),
    *("version", "class"),
)
_VALUES: Final = (
    *("0", "1", "5", "7", "-1", "true", "false", "9223372036854775807", "a", "a.b", "%25", ".*"),
    *("0:1,1:2", "0:3", "n > 5", "x-tag%20%3D%20'a'", "a || b", "jms", "rocketmq", "body,offset"),
    *("none", "lz4", "zstd", "headers_json", "json", "table", "1700000000000", "%ff", "", "(("),
)
_BODIES: Final = (
    b"",
    b"{}",
    b'{"offset": 3}',
    b'{"arguments": {"x-max-age": "1h", "x-max-length-bytes": 1000}, "partitions": 2}',
    b'{"pattern": "^q", "definition": {"max-length": 5}, "priority": 1, "apply-to": "queues"}',
    b"class Filter:\n    def match(self, message):\n        return True\n",
    b"[1, 2",
    b'{"a": {"b": [null, 1e999, "\\ud800"]}}',
    b'{"pattern": "\\ud800", "definition": {"dead-letter-exchange": "\\udcff"}}',
    b'{"arguments": {"\\ud800": "\\udcff"}}',
)
_METHODS: Final = ("GET", "PUT", "POST", "DELETE")


def _templates() -> list[tuple[str, str]]:
    """Method and path of every route."""
    loop = _Loop()
    try:
        interface = Interface(loop)
        return [
            (method, each.path)
            for each in interface.app.routes
            if isinstance(each, CostedRoute)
            for method in sorted(each.methods)
            if method != "HEAD"
        ]
    finally:
        loop.close()


_NAMED: Final = {
    "vhost": "%2F",
    "stream": "s",
    "queue": "q",
    "exchange": "e",
    "group": "g",
    "reader": "x",
    "name": "p",
    "id": "{delayed}",
}


def _filled(path: str) -> str:
    return re.sub(r"\{(\w+)\}", lambda found: _NAMED.get(found[1], found[0]), path)


def seeds() -> Iterator[bytes]:
    """Every route: as it is meant, with parameters, by somebody who may not."""
    drawing = Drawing(1)
    lease = b"gPOST /api/queues/%2F/q/leases?max=2&ttl_ms=1000&answer=json\n"
    for method, path in _templates():
        for who in "grn":
            request = f"{who}{method} {_filled(path)}".encode()
            body = drawing.one_of(_BODIES)
            parts = (lease, _message(drawing), request + b"\n", request + b"\n" + body)
            yield SEPARATOR.join(parts)
        for _ in range(4):
            yield b"g" + _drawn(method, path, drawing)
    yield (
        b"hBasic \xff\xff=\nGET /health\n"
        + SEPARATOR
        + b"nGET /metrics\n"
        + SEPARATOR
        + b"gGET /x\n"
    )


def _message(drawing: Drawing) -> bytes:
    """A message that waits, or one for the queue."""
    delay = encode_properties(Properties(headers={"x-delay": 1000, "\udcff": LongString(b"\xff")}))
    properties = drawing.one_of((delay, drawing.properties()))
    names = drawing.one_of((b"me|\xff|", b"me|q|", b"m|q|", b"m|s|"))
    return names + properties + b"|" + drawing.octets(16)


def _drawn(method: str, path: str, drawing: Drawing) -> bytes:
    query = "&".join(
        f"{drawing.one_of(_PARAMETERS)}={drawing.one_of(_VALUES)}" for _ in range(drawing.below(3))
    )
    request = f"{method} {_filled(path)}{'?' if query else ''}{query}\n".encode()
    return request + drawing.one_of(_BODIES)


_ROUTES: Final = _templates()


def mutate(data: bytes, drawing: Drawing) -> bytes:
    """Change an input by whole requests, or one of them by a parameter."""
    requests = data.split(SEPARATOR)
    at = drawing.below(len(requests) + 1)
    match drawing.below(5):
        case 0:
            del requests[at : at + 1]
        case 1 if at < len(requests):
            line, _, body = requests[at].partition(b"\n")
            mark = b"&" if b"?" in line else b"?"
            name, value = drawing.one_of(_PARAMETERS), drawing.one_of(_VALUES)
            requests[at] = line + mark + f"{name}={value}".encode() + b"\n" + body
        case 2:
            requests[at:at] = [_message(drawing)]
        case _:
            method, path = drawing.one_of(_ROUTES)
            if drawing.below(8) == 0:
                method = drawing.one_of(_METHODS)
            requests[at:at] = [drawing.one_of((b"g", b"g", b"r")) + _drawn(method, path, drawing)]
    return SEPARATOR.join(requests)
