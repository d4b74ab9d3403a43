"""Reading a stream as a batch: its range is fixed when Spark plans the query.

Must not know about micro-batches; see stream_reader. What leaves this module for an executor is
`Reader.read` with a pickled copy of the object, so that everything it needs is in its fields.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterable, Iterator
from typing import Any, Final

import pyarrow as pa

from leporid.spark import pushdown as filters
from leporid.spark.checks import EARLIEST, LATEST
from leporid.spark.errors import OptionError, sentence_alone
from leporid.spark.features import DataSourceReader, InputPartition
from leporid.spark.http import client_for
from leporid.spark.offsets import Key, Range, batch_ranges, split
from leporid.spark.options import Connection, Reading, Start
from leporid.spark.records import ReadOptions, batches
from leporid.spark.survey import Survey

log = logging.getLogger(__name__)

# What Spark runs to have predicates taken in, and for nothing else.
PUSHING_WORKER: Final = "pyspark.sql.worker.data_source_pushdown_filters"


class RangePartition(InputPartition):
    """What one task reads."""

    def __init__(self, part: Range) -> None:
        super().__init__(part)

    def __repr__(self) -> str:
        part: Range = self.value
        return f"{part.key}: [{part.start}, {part.end})"


def read_options(reading: Reading, schema: pa.Schema, pushed: filters.Pushed) -> ReadOptions:
    """Return how records are to be fetched."""
    return ReadOptions(
        schema=schema,
        batch_rows=reading.batch_rows,
        compression=reading.compression,
        fail_on_loss=reading.fail_on_loss,
        filter=pushed.filter,
    )


def read(
    connection: Connection, partition: InputPartition | None, options: ReadOptions
) -> Iterator[pa.RecordBatch]:
    """Give the records of a task."""
    # Spark replaces an empty list of partitions by one partition of nothing, 4.0 by None.
    if partition is None or partition.value is None:
        return iter(())
    return batches(client_for(connection), partition.value, options)


class Reader(DataSourceReader):
    """Reads a range of each partition, once."""

    def __init__(self, connection: Connection, reading: Reading, schema: pa.Schema) -> None:
        self.connection = connection
        self.reading = reading
        self.schema = schema
        self.pushed = filters.for_options(reading)

    @sentence_alone
    def partitions(self) -> list[InputPartition]:
        """Ask the broker how far the streams go, and divide that among tasks."""
        survey = Survey(client_for(self.connection), self.reading)
        survey.check()
        parts = survey.parts()
        if not parts:
            raise OptionError(survey.no_match())
        begin = self.reading.start or Start(at=EARLIEST)
        starts = survey.resolve(begin, parts, "starting", EARLIEST)
        ends = survey.resolve(self.reading.end or Start(at=LATEST), parts, "ending")
        ranges = filters.narrow(batch_ranges(starts, ends, parts), self.pushed)
        low = self._at(survey, self.pushed.low_us, parts)
        high = self._at(survey, self.pushed.high_us, parts)
        ranges = filters.narrow_by_time(ranges, low, high)
        return [RangePartition(part) for part in split(ranges, self.reading.partitions_min)]

    def _at(self, survey: Survey, at_us: int | None, parts: Any) -> dict[Key, int] | None:
        """Return the offsets of a moment.

        Records carry whole milliseconds, so the first one from `at_us` on is the first one from
        the next whole millisecond on.
        """
        if at_us is None:
            return None
        return survey.at_time(Start(moment_ms=max(0, -(-at_us // 1000))), parts)

    @sentence_alone
    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Give the records of a task."""
        return read(
            self.connection, partition, read_options(self.reading, self.schema, self.pushed)
        )


def takes_predicates() -> bool:
    """Whether Spark has started this process in order to tell a reader of predicates.

    Otherwise there are none, or spark.sql.python.filterPushdown.enabled is false, its default; then
    Spark refuses every query over a reader that has `pushFilters`.
    """
    spec = sys.modules["__main__"].__spec__
    return PUSHING_WORKER in sys.modules or (spec is not None and spec.name == PUSHING_WORKER)


class PushingReader(Reader):
    """Takes Spark's predicates in; only where `takes_predicates` says so."""

    def pushFilters(self, filters_: list[Any]) -> Iterable[Any]:
        """Take in what can be used; return what Spark must still check."""
        self.pushed, left = filters.push(filters_, self.pushed)
        return left
