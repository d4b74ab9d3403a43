# ruff: noqa: PYI021 - what a name is for should be seen where it is looked up
"""Types of queues.pyx."""

from leporid.engine.bounds.clock import Clock
from leporid.engine.bounds.jobs import Jobs
from leporid.engine.log.logs import Entries, Logs
from leporid.engine.queue.counters import DeliveryCounts, Totals
from leporid.engine.queue.dead_lettering import DeadLettering
from leporid.engine.queue.timers import Timers

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
    def timers(self) -> Timers:
        """Of messages with a time to live, those of some that are gone included."""

    @property
    def held(self) -> Timers:
        """Of messages that come back after a delay, likewise."""

    @property
    def late(self) -> bool:
        """A turn had no time for all timers that were due."""

    @property
    def counts_by_type(self) -> dict[str, DeliveryCounts]:
        """Of the deliveries of all queues of a type; the type of queues that are hidden is ""."""

    def counts_in(self, vhost: str) -> DeliveryCounts:
        """Return the deliveries of all queues of a virtual host, as of now."""

    def forget_counts(self, vhost: str) -> None:
        """A virtual host is gone: its deliveries stay in the totals."""

    @property
    def published(self) -> int:
        """Messages routed to a queue."""

    @property
    def routed(self) -> int:
        """Queues that clients' messages were routed to; one for two queues counts twice."""

    @property
    def delivered(self) -> int:
        """Deliveries to consumers."""

    @property
    def got(self) -> int:
        """Deliveries by basic.get, and into leases."""

    @property
    def acked(self) -> int:
        """Deliveries that were acknowledged."""

    @property
    def redelivered(self) -> int: ...
    @property
    def received_confirm(self) -> int:
        """Messages that channels in confirm mode have sent, as of the last turn."""

    @property
    def confirmed(self) -> int:
        """Messages that were confirmed by basic.ack."""

    @property
    def nacked(self) -> int:
        """Messages that were refused, by basic.nack."""

    @property
    def returned(self) -> int:
        """Messages returned as unroutable; they are among the unroutable."""

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
