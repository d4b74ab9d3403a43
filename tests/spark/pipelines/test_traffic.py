"""Figures of traffic, on a real Spark over tables made by hand."""

from datetime import UTC, datetime, timedelta

import pytest

pytest.importorskip("pyspark")

from tests.spark.fake import EPOCH_MS

from leporid.spark.errors import OptionError
from leporid.spark.pipelines.archive import archive
from leporid.spark.pipelines.origin import Origin
from leporid.spark.pipelines.traffic import (
    Traffic,
    TrafficPlan,
    late_after,
    measured,
    per_minute,
    seconds_of,
    sessions,
    top_keys,
)

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.timeout(300)]

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
COLUMNS = (
    "timestamp timestamp, exchange string, routing_key string, "
    "properties struct<timestamp: timestamp>, headers map<string, string>, body binary"
)


def message(seconds, key, size=10, *, sent=None, headers=None, exchange="x"):
    at = NOON + timedelta(seconds=seconds)
    return (at, exchange, key, (sent,), headers, b"." * size)


def frame(spark, *rows):
    return spark.createDataFrame(list(rows), COLUMNS)


def test_messages_are_counted_by_exchange_key_and_minute(spark):
    df = frame(
        spark,
        message(0, "a", 10),
        message(59.9, "a", 30),
        message(60, "a", 5),
        message(1, "b", 1),
        message(2, "a", 7, exchange="y"),
    )
    found = {
        (row.minute.minute, row.exchange, row.routing_key): (row.messages, row.bytes, row.bytes_max)
        for row in per_minute(measured(df)).collect()
    }
    assert found == {
        (0, "x", "a"): (2, 40, 30),
        (1, "x", "a"): (1, 5, 5),
        (0, "x", "b"): (1, 1, 1),
        (0, "y", "a"): (1, 7, 7),
    }


def test_delays_come_from_headers_or_the_timestamp_or_an_expression(spark):
    sent_ms = int(NOON.timestamp() * 1000)
    df = frame(
        spark,
        message(1, "header", headers={"x-sent-ms": str(sent_ms + 750)}),
        message(1, "rabbit", headers={"timestamp_in_ms": str(sent_ms + 900)}),
        message(1, "property", sent=NOON),
        message(1, "nothing"),
        message(1, "nonsense", headers={"x-sent-ms": "soon"}),
    )
    found = {row.routing_key: row.delay_ms for row in measured(df).collect()}
    assert found == {
        "header": 250.0,
        "rabbit": 100.0,
        "property": 1000.0,
        "nothing": None,
        "nonsense": None,
    }
    stated = measured(df, "timestamp - interval 2 seconds")
    assert {row.delay_ms for row in stated.collect()} == {2000.0}


def test_the_busiest_keys_have_their_share(spark):
    df = frame(spark, *[message(at, "a") for at in range(3)], message(9, "b"))
    first, second = top_keys(measured(df)).collect()
    assert (first.routing_key, first.messages, first.share) == ("a", 3, 0.75)
    assert (second.routing_key, second.rank) == ("b", 2)
    assert top_keys(measured(df), 1).count() == 1


def test_a_gap_ends_a_session(spark):
    df = frame(spark, *[message(at, "a.1") for at in (0, 60, 120, 1000)], message(5, "a.2"))
    found = sorted((row.key, row.messages, row.seconds) for row in sessions(measured(df)).collect())
    assert found == [("a.1", 1, 0.0), ("a.1", 3, 120.0), ("a.2", 1, 0.0)]
    by_word = sessions(measured(df), by="split(routing_key, '[.]')[0]").collect()
    assert sorted(row.messages for row in by_word) == [1, 4]


def test_a_streaming_query_closes_minutes_at_its_watermark(spark, broker, tmp_path):
    """Two runs over a growing stream: each minute comes out once, with all its messages."""
    broker.make("s")
    minute_us = 60_000_000

    def publish(*minutes):
        stamps = [EPOCH_MS * 1000 + minute * minute_us for minute in minutes]
        broker.append("s", len(stamps), timestamp=stamps)

    def run():
        stream = spark.readStream.format("leporid").options(url=broker.url, stream="s")
        begin = stream.option("startingOffsets", "earliest").load()
        counted = per_minute(late_after(measured(begin), "1 minute"))
        query = (
            counted.writeStream.option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start(str(tmp_path / "out"))
        )
        query.awaitTermination()
        rows = spark.read.parquet(str(tmp_path / "out")).collect()
        return sorted((row.minute.minute, row.messages) for row in rows)

    publish(0, 0, 1, 5)
    first = run()
    publish(5, 9, 20)
    last = run()
    assert first == [(0, 2), (1, 1)]
    assert last == [(0, 2), (1, 1), (5, 2), (9, 1)]


