import json
from decimal import Decimal

import pytest

from leporid.spark.errors import OptionError
from leporid.spark.pipelines.bodies.columns import struct_of
from leporid.spark.pipelines.bodies.json_values import JsonDecoder, columns_of
from leporid.spark.pipelines.bodies.schemas import JSON, Schema
from leporid.spark.pipelines.decoding import decode


def schema(value, references=()):
    return Schema(JSON, json.dumps(value).encode(), "1", references)


def decoded(columns, *bodies, checked=None):
    found, bad = JsonDecoder(struct_of(columns), checked).decode(bodies)
    return found.to_pylist(), bad


def test_a_body_is_an_object_whose_fields_fit():
    bodies = [b'{"a": 1, "c": 2}', b"{}", b'{"a": null}', b"", b"[]", b"nope", b'{"a": "x"}', b"1"]
    rows, bad = decoded("a int", *bodies)
    assert rows == [{"a": 1}, {"a": None}, {"a": None}, None, None, None, None, None]
    assert bad == {
        3: "the body is empty",
        4: "does not fit the schema",
        5: "not JSON",
        6: "does not fit the schema",
        7: "does not fit the schema",
    }


def test_what_is_nested_too_deep_or_no_number_of_json_is_bad():
    _, bad = decoded("a string", b'{"a": ' + b"[" * 100_000, b'{"a": NaN}', b'{"a": "\xff"}')
    assert bad == dict.fromkeys(range(3), "not JSON")


@pytest.mark.parametrize("columns", ["a string", "a string, d decimal(9,2)"])
def test_a_body_nested_as_deep_as_can_be_read_leaves_the_others(columns):
    # How deep that is depends on the stack above: one of these can be read and not be written.
    deep = [b'{"a": ' + b"[" * depth + b"]" * depth + b"}" for depth in range(900, 1000)]
    rows, bad = decoded(columns, *deep, b'{"a": "x"}')
    assert rows[-1]["a"] == "x"
    assert {*bad.values()} == {"does not fit the schema", "not JSON"}


def test_a_text_that_is_no_text_is_bad_wherever_it_is():
    bodies = [rb'{"a": "\ud800"}', rb'{"\ud800": 1}', b'{"a": "x"}']
    for checked in (None, schema({"properties": {"a": {}}})):
        rows, bad = decoded("a string", *bodies, checked=checked)
        assert rows[2] == {"a": "x"}
        assert bad[0].startswith("does not fit the schema")
    assert 1 in bad


def test_decimals_are_exact_and_of_bounded_size():
    numbers = [
        "1.1" + "0" * 90, '"2.5"', "3", "0e-999999999", "1e999999999", "1e-999999999",
        '"1e999999999"', '"NaN"', '"-Infinity"', "true",
    ]  # fmt: skip
    rows, bad = decoded("d decimal(9,2)", *(f'{{"d": {each}}}'.encode() for each in numbers))
    assert [row and row["d"] for row in rows[:4]] == [
        Decimal("1.10"), Decimal("2.50"), Decimal(3), Decimal(0),
    ]  # fmt: skip
    assert bad == dict.fromkeys(range(4, 10), "does not fit the schema")


def test_a_number_in_a_text_beside_a_decimal_stays_a_number():
    rows, _ = decoded("d decimal(9,2), a string", b'{"d": 0.1, "a": {"x": 1.5}}')
    assert rows == [{"d": Decimal("0.10"), "a": '{"x":1.5}'}]


ORDER = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "type": "object",
    "required": ["id"],
    "properties": {
        "id": {"type": "integer", "minimum": 1},
        "name": {"type": ["string", "null"], "pattern": "^[a-z]*$"},
        "price": {"oneOf": [{"type": "null"}, {"type": "number"}]},
        "lines": {"type": "array", "items": {"$ref": "#/definitions/line"}},
        "counts": {"type": "object", "additionalProperties": {"type": "integer"}},
        "either": {"anyOf": [{"type": "integer"}, {"type": "string"}]},
        "large": {"type": "integer", "maximum": 2**70},
        "any": {},
        "open": {"type": "object"},
        "loop": {"$ref": "#/definitions/loop"},
    },
    "definitions": {
        "line": {"properties": {"n": {"type": "boolean"}}},
        "loop": {"$ref": "#/definitions/loop"},
    },
}


