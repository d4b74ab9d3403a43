"""`leporid spans`."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from types import SimpleNamespace
from typing import Any

import pika
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from leporid.cli.outcomes import WrongUse
from leporid.cli.spans import Spans, exporter_url

TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
SAMPLED, NOT_SAMPLED = f"00-{TRACE}-{PARENT}-01", f"00-{TRACE}-{PARENT}-00"


def copy(key: str, context: Any, **more: Any) -> SimpleNamespace:
    """A copy of the firehose."""
    headers = {
        "exchange_name": "orders",
        "routing_keys": ["order.new", "other"],
        "properties": {"message_id": "m-1", "headers": {"traceparent": context, "mine": 1}},
        "vhost": "/",
        "connection": "127.0.0.1:5 -> 127.0.0.1:6",
        "user": "guest",
        "published_at_ms": 1_000,
        "traced_at_ms": 1_250,
    }
    return SimpleNamespace(key=key, headers=headers | more, body=b"12345")


@pytest.fixture
def made() -> Iterator[tuple[Spans, InMemorySpanExporter]]:
    exporter = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    yield Spans(provider), exporter
    provider.shutdown()


def test_a_delivery_is_a_span_from_its_publish_on(made):
    spans, exporter = made
    spans.add(copy("deliver.billing", SAMPLED, redelivered=1))
    (span,) = exporter.get_finished_spans()
    assert span.name == "deliver billing"
    assert (span.start_time, span.end_time) == (1_000_000_000, 1_250_000_000)
    assert f"{span.context.trace_id:032x}" == TRACE
    assert f"{span.parent.span_id:016x}" == PARENT
    assert dict(span.attributes) == {
        "messaging.system": "rabbitmq",
        "messaging.operation.name": "deliver",
        "messaging.destination.name": "billing",
        "messaging.rabbitmq.destination.routing_key": "order.new",
        "messaging.message.body.size": 5,
        "messaging.message.id": "m-1",
        "leporid.vhost": "/",
        "leporid.user": "guest",
        "leporid.connection": "127.0.0.1:5 -> 127.0.0.1:6",
        "leporid.exchange": "orders",
        "leporid.redelivered": True,
    }


def test_a_publish_says_where_it_went(made):
    spans, exporter = made
    spans.add(copy("publish.", SAMPLED.encode(), traced_at_ms=1_000, routed_queues=["a", b"\xff"]))
    (span,) = exporter.get_finished_spans()
    assert span.name == "publish (default)"
    assert span.attributes["leporid.routed_queues"] == ("a", "\ufffd")
    assert span.start_time == span.end_time


@pytest.mark.parametrize(
    "context", [NOT_SAMPLED, "", None, 7, b"\xff", "00-" + "0" * 32 + "-1-01", SAMPLED[:-4]]
)
def test_what_is_not_sampled_or_no_context_has_no_span(made, context):
    spans, exporter = made
    spans.add(copy("deliver.q", context))
    assert exporter.get_finished_spans() == ()
    assert spans.count == 0


@pytest.mark.parametrize("properties", [None, 5, {}, {"headers": None}, {"headers": []}])
def test_a_message_without_headers_has_no_span(made, properties):
    spans, exporter = made
    spans.add(copy("deliver.q", SAMPLED, properties=properties))
    assert exporter.get_finished_spans() == ()


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ("http://c:4318", "http://c:4318/v1/traces"),
        ("https://c/v1/traces", "https://c/v1/traces"),
        ("http://c:4318/", "http://c:4318/v1/traces"),
    ],
)
def test_the_collector(given, found):
    assert exporter_url(given) == found


def test_what_is_no_collector():
    with pytest.raises(WrongUse, match="--to c:4317: expected http"):
        exporter_url("c:4317")


class Collector(HTTPServer):
    """Takes spans."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Take)
        self.taken: list[Any] = []


class Take(BaseHTTPRequestHandler):
    server: Collector

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        request = ExportTraceServiceRequest.FromString(body)
        self.server.taken += [
            span
            for resource in request.resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *arguments: Any) -> None:
        """Say nothing."""


@pytest.fixture
def collector() -> Iterator[Collector]:
    with Collector() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def test_a_collector_gets_what_a_client_published(leporid, shared_broker, collector, name):
    queue = name()
    leporid("vhosts", "set", "/", "--tracing", "on")
    with pika.BlockingConnection(pika.URLParameters(shared_broker.url)) as connection:
        channel = connection.channel()
        channel.queue_declare(queue, exclusive=True)
        stop = threading.Event()

        def exchange_messages() -> None:
            headers = {"traceparent": SAMPLED, "tracestate": "a=b"}
            while not stop.wait(0.02):
                channel.basic_publish("", queue, b"x", pika.BasicProperties(headers=headers))
                channel.basic_publish("", queue, b"y")
                channel.basic_get(queue, auto_ack=True)
                channel.basic_get(queue, auto_ack=True)

        thread = threading.Thread(target=exchange_messages)
        thread.start()
        try:
            to = f"http://127.0.0.1:{collector.server_port}"
            said = leporid("spans", "--to", to, "--count", "8")
        finally:
            stop.set()
            thread.join()
    leporid("vhosts", "set", "/", "--tracing", "off")
    assert f"8 spans to {to}/v1/traces" in said
    names = {span.name for span in collector.taken}
    assert names == {"publish (default)", f"deliver {queue}"}
    assert len(collector.taken) == 8
    for span in collector.taken:
        assert span.trace_id.hex() == TRACE
        assert span.parent_span_id.hex() == PARENT
        assert span.trace_state == "a=b"
        assert 0 <= span.end_time_unix_nano - span.start_time_unix_nano < 60e9
        assert abs(span.end_time_unix_nano / 1e9 - time.time()) < 60


def test_without_tracing_it_says_how_to_turn_it_on(leporid, collector):
    to = f"http://127.0.0.1:{collector.server_port}"
    leporid("spans", "--to", to, "--amqp-url", "amqp://127.0.0.1:1", code=1)
    assert "leporid vhosts set / --tracing on" in leporid.error
    assert "no copies to read" in leporid.error
