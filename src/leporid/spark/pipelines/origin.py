"""A stream as pipelines read it: which offsets there are, and a range of them as a DataFrame.

Invariant: a range is read as it was planned, or not at all: its borders are offsets, said before
Spark starts.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from leporid.spark import options as said
from leporid.spark.checks import moment_ms
from leporid.spark.errors import BrokerError, OptionError
from leporid.spark.http import Client, client_for
from leporid.spark.offsets import Key, Offsets, Part, Position, Range, reconcile
from leporid.spark.pushdown import for_options
from leporid.spark.records import ReadOptions, batches
from leporid.spark.schema import COLUMNS, nearest
from leporid.spark.survey import beyond, parts_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# What a start can be, besides what was archived before.
EARLIEST = "earliest"
LATEST = "latest"


@dataclass(frozen=True)
class Origin:
    """One stream of one broker.

    Attributes:
        stream: its name.
        options: how to reach the broker, as the data source takes them: url, vhost, user, ….
        fail_on_loss: whether it is an error that records are gone before they were read.
        select: which records are wanted, as the data source takes it: filter, filterDialect,
            filterTags, routingKeyPattern.
    """

    stream: str
    options: Mapping[str, str] = field(default_factory=dict)
    fail_on_loss: bool = True
    select: Mapping[str, str] = field(default_factory=dict)

    @property
    def connection(self) -> said.Connection:
        """How to reach the broker."""
        return said.connection(said.check_all(self.options))

    @property
    def client(self) -> Client:
        """The connection to the broker."""
        return client_for(self.connection)

    def labels(self, target: str | Path = "") -> dict[str, str]:
        """Say in metrics what is read, and where to it goes."""
        return {
            "stream": self.stream,
            "vhost": self.options.get("vhost", "/"),
            "target": str(target),
        }

    def check(self) -> None:
        """Refuse a stream that is not there, and a filter that is none.

        Raises:
            OptionError: what is wrong.
        """
        self._reading()
        self.parts()

    def _reading(self) -> said.Reading:
        given = {**self.options, **self.select, "stream": self.stream}
        return said.reading(said.check_all(given))

    def parts(self) -> dict[Key, Part]:
        """Return what the broker has of each partition.

        Raises:
            OptionError: there is no such stream.
        """
        try:
            return parts_of(self.client.info(self.stream))
        except BrokerError as error:
            if error.status != 404:
                raise
            near = nearest(self.stream, self.client.streams())
            raise OptionError(f"there is no stream {self.stream!r}{near} ({error})") from error

    def wait(self, current: Offsets, seconds: float) -> None:
        """Return as soon as there is something beyond a position, or after the time."""
        poll_ms = max(0, min(said.POLL_MS_MAX, int(seconds * 1000)))
        self.client.info(self.stream, beyond(current, self.stream), poll_ms)

    def begin(self, start: str = EARLIEST) -> Offsets:
        """Return where something new begins: `earliest`, `latest`, or a time in ISO 8601.

        Raises:
            OptionError: it is none of these.
        """
        parts = self.parts()
        if start == EARLIEST:
            at = {key: part.first for key, part in parts.items()}
        elif start == LATEST:
            at = {key: part.end for key, part in parts.items()}
        else:
            found = self.client.offset_for(self.stream, moment_ms("start", start))
            at = {key: found.get(key.partition, part.end) for key, part in parts.items()}
        return {key: Position(at[key], part.incarnation, at[key]) for key, part in parts.items()}

    def reconciled(self, start: Offsets, parts: Mapping[Key, Part]) -> tuple[Offsets, list[str]]:
        """Return where to go on, and what is lost; see `offsets.reconcile`."""
        return reconcile(start, parts, fail_on_loss=self.fail_on_loss)

    def store(self, reader: str, position: Offsets) -> None:
        """Store a position at the broker, as that of a named reader.

        Raises:
            SparkSourceError: the broker refuses, or cannot be reached.
        """
        for key, at in sorted(position.items()):
            self.client.store_reader_position(key, at.incarnation, reader, at.offset)

    def read_options(self, columns: pa.Schema = COLUMNS) -> ReadOptions:
        """Return how records are to be fetched without Spark's data source."""
        reading = self._reading()
        return ReadOptions(
            columns,
            reading.batch_rows,
            reading.compression,
            self.fail_on_loss,
            for_options(reading).filter,
        )

    def bodies(self, start: Offsets, end: Offsets, count: int) -> Iterator[bytes | None]:
        """Give the first bodies of each partition between two positions, without Spark."""
        options = self.read_options(pa.schema([COLUMNS.field("body")]))
        for key, at in sorted(end.items()):
            first = start[key].offset if key in start else at.since
            part = Range(key, first, min(at.offset, first + count), at.incarnation)
            for batch in batches(self.client, part, options):
                yield from batch.column("body").to_pylist()

    def records(
        self,
        spark: SparkSession,
        start: Offsets,
        end: Offsets,
        *,
        tasks: int | None = None,
        extra: Mapping[str, str] | None = None,
    ) -> DataFrame:
        """Return the records between two positions."""
        given = {**self.options, **self.select, **(extra or {})}
        given["stream"] = self.stream
        given["startingOffsets"] = offsets_text(start)
        given["endingOffsets"] = offsets_text(end)
        given["failOnDataLoss"] = "true" if self.fail_on_loss else "false"
        if tasks is not None:
            given["minPartitions"] = str(tasks)
        return spark.read.format("leporid").options(**given).load()


def offsets_text(offsets: Offsets) -> str:
    """Return a position as the data source's options have it."""
    table: dict[str, dict[str, int]] = {}
    for key in sorted(offsets):
        table.setdefault(key.stream, {})[str(key.partition)] = offsets[key].offset
    return json.dumps(table)


def rows_between(start: Offsets, end: Offsets) -> int:
    """Return how many offsets lie between two positions."""
    return sum(
        max(0, position.offset - (start[key].offset if key in start else position.since))
        for key, position in end.items()
    )
