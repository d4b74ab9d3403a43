import datetime as dt
import io
import json
import tracemalloc
from decimal import Decimal

import pytest

pytest.importorskip("fastavro")

import fastavro

from leporid.spark.errors import OptionError
from leporid.spark.pipelines.bodies import avro
from leporid.spark.pipelines.bodies.avro import AvroDecoder, columns_of
from leporid.spark.pipelines.bodies.columns import arrow_of
from leporid.spark.pipelines.bodies.schemas import AVRO, Schema


def schema(*fields, references=(), name="shop.Order"):
    made = {"type": "record", "name": name, "fields": list(fields)}
    return Schema(AVRO, json.dumps(made).encode(), name, references)


def field(name, type_, **more):
    return {"name": name, "type": type_, **more}


def body(written, value):
    file = io.BytesIO()
    fastavro.schemaless_writer(file, json.loads(written.content), value)
    return file.getvalue()


def decoded(writer, reader, *bodies):
    found, bad = AvroDecoder(writer, reader, arrow_of(columns_of(reader))).decode(bodies)
    return found.to_pylist(), bad


V1 = schema(field("id", "int"), field("name", "string"), field("old", "string"))
V2 = schema(
    field("title", ["null", "string"], aliases=["name"]),
    field("id", "long"),
    field("more", "double", default=1.5),
)


def test_what_is_read_is_the_writers_schema_resolved_against_the_readers():
    written = body(V1, {"id": 7, "name": "n", "old": "x"})
    assert decoded(V1, V2, written) == ([{"title": "n", "id": 7, "more": 1.5}], {})


def test_a_body_that_is_cut_or_too_long_is_bad_and_the_others_are_not():
    good = body(V1, {"id": 1, "name": "n", "old": ""})
    found, bad = decoded(V1, V1, good, good[:-2], good + b"x", b"", good)
    assert [row is not None for row in found] == [True, False, False, False, True]
    assert sorted(bad) == [1, 2, 3]
    assert bad[2] == "not Avro: 1 bytes are left over"


def test_the_objects_of_few_bodies_are_in_memory_at_once(monkeypatch):
    monkeypatch.setattr(avro, "PORTION_BYTES_MAX", 16_384)
    inner = {"type": "array", "items": "int"}
    item = {"type": "record", "name": "R", "fields": [field("x", inner)]}
    written = schema(field("a", {"type": "array", "items": item}))
    large = body(written, {"a": [{"x": []}] * 6_000})
    bodies = [large, b"cut", *[large] * 20]
    decoder = AvroDecoder(written, None, arrow_of(columns_of(written)))
    tracemalloc.start()
    try:
        found, bad = decoder.decode(bodies)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    # All at once, they are 250 times the bytes of the bodies.
    assert peak < 12 * 2**20 < 200 * sum(map(len, bodies))
    assert [found[at].is_valid for at in (0, 1, 2, 21)] == [True, False, True, True]
    assert list(bad) == [1]
    assert len(found) == len(bodies)


def test_schemas_that_do_not_resolve_make_bodies_bad():
    other = schema(field("id", "string"))
    _, bad = decoded(other, V1, body(other, {"id": "x"}))
    assert bad[0].startswith("not Avro: ")


def test_types_and_logical_types_are_columns():
    union = ["null", "string", "long"]
    kinds = {
        "at": ({"type": "long", "logicalType": "timestamp-millis"}, "timestamp"),
        "day": ({"type": "int", "logicalType": "date"}, "date"),
        "local": ({"type": "long", "logicalType": "local-timestamp-micros"}, "timestamp_ntz"),
        "price": (
            {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
            "decimal(9,2)",
        ),
        "of_day": ({"type": "int", "logicalType": "time-millis"}, "int"),
        "key": ({"type": "string", "logicalType": "uuid"}, "string"),
        "raw": ({"type": "fixed", "name": "F", "size": 2}, "binary"),
        "state": ({"type": "enum", "name": "E", "symbols": ["A", "B"]}, "string"),
        "counts": ({"type": "map", "values": ["null", "long"]}, "map<string,bigint>"),
        "lines": (
            {"type": "array", "items": json.loads(schema(field("n", union), name="L").content)},
            [{"n": "string"}],
        ),
    }  # fmt: skip
    made = schema(*(field(name, type_) for name, (type_, _) in kinds.items()))
    assert columns_of(made) == {name: kind for name, (_, kind) in kinds.items()}
    value = {
        "at": dt.datetime(2026, 1, 1, tzinfo=dt.UTC),
        "day": dt.date(2026, 1, 1),
        "local": dt.datetime(2026, 1, 1, 12),  # noqa: DTZ001 - a local time
        "price": Decimal("1.50"),
        "of_day": dt.time(0, 0, 2),
        "key": "6e8bc430-9c3a-11d9-9669-0800200c9a66",
        "raw": b"\0\1",
        "state": "B",
        "counts": {"a": 1, "b": None},
        "lines": [{"n": "x"}, {"n": 5}, {"n": None}],
    }
    (found,), bad = decoded(made, made, body(made, value))
    assert bad == {}
    assert found | {"counts": dict(found["counts"])} == value | {
        "of_day": 2000,
        "lines": [{"n": "x"}, {"n": "5"}, {"n": None}],
    }


def test_a_referenced_type_is_found():
    inner = schema(field("x", "int"), name="shop.Inner")
    outer = schema(field("in", "shop.Inner"), references=(("shop.Inner", inner),))
    assert columns_of(outer) == {"in": {"x": "int"}}


@pytest.mark.parametrize(
    ("made", "told"),
    [
        (schema(field("next", ["null", "shop.Order"])), "is recursive"),
        (schema(field("a", {"type": "array", "items": "null"})), "items without content"),
        (
            schema(
                field(
                    "a",
                    {
                        "type": "array",
                        "items": json.loads(
                            schema(
                                field("n", "null"),
                                field("m", json.loads(schema(name="M").content)),
                                name="L",
                            ).content
                        ),
                    },
                )
            ),
            "items without content",
        ),
        (
            schema(
                field("a", {"type": "array", "items": {"type": "fixed", "name": "F", "size": 0}})
            ),
            "items without content",
        ),
        (
            schema(
                field("a", {"type": "bytes", "logicalType": "decimal", "precision": 39, "scale": 2})
            ),
            "at most 38 digits",
        ),
        (schema(field("a", "lang")), "is no schema of Avro: there is no type 'shop.lang'"),
        (Schema(AVRO, b'"string"', "s"), "is no record"),
        (Schema(AVRO, b"[]", "s"), "is no "),
        (Schema(AVRO, b"7", "s"), "is no "),
    ],
)
def test_schemas_that_cannot_be_followed_are_refused(made, told):
    with pytest.raises(OptionError, match=told):
        columns_of(made)
