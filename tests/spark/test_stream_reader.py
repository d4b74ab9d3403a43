"""The stream reader as Spark calls it, without Spark; the rest is in test_in_spark."""

import pickle
import time

import pytest
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadMaxBytes,
    ReadMaxRows,
    ReadMinRows,
)

from leporid.spark import options
from leporid.spark.errors import DataLossError, OptionError
from leporid.spark.schema import COLUMNS
from leporid.spark.stream_reader import StreamReader


@pytest.fixture
def make(broker):
    def make(**given) -> StreamReader:
        common = {"url": broker.url, "stream": "orders", "pollMs": "20", "retryTimeout": "2s"}
        values = options.check_all(
            {name: value for name, value in (common | given).items() if value is not None}
        )
        return StreamReader(options.connection(values, {}), options.reading(values), COLUMNS)

    return make


@pytest.fixture
def orders(broker):
    broker.make("orders", partitions=2)
    broker.append("orders", 100, partition=0)
    broker.append("orders", 300, partition=1)
    return broker


def at(offset: dict) -> list[int]:
    return list(offset["offsets"]["orders"].values())


def test_a_new_query_starts_at_the_end_unless_told_otherwise(orders, make):
    assert at(make().initialOffset()) == [100, 300]
    assert at(make(startingOffsets="earliest").initialOffset()) == [0, 0]
    places = '{"orders": {"0": 5, "1": -1}}'
    assert at(make(startingOffsets=places).initialOffset()) == [5, 300]
    assert at(make(startingTimestamp="2026-01-01T00:00:00.050Z").initialOffset()) == [50, 50]


def test_a_time_beyond_the_end_is_an_error_unless_told_otherwise(orders, make):
    with pytest.raises(OptionError, match="partition 0 of stream 'orders' has nothing at or after"):
        make(startingTimestamp="2026-01-01T00:00:00.150Z").initialOffset()
    latest = make(
        startingTimestamp="2026-01-01T00:00:00.150Z", startingOffsetsByTimestampStrategy="latest"
    )
    assert at(latest.initialOffset()) == [100, 150]


def test_the_limit_that_spark_is_told(make):
    assert make().getDefaultReadLimit() == ReadAllAvailable()
    assert make(maxOffsetsPerTrigger="5", maxBytesPerTrigger="1k").getDefaultReadLimit() == (
        ReadMaxRows(5)
    )
    assert make(maxBytesPerTrigger="1k").getDefaultReadLimit() == ReadMaxBytes(1024)
    assert make(minOffsetsPerTrigger="5").getDefaultReadLimit() == ReadMinRows(5)


def test_a_batch_takes_its_share_of_each_partition(orders, make):
    reader = make(startingOffsets="earliest", maxOffsetsPerTrigger="100")
    end = reader.latestOffset(reader.initialOffset(), ReadMaxRows(100))
    assert at(end) == [25, 75]
    assert at(reader.reportLatestOffset()) == [100, 300]
    pieces = [repr(piece) for piece in reader.partitions(reader.initialOffset(), end)]
    assert pieces == [
        "partition 0 of stream 'orders': [0, 25)",
        "partition 1 of stream 'orders': [0, 75)",
    ]


def test_a_batch_is_limited_by_bytes(orders, make):
    # The fake broker's records have 100 bytes.
    reader = make(startingOffsets="earliest", maxBytesPerTrigger="4000")
    assert at(reader.latestOffset(reader.initialOffset(), ReadMaxBytes(4000))) == [10, 30]
    assert at(reader.latestOffset(reader.initialOffset(), ReadAllAvailable())) == [100, 300]


def test_nothing_new_is_the_same_offset_after_a_poll(orders, make):
    reader = make()
    start = reader.initialOffset()
    before = orders.count("beyond")
    assert reader.latestOffset(start, ReadAllAvailable()) is start
    assert orders.count("beyond") == before + 1


def test_a_minimum_is_waited_for(orders, make):
    reader = make(minOffsetsPerTrigger="10", maxTriggerDelay="1h")
    start = reader.initialOffset()
    orders.append("orders", 9)
    assert reader.latestOffset(start, ReadMinRows(10)) is start
    orders.append("orders", 1)
    assert at(reader.latestOffset(start, ReadMinRows(10))) == [110, 300]


def test_a_minimum_is_not_waited_for_longer_than_said(orders, make):
    reader = make(minOffsetsPerTrigger="10", maxTriggerDelay="1ms")
    start = reader.initialOffset()
    orders.append("orders", 1)
    deadline = time.monotonic() + 10
    while (end := reader.latestOffset(start, ReadMinRows(10))) is start:
        assert time.monotonic() < deadline
    assert at(end) == [101, 300]


