"""Batches of JSON without Spark; that Spark says the same is in test_tasks.py."""

from datetime import UTC, date, datetime

import pyarrow as pa
import pytest

from leporid.spark.pipelines.json_batches import decoded, struct_of

SCHEMA = (
    "id bigint, n tinyint, name string, ok boolean, x double, day date, at timestamp, "
    "`in` struct<a: int, at: timestamp>, tags array<string>"
)


def rows(*bodies, schema=SCHEMA):
    columns = struct_of(schema)
    assert columns is not None
    found = decoded(pa.array(bodies, pa.binary()), columns)
    return None if found is None else found.to_pylist()


def test_each_body_becomes_the_row_of_its_number():
    found = rows(
        b'{"id": 1, "n": -7, "name": "\\u00e9\\n", "ok": true, "x": 1, "tags": ["a", null]}',
        b' {"in": {"a": 3, "at": "2026-01-02 03:04:05.5", "more": [1]}, "unknown": {"id": 9}}\n',
        b"{}",
        b'{"day": "2026-02-28",\n "at": "2026-01-02T03:04:05Z", "id": null}',
    )
    names = [field.name for field in struct_of(SCHEMA) or ()]
    empty = dict.fromkeys(names)
    moment = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    assert found == [
        empty | {"id": 1, "n": -7, "name": "é\n", "ok": True, "x": 1.0, "tags": ["a", None]},
        empty | {"in": {"a": 3, "at": moment.replace(microsecond=500_000)}},
        empty,
        empty | {"day": date(2026, 2, 28), "at": moment},
    ]


@pytest.mark.parametrize(
    "body",
    [
        None, b"", b" ", b"nope", b"[]", b"[1]", b"7", b"null", b'"{}"', b"\xff",
        b'{"name": "\xff"}',
        b'{"id": 1', b'{"id": 1}{"id": 2}', b'{"id": 1} {"id": 2}', b'{"id": 1}\n{"id": 2}',
        b'{"id": 1} x {"id": 2}', b'{"id": 01}', b'{"id": 1.5}', b'{"id": 9223372036854775808}',
        b'{"id": "1"}', b'{"id": true}', b'{"n": 128}', b'{"name": 1}', b'{"name": {"a": 1}}',
        b'{"ok": "true"}', b'{"x": NaN}', b'{"x": -Infinity}', b'{"y": NaN}', b'{"x": 1e999}',
        b'{"id": 1, "id": 2}', b'{"in": [1]}', b'{"tags": "a"}', b"{'id': 1}", b'{"id": 1,}',
        b'{"at": "2026-01-02"}', b'{"at": 7}', b'{"at": "2026-13-02T03:04:05"}',
        b'{"at": "2026-01-02T03:04:05+01:00"}', b'{"day": "0001-01-01"}', b'{"day": "2026-02-30"}',
        b'{"in": {"at": "now"}}', b'{"name": "\\ud800"}', b'{"name": "a\nb"}', b"{}}", b"{{}",
    ],
)  # fmt: skip
def test_what_is_not_certain_is_left_to_others(body):
    good = b'{"id": 1}'
    assert rows(body) is None
    assert rows(good, body, good) is None


@pytest.mark.parametrize(
    "bodies",
    [
        # As many values as bodies, but not each in its own.
        [b'{"id": 1}{"id": 2}', b""],
        [b'{"id": 1}{"id": 2}', b" "],
        [b'{"id": 1}{"id": 2}', b'{"in": {"a": 1}', b"}"],
        [b'{"id": 1}{"id": 2}', b'{"in": {"a": 1}', b'{"b": 2}}'],
        [b'{"id": 1}{"id": 2}', b'{"tags": [{}', b"{}]}"],
        [b'{"id": 1}{"id": 2}', b'{"name": "{}', b'{}"}'],
    ],
)
def test_no_body_takes_another_ones_row(bodies):
    assert rows(*bodies) is None


@pytest.mark.parametrize(
    "schema",
    ["a decimal(10,2)", "a map<string, int>", "a float", "a array<date>", "a binary", "", "a"],
)
def test_other_types_are_left_to_others(schema):
    assert struct_of(schema) is None


def test_nothing_makes_nothing():
    assert rows() in (None, [])
