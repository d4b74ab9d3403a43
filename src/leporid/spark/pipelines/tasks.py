"""Spark's tasks of an archive: a range of a stream into files; the part that costs time.

A task reads its range from the broker and writes it, all in Python and Arrow: rows that go through
Java on their way cost several times as much. Java gets those bodies only that `json_batches` leaves
to it: Spark's `from_json` decodes them, and a second task behind it writes them, in the same job.

Invariant: each row of the ranges is in exactly one of the files that are returned. A task that
fails is done again as a whole, with other files.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from leporid.spark.errors import OptionError
from leporid.spark.http import client_for
from leporid.spark.offsets import Range, split
from leporid.spark.options import Connection
from leporid.spark.pipelines import json_batches
from leporid.spark.pipelines.bodies.decoder import Body, Decoder
from leporid.spark.pipelines.decoding import REASON, arrow_columns, decode
from leporid.spark.pipelines.files import DATE, DataFile, FileWriter, Partitions, in_utc
from leporid.spark.pipelines.places import Place
from leporid.spark.records import ReadOptions, batches
from leporid.spark.schema import COLUMNS, ddl

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# A task of fewer rows costs more to start than it does.
TASK_ROWS_MIN = 20_000

# A row with this is the report of a file, as JSON, and no record.
FILE = "leporid_file"
GOOD, BAD = "good", "bad"
# Instead of a file, the report of a task has a sentence: trying again would come to the same.
REFUSED = "refused"

Batches = Iterable[pa.RecordBatch]
Task = Callable[[Batches], Iterator[pa.RecordBatch]]


@dataclass(frozen=True)
class Job:
    """What is written, and to where; goes to executors.

    Attributes:
        connection: to the broker.
        options: how the records are wanted: all columns.
        good: the folder; all executors see it.
        bad: the folder for rows that do not fit the schema, whose files have the reason; by day.
        by: what the good rows are partitioned by.
        body: how bodies are decoded; without columns bytes only are kept, and no row is bad.
        aside: offsets that are bad rows already, by partition: they are left out.
    """

    connection: Connection
    options: ReadOptions
    good: Place
    bad: Place
    by: Sequence[str] = (DATE,)
    body: Body = field(default_factory=Body)
    aside: Mapping[int, Sequence[int]] = field(default_factory=dict)

    @property
    def schema(self) -> str:
        """The columns of the bodies."""
        return self.body.columns

    @property
    def by_spark(self) -> bool:
        """Whether Spark decodes what `json_batches` leaves."""
        return bool(self.schema) and self.body.format == "json" and not self.body.schemas

    def wanted(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows that are not bad rows already."""
        if not self.aside or not batch.num_rows:
            return batch
        offsets = self.aside.get(batch.column("partition")[0].as_py(), ())
        known = pc.is_in(batch.column("offset"), pa.array(offsets, pa.int64()))
        return batch.filter(pc.invert(known))


def write(
    spark: SparkSession, job: Job, ranges: Sequence[Range], tasks: int | None = None
) -> tuple[list[DataFile], list[DataFile]]:
    """Write the records of ranges into new files, one for each task and partition.

    Returns:
        The files with good rows, and those with bad ones, by time.

    Raises:
        OptionError: the rows cannot be written in the way that was asked for.
    """
    for folder in (job.good, job.bad) if job.schema else (job.good,):
        folder.make()
    parts = split(ranges, tasks or tasks_for(sum(map(len, ranges)), cores_of(spark)))
    numbers = spark.range(0, len(parts), 1, len(parts))
    if job.by_spark:
        df = numbers.mapInArrow(_first(job, parts), f"{ddl(COLUMNS)}, {FILE} string")
        df = decode(df, job.schema).mapInArrow(_second(job), f"{FILE} string")
    else:
        df = numbers.mapInArrow(_first(job, parts), f"{FILE} string")
    found: dict[str, list[DataFile]] = {GOOD: [], BAD: []}
    for row in df.collect():
        kind, file = json.loads(row[FILE])
        if kind == REFUSED:
            raise OptionError(file)
        found[kind].append(DataFile(**file))
    for files in found.values():
        files.sort(key=lambda file: (file.first_us, file.name))
    return found[GOOD], found[BAD]


def tasks_for(rows: int, cores: int) -> int:
    """Return into how many tasks so many rows are divided."""
    return max(1, min(cores, math.ceil(rows / TASK_ROWS_MIN)))


def cores_of(spark: SparkSession) -> int:
    """Return how many tasks run at once; 1 if a Spark Connect session does not tell."""
    try:
        return int(spark.sparkContext.defaultParallelism)
    except AttributeError:
        return 1