def test_available_now_ends_though_producers_go_on(orders, make):
    reader = make(
        startingOffsets="earliest", maxOffsetsPerTrigger="150", minOffsetsPerTrigger="150"
    )
    reader.prepareForTriggerAvailableNow()
    position, ends = reader.initialOffset(), []
    while True:
        orders.append("orders", 50)
        end = reader.latestOffset(position, ReadMaxRows(150))
        if end == position:
            break
        ends.append(sum(at(end)))
        position = end
    assert ends == [150, 300, 400]


def test_a_retention_that_overtook_the_query_is_a_loss(orders, make):
    start = make(startingOffsets="earliest").initialOffset()
    orders.cut("orders", 40)
    with pytest.raises(
        DataLossError, match=r"\[0, 40\) of partition 0 of stream 'orders' are gone"
    ):
        make().latestOffset(start, ReadAllAvailable())
    tolerant = make(failOnDataLoss="false")
    end = tolerant.latestOffset(start, ReadAllAvailable())
    rows = [
        row
        for piece in tolerant.partitions(start, end)
        for batch in tolerant.read(piece)
        for row in batch.column("offset").to_pylist()
    ]
    assert rows == [*range(40, 100), *range(300)]


def test_a_stream_made_again_under_a_query_is_refused(orders, make):
    start = make().initialOffset()
    orders.make("orders", partitions=2)
    orders.append("orders", 7)
    with pytest.raises(DataLossError, match="deleted and made again"):
        make().latestOffset(start, ReadAllAvailable())
    tolerant = make(failOnDataLoss="false")
    end = tolerant.latestOffset(start, ReadAllAvailable())
    assert [repr(piece) for piece in tolerant.partitions(start, end)] == [
        "partition 0 of stream 'orders': [0, 7)"
    ]


@pytest.mark.parametrize("fail_on_loss", ["true", "false"])
@pytest.mark.parametrize("other", [{"stream": "bills"}, {"stream": None, "streamPattern": "b.*"}])
def test_a_checkpoint_of_another_stream_is_refused(orders, make, fail_on_loss, other):
    reader = make(startingOffsets="earliest")
    start = reader.initialOffset()
    end = reader.latestOffset(start, ReadAllAvailable())
    orders.make("bills")
    orders.append("bills", 10)
    another = make(failOnDataLoss=fail_on_loss, readerName="etl", **other)
    says = r"over stream 'orders', and this query reads stream.* 'b.*name stream 'orders' to"
    with pytest.raises(OptionError, match=says):
        another.latestOffset(end, ReadAllAvailable())
    # A batch that was planned and not done is not read, either.
    with pytest.raises(OptionError, match=says):
        another.partitions(start, end)
    assert orders.readers == {}


def test_a_stream_that_is_left_out_is_named(orders, make):
    orders.make("bills")
    start = make(stream=None, streams="orders,bills").initialOffset()
    with pytest.raises(OptionError, match=r"offsets of stream 'bills', .* name stream 'bills' as"):
        make().latestOffset(start, ReadAllAvailable())
    assert make(failOnDataLoss="false").latestOffset(start, ReadAllAvailable()) == start
    # Further streams begin at their first message.
    orders.append("bills", 3)
    start = make().initialOffset()
    more = make(stream=None, streams="orders,bills").latestOffset(start, ReadAllAvailable())
    assert more["offsets"]["bills"] == {"0": 3}


def test_a_logged_range_is_replayed_as_it_was(orders, make):
    reader = make(startingOffsets="earliest")
    start = reader.initialOffset()
    end = reader.latestOffset(start, ReadAllAvailable())
    orders.append("orders", 1000)
    again = make().partitions(start, end)
    assert [repr(piece) for piece in again] == [
        repr(piece) for piece in reader.partitions(start, end)
    ]


def test_the_next_offset_is_stored_under_the_name_of_the_query(orders, make):
    reader = make(readerName="etl", startingOffsets='{"orders": {"0": 0, "1": 250}}')
    start = reader.initialOffset()
    end = reader.latestOffset(start, ReadMaxRows(60))
    # That nothing of partition 0 was read yet is known as well.
    assert orders.readers == {("orders", 0, "etl"): 0, ("orders", 1, "etl"): 250}
    # The last batch: there is no other one after it, and no commit.
    end = reader.latestOffset(end, ReadAllAvailable())
    assert reader.latestOffset(end, ReadAllAvailable()) == end
    assert orders.readers == {("orders", 0, "etl"): 100, ("orders", 1, "etl"): 300}
    assert reader.latestOffset(end, ReadAllAvailable()) == end
    assert orders.count("readers/etl") == 6


