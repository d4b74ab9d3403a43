"""Encoded rows, published: routed, counted, and read back as they were given."""

from __future__ import annotations

from collections.abc import Generator
from datetime import UTC, datetime
from itertools import count
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.engine.frames import ack
from tests.engine.session_fake import Peer
from tests.engine.stream_world import World
from tests.engine.tables.test_arrow import rows_of
from tests.management.arrows import batches_in, stream_of

from leporid.amqp.errors import AccessRefused, NotFound
from leporid.engine.publishing.interceptor import Interceptor
from leporid.engine.selectors.selector import Selector
from leporid.engine.tables.publisher import Publisher
from leporid.engine.tables.rows import Rows, encode
from leporid.filters.compiler import program
from leporid.management.tables import HEADERS_TYPE, PROPERTIES_TYPE


def encoded(columns: dict[str, Any], types: dict[str, Any] | None = None) -> Rows:
    types = types or {}
    batch = pa.record_batch({n: pa.array(c, types.get(n)) for n, c in columns.items()})
    ((rows, parts),) = batches_in(stream_of(batch))
    return encode(rows, parts, exchange=b"e", body_bytes_max=10**6)


def publisher(world: World, *queues: Any, **producer: Any) -> Publisher:
    cache = world.engine.route_cache("e", lambda key, raw: queues if key != "lost" else [], True)
    return Publisher(world.engine.publishing, lambda name: cache, **producer)


texts = st.none() | st.text(max_size=20)
ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "body": st.binary(max_size=50),
            "routing_key": st.text(max_size=20),
            "headers": st.none()
            | st.dictionaries(
                st.text(max_size=9).filter(lambda key: key not in ("CC", "BCC")), texts, max_size=4
            ).map(lambda headers: list(headers.items())),
            "properties": st.none()
            | st.fixed_dictionaries(
                {
                    "content_type": texts,
                    "priority": st.none() | st.integers(0, 255),
                    "expiration": st.none() | st.integers(0, 10**9).map(str),
                    "timestamp": st.none()
                    | st.integers(0, 10**10).map(
                        lambda seconds: datetime.fromtimestamp(seconds, UTC)
                    ),
                    "cluster_id": texts,
                }
            ),
        }
    ),
    min_size=1,
    max_size=8,
)


@settings(max_examples=60)
@given(ROWS)
def test_what_is_published_is_read_back(rows):
    world = World()
    columns = {name: [row[name] for row in rows] for name in rows[0]}
    types = {"headers": HEADERS_TYPE, "properties": PROPERTIES_TYPE}
    publisher(world, world.stream).publish(encoded(columns, types), 0, 100)
    world.sync()
    read = rows_of(world)
    for row, got in zip(rows, read, strict=True):
        assert got["body"] == row["body"]
        assert (got["exchange"], got["routing_key"]) == ("e", row["routing_key"])
        assert got["headers"] == row["headers"]
        assert got["properties"]["delivery_mode"] == 2
        for name, value in (row["properties"] or {}).items():
            assert got["properties"][name] == value


def test_rows_are_counted_by_what_became_of_them():
    world = World()
    queue = world.engine.queue(0, "q", False)
    queue.set_limits(max_length=1, max_bytes=None, overflow="reject-publish")
    one = publisher(world, queue)
    rows = encoded({"body": ["a", "b", "c"], "routing_key": ["k", "lost", "k"]})
    assert one.publish(rows, 0, 2) == 2
    assert (one.accepted, one.unroutable, one.refused) == (1, 1, 0)
    assert one.publish(rows, 2, 100) == 3
    assert (one.accepted, one.unroutable, one.refused) == (1, 1, 1)
    # Nothing of it survives a restart, so there is nothing to wait for.
    assert one.generation == 0
    assert repr(one) == "<Publisher accepted=1 duplicates=0 unroutable=1 refused=1>"


