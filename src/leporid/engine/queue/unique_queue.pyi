# ruff: noqa: PYI021 - what a name is for should be seen where it is looked up
"""Types of unique_queue.pyx."""

from leporid.engine.queue.queue import Queue

def dedup_key(properties: bytes) -> bytes | None:
    """The key of a message with these encoded properties; None: it is not compared."""

class UniqueQueue(Queue):
    """A queue of which no two messages have the same key; made by `Engine.unique_queue`."""

    @property
    def known(self) -> int:
        """How many keys it remembers."""
