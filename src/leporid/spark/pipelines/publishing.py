"""Rows from the driver to the broker: in order, numbered, not faster than allowed.

Responsible for pacing and for numbering: the broker leaves out what a producer has published
before, so a batch that was interrupted is simply published again with the same numbers.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

import pyarrow as pa

from leporid.spark.errors import PublishError
from leporid.spark.http import Client
from leporid.spark.options import DEFAULT_EXCHANGE, REQUEST_ROWS
from leporid.spark.schema import WRITABLE

# With a rate, a request has the rows of so many seconds: few enough to be even.
PACE_SECONDS = 0.1


@dataclass
class Pace:
    """A rate that is kept on average, without catching up on what was missed.

    Attributes:
        rate: rows in a second; None for no limit.
    """

    rate: float | None = None
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    _next: float = field(default=0.0, repr=False)

    def rows_max(self) -> int:
        """Return how many rows one request may have."""
        if self.rate is None:
            return REQUEST_ROWS
        return max(1, min(REQUEST_ROWS, int(self.rate * PACE_SECONDS)))

    def take(self, rows: int) -> None:
        """Wait until so many rows may go."""
        if self.rate is None:
            return
        now = self.clock()
        if now < self._next:
            self.sleep(self._next - now)
        self._next = max(now, self._next) + rows / self.rate


@dataclass
class Numbered:
    """Publishes tables under one producer's name.

    Attributes:
        client: the broker.
        producer: the name under which the broker remembers the numbers.
        exchange: where rows go that name no exchange.
        unroutable_fails: whether it is an error that a row went to no queue.
    """

    client: Client
    producer: str
    exchange: str = ""
    pace: Pace = field(default_factory=Pace)
    unroutable_fails: bool = True

    def publish(self, rows: pa.Table, sequence: int) -> int:
        """Publish rows, the first one with a number; return how many the broker had already.

        Raises:
            PublishError: the broker refused a row, or it went nowhere.
        """
        # PySpark comes with it: half a second, which is most of a command that needs no Spark.
        from leporid.spark.writer import cut, encoded

        again = 0
        for batch in rows.combine_chunks().to_batches():
            for piece in cut(publishable(batch), self.pace.rows_max()):
                self.pace.take(piece.num_rows)
                answer = self.client.publish(
                    self.exchange or DEFAULT_EXCHANGE, encoded(piece), self.producer, sequence
                )
                self._check(answer)
                again += int(answer["duplicates"])
                sequence += piece.num_rows
        return again

    def _check(self, answer: dict[str, int]) -> None:
        if answer["refused"]:
            raise PublishError(
                f"the broker refused {answer['refused']} of {answer['rows']} rows: a queue behind "
                f"the exchange is full (x-overflow = reject-publish)"
            )
        if answer["unroutable"] and self.unroutable_fails:
            raise PublishError(
                f"{answer['unroutable']} of {answer['rows']} rows went to no queue: bind one, or "
                f"allow it (--unroutable ignore)"
            )


def publishable(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return the columns that can be published, as the broker wants them.

    `user_id` is left out: the broker refuses messages in another user's name.
    """
    columns, fields = [], []
    for name in batch.schema.names:
        at = WRITABLE.get_field_index(name)
        if at < 0:
            continue
        column, kind = batch.column(name), WRITABLE.field(at).type
        if name == "properties":
            column = without_user(column)
            kind = column.type
        elif name == "body" and pa.types.is_string(column.type):
            kind = column.type
        columns.append(column.cast(kind))
        fields.append(pa.field(name, kind))
    return pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields))


def without_user(properties: pa.StructArray) -> pa.StructArray:
    """Return properties without `user_id`, in the types of the schema."""
    target = WRITABLE.field("properties").type
    kept = [
        target.field(properties.type.field(at).name)
        for at in range(properties.type.num_fields)
        if properties.type.field(at).name != "user_id"
    ]
    parts = [properties.field(part.name).cast(part.type) for part in kept]
    return pa.StructArray.from_arrays(parts, fields=kept, mask=properties.is_null())