def test_dead_letters_that_make_room_do_not_tell_whether_a_row_came():
    """A queue that refuses has its consumers take first, and those of others, which may be full."""
    world = World()
    engine = world.engine
    dropping, full = (engine.queue(0, name, False) for name in ("dropping", "full"))
    peer = Peer(engine, {"dropping": dropping, "full": full}, channels=(1, 2))
    peer.channels[1].prefetch_global = 1
    peer.channels[1].consume(dropping, "c", False, 0, 0)
    engine.publish([dropping], "", "", b"\0\0", b"1")
    engine.publish([dropping], "", "", b"\0\0", b"2")
    engine.run()
    dropping.set_limits(max_length=1)

    def nowhere(reason: str, exchange: str, key: str, properties: bytes, body: bytes) -> None:
        engine.publish([], exchange, key, properties, body)

    dropping.dead_letters = nowhere
    for body in (b"3", b"4"):
        engine.publish([dropping], "", "", b"\0\0", body)
    full.set_limits(max_length=1, overflow="reject-publish")
    engine.publish([full], "", "", b"\0\0", b"")
    peer.channels[2].consume(full, "c", True, 0, 0)
    peer.feed(ack(1, 1))
    one = publisher(world, full)
    one.publish(encoded({"body": ["a"]}), 0, 1)
    assert (one.accepted, one.duplicates) == (1, 0)
    engine.run()
    assert dropping.ready_count == 1


def test_durable_messages_have_a_generation_to_wait_for():
    world = World()
    one = publisher(world, world.stream)
    one.publish(encoded({"body": ["a"]}), 0, 1)
    assert one.generation == world.engine.logs.generation > world.engine.logs.synced
    assert world.disk.sync(world.engine)
    assert one.generation <= world.engine.logs.synced


def test_what_came_to_no_queue_is_no_duplicate_later():
    """An exchange keeps it for queues to come, which is no queue either."""
    world = World()
    history = world.engine.queue(0, "history", False)
    history.private = True
    queue = world.engine.queue(0, "q", False)
    rows = encoded({"body": ["a"]})
    one = publisher(world, history, producer=b"p", sequence=0)
    one.publish(rows, 0, 1)
    assert (one.unroutable, history.ready_count) == (1, 1)
    again = publisher(world, history, queue, producer=b"p", sequence=0)
    again.publish(rows, 0, 1)
    assert (again.accepted, again.duplicates, queue.ready_count) == (1, 0, 1)


def test_duplicates_are_waited_for_too():
    world = World()
    rows = encoded({"body": ["a", "b", "c"]})
    first = publisher(world, world.stream, producer=b"p", sequence=0)
    first.publish(rows, 0, 2)
    again = publisher(world, world.stream, producer=b"p", sequence=0)
    again.publish(rows, 0, 3)
    assert (again.accepted, again.duplicates) == (1, 2)
    # The first time is not on disk yet, either.
    assert again.generation == world.engine.logs.generation
    world.sync()
    assert world.stream.end == 3


def test_a_route_that_changed_is_asked_for_again():
    world = World()
    queues: list[Any] = [world.stream]
    cache = world.engine.route_cache("e", lambda key, raw: list(queues), True)
    one = Publisher(world.engine.publishing, lambda name: cache)
    rows = encoded({"body": ["a", "b"]})
    one.publish(rows, 0, 1)
    queues.clear()
    cache.forget()
    one.publish(rows, 1, 1)
    assert (one.accepted, one.unroutable) == (1, 1)


def test_filters_of_bindings_are_asked_for_each_row():
    world = World()
    late = world.engine.queue(0, "late", False)
    filtered = [
        (Selector(program("routing_key = 'a' AND delay > '5'").code), world.stream),
        (Selector(program("routing_key = 'a' AND exchange = 'e'").code), late),
    ]
    cache = world.engine.route_cache(
        "e", lambda key, raw: world.engine.conditional_route([], filtered), True
    )
    one = Publisher(world.engine.publishing, lambda name: cache)
    rows = encoded(
        {
            "body": ["1", "2", "3"],
            "routing_key": ["a", "a", "b"],
            "headers": [[("delay", "9")], [("delay", "5")], [("delay", "9")]],
        },
        {"headers": HEADERS_TYPE},
    )
    one.publish(rows, 0, 3)
    world.sync()
    assert (one.accepted, one.unroutable) == (2, 1)
    assert (world.stream.end, late.ready_count) == (1, 2)


