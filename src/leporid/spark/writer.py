"""Publishing what Spark writes, in Arrow, confirmed by the broker.

A streaming query has an identity: a producer for each of its tasks' places (query and partition),
and for each row a sequence number made of the batch and the row's place in it. The broker keeps the
highest number of each producer, so a batch that is tried again, or replayed after a restart, comes
out once, provided that its rows come in the same order again. They do as long as the rows come
from a source through maps and filters; after a shuffle, sort within partitions before writing.

A batch has no identity: what a failed task has published stays and is published again, unless the
user names a column with a number that rises from row to row (`sequenceColumn`, with `producer`).

Must not know how requests are sent again; see http.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from http import HTTPStatus
from itertools import islice
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext
from pyspark.sql import Row

from leporid.spark.errors import BrokerError, OptionError, PublishError, sentence_alone
from leporid.spark.features import (
    HAS_STREAM_ARROW_WRITER,
    DataSourceArrowWriter,
    DataSourceStreamWriter,
    WriterCommitMessage,
)
from leporid.spark.http import Client, client_for
from leporid.spark.options import BATCH_ROWS, DEFAULT_EXCHANGE, Connection, Writing
from leporid.spark.schema import cast_batch

# A request's body is cut here, or after a single row that is larger.
REQUEST_BYTES = 8 * 1024 * 1024

# How the broker refuses an exchange: it is not there, or may not be written to.
REFUSED_EXCHANGE = {HTTPStatus.NOT_FOUND, HTTPStatus.FORBIDDEN}

# The sequence number of a row is its batch's number, shifted, and its place in the task's part.
ROW_BITS = 32

# Where Spark tells a task of a streaming query which one it is.
QUERY_PROPERTY = "sql.streaming.queryId"
BATCH_PROPERTY = "streaming.sql.batchId"


@dataclass
class Published(WriterCommitMessage):
    """What became of a task's rows."""

    rows: int = 0
    accepted: int = 0
    duplicates: int = 0
    unroutable: int = 0

    def add(self, answer: dict[str, int]) -> None:
        """Count an answer of the broker."""
        self.rows += answer["rows"]
        self.accepted += answer["accepted"]
        self.duplicates += answer["duplicates"]
        self.unroutable += answer["unroutable"]


@dataclass(frozen=True, slots=True)
class Target:
    """Where rows go that do not say it themselves."""

    exchange: str
    routing_key: str | None


@dataclass(frozen=True, slots=True)
class Job:
    """Everything a task needs to publish its rows."""

    connection: Connection
    writing: Writing
    schema: pa.Schema

    def target(self, client: Client) -> Target:
        """Return exchange and key; a stream is reached by its exchange, or by its own name."""
        writing = self.writing
        if writing.stream is None:
            return Target(writing.exchange or DEFAULT_EXCHANGE, writing.routing_key)
        parts = client.info(writing.stream)["partitions"]
        if len(parts) == 1 and parts[0]["queue"] == writing.stream:
            if "routing_key" in self.schema.names:
                raise OptionError(
                    f"stream {writing.stream!r} is written to by its name: "
                    f"drop the column 'routing_key', or give the option exchange instead of stream"
                )
            return Target(DEFAULT_EXCHANGE, writing.stream)
        return Target(writing.stream, None)

    def check(self) -> None:
        """Ask the broker about the target, so that no task starts which cannot write to it.

        Raises:
            OptionError: the queue that the option routingKey names in the default exchange is
                missing, or options and columns contradict each other.
            BrokerError: the stream or the exchange is missing, or the right to write.
        """
        client = client_for(self.connection)
        target = self.target(client)
        client.check_exchange(target.exchange, nothing(self.schema))
        own = {"exchange", "routing_key"} & set(self.schema.names)
        key = self.writing.routing_key
        if target.exchange != DEFAULT_EXCHANGE or own or not key:
            return
        if self.writing.unroutable == "fail" and not client.has_queue(key):
            raise OptionError(
                f"option routingKey = {key!r}: there is no such queue in vhost "
                f"{self.connection.vhost!r}, and the default exchange routes to queues by their "
                f"names: declare it, or give unroutable = ignore"
            )


