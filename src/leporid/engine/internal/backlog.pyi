# ruff: noqa: PYI021 - what a name is for should be seen where it is looked up
"""Types of backlog.pyx."""

from leporid.engine.queue.timed_queue import TimedQueue

class Backlog(TimedQueue):
    """The messages that wait for room in one queue."""
