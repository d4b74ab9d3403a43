"""The batch reader as Spark calls it, without Spark; the rest is in test_in_spark."""

import pickle
from datetime import UTC, datetime, timedelta

import pytest
from pyspark.sql.datasource import (
    DataSourceReader,
    EqualTo,
    GreaterThanOrEqual,
    InputPartition,
    LessThan,
)
from tests.spark.fake import EPOCH_MS

from leporid.spark import options
from leporid.spark.errors import OptionError
from leporid.spark.reader import PushingReader, Reader
from leporid.spark.schema import COLUMNS

EPOCH = datetime.fromtimestamp(EPOCH_MS / 1000, UTC)


@pytest.fixture
def make(broker):
    def make(kind=Reader, **given):
        which = {} if "streamPattern" in given else {"stream": "orders"}
        values = options.check_all({"url": broker.url, **which, **given})
        return kind(options.connection(values, {}), options.reading(values), COLUMNS)

    return make


@pytest.fixture
def orders(broker):
    broker.make("orders", partitions=2)
    broker.append("orders", 100, partition=0, routing_key=["a", "b"] * 50)
    broker.append("orders", 50, partition=1)
    return broker


def pieces(reader) -> list[tuple[int, int, int]]:
    return [
        (piece.value.key.partition, piece.value.start, piece.value.end)
        for piece in reader.partitions()
    ]


def offsets(reader) -> list[int]:
    # As on an executor: with a copy of reader and partition.
    reader, partitions = pickle.loads(pickle.dumps((reader, reader.partitions())))
    return [
        offset
        for piece in partitions
        for batch in reader.read(piece)
        for offset in batch.column("offset").to_pylist()
    ]


def test_everything_is_read_unless_told_otherwise(orders, make):
    assert pieces(make()) == [(0, 0, 100), (1, 0, 50)]
    assert offsets(make()) == [*range(100), *range(50)]


def test_a_range_by_offsets_and_by_times(orders, make):
    by_offset = make(
        startingOffsets='{"orders": {"0": 10, "1": -2}}',
        endingOffsets='{"orders": {"0": 20, "1": -1}}',
    )
    assert pieces(by_offset) == [(0, 10, 20), (1, 0, 50)]
    by_time = make(startingTimestamp=str(EPOCH_MS + 10), endingTimestamp=str(EPOCH_MS + 70))
    assert pieces(by_time) == [(0, 10, 70), (1, 10, 50)]


def test_large_ranges_are_divided_among_tasks(orders, make):
    assert pieces(make(minPartitions="3")) == [(0, 0, 50), (0, 50, 100), (1, 0, 50)]


def test_an_empty_stream_has_no_partition_and_spark_asks_for_nothing(broker, make):
    broker.make("orders")
    reader = make()
    assert reader.partitions() == []
    assert list(reader.read(InputPartition(None))) == []


def test_only_the_pushing_reader_has_what_spark_refuses_by_default():
    assert Reader.pushFilters is DataSourceReader.pushFilters
    assert PushingReader.pushFilters is not DataSourceReader.pushFilters


def test_predicates_shorten_what_is_read(orders, make):
    reader = make(PushingReader)
    left = reader.pushFilters([EqualTo(("routing_key",), "b"), LessThan(("offset",), 10)])
    assert left == []
    assert offsets(reader) == [1, 3, 5, 7, 9]
    assert orders.count(r"partition=0&from=0&to=10&.*routing_key=b") == 1


def test_times_are_looked_up_at_the_broker_to_the_microsecond(orders, make):
    low = GreaterThanOrEqual(("timestamp",), EPOCH + timedelta(microseconds=9_001))
    high = LessThan(("timestamp",), EPOCH + timedelta(microseconds=20_000))
    reader = make(PushingReader)
    assert reader.pushFilters([low, high]) == [low, high]
    # Record 20 is not wanted, but that is for Spark to say.
    assert pieces(reader) == [(0, 10, 21), (1, 10, 21)]


def test_a_pattern_of_keys_works_without_push_down(orders, make):
    assert offsets(make(routingKeyPattern="*")) == [*range(100), *range(50)]
    assert offsets(make(routingKeyPattern="b")) == list(range(1, 100, 2))
    assert offsets(make(routingKeyPattern="b.#")) == list(range(1, 100, 2))
    assert offsets(make(routingKeyPattern="*.b")) == []


def test_a_pattern_that_no_stream_matches_is_refused_in_a_batch(orders, make):
    with pytest.raises(OptionError, match=r"streamPattern 'x-\.\*': no stream that may be read"):
        make(streamPattern="x-.*").partitions()