def publish(
    job: Job,
    pieces: Iterable[tuple[int | None, pa.RecordBatch]],
    producer: str | None,
) -> Published:
    """Publish pieces, each with the sequence number of its first row; return when confirmed.

    Raises:
        PublishError: the broker did not take a row, or it went nowhere.
        BrokerError: it refused, also an exchange that a row names.
    """
    client = client_for(job.connection)
    target: Target | None = None
    done = Published()
    for sequence, piece in pieces:
        if target is None:
            target = job.target(client)
        batch = addressed(piece, target)
        try:
            answer = client.publish(target.exchange, encoded(batch), producer, sequence)
        except BrokerError as error:
            raise of_column(error, batch, job.connection.vhost) from None
        done.add(answer)
        if answer["refused"]:
            raise PublishError(
                f"the broker refused {answer['refused']} of {answer['rows']} rows for exchange "
                f"{target.exchange!r}: a queue behind it is full (x-overflow = reject-publish)"
            )
        if answer["unroutable"] and job.writing.unroutable == "fail":
            raise PublishError(
                f"{answer['unroutable']} of {answer['rows']} rows for exchange "
                f"{target.exchange!r} went to no queue: bind one, or give unroutable = ignore"
            )
    return done


def of_column(error: BrokerError, batch: pa.RecordBatch, vhost: str) -> BrokerError:
    """Say which exchange of the column `exchange` the broker refused, if it is one of those.

    What is in a column is known in the task only, where `Job.check` cannot look.
    """
    if "exchange" not in batch.schema.names or error.status not in REFUSED_EXCHANGE:
        return error
    reason = str(error.facts.get("reason", ""))
    for name in batch.column("exchange").unique().drop_null().to_pylist():
        if f"exchange '{name}'" in reason:
            why = f"where the user may not write: {error}"
            if error.status == HTTPStatus.NOT_FOUND:
                why = (
                    f"and there is no such exchange in vhost {vhost!r}: declare it, or filter "
                    f"such rows out ({error})"
                )
            sentence = f"column 'exchange' has {name!r}, {why}"
            return BrokerError(sentence, error.status, error.word, error.facts)
    return error


def addressed(batch: pa.RecordBatch, target: Target) -> pa.RecordBatch:
    """Fill in the routing key that rows do not have of their own."""
    if target.routing_key is None:
        return batch
    at = batch.schema.get_field_index("routing_key")
    if at < 0:
        keys = pa.repeat(pa.scalar(target.routing_key), batch.num_rows)
        return batch.append_column("routing_key", keys)
    return batch.set_column(at, "routing_key", pc.fill_null(batch.column(at), target.routing_key))


def encoded(batch: pa.RecordBatch) -> bytes:
    """Return a batch as a stream of its own."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as stream:
        stream.write_batch(batch)
    return sink.getvalue().to_pybytes()  # type: ignore[no-any-return]


def nothing(schema: pa.Schema) -> bytes:
    """Return a stream without rows."""
    return encoded(pa.RecordBatch.from_pylist([], schema))


def cut(batch: pa.RecordBatch, rows_max: int) -> Iterator[pa.RecordBatch]:
    """Cut a batch into requests, by rows and by bytes."""
    for start in range(0, batch.num_rows, rows_max):
        yield from halved(batch.slice(start, rows_max))


def halved(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Halve a batch until each part fits a request or is a single row.

    Rows differ in size: parts of equal numbers of rows could exceed what the broker takes.
    """
    if batch.num_rows <= 1 or batch.nbytes <= REQUEST_BYTES:
        yield batch
        return
    middle = batch.num_rows // 2
    yield from halved(batch.slice(0, middle))
    yield from halved(batch.slice(middle))


def gathered(batches: Iterable[pa.RecordBatch], rows_max: int) -> Iterator[pa.RecordBatch]:
    """Join small batches and cut large ones, so that requests have about `rows_max` rows.

    The pieces' borders do not matter to the broker: a row's sequence number is its place.
    """
    waiting: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        waiting.append(batch)
        rows += batch.num_rows
        size += batch.get_total_buffer_size()
        if rows >= rows_max or size >= REQUEST_BYTES:
            yield from cut(pa.concat_batches(waiting), rows_max)
            waiting, rows, size = [], 0, 0
    if rows:
        yield from cut(pa.concat_batches(waiting), rows_max)


