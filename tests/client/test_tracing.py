"""Trace context in headers, with what W3C's specification says of it; and beside OpenTelemetry."""

import importlib.util

import pytest

from leporid.client.tracing import TraceParent, context_of, extract, inject

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
PARENT = f"00-{TRACE}-{SPAN}-01"
has_opentelemetry = importlib.util.find_spec("opentelemetry") is not None


def test_what_is_injected_is_extracted():
    parent = TraceParent.new()
    headers = inject({"customer": 4711}, parent)
    assert headers["customer"] == 4711
    assert extract(headers) == parent


def test_headers_that_are_given_are_not_changed():
    given = {"customer": 4711}
    inject(given, TraceParent.new())
    assert given == {"customer": 4711}


def test_a_child_is_another_span_of_the_same_trace():
    parent = extract({"traceparent": PARENT, "tracestate": "vendor=1"})
    assert parent is not None
    child = parent.child()
    assert (child.trace_id, child.state) == (TRACE, "vendor=1")
    assert child.span_id != SPAN
    assert extract(child.headers()) == child


@pytest.mark.parametrize(
    ("text", "sampled"),
    [
        (PARENT, True),
        (f"00-{TRACE}-{SPAN}-00", False),
        (f"00-{TRACE}-{SPAN}-03", True),
        (f" {PARENT} ", True),
        (PARENT.encode(), True),
        (f"cc-{TRACE}-{SPAN}-01", True),
        (f"cc-{TRACE}-{SPAN}-01-what-comes-later", True),
    ],
)
def test_traceparents_that_are_read(text: str | bytes, sampled: bool):
    assert extract({"traceparent": text}) == TraceParent(TRACE, SPAN, sampled)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "nonsense",
        PARENT.upper(),
        PARENT + "-more",
        PARENT[:-1],
        f"ff-{TRACE}-{SPAN}-01",
        f"00-{'0' * 32}-{SPAN}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"cc-{TRACE}-{SPAN}-01.more",
        17,
        None,
    ],
)
def test_traceparents_that_are_none(text: object):
    assert extract({"traceparent": text}) is None


def test_messages_without_headers():
    assert extract(None) is None
    assert extract({}) is None


def test_a_state_that_is_too_long_is_left_out():
    found = extract({"traceparent": PARENT, "tracestate": "v=" + "x" * 511})
    assert found == TraceParent(TRACE, SPAN)


@pytest.mark.skipif(has_opentelemetry, reason="is about environments without OpenTelemetry")
def test_without_opentelemetry_nothing_is_injected():
    assert inject({"customer": 4711}) == {"customer": 4711}
    with pytest.raises(ImportError, match="opentelemetry"):
        context_of({"traceparent": PARENT})


@pytest.mark.skipif(not has_opentelemetry, reason="takes opentelemetry-sdk")
def test_opentelemetry_finds_its_span_again():
    from opentelemetry import trace
    from opentelemetry.sdk.trace import TracerProvider

    tracer = TracerProvider().get_tracer("test")
    with tracer.start_as_current_span("publish") as sent:
        headers = inject({"customer": 4711})
    context = context_of(headers)
    with tracer.start_as_current_span("handle", context=context) as handled:
        assert handled.get_span_context().trace_id == sent.get_span_context().trace_id
    parent = trace.get_current_span(context).get_span_context()
    assert parent.span_id == sent.get_span_context().span_id
    found = extract(headers)
    assert found is not None
    assert int(found.span_id, 16) == parent.span_id
