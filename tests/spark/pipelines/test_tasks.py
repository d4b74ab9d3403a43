"""What tasks write; how archives behave is in test_archive.py."""

import pyarrow as pa
import pytest

from leporid.spark.pipelines import json_batches
from leporid.spark.pipelines.decoding import REASON, decode
from leporid.spark.pipelines.tasks import tasks_for


def test_a_step_has_as_many_tasks_as_cores_if_it_is_worth_it():
    assert [tasks_for(rows, 4) for rows in (1, 20_000, 20_001, 10**6)] == [1, 1, 2, 4]


SCHEMA = (
    "id bigint, n smallint, name string, ok boolean, x double, day date, at timestamp, "
    "`in` struct<a: int, b: string>, tags array<string>, many array<double>"
)
BODIES = [
    b'{"id": 1}', b"{}", b" { }\n", b'{"id": -0}', b'{"id": 9223372036854775807}', b'{"id": 1e3}',
    b'{"id": 1.0}', b'{"id": "1"}', b'{"n": 32768}', b'{"name": "\\u00e9\\t\\"\\/"}',
    b'{"name": 1}',
    b'{"name": "\xc3\xa9\xf0\x9f\x90\xb0"}', b'{"ok": false, "ok2": 1}', b'{"ok": 0}',
    b'{"x": 1}', b'{"x": 0.1}', b'{"x": 1e-320}', b'{"x": 123456789012345678901234567890}',
    b'{"x": 4.35}', b'{"x": 1e400}', b'{"x": NaN}', b'{"x": "NaN"}', b'{"x": -0.0}',
    b'{"day": "2026-02-28"}', b'{"day": "2024-02-29"}', b'{"day": "1970-01-01"}', b'{"day": "x"}',
    b'{"at": "2026-01-02T03:04:05"}', b'{"at": "2026-01-02 03:04:05.123456Z"}',
    b'{"at": "1969-12-31T23:59:59.5Z"}', b'{"at": "2026-01-02T03:04:05+02:00"}', b'{"at": 1}',
    b'{"at": "2026-01-02T03:04:60"}', b'{"in": {"a": 1, "b": "x", "c": [{}]}}', b'{"in": {}}',
    b'{"in": null, "tags": null}', b'{"in": []}', b'{"tags": []}', b'{"tags": ["a", null, ""]}',
    b'{"many": [1, 2.5, null]}', b'{"many": [[1]]}', b'{"more": [1, {"id": 2}], "id": 3}',
    b'{"id": 1,\n "name": "b"}', b'{"id": 1}{"id": 2}', b'{"id": 1} x', b"[1]", b"", b"null",
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.timeout(300)
def test_what_arrow_is_certain_of_spark_says_too_in_any_zone(spark):
    rows = spark.createDataFrame(list(enumerate(BODIES)), "number int, body binary")
    zone = "spark.sql.session.timeZone"
    before = spark.conf.get(zone)
    spark.conf.set(zone, "Asia/Tokyo")
    try:
        found = decode(rows, SCHEMA).orderBy("number").select("value", REASON).toArrow()
    finally:
        spark.conf.set(zone, before)
    columns = json_batches.struct_of(SCHEMA)
    certain = {}
    for at, body in enumerate(BODIES):
        value = json_batches.decoded(pa.array([body], pa.binary()), columns)
        if value is not None:
            certain[at] = value.to_pylist()[0]
    spark_says = {at: found.column("value")[at].as_py() for at in certain}
    assert certain == spark_says
    assert {at for at in certain if found.column(REASON)[at].as_py() is not None} == set()
    assert len(certain) > 25
