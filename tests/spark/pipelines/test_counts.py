"""Counts in parts and at once, on a real Spark over tables made by hand."""

import json
from datetime import timedelta

import pytest

pytest.importorskip("pyspark")

from tests.spark.pipelines.test_traffic import NOON, frame, message

from leporid.spark.offsets import Key, Position
from leporid.spark.pipelines.counts import (
    SESSIONS,
    Counts,
    coarser,
    columns_of,
    counted,
    joined_sessions,
)
from leporid.spark.pipelines.table import with_reason
from leporid.spark.pipelines.traffic import delays, measured, per_minute, sessions, sizes, totals

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.timeout(300)]

SENT_MS = int(NOON.timestamp() * 1000)
SETTINGS = {"stream": "s"}


def counts_of(df, every="1 second"):
    return counted(with_reason(measured(df)), every)


def ends(offset):
    return {Key("s", 0): Position(offset, "i", 0)}


def delayed(seconds, key, delay_ms):
    sent = SENT_MS + int(seconds * 1000) - delay_ms
    return message(seconds, key, headers={"x-sent-ms": str(sent)})


def test_sizes_are_in_classes_of_powers_of_two(spark):
    df = frame(spark, *[message(0, "a", size) for size in (0, 1, 2, 3, 4, 5, 1024)])
    found = {row.upto: row.messages for row in sizes(counts_of(df)).collect()}
    assert found == {1: 2, 2: 1, 4: 2, 8: 1, 1024: 1}


def test_figures_of_counts_are_those_of_messages(spark):
    df = frame(
        spark,
        *[delayed(at, "a", 100 + at) for at in range(100)],
        message(200, "b", 5),
    )
    exact = {(row.minute, row.routing_key): row for row in per_minute(measured(df)).collect()}
    found = per_minute(counts_of(df), column="at").collect()
    assert len(found) == len(exact) == 3
    for row in found:
        true = exact[row.minute, row.routing_key]
        for name in ("messages", "bytes", "bytes_mean", "bytes_max", "delay_ms_max"):
            assert row[name] == true[name]
        for name in ("delay_ms_p50", "delay_ms_p99"):
            assert row[name] == (pytest.approx(true[name], rel=0.05) if true[name] else None)


def test_delays_of_clocks_that_disagree_are_of_the_least_class(spark):
    df = frame(spark, delayed(0, "a", -500), delayed(1, "a", 1), delayed(2, "a", 3))
    found = {row.upto: row.messages for row in delays(counts_of(df)).collect()}
    # Records have times in whole milliseconds: what is below one is no class to be shown.
    assert found == {1: 2, 4: 1}
    assert totals(counts_of(df)).first().delay_ms_max == 3


def test_sessions_of_parts_are_those_of_the_whole(spark):
    """Also where a session ends exactly when the gap does."""
    minutes = [0, 1, 6, 12, 12.01, 16, 21, 26.001, 40]
    rows = [message(60 * at, "a") for at in minutes]
    rows += [message(60 * at, "b") for at in (3, 9)]

    def found(df):
        columns = ("key", "messages", "bytes", "started_at", "ended_at")
        return sorted(tuple(row[name] for name in columns) for row in df.collect())

    names = columns_of(SESSIONS)
    whole = found(sessions(measured(frame(spark, *rows))))
    parts = None
    for at in range(3):
        part = sessions(measured(frame(spark, *rows[at::3]))).select(*names)
        parts = part if parts is None else parts.union(part)
    assert found(joined_sessions(parts, "5 minutes")) == whole
    assert len(whole) == 6


def test_old_seconds_become_minutes(spark):
    hours = frame(spark, *[message(at, "a") for at in (1, 2, 59, 61, 7199, 7200)])
    kept = coarser(counts_of(hours), None).orderBy("at").collect()
    seconds = [(row.first.replace(tzinfo=None), row.messages) for row in kept]
    first = NOON.replace(tzinfo=None) + timedelta(seconds=1)
    assert [messages for _, messages in seconds] == [3, 1, 1, 1]
    assert seconds[0][0] == first
    assert coarser(counts_of(hours), "1 second").count() == 6


def test_parts_are_kept_and_merged(spark, tmp_path):
    one, other = frame(spark, message(0, "a"), message(1, "b")), frame(spark, message(60, "a"))
    known = Counts.load(tmp_path, SETTINGS)
    for at, df in enumerate((one, other), 1):
        busy = sessions(measured(df)).select(*columns_of(SESSIONS))
        assert known.add(counts_of(df), busy, ends(at)) == 3 - at
    again = Counts.load(tmp_path, SETTINGS)
    assert (again.ends, again.messages, len(again.parts)) == (ends(2), 3, 2)
    counts, busy = again.read(spark)
    assert totals(counts).first().messages == 3
    again.merge(coarser(counts, None), joined_sessions(busy, "5 minutes"))
    counts, busy = Counts.load(tmp_path, SETTINGS).read(spark)
    assert (totals(counts).first().messages, busy.count()) == (3, 2)
    assert len([path for path in tmp_path.iterdir() if path.is_dir()]) == 1


@pytest.mark.parametrize("content", ["", "[]", json.dumps({"version": 2})])
def test_a_manifest_that_cannot_be_read_is_none(tmp_path, content):
    (tmp_path / "manifest.json").write_text(content)
    assert Counts.load(tmp_path, SETTINGS).parts == []
