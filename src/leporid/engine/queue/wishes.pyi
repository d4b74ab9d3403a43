# ruff: noqa: PYI021 - what a name is for should be seen where it is looked up
"""Types of wishes.pyx."""

from leporid.engine.queue.queue import Queue
from leporid.engine.queue.takers import Taker, Takers

class Wish(Taker):
    """What some consumers want; used by the engine only."""

class Party(Takers):
    """The consumers of one wish; used by the engine only."""

class Wishes:
    """The wishes of one queue's consumers; used by the engine only."""

    def __init__(self, queue: Queue) -> None: ...