def test_a_schema_makes_columns_of_what_has_one_type():
    assert columns_of(schema(ORDER)) == {
        "id": "bigint",
        "name": "string",
        "price": "double",
        "lines": [{"n": "boolean"}],
        "counts": "map<string,bigint>",
        "either": "string",
        "large": "string",
        "any": "string",
        "open": "string",
        "loop": "string",
    }


def test_bodies_are_checked_against_their_schema():
    bodies = [b'{"id": 1, "either": 5}', b'{"id": 0}', b"{}", b'{"id": 1, "name": "A"}']
    rows, bad = decoded("id bigint, either string", *bodies, checked=schema(ORDER))
    assert rows == [{"id": 1, "either": "5"}, None, None, None]
    assert [bad[at].partition(": ")[2].partition(": ")[0] for at in (1, 2, 3)] == [
        "id", "the body", "name",
    ]  # fmt: skip


def test_what_a_schema_refers_to_is_given_and_never_fetched():
    inner = schema({"type": "object", "properties": {"n": {"type": "integer"}}})
    outer = {"type": "object", "properties": {"in": {"$ref": "inner.json"}}}
    given = schema(outer, (("inner.json", inner),))
    assert columns_of(given) == {"in": {"n": "bigint"}}
    _, bad = decoded("in struct<n: bigint>", b'{"in": {"n": "x"}}', checked=given)
    assert "in/n" in bad[0]
    with pytest.raises(OptionError, match="is not a JSON Schema"):
        columns_of(schema({"properties": {"a": {"$ref": "http://127.0.0.1:9/x.json"}}}))


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ({"type": "string"}, "is no object with properties"),
        (True, "is no object with properties"),
        ({"type": 7}, "is not a JSON Schema"),
        ({"properties": {"a": {"pattern": "("}}}, "is not a JSON Schema"),
        # Such a pattern is looked for in a time without bounds.
        ({"properties": {"a": {"pattern": "(a)\\1"}}}, "is not a JSON Schema"),
    ],
)
def test_what_makes_no_columns_is_refused(value, told):
    with pytest.raises(OptionError, match=told):
        columns_of(schema(value))


SAME_IN_SPARK = [
    b'{"i": 1, "d": 2, "t": "a", "b": true, "n": 1.25, "s": {"x": 1}}',
    b'{"l": [1, null], "m": {"k": 1}}',
    b'{"i": 1.0}', b'{"i": "1"}', b'{"i": true}', b'{"i": 9223372036854775808}',
    b'{"d": "1.5"}', b'{"d": true}', b'{"d": 1e3}', b'{"d": "NaN"}',
    b'{"b": "true"}', b'{"b": 1}', b'{"t": 1}', b'{"t": [1,2]}', b'{"t": {"a":1}}', b'{"t": true}',
    b'{"n": 1}', b'{"n": "1.25"}', b'{"n": 123456789.125}', b'{"n": 1.255}',
    b'{"at": "2026-01-01T00:00:00Z"}', b'{"at": "2026-01-01T01:00:00+01:00"}', b'{"at": 5}',
    b'{"at": "never"}', b'{"day": "2026-01-01"}', b'{"day": "x"}', b'{"bin": "AAE="}',
    b'{"s": 1}', b'{"s": {"x": "1"}}', b'{"l": 1}', b'{"l": ["1"]}', b'{"m": {"k": "1"}}',
    b"{}", b"", b"[]", b"nope", b"7", b"null", b'{"i": null}', b'{"other": 1}',
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.timeout(300)
def test_what_fits_is_what_fits_in_spark(spark):
    columns = "i bigint, d double, t string, b boolean, n decimal(9,2), at timestamp, day date, "
    columns += "bin binary, s struct<x: bigint>, l array<bigint>, m map<string, bigint>"
    df = spark.createDataFrame(
        [(at, body) for at, body in enumerate(SAME_IN_SPARK)], "n int, body binary"
    )
    found = decode(df, columns).orderBy("n").select("value", "reason").toArrow()
    rows, bad = decoded(columns, *SAME_IN_SPARK)
    values, reasons = (found.column(name).to_pylist() for name in ("value", "reason"))
    # As text: NaN is not equal to itself.
    different = [
        (body, mine, theirs)
        for at, body in enumerate(SAME_IN_SPARK)
        if (mine := str(bad.get(at) or rows[at])) != (theirs := str(reasons[at] or values[at]))
    ]
    assert different == []