def run_of(spark, broker, place, archive=None, **more):
    plan = TrafficPlan(place, archive, **more)
    return Traffic(spark, Origin("s", {"url": broker.url}), plan)


def messages_of(spark, table):
    return spark.read.parquet(str(table)).groupBy().sum("messages").first()[0]


def test_the_report_covers_archive_and_live_stream(spark, broker, tmp_path):
    broker.make("s")
    broker.append("s", 100, routing_key=["<archived>"] * 100)
    archive(spark, "s", tmp_path / "a", options={"url": broker.url})
    broker.append("s", 20)
    run = run_of(spark, broker, tmp_path / "out", tmp_path / "a")
    assert (step := run.step()).rows == 120
    assert step.note == "report of 120"
    text = (tmp_path / "out" / "report.html").read_text()
    assert "<b>120</b><span>messages</span>" in text
    assert "&lt;archived&gt;" in text
    keys = spark.read.parquet(str(tmp_path / "out" / "top_keys")).collect()
    assert {row.routing_key: row.messages for row in keys} == {"<archived>": 100, "s": 20}


def test_a_report_reads_only_what_came_since_the_last_one(spark, broker, tmp_path):
    """From the stream, or from an archive that has gone on; killed between, or with others."""
    place, kept = tmp_path / "out", tmp_path / "a"
    broker.make("s")
    broker.append("s", 100)
    archive(spark, "s", kept, options={"url": broker.url})
    assert run_of(spark, broker, place, kept).step().rows == 100
    broker.append("s", 10)
    broker.calls.clear()
    assert run_of(spark, broker, place, kept).step().rows == 10
    assert broker.count("from=100&to=110") == 1
    assert broker.count("records") == 1
    # Retention removes what the archive has meanwhile, and nobody has counted.
    broker.append("s", 10)
    archive(spark, "s", kept, options={"url": broker.url})
    broker.cut("s", 120)
    broker.append("s", 5)
    (place / "counts" / "of-a-run-that-was-killed").mkdir()
    run = run_of(spark, broker, place, kept)
    step = run.step()
    assert (step.rows, step.lag, step.note) == (15, 0, "report of 125")
    assert messages_of(spark, place / "per_minute") == 125
    assert messages_of(spark, place / "sessions") == 125
    assert not (place / "counts" / "of-a-run-that-was-killed").exists()
    assert run.step().rows == 0
    # Counts of other sessions are of no use.
    assert run_of(spark, broker, place, kept, gap="1 hour", tables=False).step().rows == 125


def test_what_retention_removed_uncounted_is_no_end(spark, broker, tmp_path, caplog):
    broker.make("s")
    broker.append("s", 10)
    run = run_of(spark, broker, tmp_path / "out", tables=False)
    assert run.step().rows == 10
    broker.append("s", 10)
    broker.cut("s", 15)
    assert run.step().rows == 5
    assert "[10, 15) of partition 0 of stream 's' are gone" in caplog.text


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("1 minute", 60), ("1 hour 30 minutes", 5400), ("soon", 0), ("5", 0), ("0 seconds", 0)],
)
def test_lengths_of_time_are_read(text, seconds):
    assert seconds_of(text) == seconds


def test_a_gap_that_is_none_is_refused_before_spark_starts(broker, tmp_path):
    with pytest.raises(OptionError, match="gap = 'long': must be a time such as `10 seconds`"):
        run_of(None, broker, tmp_path, gap="long")


def test_what_does_not_fit_the_schema_of_an_archive_is_traffic_as_well(spark, broker, tmp_path):
    broker.make("s")
    broker.append("s", 5, body=[b'{"id": 1}', b"no", b"no", b'{"id": 2}', b""])
    archive(spark, "s", tmp_path / "a", options={"url": broker.url}, schema="id bigint")
    broker.append("s", 2, body=[b"no", b'{"id": 3}'])
    plan = TrafficPlan(tmp_path / "out", tmp_path / "a", tables=False)
    step = Traffic(spark, Origin("s", {"url": broker.url}), plan).step()
    assert (step.rows, step.note) == (7, "report of 7, 4 of them bad")
    text = (tmp_path / "out" / "report.html").read_text()
    assert "<b>4</b><span>do not fit the archive's schema</span>" in text
