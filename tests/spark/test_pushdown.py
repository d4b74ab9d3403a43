"""Predicates pushed down must never leave out what Spark would keep."""

from datetime import UTC, datetime

import pyarrow as pa
import pytest
from hypothesis import given
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

from leporid.spark.offsets import Key, Range
from leporid.spark.options import reading
from leporid.spark.pushdown import (
    Pushed,
    for_options,
    for_pattern,
    microseconds,
    narrow,
    narrow_by_time,
    push,
)
from leporid.spark.schema import COLUMNS, PROPERTIES

WHOLE = [Range(Key("a", 0), 0, 100, "i"), Range(Key("b", 1), 0, 100, "i")]
OFFSET, TIME, KEY = ("offset",), ("timestamp",), ("routing_key",)
TYPE = ("properties", "type")


def pushed(*predicates):
    return push(predicates, Pushed())


@pytest.mark.parametrize(
    ("predicate", "kept"),
    [
        (EqualTo(OFFSET, 7), (7, 8)),
        (GreaterThan(OFFSET, 7), (8, 100)),
        (GreaterThanOrEqual(OFFSET, 7), (7, 100)),
        (LessThan(OFFSET, 7), (0, 7)),
        (LessThanOrEqual(OFFSET, 7), (0, 8)),
    ],
)
def test_offsets_narrow_the_range_exactly(predicate, kept):
    found, left = pushed(predicate, IsNotNull(OFFSET))
    assert left == []
    assert [(part.start, part.end) for part in narrow(WHOLE, found)] == [kept, kept]


def test_a_list_of_offsets_narrows_to_what_is_around_it_and_stays():
    predicate = In(OFFSET, [30, None, 10])
    found, left = pushed(predicate)
    assert left == [predicate]
    assert left[0] is predicate
    assert narrow(WHOLE[:1], found) == [Range(Key("a", 0), 10, 31, "i")]


def test_offsets_that_contradict_each_other_leave_nothing():
    found, _ = pushed(GreaterThan(OFFSET, 50), LessThan(OFFSET, 20))
    assert narrow(WHOLE, found) == []


@pytest.mark.parametrize(
    ("predicate", "keys"),
    [
        (EqualTo(("stream",), "a"), [Key("a", 0)]),
        (In(("stream",), ["b", "c", None]), [Key("b", 1)]),
        (EqualTo(("partition",), 1), [Key("b", 1)]),
        (In(("partition",), [0, 1]), [Key("a", 0), Key("b", 1)]),
    ],
)
def test_streams_and_partitions_that_are_not_asked_for_are_not_read(predicate, keys):
    found, left = pushed(predicate)
    assert left == []
    assert [part.key for part in narrow(WHOLE, found)] == keys


@pytest.mark.parametrize(
    ("kind", "low", "high"),
    [
        (GreaterThan, 1500, None),
        (GreaterThanOrEqual, 1500, None),
        (LessThan, None, 1501),
        (LessThanOrEqual, None, 1501),
        (EqualTo, 1500, 1501),
    ],
)
def test_times_become_bounds_and_spark_looks_again(kind, low, high):
    predicate = kind(TIME, datetime.fromtimestamp(0.0015, UTC))
    found, left = pushed(predicate)
    assert left == [predicate]
    assert (found.low_us, found.high_us) == (low, high)


def test_several_times_narrow_to_the_closest():
    moments = [datetime.fromtimestamp(at, UTC) for at in (1, 2, 3, 4)]
    found, _ = pushed(
        GreaterThan(TIME, moments[0]), GreaterThan(TIME, moments[1]),
        LessThan(TIME, moments[3]), LessThan(TIME, moments[2]),
    )  # fmt: skip
    assert (found.low_us, found.high_us) == (2_000_000, 3_000_001)


def test_offsets_of_a_time_narrow_ranges():
    low, high = {Key("a", 0): 10}, {Key("a", 0): 20, Key("b", 1): 0}
    assert narrow_by_time(WHOLE, low, high) == [Range(Key("a", 0), 10, 20, "i")]


