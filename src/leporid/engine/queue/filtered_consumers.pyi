# ruff: noqa: PYI021 - what a name is for should be seen where it is looked up
"""Types of selection.pyx."""

from leporid.engine.queue.queue import Queue
from leporid.engine.queue.takers import Taker, Takers

class SelectorGroup(Taker):
    """What some consumers want; used by the engine only."""

class GroupConsumers(Takers):
    """The consumers of one group; used by the engine only."""

class FilteredConsumers:
    """The selection of one queue's consumers; used by the engine only."""

    def __init__(self, queue: Queue) -> None: ...
