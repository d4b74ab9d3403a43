"""Spark's predicates as expressions: true of the same rows, whatever publishers sent."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    IsNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringContains,
    StringEndsWith,
    StringStartsWith,
)
from tests.engine.frames import publish
from tests.engine.stream_world import World

from leporid.amqp.properties import Properties, encode_properties
from leporid.broker.stream.choices import choice_for
from leporid.engine.tables.arrow import columns_of
from leporid.management.tables import batch_of, schema_of
from leporid.spark.selectors import both, selector_of

TYPE, PRIORITY, KEY = ("properties", "type"), ("properties", "priority"), ("routing_key",)
NAMES = ("routing_key", "exchange", "properties")

texts = st.sampled_from(["", "a", "ab", "b'", "%_", "é", "\n", "\0", "a\ufffd", "5"])
# What a publisher may send: also what is not UTF-8.
sent = st.one_of(texts, st.sampled_from(["\udcff", "a\udcc3", "\udcc3b"]))
paths = st.sampled_from([TYPE, KEY, ("exchange",), ("properties", "message_id")])
numbers = st.integers(0, 3)

leaves = st.one_of(
    st.builds(EqualTo, paths, texts),
    st.builds(EqualTo, st.just(PRIORITY), numbers),
    st.builds(In, paths, st.lists(st.one_of(texts, st.none()), min_size=1, max_size=3)),
    st.builds(In, st.just(PRIORITY), st.lists(numbers, min_size=1, max_size=3)),
    *(st.builds(kind, paths, texts) for kind in (StringStartsWith, StringEndsWith, StringContains)),
    *(
        st.builds(kind, st.just(PRIORITY), numbers)
        for kind in (GreaterThan, GreaterThanOrEqual, LessThan, LessThanOrEqual)
    ),
)
predicates = st.one_of(
    leaves,
    st.builds(Not, leaves),
    *(st.builds(kind, st.one_of(paths, st.just(PRIORITY))) for kind in (IsNull, IsNotNull)),
    st.builds(EqualNullSafe, paths, st.one_of(texts, st.none())),
)
messages = st.tuples(sent, st.none() | sent, st.none() | sent, st.none() | numbers)


def value_of(row, path):
    for name in path:
        row = row[name]
    return row


ASKED = {
    EqualTo: lambda value, other: value == other,
    StringStartsWith: lambda value, other: value.startswith(other),
    StringEndsWith: lambda value, other: value.endswith(other),
    StringContains: lambda value, other: other in value,
    GreaterThan: lambda value, other: value > other,
    GreaterThanOrEqual: lambda value, other: value >= other,
    LessThan: lambda value, other: value < other,
    LessThanOrEqual: lambda value, other: value <= other,
}


def holds(predicate, row):
    """What Spark says of a row: true, false, or None."""
    if isinstance(predicate, Not):
        inner = holds(predicate.child, row)
        return None if inner is None else not inner
    value = value_of(row, predicate.attribute)
    match predicate:
        case IsNull():
            return value is None
        case IsNotNull():
            return value is not None
        case EqualNullSafe(_, other):
            return value == other
        case _ if value is None:
            return None
        case In(_, some):
            return value in some or (None if None in some else False)
    return ASKED[type(predicate)](value, predicate.value)


@settings(max_examples=60)
@given(st.lists(messages, min_size=1, max_size=6), st.lists(predicates, min_size=1, max_size=8))
def test_true_of_the_same_messages(sent_messages, asked):
    world = World()
    world.peer.session.caches["e"] = world.engine.route_cache("e", lambda *_: [world.stream], True)
    raws = []
    for key, kind, message_id, priority in sent_messages:
        raw = encode_properties(
            Properties(type=kind, message_id=message_id, priority=priority, delivery_mode=2)
        )
        raws.append(raw)
        key = key.encode("utf-8", "replace").decode()
        world.peer.feed(publish(1, key, raw=raw, exchange="e"))
    world.sync()
    assert world.stream.end == len(sent_messages)
    with world.stream.window(0, world.stream.end, 1000, 10**9) as window:
        rows, columns = columns_of(window, NAMES, stream="s")
        table = pa.Table.from_batches([batch_of(schema_of(NAMES, {}), rows, columns)]).to_pylist()
    for predicate in asked:
        text = selector_of(predicate)
        if text is None:
            continue
        choice = choice_for(None, text)
        assert choice is not None
        for row, raw in zip(table, raws, strict=True):
            found = choice.filter.matches_message(row["exchange"], row["routing_key"], raw)
            assert found is (holds(predicate, row) is True), (predicate, text, row)


@pytest.mark.parametrize(
    ("predicate", "text"),
    [
        (EqualTo(TYPE, "it's"), "p.type = 'it''s'"),
        (EqualTo(("exchange",), ""), "exchange = ''"),
        (EqualNullSafe(TYPE, "a"), "p.type = 'a'"),
        (EqualNullSafe(TYPE, None), "p.type IS NULL"),
        (IsNull(PRIORITY), "p.priority IS NULL"),
        (IsNotNull(KEY), "routing_key IS NOT NULL"),
        (In(KEY, ["a", None, "b"]), "routing_key IN ('a', 'b')"),
        (In(PRIORITY, [1, 2]), "p.priority IN (1, 2)"),
        (GreaterThan(PRIORITY, -1), "p.priority > -1"),
        (LessThanOrEqual(PRIORITY, 3), "p.priority <= 3"),
        (StringStartsWith(KEY, "a"), "routing_key STARTSWITH 'a'"),
        (StringContains(TYPE, ""), "p.type CONTAINS ''"),
        (Not(EqualTo(TYPE, "a")), "NOT (p.type = 'a')"),
        (Not(In(KEY, ["a"])), "NOT (routing_key IN ('a'))"),
    ],
)
def test_what_means_the_same_is_said(predicate, text):
    assert selector_of(predicate) == text
    assert choice_for(None, text) is not None


@pytest.mark.parametrize(
    "predicate",
    [
        EqualTo(TYPE, "a\ufffd"),
        EqualTo(TYPE, 5),
        EqualTo(PRIORITY, "5"),
        EqualTo(PRIORITY, True),
        EqualTo(TYPE, None),
        GreaterThan(TYPE, "a"),
        In(TYPE, [None]),
        In(TYPE, ["a", 5]),
        In(TYPE, ["a", "\ufffd"]),
        Not(In(TYPE, ["a", None])),
        Not(IsNull(TYPE)),
        Not(EqualNullSafe(TYPE, "a")),
        EqualTo(("properties", "cluster_id"), "a"),
        EqualTo(("properties", "nothing"), "a"),
        EqualTo(("headers", "a"), "a"),
        EqualTo(("body",), b"a"),
        IsNull(("properties", "timestamp")),
    ],
)
def test_what_may_mean_something_else_is_left(predicate):
    assert selector_of(predicate) is None


def test_two_expressions_as_one():
    assert both(None, "a = 1") == "a = 1"
    assert both("a = 1 -- really", "b = 2") == "(a = 1 -- really\n) AND b = 2"
    assert both("a = 1", f"b = '{'x' * 5000}'") is None
    assert both(None, "p.type CONTAINS '" + "x" * 300 + "'") is None
