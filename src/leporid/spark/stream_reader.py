"""Reading streams micro-batch by micro-batch.

The offset methods run in one long-lived process beside the driver, `read` in workers with a copy
made before any of them was called. Spark's checkpoint is the only truth about the position: what
is in this object is forgotten when the query ends, and may be.

An idle query asks for the latest offset every 11 ms, so the broker is asked to answer only when
there is something new or after `pollMs`: two requests in a second instead of a hundred and eighty.

PySpark before 4.2 asks for the latest offset without saying where the query stands. The reader
remembers it then: Spark names it in `partitions`, of each batch before it runs and, when a query
goes on from a checkpoint, before anything else.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from leporid.spark import features, offsets
from leporid.spark import pushdown as filters
from leporid.spark.checks import LATEST
from leporid.spark.errors import OptionError, SparkSourceError, sentences_alone
from leporid.spark.features import (
    DataSourceStreamReader,
    InputPartition,
    SupportsTriggerAvailableNow,
    limits,
)
from leporid.spark.http import client_for
from leporid.spark.offsets import BatchLimits, Key, Offsets, Part
from leporid.spark.options import Connection, Reading, Start
from leporid.spark.reader import RangePartition, read, read_options
from leporid.spark.survey import Survey

log = logging.getLogger(__name__)


@sentences_alone("initialOffset", "latestOffset", "partitions", "read", "commit")
class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads what is beyond the checkpoint, in portions."""

    def __init__(self, connection: Connection, reading: Reading, schema: pa.Schema) -> None:
        self.connection = connection
        self.reading = reading
        self.schema = schema
        self.pushed = filters.for_options(reading)
        self._seen: Offsets | None = None
        self._available_now: dict[Key, Part] | None = None
        self._last_batch = time.monotonic()
        self._said: set[str] = set()
        self._stored: Offsets = {}
        self._made_survey: Survey | None = None
        # For PySpark before 4.2: the end of the batch that was planned last, and the start of a
        # query that was taken for a new one.
        self._planned: dict[str, Any] | None = None
        self._assumed: dict[str, Any] | None = None

    # ------------------------------------------------------------ where a query starts

    def initialOffset(self) -> dict[str, Any]:
        """Return where a new query begins; Spark asks only when there is no checkpoint."""
        if self._assumed is not None:
            initial, self._assumed = self._assumed, None
            return initial
        survey = self._survey()
        survey.check()
        parts = survey.parts()
        starts = survey.resolve(self.reading.start or Start(at=LATEST), parts, "starting")
        return offsets.to_json(offsets.initial(starts, parts))

    # ------------------------------------------------------------ how far a batch goes

    def getDefaultReadLimit(self) -> Any:
        """Name the limit that the options set; Spark knows no limit of several kinds."""
        if self.reading.rows_max is not None:
            return limits.ReadMaxRows(self.reading.rows_max)
        if self.reading.bytes_max is not None:
            return limits.ReadMaxBytes(self.reading.bytes_max)
        if self.reading.rows_min is not None:
            return limits.ReadMinRows(self.reading.rows_min)
        return limits.ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:
        """Fix the end: what comes from now on is not of this run."""
        self._available_now = self._survey().parts(missing=True)

    def latestOffset(self, start: dict[str, Any] | None = None, limit: Any = None) -> Any:
        """Return the end of the next batch, `start` itself if there is none.

        Args:
            start: where the query stands; PySpark before 4.2 says neither this nor a limit.
            limit: Spark's, one of the classes of `pyspark.sql.streaming.datasource`.

        Raises:
            DataLossError: the broker does not have any more what comes next.
            OptionError: the checkpoint is that of a query over other streams.
        """
        if start is None:
            return self.end_after(self._remembered_start(), BatchLimits())
        if isinstance(limit, limits.ReadAllAvailable):
            return self.end_after(start, BatchLimits())
        rows_max = limit.max_rows if isinstance(limit, limits.ReadMaxRows) else None
        return self.end_after(start, self.batch_limits(rows_max))

    def end_after(self, start: dict[str, Any], bounds: BatchLimits) -> dict[str, Any]:
        """Return the end of a batch from `start` on, `start` itself if there is none."""
        position = self._of_checkpoint(start)
        self._store(position)
        if self._available_now is not None:
            parts = self._available_now
        else:
            parts = self._survey().wait(position, self.reading.poll_ms)
        if not parts and not position and self.reading.pattern is not None:
            self._warn([f"{self._survey().no_match()}: waiting for one"])
        self._seen = offsets.latest(parts, position)
        current, losses = offsets.reconcile(position, parts, fail_on_loss=self.reading.fail_on_loss)
        self._warn(losses)
        waited_ms = (time.monotonic() - self._last_batch) * 1000
        if not offsets.worth_it(current, parts, bounds, waited_ms):
            self._rest(parts, current)
            return start
        end = offsets.advance(current, parts, bounds)
        if not offsets.ranges(position, end):
            return start
        self._last_batch = time.monotonic()
        return offsets.to_json(end)

    def batch_limits(self, rows_max: int | None = None) -> BatchLimits:
        """Combine a limit of Spark's with the options; one run of everything waits for nothing."""
        reading = self.reading
        if reading.rows_max is not None:
            rows_max = min(rows_max or reading.rows_max, reading.rows_max)
        waits = self._available_now is None
        return BatchLimits(
            rows_max=rows_max,
            bytes_max=reading.bytes_max,
            rows_min=reading.rows_min if waits else None,
            delay_ms_max=reading.delay_ms_max,
        )

    def _remembered_start(self) -> dict[str, Any]:
        """Return where the query stands, for a PySpark that does not say it."""
        reading = self.reading
        given = {
            "maxOffsetsPerTrigger": reading.rows_max,
            "maxBytesPerTrigger": reading.bytes_max,
            "minOffsetsPerTrigger": reading.rows_min,
        }
        ignored = [name for name, value in given.items() if value is not None]
        if ignored:
            self._warn([features.no_limits(ignored)])
        if self._planned is None:
            # Nothing was planned, not even a checkpoint's batch again: the query is new.
            self._planned = self._assumed = self.initialOffset()
        return self._planned

    def _rest(self, parts: dict[Key, Part], current: Offsets) -> None:
        """Wait a little when there is something, but too little for a batch.

        The broker answers a long poll at once then, and Spark asks again at once.
        """
        if offsets.lag(current, parts):
            time.sleep(self.reading.poll_ms / 1000)

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """Return the end of the streams as of the last look, which shows as the query's lag."""
        return None if self._seen is None else offsets.to_json(self._seen)

    # ------------------------------------------------------------ what a batch reads

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Divide a batch among tasks; the same for the same batch, as it may be replayed.

        Raises:
            OptionError: Spark fixed the end of the run before it named the checkpoint.
        """
        if self._assumed is not None:
            raise OptionError(
                f"spark.sql.streaming.triggerAvailableNowWrapper.enabled = true would skip or "
                f"repeat records with PySpark {features.VERSION}: set it to false"
            )
        self._planned = end
        ranges = offsets.ranges(offsets.from_json(start), self._of_checkpoint(end))
        ranges = offsets.split(ranges, self.reading.partitions_min)
        return [RangePartition(part) for part in ranges]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Give the records of a task."""
        return read(
            self.connection, partition, read_options(self.reading, self.schema, self.pushed)
        )

    # ------------------------------------------------------------ afterwards

    def commit(self, end: dict[str, Any]) -> None:
        """Do nothing: Spark calls this one batch late, and not at all for the last one."""

    def stop(self) -> None:
        """Do nothing: Spark ends the process, with or without calling this."""

    def _of_checkpoint(self, value: dict[str, Any]) -> Offsets:
        """Return a position that Spark has kept, if it is one in the streams that are read.

        Spark itself does not notice that a query was started with another stream.
        """
        position, survey = offsets.from_json(value), self._survey()
        offsets.check_streams(
            position, survey.reads, str(survey), fail_on_loss=self.reading.fail_on_loss
        )
        return position

    def _store(self, position: Offsets) -> None:
        """Store the position under the query's name at the broker, as a named reader's.

        Spark asks for the end of the next batch when the batch before is done, also when there is
        no next one: what is before `position` has been read, and the last batch is included.
        """
        name = self.reading.reader_name
        if name is None:
            return
        for key, at in position.items():
            if self._stored.get(key) == at:
                continue
            self._stored[key] = at
            try:
                client_for(self.connection).store_reader_position(
                    key, at.incarnation, name, at.offset
                )
            except SparkSourceError as error:
                self._warn([f"the position of reader {name!r} in {key} was not stored: {error}"])

    def _survey(self) -> Survey:
        # Made late, as this object is pickled before it is used.
        if self._made_survey is None:
            self._made_survey = Survey(client_for(self.connection), self.reading)
        return self._made_survey

    def _warn(self, sentences: list[str]) -> None:
        """Log what was lost, once for each."""
        for sentence in sentences:
            if sentence not in self._said:
                self._said.add(sentence)
                log.warning("%s", sentence)


@sentences_alone("initialOffset", "latestOffset", "partitions", "read")
class RefusedReader(DataSourceStreamReader):
    """Raises what was wrong when the query starts: the first thing that Spark asks for."""

    def __init__(self, error: SparkSourceError) -> None:
        self._error = error.with_traceback(None)

    def initialOffset(self) -> dict[str, Any]:
        """Refuse a new query."""
        raise self._error

    def latestOffset(self, start: Any = None, limit: Any = None) -> dict[str, Any]:
        """Refuse a query that has a checkpoint."""
        raise self._error

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Refuse a batch that was planned before."""
        raise self._error

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Refuse."""
        raise self._error
