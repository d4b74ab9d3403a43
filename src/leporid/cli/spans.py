"""`leporid spans`: the time of messages in the broker, as spans of OpenTelemetry.

Responsible for turning copies of the firehose (docs/events.md#tracing) into spans, below those of
the publishers, whose context is in the header `traceparent` (W3C Trace Context). It stands outside
of the broker, so that what is exported, and how slowly, is nothing to the broker. Which messages
have spans is the publishers' choice: those with the flag "sampled".

Invariant: a copy is acknowledged when its span waits to be exported; what the queue of copies has
no room for is dropped there, the oldest first.
"""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, Protocol

from leporid.cli.amqp import OPTION, address
from leporid.cli.command import Single, Verb, argument
from leporid.cli.outcomes import Failure, WrongUse
from leporid.cli.session import Session

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider

TRACE_EXCHANGE: Final = "amq.rabbitmq.trace"
COLLECTOR: Final = "http://127.0.0.1:4318"
TRACES_PATH: Final = "/v1/traces"
WAITING_MAX: Final = 50_000
"""Copies that wait in the broker for this command."""
PREFETCH: Final = 1000
CONTEXT_HEADERS: Final = ("traceparent", "tracestate")
NS_A_MS: Final = 1_000_000


class Traced(Protocol):
    """What is read of a copy: a delivery of the client's."""

    @property
    def key(self) -> str:
        """`publish.EXCHANGE` or `deliver.QUEUE`."""

    @property
    def headers(self) -> Mapping[str, Any]:
        """What the copy says of the message."""

    @property
    def body(self) -> bytes:
        """The message's."""


class Spans:
    """Makes spans of copies.

    Args:
        provider: of OpenTelemetry's SDK; it has them exported.

    Attributes:
        count: how many were made.
    """

    def __init__(self, provider: TracerProvider) -> None:
        from opentelemetry.trace import SpanKind
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        self._tracer = provider.get_tracer("leporid")
        self._propagator = TraceContextTextMapPropagator()
        self._kind = SpanKind.SERVER
        self.count = 0

    def add(self, copy: Traced) -> None:
        """Make the span of a copy, if its message has a context that is sampled."""
        from opentelemetry import trace

        headers = copy.headers
        known = _mapping(headers.get("properties"))
        carrier = {
            name: _text(value)
            for name, value in _mapping(known.get("headers")).items()
            if name in CONTEXT_HEADERS
        }
        context = self._propagator.extract(carrier)
        parent = trace.get_current_span(context).get_span_context()
        if not parent.is_valid or not parent.trace_flags.sampled:
            return
        act, _, name = copy.key.partition(".")
        shown = name or "(default)"
        span = self._tracer.start_span(
            f"{act} {shown}",
            context,
            self._kind,
            attributes=_attributes(act, name, copy, known),
            start_time=int(headers["published_at_ms"]) * NS_A_MS,
        )
        span.end(int(headers["traced_at_ms"]) * NS_A_MS)
        self.count += 1


def _attributes(act: str, name: str, copy: Traced, known: Mapping[str, Any]) -> dict[str, Any]:
    """What OpenTelemetry's conventions for messaging, and we, say of a copy."""
    headers = copy.headers
    keys = [_text(key) for key in headers.get("routing_keys") or ()]
    found: dict[str, Any] = {
        "messaging.system": "rabbitmq",
        "messaging.operation.name": act,
        "messaging.destination.name": name,
        "messaging.rabbitmq.destination.routing_key": keys[0] if keys else "",
        "messaging.message.body.size": len(copy.body),
        "messaging.message.id": known.get("message_id"),
        "messaging.message.conversation_id": known.get("correlation_id"),
        "leporid.vhost": headers.get("vhost"),
        "leporid.user": headers.get("user"),
        "leporid.connection": headers.get("connection"),
        "leporid.exchange": headers.get("exchange_name"),
        "leporid.routed_queues": headers.get("routed_queues"),
    }
    if "redelivered" in headers:
        found["leporid.redelivered"] = bool(headers["redelivered"])
    return {key: _plain(value) for key, value in found.items() if value is not None}


def _plain(value: Any) -> Any:
    if isinstance(value, list):
        return [_text(each) for each in value]
    return value if isinstance(value, bool | int) else _text(value)


def _text(value: Any) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def exporter_url(given: str) -> str:
    """The address to send spans to: a collector's, with the path of OTLP over HTTP.

    Raises:
        WrongUse: it is no address.
    """
    if not given.startswith(("http://", "https://")):
        raise WrongUse(f"--to {given}: expected http://HOST:PORT or https://HOST:PORT")
    given = given.rstrip("/")
    return given if given.endswith(TRACES_PATH) else given + TRACES_PATH


def _provider(to: str, service: str) -> TracerProvider:
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
        from opentelemetry.sdk.trace.sampling import ParentBasedTraceIdRatio
    except ImportError as error:
        raise Failure(f"spans need `pip install 'leporid[otel]'`: {error}") from None
    provider = TracerProvider(
        # Only below a parent that is sampled.
        sampler=ParentBasedTraceIdRatio(0.0),
        resource=Resource.create({"service.name": service}),
    )
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(endpoint=to)))
    return provider


def _spans(session: Session, options: argparse.Namespace) -> None:
    to = exporter_url(options.to)
    provider = _provider(to, options.service)
    vhost = session.get("vhosts", session.vhost, missing=f"vhost '{session.vhost}'")
    if not vhost.get("tracing"):
        print(
            f"tracing of vhost '{session.vhost}' is off: an administrator turns it on by "
            f"leporid vhosts set {session.vhost} --tracing on",
            file=sys.stderr,
        )
    spans = Spans(provider)
    try:
        asyncio.run(_export(session, spans, options.count))
    finally:
        provider.shutdown()
    session.did(f"{spans.count} spans to {to}")


async def _export(session: Session, spans: Spans, most: int | None) -> None:
    """Read copies until a signal comes, or as many spans are made as were asked for."""
    from leporid.client import ClientError, connect

    url, context, name = address(session)
    consuming = asyncio.current_task()
    assert consuming is not None
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, consuming.cancel)
    try:
        async with (
            connect(url, tls=context, tls_name=name) as connection,
            connection.channel() as channel,
        ):
            queue = await channel.queue(
                exclusive=True, durable=False, auto_delete=True, length_max=WAITING_MAX
            )
            await queue.bind(TRACE_EXCHANGE, "#")
            session.did(f"reading {TRACE_EXCHANGE} of vhost '{session.vhost}'")
            async for copy in queue.consume(prefetch=PREFETCH):
                spans.add(copy)
                await copy.ack()
                if most is not None and spans.count >= most:
                    return
    except asyncio.CancelledError:
        consuming.uncancel()
    except ClientError as error:
        raise Failure(f"no copies to read: {error}") from None
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)


COMMAND: Final = Single(
    Verb(
        "spans",
        "send the time of messages in the broker to a collector of OpenTelemetry",
        _spans,
        (
            argument("--to", default=COLLECTOR, metavar="URL", help=f"the collector ({COLLECTOR})"),
            argument("--service", default="leporid", metavar="NAME", help="its name (leporid)"),
            argument("--count", "-c", type=int, metavar="N", help="end after so many spans"),
            OPTION,
        ),
        vhost=True,
        about="Send spans to a collector of OpenTelemetry (OTLP over HTTP): of each message with a "
        "traceparent that is sampled, its publish, and the time from there to each delivery. The "
        "virtual host must be traced. Needs `pip install 'leporid[otel]'`.",
    )
)
