"""Readers with a filter: they get what matches, all of it, and leave others their turns."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.engine.frames import ack, publish
from tests.engine.stream_world import World
from tests.engine.tagged import Wanting, of_tags, raw_of, send

from leporid.amqp.tables import Value
from leporid.broker.stream.choices import choice_for, choice_of
from leporid.engine.selectors.filter import Filter
from leporid.engine.selectors.selector import Selector
from leporid.engine.stream.choice import Choice
from leporid.filters.compiler import program

BATCH = 256
TAGS: tuple[Value, ...] = ("a", "b", "c", "", 5, None)


def by(sql: str) -> Choice:
    found = choice_for(None, sql)
    assert found is not None
    return found


# ------------------------------------------------------------------ what matches, and nothing else


tables = st.fixed_dictionaries(
    {},
    optional={
        "x-tag": st.sampled_from(TAGS),
        "x-stream-filter-value": st.sampled_from(TAGS),
        "n": st.integers(0, 3),
    },
)
arguments = st.sampled_from(
    [
        {"x-filter-tags": "a"},
        {"x-filter-tags": "b || c"},
        {"x-filter-sql": "n > 1"},
        {"x-filter-sql": "\"x-tag\" = 'a' AND n = 2"},
        {"x-filter-sql": "\"x-stream-filter-value\" IN ('a', 'b') OR \"x-tag\" = 'c'"},
        {"x-filter-sql": "\"x-tag\" IN ('a', 5)"},
        {"x-filter-sql": "TAGS = '5'", "x-filter-dialect": "rocketmq"},
        {"x-filter-sql": "\"x-tag\" = '5'", "x-filter-dialect": "rocketmq"},
        {"x-filter-tags": "a", "x-filter-sql": "n < 2"},
        {"x-stream-filter": "a"},
        {"x-stream-filter": ["a", "b"]},
        {"x-stream-filter": "a", "x-stream-match-unfiltered": True},
        {"x-stream-filter": [], "x-stream-match-unfiltered": True},
        {"x-stream-filter": "a", "x-filter-sql": "n = 1"},
    ]
)


@settings(max_examples=40)
@given(
    st.lists(st.tuples(st.integers(1, 400), tables), min_size=1, max_size=12),
    arguments,
    st.integers(0, 1000),
    st.integers(1, 50),
    st.booleans(),
)
def test_what_matches_and_nothing_else(runs, asked, first, prefetch, restarted):
    """Runs of equal messages, so that whole batches have nothing."""
    world = World(segment_bytes=16384, max_bytes=200_000)
    headers = [table for count, table in runs for _ in range(count)]
    send(world, headers[: len(headers) // 2])
    world.sync()
    send(world, headers[len(headers) // 2 :])
    world.sync()
    if restarted:
        world.restart()
    choice = choice_of(asked)
    assert choice is not None
    wanting = Wanting(world, choice, first, prefetch)
    wanting.turns()
    assert wanting.got == [
        offset
        for offset, table in enumerate(headers)
        if offset >= max(first, world.stream.first)
        and choice.filter.matches_message("", "s", raw_of(table))
    ]
    assert wanting.reader.offset == max(first, len(headers))
    # What comes then is found, too.
    send(world, [{"x-tag": "a", "x-stream-filter-value": "a", "n": 1}])
    world.sync()
    before = len(wanting.got)
    wanting.turns()
    expected = choice.filter.matches_message(
        "", "s", raw_of({"x-tag": "a", "x-stream-filter-value": "a", "n": 1})
    )
    assert len(wanting.got) - before == (expected and first <= len(headers))


def test_values_are_those_of_one_header():
    world = World()
    send(
        world,
        [
            {"x-tag": "a"},
            {"x-stream-filter-value": "a"},
            {"x-tag": "b", "x-stream-filter-value": "a"},
            None,
        ],
    )
    world.sync()
    found = {}
    for unfiltered in (False, True):
        choice = choice_of({"x-stream-filter": "a", "x-stream-match-unfiltered": unfiltered})
        wanting = Wanting(world, choice)
        wanting.turns()
        found[unfiltered] = wanting.got
    assert found == {False: [1, 2], True: [0, 1, 2, 3]}


def test_messages_that_are_lost_stop_nobody():
    world = World(segment_bytes=65536)
    send(world, ({"x-tag": "ab"[number % 2]} for number in range(3 * BATCH)), size=40)
    world.sync()
    files = world.disk.streams[7]
    number = sorted(files)[0]
    data = bytearray(files[number])
    half = len(data) // 2
    data[half : half + 700] = b"\xff" * 700
    files[number] = bytes(data)
    world.restart()
    (lost,) = world.lost
    wanting = Wanting(world, of_tags(b"a"))
    wanting.turns()
    assert wanting.got == [
        offset for offset in range(0, 3 * BATCH, 2) if not lost[0] <= offset < lost[1]
    ]


# ------------------------------------------------------------------ offsets, credit


def test_a_reader_is_where_it_has_looked_although_it_got_nothing():
    world = World()
    send(world, [{"x-tag": "b"}] * 1000)
    world.sync()
    for choice in (of_tags(b"a"), by("\"x-tag\" = 'a'"), by("n = 5")):
        wanting = Wanting(world, choice)
        wanting.turns()
        assert (wanting.reader.offset, wanting.reader.settled_offset) == (1000, 1000)


def test_what_is_not_settled_holds_the_offset_back():
    world = World()
    send(world, ({"n": number % 10} for number in range(100)))
    world.sync()
    wanting = Wanting(world, by("n = 5"), prefetch=2)
    assert len(wanting.peer.deliveries()) == 2
    assert wanting.reader.settled_offset == 5
    wanting.peer.feed(ack(1, 1))
    assert len(wanting.peer.deliveries()) == 1
    assert wanting.reader.settled_offset == 15


def test_without_credit_nothing_is_looked_at():
    world = World()
    send(world, [{"n": 1}] * 1000)
    world.sync()
    wanting = Wanting(world, by("n = 1"), prefetch=3)
    assert len(wanting.peer.deliveries()) == 3
    world.engine.run()
    assert world.stream.filtering == (0, 3, 3, 0)
    assert not world.engine.busy


def test_type_errors_are_counted():
    world = World()
    send(world, [{"n": "text"}, {"n": 1}, {"n": 7}])
    world.sync()
    wanting = Wanting(world, by("n > 5"))
    wanting.turns()
    assert wanting.got == [2]
    assert world.stream.filtering == (0, 3, 1, 1)


def test_what_is_not_on_disk_is_not_found():
    world = World()
    send(world, [{"x-tag": "a"}])
    wanting = Wanting(world, of_tags(b"a"))
    assert wanting.turns() == 1
    assert wanting.got == []
    world.sync()
    wanting.turns()
    assert wanting.got == [0]


# ------------------------------------------------------------------ turns


@pytest.fixture(scope="module")
def large() -> World:
    """A stream that takes many turns to look through; nothing in it has a tag."""
    world = World()
    block = publish(1, "s", raw=raw_of({"n": 1, "late": "no"})) * 1000
    for _ in range(120):
        world.peer.feed(block)
    send(world, [{"n": 2}])
    world.sync()
    return world


def test_a_turn_ends_although_there_is_more_to_look_at(large: World):
    wanting = Wanting(large, by("n = 2"))
    before = large.stream.filtering[1]
    assert wanting.turn() == 0
    looked = large.stream.filtering[1] - before
    assert 0 < looked < 60_000
    assert large.engine.busy
    assert 2 <= wanting.turns() < 20
    assert wanting.got == [120_000]
    assert not large.engine.busy


def test_a_costly_expression_looks_at_less_each_turn(large: World):
    costly = by(" OR ".join(f"late LIKE '%{n}%'" for n in range(40)))
    looked = []
    for choice in (by("n = 2"), costly):
        wanting = Wanting(large, choice)
        before = large.stream.filtering[1]
        wanting.turn()
        looked.append(large.stream.filtering[1] - before)
        wanting.peer.channel.cancel(wanting.reader)
    assert looked[1] < looked[0] / 5


def test_readers_share_a_turn_and_none_waits_for_another_to_end(large: World):
    crowd = [Wanting(large, by("n = 2")) for _ in range(20)]
    before = large.stream.filtering[1]
    large.engine.run()
    assert large.stream.filtering[1] - before < 60_000
    assert {wanting.reader.offset > 0 for wanting in crowd} == {True}
    places = [wanting.reader.offset for wanting in crowd]
    assert max(places) < 2 * min(places)
    for wanting in crowd:
        wanting.peer.channel.cancel(wanting.reader)
    large.engine.run()
    assert not large.engine.busy


def test_more_readers_than_a_turn_has_room_for_come_one_after_another(large: World):
    crowd = [Wanting(large, by("n = 2")) for _ in range(150)]
    large.engine.run()
    assert 0 in {wanting.reader.offset for wanting in crowd}
    large.engine.run()
    assert 0 not in {wanting.reader.offset for wanting in crowd}
    for wanting in crowd:
        wanting.peer.connection.lost()
    large.engine.run()
    assert not large.engine.busy


def test_summaries_make_it_one_turn(large: World):
    wanting = Wanting(large, of_tags(b"a"))
    assert wanting.turns() == 1
    assert wanting.reader.offset == 120_001


def test_everything_through_a_filter():
    world = World()
    send(world, [None] * 700)
    world.sync()
    wanting = Wanting(world, Choice(Filter()))
    wanting.turns()
    assert wanting.got == list(range(700))
    wanting = Wanting(world, Choice(Selector(program("routing_key = 's'").code)), 690)
    wanting.turns()
    assert wanting.got == list(range(690, 700))
