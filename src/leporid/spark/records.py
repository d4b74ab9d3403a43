"""One range of one partition as Arrow batches: all of it, or an error.

Responsible for asking, for going on after a cut where it stopped, and for knowing that nothing is
missing. Must not know Spark.

Invariant: `batches` ends without an error only if every record of the range that the broker keeps
and the filter lets through has been given, once, in order. Without a filter that is counted.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from leporid.spark.errors import BrokerError, CutError, DataLossError
from leporid.spark.http import BUSY, Client, Pauses
from leporid.spark.offsets import Range, advice, lost
from leporid.spark.schema import project

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Filter:
    """What to leave out: by the broker (`parameters`), and here (`expression`).

    Attributes:
        parameters: of the request: exchange, routing_key, routing_key_prefix, tags, filter,
            dialect.
        expression: an Arrow expression over `columns`.
        columns: what the expression needs.
    """

    parameters: Mapping[str, str] = field(default_factory=dict)
    expression: pc.Expression | None = None
    columns: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """How records are wanted, the same for all ranges of a query."""

    schema: pa.Schema
    batch_rows: int = 10_000
    compression: str = "none"
    fail_on_loss: bool = True
    filter: Filter = field(default_factory=Filter)

    @property
    def counted(self) -> bool:
        """Whether offsets are dense in what comes, so that counting rows is knowing them."""
        return self.fail_on_loss and not self.filter.parameters

    def columns(self) -> list[str]:
        """Return the columns to ask for: those wanted, and those needed here."""
        needed = [*self.schema.names, *self.filter.columns]
        if not self.counted:
            needed.append("offset")
        return list(dict.fromkeys(needed))


def batches(client: Client, part: Range, options: ReadOptions) -> Iterator[pa.RecordBatch]:
    """Give the records of a range.

    Raises:
        DataLossError: some are gone and `fail_on_loss`, or the stream is another one.
        CutError: the broker stayed away.
        BrokerError: it refused.
    """
    pauses = Pauses(client.to.retry_ms / 1000)
    left = part
    while len(left):
        try:
            with client.records(left.key.stream, _query(left, options)) as body:
                for batch in body.batches():
                    left = _after(left, batch, options)
                    pauses.succeeded()
                    ready = _wanted(batch, options)
                    if ready.num_rows:
                        yield ready
            # The broker says that this was all; with dense offsets that can be checked.
            if options.counted and len(left):
                raise CutError(
                    f"records of {part.key}: {len(left)} of {len(part)} rows are missing "
                    f"from an answer that looked whole"
                )
            return
        except CutError as error:
            log.debug("going on at offset %d", left.start)
            if not pauses.pause(error):
                raise
        except BrokerError as error:
            if error.status in BUSY and pauses.pause(error):
                continue
            left = _refused(error, left, options)


def _query(part: Range, options: ReadOptions) -> dict[str, Any]:
    return {
        "partition": part.key.partition,
        "from": part.start,
        "to": part.end,
        "columns": ",".join(options.columns()),
        "compression": options.compression,
        "batch_rows": options.batch_rows,
        "incarnation": part.incarnation,
        "skip_lost": None if options.fail_on_loss else "true",
        **options.filter.parameters,
    }


def _after(left: Range, batch: pa.RecordBatch, options: ReadOptions) -> Range:
    """Return what is left of a range after a batch."""
    if not batch.num_rows:
        return left
    if options.counted:
        start = left.start + batch.num_rows
    else:
        start = batch.column("offset")[-1].as_py() + 1
    if start > left.end:
        raise CutError(f"records of {left.key}: the broker sent more than [.., {left.end})")
    return replace(left, start=start)


def _wanted(batch: pa.RecordBatch, options: ReadOptions) -> pa.RecordBatch:
    if options.filter.expression is not None:
        batch = batch.filter(options.filter.expression)
    return project(batch, options.schema)


def _refused(error: BrokerError, left: Range, options: ReadOptions) -> Range:
    """Decide what a refusal means: what is left to read, or an error."""
    if error.word == "gone":
        first = int(str(error.facts.get("first", left.end)))
        gone = lost(left.key, left.start, min(first, left.end))
        if options.fail_on_loss:
            raise DataLossError(advice(gone)) from error
        log.warning("%s; going on, as failOnDataLoss = false", gone)
        return replace(left, start=min(max(first, left.start), left.end))
    if error.word == "lost" and options.fail_on_loss:
        raise DataLossError(advice(f"records of {left.key} are damaged: {error}")) from error
    if error.word == "incarnation" or error.status == 404:
        gone = f"{left.key} is not {left.incarnation} any more: it was deleted or made again"
        if options.fail_on_loss:
            raise DataLossError(advice(gone)) from error
        log.warning("%s; going on without it, as failOnDataLoss = false", gone)
        return replace(left, start=left.end)
    raise error
