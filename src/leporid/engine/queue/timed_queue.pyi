# ruff: noqa: PYI021 - what a name is for should be seen where it is looked up
"""Types of timed_queue.pyx."""

from leporid.engine.queue.queue import Queue

class TimedQueue(Queue):
    """A hidden queue that sends its messages by time."""
