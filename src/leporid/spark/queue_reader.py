"""Reading a queue as a batch: what is ready when the task asks, or what a lease holds.

Must not know who takes and ends leases; see drain. What leaves this module for an executor is
`QueueReader.read` with a pickled copy of the object, so that everything it needs is in its fields.

Invariant: of a lease each message is given once, or the task fails. A browse is one task, since two
would see the queue at two moments; it is begun again only while nothing of it was given.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from leporid.spark.errors import BrokerError, CutError, LeaseError, sentences_alone
from leporid.spark.features import DataSourceReader, InputPartition
from leporid.spark.http import Client, Pauses, client_for, passing
from leporid.spark.options import Connection, QueueReading
from leporid.spark.schema import project

log = logging.getLogger(__name__)

# What the broker says of a lease that is no more.
ENDED = {404, 410}


class QueuePart(InputPartition):
    """What one task reads: messages [start, end) of a lease, or (None) all that are ready."""

    def __init__(self, start: int = 0, end: int | None = None) -> None:
        super().__init__((start, end))

    def __repr__(self) -> str:
        start, end = self.value
        return "all that are ready" if end is None else f"[{start}, {end})"


@sentences_alone("partitions", "read")
class QueueReader(DataSourceReader):
    """Reads a queue, once, and changes nothing in it."""

    def __init__(self, connection: Connection, reading: QueueReading, schema: pa.Schema) -> None:
        self.connection = connection
        self.reading = reading
        self.schema = schema

    def partitions(self) -> list[InputPartition]:
        """Divide a lease among tasks."""
        if self.reading.lease is None:
            return [QueuePart()]
        count = self.reading.lease_messages
        parts = min(self.reading.partitions_min, count)
        return [QueuePart(count * at // parts, count * (at + 1) // parts) for at in range(parts)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Give the messages of a task."""
        start, end = partition.value
        client = client_for(self.connection)
        if end is None:
            return self._browse(client)
        return self._leased(client, start, end)

    def _browse(self, client: Client) -> Iterator[pa.RecordBatch]:
        reading = self.reading
        query = {
            **self._query(),
            "limit": reading.limit,
            "unacked": "true" if reading.unacked else None,
        }
        pauses = Pauses(client.to.retry_ms / 1000)
        given = False
        while True:
            try:
                for batch in self._batches(client, None, query):
                    given = True
                    yield batch
                return
            except (CutError, BrokerError) as error:
                if given or not passing(error) or not pauses.pause(error):
                    raise

    def _leased(self, client: Client, start: int, end: int) -> Iterator[pa.RecordBatch]:
        reading = self.reading
        pauses = Pauses(client.to.retry_ms / 1000)
        while start < end:
            query = {**self._query(), "from": start, "to": end}
            try:
                for batch in self._batches(client, reading.lease, query):
                    start += batch.num_rows
                    pauses.succeeded()
                    yield batch
                if start < end:
                    raise CutError(
                        f"messages of queue {reading.queue!r}: {end - start} rows are missing from "
                        f"an answer that looked whole"
                    )
            except CutError as error:
                log.debug("going on at message %d of the lease", start)
                if not pauses.pause(error):
                    raise
            except BrokerError as error:
                if error.status in ENDED:
                    raise LeaseError(
                        f"a lease of queue {reading.queue!r} ended while it was read: {error}"
                    ) from error
                if not passing(error) or not pauses.pause(error):
                    raise

    def _query(self) -> dict[str, Any]:
        return {
            "columns": ",".join(self.schema.names),
            "compression": self.reading.compression,
            "batch_rows": min(self.reading.batch_rows, BATCH_ROWS_MAX),
        }

    def _batches(
        self, client: Client, lease: str | None, query: dict[str, Any]
    ) -> Iterator[pa.RecordBatch]:
        """Give the batches of one answer; it is whole, or it is an error."""
        with client.messages(self.reading.queue, lease, query) as body:
            for batch in body.batches():
                yield project(batch, self.schema)


# What the broker allows in one batch.
BATCH_ROWS_MAX = 100_000