def test_an_exchange_that_is_gone_is_a_fault():
    world = World()

    def nothing(name: str) -> Any:
        raise NotFound(f"no exchange '{name}'")

    with pytest.raises(NotFound, match="no exchange 'e'"):
        Publisher(world.engine.publishing, nothing).publish(encoded({"body": ["a"]}), 0, 1)


@pytest.mark.parametrize("producer", [{}, {"producer": b"p", "sequence": 1}])
def test_what_comes_to_a_private_queue_only_is_unroutable_and_there(producer):
    world = World()
    private = world.engine.queue(0, "private", False)
    private.private = True
    publishing = publisher(world, private, **producer)
    publishing.publish(encoded({"body": [b"x", b"y"], "routing_key": ["k", "k"]}), 0, 100)
    assert (publishing.accepted, publishing.unroutable) == (0, 2)
    assert private.ready_count == 2


def test_rows_are_intercepted_as_messages_are():
    world = World()
    world.engine.clock.wall_ms = 5_999
    world.engine.publishing.interceptor = Interceptor(
        timestamp="keep", message_id="off", random_bytes=lambda size: bytes(size)
    )
    columns = {
        "body": [b"x", b"y"],
        "properties": [{"timestamp": None}, {"timestamp": datetime.fromtimestamp(2, UTC)}],
    }
    publishing = publisher(world, world.stream)
    publishing.publish(encoded(columns, {"properties": PROPERTIES_TYPE}), 0, 100)
    world.sync()
    times = [row["properties"]["timestamp"].timestamp() for row in rows_of(world)]
    assert times == [5, 2]


def test_a_row_whose_route_takes_long_is_published_when_it_is_found():
    world = World()
    world.engine.clock.monotonic_ns = count(0, 1_000_000).__next__
    steps: list[str] = []

    def resolve(key: str, _raw: bytes | None) -> Generator[None, None, list[Any]]:
        for _ in range(5):
            steps.append(key)
            yield
        return [world.stream]

    cache = world.engine.route_cache("e", resolve, True)
    one = Publisher(world.engine.publishing, lambda name: cache)
    rows = encoded({"body": ["1", "2"], "routing_key": ["a", "b"]})
    at, calls = 0, 0
    while at < 2:
        at = one.publish(rows, at, 2)
        calls += 1
    world.sync()
    assert calls > 5
    assert steps == ["a"] * 5 + ["b"] * 5
    assert (one.accepted, world.stream.end) == (2, 2)


class Ticking:
    """A clock of which each reading takes more than a slice."""

    readings = 0

    def __call__(self) -> int:
        self.readings += 1
        return self.readings * 2_000_000


def rows_a_slice(queues: int, rows: int = 200, body: str = "a") -> list[int]:
    """How many rows each slice has, if a slice is over when the clock is read a second time."""
    world = World()
    every = [world.engine.queue(number, f"q{number}", False) for number in range(queues)]
    one = publisher(world, *every)
    table = encoded({"body": [body] * rows})
    world.engine.clock.monotonic_ns = Ticking()
    found = []
    at = 0
    while at < rows:
        end = one.publish(table, at, rows)
        assert end > at
        found.append(end - at)
        at = end
    assert all(queue.ready_count == rows for queue in every)
    return found


def test_a_slice_ends_by_the_work_that_rows_are():
    """Each queue that a row goes to is work, and its body is, too."""
    few, more, many = (max(rows_a_slice(queues)) for queues in (1, 30, 250))
    assert 8 <= few < 30
    assert more < few
    assert many == 2
    assert max(rows_a_slice(1, rows=10, body="x" * 900_000)) == 2


def test_filters_of_a_row_are_work():
    world = World()
    filters = [
        (Selector(program(f"body_{number} LIKE 'a%b%{number}'").code), world.stream)
        for number in range(200)
    ]
    cache = world.engine.route_cache(
        "e", lambda key, raw: world.engine.conditional_route([], filters), True
    )
    one = Publisher(world.engine.publishing, lambda name: cache)
    headers = [[(f"body_{number}", "ab") for number in range(200)]] * 10
    rows = encoded({"body": ["a"] * 10, "headers": headers}, {"headers": HEADERS_TYPE})
    world.engine.clock.monotonic_ns = Ticking()
    assert one.publish(rows, 0, 10) == 2
    assert one.publish(rows, 2, 10) == 4


