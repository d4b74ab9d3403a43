# ruff: noqa: PYI021 - what a name is for should be seen where it is looked up
"""Types of browse.pyx."""

from collections.abc import Generator

from leporid.engine.log.window import Window
from leporid.engine.queue.queue import Queue

class QueueWindow(Window):
    """Some messages of a queue; to be closed."""

class Browse:
    """One pass through a queue, which does not change it."""

    def __init__(
        self, queue: Queue, first: int = ..., unacked: bool = ..., by_arrival: bool = ...
    ) -> None: ...
    @property
    def queue(self) -> Queue: ...
    @property
    def at(self) -> int:
        """The sequence number that is looked at next."""

    @property
    def end(self) -> int:
        """Later entries, from this sequence number on, are not shown."""

    @property
    def done(self) -> bool:
        """Whether all were shown."""

    def window(self, rows_max: int, bytes_max: int) -> QueueWindow:
        """The next messages in order of delivery; an empty window is not the end: see `done`."""

def snapshot(queue: Queue) -> Generator[tuple[str, str, bytes, bytes]]:
    """Ready messages in order of arrival, one by one: (exchange, routing key, properties, body).

    Those that were ready when the first was taken; they stay where they are until the last was.
    """
