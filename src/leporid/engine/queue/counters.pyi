# ruff: noqa: PYI021 - what a name is for should be seen where it is looked up
"""Types of counters.pyx."""

class Totals:
    """Messages in several queues together, as of now.

    Args:
        backlogs: those in the backlogs of these queues.
    """

    def __init__(self, backlogs: Totals | None = None) -> None: ...
    @property
    def ready(self) -> int: ...
    @property
    def unacked(self) -> int: ...
    @property
    def held(self) -> int: ...
    @property
    def published(self) -> int:
        """Messages that clients published to the exchanges that count here, since the start."""

    @property
    def backlogs(self) -> Totals | None: ...

class DeliveryCounts:
    """Those of one queue, or of several together, since the start."""

    @property
    def delivered(self) -> int:
        """To consumers that acknowledge."""

    @property
    def delivered_no_ack(self) -> int:
        """To consumers that do not."""

    @property
    def got(self) -> int:
        """By basic.get with acknowledgement, or into a lease."""

    @property
    def got_no_ack(self) -> int:
        """By basic.get without."""

    @property
    def get_empty(self) -> int:
        """How often basic.get found no message."""

    @property
    def redelivered(self) -> int:
        """Deliveries of any way that were not the message's first."""

    @property
    def acked(self) -> int:
        """Deliveries that were acknowledged; not those that were rejected."""

    @property
    def total(self) -> int:
        """Deliveries in all four ways."""