def test_a_position_in_a_stream_that_was_made_again_is_not_stored(orders, make, caplog):
    start = make().initialOffset()
    orders.make("orders", partitions=2)
    orders.append("orders", 500, partition=0)
    reader = make(readerName="etl", failOnDataLoss="false")
    end = reader.latestOffset(start, ReadAllAvailable())
    assert orders.readers == {}
    reader.latestOffset(end, ReadAllAvailable())
    assert orders.readers == {("orders", 0, "etl"): 500, ("orders", 1, "etl"): 0}
    assert caplog.text.count("was not stored") == 2


def test_a_position_that_cannot_be_stored_does_not_fail_the_query(orders, make, caplog):
    reader = make(readerName="etl", startingOffsets="earliest", retryTimeout="1ms")
    orders.fail("status", "readers", count=100, status=500)
    end = reader.latestOffset(reader.initialOffset(), ReadAllAvailable())
    assert reader.latestOffset(end, ReadAllAvailable()) == end
    assert reader.latestOffset(end, ReadAllAvailable()) == end
    assert caplog.text.count("was not stored") == 2


def test_a_query_starts_after_what_its_reader_has_read(orders, make):
    stored = {"startingOffsets": "stored", "readerName": "etl"}
    orders.readers = {("orders", 1, "etl"): 42, ("orders", 1, "other"): 8}
    assert at(make(**stored).initialOffset()) == [0, 42]
    orders.cut("orders", 50, partition=1)
    with pytest.raises(DataLossError, match=r"\[42, 50\) of partition 1"):
        make(**stored).initialOffset()
    assert at(make(**stored, failOnDataLoss="false").initialOffset()) == [0, 50]
    orders.readers = {("orders", 1, "etl"): 301}
    with pytest.raises(OptionError, match=r"offset of 301 in partition 1 .* which ends at 300"):
        make(**stored).initialOffset()
    with pytest.raises(OptionError, match="stored needs readerName"):
        make(startingOffsets="stored")


def test_a_reader_is_copied_to_workers_before_it_is_used(orders, make):
    reader = pickle.loads(pickle.dumps(make(routingKeyPattern="a.*")))
    assert at(reader.initialOffset()) == [100, 300]
    reader.stop()


# ---------------------------------------------------------------- as PySpark before 4.2 calls it


def test_a_spark_that_does_not_say_where_a_query_stands_is_answered_all_the_same(orders, make):
    """A new query: Spark asks for the end before the start, and plans what it was told."""
    reader = make(startingOffsets="latest")
    first = reader.latestOffset()
    orders.append("orders", 7)
    assert reader.initialOffset() == first
    assert list(reader.partitions(first, first)) == []
    end = reader.latestOffset()
    assert at(end) == [107, 300]
    assert [repr(piece) for piece in reader.partitions(first, end)] == [
        "partition 0 of stream 'orders': [100, 107)"
    ]
    # The broker is asked for what is beyond the batch, so that it waits for more.
    assert reader.latestOffset() == end
    assert "beyond=0%3A107%2C1%3A300" in orders.calls[-1][2]


def test_a_checkpoint_is_named_by_an_empty_range_before_anything_else(orders, make, caplog):
    stood = make(startingOffsets="earliest").initialOffset()
    reader = make(startingOffsets="latest", maxOffsetsPerTrigger="5", minOffsetsPerTrigger="2")
    assert list(reader.partitions(stood, stood)) == []
    end = reader.latestOffset()
    assert at(end) == [100, 300]
    assert [len(piece.value) for piece in reader.partitions(stood, end)] == [100, 300]
    reader.latestOffset()
    (warning,) = [record.getMessage() for record in caplog.records]
    assert "options maxOffsetsPerTrigger and minOffsetsPerTrigger are ignored: PySpark" in warning


def test_an_end_that_was_fixed_before_the_checkpoint_was_named_is_refused(orders, make):
    """As Spark's wrapper for availableNow fixes it: the start of such a batch would be a guess."""
    stood = make(startingOffsets="earliest").initialOffset()
    reader = make(startingOffsets="latest")
    reader.latestOffset()
    with pytest.raises(OptionError, match=r"triggerAvailableNowWrapper\.enabled = true would skip"):
        reader.partitions(stood, stood)


def test_a_pattern_without_a_match_is_told_once_and_waited_for(broker, make, caplog):
    query = make(streamPattern="x-.*", stream=None)
    start = query.initialOffset()
    assert query.latestOffset(start, ReadAllAvailable()) == start
    assert query.latestOffset(start, ReadAllAvailable()) == start
    assert caplog.text.count("no stream that may be read in vhost '/' matches it: waiting") == 1
