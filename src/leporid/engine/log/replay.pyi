# ruff: noqa: PYI021 - what a name is for should be seen where it is looked up
"""Types of replay.pyx."""

from typing_extensions import Buffer

from leporid.engine.log.logs import Logs
from leporid.engine.log.reports import SegmentReport

class Replay:
    """Applies segments to `Logs`, oldest first; given None it only verifies them."""

    def __init__(self, of: Logs | object | None) -> None: ...
    @property
    def highest_queue_id(self) -> int:
        """Of the durable queues in the facts."""

    def segment(self, number: int, mapping: Buffer) -> SegmentReport:
        """Verify and apply one segment's file; raises SegmentUnreadable."""

    def check_header(self, number: int, header: bytes) -> int:
        """Verify a segment's header; returns its salt."""

    def finish(self, missing: bool = False) -> bool:
        """Every segment was applied, or `missing`; returns if the last shutdown was orderly."""
