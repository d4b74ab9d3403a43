# ruff: noqa: PYI021 - what a name is for should be seen where it is looked up
"""Types of delays.pyx."""

from collections.abc import Callable

from leporid.engine.queue.timed_queue import TimedQueue

def delay_of(raw: bytes) -> int:
    """How long an x-delayed-message exchange keeps a message with these properties; 0: it does not.

    Raises:
        PreconditionFailed: longer than anything may be kept.
    """

class Delays(TimedQueue):
    """Made by `Engine.delays`."""

    on_unroutable: Callable[[], None] | None
    """Called for each message that came to no queue when it was due."""

    @property
    def fired(self) -> int:
        """Messages that went their way, since the start."""

    @property
    def cancelled(self) -> int: ...
    @property
    def unroutable(self) -> int:
        """Of those that were fired: there was no queue for them."""

    def message(self, seq: int) -> tuple[int, int, str, str, int, bytes] | None:
        """(due_ms, came_ms, exchange, key, body_bytes, properties) of what waits under a number."""

    def content(self, seq: int) -> tuple[bytes, bytes]:
        """(properties, body) of what waits under a number, which must be there."""

    def cancel(self, seq: int) -> bool:
        """Drop what waits under a number; returns whether it was there."""

    def upcoming(self, limit: int, after: tuple[int, int] | None = None) -> list[int]:
        """The numbers of what is due next; `after` is (due_ms, number) of the last one known."""
