"""What a browse or a lease shows, read the way that HTTP reads it."""

from __future__ import annotations

from typing import Any

from leporid.engine.queue.browse import Browse, QueueWindow
from leporid.engine.queue.lease import Lease
from leporid.engine.queue.queue import Queue
from leporid.engine.tables.arrow import ENTRY_COLUMNS, columns_of
from leporid.engine.tables.chosen import Chosen
from leporid.management.tables import batch_of, schema_of

COLUMNS = ("offset", "body", *ENTRY_COLUMNS)


def rows_of(window: QueueWindow, **filters: Any) -> list[dict[str, Any]]:
    rows, built = columns_of(window, COLUMNS, stream="q", chosen=Chosen(window, **filters))
    batch = batch_of(schema_of(COLUMNS, {}), rows, built)
    batch.validate(full=True)
    found: list[dict[str, Any]] = batch.to_pylist()
    return found


def shown(
    queue: Queue, *, rows_max: int = 1000, bytes_max: int = 10**9, **options: Any
) -> list[dict[str, Any]]:
    """All that a browse shows."""
    browse = Browse(queue, **options)
    found = []
    while not browse.done:
        with browse.window(rows_max, bytes_max) as window:
            found += rows_of(window)
    return found


def bodies(queue: Queue, **options: Any) -> list[bytes]:
    return [row["body"] for row in shown(queue, **options)]


def leased(lease: Lease, rows_max: int = 1000) -> list[dict[str, Any]]:
    """All that a lease shows."""
    found = []
    at = 0
    while at < lease.count:
        with lease.window(at, lease.count, rows_max, 10**9) as window:
            found += rows_of(window)
            at = window.end
    return found