def test_without_a_clock_all_rows_are_published_in_one_go():
    world = World()
    rows = encoded({"body": ["a"] * 1000})
    assert publisher(world, world.stream).publish(rows, 0, 1000) == 1000


def test_what_rows_take_is_counted_for_each_queue():
    world = World()
    queues = [world.engine.queue(number, f"q{number}", False) for number in range(10)]
    rows = encoded({"body": ["x" * 1000] * 5, "routing_key": ["k", "k", "k", "k", "lost"]})
    one = publisher(world, queues[0])
    one.publish(rows, 0, 5)
    assert 4 * 1000 < one.stored_bytes < 4 * 1200
    # One record for all queues, an entry in each; a stream has a record of its own.
    every = publisher(world, *queues)
    every.publish(rows, 0, 5)
    assert one.stored_bytes < every.stored_bytes < 2 * one.stored_bytes
    both = publisher(world, queues[0], world.stream, producer=b"p", sequence=0)
    both.publish(rows, 0, 5)
    assert 2 * 4 * 1000 < both.stored_bytes < 2 * 4 * 1200
    again = publisher(world, queues[0], world.stream, producer=b"p", sequence=0)
    again.publish(rows, 0, 5)
    assert (again.duplicates, again.stored_bytes) == (4, 0)


def topics(world: World, *queues: Any) -> tuple[Publisher, list[str]]:
    """A publisher who may not use keys with an x, and the names of exchanges it has asked about."""
    asked: list[str] = []
    cache = world.engine.route_cache("e", lambda key, raw: queues, True)

    def check(key: str) -> None:
        if "x" in key:
            raise AccessRefused(f"topic '{key}'")

    def check_of(name: str) -> Any:
        asked.append(name)
        return check

    def routes_of(name: str) -> Any:
        return cache

    return Publisher(world.engine.publishing, routes_of, check_of=check_of), asked


def test_a_key_that_must_not_be_used_is_a_fault():
    world = World()
    queue = world.engine.queue(0, "q", False)
    rows = encoded({"body": [b"1", b"2", b"3"], "routing_key": ["a", "x", "b"]})
    one, asked = topics(world, queue)
    with pytest.raises(AccessRefused, match="topic 'x'"):
        one.publish(rows, 0, 3)
    assert (one.accepted, asked) == (1, ["e"])
    other, _ = topics(world, queue)
    with pytest.raises(AccessRefused, match="topic 'x'"):
        other.check(rows, 0)
    assert (other.accepted, queue.ready_count) == (0, 1)
    assert other.check(rows, 2) == 3


def test_permissions_are_asked_for_again():
    one, asked = topics(World())
    rows = encoded({"body": [b"1", b"2"], "routing_key": ["a", "b"]})
    one.publish(rows, 0, 1)
    one.publish(rows, 1, 1)
    assert asked == ["e"]
    one.forget_exchange()
    one.publish(rows, 0, 1)
    assert asked == ["e", "e"]


def test_a_row_waits_for_the_rights_that_it_needs():
    world = World()
    queue = world.engine.queue(0, "q", False)
    cache = world.engine.route_cache("e", lambda key, raw: [queue], True)
    unknown = {"e", "k2"}

    def check(key: str) -> bool:
        return key in unknown

    made = Publisher(
        world.engine.publishing,
        lambda name: None if name in unknown else cache,
        check_of=lambda name: check,
    )
    rows = encoded({"body": [b"a", b"b", b"c"], "routing_key": ["k1", "k2", "k3"]})
    for step in (made.check, lambda rows, at: made.publish(rows, at, 3)):
        unknown |= {"e", "k2"}
        made.forget_exchange()
        assert step(rows, 0) == 0
        unknown.discard("e")
        assert step(rows, 0) == 1
        assert step(rows, 1) == 1
        unknown.discard("k2")
        assert step(rows, 1) == 3
    assert (made.accepted, queue.ready_count) == (3, 3)
