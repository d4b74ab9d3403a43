"""What of a window is wanted: by exchange, key and time, and by a filter."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.engine.browsing import rows_of as queue_rows
from tests.engine.frames import publish
from tests.engine.session_fake import Peer, make_engine
from tests.engine.stream_world import World
from tests.engine.tagged import raw_of, send

from leporid.amqp.tables import Value
from leporid.broker.stream.choices import choice_for
from leporid.engine.queue.browse import Browse
from leporid.engine.tables.arrow import columns_of
from leporid.engine.tables.chosen import Chosen
from leporid.management.tables import batch_of, schema_of

BATCH = 256


def offsets(world: World, first: int = 0, rows_max: int = 10**6, **filters: Any) -> list[int]:
    """Of all that windows one after another have."""
    found: list[int] = []
    end = world.stream.end
    at = first
    while at < end:
        choice = filters.get("choice")
        with world.stream.window(at, end, rows_max, 10**9, choice) as window:
            chosen = Chosen(window, **filters)
            rows, built = columns_of(window, ("offset",), stream="s", chosen=chosen)
            assert rows == len(chosen) == chosen.rows
            world.stream.count_filtering(chosen.filtering)
        found += batch_of(schema_of(("offset",), {}), rows, built)["offset"].to_pylist()
        assert window.end > at
        at = window.end
    return found


def test_by_exchange_key_and_time():
    world = World()
    world.peer.session.caches |= {
        name: world.engine.route_cache(name, lambda *_: [world.stream], True) for name in "ef"
    }
    for at in range(20):
        world.peer.feed(publish(1, f"k{at}", exchange="fe"[at % 2]))
    world.sync()
    now = world.engine.clock.wall_ms
    assert offsets(world, routing_key=b"k1") == [1]
    assert offsets(world, routing_key_prefix=b"k1", exchange=b"f") == [10, 12, 14, 16, 18]
    assert offsets(world, routing_key_prefix=b"k10 and more") == []
    assert offsets(world, since_ms=now + 1) == []
    assert len(offsets(world, since_ms=now, until_ms=now + 1)) == 20


def test_a_filter_is_asked_last_and_counted():
    world = World()
    send(world, ({"n": number if number % 10 else "text"} for number in range(100)))
    world.sync()
    choice = choice_for(None, "n > 50")
    assert offsets(world, choice=choice) == [n for n in range(51, 100) if n % 10]
    assert world.stream.filtering == (0, 100, 45, 10)
    assert offsets(world, choice=choice, routing_key=b"t") == []
    assert world.stream.filtering == (0, 100, 45, 10)


@pytest.mark.parametrize("restarted", [False, True])
def test_batches_are_left_out_of_windows(restarted):
    world = World(segment_bytes=65536)
    for tag in "abcab":
        send(world, [{"x-tag": tag}] * (2 * BATCH))
    world.sync()
    if restarted:
        world.restart()
    for tags, runs in (("a", (0, 3)), ("b || c", (1, 2, 4)), ("d", ())):
        expected = [run * 2 * BATCH + at for run in runs for at in range(2 * BATCH)]
        for rows_max in (1, 100, 10**6) if tags == "a" else (300,):
            assert offsets(world, choice=choice_for(tags, None), rows_max=rows_max) == expected
    window = world.stream.window(0, world.stream.end, 10**6, 10**9, choice_for("d", None))
    assert window.end == world.stream.end
    # The newest batch is read: it is not whole.
    assert window.rows <= BATCH
    assert window.batches_skipped >= 9
    window.close()


@settings(max_examples=30)
@given(
    st.lists(st.tuples(st.integers(1, 300), st.sampled_from(["a", "b", None])), max_size=8),
    st.integers(0, 500),
    st.integers(1, 400),
)
def test_the_same_as_one_by_one(runs, first, rows_max):
    world = World(segment_bytes=8192)
    tables: list[dict[str, Value]] = [
        {} if tag is None else {"x-tag": tag} for count, tag in runs for _ in range(count)
    ]
    send(world, tables)
    world.sync()
    choice = choice_for("a", None)
    assert offsets(world, min(first, len(tables)), rows_max, choice=choice) == [
        at for at, table in enumerate(tables) if at >= first and table == {"x-tag": "a"}
    ]


def test_of_a_queue():
    engine = make_engine()
    queue = engine.queue(0, "q", False)
    peer = Peer(engine, {"q": queue})
    for number in range(10):
        peer.feed(publish(1, "q", b"%d" % number, raw=raw_of({"n": number})))
    browse = Browse(queue)
    with browse.window(100, 10**6) as window:
        rows = queue_rows(window, choice=choice_for(None, "n >= 8"))
        assert [row["body"] for row in rows] == [b"8", b"9"]
        assert repr(Chosen(window)).startswith("<Chosen 10 of ")