def write_empty(schema: str, folder: Place) -> DataFile:
    """Write a file without rows: the columns of a new table that has no good row yet."""
    columns = COLUMNS.append(pa.field("value", arrow_columns(schema))) if schema else COLUMNS
    return FileWriter(folder, {}, in_utc(columns.empty_table()).schema).close()


def _first(job: Job, parts: Sequence[Range]) -> Task:
    """Make the task that reads and writes; it gives the rows that it leaves to Spark."""

    def run(numbers: Batches) -> Iterator[pa.RecordBatch]:
        files, bad = Partitions(job.good, job.by), Partitions(job.bad)
        columns = json_batches.struct_of(job.schema) if job.by_spark else None
        decoder = Decoder(job.body) if job.schema and not job.by_spark else None
        for part in (parts[row] for batch in numbers for row in batch.column(0).to_pylist()):
            for batch in map(job.wanted, batches(client_for(job.connection), part, job.options)):
                if not job.schema:
                    files.add(batch)
                    continue
                if decoder is not None:
                    _divide(batch, decoder, files, bad)
                    continue
                for rows, value in _values(batch, columns):
                    if value is None:
                        yield rows.append_column(FILE, pa.nulls(rows.num_rows, pa.string()))
                    else:
                        files.add(rows.append_column("value", value))
        yield from _reports(GOOD, files, COLUMNS if job.by_spark else None)
        yield from _reports(BAD, bad, COLUMNS if job.by_spark else None)

    return _refusing(run, COLUMNS if job.by_spark else None)


def _refusing(task: Task, columns: pa.Schema | None = None) -> Task:
    """Have a task report a wrong option; Spark would try again what raises, and so would a run."""

    def run(given: Batches) -> Iterator[pa.RecordBatch]:
        try:
            yield from task(given)
        except OptionError as error:
            yield _report([json.dumps([REFUSED, str(error)])], columns)

    return run


def _divide(batch: pa.RecordBatch, decoder: Decoder, good: Partitions, bad: Partitions) -> None:
    """Decode bodies, and write the rows to where they belong."""
    values, reasons = decoder.decode(batch)
    is_good = pc.is_null(reasons)
    good.add(batch.append_column("value", values).filter(is_good))
    bad.add(batch.append_column(REASON, reasons).filter(pc.invert(is_good)))


def _values(
    batch: pa.RecordBatch, columns: pa.StructType | None
) -> Iterator[tuple[pa.RecordBatch, pa.StructArray | None]]:
    """Give the rows in parts, with the columns of their bodies if these are certain."""
    if columns is None:
        yield batch, None
        return
    size = batch.num_rows
    while size:
        left = []
        for begin in range(0, batch.num_rows, size):
            rows = batch.slice(begin, size)
            value = json_batches.decoded(rows.column("body"), columns)
            if value is not None or size <= json_batches.PART_ROWS:
                yield rows, value
            else:
                left.append(rows)
        if not left:
            return
        batch = pa.concat_batches(left)
        size = json_batches.PART_ROWS


def _second(job: Job) -> Task:
    """Make the task that writes what Spark has decoded, and passes reports on."""

    def run(given: Batches) -> Iterator[pa.RecordBatch]:
        good, bad = Partitions(job.good, job.by), Partitions(job.bad)
        for batch in given:
            reports = batch.column(FILE)
            is_record = pc.is_null(reports)
            yield pa.RecordBatch.from_arrays([reports.drop_null()], [FILE])
            rows = batch.filter(is_record).drop_columns([FILE])
            is_good = pc.is_null(rows.column(REASON))
            good.add(rows.filter(is_good).drop_columns([REASON]))
            # What could not be decoded has no value.
            bad.add(rows.filter(pc.invert(is_good)).drop_columns(["value"]))
        yield from _reports(GOOD, good)
        yield from _reports(BAD, bad)

    return _refusing(run)


def _reports(
    kind: str, files: Partitions, columns: pa.Schema | None = None
) -> Iterator[pa.RecordBatch]:
    """Finish files, and give a row of each, with these columns before it."""
    texts = [json.dumps([kind, asdict(file)]) for file in files.close()]
    if texts:
        yield _report(texts, columns)


def _report(texts: Sequence[str], columns: pa.Schema | None) -> pa.RecordBatch:
    """Return a row of each text, with these columns before it."""
    nulls = [pa.nulls(len(texts), each.type) for each in columns or ()]
    names = [*(columns.names if columns else ()), FILE]
    return pa.RecordBatch.from_arrays([*nulls, pa.array(texts, pa.string())], names)
