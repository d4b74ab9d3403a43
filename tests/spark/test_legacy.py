"""What Spark 3.5 reads with, on whichever PySpark is installed; `make test-sparks` has 3.5."""

import json
import shutil
from pathlib import Path

import pytest

from leporid.spark import features
from leporid.spark.errors import BrokerError, OptionError
from leporid.spark.legacy import Checkpoint, foreach_batch_source, read_stream_batch

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(300)]


def offsets_of(frame):
    return sorted(row.offset for row in frame.select("offset").collect())


@pytest.fixture
def orders(broker):
    broker.make("orders", partitions=2)
    broker.append("orders", 100, partition=0)
    broker.append("orders", 300, partition=1)
    return broker


@pytest.fixture
def source(orders, tmp_path):
    """Make sources over the stream, all with one checkpoint."""

    def make(function, **given):
        options = {"url": orders.url, "stream": "orders", "retryTimeout": "2s", **given}
        columns = ["partition", "offset", "body"]
        return foreach_batch_source(function, checkpoint=tmp_path, columns=columns, **options)

    return make


class Seen:
    """A function that notes its batches."""

    def __init__(self):
        self.batches = []

    def __call__(self, frame, number):
        self.batches.append((number, frame.count()))


def test_a_batch_has_all_columns_or_those_that_are_named(spark_session, orders):
    frame = read_stream_batch(spark_session, url=orders.url, stream="orders", minPartitions=4)
    assert frame.rdd.getNumPartitions() == 4
    assert frame.count() == 400
    row = frame.where("partition = 1 and `offset` = 7").collect()[0].asDict(recursive=True)
    assert row["headers"] == {"h": "1"}
    assert row["properties"]["content_type"] == "text/plain"
    assert row["timestamp"].isoformat() == "2026-01-01T00:00:00.007000"
    some = read_stream_batch(
        spark_session, ["body"], url=orders.url, stream="orders", startingOffsets="earliest",
        endingOffsets='{"orders": {"0": 3, "1": 0}}',
    )  # fmt: skip
    assert some.collect() == [(b"0",), (b"1",), (b"2",)]
    orders.make("empty")
    empty = read_stream_batch(spark_session, url=orders.url, stream="empty")
    assert empty.schema == frame.schema
    assert empty.collect() == []


def test_a_queue_is_read_as_well(spark_session, broker):
    broker.queues["jobs"] = [1, 2, 3]
    frame = read_stream_batch(spark_session, ["body", "state"], url=broker.url, queue="jobs")
    assert frame.collect() == [(b"1", "ready"), (b"2", "ready"), (b"3", "ready")]


def test_what_is_wrong_shows_at_the_call(orders, tmp_path):
    given = {"url": orders.url, "stream": "orders"}
    with pytest.raises(OptionError, match="no column 'bodi'; did you mean \"body\""):
        read_stream_batch(None, ["bodi"], **given)
    with pytest.raises(OptionError, match="no stream 'ordres'"):
        read_stream_batch(None, **given | {"stream": "ordres"})
    with pytest.raises(OptionError, match='did you mean "maxOffsetsPerTrigger"'):
        read_stream_batch(None, maxOffsetPerTrigger=5, **given)
    with pytest.raises(OptionError, match="a streaming query has no end"):
        foreach_batch_source(print, checkpoint=tmp_path, endingOffsets="latest", **given)
    orders.forbidden.add("orders")
    with pytest.raises(BrokerError, match="403"):
        read_stream_batch(None, **given)


def test_all_there_is_now_comes_in_portions(spark_session, orders, source):
    seen = Seen()
    given = {"startingOffsets": "earliest", "maxOffsetsPerTrigger": 150, "readerName": "late"}
    assert source(seen, **given).read_available(spark_session) == 3
    assert seen.batches == [(0, 150), (1, 150), (2, 100)]
    assert source(seen, **given).read_available(spark_session) == 0
    assert orders.readers["orders", 1, "late"] == 300
    orders.append("orders", 5)
    assert source(seen, **given).read_available(spark_session) == 1
    assert seen.batches[3:] == [(3, 5)]


