"""Columns of a window, compared with what Python's own decoder says of each message."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.engine.stream_world import World

from leporid.amqp.properties import Properties, decode_properties, encode_properties
from leporid.amqp.tables import (
    ByteArray,
    Float32,
    Int8,
    LongString,
    Timestamp,
    UInt8,
    Value,
    decode_table,
)
from leporid.engine.tables.arrow import COLUMNS, PROPERTIES, columns_of
from leporid.engine.tables.chosen import Chosen
from leporid.management.tables import batch_of, schema_of

SECONDS_MAX = 253402300799


def rows_of(world: World, columns: tuple[str, ...] = COLUMNS, **filters: Any) -> list[dict]:
    with world.stream.window(0, world.stream.end, 10**6, 10**9) as window:
        chosen = Chosen(window, **filters)
        rows, built = columns_of(window, columns, stream="s", partition=3, chosen=chosen)
    batch = batch_of(schema_of(columns, {}), rows, built)
    batch.validate(full=True)
    found: list[dict] = batch.to_pylist()
    return found


def made(*messages: tuple[str, str, bytes, bytes]) -> World:
    """A stream of messages: exchange, key, properties, body."""
    world = World()
    for exchange, key, properties, body in messages:
        world.engine.publish([world.stream], exchange, key, properties, body)
    world.sync()
    return world


def text(value: str | bytes) -> str:
    """What a text becomes whatever its bytes are."""
    raw = value if isinstance(value, bytes) else value.encode("utf-8", "surrogateescape")
    return raw.decode("utf-8", "replace")


def as_json(value: Value) -> Any:
    """A value as `headers_json` should have it, read by a JSON parser."""
    match value:
        case Timestamp():
            return when(value) if value <= SECONDS_MAX else int(value)
        case str() | bytes():
            return text(value)
        case bool() | None | int() | float():
            return value
        case Decimal():
            return float(value)
        case list():
            return [as_json(each) for each in value]
        case dict():
            return {text(name): as_json(each) for name, each in value.items()}


def when(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ").rjust(20, "0")


raw_text = st.binary(max_size=20).map(lambda raw: raw.decode("utf-8", "surrogateescape"))
numbers = st.one_of(
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.integers(-128, 127).map(Int8),
    st.integers(0, 255).map(UInt8),
    st.integers(0, 2**64 - 1).map(Timestamp),
    st.integers(0, SECONDS_MAX).map(Timestamp),
    st.floats(allow_nan=False, allow_infinity=False),
    st.floats(allow_nan=False, allow_infinity=False, width=32).map(Float32),
)
texts = st.one_of(st.text(max_size=20), st.binary(max_size=20).map(ByteArray))
values = st.recursive(
    st.one_of(st.none(), numbers, texts),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4), st.dictionaries(st.text(max_size=5), inner, max_size=4)
    ),
    max_leaves=8,
)
properties = st.builds(
    Properties,
    content_type=st.none() | raw_text,
    headers=st.none() | st.dictionaries(st.text(max_size=10), values, max_size=4),
    delivery_mode=st.none() | st.integers(0, 255),
    priority=st.none() | st.integers(0, 255),
    correlation_id=st.none() | raw_text,
    timestamp=st.none() | st.integers(0, 2**64 - 1) | st.integers(0, SECONDS_MAX),
    type=st.none() | raw_text,
    cluster_id=st.none() | raw_text,
)


@settings(max_examples=150)
@given(st.lists(st.tuples(st.text(max_size=5), st.text(max_size=5), properties, st.binary())))
def test_columns_say_what_the_messages_say(messages):
    world = made(*((e, k, encode_properties(p), body) for e, k, p, body in messages))
    rows = rows_of(world)
    assert len(rows) == len(messages)
    for at, (row, (exchange, key, given_properties, body)) in enumerate(
        zip(rows, messages, strict=True)
    ):
        said = decode_properties(encode_properties(given_properties))
        assert (row["stream"], row["partition"], row["offset"]) == ("s", 3, at)
        assert (row["exchange"], row["routing_key"], row["body"]) == (exchange, key, body)
        for name in PROPERTIES:
            value = getattr(said, name)
            found = row["properties"][name]
            if name == "timestamp":
                value = value if value is not None and value <= SECONDS_MAX else None
                found = None if found is None else int(found.timestamp())
            assert found == (text(value) if isinstance(value, str) else value), name
        if said.headers is None:
            assert row["headers"] is None
            assert row["headers_json"] is None
            continue
        parsed = json.loads(row["headers_json"], parse_constant=pytest.fail)
        assert list(parsed) == list(said.headers)
        assert parsed == {name: as_json_exactly(each) for name, each in said.headers.items()}
        for (name, shown), (known, value) in zip(row["headers"], said.headers.items(), strict=True):
            assert name == known
            check_value(shown, value)


def check_value(shown: str | None, value: Value) -> None:
    match value:
        case None:
            assert shown is None
        case bool():
            assert shown == str(value).lower()
        case Timestamp() if value <= SECONDS_MAX:
            assert shown == when(value)
        case int():
            assert shown == str(int(value))
        case float():
            assert shown is not None
            assert float(shown) == pytest.approx(value, rel=1e-6 if type(value) is Float32 else 0)
        case str() | bytes():
            assert shown == text(value)
        case _:
            assert shown is not None
            assert json.loads(shown) == as_json_exactly(value)


def as_json_exactly(value: Value) -> Any:
    """Floats of 32 bits have a shorter text than the same number with 64."""
    if type(value) is Float32:
        return pytest.approx(float(value), rel=1e-6)
    if isinstance(value, list):
        return [as_json_exactly(each) for each in value]
    if isinstance(value, dict):
        return {name: as_json_exactly(each) for name, each in value.items()}
    return as_json(value)


@settings(max_examples=300)
@given(st.binary(max_size=40))
def test_broken_text_is_replaced_as_python_does(raw):
    headers: dict[str, Value] = {"h": LongString(raw)}
    world = made(("", "", encode_properties(Properties(headers=headers)), b""))
    (row,) = rows_of(world)
    assert row["headers"] == [("h", raw.decode("utf-8", "replace"))]
    assert json.loads(row["headers_json"]) == {"h": raw.decode("utf-8", "replace")}


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (1.0, "1.0"),
        (1e22, "1e+22"),
        (0.1, "0.1"),
        (-0.0, "-0.0"),
        (Float32(0.1), "0.1"),
        (Decimal("1.50"), "1.50"),
        (Decimal("-0.001"), "-0.001"),
        (Decimal(7), "7"),
        (Timestamp(951782400), "2000-02-29T00:00:00Z"),
        (Timestamp(SECONDS_MAX), "9999-12-31T23:59:59Z"),
        (Timestamp(SECONDS_MAX + 1), "253402300800"),
        ([1, "a", None, {"b": True}], '[1,"a",null,{"b":true}]'),
        ('a"\\\n\x01', 'a"\\\n\x01'),
        (['a"\\\n\x01\x0b'], '["a\\"\\\\\\n\\u0001\\u000b"]'),
    ],
)
def test_values_as_text(value: Value, shown: str):
    world = made(("", "", encode_properties(Properties(headers={"h": value})), b""))
    assert rows_of(world, ("headers",)) == [{"headers": [("h", shown)]}]


def test_of_a_header_that_stands_twice_the_first_counts():
    fields = b"\x01at\x01" + b"\x01bt\x00" + b"\x01aI\0\0\0\x05"
    table = len(fields).to_bytes(4, "big") + fields
    assert decode_table(table)[0] == {"a": True, "b": False}
    world = made(("", "", b"\x20\0" + table, b""))
    assert rows_of(world, ("headers",)) == [{"headers": [("a", "true"), ("b", "false")]}]


def test_a_column_that_does_not_exist():
    with pytest.raises(ValueError, match="no column 'bodie'; there are stream"):
        rows_of(made(), ("body",)) or columns_of(
            made().stream.window(0, 0, 1, 1), ["bodie"], stream="s"
        )


def test_no_messages_are_columns_without_rows():
    assert rows_of(made()) == []
