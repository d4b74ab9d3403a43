# ruff: noqa: PYI021 - what a name is for should be seen where it is looked up
"""Types of backlog.pyx."""

from leporid.engine.engine import Engine
from leporid.engine.queue.timed_queue import TimedQueue

class Backlog(TimedQueue):
    """What waits for room in one queue."""

    def __init__(self, engine: Engine, queue_id: int, name: str, durable: bool) -> None: ...