@given(st.datetimes(min_value=datetime(1900, 1, 1)))  # noqa: DTZ001
def test_microseconds_are_exact(moment):
    aware = moment.replace(tzinfo=UTC)
    assert pa.scalar(aware, pa.timestamp("us", tz="UTC")).value == microseconds(aware)


def test_the_broker_filters_by_exchange_and_key():
    found, left = pushed(EqualTo(("exchange",), "e"), EqualTo(KEY, "k"))
    assert left == []
    assert found.filter.parameters == {"exchange": "e", "routing_key": "k"}
    found, left = pushed(StringStartsWith(KEY, "k."))
    assert left == []
    assert found.filter.parameters == {"routing_key_prefix": "k."}


@pytest.mark.parametrize(
    ("predicates", "text"),
    [
        ([EqualTo(TYPE, "x")], "p.type = 'x'"),
        ([EqualTo(KEY, "k"), StringContains(KEY, "a'b")], "routing_key CONTAINS 'a''b'"),
        (
            [IsNotNull(TYPE), Not(In(TYPE, ["x", "y"]))],
            "(p.type IS NOT NULL\n) AND NOT (p.type IN ('x', 'y'))",
        ),
        ([GreaterThan(("properties", "priority"), 4)], "p.priority > 4"),
        ([EqualNullSafe(TYPE, None)], "p.type IS NULL"),
    ],
)
def test_the_broker_filters_by_an_expression(predicates, text):
    found, left = pushed(*predicates)
    assert left == []
    assert found.filter.parameters["filter"] == text
    assert found.filter.expression is None


def test_an_expression_of_the_options_comes_first():
    given = for_options(reading({"stream": "s", "filter": "n > 5 -- many", "filterTags": "a"}))
    found, left = push([EqualTo(TYPE, "x")], given)
    assert left == []
    assert found.filter.parameters == {
        "tags": "a",
        "filter": "(n > 5 -- many\n) AND p.type = 'x'",
        "dialect": "jms",
    }


def test_what_an_expression_has_no_room_for_is_looked_at_here():
    found, left = pushed(In(TYPE, [str(number) for number in range(500)]))
    assert left == []
    assert found.filter.parameters == {}
    assert found.filter.columns == ("properties",)


def test_what_invalid_bytes_are_shown_as_is_not_asked_of_the_broker():
    found, left = pushed(EqualTo(KEY, "a\N{REPLACEMENT CHARACTER}"))
    assert found.filter.parameters == {}
    assert left == []
    assert found.filter.expression is not None


ROWS = pa.RecordBatch.from_pydict(
    {
        "routing_key": ["a", "b", "ab", None, ""],
        "properties": pa.array(
            [{"type": "x", "priority": 1}, {"type": "yx"}, None, {"type": None}, {"type": "x%"}],
            PROPERTIES,
        ),
    },
    schema=pa.schema([COLUMNS.field("routing_key"), COLUMNS.field("properties")]),
)


@pytest.mark.parametrize(
    ("predicate", "kept"),
    [
        (EqualTo(TYPE, "x"), [0]),
        (Not(EqualTo(TYPE, "x")), [1, 4]),
        (In(TYPE, ["x", "yx", None]), [0, 1]),
        (Not(In(TYPE, ["x"])), [1, 4]),
        (IsNull(TYPE), [2, 3]),
        (IsNotNull(TYPE), [0, 1, 4]),
        (StringStartsWith(TYPE, "x"), [0, 4]),
        (StringEndsWith(TYPE, "x"), [0, 1]),
        (StringContains(TYPE, "%"), [4]),
        (Not(StringContains(TYPE, "y")), [0, 4]),
        (EqualTo(("properties", "priority"), 1), [0]),
        (Not(EqualTo(KEY, "a")), [1, 2, 4]),
        (StringContains(KEY, "b"), [1, 2]),
        (In(KEY, ["", "a"]), [0, 4]),
    ],
)
def test_properties_are_looked_at_before_spark_gets_the_rows(predicate, kept):
    """The expected rows are those that Spark keeps: null is neither true nor false.

    An expression of another dialect cannot be added to.
    """
    given = for_options(
        reading({"stream": "s", "filter": "TAGS = 'a'", "filterDialect": "rocketmq"})
    )
    found, left = push([predicate], given)
    assert left == []
    assert found.filter.parameters["filter"] == "TAGS = 'a'"
    assert found.filter.columns == (predicate_column(predicate),)
    kept_rows = ROWS.filter(found.filter.expression)
    assert kept_rows.to_pylist() == [ROWS.slice(at, 1).to_pylist()[0] for at in kept]


