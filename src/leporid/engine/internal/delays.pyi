# ruff: noqa: PYI021 - what a name is for should be seen where it is looked up
"""Types of delays.pyx."""

from collections.abc import Callable

from leporid.engine.queue.counters import Totals
from leporid.engine.queue.timed_queue import TimedQueue
from leporid.engine.queue.timers import Timers

def delay_of(raw: bytes) -> int:
    """How long an x-delayed-message exchange delays a message with these properties; 0: not at all.

    Raises:
        PreconditionFailed: the delay is longer than the limit.
    """

class DelayTotals(Totals):
    """The delayed messages of several exchanges together, also of those that are gone."""

    @property
    def fired(self) -> int: ...
    @property
    def cancelled(self) -> int: ...
    @property
    def unroutable(self) -> int: ...

class Delays(TimedQueue):
    """The delayed messages of one exchange; made by `Engine.delays`."""

    on_unroutable: Callable[[], None] | None
    """Called for each message that was unroutable when it was due."""

    @property
    def fired(self) -> int:
        """Messages that were published when they were due, since the start."""

    @property
    def cancelled(self) -> int: ...
    @property
    def unroutable(self) -> int:
        """Fired messages that were routed to no queue."""

    @property
    def due(self) -> Timers:
        """Of every entry, and of some that are gone."""

    def count_delays_in(self, totals: DelayTotals) -> None:
        """Have its counts among others from now on, before the first message."""

    def message(self, seq: int) -> tuple[int, int, str, str, int, bytes] | None:
        """(due_ms, came_ms, exchange, key, body_bytes, properties) of a waiting message."""

    def content(self, seq: int) -> tuple[bytes, bytes]:
        """(properties, body) of a waiting message, which must exist."""

    def cancel(self, seq: int) -> bool:
        """Drop a waiting message; returns whether there was one."""

    def count_due(self, edges: list[int], counts: list[int], at: int, most: int) -> int:
        """Add to `counts` how many of up to `most` timers are due between which `edges`.

        Returns where to go on, 0 after the last one.
        """

    def upcoming(self, limit: int, after: tuple[int, int] | None = None) -> list[int]:
        """The numbers of the next messages; `after` is (due_ms, number) of the last one listed."""
