"""Trace context in the headers of messages: `traceparent` and `tracestate`, as W3C has them.

    await exchange.publish(body, key, headers=inject())
    ...
    with tracer.start_as_current_span("handle", context=context_of(delivery.headers)):
        ...

With OpenTelemetry installed, `inject` writes what its propagator writes for the current span, and
`context_of` gives what its spans take. Without it, the same headers can be read, written and passed
on as a `TraceParent`. Responsible for the text of the two headers (W3C Trace Context, level 1). It
must not know connections or messages, and imports OpenTelemetry only when it is called. Invariant:
headers that are not what the specification allows are as good as none, and nothing raises for them.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Self

if TYPE_CHECKING:
    # Not every environment has it.
    from opentelemetry.context import Context

TRACEPARENT: Final = "traceparent"
TRACESTATE: Final = "tracestate"
VERSION: Final = "00"
FLAG_SAMPLED: Final = 1
TRACE_ID_BYTES: Final = 16
SPAN_ID_BYTES: Final = 8
STATE_CHARACTERS_MAX: Final = 512
"""W3C Trace Context 3.3.1.5 has everybody pass on at least so many."""

# Later versions may have more fields behind a further hyphen (W3C Trace Context 4.3).
_TRACEPARENT: Final = re.compile(
    r"(?P<version>[0-9a-f]{2})-(?P<trace>[0-9a-f]{32})-(?P<span>[0-9a-f]{16})"
    r"-(?P<flags>[0-9a-f]{2})(?P<more>-.*)?"
)


@dataclass(frozen=True, slots=True)
class TraceParent:
    """Which trace a message belongs to, and which span sent it.

    Attributes:
        trace_id: 32 hexadecimal digits, not all of them 0.
        span_id: 16 of them, likewise: whose child the span that handles the message is.
        sampled: whether the sender records the trace.
        state: `tracestate`, as it came; "" for none.
    """

    trace_id: str
    span_id: str
    sampled: bool = True
    state: str = ""

    def __str__(self) -> str:
        """Return the header `traceparent`."""
        return f"{VERSION}-{self.trace_id}-{self.span_id}-{FLAG_SAMPLED if self.sampled else 0:02x}"

    @classmethod
    def new(cls, *, sampled: bool = True) -> Self:
        """Begin a trace."""
        return cls(_random_id(TRACE_ID_BYTES), _random_id(SPAN_ID_BYTES), sampled)

    def child(self) -> Self:
        """Return the next span of the same trace."""
        return replace(self, span_id=_random_id(SPAN_ID_BYTES))

    def headers(self) -> dict[str, str]:
        """Return the headers of a message that this span sends."""
        found = {TRACEPARENT: str(self)}
        return found | {TRACESTATE: self.state} if self.state else found


def inject(
    headers: Mapping[str, Any] | None = None, parent: TraceParent | None = None
) -> dict[str, Any]:
    """Return headers with the trace context of who publishes.

    Args:
        headers: what the message has beside it; not changed.
        parent: who publishes. None: the current span of OpenTelemetry; without one, or without
            OpenTelemetry, the headers come back as they are.
    """
    found = dict(headers or {})
    if parent is not None:
        return found | parent.headers()
    try:
        from opentelemetry.propagate import inject as inject_current
    except ImportError:
        return found
    carrier: dict[str, str] = {}
    inject_current(carrier)
    return found | carrier


def extract(headers: Mapping[str, Any] | None) -> TraceParent | None:
    """Return the trace context that came with a message; None: it has none that can be read."""
    text = _text(headers, TRACEPARENT)
    match = _TRACEPARENT.fullmatch(text.strip())
    if match is None or match["version"] == "ff" or (match["more"] and match["version"] == VERSION):
        return None
    trace_id, span_id = match["trace"], match["span"]
    if not int(trace_id, 16) or not int(span_id, 16):
        return None
    state = _text(headers, TRACESTATE)
    if len(state) > STATE_CHARACTERS_MAX:
        state = ""
    return TraceParent(trace_id, span_id, bool(int(match["flags"], 16) & FLAG_SAMPLED), state)


def context_of(headers: Mapping[str, Any] | None) -> Context:
    """Return the context of OpenTelemetry that came with a message.

    Raises:
        ImportError: the package opentelemetry-api is not installed.
    """
    from opentelemetry.propagate import extract as extract_into

    # Propagators read texts only; AMQP's headers may hold anything.
    return extract_into({name: _text(headers, name) for name in headers or {}})


def _text(headers: Mapping[str, Any] | None, name: str) -> str:
    value = (headers or {}).get(name, "")
    if isinstance(value, bytes):
        return value.decode("ascii", "replace")
    return value if isinstance(value, str) else ""


def _random_id(count: int) -> str:
    while not int(found := secrets.token_hex(count), 16):
        pass
    return found
