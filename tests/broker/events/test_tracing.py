"""The firehose of one virtual host: what it copies, and what it leaves alone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from tests.management.clients import connected
from tests.management.conftest import World
from tests.management.queues import queue_of

from leporid.amqp import tables
from leporid.amqp.properties import Properties, decode_properties, encode_properties
from leporid.broker.connection.channel import ChannelState
from leporid.broker.events import outbox
from leporid.broker.events.tracing import TRACE_EXCHANGE, ChannelTrace
from leporid.broker.exchange.types import Binding
from leporid.broker.registry import finished
from leporid.engine.queue.browse import snapshot


class TracedWorld(World):
    def __init__(self) -> None:
        super().__init__()
        self.copies = queue_of(self, "copies")
        session = connected(self, 7).session
        self.channel: ChannelState = next(iter(session.channels.values()))
        self.session = session

    def trace(self, on: bool = True) -> None:
        finished(self.vhost.tracing.setting(on, [self.session]))

    def listen(self) -> None:
        self.vhost.bindings.bind(Binding(TRACE_EXCHANGE, "copies", "queue", "#", {}), None)

    @property
    def traced(self) -> Any:
        found: ChannelTrace | None = self.channel.engine.trace  # type: ignore[assignment]
        return found

    def all(self) -> list[tuple[str, dict[str, Any], bytes]]:
        self.turn()
        return [
            (key, decode_properties(raw).headers or {}, body)
            for _, key, raw, body in list(snapshot(self.copies))
        ]


@pytest.fixture
def world() -> Iterator[TracedWorld]:
    world = TracedWorld()
    yield world
    world.around.stop()


RAW = encode_properties(Properties(delivery_mode=2, timestamp=2**40, headers={"CC": ["c"]}))
NAMES = b"\x01x\x01k"


def test_channels_are_traced_while_it_is_on(world: TracedWorld):
    assert world.channel.engine.trace is None
    world.trace()
    assert world.traced is not None
    later = connected(world, 8)
    assert all(each.engine.trace is not None for each in later.session.channels.values())
    world.trace(False)
    assert world.channel.engine.trace is None


def test_nothing_is_copied_that_nobody_gets(world: TracedWorld):
    world.trace()
    assert world.traced is not None
    assert not world.traced.admits(1)
    world.listen()
    assert world.traced.admits(1)
    assert world.broker.traces.dropped == 0


def test_a_copy_says_what_it_is_of(world: TracedWorld):
    world.trace()
    world.listen()
    trace = world.traced
    assert trace is not None
    trace.published(5, NAMES, RAW, b"body", ["c"], ["q"])
    trace.delivered(7, 5, "q", NAMES, RAW, b"body", True)
    (first, published, body), (second, delivered, _) = world.all()
    assert (first, second, body) == ("publish.x", "deliver.q", b"body")
    common = {
        "exchange_name": "x",
        "routing_keys": ["k", "c"],
        "properties": {"headers": {"CC": ["c"]}, "delivery_mode": 2, "timestamp": 2**40},
        "node": "leporid@localhost",
        "vhost": "/",
        "connection": world.session.full_name,
        "channel": 1,
        "user": "guest",
    }
    at_publish = {"traced_at_ms": 5, "published_at_ms": 5}
    assert published == {**common, **at_publish, "routed_queues": ["q"]}
    at_delivery = {"traced_at_ms": 7, "published_at_ms": 5}
    assert delivered == {**common, **at_delivery, "redelivered": 1}


def test_what_is_published_to_it_is_not_traced(world: TracedWorld):
    world.trace()
    world.listen()
    assert world.traced is not None
    name = TRACE_EXCHANGE.encode()
    world.traced.delivered(7, 5, "copies", bytes((len(name),)) + name + b"\x01k", RAW, b"", False)
    assert world.all() == []


def test_it_has_limits(world: TracedWorld, monkeypatch: pytest.MonkeyPatch):
    world.trace()
    world.listen()
    trace = world.traced
    assert trace is not None
    assert not trace.admits(outbox.BYTES_MAX)
    world.broker.set_alarm("memory", True)
    assert not trace.admits(1)
    world.broker.set_alarm("memory", False)
    assert trace.admits(1)
    assert world.broker.traces.dropped == 2


def test_nothing_is_raised_to_the_engine(world: TracedWorld, caplog: pytest.LogCaptureFixture):
    world.trace()
    world.listen()
    assert world.traced is not None
    world.traced.published(5, NAMES, b"\xff\xff\xff", b"", [], [])
    assert world.all() == []
    assert any("defect" in each for each in caplog.messages)


def test_an_id_that_is_no_text_is_copied(world: TracedWorld):
    world.trace()
    world.listen()
    raw = encode_properties(Properties(correlation_id="\udcff\udcfe"))
    world.traced.delivered(7, 5, "q", NAMES, raw, b"", False)
    ((_, headers, _),) = world.all()
    assert headers["properties"] == {"correlation_id": b"\xff\xfe"}


def test_a_long_key_is_cut(world: TracedWorld):
    world.trace()
    world.listen()
    assert world.traced is not None
    world.traced.delivered(7, 5, "é" * 127, NAMES, RAW, b"", False)
    ((key, _, _),) = world.all()
    assert key == "deliver." + "é" * 123


def test_headers_are_copied_as_they_are_encoded(
    world: TracedWorld, monkeypatch: pytest.MonkeyPatch
):
    world.trace()
    world.listen()
    raw = encode_properties(Properties(headers={"CC": ["c"], "more": {"a": [1, None]}}))
    with monkeypatch.context() as patched:
        patched.setattr(tables, "_read_table", None)
        world.traced.delivered(7, 5, "q", NAMES, raw, b"", False)
        world.turn()
    ((_, headers, _),) = world.all()
    assert headers["properties"] == {"headers": {"CC": ["c"], "more": {"a": [1, None]}}}
    assert headers["routing_keys"] == ["k", "c"]


@pytest.mark.parametrize(("depth", "copied"), [(30, True), (31, False)])
def test_headers_that_would_be_too_deep_are_not_copied(
    world: TracedWorld, depth: int, copied: bool
):
    world.trace()
    world.listen()
    headers: dict[str, Any] = {}
    for _ in range(depth - 1):
        headers = {"a": headers}
    raw = encode_properties(Properties(headers=headers))
    world.traced.published(5, NAMES, raw, b"", [], [])
    assert len(world.all()) == copied
    assert world.broker.traces.dropped == (not copied)
