"""A small broker for the tests of the Spark side: the HTTP routes over lists in memory.

It answers as the real one does, and can be told to fail: `fail` puts a fault in the way of the next
matching requests. What was asked of it is in `calls`.
"""

import base64
import io
import json
import re
import ssl
import threading
import time
import urllib.parse
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from leporid.amqp.properties import Properties
from leporid.filters.dialects import DEFAULT, Dialect
from leporid.filters.interpreter import Outcome, evaluate
from leporid.filters.messages import FilteredMessage
from leporid.filters.parser import parse
from leporid.spark.schema import QUEUE_READABLE, READABLE, WRITABLE

# 2026-01-01; the record with offset n came n milliseconds later.
EPOCH_MS = 1_767_225_600_000


def message_of(row: dict[str, Any]) -> FilteredMessage:
    """A row as filters see its message."""
    given = {name: value for name, value in row["properties"].items() if value is not None}
    properties = Properties(headers=json.loads(row["headers_json"] or "{}"), **given)
    return FilteredMessage(properties, row["exchange"], row["routing_key"])


class Refusal(Exception):
    """An answer that is none of success."""

    def __init__(self, status: int, word: str, reason: str = "", **facts: Any) -> None:
        super().__init__(word)
        self.status = status
        self.body = {"error": word, "reason": reason or word, **facts}


@dataclass
class Partition:
    queue: str
    incarnation: str
    first: int = 0
    damaged: int = -1
    rows: pa.Table = field(default_factory=lambda: READABLE.empty_table())

    @property
    def end(self) -> int:
        return int(self.rows.num_rows)


@dataclass
class Fault:
    """What happens to a request: `cut` its answer after so many bytes, `drop` it unanswered, do it
    and drop the answer (`lose`), answer a `status`, or `end` the body early but well-formed.
    """

    kind: str
    match: str
    count: int = 1
    bytes: int = 0
    status: int = 503


