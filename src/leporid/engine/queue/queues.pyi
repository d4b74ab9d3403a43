# ruff: noqa: PYI021 - what a name is for should be seen where it is looked up
"""Types of queues.pyx."""

from leporid.engine.bounds.clock import Clock
from leporid.engine.bounds.jobs import Jobs
from leporid.engine.log.logs import Entries, Logs
from leporid.engine.queue.dead_lettering import DeadLettering
from leporid.engine.queue.queue import Totals

class Queues(Entries):
    """What all queues share, and counters of messages since the start; made by `Engine`."""

    def __init__(self, logs: Logs, jobs: Jobs) -> None: ...
    @property
    def logs(self) -> Logs: ...
    @property
    def clock(self) -> Clock: ...
    @property
    def uncounted(self) -> Totals:
        """Of queues that nobody counts."""

    @property
    def dead_lettering(self) -> DeadLettering: ...
    @property
    def next_due_ms(self) -> int:
        """When the next entry expires or is released; UINT64_MAX: none does."""

    @property
    def late(self) -> bool:
        """A turn had no time for all timers that were due."""

    @property
    def published(self) -> int:
        """Messages routed to a queue."""

    @property
    def delivered(self) -> int:
        """Deliveries to consumers."""

    @property
    def got(self) -> int:
        """Deliveries by basic.get."""

    @property
    def acked(self) -> int:
        """Deliveries settled for good."""

    @property
    def confirmed(self) -> int: ...
    @property
    def returned(self) -> int: ...
    @property
    def redelivered(self) -> int: ...
    @property
    def unroutable(self) -> int:
        """Messages that were routed to no queue."""

    @property
    def requeued(self) -> int: ...
    @property
    def expired(self) -> int: ...
    @property
    def timed_out(self) -> int:
        """Deliveries that were not settled in time."""
