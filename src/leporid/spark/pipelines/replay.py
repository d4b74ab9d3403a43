"""Records of an archive or a stream to an exchange once more: a range, a selection, at a rate.

A replay is decided once: what it takes, up to which offsets, under which producer's name, is in its
state before the first message leaves. Then it goes on in chunks. The end of a chunk is in the state
before the chunk is published, so that a replay that was killed publishes exactly this chunk again,
with the same numbers, and the broker leaves out what it has.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from leporid.spark.errors import OptionError
from leporid.spark.offsets import Key, Offsets, Position, from_json, share, to_json
from leporid.spark.pipelines.origin import Origin, rows_between
from leporid.spark.pipelines.places import check_file, sync, written
from leporid.spark.pipelines.publishing import Numbered, Pace
from leporid.spark.pipelines.runner import Step
from leporid.spark.pipelines.store import existing
from leporid.spark.pipelines.table import BAD_REASON, archived, moment_us, with_reason, within

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

CHUNK_ROWS = 50_000
VERSION = 1


@dataclass(frozen=True)
class ReplayPlan:
    """What is replayed, and where to.

    Attributes:
        state: a file of this replay's own; with it, it goes on where it was stopped.
        archive: the stream's archive; None to take what is still in the stream.
        where: an SQL condition over the columns.
        since: nothing older.
        until: nothing from this time on.
        exchange: where to; None is where each record was published before.
        routing_key: with which key; None is each record's own.
        rate: messages in a second; None for as fast as it goes.
        unroutable_fails: whether it is an error that a message goes to no queue.
        include_bad: whether the records that do not fit the archive's schema are replayed, too.
    """

    state: Path
    archive: str | Path | None = None
    where: str | None = None
    since: str | None = None
    until: str | None = None
    exchange: str | None = None
    routing_key: str | None = None
    rate: float | None = None
    chunk_rows: int = CHUNK_ROWS
    unroutable_fails: bool = True
    include_bad: bool = False

    def selection(self) -> dict[str, Any]:
        """Return what may not change while a replay is under way."""
        asked = {
            "where": self.where,
            "since": self.since,
            "until": self.until,
            "exchange": self.exchange,
            "routing_key": self.routing_key,
        }
        # Not said by versions that had no such option.
        return asked | ({"include_bad": True} if self.include_bad else {})


@dataclass
class State:
    """How far a replay came.

    Attributes:
        selection: what was asked for.
        producer: the name the broker knows its messages by.
        at: up to here everything is published.
        end: where it ends.
        goal: up to where it publishes just now; equal to `at` between chunks.
        sequence: the number of the next message.
        left_out: how many selected records do not fit the archive's schema and are not replayed.
    """

    selection: dict[str, Any]
    producer: str
    at: Offsets
    end: Offsets
    goal: Offsets
    sequence: int = 0
    left_out: int = 0

    def save(self, path: Path) -> None:
        """Write it, so that it is there as a whole or as it was."""
        content = {
            "version": VERSION,
            "selection": self.selection,
            "producer": self.producer,
            "at": to_json(self.at),
            "end": to_json(self.end),
            "goal": to_json(self.goal),
            "sequence": self.sequence,
            "left_out": self.left_out,
        }
        path.parent.mkdir(parents=True, exist_ok=True)
        written(path.parent, json.dumps(content, indent=1)).replace(path)
        sync(path.parent)

    @classmethod
    def load(cls, path: Path) -> State | None:
        """Read it back; None if there is none.

        Raises:
            OptionError: it is damaged, or of a newer version.
        """
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
            if content["version"] != VERSION:
                raise OptionError(f"{path} is of version {content['version']}, not {VERSION}")
            places = {name: from_json(content[name]) for name in ("at", "end", "goal")}
            return cls(
                content["selection"],
                content["producer"],
                sequence=content["sequence"],
                left_out=content.get("left_out", 0),
                **places,
            )
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise OptionError(f"{path} cannot be read: {error.strerror}") from None
        except (ValueError, KeyError, TypeError) as error:
            raise OptionError(
                f"{path} cannot be read as a replay's state ({error}): restore it, or give another "
                f"file and begin anew"
            ) from error


Change = Callable[["DataFrame"], "DataFrame"]


@dataclass
class Replay:
    """The pipeline `replay`; `change` may rewrite what is published (see deadletters)."""

    spark: SparkSession | None
    origin: Origin
    plan: ReplayPlan
    change: Change | None = None
    name: str = "replay"
    interval_seconds: float = 1.0
    pace: Pace | None = None
    _state: State | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if self.pace is None:
            self.pace = Pace(self.plan.rate)
        self._state = State.load(self.plan.state)
        if self._state is not None and self._state.selection != self.plan.selection():
            raise OptionError(
                f"{self.plan.state} is the state of another replay "
                f"({self._state.selection}): give this one a file of its own"
            )

    @property
    def labels(self) -> Mapping[str, str]:
        """Say which replay it is, for metrics."""
        return self.origin.labels(self.plan.state)

    # ------------------------------------------------------------ what is replayed

    def selected(self) -> DataFrame:
        """Return all records that are to be replayed, and the bad ones that are left out."""
        assert self.spark is not None
        return self._selected(self._source())

    def _meant(self) -> Column:
        """Return whether a selected record is replayed."""
        from pyspark.sql import functions as f

        return f.lit(True) if self.plan.include_bad else f.col(BAD_REASON).isNull()

    def _source(self, start: Offsets | None = None, end: Offsets | None = None) -> DataFrame:
        """Return records of archive or stream, between two positions or all."""
        from pyspark.sql import functions as f

        assert self.spark is not None
        if self.plan.archive is None:
            return with_reason(
                self.origin.records(
                    self.spark, start or self.origin.begin(), end or self.origin.begin("latest")
                )
            )
        first, last = moment_us(self.plan.since), moment_us(self.plan.until)
        # What is left out is counted when the replay begins.
        df, _, _ = archived(
            self.spark,
            self.plan.archive,
            self.origin.stream,
            first,
            last,
            include_bad=self.plan.include_bad or start is None,
        )
        if df is None:
            raise OptionError(f"{self.plan.archive} holds nothing of that time")
        if start is not None and end is not None:
            ranges = f.lit(False)
            for key, at in end.items():
                if at.offset > start[key].offset:
                    ranges = ranges | (
                        (f.col("partition") == key.partition)
                        & (f.col("offset") >= start[key].offset)
                        & (f.col("offset") < at.offset)
                    )
            df = df.where(ranges)
        return with_reason(df)

    def _selected(self, df: DataFrame) -> DataFrame:
        df = within(df, moment_us(self.plan.since), moment_us(self.plan.until))
        return df.where(self.plan.where) if self.plan.where else df

    def _survey(self) -> tuple[Offsets, Offsets, int, int]:
        """Return the range that holds all that is replayed.

        Further how many records that is, and how many are left out.
        """
        from pyspark.sql import functions as f

        meant = self._meant()
        offset = f.when(meant, f.col("offset"))
        found = (
            self.selected()
            .groupBy("partition")
            .agg(f.min(offset), f.max(offset), f.count_if(meant), f.count_if(~meant))
            .collect()
        )
        start: Offsets = {}
        end: Offsets = {}
        for partition, least, most, rows, _ in found:
            if not rows:
                continue
            key = Key(self.origin.stream, partition)
            start[key] = Position(least, "", least)
            end[key] = Position(most + 1, "", least)
        if self.plan.archive is None:
            # Reading the stream wants every partition named.
            for key, at in self.origin.begin().items():
                start.setdefault(key, at)
                end.setdefault(key, start[key])
        return start, end, sum(row[3] for row in found), sum(row[4] for row in found)

    def check(self) -> None:
        """Refuse an archive, or without one a stream, that is not there, and a state to nowhere."""
        check_file(self.plan.state)
        for moment in (self.plan.since, self.plan.until):
            moment_us(moment)
        if self.plan.rate is not None and not self.plan.rate > 0:
            raise OptionError(f"rate = {self.plan.rate}: must be more than 0 messages a second")
        if self.plan.archive is None:
            self.origin.parts()
        else:
            existing(self.plan.archive)

    def describe(self) -> list[str]:
        """Say what a run would do."""
        source = self.plan.archive or f"stream {self.origin.stream!r}"
        to = "its own exchange" if self.plan.exchange is None else f"{self.plan.exchange!r}"
        if self._state is not None:
            left = rows_between(self._state.at, self._state.end)
            return [f"{source} to {to}", f"goes on: {left:,} offsets left"]
        _, _, rows, left_out = self._survey()
        rate = self.plan.rate
        takes = f", {rows / rate:,.0f} s at {rate:,.0f}/s" if rate else ""
        lines = [f"{source} to {to}", f"{rows:,} messages{takes}"]
        return [*lines, *filter(None, [_said_of(left_out)])]

    def wait(self, seconds: float) -> None:
        """Return at once: a replay has an end."""

    # ------------------------------------------------------------ one step

    def step(self) -> Step:
        """Publish one chunk."""
        state = self._begun()
        if not rows_between(state.at, state.end):
            return Step(0, 0, _said_of(state.left_out))
        if not rows_between(state.at, state.goal):
            state.goal = ahead(state.at, state.end, self.plan.chunk_rows)
            state.save(self.plan.state)
        rows = self._outgoing(state.at, state.goal)
        assert self.pace is not None
        out = Numbered(
            self.origin.client,
            state.producer,
            self.plan.exchange or "",
            self.pace,
            self.plan.unroutable_fails,
        )
        again = out.publish(rows, state.sequence)
        passed = rows_between(state.at, state.goal)
        state.at = state.goal
        state.sequence += rows.num_rows
        state.save(self.plan.state)
        notes = [f"{again:,} were there already"] if again else []
        notes.append(_said_of(state.left_out))
        return Step(
            rows.num_rows,
            rows_between(state.at, state.end),
            "; ".join(filter(None, notes)),
            passed=passed,
        )

    def _begun(self) -> State:
        if self._state is None:
            start, end, _, left_out = self._survey()
            producer = f"replay/{uuid.uuid4().hex}"
            self._state = State(
                self.plan.selection(), producer, start, end, start, left_out=left_out
            )
            self._state.save(self.plan.state)
        return self._state

    def _outgoing(self, start: Offsets, end: Offsets) -> Any:
        """Return the messages of a chunk, in order."""
        from pyspark.sql import functions as f

        df = self._selected(self._source(start, end)).where(self._meant())
        if self.change is not None:
            df = self.change(df)
        if self.plan.exchange is not None:
            df = df.withColumn("exchange", f.lit(self.plan.exchange))
        if self.plan.routing_key is not None:
            df = df.withColumn("routing_key", f.lit(self.plan.routing_key))
        columns = ["partition", "offset", "body", "exchange", "routing_key"]
        rows = df.select(*columns, "headers", "properties").toArrow()
        return rows.sort_by([("partition", "ascending"), ("offset", "ascending")])


def _said_of(left_out: int) -> str:
    """Say how many records are left out."""
    if not left_out:
        return ""
    return f"{left_out:,} that do not fit the archive's schema left out (see --include-bad)"


def ahead(at: Offsets, end: Offsets, rows_max: int) -> Offsets:
    """Return the end of the next chunk: so many offsets further, over all partitions."""
    left = {key: end[key].offset - place.offset for key, place in at.items()}
    shares = share(left, rows_max)
    return {
        key: Position(place.offset + shares[key], place.incarnation, place.since)
        for key, place in at.items()
    }