def checked(batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Give batches as they are published.

    Raises:
        PublishError: a row has no body.
    """
    row = 0
    for batch in batches:
        ready = cast_batch(batch, schema)
        body = ready.column(schema.get_field_index("body"))
        if body.null_count:
            at = pc.index(pc.is_null(body), True).as_py()
            raise PublishError(
                f"row {row + at} of the task has no body: fill it in, or filter such rows out"
            )
        row += batch.num_rows
        if batch.num_rows:
            yield ready


# ---------------------------------------------------------------- streaming queries


class StreamWriter(DataSourceStreamWriter):
    """Publishes the rows of micro-batches, each exactly once."""

    def __init__(self, job: Job) -> None:
        self.job = job

    @sentence_alone
    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        """Publish a task's rows under the query's identity.

        Args:
            iterator: Arrow batches; before PySpark 4.1 rows.
        """
        producer, first = identity(TaskContext.get())
        given = iterator if HAS_STREAM_ARROW_WRITER else from_rows(iterator, self.job.schema)
        batches = checked(given, self.job.schema)

        def numbered() -> Iterator[tuple[int, pa.RecordBatch]]:
            done = 0
            for piece in gathered(batches, self.job.writing.request_rows):
                if done + piece.num_rows > 2**ROW_BITS:
                    raise PublishError(
                        f"a task has more than {2**ROW_BITS} rows: use more partitions, "
                        f"or maxOffsetsPerTrigger"
                    )
                yield first + done, piece
                done += piece.num_rows

        return publish(self.job, numbered(), producer)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Do nothing: what was written is confirmed already."""

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Do nothing: what was published is told from new rows when it comes again."""


def from_rows(rows: Iterator[Row], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Give rows, whose fields are in the order of the schema, as batches."""
    while portion := list(islice(rows, BATCH_ROWS)):
        columns = zip(schema, zip(*portion, strict=True), strict=True)
        arrays = [pa.array(map(_plain, values), field.type) for field, values in columns]
        yield pa.RecordBatch.from_arrays(arrays, schema=schema)


def _plain(value: Any) -> Any:
    """Return a value of a row as Arrow takes it; Spark gives times in the zone of the machine."""
    if isinstance(value, Row):
        return {name: _plain(inner) for name, inner in value.asDict().items()}
    if isinstance(value, dict):
        return list(value.items())
    return value.astimezone(UTC) if isinstance(value, datetime) else value


def identity(context: Any) -> tuple[str, int]:
    """Return the producer of a task of a streaming query, and its first row's sequence number.

    Raises:
        PublishError: Spark does not say which query and batch this is.
    """
    query = context.getLocalProperty(QUERY_PROPERTY) if context is not None else None
    batch = context.getLocalProperty(BATCH_PROPERTY) if context is not None else None
    if query is None or batch is None:
        raise PublishError(
            f"Spark does not tell its tasks {QUERY_PROPERTY} and {BATCH_PROPERTY}, so rows cannot "
            f"be written exactly once: use a supported version of PySpark (4.0 or newer)"
        )
    return f"{query}/{context.partitionId()}", int(batch) << ROW_BITS


# ---------------------------------------------------------------- batches


class BatchWriter(DataSourceArrowWriter):
    """Publishes the rows of a batch, each at least once, or by the user's numbers exactly once."""

    def __init__(self, job: Job) -> None:
        self.job = job

    @sentence_alone
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Publish a task's rows."""
        writing = self.job.writing
        if writing.sequence_column is None:
            pieces = gathered(checked(iterator, self.job.schema), writing.request_rows)
            return publish(self.job, ((None, piece) for piece in pieces), None)
        if TaskContext.get().partitionId() != 0:
            # The broker takes a producer's rows in rising order only; two tasks would overtake
            # each other, and what comes late would be lost as a duplicate.
            raise OptionError(
                f"option sequenceColumn needs the rows in one partition, in order: write "
                f"df.repartition(1).sortWithinPartitions({writing.sequence_column!r})"
            )
        return publish(
            self.job, self._by_column(iterator, writing.sequence_column), writing.producer
        )

    def _by_column(
        self, iterator: Iterator[pa.RecordBatch], name: str
    ) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Cut where the user's numbers leave some out, as a request has consecutive ones."""
        last = -1
        for batch in iterator:
            numbers = batch.column(batch.schema.get_field_index(name)).cast(pa.int64())
            for start, end in runs(numbers, last):
                piece = batch.slice(start, end - start)
                sequence = numbers[start].as_py()
                for ready in checked([piece], self.job.schema):
                    for request in cut(ready, self.job.writing.request_rows):
                        yield sequence, request
                        sequence += request.num_rows
            if batch.num_rows:
                last = numbers[-1].as_py()

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Do nothing: what was written is confirmed already."""

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Do nothing: what is published cannot be taken back."""


def runs(numbers: pa.Array, last: int) -> list[tuple[int, int]]:
    """Return where consecutive numbers begin and end.

    Args:
        numbers: of one batch.
        last: the number before them, -1 if there is none.

    Raises:
        PublishError: a number is missing, or does not rise.
    """
    if numbers.null_count:
        raise PublishError("the sequenceColumn has a null: every row needs a number")
    if not len(numbers):
        return []
    steps = pc.pairwise_diff(numbers)[1:]
    if numbers[0].as_py() <= last or (len(steps) and pc.min(steps).as_py() <= 0):
        raise PublishError(
            f"the sequenceColumn does not rise from row to row (from {max(last, 0)} on): sort the "
            f"rows by it, and make its numbers unique and not negative"
        )
    borders = pc.indices_nonzero(pc.not_equal(steps, 1)).to_pylist()
    starts = [0, *(at + 1 for at in borders)]
    return list(zip(starts, [*starts[1:], len(numbers)], strict=True))
