"""The data source's checks, without Spark; the rest is in test_in_spark."""

import pickle
import sys

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable
from pyspark.sql.types import (
    BinaryType,
    LongType,
    StringType,
    StructField,
    StructType,
)

from leporid.spark.errors import BrokerError, OptionError
from leporid.spark.reader import PUSHING_WORKER, PushingReader, Reader
from leporid.spark.source import DefaultSource
from leporid.spark.stream_reader import StreamReader
from leporid.spark.writer import BatchWriter, StreamWriter
from pyspark_leporid import DefaultSource as Found

BODY = StructType([StructField("body", BinaryType())])
NUMBERED = StructType([StructField("body", BinaryType()), StructField("n", LongType())])


def source(**given: str) -> DefaultSource:
    return DefaultSource(given)


def test_spark_finds_it_by_name():
    assert Found is DefaultSource
    assert DefaultSource.name() == "leporid"


def test_options_are_checked_at_once():
    with pytest.raises(OptionError, match="unknown option 'streem'"):
        source(streem="x")


def test_the_schema_is_given_for_a_stream_that_exists(broker):
    broker.make("orders")
    there = {"url": broker.url, "stream": "orders"}
    assert source(**there).schema().startswith("`stream` string, `partition` int, `offset` bigint")
    assert source(**there, headersJson="true").schema().endswith("`headers_json` string")
    with pytest.raises(OptionError, match="no stream 'order'"):
        source(url=broker.url, stream="order").schema()


def test_each_use_has_its_class(broker, monkeypatch, caplog):
    assert type(source(stream="s").reader(schema=BODY)) is Reader
    assert type(source(stream="s", pushDownFilters="true").reader(schema=BODY)) is Reader
    assert "filterPushdown.enabled is false" in caplog.text
    monkeypatch.setitem(sys.modules, PUSHING_WORKER, sys)
    assert type(source(stream="s").reader(schema=BODY)) is Reader
    assert type(source(stream="s", pushDownFilters="true").reader(schema=BODY)) is PushingReader
    assert type(source(stream="s").streamReader(schema=BODY)) is StreamReader
    target = {"url": broker.url, "exchange": "e"}
    assert type(source(**target).writer(BODY, overwrite=False)) is BatchWriter
    assert type(source(**target).streamWriter(BODY, overwrite=False)) is StreamWriter
    broker.missing.add("e")
    for make in (source(**target).writer, source(**target).streamWriter):
        with pytest.raises(BrokerError, match="no exchange 'e'"):
            make(BODY, overwrite=False)


def test_a_column_that_does_not_exist_is_refused_by_name():
    wrong = StructType([StructField("bodi", BinaryType())])
    with pytest.raises(OptionError, match="no column 'bodi'; did you mean \"body\""):
        source(stream="s").reader(schema=wrong)
    with pytest.raises(OptionError, match="no column 'bodi'"):
        source(stream="s").streamReader(schema=wrong).initialOffset()


def test_a_batch_that_starts_at_the_end_and_a_stream_that_has_one_are_refused():
    with pytest.raises(OptionError, match="always be empty"):
        source(stream="s", startingOffsets="latest").reader(schema=BODY)
    with pytest.raises(OptionError, match="streaming query has no end"):
        source(stream="s", endingOffsets="latest").streamReader(schema=BODY).initialOffset()


def test_a_query_over_a_queue_is_refused_wherever_it_begins():
    refused = pickle.loads(pickle.dumps(source(queue="q").streamReader(schema=BODY)))
    says = "a queue is read as a batch"
    with pytest.raises(OptionError, match=says):
        refused.initialOffset()
    with pytest.raises(OptionError, match=says):
        refused.latestOffset({}, ReadAllAvailable())
    with pytest.raises(OptionError, match=says):
        refused.partitions({}, {})


def test_what_is_published_cannot_be_overwritten():
    with pytest.raises(OptionError, match='mode\\("append"\\)'):
        source(exchange="e").writer(BODY, overwrite=True)
    with pytest.raises(OptionError, match="complete"):
        source(exchange="e").streamWriter(BODY, overwrite=True)


def test_the_column_of_numbers_must_exist_and_hold_whole_numbers(broker):
    given = {"url": broker.url, "exchange": "e", "producer": "p"}
    sink = source(**given, sequenceColumn="n").writer(NUMBERED, overwrite=False)
    assert sink.job.schema.names == ["body"]
    with pytest.raises(OptionError, match="no such column"):
        source(**given, sequenceColumn="m").writer(NUMBERED, overwrite=False)
    words = StructType([*BODY.fields, StructField("n", StringType())])
    with pytest.raises(OptionError, match="whole numbers"):
        source(**given, sequenceColumn="n").writer(words, overwrite=False)


def test_a_column_named_exchange_says_where_to_publish(broker):
    named = StructType([*BODY.fields, StructField("exchange", StringType())])
    sink = source(url=broker.url).writer(named, overwrite=False)
    assert sink.job.writing.exchange is None
    with pytest.raises(OptionError, match="not said where"):
        source().writer(BODY, overwrite=False)
