"""Streams and queues on Spark 3.5, which has no data sources in Python.

What Spark 4 does with the readers of this package is done here by hand: the driver plans, and each
task calls `read` and hands on the Arrow batches (`mapInArrow`). Options, columns and offsets are
those of the data source. The checkpoint is a folder in the layout of Spark's own, so that a query
of the data source goes on from it after an upgrade to Spark 4.

What is weaker than with the data source of Spark 4:

    batches   the range is fixed when `read_stream_batch` is called, not when Spark plans the query;
              no predicate spares work: say `filter`, or the ending… options.
    streaming the position is not in the checkpoint of Spark's query but in a folder that the driver
              must be able to write; one query at a time may use it, and nothing checks that.
              A batch is repeated, with the same number and the same rows, until the function has
              returned: at least once, and exactly once only if the function writes a batch's number
              along with its rows and leaves out a number that is there. Each batch is a DataFrame
              that does not stream: no watermarks, no state from batch to batch. Spark's reports of
              progress tell of the clock; of the stream tells the broker, with `readerName`.
    writing   not offered: write files or tables, or publish with a client of AMQP.
"""

from __future__ import annotations

import json
import logging
import os
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.types import StructType

from leporid.spark.errors import OptionError
from leporid.spark.source import DefaultSource

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

log = logging.getLogger(__name__)

# Batches of which a checkpoint keeps the offsets, as Spark does by default.
BATCHES_KEPT = 100

# What Spark writes in the first line of a file of its checkpoints.
LAYOUT = "v1"

BatchFunction = Callable[["DataFrame", int], object]


def read_stream_batch(
    spark: SparkSession, columns: Iterable[str] | None = None, **options: object
) -> DataFrame:
    """Return a stream's records, or the messages of a queue, as `read.format("leporid")` does.

    Args:
        spark: the session.
        columns: only these; all but `headers_json`, if None.
        options: of the data source: stream, startingOffsets, filter, ….

    Raises:
        OptionError: an option or a column cannot be used as given.
        BrokerError: the broker refuses.
    """
    source, schema = _source(options, columns)
    reader = source.reader(schema)
    return _frame(spark, reader, reader.partitions(), schema)


def foreach_batch_source(
    function: BatchFunction,
    *,
    checkpoint: str | Path,
    columns: Iterable[str] | None = None,
    **options: object,
) -> BatchSource:
    """Return what calls a function with the batches of a stream, for `foreachBatch` of a clock.

    Args:
        function: gets a DataFrame and the batch's number; the batch is done when it has returned.
            Called with the same number and the same rows again if it has not.
        checkpoint: a folder that the driver writes, of this query alone; see above.
        columns: only these; all but `headers_json`, if None.
        options: of the data source: stream, startingOffsets, maxOffsetsPerTrigger, readerName, ….

    Raises:
        OptionError: an option or a column cannot be used as given, or the checkpoint is none.
        BrokerError: the broker refuses.

    Examples:
        A query that looks for records once a second:

        >>> source = foreach_batch_source(write, checkpoint="at/orders", stream="orders")
        ... # doctest: +SKIP
        >>> clock = spark.readStream.format("rate").load()  # doctest: +SKIP
        >>> clock.writeStream.foreachBatch(source).trigger(processingTime="1 second").start()
        ... # doctest: +SKIP

        All there is now, and no clock:

        >>> source.read_available(spark)  # doctest: +SKIP
    """
    return BatchSource(function, Path(checkpoint), columns, options)


