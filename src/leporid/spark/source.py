"""The data source `leporid`, from which Spark starts whatever it does with a stream or a queue.

Responsible for checking options and schemas, and for choosing the class that does the work.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import IntegralType, StructType

from leporid.spark import features
from leporid.spark import options as said
from leporid.spark.checks import LATEST
from leporid.spark.errors import OptionError, SparkSourceError, sentence_alone
from leporid.spark.features import DataSource
from leporid.spark.http import client_for
from leporid.spark.queue_reader import QueueReader
from leporid.spark.reader import PushingReader, Reader, takes_predicates
from leporid.spark.schema import (
    QUEUE_READABLE,
    READABLE,
    ddl,
    default_schema,
    nearest,
    projection,
    publishing,
)
from leporid.spark.stream_reader import RefusedReader, StreamReader
from leporid.spark.survey import Survey
from leporid.spark.writer import BatchWriter, Job, StreamWriter

log = logging.getLogger(__name__)


class DefaultSource(DataSource):
    """Streams of a Leporid broker as tables.

    Examples:
        A stream as a batch, then as a streaming query:

        >>> spark.read.format("leporid").option("stream", "orders").load()  # doctest: +SKIP
        >>> spark.readStream.format("leporid").option("stream", "orders").load()  # doctest: +SKIP

        What is in a queue, which stays as it is:

        >>> spark.read.format("leporid").option("queue", "orders").load()  # doctest: +SKIP

        Rows to an exchange; the column `body` is needed:

        >>> df.write.format("leporid").mode("append").option("exchange", "orders").save()
        ... # doctest: +SKIP
    """

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "leporid"

    @sentence_alone
    def __init__(self, options: dict[str, str]) -> None:
        super().__init__(options)
        self.values: dict[str, Any] = said.check_all(options)

    @sentence_alone
    def schema(self) -> str:
        """Return the columns; called at load(), if the user names none."""
        return ddl(self._columns())

    def struct(self, columns: Iterable[str] | None = None) -> StructType:
        """Return the columns in Spark's types, where Spark does not do that: it needs no session.

        Args:
            columns: only these; those of `schema`, if None. What is unknown the reader refuses.
        """
        wanted = self._columns()
        if columns is not None:
            known = QUEUE_READABLE if "queue" in self.values else READABLE
            wanted = pa.schema(
                known.field(name) if name in known.names else pa.field(name, pa.null())
                for name in columns
            )
        return from_arrow_schema(wanted)

    def _columns(self) -> pa.Schema:
        """Return the columns when none are named; asks the broker whether they can be read."""
        client = client_for(said.connection(self.values))
        if "queue" in self.values:
            queue = said.queue_reading(self.values)
            client.check_queue(queue.queue)
            return default_schema(headers_json=queue.headers_json, queue=True)
        reading = said.reading(self.values)
        Survey(client, reading).check()
        return default_schema(headers_json=reading.headers_json)

    @sentence_alone
    def reader(self, schema: StructType) -> Reader | QueueReader:
        """Make what reads a batch."""
        if "queue" in self.values:
            return QueueReader(
                said.connection(self.values),
                said.queue_reading(self.values),
                _projection(schema, QUEUE_READABLE),
            )
        reading = said.reading(self.values)
        if reading.start is not None and reading.start.at == LATEST:
            raise OptionError("option startingOffsets = latest: a batch would always be empty")
        kind = Reader
        if reading.push_down and takes_predicates():
            kind = PushingReader
        elif reading.push_down and not features.HAS_PUSH_DOWN:
            log.warning("%s", features.no_push_down())
        elif reading.push_down:
            log.warning(
                "option pushDownFilters: Spark checks all predicates itself, as the query has none "
                "or spark.sql.python.filterPushdown.enabled is false"
            )
        return kind(said.connection(self.values), reading, _projection(schema))

    def streamReader(self, schema: StructType) -> StreamReader | RefusedReader:
        """Make what reads micro-batches, or what says why it cannot be made."""
        try:
            return self.stream_reader(schema)
        except SparkSourceError as error:
            # PySpark (4.3) answers an error raised here with an UnboundLocalError of its own.
            return RefusedReader(error)

    def stream_reader(self, schema: StructType) -> StreamReader:
        """Make what reads micro-batches.

        Raises:
            OptionError: what is named cannot be streamed.
        """
        if "queue" in self.values:
            raise OptionError(
                "a queue is read as a batch: what streams has to be a stream, which keeps what was "
                "read; to take messages out of a queue see leporid.spark.drain"
            )
        reading = said.reading(self.values)
        if reading.end is not None:
            raise OptionError("a streaming query has no end: leave the ending… options out")
        return StreamReader(said.connection(self.values), reading, _projection(schema))

    @sentence_alone
    def writer(self, schema: StructType, overwrite: bool) -> BatchWriter:
        """Make what publishes a batch."""
        if overwrite:
            raise OptionError('what is published cannot be overwritten: write with mode("append")')
        return BatchWriter(self._job(schema, streaming=False))

    @sentence_alone
    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamWriter:
        """Make what publishes micro-batches."""
        if overwrite:
            raise OptionError(
                'what is published cannot be overwritten: leave outputMode("complete") out'
            )
        if not features.HAS_STREAM_ARROW_WRITER:
            log.warning("%s", features.no_stream_arrow_writer())
        return StreamWriter(self._job(schema, streaming=True))

    def _job(self, schema: StructType, *, streaming: bool) -> Job:
        writing = said.writing(
            self.values, has_exchange="exchange" in schema.names, streaming=streaming
        )
        column = writing.sequence_column
        extra: list[str] = []
        if column is not None:
            if column not in schema.names:
                raise OptionError(
                    f"option sequenceColumn = {column!r}: there is no such column"
                    f"{nearest(column, schema.names)}"
                )
            if not isinstance(schema[column].dataType, IntegralType):
                raise OptionError(f"option sequenceColumn = {column!r}: it must hold whole numbers")
            extra = [column]
        kinds = {field.name: field.dataType.simpleString() for field in schema.fields}
        job = Job(said.connection(self.values), writing, publishing(kinds, extra))
        job.check()
        return job


def _projection(schema: StructType, readable: pa.Schema = READABLE) -> pa.Schema:
    asked = ((field.name, field.dataType.simpleString(), field.nullable) for field in schema.fields)
    return projection(asked, readable)
