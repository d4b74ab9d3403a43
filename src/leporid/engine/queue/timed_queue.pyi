# ruff: noqa: PYI021 - what a name is for should be seen where it is looked up
"""Types of timed_queue.pyx."""

from leporid.engine.queue.queue import Queue

class TimedQueue(Queue):
    """A queue that nobody sees and that sends by time what is in it."""