class BatchSource:
    """Runs the batches of a stream, one after the other."""

    def __init__(
        self,
        function: BatchFunction,
        checkpoint: Path,
        columns: Iterable[str] | None,
        options: dict[str, object],
    ) -> None:
        self._function = function
        self._source, self._schema = _source(options, columns)
        self._checkpoint = Checkpoint(checkpoint)
        self._reader = self._made_reader()

    def __call__(self, clock: DataFrame, clock_batch: int) -> None:
        """Run the next batch, if there is one; what the clock gives is not looked at."""
        self._run_next(clock.sparkSession)

    def read_available(self, spark: SparkSession) -> int:
        """Run batches until all is read that is there now; return how many.

        A batch that was begun before is one of them.
        """
        self._reader = self._made_reader()
        self._reader.prepareForTriggerAvailableNow()
        batches = 0
        try:
            while self._run_next(spark):
                batches += 1
        finally:
            self._reader = self._made_reader()
        return batches

    def _run_next(self, spark: SparkSession) -> bool:
        """Run one batch; False if there is nothing new."""
        reader, checkpoint = self._reader, self._checkpoint
        number, end, done = checkpoint.last()
        if done:
            start = end if end is not None else reader.initialOffset()
            new_end = reader.end_after(start, reader.batch_limits())
            # The first batch may be empty, so that the checkpoint says where the query began.
            if new_end == start and end is not None:
                return False
            number, end = number + 1, new_end
            checkpoint.plan(number, end)
        else:
            before = checkpoint.end_of(number - 1)
            start = before if before is not None else reader.initialOffset()
        parts = reader.partitions(start, end)
        # Tasks get a reader that has asked nothing yet: one that has holds connections.
        self._function(_frame(spark, self._made_reader(), parts, self._schema), number)
        checkpoint.commit(number)
        return True

    def _made_reader(self) -> Any:
        return self._source.stream_reader(self._schema)


class Checkpoint:
    """A folder with the ends of batches and which of them are done, in the layout of Spark's.

    Invariant: a batch's end is on disk before the batch is run, and is never changed.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._offsets, self._commits = folder / "offsets", folder / "commits"
        for each in (self._offsets, self._commits):
            each.mkdir(parents=True, exist_ok=True)
        metadata = folder / "metadata"
        if not metadata.exists():
            _write(metadata, json.dumps({"id": str(uuid.uuid4())}))

    def last(self) -> tuple[int, dict[str, Any] | None, bool]:
        """Return the last batch: its number, its end, whether it is done; -1 if there is none."""
        numbers = [int(path.name) for path in self._offsets.iterdir() if path.name.isdecimal()]
        number = max(numbers, default=-1)
        done = number < 0 or (self._commits / str(number)).exists()
        return number, self.end_of(number), done

    def end_of(self, number: int) -> dict[str, Any] | None:
        """Return a batch's end; None if there is no such batch.

        Raises:
            OptionError: the file is none that this module or a query over one stream writes.
        """
        path = self._offsets / str(number)
        try:
            layout, _, *ends = path.read_text(encoding="utf-8").splitlines()
        except FileNotFoundError:
            return None
        except ValueError:
            layout, ends = "", []
        if layout != LAYOUT or len(ends) != 1:
            raise OptionError(
                f"{path} holds no offsets of a query over one source: restore the checkpoint, or "
                f"give a new one"
            )
        end: dict[str, Any] = json.loads(ends[0])
        return end

    def plan(self, number: int, end: dict[str, Any]) -> None:
        """Note a batch that is going to be run."""
        facts = {"batchWatermarkMs": 0, "batchTimestampMs": int(time.time() * 1000), "conf": {}}
        lines = [LAYOUT, json.dumps(facts), json.dumps(end)]
        _write(self._offsets / str(number), "\n".join(lines))

    def commit(self, number: int) -> None:
        """Note that a batch is done; forget the oldest ones."""
        _write(self._commits / str(number), f'{LAYOUT}\n{{"nextBatchWatermarkMs":0}}')
        for folder in (self._offsets, self._commits):
            (folder / str(number - BATCHES_KEPT)).unlink(missing_ok=True)


def _write(path: Path, text: str) -> None:
    """Write a file that is there as a whole or not at all, also after a crash of the machine."""
    new = path.with_name(f".{path.name}.new")
    with new.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    new.replace(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _source(
    options: dict[str, object], columns: Iterable[str] | None
) -> tuple[DefaultSource, StructType]:
    """Make the data source and the schema to read."""
    source = DefaultSource({name: _text(value) for name, value in options.items()})
    return source, source.struct(columns)


def _text(value: object) -> str:
    """Return an option as Spark hands it to a source."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _frame(spark: SparkSession, reader: Any, parts: list[Any], schema: StructType) -> DataFrame:
    """Return a DataFrame of which each task reads one part."""

    def read(numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in numbers:
            for number in batch.column(0).to_pylist():
                yield from reader.read(parts[number])

    tasks = spark.range(0, len(parts), 1, max(1, len(parts)))
    return tasks.mapInArrow(read, schema)