def test_a_batch_that_failed_comes_again_with_its_number_and_its_rows(
    spark_session, orders, source
):
    failing = source(lambda frame, number: 1 / 0, startingOffsets="earliest")
    with pytest.raises(ZeroDivisionError):
        failing.read_available(spark_session)
    orders.append("orders", 11)
    seen = Seen()
    assert source(seen, startingOffsets="latest").read_available(spark_session) == 2
    assert seen.batches == [(0, 400), (1, 11)]


def test_a_stream_that_was_made_again_is_refused(spark_session, orders, source):
    source(Seen(), startingOffsets="earliest").read_available(spark_session)
    orders.make("orders", partitions=2)
    with pytest.raises(Exception, match="deleted and made again"):
        source(Seen()).read_available(spark_session)


def test_a_clock_runs_the_batches(spark_session, orders, source):
    seen = Seen()
    offsets: list[int] = []

    def note(frame, number):
        seen(frame, number)
        offsets.extend(row.offset for row in frame.where("partition = 0").collect())

    clock = spark_session.readStream.format("rate").load()
    query = (
        clock.writeStream.foreachBatch(source(note))
        .trigger(processingTime="200 milliseconds")
        .start()
    )
    try:
        wait_for(query, lambda: seen.batches)
        orders.append("orders", 5)
        wait_for(query, lambda: len(offsets) == 5)
    finally:
        query.stop()
    # The first batch says where the query began: at the end, as there is no checkpoint.
    assert seen.batches[0] == (0, 0)
    assert offsets == [100, 101, 102, 103, 104]


def wait_for(query, done):
    while not done():
        assert not query.awaitTermination(0.05), query.exception()


@pytest.mark.skipif(not features.HAS_SOURCES, reason="Spark 3.5 has no data sources in Python")
def test_the_data_source_goes_on_from_the_checkpoint(spark_session, orders, source, tmp_path):
    source(Seen(), startingOffsets="earliest").read_available(spark_session)
    orders.append("orders", 9)
    counts = []
    stream = spark_session.readStream.format("leporid").options(url=orders.url, stream="orders")
    query = stream.load().writeStream.foreachBatch(lambda frame, _: counts.append(frame.count()))
    query = query.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True).start()
    assert query.awaitTermination(120)
    assert counts == [9]


def test_a_checkpoint_keeps_the_last_hundred_batches(tmp_path):
    checkpoint = Checkpoint(tmp_path)
    assert checkpoint.last() == (-1, None, True)
    for number in range(103):
        checkpoint.plan(number, {"at": number})
        assert checkpoint.last() == (number, {"at": number}, False)
        checkpoint.commit(number)
    assert Checkpoint(tmp_path).last() == (102, {"at": 102}, True)
    assert sorted(int(path.name) for path in (tmp_path / "commits").iterdir())[0] == 3


def test_a_file_that_is_none_of_a_checkpoint_is_refused(tmp_path):
    checkpoint = Checkpoint(tmp_path)
    checkpoint.plan(0, {})
    path = tmp_path / "offsets" / "0"
    for text in ("", "v9\n{}\n{}", path.read_text() + "\n{}"):
        path.write_text(text)
        with pytest.raises(OptionError, match="offsets of a query over one source"):
            checkpoint.last()


def test_a_checkpoint_of_spark_is_read(tmp_path):
    golden = Path(__file__).parent / "golden" / "checkpoint-v1"
    shutil.copytree(golden, tmp_path / "checkpoint")
    number, end, done = Checkpoint(tmp_path / "checkpoint").last()
    assert (number, done) == (1, False)
    assert end is not None
    assert end["offsets"] == {"orders": {"0": 700}}
    assert json.loads((tmp_path / "checkpoint" / "metadata").read_text())["id"].startswith("111")
