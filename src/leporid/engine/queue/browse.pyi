# ruff: noqa: PYI021 - what a name is for should be seen where it is looked up
"""Types of browse.pyx."""

from leporid.engine.log.window import Window
from leporid.engine.queue.queue import Queue

class QueueWindow(Window):
    """Some messages of a queue; to be closed."""

class Browse:
    """One look through a queue, which changes nothing in it."""

    def __init__(self, queue: Queue, first: int = ..., unacked: bool = ...) -> None: ...
    @property
    def queue(self) -> Queue: ...
    @property
    def end(self) -> int:
        """Sequence numbers from here on came later, and are not shown."""

    @property
    def done(self) -> bool:
        """Whether there is nothing more."""

    def window(self, rows_max: int, bytes_max: int) -> QueueWindow:
        """The next messages in order of delivery; none are no sign of the end, `done` is."""