def predicate_column(predicate):
    return (predicate.child if isinstance(predicate, Not) else predicate).attribute[0]


@pytest.mark.parametrize(
    "predicate",
    [
        Not(In(TYPE, ["x", None])),
        Not(GreaterThan(OFFSET, 5)),
        EqualTo(("body",), b"x"),
        EqualTo(("headers", "a"), "x"),
        Not(EqualNullSafe(TYPE, "x")),
        LessThan(TYPE, "x"),
        EqualTo(("properties", "timestamp"), datetime.fromtimestamp(0, UTC)),
        EqualTo(TYPE, None),
        GreaterThan(KEY, "a"),
        IsNull(("headers",)),
        EqualTo(TIME, None),
    ],
)
def test_what_cannot_be_done_exactly_is_left_to_spark_untouched(predicate):
    found, left = pushed(predicate)
    assert left == [predicate]
    assert found == Pushed()


# ---------------------------------------------------------------- routingKeyPattern


def topic_matches(pattern: list[str], words: list[str]) -> bool:
    """What a topic exchange does, word by word."""
    if not pattern:
        return not words
    if pattern[0] == "#":
        return topic_matches(pattern[1:], words) or bool(
            words and topic_matches(pattern, words[1:])
        )
    return bool(words) and pattern[0] in {"*", words[0]} and topic_matches(pattern[1:], words[1:])


@given(
    st.lists(st.sampled_from(["*", "#", "a", "b", "a+", ""]), min_size=1, max_size=5),
    st.lists(st.lists(st.sampled_from(["a", "b", "a+", "", "ä\n"]), max_size=5), min_size=1),
)
def test_a_pattern_keeps_what_a_topic_exchange_would(pattern, keys):
    text = ".".join(pattern)
    if not text:
        return
    found = for_pattern(text).filter
    # An empty key has no word; there is no way to write one empty word.
    texts = list(dict.fromkeys(".".join(words) for words in keys))
    batch = pa.RecordBatch.from_pydict({"routing_key": texts})
    by_broker = [
        key
        for key in texts
        if found.parameters.get("routing_key", key) == key
        and key.startswith(found.parameters.get("routing_key_prefix", ""))
    ]
    here = batch if found.expression is None else batch.filter(found.expression)
    kept = [key for key in here.column(0).to_pylist() if key in by_broker]
    assert kept == [key for key in texts if topic_matches(pattern, key.split(".") if key else [])]


def test_no_pattern_and_any_key_are_the_same():
    assert for_pattern(None) == for_pattern("#") == Pushed()


def test_a_pattern_and_a_predicate_go_together():
    found, left = push([StringStartsWith(KEY, "x.a")], for_pattern("x.*"))
    assert found.filter.parameters == {
        "routing_key_prefix": "x.",
        "filter": "routing_key STARTSWITH 'x.a'",
    }
    assert left == []
    keys = pa.RecordBatch.from_pydict({"routing_key": ["x.ab", "x.b", "x.a.c"]})
    assert keys.filter(found.filter.expression).to_pydict() == {"routing_key": ["x.ab", "x.b"]}