class FakeBroker:
    def __init__(self) -> None:
        self.streams: dict[str, list[Partition]] = {}
        self.bindings: dict[str, str] = {}
        self.producers: dict[str, int] = {}
        self.readers: dict[tuple[str, int, str], int] = {}
        # What was reported of runs of pipelines, by name.
        self.runs: dict[str, list[dict[str, Any]]] = {}
        self.queues: dict[str, list[int]] = {}
        self.leases: dict[str, list[int]] = {}
        self.calls: list[tuple[float, str, str]] = []
        self.posted: list[tuple[str, dict[str, str], pa.Table]] = []
        self.faults: list[Fault] = []
        self.password = "guest"
        self.forbidden: set[str] = set()
        # Exchanges that there are not; all others are taken for there.
        self.missing: set[str] = set()
        self.changed = threading.Condition()
        self.stopping = False
        self._made = 0
        self.url = ""

    # ------------------------------------------------------------ what tests do

    def make(self, name: str, partitions: int = 1) -> list[Partition]:
        self._made += 1
        self.streams[name] = [
            Partition(
                name if partitions == 1 else f"{name}-{number}", f"fake-{self._made}-{number}"
            )
            for number in range(partitions)
        ]
        return self.streams[name]

    def append(self, name: str, count: int, partition: int = 0, **columns: Any) -> None:
        """Append records; columns are lists or one value for all, bodies count up."""
        part = self.streams[name][partition]
        offsets = range(part.end, part.end + count)
        values: dict[str, Any] = {
            "stream": name,
            "partition": partition,
            "offset": list(offsets),
            "timestamp": [(EPOCH_MS + at) * 1000 for at in offsets],
            "exchange": "",
            "routing_key": name,
            "properties": {"content_type": "text/plain", "priority": 3},
            "headers": [("h", "1")],
            "headers_json": '{"h":1}',
            "body": [b"%d" % at for at in offsets],
        } | columns
        arrays = [
            pa.array(
                value if isinstance(value, list) and name_ != "headers" else [value] * count,
                kind.type,
            )
            for name_, kind in zip(READABLE.names, READABLE, strict=True)
            for value in [values[name_]]
        ]
        table = pa.Table.from_arrays(arrays, schema=READABLE)
        with self.changed:
            part.rows = pa.concat_tables([part.rows, table]).combine_chunks()
            self.changed.notify_all()

    def cut(self, name: str, first: int, partition: int = 0) -> None:
        """Let retention remove everything below an offset."""
        self.streams[name][partition].first = first

    def fail(self, kind: str, match: str, **more: Any) -> Fault:
        fault = Fault(kind, match, **more)
        self.faults.append(fault)
        return fault

    def count(self, match: str) -> int:
        return sum(1 for _, _, target in self.calls if re.search(match, target))

    # ------------------------------------------------------------ the routes

    def info(self, name: str, query: dict[str, str]) -> Any:
        parts = self.find(name)
        if "wait_ms" in query and not query.get("beyond"):
            raise Refusal(400, "bad-request", "wait_ms needs beyond")
        if "beyond" in query:
            pairs = [pair.split(":") for pair in query["beyond"].split(",") if pair]
            beyond = {int(number): int(at) for number, at in pairs}
            until = time.monotonic() + int(query["wait_ms"]) / 1000
            with self.changed:
                while not any(parts[at].end > beyond[at] for at in beyond if at < len(parts)):
                    if self.stopping or not self.changed.wait(max(0, until - time.monotonic())):
                        break
            parts = self.find(name)
        return {
            "stream": name,
            "partitions": [
                {
                    "partition": number,
                    "queue": part.queue,
                    "first": part.first,
                    "end": part.end,
                    "incarnation": part.incarnation,
                    "bytes": 100 * (part.end - part.first),
                }
                for number, part in enumerate(parts)
            ],
        }

    def find(self, name: str) -> list[Partition]:
        if name in self.forbidden:
            raise Refusal(403, "access_refused", f"no read access to {name}")
        if name not in self.streams:
            raise Refusal(404, "not_found", f"no stream {name}")
        return self.streams[name]

    def records(self, name: str, query: dict[str, str]) -> tuple[pa.Table, int]:
        part = self.find(name)[int(query["partition"])]
        start, end = int(query["from"]), int(query["to"])
        if query["incarnation"] != part.incarnation:
            raise Refusal(409, "incarnation")
        if start < part.first:
            raise Refusal(410, "gone", first=part.first)
        if start <= part.damaged < end and query.get("skip_lost") != "true":
            raise Refusal(410, "lost", f"offsets {part.damaged} to {part.damaged}")
        if end > part.end:
            raise Refusal(416, "beyond", end=part.end)
        rows = part.rows.slice(start, end - start)
        rows = rows.filter(pc.not_equal(rows.column("offset"), part.damaged))
        for parameter, column in (("routing_key", "routing_key"), ("exchange", "exchange")):
            if parameter in query:
                rows = rows.filter(pc.equal(rows.column(column), query[parameter]))
        if "routing_key_prefix" in query:
            prefix = query["routing_key_prefix"]
            rows = rows.filter(pc.starts_with(rows.column("routing_key"), prefix))
        if "filter" in query:
            tree, dialect = parse(query["filter"]), Dialect(query.get("dialect", DEFAULT))
            passed = [
                evaluate(tree, dialect, message_of(row)) is Outcome.MATCH
                for row in rows.to_pylist()
            ]
            rows = rows.filter(pa.array(passed, pa.bool_()))
        return rows.select(query["columns"].split(",")), int(query["batch_rows"])

    def queue(self, name: str) -> list[int]:
        if name in self.forbidden:
            raise Refusal(403, "access_refused", f"no read access to {name}")
        if name not in self.queues:
            raise Refusal(404, "not-found", f"no queue '{name}'")
        return self.queues[name]

    def messages(self, name: str, numbers: list[int], query: dict[str, str]) -> pa.Table:
        values: dict[str, Any] = {
            "stream": name,
            "partition": 0,
            "timestamp": EPOCH_MS * 1000,
            "exchange": "",
            "routing_key": name,
            "properties": {"content_type": "text/plain"},
            "headers": [("h", "1")],
            "redelivered": False,
            "state": "ready",
            "headers_json": '{"h":1}',
        }
        rows = [{**values, "offset": at, "body": b"%d" % at} for at in numbers]
        return pa.Table.from_pylist(rows, QUEUE_READABLE).select(query["columns"].split(","))

    def take(self, name: str, query: dict[str, str]) -> Any:
        ready = self.queue(name)
        taken = ready[: int(query["max"])]
        if not taken:
            return {"lease": None, "messages": 0, "ttl_ms": int(query["ttl_ms"])}
        del ready[: len(taken)]
        lease = f"lease-{len(self.calls)}"
        self.leases[lease] = taken
        return {"lease": lease, "messages": len(taken), "ttl_ms": int(query["ttl_ms"])}

    def leased(self, lease: str) -> list[int]:
        if lease not in self.leases:
            raise Refusal(410, "gone", f"lease '{lease}' was expired")
        return self.leases[lease]

    def end(self, name: str, lease: str, *, back: bool) -> Any:
        taken = self.leased(lease)
        del self.leases[lease]
        if back:
            self.queues[name][:0] = taken
        return {}

    def publish(self, exchange: str, query: dict[str, str], body: bytes) -> Any:
        if exchange in self.missing:
            raise Refusal(404, "not-found", f"no exchange '{exchange}'")
        try:
            table = pa.ipc.open_stream(body).read_all()
        except pa.ArrowInvalid as error:
            raise Refusal(400, "arrow", str(error)) from None
        for column in table.schema:
            if column.name not in WRITABLE.names:
                raise Refusal(400, "column", f"no column {column.name}")
        if "exchange" in table.schema.names:
            for name in table.column("exchange").unique().to_pylist():
                if name in self.missing:
                    raise Refusal(404, "not-found", f"no exchange '{name}' in vhost '/'")
        with self.changed:
            duplicates = 0
            producer = query.get("producer")
            if producer is not None:
                sequence, last = int(query["sequence"]), self.producers.get(producer, -1)
                duplicates = min(table.num_rows, max(0, last + 1 - sequence))
                self.producers[producer] = max(last, sequence + table.num_rows - 1)
            fresh = table.slice(duplicates)
            # A table without rows only asks whether one may be published.
            if table.num_rows:
                self.posted.append((exchange, query, fresh))
            unroutable = self._route(exchange, fresh)
        return {
            "rows": table.num_rows,
            "accepted": fresh.num_rows,
            "duplicates": duplicates,
            "unroutable": unroutable,
            "refused": 0,
        }

    def _route(self, exchange: str, rows: pa.Table) -> int:
        """Route through `bindings` or, in the default exchange, by key; count what goes nowhere."""
        taken: dict[str, list[dict[str, Any]]] = defaultdict(list)
        lost = 0
        for row in rows.to_pylist():
            where = row.get("exchange") or exchange
            name = row.get("routing_key") if where == "amq.default" else self.bindings.get(where)
            if name in self.streams:
                taken[name].append(row)
            else:
                lost += 1
        for name, found in taken.items():
            bodies = [
                row["body"].encode() if isinstance(row["body"], str) else row["body"]
                for row in found
            ]
            self.append(
                name,
                len(found),
                body=bodies,
                routing_key=[row.get("routing_key") or "" for row in found],
            )
        return lost


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    broker: FakeBroker

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        pass

    def do_GET(self) -> None:
        self._answer()

    def do_PUT(self) -> None:
        self._answer()

    def do_POST(self) -> None:
        self._answer()

    def do_DELETE(self) -> None:
        self._answer()

    def _answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        broker = self.broker
        broker.calls.append((time.monotonic(), self.command, self.path))
        fault = self._fault()
        if fault is not None and fault.kind == "drop":
            self.close_connection = True
            return
        try:
            if fault is not None and fault.kind == "status":
                raise Refusal(fault.status, "unavailable")
            answer = self._route(body, fault)
        except Refusal as refusal:
            self._json(refusal.status, refusal.body)
            return
        if fault is not None and fault.kind == "lose":
            self.close_connection = True
        elif answer is not None:
            self._json(200, answer)

    def _fault(self) -> Fault | None:
        for fault in self.broker.faults:
            if fault.count and re.search(fault.match, f"{self.command} {self.path}"):
                fault.count -= 1
                return fault
        return None

    def _route(self, body: bytes, fault: Fault | None) -> Any:
        broker = self.broker
        user = base64.b64decode(self.headers["Authorization"].removeprefix("Basic ")).decode()
        if user != f"guest:{broker.password}":
            raise Refusal(401, "unauthorized")
        parts = urllib.parse.urlsplit(self.path)
        query = dict(urllib.parse.parse_qsl(parts.query))
        path = [urllib.parse.unquote(part) for part in parts.path.split("/")[1:]]
        match path:
            case ["api", "streams", "/"]:
                found = [
                    {"name": name, "partitions": len(broker.streams[name])}
                    for name in broker.streams
                    if re.fullmatch(query.get("pattern", ".*"), name)
                ]
                return {"streams": found}
            case ["api", "streams", "/", name]:
                return broker.info(name, query)
            case ["api", "streams", "/", name, "offset-for"]:
                at = int(query["timestamp_ms"]) - EPOCH_MS
                return {
                    "partitions": [
                        {"partition": number, "offset": min(max(at, part.first), part.end)}
                        for number, part in enumerate(broker.find(name))
                    ]
                }
            case ["api", "streams", "/", name, "records"]:
                self._records(*broker.records(name, query), query, fault)
                return None
            case ["api", "streams", "/", name, "readers"]:
                stored = [
                    {"reader": reader, "partition": number, "next_offset": next_offset}
                    for (stream, number, reader), next_offset in broker.readers.items()
                    if stream == name
                ]
                return {"readers": stored}
            case ["api", "streams", "/", name, "readers", reader]:
                key = (name, int(query["partition"]), reader)
                if query["incarnation"] != broker.find(name)[key[1]].incarnation:
                    raise Refusal(409, "incarnation")
                broker.readers[key] = json.loads(body)["next_offset"]
                return {}
            case ["api", "pipelines", "/", name]:
                broker.runs.setdefault(name, []).append(json.loads(body))
                return {}
            case ["api", "queues", "/", name, *rest]:
                return self._queue(name, rest, query, fault)
            case ["api", "publish", "/", exchange]:
                return broker.publish(exchange, query, body)
        raise Refusal(404, "not_found", self.path)

    def _queue(self, name: str, rest: list[str], query: dict[str, str], fault: Fault | None) -> Any:
        broker = self.broker
        match rest:
            case ["messages"]:
                numbers = broker.queue(name)[: int(query.get("limit", 10**9))]
            case ["leases", lease, "messages"]:
                numbers = broker.leased(lease)[int(query["from"]) : int(query["to"])]
            case ["leases"]:
                return broker.take(name, query)
            case ["leases", lease]:
                return broker.end(name, lease, back=False)
            case ["leases", lease, "release"]:
                return broker.end(name, lease, back=True)
            case _:
                raise Refusal(404, "not_found", self.path)
        rows = broker.messages(name, numbers, query)
        batch_rows = int(query.get("batch_rows", 1000))
        self._records(rows, batch_rows, {"compression": "none", **query}, fault)
        return None

    def _json(self, status: int, body: Any) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _records(
        self, rows: pa.Table, batch_rows: int, query: dict[str, str], fault: Fault | None
    ) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "application/vnd.apache.arrow.stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        codec = query["compression"] if query["compression"] != "none" else None
        sink = io.BytesIO()
        batches = rows.to_batches(max_chunksize=batch_rows)
        if fault is not None and fault.kind == "end":
            batches = batches[: len(batches) // 2]
        options = pa.ipc.IpcWriteOptions(compression=codec)
        with pa.ipc.new_stream(sink, rows.schema, options=options) as stream:
            for batch in batches:
                stream.write_batch(batch)
        data = sink.getvalue()
        cut = fault is not None and fault.kind == "cut"
        if cut:
            assert fault is not None
            data = data[: fault.bytes] if fault.bytes >= 0 else data[: len(data) + fault.bytes + 1]
        for at in range(0, len(data), 65536):
            chunk = data[at : at + 65536]
            self.wfile.write(b"%x\r\n%b\r\n" % (len(chunk), chunk))
        if cut:
            self.close_connection = True
        else:
            self.wfile.write(b"0\r\n\r\n")


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is no news."""


@contextmanager
def serving(port: int = 0, tls: ssl.SSLContext | None = None) -> Iterator[FakeBroker]:
    broker = FakeBroker()
    server = Server(("127.0.0.1", port), type("BoundHandler", (Handler,), {"broker": broker}))
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    broker.url = f"http{'' if tls is None else 's'}://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield broker
    finally:
        with broker.changed:
            broker.stopping = True
            broker.changed.notify_all()
        server.shutdown()
        server.server_close()
        thread.join()
